//! Where the service is, and what to do without one.

use std::path::PathBuf;

/// The environment variable that says what to do without a service: nothing unless it is `fadvise`.
const FALLBACK_VARIABLE: &str = "FORETELL_FALLBACK";

/// What hints do while there is no service. Directives are kept, and have no effect until there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// Nothing.
    #[default]
    Nothing,
    /// What a process can do by itself: the first 4 MiB of each call's disclosures are read ahead
    /// (`POSIX_FADV_WILLNEED`), ranges that are done with are dropped (`POSIX_FADV_DONTNEED`).
    Fadvise,
}

/// How a [`crate::Client`] is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The service's socket.
    pub socket: PathBuf,
    /// What to do without a service.
    pub fallback: Fallback,
}

impl Options {
    /// What the environment says: `FORETELL_SOCKET` (else `/run/foretell/foretelld.sock`) and
    /// `FORETELL_FALLBACK` (`fadvise`; anything else is nothing).
    #[must_use]
    pub fn from_environment() -> Options {
        let fadvise = std::env::var_os(FALLBACK_VARIABLE).is_some_and(|value| value == "fadvise");
        Options {
            socket: foretell_protocol::socket::path(),
            fallback: if fadvise { Fallback::Fadvise } else { Fallback::Nothing },
        }
    }
}
