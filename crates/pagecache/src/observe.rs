//! Observation of the page cache by BPF programs (`src/bpf/observe.bpf.c`).
//!
//! An [`Observer`] is told which processes ([`Observer::track`]) and which files ([`Observer::manage`]) are
//! under control, and reports as [`Observation`]s what the tracked processes read, and which pages of the
//! managed files enter and leave the cache by whomever. Descendants of a tracked process are tracked by
//! themselves. A tracked process that touches a file about which nothing was said gives observations with
//! `known: false` until the file is managed or ignored.
//!
//! ```text
//!  kernel:  tracepoint ── process tracked? ── file managed, ignored, unknown? ── ring
//!                                                                                  │ fd(): readable
//!  here:                                           drain() ── Observation  ◄───────┘
//! ```
//!
//! What it costs: a bit test for each buffered read of an untracked process, a hash lookup for the read of an
//! ignored file, a lookup and a record of 40 bytes for that of a managed one. The example `hit_cost`
//! measures it. The reader is woken only by what calls for action (pages added by a tracked process, its
//! forks, execs and exits) and by every so many records ([`Observer::set_wake_every`]); the rest waits in the
//! ring until it is drained. When the ring is full records are lost, and counted
//! ([`Observer::lost_events`]); the programs that are observed never wait.
//!
//! Limits: [`ObserverConfig::files`] ([`ObserveError::FilesFull`]), of which a quarter can be ignored (the oldest becomes
//! unknown again); accounts of a sixteenth as many processes at a time, 2^12 to 2^14 ([`Observer::overflows`]; the process
//! is tracked all the same), and as many threads asleep for I/O (the wait of one more is not measured).
//! What is not seen: tmpfs, direct I/O, and which page of a mapping is touched while it is mapped already.
//!
//! Nothing is pinned or installed: programs, links and maps are descriptors of this process and end with it,
//! however it ends. Memory is charged to the memory cgroup and not to `RLIMIT_MEMLOCK` (Linux 5.11 on).

mod coming;
mod error;
mod event;
pub(crate) mod kernel_types;
pub(crate) mod load;
pub(crate) mod object;
pub(crate) mod privileges;
mod record;
mod ring;
pub(crate) mod shared;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::maps::{HashMap, MapData, MapError};

pub use crate::file_key::FileKey;
pub(crate) use coming::{Coming, load};
pub use error::ObserveError;
pub use event::Observation;

use crate::identity::types::BtrfsPlaces;

use load::{map_error, take_array, take_map, take_ring};
use object::Object;
use record::verdict;
use ring::Ring;
use shared::{Control, Tracked};

/// Files that can be managed at a time, with those that are ignored, unless [`ObserverConfig::files`] says less.
pub const MANAGED_FILES: u32 = 1 << 18;

/// Of the files that can be managed one in so many can be ignored; the one that was ignored first becomes unknown again.
/// So a program which looks at everything leaves room for what is managed.
pub const IGNORED_SHARE: u32 = 4;

/// Processes with an account, and threads that are asleep, at a time: what is beyond is counted.
const AT_A_TIME: std::ops::RangeInclusive<u32> = 1 << 12..=1 << 14;
/// Of the files that can be managed, one in so many is a process.
const PROCESS_SHARE: u32 = 16;

/// Where there is little memory, what the kernel keeps for an observer is one part of it in so many at most: the ring,
const RING_OF_ROOM: u64 = 128;
/// the places of files (16 bytes each),
const ROOM_A_FILE: u64 = 4 << 10;
/// and those of processes and threads, of which none takes less than this itself (80 bytes each).
const ROOM_A_PROCESS: u64 = 64 << 10;
/// But no less than this in bytes, files, and processes.
const LEAST: (u64, u64, u64) = (64 << 10, 1 << 10, 1 << 8);

/// Memory that there is for observers of this process and for whatever else is in its group, bytes.
static ROOM: AtomicU64 = AtomicU64::new(u64::MAX);

/// Says how much memory there is. Of little an observer that is loaded from now on takes little, as it is charged to the
/// group that the job is in, and stays charged for some 50 ms when we are ended in a job's favour: the kernel ends the job then.
pub fn fit_into(room_bytes: u64) {
    ROOM.store(room_bytes, Ordering::Relaxed);
}

