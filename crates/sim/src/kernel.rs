//! The page cache of an advisory machine: the truth that the engine's books are about.
//!
//! In an advisory plane the kernel holds the blocks, and the engine only says what to fetch and what to drop. The kernel
//! here replaces by LRU in a memory that is somewhat larger than the engine's budget, reads ahead by itself, and is
//! watched through a ring of observations: what was referenced, what came, what went.
//!
//! With a seed it has faults, each at a rate of a few in a hundred ([`RATES`]):
//!
//! ```text
//!  vanish   a block leaves by itself, when another one is referenced
//!  refuse   a block that is to be dropped stays
//!  late     the ring is drained milliseconds later; what comes meanwhile waits behind
//!  lose     observations are lost in bursts; that some were is known, and the kernel is then asked for what it has
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foretell_policy::{Block, Engine, Input, KernelReadahead, Nanos, ProcessId};
use serde::Serialize;

use crate::hints::SplitMix;

/// Memory of the kernel beyond the engine's budget, as a share of it, and blocks at least.
const MEMORY_SHARE: u32 = 8;
const MEMORY_LEAST: u32 = 4;

/// Shares of references at which a block vanishes, of evictions that are refused, of drains that are late and of
/// observations with which a burst is lost.
#[derive(Debug, Clone, Copy)]
struct Rates {
    vanish: f64,
    refuse: f64,
    late: f64,
    lose: f64,
}

const RATES: Rates = Rates { vanish: 0.02, refuse: 0.05, late: 0.05, lose: 0.01 };

/// A late drain comes after this time at most.
const LATE_NS: u32 = 20_000_000;

/// Observations that are lost at a time, at most.
const BURST: u32 = 16;

/// What the kernel did by itself, and how the engine's books were when all was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Advised {
    /// Blocks that left by themselves.
    pub vanished: u64,
    /// Evictions that were refused.
    pub refused: u64,
    /// Drains that were late.
    pub late: u64,
    /// Observations that were lost.
    pub lost: u64,
    /// Blocks of which the kernel was asked therefore.
    pub asked: u64,
    /// Blocks that the kernel read ahead by itself.
    pub read_ahead: u64,
    /// Blocks of which the books say something else than the truth, once nothing is on its way any more.
    pub differing: u64,
}

/// An observation in the ring.
#[derive(Debug, Clone, Copy)]
enum Seen {
    Accessed {
        process: ProcessId,
        block: Block,
        stalled: bool,
    },
    Loaded {
        block: Block,
        by: Option<ProcessId>,
    },
    Gone {
        block: Block,
    },
    Refused {
        block: Block,
    },
    /// A process has ended. This is never lost: it comes from the plane's own table of processes.
    Exited {
        process: ProcessId,
    },
}

impl Seen {
    /// The block of which the kernel can be asked if this is lost.
    fn block(self) -> Option<Block> {
        match self {
            Seen::Accessed { block, .. }
            | Seen::Loaded { block, .. }
            | Seen::Gone { block }
            | Seen::Refused { block } => Some(block),
            Seen::Exited { .. } => None,
        }
    }

    fn input(self) -> Input<'static> {
        match self {
            Seen::Accessed { process, block, stalled } => Input::Accessed { process, block, stalled },
            Seen::Loaded { block, by } => Input::Loaded { block, by },
            Seen::Gone { block } => Input::Gone { block },
            Seen::Refused { block } => Input::EvictRefused { block },
            Seen::Exited { process } => Input::ProcessExited { process },
        }
    }
}

/// Where a referenced block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Resident,
    OnItsWay,
    Absent,
}

/// The kernel's memory, and the ring.
#[derive(Debug)]
pub(crate) struct Kernel {
    memory_blocks: usize,
    /// When each block was used last, by a count, and the same the other way round.
    used: BTreeMap<Block, u64>,
    by_use: BTreeMap<u64, Block>,
    uses: u64,
    /// What is being fetched: by a process's read or the readahead for it, or for the engine.
    on_their_way: BTreeMap<Block, Option<ProcessId>>,
    readahead: KernelReadahead,
    readahead_blocks: u32,
    ring: VecDeque<Seen>,
    /// When the ring is drained, if anything is in it.
    drained_at: Option<u64>,
    /// Blocks of which observations were lost.
    lost: BTreeSet<Block>,
    losing: u32,
    faults: Option<SplitMix>,
    counts: Advised,
}

impl Kernel {
    /// An empty one beside an engine with this budget, with faults if there is a seed.
    pub(crate) fn new(cache_blocks: u32, readahead_blocks: u32, faults: Option<u64>) -> Kernel {
        let beyond = (cache_blocks / MEMORY_SHARE).max(MEMORY_LEAST);
        Kernel {
            memory_blocks: cache_blocks.saturating_add(beyond) as usize,
            used: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            on_their_way: BTreeMap::new(),
            readahead: KernelReadahead::default(),
            readahead_blocks,
            ring: VecDeque::new(),
            drained_at: None,
            lost: BTreeSet::new(),
            losing: 0,
            faults: faults.map(|seed| SplitMix(seed ^ 0x6661_756c_7473)),
            counts: Advised::default(),
        }
    }

