//! What a user of the plane can choose, each with its default and where that comes from.

use std::path::PathBuf;

use foretell_policy::{Allocation, DEFAULT_BLOCK_BYTES, Order, PoolPolicy, Prefetch, Revocation};

use crate::casting::Casting;
pub(crate) use crate::session_id::SessionId;

/// The configuration of a [`crate::Plane`].
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Bytes of page cache that the managed files may occupy. At least one batch of blocks, at most
    /// the machine's memory.
    pub budget_bytes: u64,
    /// Bytes of a block, the unit of caching: a power of two from the page size to 1 MiB. 8 KiB, the
    /// block of the papers.
    pub block_bytes: u32,
    /// What to fetch before it is referenced. Controlled-aggressive, which does nothing without a
    /// disclosed list.
    pub prefetch: Prefetch,
    /// Prefetches issued together, B. [`default_batch`] of the budget.
    pub batch: u32,
    /// Prefetch no further than this many references ahead; `None` for no limit (the default).
    pub horizon: Option<u32>,
    /// The order of the fetches of one batch. Ascending physical address.
    pub order: Order,
    /// How blocks are allocated to managers. LRU-SP.
    pub allocation: Allocation,
    /// When the control of a foolish manager is revoked; `None` (the default) for never.
    pub revocation: Option<Revocation>,
    /// Let the threads that steer and evict run at `SCHED_FIFO` when they may: an event then reaches them
    /// in 9 us instead of 300 us while the processors are busy. On.
    pub realtime: bool,
    /// Share of any 100 ms that each of the two may use at `SCHED_FIFO`; beyond it, it falls back to the
    /// normal class for the next 100 ms, so it never starves the program. 0.5; from 0 to 0.95.
    pub realtime_share: f64,
    /// Bytes of the ring through which the kernel reports what happens: a power of two, a page at least.
    /// [`default_ring_bytes`] of the budget; what finds it full is lost, and made good by asking the kernel
    /// what is cached.
    pub ring_bytes: u32,
    /// Files under control at a time, with those that are ignored: [`default_files`] of the budget. Beyond, a file is not
    /// taken under control; of the files that nobody uses any more the oldest make room.
    pub files: u32,
    /// Threads that prefetch, at most: 32, from 1 to 64. Each has one request under way, and further ones are started
    /// only when the others are busy; how many requests a device gets at a time is measured. Fewer threads are a
    /// limit to that.
    pub prefetch_threads: u32,
    /// Blocks of one manager's disclosed list that lie ahead of its cursor at most; what is disclosed beyond
    /// waits. 4 Mi, [`foretell_policy::Limits`]; a list is worth having as far as a few times the budget.
    pub list_blocks: u32,
    /// Blocks in all lists together at most; beyond it, what is disclosed waits. 4 Gi: as good as no limit.
    pub list_blocks_in_all: u32,
    /// Blocks in the lists of one user together at most; user 0 is exempt. 4 Gi: as good as no limit.
    pub list_blocks_of_user: u32,
    /// Chunks that may wait for room in a list.
    pub queue_limits: QueueLimits,
    /// List processes and files that are gone one by one in the report, not as a sum. On; a service that runs
    /// for months has no use for it.
    pub list_ended: bool,
    /// Keep the references, so that the report can say how many fetches optimal replacement would have
    /// made: 4 bytes a reference, beyond the first 4 MiB in a temporary file without a name. On.
    pub compare_with_optimum: bool,
    /// What the arm of a disk took for a movement when the job ran before, nanoseconds; 0 (the default) if that is not known. A disk
    /// that says it rotates is taken to be like that until its own requests show how it is.
    pub movement_ns: u64,
    /// Make the budget smaller when the kernel drops what it should hold, and larger again when it does not. Off: a
    /// budget that somebody named is kept to.
    pub follow_pressure: bool,
}

