//! Replacement algorithms: which of a set of blocks goes first, one file an algorithm.
//!
//! A [`Ranking`] holds blocks under one algorithm and remembers some that have gone. Pools whose
//! policy is not plain recency use one for their real blocks, and every shadow of a pool uses one for
//! each policy that it tries: what a shadow says of a policy, the pool does when it follows it.
//!
//! ```text
//!  recency  LRU, MRU        one list
//!  s3_fifo  S3-FIFO         a small and a main queue, references counted up to three
//!  sieve    SIEVE           one queue and a hand that passes over what was referenced
//!  linux    the kernel's    inactive and active list, refault distance
//!  lirs     LIRS            by the recency of the reference before the last
//! ```
//!
//! A block that is held takes 32 bytes and 8 to 16 in the index, and so does one that is remembered;
//! those are at most as many as blocks may be held.

mod algorithm;
mod arena;
mod linux;
mod lirs;
mod recency;
mod remembered;
mod s3_fifo;
mod sieve;

use crate::ids::Block;
use crate::pool_policy::PoolPolicy;
use algorithm::Algorithm;
use arena::Arena;
pub(crate) use arena::{Slot, mixed};

/// Blocks that a policy keeps in order.
#[derive(Debug)]
pub(crate) struct Ranking {
    arena: Arena,
    algorithm: Box<dyn Algorithm>,
    held: u32,
}

/// The name of a block in rankings and samples.
#[inline]
pub(crate) fn key_of(block: Block) -> u64 {
    u64::from(block.file.0) << 32 | u64::from(block.index)
}

impl Ranking {
    /// An empty one for `capacity` blocks, each of which stands for `scale` blocks of a cache.
    /// `None` for a policy that is no algorithm of its own.
    pub(crate) fn new(policy: PoolPolicy, capacity: u32, scale: u32) -> Option<Ranking> {
        let capacity = capacity.max(1);
        let algorithm: Box<dyn Algorithm> = match policy {
            PoolPolicy::Lru => Box::new(recency::Recency::least()),
            PoolPolicy::Mru => Box::new(recency::Recency::most()),
            PoolPolicy::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity)),
            PoolPolicy::Sieve => Box::new(sieve::Sieve::default()),
            PoolPolicy::Linux => Box::new(linux::Linux::new(capacity, scale)),
            PoolPolicy::Lirs => Box::new(lirs::Lirs::new(capacity)),
            PoolPolicy::Adaptive => return None,
        };
        Some(Ranking { arena: Arena::default(), algorithm, held: 0 })
    }

    /// Blocks that are held.
    pub(crate) fn len(&self) -> u32 {
        self.held
    }

    /// A block that is not held comes, referenced for the first time; `tag` is the caller's number of it.
    pub(crate) fn insert(&mut self, key: u64, tag: u32) -> Slot {
        let found = self.arena.find(key);
        let slot = found.unwrap_or_else(|| self.arena.add(key));
        debug_assert!(!self.arena[slot].held, "held twice");
        self.arena[slot].held = true;
        self.held += 1;
        self.algorithm.enter(&mut self.arena, slot, found.is_some());
        self.arena[slot].tag = tag;
        slot
    }

    /// The node of a block that is held.
    pub(crate) fn find(&self, key: u64) -> Option<Slot> {
        self.arena.find(key).filter(|&slot| self.arena[slot].held)
    }

    /// The caller's number of a block.
    pub(crate) fn tag(&self, slot: Slot) -> u32 {
        self.arena[slot].tag
    }

    /// A block that is held was referenced.
    pub(crate) fn hit(&mut self, slot: Slot) {
        self.algorithm.hit(&mut self.arena, slot);
    }

    /// A block shall stay as long as possible, without a reference.
    pub(crate) fn keep(&mut self, slot: Slot) {
        self.algorithm.keep(&mut self.arena, slot);
    }

    /// The block that goes first; it is held until [`Ranking::remove`].
    pub(crate) fn victim(&mut self) -> Option<Slot> {
        self.algorithm.victim(&mut self.arena)
    }

    /// A block leaves: `evicted` as this ranking chose it, or by itself.
    pub(crate) fn remove(&mut self, slot: Slot, evicted: bool) {
        self.held -= 1;
        self.arena[slot].held = false;
        self.algorithm.leave(&mut self.arena, slot, evicted);
    }

    /// So many blocks may be held. Those beyond stay until the caller has removed them.
    pub(crate) fn set_capacity(&mut self, capacity: u32) {
        self.algorithm.set_capacity(&mut self.arena, capacity.max(1));
    }

    /// Memory of the nodes and of the way to them.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// The callers' numbers of all that are held, roughly from the one that would go first on.
    pub(crate) fn tags(&self) -> Vec<u32> {
        let mut tags = Vec::with_capacity(self.held as usize);
        self.algorithm.order(&self.arena, &mut |slot| tags.push(self.arena[slot].tag));
        tags
    }
}
