//! Who has which lane, on the side of the pool that empties them.

use super::arena::Arena;
use super::board::{GUEST_LANES, LANES, LOCAL_LANES, MOST_GUESTS, Reference};
use crate::who::Who;

/// Parts that are read beside between two looks at a lane: one each 5 ns for a minute and a half.
const MOST_PASSED: u64 = 1 << 34;
/// The pool's side: up to where each lane was emptied, and which belong to whom.
#[derive(Debug)]
pub(crate) struct Lanes {
    heads: Vec<Head>,
    /// Guests, by the place of their lanes; and whose references theirs are, if not the pool's own.
    guests: Vec<Option<Option<Who>>>,
    gathered: Gathered,
}

/// Up to where a lane was emptied.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    references: u64,
    /// What the board had counted beside them.
    passed: u64,
}

/// What readers did without the lock.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// What they left, in the order of time, and whose it is, if not the pool's own.
    pub(crate) references: Vec<(Reference, Option<Who>)>,
    /// Parts that they read beside, of which nothing more is known.
    pub(crate) passed: u64,
}

impl Gathered {
    fn take(&mut self, arena: &Arena, lane: u32, head: &mut Head, who: Option<Who>) {
        let board = arena.board();
        board.take(lane, &mut head.references, |reference| self.references.push((reference, who)));
        let passed = board.passed(lane);
        // What no reader can do in that time a guest has made up: it is not counted.
        self.passed +=
            Some(passed.wrapping_sub(head.passed)).filter(|&more| more <= MOST_PASSED).unwrap_or(0);
        head.passed = passed;
    }

    fn is_empty(&self) -> bool {
        self.references.is_empty() && self.passed == 0
    }
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        let heads = vec![Head::default(); LANES as usize];
        Lanes { heads, guests: Vec::new(), gathered: Gathered::default() }
    }

    /// Lanes for a guest, by the first of them; `None` when as many guests as may be have theirs.
    pub(crate) fn grant(&mut self, arena: &Arena, who: Option<Who>) -> Option<u32> {
        let place = match self.guests.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.guests.len() < MOST_GUESTS as usize => {
                self.guests.push(None);
                self.guests.len() - 1
            }
            None => return None,
        };
        self.guests[place] = Some(who);
        arena.set_guests(self.guests.len() as u32);
        Some(LOCAL_LANES + place as u32 * GUEST_LANES)
    }

    fn place(first: u32) -> usize {
        ((first - LOCAL_LANES) / GUEST_LANES) as usize
    }

    /// From now on a guest's references are its own.
    pub(crate) fn set_who(&mut self, first: u32, who: Who) {
        if let Some(Some(guest)) = self.guests.get_mut(Lanes::place(first)) {
            *guest = Some(who);
        }
    }

    /// A guest is gone: what it read it reads no more.
    pub(crate) fn release(&mut self, arena: &Arena, first: u32) {
        for lane in first..first + GUEST_LANES {
            Gathered::default().take(arena, lane, &mut self.heads[lane as usize], None);
            arena.board().set_reading(lane, None);
        }
        if let Some(guest) = self.guests.get_mut(Lanes::place(first)) {
            *guest = None;
        }
        while self.guests.last().is_some_and(Option::is_none) {
            self.guests.pop();
        }
        arena.set_guests(self.guests.len() as u32);
    }

    /// Those of guests that follow lists of their own.
    pub(crate) fn whos(&self) -> impl Iterator<Item = Who> + '_ {
        self.guests.iter().filter_map(|guest| (*guest)?)
    }

    /// What all lanes have, in the order of time; `None` when it is nothing, which is most often so.
    pub(crate) fn gather(&mut self, arena: &Arena) -> Option<Gathered> {
        let mut gathered = std::mem::take(&mut self.gathered);
        for lane in 0..arena.local().used() {
            gathered.take(arena, lane, &mut self.heads[lane as usize], None);
        }
        for (place, who) in self.guests.iter().enumerate() {
            let Some(who) = who else { continue };
            let first = LOCAL_LANES + place as u32 * GUEST_LANES;
            for lane in first..first + GUEST_LANES {
                gathered.take(arena, lane, &mut self.heads[lane as usize], *who);
            }
        }
        if gathered.is_empty() {
            self.gathered = gathered;
            return None;
        }
        // Those of one lane stay in their order.
        gathered.references.sort_by_key(|(reference, _)| reference.at_ns);
        Some(gathered)
    }

    /// Gives back what the next references are gathered in.
    pub(crate) fn done(&mut self, mut gathered: Gathered) {
        gathered.references.clear();
        gathered.passed = 0;
        self.gathered = gathered;
    }
}
