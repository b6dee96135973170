//! Shadows: what each policy would have done with the references of one pool, found out on a sample.
//!
//! Sampling is that of SHARDS (Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC construction with
//! SHARDS", FAST 2015): a block is in the sample when the hash of its name says so, always or never, and
//! a cache smaller by the same factor is simulated for the sample. A reference to another block costs the
//! hash and a comparison. The rate is the largest power of 1/2 that leaves at most [`MOST_SLOTS`] slots:
//! all blocks of a small cache, so that its shadows are exact, and between half as many slots and all of
//! them for a large one.
//!
//! One [`Ranking`] a policy is run on the sample, and [`Choice`] compares their misses as they happen.
//!
//! Memory is bounded: a policy holds at most `MOST_SLOTS` blocks and remembers as many, 40 bytes each:
//! 160 kB a policy, just under 1 MB a pool. Once all slots have been used, nothing is allocated any more.

mod choice;

use crate::ids::Block;
use crate::pool_policy::PoolPolicy;
use crate::replacement::{Ranking, key_of, mixed};
use choice::Choice;

/// Slots of a simulated cache at most. SHARDS (section 5.3) needs some thousand blocks for a miss ratio
/// within 1%; here the same sample decides between policies, so most of its error is common to all.
const MOST_SLOTS: u32 = 2048;

/// When the pool has become smaller, the sample is drawn anew, at a higher rate, below this many slots.
const FEWEST_SLOTS: u32 = 512;

/// The policies that are tried, in the order in which they are preferred when they are alike: all that there are, but for
/// the one that tries them.
pub(crate) const TRIED: [PoolPolicy; PoolPolicy::all().len() - 1] = [
    PoolPolicy::Lru,
    PoolPolicy::Lirs,
    PoolPolicy::S3Fifo,
    PoolPolicy::Sieve,
    PoolPolicy::Linux,
    PoolPolicy::Mru,
];

const _: () = {
    let mut of_each = [0; PoolPolicy::all().len()];
    let mut at = 0;
    while at < TRIED.len() {
        of_each[TRIED[at] as usize] += 1;
        at += 1;
    }
    // As many as there are without it: none is left out if none stands here twice.
    assert!(of_each[PoolPolicy::Adaptive as usize] == 0, "the adaptive policy does not try itself");
    at = 0;
    while at < of_each.len() {
        assert!(of_each[at] <= 1, "a policy is tried twice, and another one not at all");
        at += 1;
    }
};

/// What a pool follows before anything is known, as an index of [`TRIED`]: LRU. When a cyclic scan shows in
/// its second pass, LRU has lost only as many blocks as it took to notice; a program that moves on to other
/// files finds that LIRS and MRU have kept the old ones, and has lost a whole cache before it shows.
const START: usize = 0;

/// How the policies compare on one pool's references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowReport {
    /// The policy that the pool follows at present.
    pub following: PoolPolicy,
    /// How often it has changed so far.
    pub switches: u64,
    /// Blocks that the pool is taken to have room for.
    pub capacity_blocks: u32,
    /// One block in so many is in the sample.
    pub sampled_one_in: u32,
    /// References to blocks of the sample.
    pub references: u64,
    /// How many of them each policy would have missed.
    pub misses: Vec<(PoolPolicy, u64)>,
}

/// The shadows of one pool.
#[derive(Debug)]
pub(crate) struct Shadow {
    capacity_blocks: u32,
    /// One block in 2^shift is in the sample.
    shift: u32,
    rankings: Vec<Ranking>,
    /// The block that was referenced last: a program that reads it piece by piece says so once.
    latest: Option<u64>,
    references: u64,
    misses: [u64; TRIED.len()],
    choice: Choice,
    switches: u64,
}

/// The shift that leaves at most [`MOST_SLOTS`] of so many blocks.
fn shift_for(capacity_blocks: u32) -> u32 {
    (0..u32::BITS).find(|shift| capacity_blocks >> shift <= MOST_SLOTS).unwrap_or(0)
}

impl Shadow {
    /// The shadows of a pool with room for `capacity_blocks`, which follows the first of the policies.
    pub(crate) fn new(capacity_blocks: u32) -> Shadow {
        let mut shadow = Shadow {
            capacity_blocks: capacity_blocks.max(1),
            shift: 0,
            rankings: Vec::new(),
            latest: None,
            references: 0,
            misses: [0; TRIED.len()],
            choice: Choice::new(START),
            switches: 0,
        };
        shadow.draw_anew(START);
        shadow
    }

    /// The policy to follow.
    pub(crate) fn following(&self) -> PoolPolicy {
        TRIED[self.choice.following()]
    }

    /// A block of the pool was referenced. Gives the policy to follow from now on, if that is another one.
    #[inline]
    pub(crate) fn reference(&mut self, block: Block) -> Option<PoolPolicy> {
        let key = key_of(block);
        if self.latest.replace(key) == Some(key) {
            return None;
        }
        // The top bits: the rankings' tables go by the low ones.
        if self.shift > 0 && mixed(key) >> (u64::BITS - self.shift) != 0 {
            return None;
        }
        self.sampled(key)
    }

