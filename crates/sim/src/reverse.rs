//! The best configuration of reverse aggressive.
//!
//! The paper uses reverse aggressive as a yardstick and looks for its best configuration for every trace and
//! array (Kimbrel et al. 1996, section 4.4). Three numbers make one: F and the batch of the reversed
//! schedule, and the batch in which the schedule is carried out in the forward direction. All three matter:
//! on synth with three disks the forward batch alone decides between 118.9 and 126.3 s.
//!
//! Trying all combinations would take 120 runs. The forward batch decides which schedules are good (small
//! batches in both directions belong together), so it is tried with all of them, at its extremes:
//!
//! 1. every F of [`F_REFERENCES`], with both [`EXTREME_BATCHES`] of the reversed schedule, with the forward
//!    batch of the array ([`Batch::size`]) and with the smallest one;
//! 2. from the best of these: the reversed batch in the middle;
//! 3. every other forward batch of [`FORWARD_BATCHES`];
//! 4. F half way to both neighbours.
//!
//! That is 39 runs at most, and 9 on a trace of more than [`SEARCHED_REFERENCES`]. On synth with three disks it
//! finds what the full grid has as its best. A forward batch that was given as a number is what was asked
//! for, and is kept.

use crate::cell::{Batch, Cell, Reverse};
use crate::error::SimError;
use crate::input::Input;
use crate::run::{Run, run};

/// References up to which everything is tried.
const SEARCHED_REFERENCES: u64 = 4_000_000;

/// F that are tried: what fits synth (Kimbrel et al. 1996, sections 4.2 and 4.4) and beyond.
const F_REFERENCES: [f64; 8] = [2.7, 3.5, 4.9, 8.0, 12.0, 16.0, 24.0, 48.0];

/// The two of them that are tried on a long trace.
const F_OF_LONG_TRACES: [f64; 2] = [4.9, 12.0];

/// Batches on the reversed list that are tried with every F (only the first, on a long trace), and with the
/// best one.
const EXTREME_BATCHES: [u32; 2] = [4, 40];
const MEDIUM_BATCH: u32 = 16;

/// Batches in the forward direction: those of Table 6.
const FORWARD_BATCHES: [u32; 5] = [4, 8, 16, 40, 80];

/// A search under way.
struct Search<'a> {
    cell: Cell,
    input: &'a Input,
    best: Option<(Run, u32)>,
}

impl Search<'_> {
    fn attempt(&mut self, fetch_references: f64, batch: u32, forward: u32) -> Result<(), SimError> {
        self.cell.batch = Batch::Fixed(forward);
        let run = run(&self.cell, self.input, Some(Reverse { fetch_references, batch }), None)?;
        if self.best.as_ref().is_none_or(|(best, _)| run.totals.elapsed_ns < best.totals.elapsed_ns) {
            self.best = Some((run, forward));
        }
        Ok(())
    }

    /// F, the batch of the reversed schedule and the forward batch of the best run so far.
    fn best(&self) -> Option<(f64, u32, u32)> {
        let (run, forward) = self.best.as_ref()?;
        run.reverse.map(|r| (r.fetch_references, r.batch, *forward))
    }
}

/// The run of the best configuration.
pub(crate) fn best(cell: &Cell, input: &Input) -> Result<Run, SimError> {
    let short = input.references() <= SEARCHED_REFERENCES;
    let fs: &[f64] = if short { &F_REFERENCES } else { &F_OF_LONG_TRACES };
    let given = matches!(cell.batch, Batch::Fixed(_));
    let of_array = cell.batch.size(cell.disks);
    let least = FORWARD_BATCHES[0];
    let mut search = Search { cell: cell.clone(), input, best: None };
    for forward in [of_array, least].into_iter().take(if given || of_array == least { 1 } else { 2 }) {
        for &f in fs {
            for batch in EXTREME_BATCHES.into_iter().take(if short { 2 } else { 1 }) {
                search.attempt(f, batch, forward)?;
            }
        }
    }
    if let Some((f, _, forward)) = search.best() {
        search.attempt(f, MEDIUM_BATCH, forward)?;
    }
    if let Some((f, batch, _)) = search.best().filter(|_| !given) {
        let others = FORWARD_BATCHES.into_iter().filter(|&forward| forward != of_array && forward != least);
        for forward in others.take(if short { 4 } else { 2 }) {
            search.attempt(f, batch, forward)?;
        }
    }
    if let Some((f, batch, forward)) = search.best() {
        let at = fs.iter().position(|&tried| tried == f).unwrap_or(0);
        for near in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
            if let Some(near) = fs.get(near) {
                search.attempt((f * near).sqrt(), batch, forward)?;
            }
        }
    }
    search.best.map(|(run, _)| run).ok_or(SimError::Stuck)
}
