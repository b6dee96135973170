//! Where in its stream a reference belongs.

use super::Reference;
use super::list::{FileState, NONE};
use super::runs::Joins;
use super::stream::{PASSED_OVER, Stream};

/// References of a file, counted in the file's own order, that may be left out or come late and still be where the
/// file was expected. At 50% dropped, one gap in 4 billion is longer.
const SLACK: u32 = 32;

/// How a reference fits the stream.
pub(super) enum Found {
    /// At its file's place.
    Expected(u32),
    /// At its file's place, and used up.
    UsedUp(u32),
    /// At its file's place but for some references in between, and those are far apart in the list.
    NextVisit(u32),
    /// Elsewhere in the window.
    OutOfOrder(u32),
    Nothing,
}

impl Stream {
    /// Where the reference belongs that is not the very next one, without a jump.
    pub(super) fn find(&self, r: Reference, file: &FileState, joins: Joins) -> Found {
        let known = file.place == self.place;
        let at = if known { file.at } else { [NONE; 2] };
        let at_before = file.at[0];
        let (frontier, reach) = (self.frontier.at(), self.beside());
        // A second read of the same block is not the block's next turn.
        let repeats = joins == Joins::Repeats;
        let (before, from) = self.list.around(r.block, frontier);
        let beside = self.nearer(self.unused_before(before), self.unused_from(r.block, from));
        if beside != NONE && beside.abs_diff(frontier) <= reach {
            let turn = !repeats || (beside >= frontier && beside - frontier <= 2);
            return if turn { Found::Expected(beside) } else { Found::UsedUp(NONE) };
        }
        if !known {
            // The file was not referenced since the jump. It may still go on where it was.
            let next = if at_before == NONE { self.list.first_from(r.block, 0) } else { at_before + 1 };
            if self.fits(r.block, next) && (at_before != NONE || self.list.ordinal(next) == 0) {
                return Found::Expected(next);
            }
            return if self.in_window(beside) { Found::OutOfOrder(beside) } else { Found::Nothing };
        }
        if at[0] != NONE && self.fits(r.block, at[0] + 1) {
            return Found::Expected(at[0] + 1);
        }
        let mut best = (u32::MAX, NONE, 0);
        let mut used_up =
            if from != NONE && self.used.contains(from) && from - frontier <= 2 { from } else { NONE };
        for (nth, &at) in at.iter().enumerate() {
            if nth > 0 && at == NONE {
                break;
            }
            let (position, ordinal) =
                if at == NONE { (0, 0) } else { (at + 1, self.list.ordinal(at).saturating_add(1)) };
            let (before, from) = self.list.around(r.block, position);
            if used_up == NONE
                && nth == 0
                && from != NONE
                && self.used.contains(from)
                && self.list.ordinal(from) <= ordinal + 2
            {
                used_up = from;
            }
            for (p, ahead) in [(self.unused_from(r.block, from), true), (self.unused_before(before), false)] {
                let off = self.list.ordinal(p).abs_diff(ordinal);
                let turn = !repeats || (ahead && off <= 2);
                if p != NONE && turn && off < best.0 {
                    best = (off, p, p.abs_diff(position));
                }
            }
        }
        match best {
            // The file's very next reference, wherever it is; or one that is near in every sense.
            (0, p, _) => Found::Expected(p),
            (off, p, far) if off <= SLACK && far <= reach => Found::Expected(p),
            _ if used_up != NONE => Found::UsedUp(used_up),
            (off, p, _) if off <= SLACK => Found::NextVisit(p),
            _ if self.in_window(beside) && !repeats => Found::OutOfOrder(beside),
            (_, p, _) if self.in_window(p) => Found::OutOfOrder(p),
            _ => Found::Nothing,
        }
    }

    #[inline]
    pub(super) fn fits(&self, block: u32, p: u32) -> bool {
        self.list.block_at(p) == block && !self.used.contains(p)
    }

    /// Which of two positions is nearer to the frontier.
    fn nearer(&self, before: u32, from: u32) -> u32 {
        let at = self.frontier.at();
        match (before, from) {
            (NONE, p) | (p, NONE) => p,
            (before, from) if from - at <= at - before => from,
            (before, _) => before,
        }
    }

    fn unused_from(&self, block: u32, mut p: u32) -> u32 {
        for _ in 0..PASSED_OVER {
            if p == NONE || !self.used.contains(p) {
                return p;
            }
            p = self.list.first_from(block, p + 1);
        }
        NONE
    }

    fn unused_before(&self, mut p: u32) -> u32 {
        for _ in 0..PASSED_OVER {
            if p == NONE || !self.used.contains(p) {
                return p;
            }
            p = self.list.before(p);
        }
        NONE
    }

    pub(super) fn in_window(&self, p: u32) -> bool {
        p != NONE && p.abs_diff(self.frontier.at()) <= self.limits.window
    }
}
