//! Who pays for what is fetched ahead.
//!
//! Allocation promises that a foolish manager costs nobody but itself (LRU-SP; Cao, Felten, Li 1994, section 4). That is
//! about replacement: a manager's orders move no more of other managers' blocks out than its misses do. A block that is
//! fetched ahead is a miss of nobody's. It is the most recently used one of all when it comes, so lists of what is never
//! read age everybody's blocks as fast as the disk can read.
//!
//! So each manager has some *trust*, in blocks:
//!
//! 1. It begins with [`FIRST`].
//! 2. A block that was fetched ahead and is referenced adds one, one that goes unused takes [`LOST`].
//! 3. A manager with more blocks ahead, fetched and neither used nor gone, than it has trust makes room for further ones
//!    with blocks of its own, as long as it has some that it may give up. The new block takes the place of the old one in
//!    the order of all blocks: were it the most recently used one, the manager's blocks would never be old, and those of
//!    others would be instead. What its programs read has its place as anybody's has.
//!
//! So at the expense of others little more is fetched than has been right before. Beside a neighbour whose lists are all wrong
//! an honest reader had 17% more misses without this than beside one that says nothing, and 23% fewer with it: 7% more
//! where the new block is the most recently used one (`./x bench neighbours --blocks 2048`, 16,369 references).

/// Blocks that may be ahead before one has been used: half a MiB of 8 KiB.
const FIRST: u32 = 64;

/// What a block that goes unused takes: trust grows where more than four of five are used. A list of half of its file at
/// random is right in half of its blocks, by chance; with 1 it costs an honest reader 4% more misses.
const LOST: u32 = 4;

/// Trust grows no further: 512 MiB of 8 KiB.
const MOST: u32 = 1 << 16;

/// One manager's trust, and what it has ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waste {
    trust: u32,
    ahead: u32,
}

impl Default for Waste {
    fn default() -> Waste {
        Waste { trust: FIRST, ahead: 0 }
    }
}

/// What becomes of a block that is fetched ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its fetch begins.
    Begun,
    /// It is referenced.
    Used,
    /// It goes without.
    Wasted,
    /// It has not come, or not before somebody who needed it had read it.
    Failed,
}

impl Waste {
    #[inline]
    pub(super) fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Begun => self.ahead = self.ahead.saturating_add(1),
            Fate::Used => self.trust = (self.trust + 1).min(MOST),
            Fate::Wasted => self.trust = self.trust.saturating_sub(LOST),
            Fate::Failed => {}
        }
        if fate != Fate::Begun {
            self.ahead = self.ahead.saturating_sub(1);
        }
    }

    /// Has more than one block of five gone unused, of late?
    pub(super) fn is_untrusted(self) -> bool {
        self.trust == 0
    }

    /// Is the manager to pay for what it fetches next?
    pub(super) fn pays(self) -> bool {
        self.ahead >= self.trust
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many more blocks may be fetched at the expense of all.
    fn room(mut waste: Waste) -> u32 {
        (0..)
            .find(|_| {
                let pays = waste.pays();
                waste.count(Fate::Begun);
                pays
            })
            .unwrap()
    }

    #[test]
    fn little_more_is_fetched_at_the_expense_of_all_than_was_right_before() {
        let mut waste = Waste::default();
        assert_eq!(room(waste), 64);
        (0..10).for_each(|_| waste.count(Fate::Begun));
        assert_eq!(room(waste), 54);
        (0..4).for_each(|_| waste.count(Fate::Used));
        assert_eq!(room(waste), 68 - 6, "four more, and six are ahead");
        (0..5).for_each(|_| waste.count(Fate::Wasted));
        waste.count(Fate::Failed);
        assert_eq!(room(waste), 68 - 20);
    }

    #[test]
    fn trust_has_its_limits() {
        let mut waste = Waste::default();
        (0..100).for_each(|_| waste.count(Fate::Wasted));
        assert!(waste.pays(), "always, until something was right");
        waste.count(Fate::Used);
        assert_eq!(room(waste), 1);
        (0..2 * MOST).for_each(|_| waste.count(Fate::Used));
        assert_eq!(room(waste), MOST);
    }
}
