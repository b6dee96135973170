//! Requests of which nothing has come for some time: the store, or the mount, may never answer.
//!
//! Such a request lends its place to another one. Where all frames have fetches under way and somebody waits for one, the requests
//! that are silent for the longest time give theirs up. Who waits for their bytes gets them all the same when they come, but the
//! pool does not keep them. A store that is only slow loses nothing as long as there is memory.

use std::collections::VecDeque;
use std::ops::Range;

use foretell_policy::FileId;

use crate::object::Run;

/// The parts of a run that have not come.
pub(crate) struct Missing {
    number: u64,
    pub(crate) file: FileId,
    pub(crate) serial: u64,
    pub(crate) parts: Range<u32>,
}

/// Runs that are silent and have their frames, the one that has been for the longest time first: no more than requests may be under
/// way.
#[derive(Default)]
pub(crate) struct Silent(VecDeque<Missing>);

impl Silent {
    /// Of a run of which `got` parts came nothing has come for some time.
    pub(crate) fn add(&mut self, run: &Run, got: usize) {
        let parts = run.first + got as u32..run.first + run.parts as u32;
        let (number, file, serial) = (run.number, run.file, run.fixed.serial);
        self.0.push_back(Missing { number, file, serial, parts });
    }

    pub(crate) fn remove(&mut self, run: &Run) {
        self.0.retain(|missing| missing.number != run.number);
    }

    pub(crate) fn pop(&mut self) -> Option<Missing> {
        self.0.pop_front()
    }
}
