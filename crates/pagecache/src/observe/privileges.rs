//! Which capabilities this process has, as `capabilities(7)` numbers them.

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

/// Whether the numbers of processes that this process sees are those of the kernel.
///
/// The initial pid namespace has a fixed inode number (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
pub(crate) fn in_initial_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
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
}
