//! A plane in which fetches take no time: the world of the papers' replacement arguments.
//!
//! It performs every action at once and answers it, and it checks on the way what must hold in an exact
//! plane: the cache never holds more than it may, nothing is fetched that is there, nothing is evicted
//! that is not.

use std::collections::BTreeSet;

use foretell_policy::{Access, Action, Block, Engine, Input, Nanos, ProcessId, Reason};

/// The engine and the cache that it steers.
pub struct InstantPlane {
    /// The engine; give directives and read counters here.
    pub engine: Engine,
    cache_blocks: usize,
    cached: BTreeSet<Block>,
    now: Nanos,
    evicted: Vec<Block>,
    prefetched: Vec<Block>,
}

impl InstantPlane {
    /// Around an engine with an empty cache of `cache_blocks` blocks and exact residency.
    #[must_use]
    pub fn new(engine: Engine, cache_blocks: usize) -> InstantPlane {
        InstantPlane {
            engine,
            cache_blocks,
            cached: BTreeSet::new(),
            now: Nanos(0),
            evicted: Vec::new(),
            prefetched: Vec::new(),
        }
    }

    /// A process references a block; gives how it was found. Whatever the engine asks for has been done
    /// when this returns.
    ///
    /// # Panics
    ///
    /// If the engine asks for what cannot be.
    pub fn access(&mut self, process: ProcessId, block: Block) -> Access {
        self.evicted.clear();
        self.prefetched.clear();
        self.now = Nanos(self.now.0 + 1);
        let found = self.engine.access(self.now, process, block);
        let expected = if self.cached.contains(&block) { Access::Hit } else { Access::Miss };
        assert_eq!(found, expected, "{block:?}");
        self.perform();
        assert!(self.cached.contains(&block) || found == Access::Hit, "{block:?} was never fetched");
        found
    }

    /// Tells the engine of an input and performs what it asks for.
    pub fn tell(&mut self, input: Input<'_>) {
        self.now = Nanos(self.now.0 + 1);
        if let Input::Gone { block } = input {
            self.cached.remove(&block);
        }
        self.engine.tell(self.now, input);
        self.perform();
    }

    /// Performs what the engine asks for, for example after a directive or a disclosure.
    ///
    /// # Panics
    ///
    /// If the engine asks for what cannot be.
    pub fn perform(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Fetch { block, reason, .. } => {
                    assert!(self.cached.insert(block), "{block:?} is fetched and was there");
                    assert!(self.cached.len() <= self.cache_blocks, "{block:?} has no room");
                    if reason == Reason::Prefetch {
                        self.prefetched.push(block);
                    }
                    self.engine.tell(self.now, Input::Loaded { block, by: None });
                }
                Action::Evict { block } => {
                    assert!(self.cached.remove(&block), "{block:?} is evicted and was not there");
                    self.evicted.push(block);
                }
                Action::CancelPrefetches { .. } => {}
            }
        }
    }

    /// The time of the last input.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// What is in the cache.
    #[must_use]
    pub fn cached(&self) -> &BTreeSet<Block> {
        &self.cached
    }

    /// What the last reference had evicted, in order.
    #[must_use]
    pub fn evicted(&self) -> &[Block] {
        &self.evicted
    }

    /// What was prefetched since the last reference began, in order.
    #[must_use]
    pub fn prefetched(&self) -> &[Block] {
        &self.prefetched
    }
}
