//! Everything about the policy that can be chosen, with its default and where that comes from.

use crate::ids::Nanos;
use crate::prefetch::Prefetch;

/// Bytes of a block unless somebody says otherwise: that of the papers.
pub const DEFAULT_BLOCK_BYTES: u32 = 8 << 10;

/// Whose view of the cache is the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// The plane holds exactly the blocks that the policy says (simulator, own buffers). A reference
    /// to an absent block makes the policy ask for a demand fetch.
    Exact,
    /// The kernel may add or drop blocks by itself (page cache). A reference to an absent block means
    /// that the kernel has fetched it; the policy corrects its view and never asks for demand fetches.
    Advisory,
}

/// How cache blocks are allocated to managers (Cao, Felten, Li 1994, section 2; Cao et al. 1996,
/// section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// LRU with swapping and placeholders: the one to use.
    LruSp,
    /// Swapping without placeholders: a foolish process takes blocks from others.
    LruS,
    /// Neither swapping nor placeholders: a smart process is penalised.
    AllocLru,
    /// No manager is ever asked: the plain kernel's model.
    GlobalLru,
}

/// In which order the fetches of one batch are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they will be referenced.
    Fcfs,
    /// Ascending physical address (Cao et al. 1996, section 2.2), logical where the layout is unknown.
    Ascending,
}

/// What is found out beside the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// What the plain kernel would have done: [`crate::Engine::counterfactual`]. It needs the times that planners may
    /// ask for ([`Config::wants_times`]), and they must be those of a disk that serves one request at a time.
    Counterfactual,
    /// The same, and who has lost against it is not steered until that has become little ([`crate::Engine::is_suspended`]).
    Guard,
}

/// When the right to overrule is taken from a foolish manager and when it is given back.
///
/// The share of wrong decisions is an exponentially decaying mean over about `window` replacements: a
/// decision that a placeholder proves wrong counts as 1, every other replacement as 0. Two thresholds
/// keep it from flapping. Proposed and left to future work by Cao, Felten, Li 1994, section 6.2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Revocation {
    /// Replacements that the mean looks back on.
    pub window: u32,
    /// Revoked when the share of wrong decisions rises above this.
    pub revoke_above: f64,
    /// Given back when it falls below this.
    pub reinstate_below: f64,
}

impl Default for Revocation {
    /// 256 decisions, revoked above one half, reinstated below one eighth. A smart manager makes far
    /// fewer than one wrong decision in two; ReadN under MRU makes four in five.
    fn default() -> Self {
        Revocation { window: 256, revoke_above: 0.5, reinstate_below: 0.125 }
    }
}

/// The limits of every table. Reaching one is counted, never an error of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files known at a time; [`crate::Engine::add_file`] refuses more.
    pub files: u32,
    /// Process records, 65,535 at most; further processes share the last record.
    pub processes: u32,
    /// Managers at a time, 65,535 at most; [`crate::Engine::add_manager`] refuses more.
    pub managers: u32,
    /// Priority levels of one manager; setting another one is refused.
    pub levels_per_manager: u32,
    /// Files with a priority of their own, per manager; setting another one is refused.
    pub file_records_per_manager: u32,
    /// Entries of one disclosed list that have not been passed yet; the rest of an append is refused
    /// and can be appended once the cursor has moved on. ACFS allowed 5,000.
    /// Of those that the cursor has left behind, 8 caches are held, 262,144 at least, and no more than as many again.
    pub disclosed_blocks: u32,
    /// Entries of one disclosed list ahead of its cursor that count, up to some 70 bytes each; 8 caches at least, and no more
    /// than `disclosed_blocks`. Further ones wait, 16 bytes for each run of neighbours, until the cursor has come nearer.
    pub held_ahead: u32,
    /// Lists of one manager, one for each reader that it expects; disclosures to further ones are refused.
    pub lists_per_manager: u32,
    /// Processes of one manager that are matched against its lists at a time; references of further ones are
    /// unpredicted.
    pub readers_per_manager: u32,
    /// Placeholders in all; the oldest is forgotten for a new one, so one old decision goes unpunished.
    pub placeholders: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            files: 1 << 20,
            processes: (1 << 16) - 1,
            managers: 1 << 12,
            levels_per_manager: 64,
            file_records_per_manager: 1 << 16,
            disclosed_blocks: 1 << 22,
            held_ahead: 1 << 18,
            lists_per_manager: 256,
            readers_per_manager: 1024,
            placeholders: 1 << 20,
        }
    }
}

