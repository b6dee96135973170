//! Which reader is on which stream.
//!
//! A reader whose role is known is put on its stream. Another one is watched for its first references: each run of
//! them is looked up in every stream, and a stream scores for a run that it names, and again for one that follows the
//! run before in its order. The best one that explains half of them is the reader's, or else one that has a few in its
//! order, and what was watched is matched there. A stream that another live reader is on counts half. A reader that fits
//! none is watched again after as many references, then after twice as many, and so on: it may have begun with something
//! new.

use super::list::NONE;
use super::runs::{Joins, Runs};
use super::stream::Stream;
use super::{Limits, Match, Reference};

/// References after which a new reader is judged.
const WATCHED: usize = 64;

/// Positions within which a run must follow the one before to be in order.
const FOLLOWS: u32 = 64;

/// Runs that must be explained.
const ENOUGH_RUNS: u32 = 2;

/// Runs that follow each other in a stream's order, which is enough where most runs are new: so many, and a quarter of all.
const ENOUGH_IN_ORDER: u32 = 3;

/// A reader that fits no stream is let be for so many references at most.
const LONGEST_PAUSE: u32 = 1 << 11;

#[derive(Debug)]
enum State {
    /// Not known yet: what it referenced so far, and how long it is let be if that fits no stream.
    New(Vec<Reference>, u32),
    On(usize),
    /// No stream fits: references until it is watched again, and for how many it was let be.
    Nowhere(u32, u32),
}

#[derive(Debug)]
struct Reader {
    id: u32,
    state: State,
}

/// The streams of a manager, and its readers.
#[derive(Debug, Default)]
pub struct Readers {
    limits: Limits,
    streams: Vec<Stream>,
    /// Readers by id, ascending.
    readers: Vec<Reader>,
    /// Where the one was that was asked for last.
    latest: usize,
}

impl Readers {
    /// No streams yet.
    #[must_use]
    pub fn new(limits: Limits) -> Readers {
        Readers { limits, ..Readers::default() }
    }

    /// Adds an empty stream; its number. `None` when there are [`Limits::streams`] of them.
    pub fn add_stream(&mut self) -> Option<usize> {
        if self.streams.len() >= self.limits.streams as usize {
            return None;
        }
        self.streams.push(Stream::new(self.limits));
        Some(self.streams.len() - 1)
    }

    /// A stream by its number.
    #[must_use]
    pub fn stream(&self, stream: usize) -> Option<&Stream> {
        self.streams.get(stream)
    }

    /// The same, to append to it and to take what moved.
    pub fn stream_mut(&mut self, stream: usize) -> Option<&mut Stream> {
        self.streams.get_mut(stream)
    }

    /// Puts a reader on the stream of its role. False when there is no such stream, or no room for a reader.
    pub fn assign(&mut self, reader: u32, stream: usize) -> bool {
        if stream >= self.streams.len() {
            return false;
        }
        let Some(at) = self.find_or_add(reader) else { return false };
        self.readers[at].state = State::On(stream);
        true
    }

    /// The reader has ended.
    pub fn end(&mut self, reader: u32) {
        if let Ok(at) = self.readers.binary_search_by_key(&reader, |r| r.id) {
            self.readers.remove(at);
        }
    }

    /// The stream that a reader is on.
    #[must_use]
    pub fn stream_of(&self, reader: u32) -> Option<usize> {
        let at = self.readers.binary_search_by_key(&reader, |r| r.id).ok()?;
        match self.readers[at].state {
            State::On(stream) => Some(stream),
            _ => None,
        }
    }

    /// The same; quicker for who was asked for last.
    #[inline]
    pub(crate) fn on(&mut self, reader: u32) -> Option<usize> {
        if self.readers.get(self.latest).is_none_or(|r| r.id != reader) {
            self.latest = self.readers.binary_search_by_key(&reader, |r| r.id).ok()?;
        }
        match self.readers[self.latest].state {
            State::On(stream) => Some(stream),
            _ => None,
        }
    }

    /// Matches a reference of a reader: in which stream, and how. `found` gets every match; those of a new reader's
    /// first references come together, when its stream is found.
    pub fn reference(&mut self, reader: u32, r: Reference, mut found: impl FnMut(usize, Reference, Match)) {
        let Some(at) = self.find_or_add(reader) else { return };
        match &mut self.readers[at].state {
            State::On(stream) => {
                let stream = *stream;
                found(stream, r, self.streams[stream].reference(r));
            }
            State::New(watched, pause) => {
                let pause = *pause;
                watched.push(r);
                if watched.len() < WATCHED {
                    return;
                }
                let watched = std::mem::take(watched);
                self.readers[at].state = match self.best_fit(&watched) {
                    Some(stream) => {
                        for r in watched {
                            found(stream, r, self.streams[stream].reference(r));
                        }
                        State::On(stream)
                    }
                    None => State::Nowhere(pause, pause),
                };
            }
            State::Nowhere(left, pause) => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    let pause = (*pause * 2).min(LONGEST_PAUSE);
                    self.readers[at].state = State::New(Vec::new(), pause);
                }
            }
        }
    }

    fn find_or_add(&mut self, reader: u32) -> Option<usize> {
        match self.readers.binary_search_by_key(&reader, |r| r.id) {
            Ok(at) => Some(at),
            Err(_) if self.readers.len() >= self.limits.readers as usize => None,
            Err(at) => {
                self.readers.insert(at, Reader { id: reader, state: State::New(Vec::new(), WATCHED as u32) });
                Some(at)
            }
        }
    }

    /// The stream that explains most of a reader's first references.
    fn best_fit(&self, watched: &[Reference]) -> Option<usize> {
        let mut best = (0, None);
        for (number, stream) in self.streams.iter().enumerate() {
            let taken = self.readers.iter().any(|r| matches!(r.state, State::On(on) if on == number));
            let score = score(stream, watched) * if taken { 1 } else { 2 };
            if score > best.0 {
                best = (score, Some(number));
            }
        }
        best.1
    }
}

/// Runs that the stream names, and those that follow the run before there, at least 1; 0 when it explains neither half of
/// them, nor half of the references, nor some in its order.
fn score(stream: &Stream, watched: &[Reference]) -> u32 {
    let mut runs = Runs::default();
    let (mut begun, mut named, mut follow, mut length) = (0, 0, 0, 0);
    let mut last = NONE;
    for &r in watched {
        let is_listed = stream.list.is_listed(r.block);
        length += u32::from(is_listed);
        if runs.take(r) == Joins::Begins {
            begun += 1;
            named += u32::from(is_listed);
            if last != NONE && is_listed {
                follow += u32::from(follows(stream, last, r.block));
            }
        }
        if is_listed {
            last = r.block;
        }
    }
    let half_of_the_runs = named >= ENOUGH_RUNS && named * 2 >= begun;
    let half_of_the_references = length as usize * 2 >= WATCHED;
    let in_order = follow >= ENOUGH_IN_ORDER && follow * 4 >= begun;
    // A run that begins with a block that is not listed is not named, however much of it is listed.
    if half_of_the_runs || half_of_the_references || in_order { (named + follow).max(1) } else { 0 }
}

/// Does one of the first positions of a block come shortly after one of the other?
fn follows(stream: &Stream, last: u32, block: u32) -> bool {
    let mut p = stream.list.first_from(block, 0);
    for _ in 0..8 {
        if p == NONE {
            return false;
        }
        let before = stream.list.around(last, p).0;
        if before != NONE && p - before <= FOLLOWS {
            return true;
        }
        p = stream.list.first_from(block, p + 1);
    }
    false
}
