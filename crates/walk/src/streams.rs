//! Within a file: which pages come next where a program reads in sequence, or in equal steps.
//!
//! A *piece* is what a program has read in one go. Pieces that follow each other without a gap are a *sequence*; pieces
//! that begin equally far from each other are *steps*: every tenth record, a column of a table, a file that is read from
//! its end. Both are *streams*. The kernel reads ahead of a sequence as well, 128 KiB as it comes from the factory, which
//! is too little for a device that answers after a millisecond; of steps it knows nothing.
//!
//! - Three pieces at equal distances, found among the last few of the process in the file, begin steps. From the fourth step
//!   on, or after a MiB in sequence, a stream is believed if it waits for the device; in sequence as long as it pays, which is
//!   tried (`kinds.rs`).
//! - It is read ahead of by as much as it has gone already: if it ends, no more was read for nothing than was read before.
//! - How likely it is to go as far again is learnt from the streams that came as far: if one in eight ended between
//!   a length and twice that, none is read ahead of at that length.
//!
//! Doubling is what Linux does up to its limit (`mm/readahead.c`); how several sequences in a file are told apart is as in
//! zfetch of OpenZFS (`module/zfs/dmu_zfetch.c`).

use foldhash::{HashMap, HashMapExt as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::arm::Arm;
use crate::kinds::{Kind, LEVELS, SEQUENCE_PAGES};
use crate::resting::Resting;
use crate::scattered::Scattered;
use crate::steps::Steps;
use crate::walks::{PAGE_BYTES, Wanted};

/// Files of processes that are followed; one more takes the place of the one that was not met for longest.
const FILES: usize = 64;
/// Places of a process in a file that are remembered.
const PLACES: usize = 12;
/// Steps that are believed.
const STEPS: u32 = 4;
/// A sequence is several pieces long at least: one large read is none.
const PIECES: u32 = 4;
/// Steps that are read ahead at most.
const STEPS_AHEAD: u32 = 128;
/// Pages that are asked for at a time: 512 KiB.
pub(crate) const PART_PAGES: u32 = 128;
/// A sequence is read ahead of by two parts at least: one is used while the other one is read. With memory for less the kernel,
/// which reads 128 KiB while others are used, is quicker: 120 MB with 60 MiB of memory took 0.81 s where it takes 0.63.
const LEAST_AHEAD_PAGES: u64 = 2 * PART_PAGES as u64;
/// Of the last eight pieces so many waited: the stream is worth reading ahead of.
const WAITS: u32 = 2;
/// What a sequence waits for a page at least, nanoseconds, to be read ahead of: 1 GB/s. To read a part ahead takes us a few
/// 100 us, and what waits less for as much gains nothing.
const LEAST_WAIT_NS: u64 = 4000;
/// Pieces of others after which a stream that has not gone on may lose what was read for it.
const FORGOTTEN: u64 = 64;

/// What a program has read of a file in one go, in pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The process.
    pub process: u32,
    /// The file, by a number of its own.
    pub file: u32,
    /// The same, by its path from the root.
    pub path: Arc<Path>,
    /// The pages.
    pub pages: Range<u32>,
    /// Pages that the file has.
    pub of: u32,
    /// What it waited for the device, nanoseconds.
    pub waited_ns: u64,
}

/// How good the guesses within files were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StreamGuesses {
    /// Pages that were asked for.
    pub asked_pages: u64,
    /// Of these, those that the program came to.
    pub used_pages: u64,
    /// Those to which it did not come soon.
    pub wrong_pages: u64,
    /// What the program would have waited besides, nanoseconds: an estimate.
    pub saved_ns: u64,
    /// What it waited in sequences that were read ahead of, of which that was tried and does not pay, or that are left to the kernel
    /// as the disk has an arm: it gives no more. Nanoseconds.
    pub at_full_rate_ns: u64,
}