/// Bytes that most records take in the ring, with their header.
const RECORD_BYTES: u32 = 40;

/// How often [`Observer::drain`] looks again for a record that is just being written: some microseconds. Not
/// for ever, because its writer may be a thread that the reader, at real-time priority, has preempted.
const LAST_LOOKS: u32 = 1000;

/// [`ObserverConfig::wake_spacing_ns`] of who acts on what comes. Each wake-up costs the program microseconds; what comes
/// meanwhile on a disk of a gigabyte a second is a few dozen pages.
const STEERING_SPACING: Duration = Duration::from_micros(200);

/// How an observer is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverConfig {
    /// Size of the ring between kernel and us, bytes: a power of two and a multiple of the page size. At 40
    /// bytes a record the default of 16 MiB holds 419,430 records, more than half a second of one CPU's
    /// 8 KiB reads at full speed.
    pub ring_bytes: u32,
    /// Wake the reader after this many records on one CPU; 0: only for what calls for action. The default
    /// wakes it before a quarter of the ring is full. [`Observer::set_wake_every`] changes it later.
    pub wake_every: u32,
    /// After a page that a program added has made the observer's descriptor readable, no other one does so for this time, ns.
    /// 0: each does.
    pub wake_spacing_ns: u32,
    /// Files that can be managed at a time, with those that are ignored; their table takes 16 bytes each, which the kernel
    /// charges to our memory cgroup. [`MANAGED_FILES`].
    pub files: u32,
    /// Processes with an account, and threads that are asleep, at a time: what is beyond is counted. 80 bytes each.
    pub processes: u32,
    /// Only watch what processes do: nothing is told of pages that leave the cache, and nothing is loaded for it.
    pub watch_only: bool,
}

impl ObserverConfig {
    /// A ring of this size, and a wake-up before a quarter of it is full.
    #[must_use]
    pub fn with_ring(ring_bytes: u32) -> ObserverConfig {
        ObserverConfig {
            ring_bytes,
            wake_every: wake_every(ring_bytes),
            wake_spacing_ns: 0,
            files: MANAGED_FILES,
            processes: processes(MANAGED_FILES),
            watch_only: false,
        }
    }

    /// The same for who acts on what comes: up to `files` files, and wake-ups that the program does not feel.
    pub(crate) fn for_steering(ring_bytes: u32, files: u32) -> ObserverConfig {
        let wake_spacing_ns = STEERING_SPACING.subsec_nanos();
        let processes = processes(files);
        ObserverConfig { files, processes, wake_spacing_ns, ..ObserverConfig::with_ring(ring_bytes) }
            .fitting()
    }

    /// The same, but smaller where there is little memory ([`fit_into`]).
    #[must_use]
    pub(crate) fn fitting(self) -> ObserverConfig {
        self.within(ROOM.load(Ordering::Relaxed))
    }

    fn within(self, room_bytes: u64) -> ObserverConfig {
        let least = |of_room: u64, least: u64, wanted: u32| {
            let most = of_room.max(least);
            // The largest power of two in it.
            let most = 1_u64 << most.ilog2();
            u32::try_from(most).map_or(wanted, |most| most.min(wanted))
        };
        let ring_bytes = least(room_bytes / RING_OF_ROOM, LEAST.0, self.ring_bytes);
        ObserverConfig {
            ring_bytes,
            wake_every: if ring_bytes < self.ring_bytes { wake_every(ring_bytes) } else { self.wake_every },
            files: least(room_bytes / ROOM_A_FILE, LEAST.1, self.files),
            processes: least(room_bytes / ROOM_A_PROCESS, LEAST.2, self.processes),
            ..self
        }
    }

    /// Files that can be ignored at a time.
    fn ignored(&self) -> usize {
        (self.files / IGNORED_SHARE) as usize
    }
}

/// A quarter of what the ring holds, on one CPU.
fn wake_every(ring_bytes: u32) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    (ring_bytes / RECORD_BYTES / 4 / cpus).max(1)
}

