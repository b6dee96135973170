//! Which capabilities this process has, as `capabilities(7)` numbers them.

use std::path::Path;

/// A capability that one of the mechanisms needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capability {
    /// Look into other processes: `pidfd_getfd(2)`, `process_madvise(2)`, `/proc/PID/fd` of another user.
    SysPtrace = 19,
    /// The older name for much of the others.
    SysAdmin = 21,
    /// Real-time scheduling.
    SysNice = 23,
    /// Programs that trace the kernel.
    Perfmon = 38,
    /// BPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Capability::SysPtrace => "CAP_SYS_PTRACE",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// The effective capabilities of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Those of the calling thread; none if `/proc` does not say.
    pub(crate) fn current() -> Capabilities {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Capabilities::from_status(&status)
    }

    fn from_status(status: &str) -> Capabilities {
        let bits = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        Capabilities(bits.unwrap_or(0))
    }

    /// Whether `capability` is there.
    pub(crate) fn has(self, capability: Capability) -> bool {
        self.0 >> (capability as u32) & 1 == 1
    }

    /// Those that lack for loading BPF programs which trace the kernel (`Documentation/bpf`, Linux 5.8:
    /// CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN in place of both), in words; `None` if nothing lacks.
    pub(crate) fn lacking_for_bpf(self) -> Option<String> {
        if self.has(Capability::SysAdmin) {
            return None;
        }
        let lacking: Vec<_> = [Capability::Bpf, Capability::Perfmon]
            .into_iter()
            .filter(|capability| !self.has(*capability))
            .map(Capability::name)
            .collect();
        (!lacking.is_empty()).then(|| format!("{} (or CAP_SYS_ADMIN)", lacking.join(" and ")))
    }
}

/// Whether system calls of this process are filtered (`Seccomp: 2` of proc_pid_status(5)).
pub(crate) fn has_seccomp_filter() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// Whether this process is in the machine's own user namespace, whose number is always the same (`PROC_USER_INIT_INO`,
/// `include/linux/proc_ns.h`): capabilities in another one are none for bpf(2).
pub(crate) fn is_in_the_hosts_user_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/user").is_ok_and(|link| link == Path::new("user:[4026531837]"))
}

/// The pid namespace of this process, by the number of its inode; 0 for the machine's own, where processes have the numbers
/// by which the kernel knows them. `None` when it is not known, or `/proc` shows the processes of another one.
pub(crate) fn pid_namespace() -> Option<u32> {
    let shown = std::fs::read_link("/proc/self").ok()?;
    if shown.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    number_of_namespace(std::fs::read_link("/proc/self/ns/pid").ok()?.to_str()?)
}

/// What a link of `/proc/self/ns/pid` says (namespaces(7)).
fn number_of_namespace(link: &str) -> Option<u32> {
    /// That of the machine has always this one (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
    const OF_THE_MACHINE: u32 = 0xEFFF_FFFC;
    let number = link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
    Some(if number == OF_THE_MACHINE { 0 } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_capability_lacks() {
        let of = |hex: &str| Capabilities::from_status(&format!("Name:\tx\nCapEff:\t{hex}\n"));
        assert_eq!(of("000001ffffffffff").lacking_for_bpf(), None);
        assert_eq!(of("0000000000200000").lacking_for_bpf(), None);
        assert_eq!(of("000000c000000000").lacking_for_bpf(), None);
        let lacking = "CAP_PERFMON (or CAP_SYS_ADMIN)";
        assert_eq!(of("0000008000000000").lacking_for_bpf().as_deref(), Some(lacking));
        let lacking = "CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN)";
        assert_eq!(of("0").lacking_for_bpf().as_deref(), Some(lacking));
        assert_eq!(Capabilities::from_status("").lacking_for_bpf().as_deref(), Some(lacking));
    }

    #[test]
    fn a_namespace_is_known_by_its_number() {
        assert_eq!(number_of_namespace("pid:[4026531836]"), Some(0));
        assert_eq!(number_of_namespace("pid:[4026532191]"), Some(4_026_532_191));
        assert_eq!(number_of_namespace("pid:[x]"), None);
        assert!(pid_namespace().is_some());
    }
}
