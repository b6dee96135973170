//! The choice between policies, made while their misses are being counted.
//!
//! For each policy that is not followed there is a *lead*: the references that it hit and the followed
//! one missed, less those the other way round, as a cumulative sum (Page 1954, as for detecting a change
//! in a process). The pool changes to the policy with the largest lead when that is
//!
//! - larger than chance makes it: four standard deviations of as many tosses of a coin as there were
//!   references on which the two differed since the lead was last nothing, and
//! - worth the change: a share of the slots, as a policy that takes over begins with the blocks that
//!   another one has kept.
//!
//! A lead never falls below minus one cache of misses: so much is remembered of the past. Less would be
//! wrong: two policies find different parts of a cyclic scan, and one leads by most of a cache before the
//! other has its turn in the same pass. More would make the pool slow to notice that a program changed.
//!
//! At a change all leads are taken against the policy that is followed now, and none is above nothing: the
//! one that was left has to make up what it had lost, and to lead again by as much, before it comes back.
//! So no sequence of references makes the pool go to and fro for nothing.

use super::TRIED;

/// Standard deviations by which a lead must exceed chance.
const DEVIATIONS: i64 = 4;

/// A lead must be one in so many of the slots.
const SLOTS_SHARE: u32 = 64;

/// The smallest lead that counts, in however small a cache.
const LEAST_LEAD: u32 = 8;

#[derive(Debug, Clone)]
pub(super) struct Choice {
    following: usize,
    leads: [Lead; TRIED.len()],
}

#[derive(Debug, Clone, Copy, Default)]
struct Lead {
    /// Misses saved.
    saved: i64,
    /// References on which the two differed since it was last nothing.
    differed: i64,
}

impl Choice {
    pub(super) fn new(following: usize) -> Choice {
        Choice { following, leads: [Lead::default(); TRIED.len()] }
    }

    /// Which policy to follow.
    pub(super) fn following(&self) -> usize {
        self.following
    }

    /// A reference was found or missed by each policy. Says whether another one is followed from now on.
    pub(super) fn count(&mut self, missed: &[bool; TRIED.len()], slots: u32) -> bool {
        let least = i64::from((slots / SLOTS_SHARE).max(LEAST_LEAD));
        let followed = missed[self.following];
        let mut best = None;
        for (at, (lead, &missed)) in self.leads.iter_mut().zip(missed).enumerate() {
            if missed == followed {
                continue;
            }
            lead.saved += if followed { 1 } else { -1 };
            lead.differed += 1;
            lead.saved = lead.saved.max(-i64::from(slots));
            if lead.saved <= 0 {
                lead.differed = 0;
            }
            let significant = lead.saved * lead.saved >= DEVIATIONS * DEVIATIONS * lead.differed;
            let ahead = best.is_none_or(|(_, saved)| lead.saved > saved);
            if lead.saved >= least && significant && ahead {
                best = Some((at, lead.saved));
            }
        }
        let Some((best, over)) = best else { return false };
        self.following = best;
        for lead in &mut self.leads {
            *lead = Lead { saved: (lead.saved - over).min(0), differed: 0 };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 1280;

    /// One policy hits, all others miss.
    fn only(hits: usize) -> [bool; TRIED.len()] {
        let mut missed = [true; TRIED.len()];
        missed[hits] = false;
        missed
    }

    /// The first policy hits what the second misses and the other way round, in turn, `each` at a time.
    fn changes_in_turns(each: usize, turns: usize) -> usize {
        let mut choice = Choice::new(0);
        (0..turns).map(|turn| (0..each).filter(|_| choice.count(&only(turn % 2), SLOTS)).count()).sum()
    }

    #[test]
    fn changes_once_the_lead_is_a_share_of_the_slots() {
        let mut choice = Choice::new(0);
        let until = (1..100).find(|_| choice.count(&only(3), SLOTS));
        assert_eq!((until, choice.following()), (Some(20), 3));
        assert!((0..1000).all(|_| !choice.count(&only(3), SLOTS)), "it hits: nobody leads");
    }

    #[test]
    fn a_lead_must_be_more_than_chance_in_a_small_cache_too() {
        let mut choice = Choice::new(0);
        let until = (1..100).find(|_| choice.count(&only(3), 1));
        assert_eq!(until, Some(16), "four deviations of sixteen tosses are sixteen");
    }

    #[test]
    fn does_not_flap_between_policies_that_are_alike() {
        assert_eq!(changes_in_turns(1, 10_000), 0);
        // Either finds another part of a loop in each pass.
        assert_eq!(changes_in_turns(1200, 100), 0);
        // Phases that are longer than the memory are followed.
        assert_eq!(changes_in_turns(4 * SLOTS as usize, 10), 9);
    }

    #[test]
    fn a_third_one_keeps_its_distance_when_the_second_takes_over() {
        let mut choice = Choice::new(0);
        // The third misses what the first two hit.
        for _ in 0..1000 {
            let mut missed = only(0);
            missed[1] = false;
            assert!(!choice.count(&missed, SLOTS));
        }
        assert!((0..20).any(|_| choice.count(&only(1), SLOTS)));
        assert!((0..1000).all(|_| !choice.count(&only(2), SLOTS)), "it makes up for what it lost");
        assert!((0..100).any(|_| choice.count(&only(2), SLOTS)));
    }

    #[test]
    fn chance_leads_nowhere() {
        // A coin (Marsaglia's xorshift) decides who hits, for a cache so small that little is enough.
        let mut choice = Choice::new(0);
        let mut state = 1u32;
        let mut changes = 0;
        for _ in 0..100_000 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            changes += u32::from(choice.count(&only((state >> 16 & 1) as usize), 1));
        }
        assert!(changes < 100, "{changes}");
    }
}