impl Options {
    /// The defaults for a budget.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Options {
        Options {
            budget_bytes,
            block_bytes: DEFAULT_BLOCK_BYTES,
            prefetch: Prefetch::ControlledAggressive,
            batch: default_batch(budget_bytes, DEFAULT_BLOCK_BYTES),
            horizon: None,
            order: Order::Ascending,
            allocation: Allocation::LruSp,
            revocation: None,
            realtime: true,
            realtime_share: 0.5,
            ring_bytes: default_ring_bytes(budget_bytes),
            files: default_files(budget_bytes),
            prefetch_threads: 32,
            list_blocks: 1 << 22,
            list_blocks_in_all: u32::MAX,
            list_blocks_of_user: u32::MAX,
            queue_limits: QueueLimits::default(),
            list_ended: true,
            compare_with_optimum: true,
            movement_ns: 0,
            follow_pressure: false,
        }
    }
}

/// Bytes of a batch: eight of the largest requests to most devices, so that those that are under way while
/// the last of them end are few.
const BATCH_BYTES: u64 = 8 << 20;
/// Smallest and largest default batch in blocks. The smaller is B of Cao et al. 1996, section 2.2; the larger one fills the
/// queue of prefetches.
const BATCHES: std::ops::RangeInclusive<u64> = 16..=4096;
/// Batches that a budget holds, unless that makes them too small.
const BUDGET_BATCHES: u64 = 16;

/// The batch for a budget when nobody asks for another, in blocks: 8 MiB, or a sixteenth of the budget if that is
/// less; 16 to 4096 blocks.
///
/// The papers' disks took one block a request. How many blocks a request has here, and how many requests are under way,
/// is measured by the device ([`Options::prefetch_threads`]); a batch only has to offer enough for both. A batch
/// beyond a sixteenth of the budget would replace what is needed soon.
#[must_use]
pub fn default_batch(budget_bytes: u64, block_bytes: u32) -> u32 {
    let blocks = BATCH_BYTES.min(budget_bytes / BUDGET_BATCHES) / u64::from(block_bytes.max(1));
    u32::try_from(blocks.clamp(*BATCHES.start(), *BATCHES.end())).unwrap_or(u32::MAX)
}

/// Part of the budget that a batch to a disk with an arm may fill.
const ARM_BATCHES: u64 = 4;

/// The batch for a disk with an arm, in blocks: a quarter of the budget, or all of it where the disk `moves` more than it reads.
///
/// The more is asked for at a time, the less the arm moves: of what is needed next the disk takes what lies on its way.
/// That is worth more than the blocks that are replaced for it somewhat early, and most of all where what is read lies here and
/// there: a sweep of the disk for all that is needed next takes little longer than one for a quarter of it
/// (`crates/policy/tests/short_of_memory.rs`). Of what lies in sequence a quarter is enough, and less is read twice.
pub(crate) fn arm_batch(budget_bytes: u64, block_bytes: u32, moves: bool) -> u32 {
    let parts = if moves { 1 } else { ARM_BATCHES };
    let blocks = budget_bytes / parts / u64::from(block_bytes.max(1));
    u32::try_from(blocks.clamp(*BATCHES.start(), *BATCHES.end())).unwrap_or(u32::MAX)
}

/// The largest and the smallest ring. 16 MiB hold half a million records, 1 MiB 26,000: as many as four processors
/// write in the 10 ms between two looks at it when each reads 650,000 blocks a second.
const RING_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;

/// The ring for a budget: a thirty-second of it, rounded to a power of two. The kernel charges it to our memory cgroup,
/// where the budget has to have room too.
#[must_use]
pub fn default_ring_bytes(budget_bytes: u64) -> u32 {
    let wanted = (budget_bytes / 32).max(1).next_power_of_two();
    u32::try_from(wanted.clamp(*RING_BYTES.start(), *RING_BYTES.end())).unwrap_or(1 << 24)
}

/// The fewest and the most files.
const FILES: std::ops::RangeInclusive<u64> = 1 << 15..=1 << 18;
/// Bytes of budget for which there is room for one file: its place in the kernel's table is a 64th of that.
const BUDGET_BYTES_A_FILE: u64 = 1 << 10;