/// How many processes there are for so many files.
fn processes(files: u32) -> u32 {
    (files / PROCESS_SHARE).clamp(*AT_A_TIME.start(), *AT_A_TIME.end())
}

impl Default for ObserverConfig {
    fn default() -> ObserverConfig {
        ObserverConfig::with_ring(16 << 20)
    }
}

/// Through what buffered reads are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadHook {
    /// The tracepoint `mm_filemap_get_pages`: comes when the data is there, knows where the read ends.
    Tracepoint,
    /// `fexit` on `filemap_read` (and on `filemap_splice_read`, where that is another function), on kernels without the
    /// tracepoint, before Linux 6.12: comes once for each read, when all its data is there, with what was read.
    Exit,
}

impl std::fmt::Display for ReadHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadHook::Tracepoint => "tp_btf/mm_filemap_get_pages",
            ReadHook::Exit => "fexit/filemap_read",
        })
    }
}

/// How often something found its table full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflows {
    /// Processes that are tracked but have no account: their device bytes and waits are only in the totals.
    pub accounts: u64,
    /// Waits that were not measured.
    pub waits: u64,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("read_hook", &self.read_hook).finish_non_exhaustive()
    }
}

/// The BPF programs and their maps, attached from [`Observer::open`] until drop.
pub struct Observer {
    ring: Ring,
    control: Control,
    tracked: Tracked,
    files: HashMap<MapData, [u64; 2], u8>,
    /// Those ignored, oldest first; some may have been managed or forgotten since.
    ignored: VecDeque<FileKey>,
    accounts: HashMap<MapData, u32, [u64; 2]>,
    read_hook: ReadHook,
    sees_faults: bool,
    config: ObserverConfig,
    /// Keeps programs and links alive.
    object: Object,
    passed_over: Cell<PassedOver>,
}

/// How often programs have not been run, and when that was asked.
#[derive(Debug, Clone, Copy)]
struct PassedOver {
    times: u64,
    asked: Instant,
}

/// To ask how often programs have not been run takes a call for each that is attached: nine to eleven.
const ASK_EVERY: Duration = Duration::from_millis(10);

impl Observer {
    /// Loads and attaches the programs. Nothing is tracked or managed yet. The calling process gets an
    /// account, so that what its own threads prefetch is counted ([`Observer::device_read_bytes`]).
    ///
    /// # Errors
    /// Says what lacks: privileges, type information, tracepoints, the host's pid namespace.
    pub fn open(config: ObserverConfig) -> Result<Observer, ObserveError> {
        Observer::open_if_possible(config).map_err(load::or_few_descriptors)
    }

    fn open_if_possible(config: ObserverConfig) -> Result<Observer, ObserveError> {
        let loaded = load::load(&config)?;
        let mut object = loaded.object;
        let in_memory = |what| move |source| ObserveError::System { what, source };
        let control = Control::new(take_array(&mut object, "control")?.fd().as_fd())
            .map_err(in_memory("mapping the control block"))?;
        let tracked = Tracked::new(take_array(&mut object, "tracked")?.fd().as_fd(), loaded.tracked_words)
            .map_err(in_memory("mapping the table of tracked processes"))?;
        let ring =
            Ring::new(take_ring(&mut object)?, config.ring_bytes).map_err(in_memory("mapping the ring"))?;
        let files = HashMap::try_from(take_map(&mut object, "files")?).map_err(map_error("files"))?;
        let mut accounts: HashMap<_, u32, [u64; 2]> =
            HashMap::try_from(take_map(&mut object, "accounts")?).map_err(map_error("accounts"))?;
        accounts.insert(std::process::id(), [0, 0], 0).map_err(map_error("accounts"))?;
        // The kernel's type information was read and is done with: megabytes in small pieces.
        crate::kernel::return_free_memory();
        control.wake_every.store(config.wake_every, Ordering::Relaxed);
        control.wake_spacing_ns.store(config.wake_spacing_ns, Ordering::Relaxed);
        control.wake_wanted.store(1, Ordering::SeqCst);
        let observer = Observer {
            ring,
            control,
            tracked,
            files,
            config,
            ignored: VecDeque::new(),
            accounts,
            read_hook: loaded.read_hook,
            sees_faults: loaded.sees_faults,
            passed_over: Cell::new(PassedOver { times: 0, asked: Instant::now() }),
            object,
        };
        match loaded.btrfs {
            Some(places) => observer.set_btrfs(places),
            None => observer.learn_btrfs(),
        }
        Ok(observer)
    }

