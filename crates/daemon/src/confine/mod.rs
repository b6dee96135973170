//! What the service gives up when it is set up: nobody who takes it over is to have more than it needs.
//!
//! Three steps. [`start_broker`] comes first: a process of its own gets what is as good as root ([`foretell_pagecache::Broker`]).
//! [`give_up_capabilities`] comes before the plane is opened, as a thread has the capabilities of the one that started it:
//! what the two processes have together is [`NEEDED`], which is what the systemd unit gives, also when root has started it
//! by hand. [`filter_calls`] comes last: from then on no thread starts a program or a process, opens anything for writing,
//! loads a BPF program, looks into the memory or the open files of a process, or makes a socket.
//!
//! What is left all the same stands in `docs/security.md`.

mod calls;

use std::io;
use std::os::fd::BorrowedFd;

use foretell_pagecache::{Broker, Options};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

/// What the service cannot do without; the unit file says what each is for, and a test compares the two.
pub const NEEDED: [&str; 6] =
    ["CAP_BPF", "CAP_PERFMON", "CAP_FOWNER", "CAP_DAC_READ_SEARCH", "CAP_SYS_PTRACE", "CAP_SYS_NICE"];

/// How much a service gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confinement {
    /// Nothing: it shares its process with somebody else, or is to be looked into.
    None,
    /// All that it does not need. A system call that is not on the list fails with `EPERM`.
    #[default]
    Errors,
    /// The same; such a call ends the process. For tests: the list lacks nothing then.
    Ends,
}

/// Why the service could not give up what it does not need.
#[derive(Debug, thiserror::Error)]
#[error("cannot give up {what}: {source}; --unconfined keeps everything")]
pub struct ConfineError {
    /// What it would have given up.
    pub what: &'static str,
    /// The system's reason.
    pub source: io::Error,
}

impl ConfineError {
    fn of(what: &'static str) -> impl Fn(rustix::io::Errno) -> ConfineError {
        move |source| ConfineError { what, source: source.into() }
    }
}

/// Those of [`NEEDED`] that the service itself keeps.
fn of_service() -> CapabilitySet {
    CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::FOWNER | CapabilitySet::SYS_NICE
}

/// Those that its broker keeps: `CAP_FOWNER` to leave the time of the last access as it is (`O_NOATIME`, open(2)).
fn of_broker() -> CapabilitySet {
    CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::SYS_NICE
        | CapabilitySet::FOWNER
}

/// Starts the process that opens files for this one and looks at programs, for a service that listens with this socket.
///
/// # Errors
/// The system's.
pub(crate) fn start_broker(
    listener: BorrowedFd<'_>,
    options: &Options,
    confinement: Confinement,
) -> Result<(), ConfineError> {
    let realtime_share = options.realtime.then_some(options.realtime_share);
    let confine = || {
        keep_capabilities(of_broker())
            .and_then(|()| calls::apply(calls::Whose::Broker, confinement == Confinement::Ends))
            .map_err(io::Error::other)
    };
    Broker::start(listener, realtime_share, confine)
        .map_err(|source| ConfineError { what: "the opening of files", source })
}

/// Leaves this thread, and those that it starts from now on, the capabilities that the service itself keeps, as far as it has
/// them, and no way to others: not by being root either.
///
/// # Errors
/// The system's.
pub(crate) fn give_up_capabilities() -> Result<(), ConfineError> {
    keep_capabilities(of_service())
}

fn keep_capabilities(kept: CapabilitySet) -> Result<(), ConfineError> {
    set_no_new_privs(true).map_err(ConfineError::of("new privileges"))?;
    let before = capabilities(None).map_err(ConfineError::of("capabilities"))?;
    if before.effective.contains(CapabilitySet::SETPCAP) {
        // Beyond the last one that the kernel knows there is none to be removed.
        for capability in CapabilitySet::all().difference(kept).iter() {
            let _ = remove_capability_from_bounding_set(capability);
        }
        let bits = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
        set_capabilities_secure_bits(bits)
            .map_err(ConfineError::of("the capabilities of root's programs"))?;
    }
    clear_ambient_capability_set().map_err(ConfineError::of("ambient capabilities"))?;
    let left = CapabilitySets {
        effective: before.effective & kept,
        permitted: before.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left).map_err(ConfineError::of("capabilities"))
}

/// Leaves all threads of this process the system calls that a running service makes.
///
/// # Errors
/// The system's. On a machine for which there is no list nothing is done.
pub(crate) fn filter_calls(confinement: Confinement) -> Result<(), ConfineError> {
    match confinement {
        Confinement::None => Ok(()),
        Confinement::Errors => calls::apply(calls::Whose::Service, false),
        Confinement::Ends => calls::apply(calls::Whose::Service, true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind::PermissionDenied;
    use std::process::Command;

    use super::*;

    const ROLE: &str = "FORETELLD_TEST_CONFINED";

    /// In a process of its own: what is given up does not come back.
    #[test]
    fn as_confined() {
        if std::env::var_os(ROLE).is_none() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "text").unwrap();
        give_up_capabilities().unwrap();
        let own = capabilities(None).unwrap();
        assert!(of_service().contains(own.permitted) && own.inheritable.is_empty());
        filter_calls(Confinement::Errors).unwrap();
        let kind = |result: io::Result<()>| result.err().map(|error| error.kind());
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        std::thread::spawn(|| ()).join().unwrap();
        let refused = [
            ("write", File::options().write(true).open(&path).map(drop)),
            ("append", File::options().append(true).open(&path).map(drop)),
            ("create", File::create(directory.path().join("g")).map(drop)),
            ("rename", std::fs::rename(&path, directory.path().join("g"))),
            ("link", std::os::unix::fs::symlink(&path, directory.path().join("g"))),
            ("directory", std::fs::create_dir(directory.path().join("g"))),
            ("memory of others", File::options().write(true).open("/proc/1/mem").map(drop)),
            ("program", Command::new("/bin/true").spawn().map(drop)),
            ("socket", std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
            ("owner", std::os::unix::fs::chown(&path, Some(1), None)),
        ];
        for (what, result) in refused {
            assert_eq!(kind(result), Some(PermissionDenied), "{what}");
        }
    }

    #[test]
    fn what_is_given_up_cannot_be_done() {
        let mut confined = Command::new("/proc/self/exe");
        confined.args(["--exact", "--nocapture", "confine::tests::as_confined"]).env(ROLE, "yes");
        let output = confined.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    #[test]
    fn the_names_are_those_of_the_set() {
        let of_set: Vec<String> =
            (of_service() | of_broker()).iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
        let mut named = NEEDED.map(str::to_owned).to_vec();
        let mut sorted = of_set;
        named.sort();
        sorted.sort();
        assert_eq!(named, sorted);
    }
}