    /// A process references a block; gives where it is. Something may vanish first.
    pub(crate) fn reference(&mut self, now: u64, process: ProcessId, block: Block) -> Found {
        if self.fails(|rates| rates.vanish)
            && let Some(random) = &mut self.faults
        {
            let at = random.below(self.used.len() as u32) as usize;
            if let Some(&gone) = self.used.keys().nth(at) {
                self.counts.vanished += 1;
                self.drop(now, gone);
            }
        }
        if self.on_their_way.contains_key(&block) {
            return Found::OnItsWay;
        }
        if !self.used.contains_key(&block) {
            return Found::Absent;
        }
        self.touch(block);
        self.see(now, Seen::Accessed { process, block, stalled: false });
        Found::Resident
    }

    /// What the kernel reads ahead at a reference: from one block of the file up to another one.
    pub(crate) fn ahead(&mut self, block: Block) -> std::ops::Range<u32> {
        self.readahead.ahead(block, self.readahead_blocks)
    }

    /// A fetch begins, for a process or for the engine; false if the block is there or on its way already.
    pub(crate) fn fetch(&mut self, now: u64, block: Block, by: Option<ProcessId>, is_ahead: bool) -> bool {
        if self.used.contains_key(&block) {
            if by.is_none() {
                self.see(now, Seen::Loaded { block, by });
            }
            return false;
        }
        if self.on_their_way.contains_key(&block) {
            return false;
        }
        self.counts.read_ahead += u64::from(is_ahead);
        self.on_their_way.insert(block, by);
        true
    }

    /// A fetch has ended; the least recently used blocks make room.
    pub(crate) fn arrived(&mut self, now: u64, block: Block) {
        let by = self.on_their_way.remove(&block).flatten();
        while self.used.len() >= self.memory_blocks
            && let Some((_, &last)) = self.by_use.first_key_value()
        {
            self.drop(now, last);
        }
        self.touch(block);
        self.see(now, Seen::Loaded { block, by });
    }

    /// A process that waited for a block has it.
    pub(crate) fn resumed(&mut self, now: u64, process: ProcessId, block: Block) {
        self.see(now, Seen::Accessed { process, block, stalled: true });
    }

    /// A process has ended, which is seen after all that it did.
    pub(crate) fn exited(&mut self, now: u64, process: ProcessId) {
        self.see(now, Seen::Exited { process });
    }

    /// The engine wants a block dropped.
    pub(crate) fn evict(&mut self, now: u64, block: Block) {
        if !self.used.contains_key(&block) {
            self.see(now, Seen::Gone { block });
        } else if self.fails(|rates| rates.refuse) {
            self.counts.refused += 1;
            self.see(now, Seen::Refused { block });
        } else {
            self.drop(now, block);
        }
    }

    /// When the ring is to be drained.
    pub(crate) fn drained_at(&self) -> Option<u64> {
        self.drained_at
    }

    /// Tells the engine what was seen, and what the kernel has of the blocks of which something was not.
    pub(crate) fn drain(&mut self, now: u64, engine: &mut Engine) {
        self.drained_at = None;
        for seen in std::mem::take(&mut self.ring) {
            engine.tell(Nanos(now), seen.input());
        }
        for block in std::mem::take(&mut self.lost) {
            self.counts.asked += 1;
            if self.used.contains_key(&block) {
                engine.tell(Nanos(now), Input::Loaded { block, by: None });
            } else {
                engine.tell(Nanos(now), Input::Gone { block });
                if !self.on_their_way.contains_key(&block) {
                    engine.tell(Nanos(now), Input::FetchFailed { block });
                }
            }
        }
    }

    /// Is nothing on its way and everything told?
    pub(crate) fn is_at_rest(&self) -> bool {
        self.on_their_way.is_empty() && self.ring.is_empty() && self.lost.is_empty()
    }

    /// What happened, and how many of these blocks the engine takes for cached that are not, or the reverse.
    pub(crate) fn compare(&self, engine: &Engine, blocks: impl Iterator<Item = Block>) -> Advised {
        let differing =
            blocks.filter(|&block| engine.is_cached(block) != self.used.contains_key(&block)).count();
        let more = (engine.used_blocks() as usize).abs_diff(self.used.len());
        Advised { differing: differing.max(more) as u64, ..self.counts }
    }

    fn touch(&mut self, block: Block) {
        self.uses += 1;
        if let Some(before) = self.used.insert(block, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, block);
    }

    fn drop(&mut self, now: u64, block: Block) {
        if let Some(used) = self.used.remove(&block) {
            self.by_use.remove(&used);
            self.see(now, Seen::Gone { block });
        }
    }

    fn see(&mut self, now: u64, seen: Seen) {
        if self.losing == 0
            && self.fails(|rates| rates.lose)
            && let Some(random) = &mut self.faults
        {
            self.losing = 1 + random.below(BURST);
        }
        let late = self.drained_at.is_none() && self.fails(|rates| rates.late);
        let delay = match &mut self.faults {
            Some(random) if late => {
                self.counts.late += 1;
                u64::from(random.below(LATE_NS))
            }
            _ => 0,
        };
        self.drained_at.get_or_insert(now.saturating_add(delay));
        match seen.block() {
            Some(block) if self.losing > 0 => {
                self.losing -= 1;
                self.counts.lost += 1;
                self.lost.insert(block);
            }
            _ => self.ring.push_back(seen),
        }
    }

    fn fails(&mut self, rate: impl Fn(Rates) -> f64) -> bool {
        self.faults.as_mut().is_some_and(|random| random.share() < rate(RATES))
    }
}
