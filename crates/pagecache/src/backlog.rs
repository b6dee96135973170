//! Hints that wait until the policy's list has room for them.

use std::collections::VecDeque;

use crate::options::{HintChunk, SessionId};
use crate::plane::Plane;

/// The hints of one manager that have not been taken yet, in order.
#[derive(Debug)]
pub struct Backlog {
    manager: usize,
    waiting: VecDeque<HintChunk>,
    skipped: u64,
    first_problem: Option<String>,
}

impl Backlog {
    /// An empty backlog of manager number `manager` of a session.
    #[must_use]
    pub fn new(manager: usize) -> Backlog {
        Backlog { manager, waiting: VecDeque::new(), skipped: 0, first_problem: None }
    }

    /// Adds hints at the end. Whoever adds waits until [`Backlog::is_empty`]: that bounds it.
    pub fn extend(&mut self, hints: impl IntoIterator<Item = HintChunk>) {
        self.waiting.extend(hints);
    }

    /// Has everything been taken or skipped?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Offers what waits, until the list is full. Hints that cannot be followed are skipped and counted.
    pub fn offer(&mut self, plane: &mut Plane, session: SessionId) {
        while !self.waiting.is_empty() {
            match plane.disclose(session, self.manager, self.waiting.make_contiguous()) {
                Ok(taken) => {
                    self.waiting.drain(..taken.chunks.min(self.waiting.len()));
                    if taken.chunks == 0 {
                        return;
                    }
                }
                Err(e) => {
                    self.waiting.drain(..(e.chunk + 1).min(self.waiting.len()));
                    self.skipped += 1;
                    self.first_problem.get_or_insert_with(|| e.to_string());
                }
            }
        }
    }

    /// Hints skipped so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The first problem, once.
    pub fn take_problem(&mut self) -> Option<String> {
        // An empty text marks that it was taken, so later problems stay silent.
        self.first_problem.as_mut().filter(|text| !text.is_empty()).map(std::mem::take)
    }
}
