//! Far places: which one explains the runs that came last?
//!
//! Each position that names the present block is a hypothesis: if the reader is there, then the runs before this one
//! end shortly before it. A run that does is worth as many bits as it is unlikely by chance: the list's length over the
//! positions that would have done, times how often its block is named. All hypotheses are compared over the same runs; the nearest of the best wins.
//! Nothing is kept from one look to the next, so a wrong beginning costs nothing.

use super::list::{List, NONE};
use super::runs::{RUNS, Runs};

/// Positions looked at, before and after the frontier each. A block that is named more often says little.
const HYPOTHESES: usize = 16;

/// Positions by which a run may end earlier or later than it should, a run.
const SLACK: u32 = 16;

/// Bits of evidence for a jump: one in 65,536 by chance.
const ENOUGH_BITS: u32 = 16;

/// Runs that must be explained beside the present one, whatever they are worth.
const ENOUGH_RUNS: u32 = 3;

/// What one run can be worth.
const MOST_BITS: u32 = 8;

/// Blocks in order after which a run is one more piece of evidence.
const PIECE: u32 = 64;

/// The place that explains the last runs, from the present block's positions.
pub(crate) fn seek(list: &List, runs: &Runs, block: u32, frontier: u32) -> Option<u32> {
    let (mut before, mut from) = list.around(block, frontier);
    let mut hypotheses = [NONE; 2 * HYPOTHESES];
    let mut count = 0;
    for _ in 0..HYPOTHESES {
        if from != NONE {
            hypotheses[count] = from;
            count += 1;
            from = list.first_from(block, from + 1);
        }
        if before != NONE {
            hypotheses[count] = before;
            count += 1;
            before = list.before(before);
        }
    }
    let home = runs.explained().0 as u32;
    // More hypotheses, more luck.
    let luck = (count as u32).max(1).ilog2();
    let mut best: Option<((u32, u32), u32)> = None;
    for &p in &hypotheses[..count] {
        let (explained, bits) = weigh(list, runs, p);
        if explained < ENOUGH_RUNS.max(home + 2) || bits < ENOUGH_BITS + luck {
            continue;
        }
        let key = (explained, p.abs_diff(frontier));
        let better = best
            .is_none_or(|((most, nearest), _)| explained > most || (explained == most && key.1 < nearest));
        if better {
            best = Some((key, p));
        }
    }
    best.map(|(_, p)| p)
}

/// How many runs, and how many bits, speak for the present block being at `p`.
fn weigh(list: &List, runs: &Runs, p: u32) -> (u32, u32) {
    let length = runs.current_length();
    // A run that this place explains is no evidence for another one.
    let pieces = if runs.is_current_explained() { 0 } else { (length / PIECE).min(RUNS as u32) };
    let (mut explained, mut bits) = (pieces, pieces * MOST_BITS);
    let mut reach = SLACK.saturating_add(length.saturating_mul(2));
    for run in runs.others() {
        let late = SLACK.min(reach);
        let found = list.around(run.block, p.saturating_add(late)).0;
        if found != NONE && found.saturating_add(reach) >= p {
            let width = reach.saturating_add(late).saturating_mul(list.count(run.block));
            let worth = (list.held() / width.max(1)).max(1).ilog2().min(MOST_BITS);
            explained += u32::from(worth > 0);
            bits += worth;
        }
        reach = reach.saturating_add(SLACK).saturating_add(run.length.saturating_mul(2));
    }
    (explained, bits)
}
