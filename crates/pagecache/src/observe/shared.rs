//! The two BPF arrays that are mapped into our memory, so that neither a system call nor a copy lies
//! between us and them: the table of tracked processes and the control block (`src/bpf/event.h`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Process numbers that Linux can give: `PID_MAX_LIMIT` of `include/linux/threads.h`.
const PROCESS_NUMBERS: u32 = 1 << 22;
/// Those that it gives unless somebody asks for more: `PID_MAX_DEFAULT`.
const FEW_NUMBERS: u32 = 1 << 15;

/// A mapped BPF array whose elements together are `T`.
///
/// `T` holds atomics only, because the kernel writes to the same memory.
pub(crate) struct Mapped<T> {
    at: NonNull<T>,
}

// SAFETY: the mapping belongs to no thread, and all access is through shared references to atomics.
unsafe impl<T: Sync> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps the array behind `fd`, which must have been created with `BPF_F_MMAPABLE` and be at least as
    /// large as `T`; the kernel refuses with `EINVAL` what is larger than the array.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Mapped<T>> {
        // SAFETY: a new mapping at an address that the kernel chooses; no memory of ours is touched.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast()).map(|at| Mapped { at }).ok_or_else(|| io::Error::from(io::ErrorKind::Other))
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: mapped until drop, page-aligned, at least size_of::<T>() bytes long, any bit pattern is a
        // value of `T` (atomic integers), and everybody who writes does so atomically.
        unsafe { self.at.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no reference outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), size_of::<T>()) };
    }
}

/// The table of tracked processes: a bit for each process number. Where no large ones are given it is a page instead of
/// half a megabyte, which is charged to the job's memory.
pub(super) enum Tracked {
    /// Of a machine on which all numbers may be given.
    All(Mapped<[AtomicU64; (PROCESS_NUMBERS / 64) as usize]>),
    /// The kernel's usual limit, and the least that a page holds.
    Few(Mapped<[AtomicU64; (FEW_NUMBERS / 64) as usize]>),
}

/// Elements that the map `tracked` needs here: for all numbers that this process can see (`/proc/sys/kernel/pid_max`,
/// proc_sys_kernel(5)). Should the limit be raised later, processes with larger numbers are not tracked.
pub(super) fn tracked_words() -> u32 {
    let limit = std::fs::read_to_string("/proc/sys/kernel/pid_max");
    let limit = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(PROCESS_NUMBERS);
    (if limit <= FEW_NUMBERS { FEW_NUMBERS } else { PROCESS_NUMBERS }) / 64
}

impl Tracked {
    /// Maps the map `tracked`, which has so many elements.
    pub(super) fn new(fd: BorrowedFd<'_>, words: u32) -> io::Result<Tracked> {
        if words == FEW_NUMBERS / 64 {
            return Mapped::new(fd).map(Tracked::Few);
        }
        Mapped::new(fd).map(Tracked::All)
    }

    fn word(&self, tgid: u32) -> Option<(&AtomicU64, u64)> {
        let at = tgid as usize / 64;
        let word = match self {
            Tracked::All(words) => words.get().get(at),
            Tracked::Few(words) => words.get().get(at),
        };
        word.map(|word| (word, 1 << (tgid % 64)))
    }

    /// Whether `tgid` is tracked.
    pub(super) fn contains(&self, tgid: u32) -> bool {
        self.word(tgid).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Adds `tgid`; `false` if there cannot be such a process.
    pub(super) fn insert(&self, tgid: u32) -> bool {
        self.word(tgid).map(|(word, bit)| word.fetch_or(bit, Ordering::SeqCst)).is_some()
    }

    /// Removes `tgid`; whether it was there.
    pub(super) fn remove(&self, tgid: u32) -> bool {
        self.word(tgid).is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::SeqCst) & bit != 0)
    }
}

/// `struct control` of `event.h`.
#[repr(C)]
pub(super) struct ControlBlock {
    pub(super) wake_every: AtomicU32,
    pub(super) btrfs_root: AtomicI32,
    pub(super) btrfs_anon_dev: AtomicU32,
    pub(super) btrfs_known: AtomicU32,
    pub(super) wake_spacing_ns: AtomicU32,
    unused_1: [u32; 11],
    pub(super) wake_wanted: AtomicU32,
    unused_2: u32,
    /// The kernel's side alone uses it.
    pub(super) woken_ns: AtomicU64,
    unused_3: [u32; 12],
    pub(super) lost_events: AtomicU64,
    pub(super) accounts_overflow: AtomicU64,
    pub(super) waits_overflow: AtomicU64,
    pub(super) device_read_bytes: AtomicU64,
    pub(super) wait_ns: AtomicU64,
    unused_4: [u64; 3],
}

/// The control block.
pub(super) struct Control(Mapped<ControlBlock>);

impl Control {
    /// Maps the map `control`.
    pub(super) fn new(fd: BorrowedFd<'_>) -> io::Result<Control> {
        Mapped::new(fd).map(Control)
    }
}

impl std::ops::Deref for Control {
    type Target = ControlBlock;

    fn deref(&self) -> &ControlBlock {
        self.0.get()
    }
}
