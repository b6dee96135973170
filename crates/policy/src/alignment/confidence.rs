//! How often a prediction came true, measured while the stream runs.
//!
//! For each distance k = 1, 2, 4, … a position k ahead of the frontier is noted now and then, and looked at when 3k
//! more references have happened: k to get there and 2k of grace. Counts are halved when they grow, so that the last few
//! hundred samples decide. Run and isolated positions are also sampled apart: in a list of sequential reads a wrong
//! entry is an isolated one, and its measured chance tells.

use std::ops::Range;

use super::bits::Bits;
use super::list::{List, TOGETHER};

/// Distances measured: 1 to 2^16 references ahead.
const DISTANCES: usize = 17;

/// Samples of one kind that wait for their verdict at the same time.
const WAITING: usize = 4;

/// References between samples, at least: a sample costs a hundred times a reference.
const PERIOD: u32 = 64;

/// Positions looked at to find one of the wanted class.
const SEARCH: u32 = TOGETHER;

/// Positions looked at beyond that where none is isolated.
const LOOKED_AHEAD: u32 = 1024;

/// Counts are halved here: the memory of a chance is a few hundred samples.
const FULL: u32 = 256;

/// What kind of position a prediction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Any.
    Any,
    /// Its neighbour in the file is named within a few positions.
    Run,
    /// It is not.
    Isolated,
}

const CLASSES: [Class; 3] = [Class::Any, Class::Run, Class::Isolated];

/// Measures: one a distance and class.
const MEASURES: usize = DISTANCES * CLASSES.len();

/// Measures that are looked at together: those of four distances. The near ones have something to do at every look, and the
/// far ones seldom.
const GROUP: usize = 4 * CLASSES.len();
const GROUPS: usize = MEASURES.div_ceil(GROUP);

#[derive(Debug, Clone, Copy, Default)]
struct Measure {
    kept: u32,
    all: u32,
    /// Position, and the reference count at which to look.
    waiting: [(u32, u64); WAITING],
    count: usize,
    /// When to take the next sample.
    next: u64,
    /// From where a position was looked for last, and which one was found: the same one as long as it is not used up, nothing
    /// else is used again, and the list is as it was.
    picked: Option<(u32, u32)>,
}

impl Measure {
    fn settle(&mut self, used: bool) {
        self.all += 1;
        self.kept += u32::from(used);
        if self.all == FULL {
            self.all /= 2;
            self.kept /= 2;
        }
    }

    /// Judges the samples whose time has come.
    fn judge(&mut self, now: u64, used: &Bits) {
        while self.count > 0 && self.waiting[0].1 <= now {
            let used = used.contains(self.waiting[0].0);
            let [_, second, third, fourth] = self.waiting;
            self.waiting = [second, third, fourth, (0, 0)];
            self.count -= 1;
            self.settle(used);
        }
    }

    /// Is it time for a sample?
    fn is_open(&self, now: u64) -> bool {
        self.next <= now && self.count < WAITING
    }

    /// The reference count at which a sample is to be judged.
    fn verdict(&self) -> u64 {
        if self.count > 0 { self.waiting[0].1 } else { u64::MAX }
    }

    /// The reference count from which on there is something to do.
    fn wakes(&self) -> u64 {
        self.verdict().min(if self.count < WAITING { self.next } else { u64::MAX })
    }
}

/// The measures of one stream.
#[derive(Debug)]
pub(crate) struct Confidence {
    /// By distance, and of each by class.
    measures: [Measure; MEASURES],
    /// What [`Measure::wakes`] is of each, side by side: most of them sleep most of the time.
    wakes: [u64; MEASURES],
    /// The first one of each group.
    group_wakes: [u64; GROUPS],
    /// The reference count at which something is to be done.
    due: u64,
    /// How the list was at the last look.
    looked_at: u32,
    /// Measures, a bit each, that found no position of their class,
    in_vain: u64,
    /// and frontiers at which they find none as long as the list is as it was.
    vain_at: Range<u32>,
    /// Positions, by distance, none of which is isolated and unused: where all is in runs, there are few to look for.
    no_isolated: [Range<u32>; DISTANCES],
}

const _: () = assert!(MEASURES <= u64::BITS as usize);

impl Default for Confidence {
    fn default() -> Confidence {
        Confidence {
            measures: [Measure::default(); MEASURES],
            wakes: [0; MEASURES],
            group_wakes: [0; GROUPS],
            due: 0,
            looked_at: 0,
            in_vain: 0,
            vain_at: 0..0,
            no_isolated: [const { 0..0 }; DISTANCES],
        }
    }
}

impl Confidence {
    /// One reference has happened, the `now`-th.
    #[inline]
    pub(crate) fn tick(&mut self, now: u64, frontier: u32, list: &List, used: &Bits) {
        if now >= self.due {
            self.look(now, frontier, list, used);
        }
    }

