//! Where the service is, and what to do without one.
//!
//! A program that runs with more rights than whoever started it (set-user-ID, file capabilities) does not
//! believe its environment, as secure_getenv(3) has it: it would pass its open files to a service of the
//! starter's choice.

#![allow(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;

use foretell_protocol::{DEFAULT_SOCKET, SOCKET_VARIABLE};

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
    /// `FORETELL_FALLBACK` (`fadvise`; anything else is nothing). In a program that runs with more rights than
    /// whoever started it, both count as not set.
    #[must_use]
    pub fn from_environment() -> Options {
        let fadvise = variable(FALLBACK_VARIABLE).is_some_and(|value| value == "fadvise");
        Options {
            socket: variable(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from),
            fallback: if fadvise { Fallback::Fadvise } else { Fallback::Nothing },
        }
    }
}

/// A variable of the environment, if that is to be believed and the variable is not empty.
fn variable(name: &str) -> Option<OsString> {
    // SAFETY: getauxval(3) only reads what the kernel gave to the process at its start.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if is_privileged { None } else { std::env::var_os(name).filter(|value| !value.is_empty()) }
}
