//! Who has which lane, on both sides: threads that take one for a read, and the pool that empties them.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::arena::Arena;
use super::board::{GUEST_LANES, LANES, LOCAL_LANES, MOST_GUESTS, Reference};
use crate::object::Who;

/// Parts that are read beside between two looks at a lane: one each 5 ns for a minute and a half.
const MOST_PASSED: u64 = 1 << 34;
/// Lanes that a thread tries before it takes the way under the lock.
const TRIES: u32 = 4;

thread_local! {
    /// The lane that this thread tries first.
    static FIRST: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// The lanes of one process, each of which one thread has at a time.
#[derive(Debug)]
pub(super) struct Local {
    first: u32,
    taken: Box<[AtomicBool]>,
    /// One more than the highest lane that was ever taken.
    used: AtomicU32,
}

impl Local {
    /// The lanes of the pool's own process.
    pub(super) fn new() -> Local {
        Local::of(0, LOCAL_LANES)
    }

    pub(super) fn of(first: u32, lanes: u32) -> Local {
        let taken = (0..lanes).map(|_| AtomicBool::new(false)).collect();
        Local { first, taken, used: AtomicU32::new(first) }
    }

    /// A lane for one read; `None` when the likely ones are all taken.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        static THREADS: AtomicU32 = AtomicU32::new(0);
        if FIRST.get() == u32::MAX {
            FIRST.set(THREADS.fetch_add(1, Relaxed) % LOCAL_LANES);
        }
        let lanes = self.taken.len() as u32;
        (0..TRIES.min(lanes)).find_map(|step| {
            let at = (FIRST.get() + step) % lanes;
            let taken = &self.taken[at as usize];
            if taken.load(Relaxed) || taken.swap(true, Acquire) {
                return None;
            }
            let lane = self.first + at;
            if self.used.load(Relaxed) <= lane {
                self.used.fetch_max(lane + 1, Release);
            }
            Some(Taken { lane, taken })
        })
    }
}

/// A lane, until it is dropped.
pub(super) struct Taken<'a> {
    pub(super) lane: u32,
    taken: &'a AtomicBool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Release);
    }
}

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
        for lane in 0..arena.local().used.load(Acquire) {
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
