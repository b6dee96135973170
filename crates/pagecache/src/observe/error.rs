//! What can go wrong with an observer.

/// Why observation is not possible, or not for this file or process.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The capabilities are there, and a filter of system calls is as well.
    #[error("the kernel refuses bpf(2), most likely for a seccomp profile, as container engines have one")]
    Filtered,
    /// The process lacks privileges.
    #[error("observing the page cache needs {lacking}: run as root, or give the capabilities to the program")]
    NotPermitted {
        /// The capabilities that lack, in words.
        lacking: String,
    },
    /// There are too few descriptors, of which each map and each program takes one or two.
    #[error("observing takes up to {needed} open files, and so many may not be opened here (ulimit -n)")]
    FewDescriptors {
        /// So many.
        needed: usize,
    },
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information at /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): {source}"
    )]
    BtfAbsent {
        /// What reading it gave.
        source: std::io::Error,
    },
    /// A tracepoint or a function that is needed is not in this kernel.
    #[error("this kernel has no {place}; Linux 6.1 or later has what is needed")]
    PlaceAbsent {
        /// Its kind and name.
        place: String,
    },
    /// Processes cannot be looked at by the numbers that they have here.
    #[error("/proc is not mounted, or shows another pid namespace: mount this one's (unshare --mount-proc)")]
    PidNamespace,
    /// The ring's size is not one that the kernel takes.
    #[error(
        "a ring of {ring_bytes} bytes: it must be a power of two, at least one page ({page_bytes}) and at most 1 GiB"
    )]
    RingSize {
        /// What was asked for.
        ring_bytes: u32,
        /// The machine's page size.
        page_bytes: u32,
    },
    /// The table of files is full.
    #[error("no more than {limit} files can be managed or ignored at a time")]
    FilesFull {
        /// The limit.
        limit: u32,
    },
    /// The process to be tracked does not exist (any more).
    #[error("there is no process {tgid}")]
    NoSuchProcess {
        /// Its number.
        tgid: u32,
    },
    /// The kernel refused one of the programs.
    #[error("the kernel refused the BPF program {program}: {reason}")]
    ProgramRefused {
        /// Name of the program.
        program: &'static str,
        /// The kernel's or the loader's words.
        reason: String,
    },
    /// Loading the object or its maps failed.
    #[error("loading the BPF object failed: {source}")]
    Object {
        /// The loader's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operation on a map failed.
    #[error("the BPF map {map} failed: {source}")]
    Map {
        /// Its name.
        map: &'static str,
        /// The loader's words.
        source: Box<aya::maps::MapError>,
    },
    /// A map could not be mapped into memory, or a wait failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}