    /// Says where btrfs keeps the device numbers of its subvolumes, as soon as there is a btrfs: its module may be
    /// loaded later. Until then nothing is reported of files there.
    fn learn_btrfs(&self) {
        if self.control.btrfs_known.load(Ordering::Relaxed) == 0
            && let Some(places) = BtrfsPlaces::of_this_kernel()
        {
            self.set_btrfs(places);
        }
    }

    fn set_btrfs(&self, places: BtrfsPlaces) {
        self.control.btrfs_root.store(places.root, Ordering::Relaxed);
        self.control.btrfs_anon_dev.store(places.anon_dev, Ordering::Relaxed);
        self.control.btrfs_known.store(1, Ordering::Release);
    }

    /// Through what buffered reads are seen on this kernel.
    #[must_use]
    pub fn read_hook(&self) -> ReadHook {
        self.read_hook
    }

    /// Whether [`Observation::Fault`] and [`Observation::MapPages`] are seen.
    #[must_use]
    pub fn sees_faults(&self) -> bool {
        self.sees_faults
    }

    /// Tracks the process `tgid` and all that it starts from now on (what it started before is not).
    ///
    /// # Errors
    /// There is no such process.
    pub fn track(&mut self, tgid: u32) -> Result<(), ObserveError> {
        if self.tracked.contains(tgid) {
            return Ok(());
        }
        self.learn_btrfs();
        if self.accounts.insert(tgid, [0, 0], 0).is_err() {
            self.control.accounts_overflow.fetch_add(1, Ordering::Relaxed);
        }
        let possible = self.tracked.insert(tgid);
        // Asked after the bit is set: if the process ends later than this, the kernel's side clears it.
        if possible && is_alive(tgid) {
            return Ok(());
        }
        self.untrack(tgid);
        Err(ObserveError::NoSuchProcess { tgid })
    }

    /// Tracks `tgid` no more; its descendants stay tracked.
    pub fn untrack(&mut self, tgid: u32) {
        self.tracked.remove(tgid);
        // Absent if it was never tracked or has ended: then nothing is to be done.
        let _ = self.accounts.remove(&tgid);
    }

    /// Whether `tgid` is tracked now.
    #[must_use]
    pub fn is_tracked(&self, tgid: u32) -> bool {
        self.tracked.contains(tgid)
    }

    /// Puts `file` under management.
    ///
    /// # Errors
    /// [`ObserverConfig::files`] are managed or ignored already.
    pub fn manage(&mut self, file: FileKey) -> Result<(), ObserveError> {
        self.judge(file, verdict::MANAGED)
    }

    /// Reports nothing about `file` any more, until a quarter of [`ObserverConfig::files`] others have been ignored after it: then
    /// it is unknown again.
    ///
    /// # Errors
    /// [`ObserverConfig::files`] are managed or ignored already.
    pub fn ignore(&mut self, file: FileKey) -> Result<(), ObserveError> {
        self.judge(file, verdict::IGNORED)?;
        self.ignored.push_back(file);
        if self.ignored.len() > self.config.ignored()
            && let Some(oldest) = self.ignored.pop_front()
            && self.files.get(&[oldest.dev, oldest.ino], 0).is_ok_and(|of| of == verdict::IGNORED)
        {
            self.forget(oldest);
        }
        Ok(())
    }

    fn judge(&mut self, file: FileKey, verdict: u8) -> Result<(), ObserveError> {
        self.files.insert([file.dev, file.ino], verdict, 0).map_err(|error| match error {
            MapError::SyscallError(error) if error.io_error.raw_os_error() == Some(libc::E2BIG) => {
                ObserveError::FilesFull { limit: self.config.files }
            }
            other => map_error("files")(other),
        })
    }

    /// Makes `file` unknown again, as when it was deleted and its inode number may come back.
    pub fn forget(&mut self, file: FileKey) {
        // Absent if nothing was said about it: then nothing is to be done.
        let _ = self.files.remove(&[file.dev, file.ino]);
    }