/// A process that goes through a file.
#[derive(Debug)]
struct Stream {
    /// The last step, or the whole of a sequence up to now.
    place: Range<u32>,
    /// The steps that led to the place; there are none in a sequence.
    steps: Option<Steps>,
    /// Pages of the largest piece.
    largest: u32,
    /// Steps, or pages of a sequence, that were asked for beyond the place,
    ahead: u32,
    /// and how many pages these are.
    ahead_pages: u64,
    /// Something was asked for: from then on it does not tell what it would wait by itself, also where it has overtaken us, as what
    /// we read is in its way.
    is_helped: bool,
    /// A bit for each of the last pieces: it waited.
    waits: u8,
    /// Pages that it has come to since something was asked for, and what it waited for these, nanoseconds.
    alone: (u64, u64),
    /// How long it is, if it is believed.
    level: Option<usize>,
    /// When it went on the last time, in pieces.
    met_at: u64,
}

impl Stream {
    fn at(pages: &Range<u32>, met_at: u64) -> Stream {
        Stream {
            place: pages.clone(),
            steps: None,
            largest: pages.end - pages.start,
            ahead: 0,
            ahead_pages: 0,
            is_helped: false,
            waits: 0,
            alone: (0, 0),
            level: None,
            met_at,
        }
    }

    /// Whether a piece follows without a gap, or is the end of what is there once more.
    fn goes_on_with(&self, pages: &Range<u32>) -> bool {
        (self.place.end.saturating_sub(self.largest)..=self.place.end).contains(&pages.start)
            && pages.end >= self.place.end
    }

    /// Whether what was taken for a step, and has come to so many more pages, is a sequence.
    fn is_sequence(&self, new_pages: u64) -> bool {
        let length = self.place.end - self.place.start;
        length >= SEQUENCE_PAGES && u64::from(length) >= u64::from(PIECES) * new_pages
    }

    /// Goes on with a step to these pages, if that can be one.
    fn steps_to(&mut self, pages: &Range<u32>) -> bool {
        let is_step = self.steps.as_mut().is_some_and(|steps| steps.step_to(pages.start));
        if is_step {
            self.place = pages.clone();
        }
        is_step
    }

    /// It has come so many steps or pages further. Returns how many pages of what was asked for these are.
    fn come_to(&mut self, units: u32) -> u64 {
        let come = units.min(self.ahead);
        let pages = (self.ahead_pages * u64::from(come)).checked_div(self.ahead.into()).unwrap_or(0);
        (self.ahead, self.ahead_pages) = (self.ahead - come, self.ahead_pages - pages);
        pages
    }

    /// Whether it waits long enough for reading ahead to pay.
    fn is_slow(&self) -> bool {
        let (pages, waited_ns) = self.alone;
        self.ahead > 0 || waited_ns >= LEAST_WAIT_NS * pages.max(PART_PAGES.into())
    }

    /// The level of its length, if it is long enough to be believed.
    fn reached(&self) -> Option<usize> {
        let (length, first, unit) = match &self.steps {
            None => {
                let first = SEQUENCE_PAGES.max(PIECES.saturating_mul(self.largest));
                (self.place.end - self.place.start, first, SEQUENCE_PAGES)
            }
            Some(steps) => (steps.made(), STEPS, STEPS),
        };
        (length >= first).then(|| ((length / unit).ilog2() as usize).min(LEVELS - 1))
    }
}

/// The places of a process in a file.
#[derive(Debug, Default)]
struct Places {
    streams: Vec<Stream>,
    met_at: u64,
}

/// Follows programs through files.
#[derive(Debug)]
pub struct Streams {
    files: HashMap<(u32, u32), Places>,
    sequences: Kind,
    steps: Kind,
    /// Pages that may be asked for ahead of their use,
    budget_pages: u64,
    /// and that are.
    pending_pages: u64,
    /// Pieces so far.
    clock: u64,
    guesses: StreamGuesses,
    /// Parts that have been looked at, and those among them that were not cached.
    looked_in_all: (u64, u64),
    resting: Resting,
    scattered: Scattered,
    arm: Arm,
}

