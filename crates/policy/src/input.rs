//! Everything that can be told to the policy: one enum, so that a log of inputs is all it takes to run again what
//! happened, and a defect is a list of inputs.
//!
//! Three kinds come in. *What happened*: references, loads, losses, times. *Who and what there is*: files,
//! managers, processes, the size of the cache. *What managers say*: disclosures and directives (Cao, Felten, Li
//! 1994, section 3). [`crate::Engine::tell`] takes each of them; the engine's other methods that change anything
//! are short forms of it.

use crate::action::Access;
use crate::ids::{Block, DiskId, FileId, ManagerId, Nanos, ProcessId};
use crate::layout::Layout;
use crate::pool_policy::PoolPolicy;

/// Something that the policy is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input<'a> {
    // ---- what happened ----
    /// A process referenced a block. In an advisory plane it comes after the data was there.
    Accessed {
        /// Who.
        process: ProcessId,
        /// What.
        block: Block,
        /// The process had to wait for the data although it was on its way (advisory planes measure
        /// it; exact planes leave it `false`, the policy knows).
        stalled: bool,
    },
    /// The block is in the cache now: a fetch of ours completed, or the kernel loaded it by itself.
    Loaded {
        /// What.
        block: Block,
        /// The process whose read (or whose kernel readahead) loaded it; `None` when a fetch that the
        /// policy asked for completed, or when somebody outside our control loaded it.
        by: Option<ProcessId>,
    },
    /// A fetch that the policy asked for will not complete.
    FetchFailed {
        /// What.
        block: Block,
    },
    /// The block left the cache: the answer to [`crate::Action::Evict`], or somebody else's doing.
    Gone {
        /// What.
        block: Block,
    },
    /// The block left the cache because the plane could not drop another one without it (a folio of
    /// several blocks): neither asked for nor foreign. Counted as an eviction.
    TakenAlong {
        /// What.
        block: Block,
    },
    /// An eviction that the policy asked for did not happen; the block is still cached.
    EvictRefused {
        /// What.
        block: Block,
    },
    /// The process ended. When a manager's last process ends, its blocks have no owner
    /// (unless the manager is persistent).
    ProcessExited {
        /// Who.
        process: ProcessId,
    },
    /// A disk took this long for one request, without queueing. Asked for by planners that
    /// [`crate::Prefetch::wants_times`].
    Served {
        /// Which disk.
        disk: DiskId,
        /// The time of the access.
        access: Nanos,
    },
    /// So many prefetches of a disk may be under way from now on, whatever [`crate::Config::batch`] says. Heeded by
    /// forestall and informed.
    DiskBatch {
        /// Which disk.
        disk: DiskId,
        /// Blocks; with 0 nothing is prefetched but what is within the horizon.
        batch: u32,
    },
    /// A disk has an arm, whose movement takes as long as reading so many blocks. Heeded by informed: blocks of lists that adjoin
    /// one that is fetched are fetched along with it.
    DiskArm {
        /// Which disk.
        disk: DiskId,
        /// Blocks; 0, as long as nothing is said: it has none.
        reach_blocks: u32,
    },
    /// A process computed this long between two references. Asked for as [`Input::Served`].
    Computed {
        /// Which process.
        process: ProcessId,
        /// The time between the references, without waiting for data.
        compute: Nanos,
    },
    /// Time has passed: prefetches whose time-out has come are given up.
    TimePassed,

    // ---- who and what there is ----
    /// A file comes under control. Answered with [`Answer::File`].
    FileAdded {
        /// Where its blocks are.
        layout: &'a Layout,
    },
    /// A file is this long, in blocks: nothing beyond is prefetched by look-ahead. Unlimited unless said.
    FileLength {
        /// Which file.
        file: FileId,
        /// Its length in blocks.
        length_blocks: u32,
    },
    /// A file is forgotten (deleted, or no longer controlled): its blocks leave the books without any action,
    /// and lists that still name them pass over them when their turn comes.
    FileRemoved {
        /// Which file.
        file: FileId,
    },
    /// Blocks of a file whose fetches have failed may be fetched again: the plane has come by the file anew.
    FetchesAllowed {
        /// Which file.
        file: FileId,
    },
    /// A manager appears. Answered with [`Answer::Manager`].
    ManagerAdded {
        /// A persistent manager lives until [`Input::ManagerRemoved`], another one until its last process has ended.
        persistent: bool,
    },
    /// A manager ends: its list is dropped and its blocks have no owner any more; they stay until they
    /// are the least recently used ones.
    ManagerRemoved {
        /// Who.
        manager: ManagerId,
    },
    /// A process of a manager appears. Answered with [`Answer::Process`].
    ProcessAdded {
        /// Whose.
        manager: ManagerId,
    },
    /// One process under two managers, as what it makes references to is another's: `process` makes its references in
    /// turn with `first`. Only what is found out beside depends on it.
    OneProcess {
        /// Who.
        process: ProcessId,
        /// As whom it is known, too; of this one compute times are told.
        first: ProcessId,
    },
    /// The cache has another size from now on; what is too much is evicted at once.
    CacheSize {
        /// Blocks that may be in the cache or on their way into it, at least 1.
        cache_blocks: u32,
    },
    /// The memory of tables in which nothing is left is given back.
    MemoryReleased,

    // ---- what managers say ----
    /// References to come, appended to one of the manager's lists in order. Answered with [`Answer::Taken`].
    Disclosed {
        /// Whose.
        manager: ManagerId,
        /// The number of the list, from 0: one for each reader whose references are known. A manager that
        /// discloses its own references has one. The next number begins a new list.
        list: u32,
        /// What will be referenced.
        blocks: &'a [Block],
    },
    /// The process is the reader of this list of its manager's. A process of which nothing is said is compared with
    /// all lists by its first references; where there is only one, it is on that.
    ReaderAssigned {
        /// Who.
        process: ProcessId,
        /// The number of the list.
        list: u32,
    },
    /// More of the manager's lists is told at once, or that is over. Heeded by informed: while more comes nothing is fetched for
    /// the manager if there is a disk with an arm, as what goes along is not known yet.
    ListsOpen {
        /// Whose lists.
        manager: ManagerId,
        /// More comes; nobody's does unless it is said.
        open: bool,
    },
    /// The manager's disclosed lists are withdrawn.
    Cancelled {
        /// Whose list.
        manager: ManagerId,
    },
    /// The long-term priority of a file; 0 unless set. Blocks of lower priority are replaced first.
    Priority {
        /// Who says so.
        manager: ManagerId,
        /// Of which file.
        file: FileId,
        /// The priority.
        priority: i32,
    },
    /// The replacement policy of a priority level; LRU unless set.
    Policy {
        /// Who says so.
        manager: ManagerId,
        /// Of which level.
        priority: i32,
        /// The policy.
        policy: PoolPolicy,
    },
    /// The cached blocks `first..=last` of a file that the manager owns have another priority, until each is
    /// referenced or replaced. Blocks that are not cached, or that the manager's list names, are left alone.
    TemporaryPriority {
        /// Who says so.
        manager: ManagerId,
        /// Of which file.
        file: FileId,
        /// First block.
        first: u32,
        /// Last block.
        last: u32,
        /// The priority.
        priority: i32,
    },
    /// The manager has no further use for the cached blocks `first..=last` of a file that it owns: they are
    /// evicted, and their room is anybody's at once. Blocks that its list names, and those of others, are left
    /// alone. Answered with [`Answer::Flushed`]. (Flushing as soon as a block has been used for the last time is
    /// what the papers do with a temporary priority of -1 and the next replacement; Cao, Felten, Li 1994,
    /// section 5.1, "access-once".)
    Flushed {
        /// Who says so.
        manager: ManagerId,
        /// Of which file.
        file: FileId,
        /// First block.
        first: u32,
        /// Last block.
        last: u32,
    },
    /// The schedule of reverse aggressive is to be made from the manager's whole list, which must have been
    /// disclosed before; the blocks of the list are assumed not to be cached yet. Other planners ignore it.
    Scheduled {
        /// Whose list.
        manager: ManagerId,
        /// F: the time of a fetch, in references.
        fetch_references: f64,
        /// Replacements that a free disk makes at a time on the reversed list (fetch k of a batch ends after
        /// k F).
        batch: u32,
    },
}

/// What the policy says to an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// How the reference found its block.
    Access(Access),
    /// The file's number. Those of removed files are given out again, with fresh counters.
    File(FileId),
    /// The manager's number.
    Manager(ManagerId),
    /// The process's number.
    Process(ProcessId),
    /// References of a disclosure that were taken: fewer than all when
    /// [`crate::Limits::disclosed_blocks`] lie ahead of the list's cursor already, or a block's file is not known.
    Taken(usize),
    /// Blocks that were flushed.
    Flushed(u32),
    /// Refused, because a table is full.
    Refused(LimitReached),
}

/// A directive or an addition was refused because a limit of [`crate::Limits`] is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// Which table is full, in words.
    pub what: &'static str,
    /// Its limit.
    pub limit: u32,
}

impl std::fmt::Display for LimitReached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no more than {} {}", self.limit, self.what)
    }
}

impl std::error::Error for LimitReached {}
