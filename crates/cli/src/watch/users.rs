//! Names of users, as far as `/etc/passwd` knows them.

use std::collections::BTreeMap;

/// Bytes of the list that are read at most; of who comes later the number is shown.
const LIST_BYTES: u64 = 4 << 20;

/// Numbers and names.
#[derive(Debug, Clone, Default)]
pub struct Users {
    names: BTreeMap<u32, String>,
}

impl Users {
    /// Reads the machine's list; empty when it cannot be read.
    #[must_use]
    pub fn of_this_machine() -> Users {
        use std::io::Read;
        let mut text = Vec::new();
        if let Ok(file) = std::fs::File::open("/etc/passwd") {
            let _ = file.take(LIST_BYTES).read_to_end(&mut text);
        }
        Users::parse(&String::from_utf8_lossy(&text))
    }

    /// Reads lines in the form of passwd(5). Of two names of one number the first counts.
    #[must_use]
    pub fn parse(text: &str) -> Users {
        let mut names = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(number)) = (fields.next(), fields.nth(1))
                && let Ok(number) = number.parse()
            {
                names.entry(number).or_insert_with(|| name.to_owned());
            }
        }
        Users { names }
    }

    /// The number of a name, or a number itself.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        let known = self.names.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
        known.or_else(|| name.parse().ok())
    }

    /// The name, or else the number.
    #[must_use]
    pub fn name(&self, user: u32) -> String {
        self.names.get(&user).cloned().unwrap_or_else(|| user.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let users = Users::parse("root:x:0:0::/:/bin/sh\ntoor:x:0:0::/:\nodd\nana:x:1000:1000:::\n");
        assert_eq!([0, 1000, 7].map(|user| users.name(user)), ["root", "ana", "7"]);
        assert_eq!(
            ["ana", "7", "-", "odd"].map(|name| users.number(name)),
            [Some(1000), Some(7), None, None]
        );
    }
}
