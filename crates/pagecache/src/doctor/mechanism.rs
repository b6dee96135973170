//! A mechanism of the kernel's, and whether it works here.

use serde::Serialize;

use crate::observe::ObserveError;

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
    pub(super) fn works(name: impl Into<String>, detail: impl Into<String>) -> Mechanism {
        Mechanism { name: name.into(), works: true, detail: detail.into(), used: true, remedy: None }
    }

    pub(super) fn fails(
        name: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Mechanism {
        let (detail, remedy) = (detail.into(), Some(remedy.into()));
        Mechanism { name: name.into(), works: false, detail, used: false, remedy }
    }

    pub(super) fn unused(self) -> Mechanism {
        Mechanism { used: false, ..self }
    }
}

/// What to do about an observer that could not be opened.
pub(super) fn remedy(error: &ObserveError) -> &'static str {
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
        ObserveError::FewDescriptors { .. } => "allow more open files, as by ulimit -n 1024",
        ObserveError::PlaceAbsent { .. } => "use Linux 6.1 or later",
        ObserveError::PidNamespace => "mount the /proc of this pid namespace (unshare --mount-proc)",
        _ => "see the kernel's words",
    }
}