/// The configuration of an [`crate::Engine`].
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Blocks that may be in the cache or on their way into it. At least 1.
    pub cache_blocks: u32,
    /// Whose view of the cache is the truth.
    pub residency: Residency,
    /// How blocks are allocated to managers.
    pub allocation: Allocation,
    /// What to fetch before it is referenced.
    pub prefetch: Prefetch,
    /// Prefetches issued together at most, B (Cao et al. 1996, section 2.2, found 16 to work well).
    pub batch: u32,
    /// Free blocks (needed later than the next hole) that must be left when a prefetch is issued
    /// (4 in ACFS, section 4.3): they absorb what other processes take during the fetch.
    pub free_margin: u32,
    /// Prefetch no further than this many references ahead of the cursor; `None` for no limit, and for
    /// the paper's 62 of fixed horizon and of forestall's rule of that name.
    pub horizon: Option<u32>,
    /// Largest window of [`Prefetch::Linux`], in blocks (`read_ahead_kb`; 128 KiB unless tuned).
    pub readahead_blocks: u32,
    /// The order of the fetches of one batch.
    pub order: Order,
    /// So many positions behind the cursor of a list are waited for at least, also where its reader has not come late before: what
    /// several readers share out among them comes in as many orders. A reader in order is not waited for otherwise (Cao et al.
    /// 1996, section 4.3).
    pub late_positions: u32,
    /// Number of disks that [`crate::Layout`]s may name, 1 at least.
    pub disks: u16,
    /// Number of processors that the processes share, 1 at least. Only what is found out beside depends on it.
    pub processors: u16,
    /// Processor time of a fetch. Only what is found out beside depends on it.
    pub driver: Nanos,
    /// When to revoke the control of a foolish manager; `None` for never, as in the papers.
    pub revocation: Option<Revocation>,
    /// Give a prefetch up when it has not completed after this time (a plane whose fetches may vanish).
    pub fetch_timeout: Option<Nanos>,
    /// What is found out beside.
    pub beside: Beside,
    /// The limits of every table.
    pub limits: Limits,
}

impl Config {
    /// The defaults of the papers for a cache of `cache_blocks` blocks: LRU-SP, no prefetching,
    /// B = 16, margin 4, ascending order, one disk, no revocation, exact residency, nothing beside.
    #[must_use]
    pub fn new(cache_blocks: u32) -> Config {
        Config {
            cache_blocks: cache_blocks.max(1),
            residency: Residency::Exact,
            allocation: Allocation::LruSp,
            prefetch: Prefetch::None,
            batch: 16,
            free_margin: 4,
            horizon: None,
            readahead_blocks: 16,
            order: Order::Ascending,
            late_positions: 0,
            disks: 1,
            processors: 1,
            driver: Nanos(0),
            revocation: None,
            fetch_timeout: None,
            beside: Beside::Nothing,
            limits: Limits::default(),
        }
    }

    /// Is [`crate::Input::Served`] and [`crate::Input::Computed`] asked for?
    #[must_use]
    pub fn wants_times(&self) -> bool {
        self.prefetch.wants_times() || self.beside != Beside::Nothing
    }

    /// The horizon in force for fixed horizon, and for forestall's rule of that name.
    #[must_use]
    pub fn fixed_horizon(&self) -> u32 {
        self.horizon.unwrap_or(FIXED_HORIZON)
    }
}

/// Horizon of fixed horizon and forestall where none is configured: 62 references, a 15 ms disk access
/// over the 243 us that it takes to consume a block (Kimbrel et al. 1996, section 2.6).
const FIXED_HORIZON: u32 = 62;