    fn sampled(&mut self, key: u64) -> Option<PoolPolicy> {
        let slots = self.slots();
        let mut missed = [false; TRIED.len()];
        for (ranking, missed) in self.rankings.iter_mut().zip(&mut missed) {
            if let Some(slot) = ranking.find(key) {
                ranking.hit(slot);
                continue;
            }
            *missed = true;
            make_room(ranking, slots - 1);
            ranking.insert(key, 0);
        }
        self.references += 1;
        for (misses, missed) in self.misses.iter_mut().zip(missed) {
            *misses += u64::from(missed);
        }
        let switched = self.choice.count(&missed, slots);
        self.switches += u64::from(switched);
        switched.then(|| self.following())
    }

    /// The pool has room for so many blocks. A small change moves the simulated caches along; a sample
    /// that has become too small or too large is drawn anew, and what was counted goes with it.
    pub(crate) fn set_capacity(&mut self, capacity_blocks: u32) {
        if capacity_blocks == self.capacity_blocks {
            return;
        }
        self.capacity_blocks = capacity_blocks.max(1);
        let slots = self.capacity_blocks >> self.shift;
        if slots > MOST_SLOTS || (slots < FEWEST_SLOTS && self.shift > 0) {
            self.draw_anew(self.choice.following());
            return;
        }
        let slots = self.slots();
        for ranking in &mut self.rankings {
            ranking.set_capacity(slots);
            make_room(ranking, slots);
        }
    }

    pub(crate) fn report(&self) -> ShadowReport {
        ShadowReport {
            following: self.following(),
            switches: self.switches,
            capacity_blocks: self.capacity_blocks,
            sampled_one_in: 1 << self.shift,
            references: self.references,
            misses: TRIED.into_iter().zip(self.misses).collect(),
        }
    }

    /// Slots of a simulated cache.
    fn slots(&self) -> u32 {
        (self.capacity_blocks >> self.shift).max(1)
    }

    fn draw_anew(&mut self, following: usize) {
        self.shift = shift_for(self.capacity_blocks);
        let (slots, scale) = (self.slots(), 1 << self.shift);
        self.rankings = TRIED.into_iter().filter_map(|policy| Ranking::new(policy, slots, scale)).collect();
        self.references = 0;
        self.misses = [0; TRIED.len()];
        self.choice = Choice::new(following);
    }
}

/// Replaces blocks until at most so many are held.
fn make_room(ranking: &mut Ranking, at_most: u32) {
    while ranking.len() > at_most {
        let Some(victim) = ranking.victim() else { break };
        ranking.remove(victim, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    fn play(shadow: &mut Shadow, references: impl IntoIterator<Item = u32>) {
        for index in references {
            shadow.reference(Block::new(FileId(0), index));
        }
    }

    fn misses_of(shadow: &Shadow, policy: PoolPolicy) -> u64 {
        let report = shadow.report();
        report.misses.iter().find(|(p, _)| *p == policy).map(|(_, misses)| *misses).unwrap()
    }

    #[test]
    fn a_small_pool_is_simulated_as_it_is() {
        let mut shadow = Shadow::new(3);
        play(&mut shadow, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(shadow.report().sampled_one_in, 1);
        assert_eq!(misses_of(&shadow, PoolPolicy::Lru), 8);
        assert_eq!(misses_of(&shadow, PoolPolicy::Mru), 5);
    }

    #[test]
    fn a_sample_of_a_large_pool_tells_the_miss_ratios() {
        let (blocks, capacity) = (400_000, 100_000);
        let mut shadow = Shadow::new(capacity);
        for _ in 0..3 {
            play(&mut shadow, 0..blocks);
        }
        let report = shadow.report();
        assert_eq!(report.sampled_one_in, 64);
        let ratio = |policy| misses_of(&shadow, policy) as f64 / report.references as f64;
        assert!(ratio(PoolPolicy::Lru) == 1.0);
        // 400,000 at first, 300,000 in each other pass.
        assert!((ratio(PoolPolicy::Mru) - 1_000_000.0 / 1_200_000.0).abs() < 0.01);
    }

    #[test]
    fn its_size_stays_within_the_limit_whatever_the_pool_has() {
        for capacity in [1, 2048, 2049, 4096, 1 << 20, u32::MAX] {
            let shadow = Shadow::new(capacity);
            assert!(shadow.slots() <= MOST_SLOTS, "{capacity}");
            assert!(shadow.slots() >= capacity.min(MOST_SLOTS / 2), "{capacity}: {}", shadow.slots());
        }
        let mut shadow = Shadow::new(MOST_SLOTS);
        play(&mut shadow, (0..5).flat_map(|_| 0..3 * MOST_SLOTS));
        let bytes = shadow.rankings.iter().map(Ranking::bytes).sum::<usize>();
        assert!(bytes < 1 << 20, "{bytes}");
        play(&mut shadow, (0..5).flat_map(|_| 0..5 * MOST_SLOTS));
        assert_eq!(shadow.rankings.iter().map(Ranking::bytes).sum::<usize>(), bytes, "nothing more");
        let mut shadow = Shadow::new(1 << 20);
        play(&mut shadow, 0..1 << 20);
        for capacity in [1 << 19, 100_000, 100, 7, 1 << 22] {
            shadow.set_capacity(capacity);
            play(&mut shadow, 0..10_000);
            let slots = shadow.slots();
            assert!(slots <= MOST_SLOTS && shadow.rankings.iter().all(|r| r.len() <= slots), "{capacity}");
        }
    }
}
