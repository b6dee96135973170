//! What stores are spoken to with: options and, of another process, its environment.
//!
//! The guests of a service ([`crate::Guest::of_service`]) read by a process that has no credentials of its own. Each says with
//! what its stores are to be spoken to, and has stores of its own there: what one client may read another one, with other
//! credentials, asks for itself.

use crate::wire::MOST_TEXT;

/// Beginnings of the names of variables that the stores' tools take credentials and addresses from.
const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// Options and variables of a guest at most.
pub(crate) const MOST_OPTIONS: usize = 256;

/// What a client's stores are spoken to with. Two that are equal share stores.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// Variables of its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Options, which go before these.
    pub(crate) options: Vec<(String, String)>,
}

impl Access {
    /// With these options, as `object_store` names them, and what the environment of this process says of stores.
    #[must_use]
    pub fn of_this_process(options: Vec<(String, String)>) -> Access {
        let named = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| is_of_a_store(name))?;
            Some((name, value.into_string().ok()?))
        });
        let mut environment: Vec<_> = named.collect();
        environment.sort();
        Access { environment, options }
    }

    /// All of it, first the environment's.
    pub(crate) fn both(&self) -> [&Vec<(String, String)>; 2] {
        [&self.environment, &self.options]
    }

    /// Why a host would not take it.
    pub(crate) fn check(&self) -> Result<(), String> {
        for pairs in self.both() {
            if pairs.len() > MOST_OPTIONS {
                return Err(format!("more than {MOST_OPTIONS} options of stores"));
            }
            if let Some((name, _)) = pairs.iter().find(|(a, b)| a.len().max(b.len()) > MOST_TEXT) {
                let name: String = name.chars().take(100).collect();
                return Err(format!("the option '{name}' is longer than {MOST_TEXT} bytes"));
            }
        }
        Ok(())
    }
}

fn is_of_a_store(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Without the values, among which there are secrets.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names =
            |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("Access")
            .field("environment", &names(&self.environment))
            .field("options", &names(&self.options))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_and_what_is_too_much_is_said() {
        let one = |name: &str, value: String| vec![(name.to_owned(), value)];
        let access = Access {
            environment: one("AWS_SECRET_ACCESS_KEY", "hush".to_owned()),
            options: one("token", "hush".to_owned()),
        };
        let shown = format!("{access:?}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && shown.contains("token"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        access.check().unwrap();
        let long = Access { options: one("token", "x".repeat(MOST_TEXT + 1)), ..Access::default() };
        assert_eq!(long.check().unwrap_err(), "the option 'token' is longer than 4096 bytes");
        let pair = ("a".to_owned(), "b".to_owned());
        let many = Access { environment: vec![pair; MOST_OPTIONS + 1], ..Access::default() };
        assert_eq!(many.check().unwrap_err(), "more than 256 options of stores");
    }

    #[test]
    fn of_the_environment_what_is_of_stores_is_taken() {
        assert!(is_of_a_store("AWS_REGION") && is_of_a_store("AZURE_STORAGE_KEY"));
        assert!(!is_of_a_store("PATH") && !is_of_a_store("MY_AWS_REGION"));
    }
}