    #[inline(never)]
    fn look(&mut self, now: u64, frontier: u32, list: &List, used: &Bits) {
        self.due = now + u64::from(PERIOD) / 4;
        // Positions are used up all the time, but none is unused again without a jump.
        if self.looked_at != list.changes() || !self.vain_at.contains(&frontier) {
            if self.looked_at != list.changes() {
                self.measures.iter_mut().for_each(|measure| measure.picked = None);
            }
            (self.looked_at, self.vain_at) = (list.changes(), frontier..u32::MAX);
            self.look_again();
        }
        for group in 0..GROUPS {
            if self.group_wakes[group] <= now {
                self.look_at_group(group, now, frontier, list, used);
            }
        }
    }

    fn look_at_group(&mut self, group: usize, now: u64, frontier: u32, list: &List, used: &Bits) {
        let mut first = u64::MAX;
        for number in group * GROUP..((group + 1) * GROUP).min(MEASURES) {
            if self.wakes[number] <= now {
                self.look_at(number, now, frontier, list, used);
            }
            first = first.min(self.wakes[number]);
        }
        self.group_wakes[group] = first;
    }

    #[inline]
    fn look_at(&mut self, number: usize, now: u64, frontier: u32, list: &List, used: &Bits) {
        let measure = &mut self.measures[number];
        measure.judge(now, used);
        if measure.is_open(now) && self.in_vain & (1 << number) == 0 {
            let (nth, class) = (number / CLASSES.len(), CLASSES[number % CLASSES.len()]);
            let distance = 1u32 << nth;
            let from = frontier.saturating_add(distance - 1);
            let (picked, vain_before) = match measure.picked {
                Some((before, position)) if before == from && !used.contains(position) => (Some(position), 0),
                _ if from >= list.len() => (None, u32::MAX),
                _ if class == Class::Isolated => pick_isolated(list, used, from, &mut self.no_isolated[nth]),
                _ => (pick(list, used, from, class), from + 1),
            };
            measure.picked = picked.map(|position| (from, position));
            match picked {
                Some(position) => {
                    // One of the wanted class may be a little further than the distance.
                    let ahead = u64::from(position.saturating_sub(frontier) + 1);
                    measure.waiting[measure.count] = (position, now + 3 * ahead);
                    measure.count += 1;
                    measure.next = now + u64::from(PERIOD.max(3 * distance / WAITING as u32));
                }
                None => {
                    self.in_vain |= 1 << number;
                    let vain_at = &mut self.vain_at;
                    vain_at.start = vain_at.start.max(frontier);
                    vain_at.end = vain_at.end.min(vain_before.saturating_sub(distance - 1));
                }
            }
        }
        let in_vain = self.in_vain & (1 << number) != 0;
        self.wakes[number] = if in_vain { measure.verdict() } else { measure.wakes() };
    }

    /// Measures wake at other times than they did.
    fn regroup(&mut self) {
        for (wakes, first) in self.wakes.chunks(GROUP).zip(&mut self.group_wakes) {
            *first = wakes.iter().copied().min().unwrap_or(u64::MAX);
        }
    }

    /// What was looked for in vain may be there now.
    fn look_again(&mut self) {
        while self.in_vain != 0 {
            let number = self.in_vain.trailing_zeros() as usize;
            self.wakes[number] = self.measures[number].wakes();
            self.group_wakes[number / GROUP] = self.group_wakes[number / GROUP].min(self.wakes[number]);
            self.in_vain &= self.in_vain - 1;
        }
    }

    /// Positions before this one are about to be released: what was predicted there is judged now.
    pub(crate) fn released(&mut self, before: u32, used: &Bits) {
        for (measure, wakes) in self.measures.iter_mut().zip(&mut self.wakes) {
            let mut kept = 0;
            for i in 0..measure.count {
                let (position, at) = measure.waiting[i];
                if position < before {
                    measure.settle(used.contains(position));
                } else {
                    measure.waiting[kept] = (position, at);
                    kept += 1;
                }
            }
            measure.count = kept;
            *wakes = measure.wakes();
        }
        self.regroup();
        self.in_vain = 0;
    }

    /// The stream jumps: what was predicted at the old place is judged now.
    pub(crate) fn jumped(&mut self, used: &Bits) {
        for (measure, wakes) in self.measures.iter_mut().zip(&mut self.wakes) {
            for i in 0..measure.count {
                let used = used.contains(measure.waiting[i].0);
                measure.settle(used);
            }
            (measure.count, measure.picked) = (0, None);
            *wakes = measure.wakes();
        }
        self.regroup();
        self.in_vain = 0;
        self.no_isolated = [const { 0..0 }; DISTANCES];
    }

    /// The chance, and the number of samples behind it.
    pub(crate) fn chance(&self, ahead: u32, class: Class) -> Option<(f64, u32)> {
        let k = (ahead.max(1).ilog2() as usize).min(DISTANCES - 1);
        let measure = &self.measures[k * CLASSES.len() + class as usize];
        (measure.all > 0).then(|| (f64::from(measure.kept) / f64::from(measure.all), measure.all))
    }
}

