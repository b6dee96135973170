//! Which of the kernel's mechanisms work here, found out by trying each one.
//!
//! Everything is tried on a temporary file of our own, on a child of our own or on the calling process, and
//! is taken back before [`examine`] returns. The file lies on a file system with a device behind it, because
//! files in memory can neither be evicted nor read ahead.

mod cache;
mod machine;
mod observation;

use serde::Serialize;

use crate::observe::{ObserveError, Observer, ObserverConfig};

/// One mechanism, and how it fared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mechanism {
    /// What it is, in the kernel's words.
    pub name: String,
    /// It did what it should.
    pub works: bool,
    /// What was seen.
    pub detail: String,
    /// `foretell run` relies on it or profits from it here. A fallback is not used where the first choice
    /// works.
    pub used: bool,
    /// What to do, where it does not work and that matters.
    pub remedy: Option<String>,
}

impl Mechanism {
    fn works(name: impl Into<String>, detail: impl Into<String>) -> Mechanism {
        Mechanism { name: name.into(), works: true, detail: detail.into(), used: true, remedy: None }
    }

    fn fails(name: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Mechanism {
        let (detail, remedy) = (detail.into(), Some(remedy.into()));
        Mechanism { name: name.into(), works: false, detail, used: false, remedy }
    }

    fn unused(self) -> Mechanism {
        Mechanism { used: false, ..self }
    }
}

/// Tries everything. Takes some tenths of a second; what is tried last depends on nothing tried first.
#[must_use]
pub fn examine() -> Vec<Mechanism> {
    let mut mechanisms = observation::examine();
    mechanisms.extend(cache::examine());
    mechanisms.extend(machine::examine());
    mechanisms
}

/// What keeps `foretell run` from controlling a program here, in one line; `None` if nothing does.
#[must_use]
pub fn missing_for_run() -> Option<String> {
    let smallest =
        ObserverConfig { wake_every: 0, ..ObserverConfig::with_ring(crate::observe::load::page_bytes()) };
    match Observer::open(smallest) {
        Ok(_) => cache::missing_for_run(),
        Err(lacking) => Some(lacking.to_string()),
    }
}

/// What to do about an observer that could not be opened.
fn remedy(error: &ObserveError) -> &'static str {
    match error {
        ObserveError::NotPermitted { .. } => {
            "run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_nice+ep on the program"
        }
        ObserveError::Filtered => {
            "give the container another profile, as by --security-opt seccomp=unconfined"
        }
        ObserveError::BtfAbsent { .. } => {
            "use a kernel built with CONFIG_DEBUG_INFO_BTF (distributions' are)"
        }
        ObserveError::PlaceAbsent { .. } => "use Linux 6.1 or later",
        ObserveError::PidNamespace => "mount the /proc of this pid namespace (unshare --mount-proc)",
        _ => "see the kernel's words",
    }
}