impl Streams {
    /// Nothing is known. At most `budget_bytes` will be wanted ahead of their use, and `whole_bytes` of files that are read
    /// here and there. `has_arm` tells whether the disk of a file has one.
    #[must_use]
    pub fn new(budget_bytes: u64, whole_bytes: u64, has_arm: fn(&Path) -> bool) -> Streams {
        Streams {
            files: HashMap::new(),
            sequences: Kind::default(),
            steps: Kind::default(),
            budget_pages: budget_bytes / PAGE_BYTES,
            pending_pages: 0,
            clock: 0,
            guesses: StreamGuesses::default(),
            looked_in_all: (0, 0),
            resting: Resting::default(),
            scattered: Scattered::new(whole_bytes),
            arm: Arm::new(has_arm),
        }
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> StreamGuesses {
        let (all, absent) = self.looked_in_all;
        let of_steps = u128::from(self.steps.would_have_waited_ns()) * u128::from(absent);
        let of_steps = of_steps.checked_div(all.into()).unwrap_or(0) as u64;
        let would_have_waited_ns = self.sequences.would_have_waited_ns().saturating_add(of_steps);
        let still_waited_ns = self.sequences.still_waited_ns + self.steps.still_waited_ns;
        let scattered = self.scattered.guesses();
        StreamGuesses {
            asked_pages: self.guesses.asked_pages + scattered.asked_pages,
            used_pages: self.guesses.used_pages + scattered.used_pages,
            saved_ns: would_have_waited_ns
                .saturating_sub(still_waited_ns)
                .saturating_add(self.sequences.saved_before_ns)
                .saturating_add(scattered.saved_ns()),
            at_full_rate_ns: self.sequences.at_full_rate_ns,
            ..self.guesses
        }
    }

    /// So many of the parts that were wanted have been looked at, and so many of these were not cached.
    pub fn looked_at(&mut self, parts: u32, absent: u32) {
        let (all, all_absent) = self.looked_in_all;
        self.looked_in_all = (all + u64::from(parts), all_absent + u64::from(absent));
        self.resting.looked_at(parts, absent);
    }

    /// So many parts are done with, read or not, and so many bytes of them came from the device in so many seconds.
    pub fn done(&mut self, parts: u32, bytes: u64, seconds: f64) {
        self.scattered.done(parts, bytes as f64, seconds);
    }

    /// A program has read a piece of a file. Returns what should be read before it comes to the next ones.
    pub fn read(&mut self, piece: &Piece) -> Vec<Wanted> {
        self.clock += 1;
        let key = (piece.process, piece.file);
        let mut places = self.files.remove(&key).unwrap_or_default();
        if self.files.len() >= FILES
            && let Some(oldest) =
                self.files.iter().min_by_key(|(_, places)| places.met_at).map(|(&key, _)| key)
        {
            let oldest = self.files.remove(&oldest).unwrap_or_default();
            oldest.streams.into_iter().for_each(|stream| self.end(&stream));
        }
        places.met_at = self.clock;
        let mut wanted = match self.follow(&mut places, piece) {
            Some(at) => self.wanted(&mut places.streams[at], piece),
            None => {
                self.arm.began(piece.waited_ns);
                self.scattered.read(piece);
                Vec::new()
            }
        };
        wanted.extend(self.scattered.wanted());
        self.files.insert(key, places);
        wanted
    }

    /// The stream that has come to a piece. A new one, of which nothing is known, is none.
    fn follow(&mut self, places: &mut Places, piece: &Piece) -> Option<usize> {
        let streams = &mut places.streams;
        // What has been foreseen comes first.
        let steps = streams.iter_mut().position(|stream| stream.steps_to(&piece.pages));
        let at = steps.or_else(|| streams.iter().rposition(|stream| stream.goes_on_with(&piece.pages)));
        if let Some(at) = at {
            self.go_on(&mut streams[at], piece, steps.is_some());
            return Some(at);
        }
        let mut new = Stream::at(&piece.pages, self.clock);
        new.waits = u8::from(piece.waited_ns > 0);
        // The two places before stay: they may be sequences that lie equally far from each other.
        if let Some((second, steps)) = steps_to(streams, piece.pages.start) {
            new.largest = new.largest.max(second.largest);
            new.waits |= second.waits << 1;
            new.steps = Some(steps);
        }
        if streams.len() >= PLACES
            && let Some(oldest) = (0..PLACES).min_by_key(|&at| streams[at].met_at)
        {
            let oldest = streams.swap_remove(oldest);
            self.end(&oldest);
        }
        streams.push(new);
        None
    }

    /// A stream comes to a piece, with a step or without a gap.
    fn go_on(&mut self, stream: &mut Stream, piece: &Piece, with_a_step: bool) {
        let pages = &piece.pages;
        // Of a step that is read in several pieces the first one counts.
        let is_sequence = stream.steps.is_none();
        let length = stream.place.end - stream.place.start;
        let (units, new_pages) = if with_a_step {
            (1, u64::from(pages.end - pages.start))
        } else {
            let new_pages = pages.end - stream.place.end;
            stream.place.end = pages.end;
            (if is_sequence { new_pages } else { 0 }, u64::from(new_pages))
        };
        let unit = if is_sequence { pages } else { &stream.place };
        stream.largest = stream.largest.max(unit.end - unit.start);
        stream.met_at = self.clock;
        stream.waits = stream.waits << 1 | u8::from(piece.waited_ns > 0);
        let kind = if is_sequence { &mut self.sequences } else { &mut self.steps };
        let was_asked = stream.ahead > 0;
        if is_sequence {
            if piece.waited_ns > 0 {
                self.arm.went_on((piece.process, piece.file));
            }
            let is_helped = was_asked || stream.is_helped;
            kind.goes_on((is_helped, was_asked), length, new_pages, piece.waited_ns);
        } else if was_asked {
            kind.used += u64::from(units.min(stream.ahead));
            kind.still_waited_ns += piece.waited_ns;
        }
        if was_asked {
            let used = stream.come_to(units);
            self.pending_pages = self.pending_pages.saturating_sub(used);
            self.guesses.used_pages += used;
            stream.alone = (0, 0);
        } else {
            stream.alone = (stream.alone.0 + new_pages, stream.alone.1 + piece.waited_ns);
        }
        if !is_sequence && piece.waited_ns > 0 {
            kind.telling += u64::from(units);
            kind.waited_ns += piece.waited_ns;
        }
        if !is_sequence && stream.is_sequence(new_pages) {
            self.end(stream);
            *stream =
                Stream { place: stream.place.clone(), waits: stream.waits, ..Stream::at(pages, self.clock) };
        }
        let reached = stream.reached();
        let kind = if stream.steps.is_none() { &mut self.sequences } else { &mut self.steps };
        if let (Some(before), Some(now)) = (stream.level, reached) {
            (before..now).for_each(|level| kind.count(level, false));
        }
        stream.level = reached.max(stream.level);
        // A file that is read to its end has not ended early.
        if stream.place.end >= piece.of
            && let Some(level) = stream.level.take()
        {
            kind.count(level, false);
        }
    }

    /// A stream does not go on.
    fn end(&mut self, stream: &Stream) {
        self.guesses.wrong_pages += stream.ahead_pages;
        self.pending_pages = self.pending_pages.saturating_sub(stream.ahead_pages);
        let kind = if stream.steps.is_none() { &mut self.sequences } else { &mut self.steps };
        if let Some(level) = stream.level {
            kind.count(level, true);
        }
    }

    /// What a stream wants now.
    fn wanted(&mut self, stream: &mut Stream, piece: &Piece) -> Vec<Wanted> {
        let waits = stream.waits.count_ones();
        if waits >= 2 * WAITS {
            self.resting.end();
        }
        let kind = if stream.steps.is_none() { &self.sequences } else { &self.steps };
        let is_likely = stream.level.is_some_and(|level| kind.is_likely(level));
        let pays = stream.steps.is_some() || stream.is_slow() && kind.is_asked_for();
        if self.resting.is_resting() || !is_likely || !pays || waits < WAITS && stream.ahead == 0 {
            return Vec::new();
        }
        let (unit_pages, length) = match &stream.steps {
            None => (1, stream.place.end - stream.place.start),
            Some(steps) => (stream.largest, steps.made().min(STEPS_AHEAD)),
        };
        // Half of it is for others.
        let affordable = self.budget_pages / 2 / u64::from(unit_pages.max(1));
        let is_sequence = stream.steps.is_none();
        if is_sequence && self.arm.is_in_the_way(&piece.path) {
            // The kernel has all of the disk.
            self.sequences.at_full_rate_ns = self.sequences.at_full_rate_ns.saturating_add(piece.waited_ns);
            return Vec::new();
        }
        if is_sequence && affordable < LEAST_AHEAD_PAGES {
            return Vec::new();
        }
        let goal = length.min(u32::try_from(affordable).unwrap_or(u32::MAX));
        // As soon as half of it has been used, so that what is asked for is of some size.
        if stream.ahead > goal / 2 {
            return Vec::new();
        }
        let ranges = match &stream.steps {
            None => parts(stream, goal, piece.of),
            Some(steps) => coming(steps, stream, goal, piece.of),
        };
        let mut wanted = Vec::new();
        for (units, pages) in ranges {
            let more = u64::from(pages.end - pages.start);
            if self.pending_pages + more > self.budget_pages && !self.make_room(more) {
                break;
            }
            stream.is_helped = true;
            stream.ahead += units;
            stream.ahead_pages += more;
            self.pending_pages += more;
            self.guesses.asked_pages += more;
            let bytes = u64::from(pages.start) * PAGE_BYTES..u64::from(pages.end) * PAGE_BYTES;
            wanted.push(Wanted::Part(Arc::clone(&piece.path), bytes));
        }
        wanted
    }

    /// Takes from the streams that have not gone on for long.
    fn make_room(&mut self, pages: u64) -> bool {
        while self.pending_pages + pages > self.budget_pages {
            let all = self.files.values_mut().flat_map(|places| &mut places.streams);
            let idle = all.filter(|stream| stream.ahead > 0 && stream.met_at + FORGOTTEN < self.clock);
            let Some(oldest) = idle.min_by_key(|stream| stream.met_at) else { return false };
            let given_up = Stream { place: oldest.place.clone(), steps: oldest.steps.clone(), ..*oldest };
            (oldest.ahead, oldest.ahead_pages, oldest.level) = (0, 0, None);
            self.end(&given_up);
        }
        true
    }
}

/// The steps that end at this page, through two other places, and the second of these.
fn steps_to(streams: &[Stream], page: u32) -> Option<(&Stream, Steps)> {
    let places = || streams.iter().rev().filter(|stream| stream.ahead == 0);
    places().find_map(|second| {
        let through = |first: &Stream| Steps::through([first.place.start, second.place.start, page]);
        Some((second, places().find_map(through)?))
    })
}

/// The parts of a sequence up to a goal that were not asked for, each with its pages. Only the end of the file is a part
/// that is smaller.
fn parts(stream: &Stream, goal: u32, of: u32) -> Vec<(u32, Range<u32>)> {
    let to = stream.place.end.saturating_add(goal).min(of);
    let mut from = stream.place.end.saturating_add(stream.ahead);
    let mut parts = Vec::new();
    while from < to && (to - from >= PART_PAGES || to == of) {
        let end = to.min(from.saturating_add(PART_PAGES));
        parts.push((end - from, from..end));
        from = end;
    }
    parts
}

/// The steps up to a goal that were not asked for, in ranges that do not touch; with each, how many there are in it.
fn coming(steps: &Steps, stream: &Stream, goal: u32, of: u32) -> Vec<(u32, Range<u32>)> {
    let mut ranges: Vec<(u32, Range<u32>)> = Vec::new();
    for at in stream.ahead + 1..=goal {
        let starts = steps.coming(at);
        let end = starts.end - 1 + i64::from(stream.largest);
        let (Ok(start), Ok(end)) = (u32::try_from(starts.start), u32::try_from(end)) else { break };
        if start >= of {
            break;
        }
        let pages = start..end.min(of);
        match ranges.last_mut() {
            Some((steps, last))
                if pages.start <= last.end && last.start <= pages.end && last.len() < PART_PAGES as usize =>
            {
                (*steps, *last) = (*steps + 1, last.start.min(pages.start)..last.end.max(pages.end));
            }
            _ => ranges.push((1, pages)),
        }
    }
    ranges
}