/// The first unused position of a class from one on, if it is near. What was not disclosed is judged apart (see the
/// knowledge's completion).
fn pick(list: &List, used: &Bits, from: u32, class: Class) -> Option<u32> {
    if class == Class::Any {
        let fits = from < list.len() && !list.is_completed(from) && !used.contains(from);
        return fits.then_some(from);
    }
    let first = from.max(list.first());
    let near = from.saturating_add(SEARCH).saturating_sub(first);
    let unused = !used.from(first) as u32 & ((1u64 << near) - 1) as u32;
    let found = list.disclosed(first, class == Class::Run) & unused;
    (found != 0).then(|| first + found.trailing_zeros())
}

/// The same of the isolated ones; and if there is none, up to where one can be looked for in vain. `none` is where there
/// are none: what comes to a list comes at its end, and what is marked becomes part of a run.
fn pick_isolated(list: &List, used: &Bits, from: u32, none: &mut Range<u32>) -> (Option<u32>, u32) {
    let end = from.saturating_add(SEARCH).min(list.len());
    if !(none.start <= from && from <= none.end) {
        *none = from..from;
    }
    // Some more are looked at than are asked for: the next calls find that nothing is there.
    let last = if none.end < end { end.saturating_add(LOOKED_AHEAD).min(list.len()) } else { end };
    while none.end < last {
        if let Some(position) = pick(list, used, none.end, Class::Isolated) {
            none.end = position;
            break;
        }
        none.end = none.end.saturating_add(SEARCH).min(list.len());
    }
    if none.end < end {
        return (Some(none.end), 0);
    }
    (None, if none.end >= list.len() { u32::MAX } else { none.end - SEARCH + 1 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Reference;
    use super::super::list::RELEASED;
    use super::*;

    impl Confidence {
        fn forget_short_cuts(&mut self) {
            self.measures.iter_mut().for_each(|measure| measure.picked = None);
            self.no_isolated = [const { 0..0 }; DISTANCES];
            self.group_wakes = [0; GROUPS];
        }
    }

    #[test]
    fn of_an_empty_list_nothing_is_picked() {
        for class in CLASSES {
            assert_eq!(pick(&List::default(), &Bits::default(), 1, class), None);
        }
    }

    proptest! {
        /// As a look at each position.
        #[test]
        fn picks_the_first_that_fits(
            listed in prop::collection::vec((0..12u32, 0..3u32, any::<bool>()), 0..80),
            taken in prop::collection::vec(0..80u32, 0..40),
            from in 0..90u32,
        ) {
            let (mut list, mut used) = (List::default(), Bits::default());
            for &(index, file, completed) in &listed {
                list.append(Reference { block: 3 * index + file, file, index });
                if completed {
                    list.mark_completed();
                }
            }
            for p in taken {
                used.insert(p);
            }
            for class in CLASSES {
                let reach = if class == Class::Any { 1 } else { SEARCH };
                let naive = (from..list.len().min(from + reach)).find(|&p| {
                    let fits = class == Class::Any || (class == Class::Run) == list.is_run(p);
                    fits && !list.is_completed(p) && !used.contains(p)
                });
                prop_assert_eq!(pick(&list, &used, from, class), naive, "{:?}", class);
            }
        }

        /// A short cut leads to the same chances: what was picked before, where nothing is isolated, who sleeps.
        #[test]
        fn what_is_remembered_changes_nothing(
            listed in prop::collection::vec((0..40u32, 0..3u32, any::<bool>()), 64..400),
            steps in prop::collection::vec((0..6u32, 1..90u32), 20..120),
        ) {
            let (mut list, mut used) = (List::default(), Bits::default());
            let (mut quick, mut slow) = (Confidence::default(), Confidence::default());
            let (mut now, mut frontier) = (0, 0u32);
            let mut listed = listed.into_iter();
            for (step, many) in steps {
                match step {
                    0 => for (index, file, completed) in listed.by_ref().take(many as usize) {
                        list.append(Reference { block: 3 * index + file, file, index });
                        if completed {
                            list.mark_completed();
                        }
                    },
                    1 => {
                        frontier = frontier.saturating_sub(many);
                        quick.jumped(&used);
                        slow.jumped(&used);
                        used.clear_from(frontier);
                    }
                    2 => for _ in 0..many {
                        used.insert(frontier);
                        frontier += 1;
                        now += 1;
                        quick.tick(now, frontier, &list, &used);
                        slow.forget_short_cuts();
                        slow.tick(now, frontier, &list, &used);
                    },
                    3 => used.insert(frontier + many),
                    4 if list.first() + RELEASED <= frontier.min(list.len()) => {
                        let next = list.first() + RELEASED;
                        quick.released(next, &used);
                        slow.released(next, &used);
                        list.release(|_| {});
                        used.release_before(next);
                    }
                    _ => for _ in 0..many {
                        now += 1;
                        quick.tick(now, frontier, &list, &used);
                        slow.forget_short_cuts();
                        slow.tick(now, frontier, &list, &used);
                    },
                }
                for k in 0..DISTANCES as u32 {
                    for class in CLASSES {
                        prop_assert_eq!(quick.chance(1 << k, class), slow.chance(1 << k, class));
                    }
                }
            }
        }
    }
}
