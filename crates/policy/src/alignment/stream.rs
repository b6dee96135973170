//! One reader's stream, and where the reader is in it.

use std::ops::Range;

use super::belonging::Found;
use super::bits::Bits;
use super::confidence::{Class, Confidence};
use super::frontier::Frontier;
use super::list::{List, NONE, RELEASED};
use super::runs::{Joins, Runs};
use super::sleep::Sleep;
use super::visits::Visits;
use super::{Counts, Limits, Match, Moved, Reference};

/// Blocks of a run after which it is sampled again, in the window.
const PIECE: u32 = 16;

/// Blocks of a run after which it is looked for far away again.
const FAR_PIECE: u32 = 64;

/// Used positions of a block that are passed over when an unused one is looked for.
pub(super) const PASSED_OVER: usize = 4;

/// References in a row of an explained run that are taken for missing from the list, before it is
/// believed that they were moved.
const MISSED: u32 = 4;

/// All of the last references were where they were expected.
const ALL_FOUND: u32 = 1 << 16;

/// Positions around the frontier in which a reference is as good as at its file's place, for each reader that takes turns in
/// the list: what lies one reference further in its file lies as many further in the list.
const BESIDE: u32 = 64;

/// Runs between two looks for a far place, at most.
const LONGEST_WAIT: u32 = 16;

/// One reader's stream of predicted references, in order; and where the reader is in it.
#[derive(Debug, Default)]
pub struct Stream {
    pub(super) list: List,
    pub(super) used: Bits,
    pub(super) frontier: Frontier,
    pub(super) runs: Runs,
    confidence: Confidence,
    visits: Visits,
    pub(super) limits: Limits,
    /// Rises with every jump; what files remember of an earlier place is stale.
    pub(super) place: u32,
    /// What lies before is given up.
    low: u32,
    /// What the caller knows of `low`.
    told: u32,
    /// Positions that a jump made live again and that the caller was not told of.
    resumed: Option<Range<u32>>,
    counts: Counts,
    sleep: Sleep,
    /// Share of the last references that were where they were expected, of [`ALL_FOUND`].
    found: u32,
    wait: u32,
    waited: u32,
    /// The last position far from the frontier that was taken for one at its file's place.
    far: u32,
}

impl Stream {
    /// An empty stream.
    #[must_use]
    pub fn new(limits: Limits) -> Stream {
        Stream { limits, found: ALL_FOUND, ..Stream::default() }
    }

    /// Appends a reference; its position. `None` when [`Limits::positions`] are held (see [`Stream::release`]), at the
    /// last number that a position can have, or when one of the ids is above [`Limits::ids`].
    pub fn append(&mut self, r: Reference) -> Option<u32> {
        let fits = !self.is_full()
            && self.list.len() < NONE - 1
            && r.block < self.limits.ids
            && r.file < self.limits.ids;
        fits.then(|| self.list.append(r))
    }

    /// Appends a reference that was not disclosed and completes a run of the list; as [`Stream::append`].
    pub fn append_completed(&mut self, r: Reference) -> Option<u32> {
        let position = self.append(r)?;
        self.list.mark_completed();
        Some(position)
    }

