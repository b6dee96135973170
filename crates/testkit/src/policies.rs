//! The policies of pools with plain vectors, in the words of their papers: does each reference find its
//! block? Vectors are ordered from the oldest to the newest; the cache starts empty.
//!
//! References to one block in a row count as one, as in the engine.

/// A cache under one policy.
pub trait Policy {
    /// References a block; says whether it was found.
    fn reference(&mut self, block: u64) -> bool;
}

/// Whether each reference is found.
pub fn hits(policy: &mut dyn Policy, references: &[u64]) -> Vec<bool> {
    let mut latest = None;
    references.iter().map(|&block| latest.replace(block) == Some(block) || policy.reference(block)).collect()
}

/// LRU, or MRU.
#[derive(Debug)]
pub struct Recency {
    capacity: usize,
    newest_first: bool,
    list: Vec<u64>,
}

impl Recency {
    /// The least recently used one goes first.
    #[must_use]
    pub fn lru(capacity: usize) -> Recency {
        Recency { capacity, newest_first: false, list: vec![] }
    }

    /// The most recently used one goes first.
    #[must_use]
    pub fn mru(capacity: usize) -> Recency {
        Recency { capacity, newest_first: true, list: vec![] }
    }
}

impl Policy for Recency {
    fn reference(&mut self, block: u64) -> bool {
        let found = take(&mut self.list, block);
        if !found && self.list.len() == self.capacity {
            self.list.remove(if self.newest_first { self.capacity - 1 } else { 0 });
        }
        self.list.push(block);
        found
    }
}

/// Takes a block out of a vector; says whether it was there.
fn take(list: &mut Vec<u64>, block: u64) -> bool {
    let at = list.iter().position(|&b| b == block);
    at.map(|at| list.remove(at)).is_some()
}

/// S3-FIFO (Yang et al., SOSP 2023, Algorithm 1).
#[derive(Debug)]
pub struct S3Fifo {
    capacity: usize,
    /// Blocks with their counts.
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
}

impl S3Fifo {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> S3Fifo {
        S3Fifo { capacity, small: vec![], main: vec![], ghosts: vec![] }
    }

    fn evict(&mut self) {
        let small_target = (self.capacity / 10).max(1);
        while self.small.len() >= small_target || self.main.is_empty() {
            let (block, count) = self.small.remove(0);
            if count > 1 {
                self.main.push((block, 0));
                continue;
            }
            self.ghosts.push(block);
            if self.ghosts.len() > self.capacity - small_target {
                self.ghosts.remove(0);
            }
            return;
        }
        loop {
            let (block, count) = self.main.remove(0);
            if count == 0 {
                return;
            }
            self.main.push((block, count - 1));
        }
    }
}

impl Policy for S3Fifo {
    fn reference(&mut self, block: u64) -> bool {
        let mut cached = self.small.iter_mut().chain(&mut self.main);
        if let Some((_, count)) = cached.find(|(b, _)| *b == block) {
            *count = (*count + 1).min(3);
            return true;
        }
        if self.small.len() + self.main.len() == self.capacity {
            self.evict();
        }
        if take(&mut self.ghosts, block) {
            self.main.push((block, 0));
        } else {
            self.small.push((block, 0));
        }
        false
    }
}

/// SIEVE (Zhang et al., NSDI 2024, Algorithm 1).
#[derive(Debug)]
pub struct Sieve {
    capacity: usize,
    /// Blocks, and whether they were visited.
    queue: Vec<(u64, bool)>,
    hand: usize,
}

impl Sieve {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Sieve {
        Sieve { capacity, queue: vec![], hand: 0 }
    }
}

impl Policy for Sieve {
    fn reference(&mut self, block: u64) -> bool {
        if let Some((_, visited)) = self.queue.iter_mut().find(|(b, _)| *b == block) {
            *visited = true;
            return true;
        }
        if self.queue.len() == self.capacity {
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.capacity;
            }
            self.queue.remove(self.hand);
            // The hand is at the next newer one, or begins again if the newest went.
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((block, false));
        false
    }
}

/// The kernel's two lists (`mm/swap.c`, `mm/vmscan.c`, `mm/workingset.c`), below a GiB.
#[derive(Debug)]
pub struct Linux {
    capacity: usize,
    /// Blocks, and whether they have `PG_referenced`.
    inactive: Vec<(u64, bool)>,
    active: Vec<(u64, bool)>,
    /// Blocks that have gone, and the age at which they did.
    shadows: Vec<(u64, usize)>,
    nonresident_age: usize,
    refaults: usize,
}

impl Linux {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Linux {
        Linux { capacity, inactive: vec![], active: vec![], shadows: vec![], nonresident_age: 0, refaults: 0 }
    }

    fn reclaim(&mut self) {
        while !self.active.is_empty() && (self.refaults > 0 || self.inactive.len() < self.active.len()) {
            self.inactive.push(self.active.remove(0));
            self.refaults = self.refaults.saturating_sub(1);
        }
        let (block, _) = self.inactive.remove(0);
        self.shadows.push((block, self.nonresident_age));
        self.nonresident_age += 1;
        if self.shadows.len() > self.capacity {
            self.shadows.remove(0);
        }
    }
}