/// The files that can be under control with a budget, unless somebody says another number: as many as it has KiB, but
/// 32,768 at least and 262,144 at most. The kernel charges their table to our memory cgroup, where the budget has to have
/// room too.
#[must_use]
pub fn default_files(budget_bytes: u64) -> u32 {
    let wanted = (budget_bytes / BUDGET_BYTES_A_FILE).max(1).next_power_of_two();
    u32::try_from(wanted.clamp(*FILES.start(), *FILES.end())).unwrap_or(1 << 18)
}

/// How many disclosed chunks ([`crate::Plane::disclose_held`]) may wait for room in the policy's lists; 16
/// bytes each. One more is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct QueueLimits {
    /// Of one session.
    pub session: usize,
    /// Of all sessions of a user; user 0 is exempt.
    pub user: usize,
    /// In all.
    pub all: usize,
}

impl Default for QueueLimits {
    /// A million for a session (an epoch of a million samples, 16 MB), 8 and 16 million for a user and in
    /// all (256 MB).
    fn default() -> QueueLimits {
        QueueLimits { session: 1 << 20, user: 1 << 23, all: 1 << 24 }
    }
}

/// Files whose path matches `glob` are under control, on this priority level, whose policy this is.
///
/// A policy belongs to a priority level (Cao, Felten, Li 1994, section 3): the rules of one manager
/// must agree on the policy of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Pattern of absolute, canonical paths; `*` does not match `/`, `**` does.
    pub glob: String,
    /// The policy of the level.
    pub policy: PoolPolicy,
    /// The priority level; blocks of lower levels are replaced first. 0 unless said otherwise.
    pub priority: i32,
}

/// One manager: the processes that own blocks together, and their rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManagerSpec {
    /// A name for messages and reports.
    pub name: String,
    /// Its rules; the first that matches a file's path holds.
    pub rules: Vec<Rule>,
    /// Executable names (as in `/proc/PID/comm`: compared in the first 15 bytes) of its processes.
    /// Empty: all processes of the tree that no other manager of the session names.
    pub process_names: Vec<String>,
}

/// One process tree and its managers.
#[derive(Debug)]
pub struct SessionSpec {
    /// The process at the root; its present and future descendants belong to the session.
    pub root_pid: u32,
    /// The managers. A process that belongs to none of them is observed but obeys plain LRU.
    pub managers: Vec<ManagerSpec>,
    /// Which process follows which list of its manager's; `None`: found out by what each reads.
    pub casting: Option<Casting>,
}

impl SessionSpec {
    /// A process tree without a casting.
    #[must_use]
    pub fn new(root_pid: u32, managers: Vec<ManagerSpec>) -> SessionSpec {
        SessionSpec { root_pid, managers, casting: None }
    }
}

/// A part of a file that will be read, in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintChunk {
    /// The file. Absolute, or relative to the working directory of the calling process.
    pub path: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; `None` for all up to the end of the file.
    pub length: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_is_eight_mebibytes_or_a_sixteenth_of_a_small_budget() {
        assert_eq!(default_batch(0, 8192), 16);
        assert_eq!(default_batch(4 << 20, 8192), 32);
        assert_eq!(default_batch(128 << 20, 8192), 1024);
        assert_eq!(default_batch(u64::MAX, 8192), 1024);
        assert_eq!(default_batch(u64::MAX, 512), 4096);
        assert_eq!(default_batch(u64::MAX, 1 << 20), 16);
        assert_eq!(
            [0, 16 << 20, 64 << 20, u64::MAX].map(|budget_bytes| arm_batch(budget_bytes, 8192, false)),
            [16, 512, 2048, 4096]
        );
        assert_eq!([0, 16 << 20, u64::MAX].map(|bytes| arm_batch(bytes, 8192, true)), [16, 2048, 4096]);
    }
}