    /// A descriptor to `poll(2)` or `epoll(7)` for reading: readable when something that calls for action
    /// has happened since the last [`Observer::drain`], or a CPU has written so many records
    /// ([`Observer::set_wake_every`]). Single references do not make it readable: drain every now and then.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// Hands at most `limit` observations to `take`, oldest first, and says how many there were. If that is
    /// `limit` there may be more, and no wake-up is certain before the rest is drained.
    pub fn drain(&mut self, limit: usize, mut take: impl FnMut(Observation)) -> usize {
        self.ring.acknowledge();
        let mut taken = 0;
        for _ in 0..=LAST_LOOKS {
            taken += self.ring.consume(limit - taken, |record| {
                if let Some(observation) = record::decode(record) {
                    take(observation);
                }
            });
            if taken == limit {
                break;
            }
            // From here on a wake-up is wanted. Records that were reserved before the kernel's side could see
            // that come without one, so they are looked for now. (It reserves first and asks then, both sides
            // with a full barrier, so that one of the two sees the other.)
            self.control.wake_wanted.swap(1, Ordering::SeqCst);
            if self.ring.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        taken
    }

    /// Records that found no room in the ring since it was opened, and what was not looked at because somebody was preempted
    /// on that processor while the same was looked at for him (Linux 7.0 and later). When this grows, what is cached has to
    /// be looked up anew.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        let mut passed_over = self.passed_over.get();
        if passed_over.asked.elapsed() >= ASK_EVERY {
            // Where the kernel does not answer about a program for once the sum is less, and what was counted stays counted.
            let times = passed_over.times.max(self.object.passed_over());
            passed_over = PassedOver { times, asked: Instant::now() };
            self.passed_over.set(passed_over);
        }
        self.control.lost_events.load(Ordering::Relaxed) + passed_over.times
    }

    /// How often a table was full.
    #[must_use]
    pub fn overflows(&self) -> Overflows {
        Overflows {
            accounts: self.control.accounts_overflow.load(Ordering::Relaxed),
            waits: self.control.waits_overflow.load(Ordering::Relaxed),
        }
    }

    /// Bytes that the process `tgid` (a tracked one, or the calling one) asked of block devices to read, by
    /// demand or by the kernel's readahead on its behalf. `None` if it has no account, as after its end:
    /// then [`Observation::Exited`] has told it.
    ///
    /// What kernel threads read on behalf of a process (some network and copy-on-write file systems do) is
    /// not seen.
    #[must_use]
    pub fn device_read_bytes(&self, tgid: u32) -> Option<u64> {
        self.accounts.get(&tgid, 0).ok().map(|[bytes, _]| bytes)
    }

    /// Time that the threads of `tgid` slept for I/O, as [`Observation::Waited`] reports it. `None` as for
    /// [`Observer::device_read_bytes`].
    #[must_use]
    pub fn wait_ns(&self, tgid: u32) -> Option<u64> {
        self.accounts.get(&tgid, 0).ok().map(|[_, wait_ns]| wait_ns)
    }

    /// Bytes that all tracked processes, living and dead, and the calling process asked of block devices.
    #[must_use]
    pub fn total_device_read_bytes(&self) -> u64 {
        self.control.device_read_bytes.load(Ordering::Relaxed)
    }

    /// Time that all threads of tracked processes, living and dead, slept for I/O.
    #[must_use]
    pub fn total_wait_ns(&self) -> u64 {
        self.control.wait_ns.load(Ordering::Relaxed)
    }

    /// Wakes the reader after `records` records on one CPU from now on, whatever they are; 0: only for what
    /// calls for action. A wake-up is only given when the ring was drained since the last one.
    pub fn set_wake_every(&self, records: u32) {
        self.control.wake_every.store(records, Ordering::Relaxed);
    }
}

/// Whether the process exists and is not a zombie: field 3 of `/proc/PID/stat`, after the name in brackets.
pub(crate) fn is_alive(tgid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{tgid}/stat")).unwrap_or_default();
    crate::proc_text::state(&stat).is_some_and(|state| !matches!(state, b'Z' | b'X' | b'x'))
}
