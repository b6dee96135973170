//! How often a prediction came true, measured while the stream runs.
//!
//! For each distance k = 1, 2, 4, … a position k ahead of the frontier is noted now and then, and looked at when 3k
//! more references have happened: k to get there and 2k of grace. Counts are halved when they grow, so that the last few
//! hundred samples decide. Run and isolated positions are also sampled apart: in a list of sequential reads a wrong
//! entry is an isolated one, and its measured chance tells.

use super::list::List;
use super::used::Used;

/// Distances measured: 1 to 2^16 references ahead.
const DISTANCES: usize = 17;

/// Samples of one kind that wait for their verdict at the same time.
const WAITING: usize = 4;

/// References between samples, at least: a sample costs a hundred times a reference.
const PERIOD: u32 = 64;

/// Positions looked at to find one of the wanted class.
const SEARCH: u32 = 32;

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

#[derive(Debug, Clone, Copy, Default)]
struct Measure {
    kept: u32,
    all: u32,
    /// Position, and the reference count at which to look.
    waiting: [(u32, u64); WAITING],
    count: usize,
    /// When to take the next sample.
    next: u64,
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
}

/// The measures of one stream.
#[derive(Debug)]
pub(crate) struct Confidence {
    measures: [[Measure; 3]; DISTANCES],
    /// The reference count at which something is to be done.
    due: u64,
}

impl Default for Confidence {
    fn default() -> Confidence {
        Confidence { measures: [[Measure::default(); 3]; DISTANCES], due: 0 }
    }
}

impl Confidence {
    /// One reference has happened, the `now`-th.
    pub(crate) fn tick(&mut self, now: u64, frontier: u32, list: &List, used: &Used) {
        if now < self.due {
            return;
        }
        self.due = now + u64::from(PERIOD) / 4;
        for (k, classes) in self.measures.iter_mut().enumerate() {
            let distance = 1u32 << k;
            for (measure, class) in classes.iter_mut().zip(CLASSES) {
                while measure.count > 0 && measure.waiting[0].1 <= now {
                    let used = used.contains(measure.waiting[0].0);
                    measure.waiting.rotate_left(1);
                    measure.count -= 1;
                    measure.settle(used);
                }
                if measure.next > now || measure.count == WAITING {
                    continue;
                }
                let Some(position) = pick(list, used, frontier.saturating_add(distance - 1), class) else {
                    continue;
                };
                // One of the wanted class may be a little further than the distance.
                let ahead = u64::from(position.saturating_sub(frontier) + 1);
                measure.waiting[measure.count] = (position, now + 3 * ahead);
                measure.count += 1;
                measure.next = now + u64::from(PERIOD.max(3 * distance / WAITING as u32));
            }
        }
    }

    /// Positions before this one are about to be released: what was predicted there is judged now.
    pub(crate) fn released(&mut self, before: u32, used: &Used) {
        for measure in self.measures.iter_mut().flatten() {
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
        }
    }

    /// The stream jumps: what was predicted at the old place is judged now.
    pub(crate) fn jumped(&mut self, used: &Used) {
        for measure in self.measures.iter_mut().flatten() {
            for i in 0..measure.count {
                let used = used.contains(measure.waiting[i].0);
                measure.settle(used);
            }
            measure.count = 0;
        }
    }

    /// The chance, and the number of samples behind it.
    pub(crate) fn chance(&self, ahead: u32, class: Class) -> Option<(f64, u32)> {
        let k = (ahead.max(1).ilog2() as usize).min(DISTANCES - 1);
        let measure = &self.measures[k][class as usize];
        (measure.all > 0).then(|| (f64::from(measure.kept) / f64::from(measure.all), measure.all))
    }
}

/// The first unused position of a class from one on, if it is near. What was not disclosed is judged apart (see the
/// knowledge's completion).
fn pick(list: &List, used: &Used, from: u32, class: Class) -> Option<u32> {
    let unused = |p: &u32| !used.contains(*p);
    let near = from..from.saturating_add(SEARCH);
    match class {
        Class::Any => Some(from).filter(|&p| p < list.len() && !list.is_completed(p)).filter(unused),
        Class::Run => list.disclosed(near, true).find(unused),
        Class::Isolated => list.disclosed(near, false).find(unused),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Reference;
    use super::*;

    #[test]
    fn of_an_empty_list_nothing_is_picked() {
        for class in CLASSES {
            assert_eq!(pick(&List::default(), &Used::default(), 1, class), None);
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
            let (mut list, mut used) = (List::default(), Used::default());
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
    }
}
