//! What errors of object_store come to.

use crate::source::Fault;

/// Where Amazon's, Microsoft's and Google's machines are told their credentials.
const METADATA: [&str; 2] = ["//169.254.169.254/", "//metadata.google.internal/"];

/// Why a request failed.
pub(crate) fn fault(error: object_store::Error) -> Fault {
    match error {
        // The library takes it for a folder.
        object_store::Error::NotFound { .. } if status(&error) == Some(405) => {
            Fault::Failed("its server does not allow what asks for the length (HEAD)".to_owned())
        }
        object_store::Error::NotFound { .. } => Fault::NotFound,
        object_store::Error::Precondition { .. } => Fault::Changed,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            Fault::Denied(one_line(&error))
        }
        error => {
            let why = one_line(&error);
            // Without any, the library asks the machine that this one runs on.
            if METADATA.iter().any(|host| why.contains(host)) {
                return Fault::Denied("none were given, and this machine has none of its own".to_owned());
            }
            let of_files = |cause: &(dyn std::error::Error + 'static)| {
                let error: Option<&std::io::Error> = cause.downcast_ref();
                error.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
            };
            if causes(&error).any(of_files) { Fault::Denied(why) } else { Fault::Failed(why) }
        }
    }
}

/// The same of a listing, of which the library says no more than that it failed.
pub(crate) fn list_fault(error: object_store::Error) -> Fault {
    if !matches!(error, object_store::Error::Generic { .. }) {
        return fault(error);
    }
    match status(&error) {
        Some(401 | 403) => Fault::Denied(one_line(&error)),
        Some(404) => Fault::NotFound,
        // Any server that does not speak WebDAV.
        Some(405 | 501) => Fault::Failed("its server has no listings".to_owned()),
        _ => fault(error),
    }
}

/// Is it the range that cannot be had, and maybe all else can? Of an empty object none can, and some servers give none at all.
pub(crate) fn is_of_range(error: &object_store::Error) -> bool {
    let is_said = |text: &str| {
        ["non-partial response", "Wanted range starting at"].iter().any(|why| text.contains(why))
    };
    matches!(error, object_store::Error::NotSupported { .. })
        || status(error) == Some(416)
        || matches!(error, object_store::Error::Generic { .. }) && is_said(&error.to_string())
}

/// What a server's answer was, as the library names it.
fn status(error: &object_store::Error) -> Option<u16> {
    let text = error.to_string();
    let (_, said) = text.split_once("non-2xx status code: ")?;
    said.get(..3)?.parse().ok()
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| cause.source())
}

/// What the library says and the last cause of it, without the line ends of servers' answers, and not without end.
pub(crate) fn one_line(error: &object_store::Error) -> String {
    let said = cut_line(&plain(&error.to_string()), 300);
    let cause = causes(error).last().map(|cause| cut_line(&plain(&cause.to_string()), 100));
    match cause {
        Some(cause) if !cause.is_empty() && !said.contains(cause.trim_end_matches(" ...")) => {
            format!("{said}: {cause}")
        }
        _ => said,
    }
}

/// What the library says, in so many words as it takes: "Generic S3 error: Error performing list request: Error performing GET URL in 3.4s,
/// after 10 retries, max_retries: 10, retry_timeout: 45s - HTTP error: REASON" says "GET URL, 10 times more: REASON".
fn plain(said: &str) -> String {
    let said = match said.strip_prefix("Generic ").and_then(|rest| rest.split_once(" error: ")) {
        Some((store, rest)) if !store.contains(' ') => rest,
        _ => said,
    };
    let said = said.replace("Error performing list request: ", "").replace("Error performing ", "");
    let Some((before, why)) = said.split_once(" - ") else { return said };
    let why = why.strip_prefix("HTTP error: ").unwrap_or(why);
    let Some((asked, how)) = before.rsplit_once(" in ") else { return said };
    let again = how.split_once(", after ").and_then(|(_, rest)| rest.split_once(" retries"));
    match again {
        Some((times, _)) => format!("{asked}, {times} times more: {why}"),
        None => format!("{asked}: {why}"),
    }
}

fn cut_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_listing_fails_with_is_told_apart() {
        let said = |status: &str| {
            let source = format!(
                "Error performing GET http://h/b - Server returned non-2xx status code: {status}: <x>"
            );
            list_fault(object_store::Error::Generic { store: "S3", source: source.into() })
        };
        assert_eq!(said("404 Not Found"), Fault::NotFound);
        assert!(matches!(said("403 Forbidden"), Fault::Denied(why) if why.contains("403")));
        assert_eq!(said("501 Not Implemented"), Fault::Failed("its server has no listings".to_owned()));
        assert!(matches!(said("500 Error"), Fault::Failed(why) if why.contains("500 Error")));
    }

    #[test]
    fn what_the_library_says_is_told_in_few_words() {
        let of =
            |source: &str| one_line(&object_store::Error::Generic { store: "S3", source: source.into() });
        let how = "in 3.389378262s, after 10 retries, max_retries: 10, retry_timeout: 45s - HTTP error: error sending request";
        let list = format!("Error performing list request: Error performing GET http://h/b?x=1 {how}");
        assert_eq!(of(&list), "GET http://h/b?x=1, 10 times more: error sending request");
        let once = "Error performing HEAD http://h/b in 329.9µs - Server returned non-2xx status code: 403 Forbidden: ";
        assert_eq!(of(once), "HEAD http://h/b: Server returned non-2xx status code: 403 Forbidden:");
        for other in ["connection refused", "in - of", "a - b"] {
            assert_eq!(of(other), other);
        }
    }

    #[test]
    fn the_last_cause_is_told() {
        let refused = std::io::Error::other(std::io::Error::other("connection\nrefused"));
        let error = object_store::Error::Generic { store: "S3", source: refused.into() };
        assert!(one_line(&error).contains("connection refused"), "{}", one_line(&error));
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(matches!(
            fault(object_store::Error::Generic { store: "file", source: denied.into() }),
            Fault::Denied(_)
        ));
    }

    #[test]
    fn who_has_no_credentials_is_told_so() {
        let asked = "Error performing PUT http://169.254.169.254/latest/api/token in 1s - timed out";
        let error = object_store::Error::Generic { store: "S3", source: asked.into() };
        let Fault::Denied(why) = fault(error) else { panic!("a store that failed") };
        assert_eq!(why, "none were given, and this machine has none of its own");
    }
}