    /// Are as many positions held as there may be?
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.list.held() >= self.limits.positions
    }

    /// Where a stream is long, releases its oldest positions, 64 of them, if they lie before `end`; says whether. They
    /// are further behind than [`Limits::behind`], or the stream is full and they are behind the window. (Where that is
    /// wider than half of what may be held, half is enough.) `unnamed` gets the blocks that no position names any more.
    /// The reader cannot go back to what was released.
    #[inline]
    pub fn release(&mut self, end: u32, unnamed: impl FnMut(u32)) -> bool {
        let (frontier, limits) = (self.frontier(), self.limits);
        let held = if self.is_full() {
            limits.window.min(limits.positions / 2)
        } else {
            limits.behind.max(limits.window)
        };
        let next = self.list.first().saturating_add(RELEASED);
        if next > frontier.saturating_sub(held).min(end) {
            return false;
        }
        self.confidence.released(next, &self.used);
        self.list.release(unnamed);
        self.used.release_before(next);
        self.low = self.low.max(next);
        true
    }

    /// The first position that is held.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.list.first()
    }

    /// The position is part of a sequential run, whatever lies in between.
    pub fn mark_run(&mut self, position: u32) {
        self.list.mark_run(position);
    }

    /// Was the position appended by [`Stream::append_completed`]?
    #[inline]
    #[must_use]
    pub fn is_completed(&self, position: u32) -> bool {
        self.list.is_completed(position)
    }

    /// One past the last position.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.list.len()
    }

    /// Blocks that are named at a position that is held.
    #[must_use]
    pub fn distinct(&self) -> u32 {
        self.list.distinct()
    }

    /// Is nothing listed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// The position that is expected next, from the last matches together.
    #[inline]
    #[must_use]
    pub fn frontier(&self) -> u32 {
        self.frontier.at().min(self.list.len())
    }

    /// The block that a position names.
    #[inline]
    #[must_use]
    pub fn block_at(&self, position: u32) -> Option<u32> {
        let held = self.list.first()..self.list.len();
        held.contains(&position).then(|| self.list.block_at(position))
    }

    /// Is the position part of a sequential run in the list?
    #[must_use]
    pub fn is_run(&self, position: u32) -> bool {
        self.list.is_run(position)
    }

    /// Is the position neither used up nor given up?
    #[must_use]
    pub fn is_live(&self, position: u32) -> bool {
        position >= self.low && position < self.list.len() && !self.used.contains(position)
    }

    /// Does the stream explain nothing at present?
    #[inline]
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.sleep.asleep()
    }

    /// What the references found so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The first live position of a block. Where a block is named more than four times in the part of the window that
    /// was passed, one that is overdue there may be overlooked for one that is to come.
    #[must_use]
    pub fn next_use(&self, block: u32) -> Option<u32> {
        self.next_use_from(block, self.low)
    }

    /// The first live position of a block at or after `from`; else as [`Stream::next_use`].
    #[must_use]
    pub fn next_use_from(&self, block: u32, from: u32) -> Option<u32> {
        let mut from = from.max(self.low);
        for _ in 0..2 {
            for _ in 0..PASSED_OVER {
                match self.list.first_from(block, from) {
                    NONE => return None,
                    p if !self.used.contains(p) => return Some(p),
                    p => from = p + 1,
                }
            }
            from = from.max(self.frontier());
        }
        None
    }

    /// Is a position, which is used up, the only one of its block from `from` on?
    #[inline]
    pub(crate) fn is_only_one(&self, position: u32, from: u32) -> bool {
        let (before, is_last) = self.list.place_of(position);
        is_last && (before == NONE || before < from.max(self.low))
    }

    /// The measured chance that what is listed `ahead` references ahead is used before `2 * ahead` more have passed,
    /// and from how many samples; `None` before the first one.
    #[must_use]
    pub fn chance(&self, ahead: u32, class: Class) -> Option<(f64, u32)> {
        self.confidence.chance(ahead, class)
    }

    /// The positions from here on that are believed if what lies beyond the present file must come next with at least
    /// this chance; `None`: all of them. `file_of` says of which file a block is.
    pub(crate) fn believed(&mut self, least: f64, file_of: impl Fn(u32) -> u32) -> Option<Range<u32>> {
        (self.visits.chance() < least).then(|| self.visits.rest(&self.list, file_of))
    }

    /// Positions that were given up or became live again since the last call; `None` when all is told. Up to two
    /// answers wait at any time.
    pub fn take_moved(&mut self) -> Option<Moved> {
        if let Some(range) = self.resumed.take() {
            return Some(Moved::Resumed(range));
        }
        let (told, low) = (self.told, self.low);
        self.told = low;
        match low.cmp(&told) {
            std::cmp::Ordering::Greater => Some(Moved::GivenUp(told..low)),
            std::cmp::Ordering::Less => Some(Moved::Resumed(low..told)),
            std::cmp::Ordering::Equal => None,
        }
    }

    /// The same as to take all of that: was anything of it [`Moved::Resumed`]?
    #[inline]
    pub(crate) fn take_resumed(&mut self) -> bool {
        let resumed = self.resumed.take().is_some() | (self.low < self.told);
        self.told = self.low;
        resumed
    }

    /// Were positions given up or made live again that [`Stream::take_moved`] has not told?
    #[inline]
    pub(crate) fn is_moved(&self) -> bool {
        self.resumed.is_some() || self.low != self.told
    }

    /// The first position of a range that is not used up.
    #[inline]
    pub(crate) fn first_unused(&self, range: Range<u32>) -> Option<u32> {
        self.used.first_absent(range)
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Stream>() + self.list.bytes() + self.used.bytes()
    }

    /// Takes note of a live reference to a file that the list does not name; false where it names it.
    #[inline]
    pub(crate) fn passes_by(&mut self, file: u32) -> bool {
        let lacks = self.list.slot(file).is_none();
        if lacks {
            self.tick();
        }
        lacks
    }

    #[inline]
    fn tick(&mut self) {
        self.counts.references += 1;
        self.confidence.tick(self.counts.references, self.frontier.at(), &self.list, &self.used);
    }

    /// Matches a live reference.
    pub fn reference(&mut self, r: Reference) -> Match {
        self.tick();
        let Some(slot) = self.list.slot(r.file) else { return Match::Unpredicted };
        let file = *self.list.file(slot);
        let next = self.frontier.at();
        let in_order = file.place == self.place
            && file.at[0] != NONE
            && file.at[0] + 1 == next
            && r.block != NONE
            && self.fits(r.block, next);
        if !in_order && !self.list.is_listed(r.block) {
            return Match::Unpredicted;
        }
        let joins = self.runs.take(r);
        let piece = joins == Joins::Continues && self.runs.current().length.is_multiple_of(FAR_PIECE);
        if self.sleep.asleep() && !(piece || joins == Joins::Begins && self.sleep.stirs()) {
            return Match::Unpredicted;
        }
        let found = if in_order { Found::Expected(next) } else { self.find(r, &file, joins) };
        self.found -= self.found / 16;
        if matches!(found, Found::Expected(_)) {
            self.found += ALL_FOUND / 16;
        }
        let mut lacks_visit = false;
        match found {
            Found::Expected(p) => return self.take(slot, p, joins, true),
            Found::UsedUp(p) if joins == Joins::Repeats || !self.is_lost() => {
                if p != NONE {
                    self.settle(slot, p);
                    self.frontier.note(p + 1);
                }
                self.counts.again += 1;
                return Match::Again;
            }
            // Rather the list lacks it.
            Found::NextVisit(p) => {
                if !self.is_missing_visit() {
                    return self.take(slot, p, joins, true);
                }
                lacks_visit = true;
            }
            _ => {}
        }
        if joins == Joins::Repeats {
            self.counts.again += 1;
            return Match::Again;
        }
        if (joins == Joins::Begins || piece)
            && let Some(p) = self.seek(r)
        {
            self.jump(p);
            self.sleep.wake();
            self.found = ALL_FOUND;
            let run = self.runs.current();
            (run.explained, run.astray) = (false, false);
            return self.take(slot, p, joins, true);
        }
        if let Found::UsedUp(p) = found {
            if p != NONE {
                self.settle(slot, p);
            }
            self.counts.again += 1;
            return Match::Again;
        }
        let found = if let Found::OutOfOrder(p) = found { Some(p) } else { None };
        if joins == Joins::Begins {
            match found {
                Some(_) => self.sleep.out_of_order(self.by_chance()),
                // That is no sign of another job, as long as the stream explains the others.
                None if lacks_visit => {}
                None => self.sleep.nothing(),
            }
        }
        let (Some(p), false) = (found, self.sleep.asleep()) else { return Match::Unpredicted };
        if self.is_missing(joins) {
            return Match::Unpredicted;
        }
        self.counts.out_of_order += 1;
        self.take(slot, p, joins, false)
    }

    /// See [`BESIDE`].
    #[inline]
    pub(super) fn beside(&self) -> u32 {
        BESIDE * self.list.turns()
    }

    /// The chance that a listed block has a position in the window, of 256.
    fn by_chance(&self) -> u32 {
        let width = 2 * u64::from(self.limits.window);
        (width * 256 / u64::from(self.list.distinct().max(1))).min(256) as u32
    }

    /// The same for a reference whose file is listed next far away: while the stream explains other runs, or most
    /// references (one long run is one among many where every other reference has slipped in).
    fn is_missing_visit(&mut self) -> bool {
        let (explained, all) = self.runs.explained();
        let run = self.runs.current();
        let missing = run.missed < MISSED && (2 * explained >= all || 2 * self.found >= ALL_FOUND);
        run.missed += u32::from(missing);
        missing
    }

    /// Is the reference one that the list lacks, in a run that it has? After some in a row it is not believed.
    fn is_missing(&mut self, joins: Joins) -> bool {
        let run = self.runs.current();
        let missing = (run.explained || run.astray) && joins == Joins::Continues && run.missed < MISSED;
        run.missed += u32::from(missing);
        missing
    }

    /// Uses a position up.
    fn take(&mut self, slot: usize, p: u32, joins: Joins, expected: bool) -> Match {
        self.used.insert(p);
        self.visits.take(self.runs.current().file, p);
        self.counts.matched += 1;
        if expected {
            self.settle(slot, p);
            let beside = self.beside();
            let run = self.runs.current();
            let begins = !run.explained && !run.astray;
            run.explained = !run.astray;
            run.missed = 0;
            let (length, run_explained) = (run.length, run.explained);
            let far = p.abs_diff(self.frontier.at()) > beside;
            let follows = !far || p.abs_diff(self.far) <= beside;
            let sampled = (begins || run.unsampled) && follows;
            run.unsampled = (begins || run.unsampled) && !follows;
            if far {
                self.far = p;
            }
            if begins {
                self.sleep.expected();
                (self.wait, self.waited) = (0, 0);
            } else if run_explained {
                self.sleep.continued();
            }
            self.frontier.note(p + 1);
            // A single reference far away says nothing: another one must follow it. Outside of the window a run is one
            // sample, however long: a file that is read earlier than it was must not take the stream along.
            if sampled || (length.is_multiple_of(PIECE) && self.in_window(p)) {
                self.sample(p + 1);
            }
        } else {
            let run = self.runs.current();
            run.astray = !run.explained;
            let place = self.place;
            let file = self.list.file_mut(slot);
            file.at = if file.place == place { [file.at[0], p] } else { [p, NONE] };
            file.place = place;
            // Nothing comes in order: the stream goes on with what there is.
            if joins == Joins::Begins && self.runs.explained().0 == 0 {
                self.sample(p + 1);
            }
        }
        Match::At(p)
    }

    /// The file has come to this position.
    fn settle(&mut self, slot: usize, p: u32) {
        let place = self.place;
        let near = |list: &List, at: u32| {
            let expected = if at == NONE { 0 } else { list.ordinal(at).saturating_add(1) };
            list.ordinal(p).abs_diff(expected)
        };
        let state = *self.list.file(slot);
        let at = if state.place != place {
            [p, NONE]
        } else if state.at[1] != NONE && near(&self.list, state.at[1]) < near(&self.list, state.at[0]) {
            [p, state.at[0]]
        } else if state.at[0] == NONE || p > state.at[0] {
            [p, state.at[1]]
        } else {
            state.at
        };
        let file = self.list.file_mut(slot);
        (file.at, file.place) = (at, place);
    }

    fn sample(&mut self, after: u32) {
        self.frontier.sample(after);
        self.low = self.frontier.at().saturating_sub(self.limits.window).max(self.list.first());
    }

    /// Were few of the last references where they were expected?
    fn is_lost(&self) -> bool {
        self.found < ALL_FOUND / 4
    }

    /// Looks for a far place that explains the last runs, if this one does not and it is time to.
    fn seek(&mut self, r: Reference) -> Option<u32> {
        if !self.is_lost() {
            return None;
        }
        self.waited += 1;
        if self.waited <= self.wait {
            return None;
        }
        let found = super::place::seek(&self.list, &self.runs, r.block, self.frontier.at());
        (self.wait, self.waited) = ((2 * self.wait + 1).min(LONGEST_WAIT), 0);
        found
    }

    /// Goes to a far place. What was used up from there on can be used again.
    fn jump(&mut self, p: u32) {
        self.confidence.jumped(&self.used);
        self.counts.jumps += 1;
        self.place = self.place.wrapping_add(1);
        let again = self.used.clear_from(p);
        self.frontier.jump(p);
        self.low = p.saturating_sub(self.limits.window).max(self.list.first());
        let back = self.low.min(self.told)..self.told.max(again.end);
        if again.is_empty() {
            return;
        }
        self.told = self.low;
        self.resumed = Some(match self.resumed.take() {
            Some(before) => before.start.min(back.start)..before.end.max(back.end),
            None => back,
        });
    }
}
