//! The system calls of a running service and of its broker, as filters of seccomp(2).
//!
//! The list was made from what the tests of the service do (they run with [`super::Confinement::Ends`]), from what the
//! C library may do instead on other versions, and with arguments where a call can do much more than it is needed for.

use super::ConfineError;

/// Whose calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Service,
    Broker,
}

/// On other machines there is no list.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(super) fn apply(_whose: Whose, _strict: bool) -> Result<(), ConfineError> {
    Ok(())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub(super) use filter::apply;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod filter {
    use std::collections::BTreeMap;
    use std::io;

    use libc::c_long;
    use seccompiler::{
        BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
        SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
    };

    use super::{ConfineError, Whose};

    /// With any arguments.
    const ANY: &[c_long] = &[
        // Files that are open.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_lseek,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_fcntl,
        libc::SYS_getdents64,
        // What lies between two files on a disk with an arm.
        libc::SYS_io_setup,
        libc::SYS_io_submit,
        libc::SYS_io_getevents,
        libc::SYS_io_destroy,
        // Names.
        libc::SYS_statx,
        libc::SYS_newfstatat,
        libc::SYS_readlinkat,
        libc::SYS_getcwd,
        // The socket and its lock, at the end.
        libc::SYS_unlinkat,
        // What is cached.
        libc::SYS_fadvise64,
        libc::SYS_readahead,
        libc::SYS_mincore,
        CACHESTAT,
        libc::SYS_pidfd_open,
        // Clients.
        libc::SYS_accept4,
        libc::SYS_recvmsg,
        libc::SYS_recvfrom,
        libc::SYS_sendmsg,
        libc::SYS_sendto,
        libc::SYS_shutdown,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_getsockname,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_ppoll,
        libc::SYS_eventfd2,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        // Threads of its own. Of which kind a new one is, clone(2) says below; clone3(2) is answered before.
        libc::SYS_clone3,
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_getparam,
        libc::SYS_ioprio_set,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getppid,
        // The guard process at the end.
        libc::SYS_wait4,
        libc::SYS_waitid,
        // Signals and time.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
        libc::SYS_getrusage,
        libc::SYS_sysinfo,
    ];

    /// With any arguments, for the broker alone: other processes' open files and mappings, and files by their inodes.
    const ANY_OF_BROKER: &[c_long] =
        &[libc::SYS_process_madvise, libc::SYS_pidfd_getfd, libc::SYS_name_to_handle_at];

    /// Older calls for the same, which newer machines lack.
    #[cfg(target_arch = "x86_64")]
    const ANY_OLD: &[c_long] = &[
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_readlink,
        libc::SYS_unlink,
        libc::SYS_poll,
        libc::SYS_epoll_wait,
        libc::SYS_dup2,
        libc::SYS_getdents,
        libc::SYS_arch_prctl,
        libc::SYS_time,
        libc::SYS_gettimeofday,
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const ANY_OLD: &[c_long] = &[libc::SYS_gettimeofday];

    /// `cachestat(2)`, the same on all machines; not in every libc.
    const CACHESTAT: c_long = 451;

    /// Flags of open(2) by which something may be changed or made.
    const WRITING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE)
        as u64
        & !(libc::O_DIRECTORY as u64);

    /// Requests of ioctl(2): where the blocks of a file are, its generation, what waits in a socket, whether it blocks,
    /// whether it is a terminal.
    const REQUESTS: [u64; 5] = [0xc020_660b, 0x8008_7601, 0x541b, 0x5421, 0x5401];

    /// Commands of bpf(2) (`include/uapi/linux/bpf.h`): looking up, updating and deleting what is in a map, the next
    /// key, running a loaded program, and what a loaded thing is. None that loads, makes or attaches.
    const BPF_COMMANDS: [u64; 6] = [1, 2, 3, 4, 10, 15];

    /// `PR_SET_NAME` and `PR_SET_VMA`, the latter of newer C libraries.
    const PRCTL: [u64; 2] = [libc::PR_SET_NAME as u64, 0x5356_4d41];

    /// Compiles and installs the filter, for all threads. With `strict` a call that is not on the list ends the
    /// process.
    pub(in super::super) fn apply(whose: Whose, strict: bool) -> Result<(), ConfineError> {
        let otherwise =
            if strict { SeccompAction::KillProcess } else { SeccompAction::Errno(libc::EPERM as u32) };
        // What clone3(2) is asked for stands in memory, where a filter cannot look: the C library takes clone(2) then.
        let missing: BTreeMap<c_long, Vec<SeccompRule>> = [(libc::SYS_clone3, Vec::new())].into();
        install(missing, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
        install(allowed(whose).map_err(wrong)?, otherwise, SeccompAction::Allow)
    }

    fn install(
        rules: BTreeMap<c_long, Vec<SeccompRule>>,
        otherwise: SeccompAction,
        action: SeccompAction,
    ) -> Result<(), ConfineError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(wrong)?;
        let filter = SeccompFilter::new(rules, otherwise, action, arch).map_err(wrong)?;
        let program: BpfProgram = filter.try_into().map_err(wrong)?;
        apply_filter_all_threads(&program).map_err(|error| match error {
            Error::Prctl(source) | Error::Seccomp(source) => failed(source),
            other => wrong(other),
        })
    }

    fn failed(source: io::Error) -> ConfineError {
        ConfineError { what: "system calls", source }
    }

    fn wrong(error: impl std::fmt::Display) -> ConfineError {
        failed(io::Error::other(error.to_string()))
    }

    type Rules = Result<Vec<SeccompRule>, seccompiler::BackendError>;

    /// Argument `at` has none of these bits.
    fn without(at: u8, bits: u64) -> Rules {
        one_of(at, Is::MaskedEq(bits), &[0])
    }

    fn one_of(at: u8, is: Is, values: &[u64]) -> Rules {
        let rule = |value: &u64| {
            SeccompRule::new(vec![SeccompCondition::new(at, Length::Dword, is.clone(), *value)?])
        };
        values.iter().map(rule).collect()
    }

    fn allowed(whose: Whose) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, seccompiler::BackendError> {
        let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
            ANY.iter().chain(ANY_OLD).map(|call| (*call, Vec::new())).collect();
        // Opened for reading only.
        rules.insert(libc::SYS_openat, without(2, WRITING)?);
        if whose == Whose::Broker {
            rules.extend(ANY_OF_BROKER.iter().map(|call| (*call, Vec::new())));
            rules.insert(libc::SYS_open_by_handle_at, without(2, WRITING)?);
            rules.remove(&libc::SYS_accept4);
            rules.remove(&libc::SYS_unlinkat);
            #[cfg(target_arch = "x86_64")]
            rules.remove(&libc::SYS_unlink);
        }
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, without(1, WRITING)?);
        // Nothing that is mapped can be run.
        rules.insert(libc::SYS_mmap, without(2, libc::PROT_EXEC as u64)?);
        rules.insert(libc::SYS_mprotect, without(2, libc::PROT_EXEC as u64)?);
        rules.insert(libc::SYS_ioctl, one_of(1, Is::Eq, &REQUESTS)?);
        if whose == Whose::Service {
            rules.insert(libc::SYS_bpf, one_of(0, Is::Eq, &BPF_COMMANDS)?);
        }
        rules.insert(libc::SYS_prctl, one_of(0, Is::Eq, &PRCTL)?);
        // A thread, never a process.
        let thread = libc::CLONE_THREAD as u64;
        rules.insert(libc::SYS_clone, one_of(0, Is::MaskedEq(thread), &[thread])?);
        // Signals to itself: a panic that cannot be caught.
        let own = [u64::from(std::process::id())];
        rules.insert(libc::SYS_tgkill, one_of(0, Is::Eq, &own)?);
        // Limits are looked at and not set: the new ones are at address 0.
        let looked_at = SeccompCondition::new(2, Length::Qword, Is::Eq, 0)?;
        rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![looked_at])?]);
        Ok(rules)
    }
}