impl Policy for Linux {
    fn reference(&mut self, block: u64) -> bool {
        if let Some((_, referenced)) = self.active.iter_mut().find(|(b, _)| *b == block) {
            *referenced = true;
            return true;
        }
        if let Some(at) = self.inactive.iter().position(|(b, _)| *b == block) {
            if self.inactive[at].1 {
                self.inactive.remove(at);
                self.active.push((block, false));
                self.nonresident_age += 1;
            } else {
                self.inactive[at].1 = true;
            }
            return true;
        }
        if self.inactive.len() + self.active.len() == self.capacity {
            self.reclaim();
        }
        if let Some(at) = self.shadows.iter().position(|(b, _)| *b == block) {
            let (_, evicted_at) = self.shadows.remove(at);
            if self.nonresident_age - evicted_at <= self.active.len() {
                self.active.push((block, true));
                self.nonresident_age += 1;
                self.refaults += 1;
                return false;
            }
        }
        self.inactive.push((block, true));
        false
    }
}

/// LIRS (Jiang and Zhang, SIGMETRICS 2002, section 3.3), with as many HIR blocks that are not cached as
/// the cache has blocks.
#[derive(Debug)]
pub struct Lirs {
    capacity: usize,
    /// The stack S.
    stack: Vec<u64>,
    lir: Vec<u64>,
    /// The queue Q: HIR blocks that are cached.
    queue: Vec<u64>,
    /// HIR blocks of the stack that are not cached, in the order in which they went.
    ghosts: Vec<u64>,
}

impl Lirs {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Lirs {
        Lirs { capacity, stack: vec![], lir: vec![], queue: vec![], ghosts: vec![] }
    }

    fn lir_target(&self) -> usize {
        self.capacity - (self.capacity / 100).max(1)
    }

    fn prune(&mut self) {
        while self.stack.first().is_some_and(|bottom| !self.lir.contains(bottom)) {
            let bottom = self.stack.remove(0);
            take(&mut self.ghosts, bottom);
        }
    }

    fn promote(&mut self, block: u64) {
        self.lir.push(block);
        if self.lir.len() > self.lir_target() {
            let bottom = self.stack.remove(0);
            take(&mut self.lir, bottom);
            self.queue.push(bottom);
        }
        self.prune();
    }
}

impl Policy for Lirs {
    fn reference(&mut self, block: u64) -> bool {
        let (is_lir, is_queued) = (self.lir.contains(&block), self.queue.contains(&block));
        if !is_lir && !is_queued && self.lir.len() + self.queue.len() == self.capacity {
            let victim = self.queue.remove(0);
            if self.stack.contains(&victim) {
                self.ghosts.push(victim);
                if self.ghosts.len() > self.capacity {
                    let oldest = self.ghosts.remove(0);
                    take(&mut self.stack, oldest);
                }
            }
        }
        // What had to go may have taken this block's place in the stack with it.
        let was_stacked = take(&mut self.stack, block);
        take(&mut self.ghosts, block);
        self.stack.push(block);
        if is_lir {
            self.prune();
            return true;
        }
        if was_stacked || (!is_queued && self.lir.len() < self.lir_target()) {
            take(&mut self.queue, block);
            self.promote(block);
        } else {
            take(&mut self.queue, block);
            self.queue.push(block);
            self.prune();
        }
        is_queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(mut policy: impl Policy, references: &[u64]) -> usize {
        hits(&mut policy, references).into_iter().filter(|hit| !hit).count()
    }

    #[test]
    fn lirs_keeps_a_part_of_a_loop_and_fifos_keep_nothing() {
        let references: Vec<u64> = (0..5).flat_map(|_| 0..200).collect();
        assert_eq!(misses(Lirs::new(100), &references), 200 + 4 * (200 - 99));
        assert_eq!(misses(Sieve::new(100), &references), 1000);
        assert_eq!(misses(S3Fifo::new(100), &references), 1000);
        assert_eq!(misses(Recency::lru(100), &references), 1000);
    }

    #[test]
    fn sieve_passes_over_what_was_visited() {
        let mut sieve = Sieve::new(3);
        // The example of the paper's figure 1, shorter: 1 was visited, so 2 goes for 4, and then 3 for 5.
        assert_eq!(misses(Sieve::new(3), &[1, 2, 3, 1, 4, 1, 5, 1]), 5);
        hits(&mut sieve, &[1, 2, 3, 1, 4, 5]);
        assert_eq!(sieve.queue, [(1, false), (4, false), (5, false)]);
    }

    #[test]
    fn linux_protects_what_was_referenced_twice() {
        let references = [1, 2, 1, 3, 4, 5, 6, 7, 1];
        assert!(hits(&mut Linux::new(4), &references)[8], "1 is active, the others pass by");
        assert!(!hits(&mut Recency::lru(4), &references)[8]);
    }
}
