//! Requests of which nothing has come for some time: the store, or the mount, may never answer.
//!
//! Such a request lends its place to another one. Where all frames have fetches under way and somebody waits for one, the requests
//! that are silent for the longest time give theirs up. Who waits for their bytes gets them all the same when they come, but the
//! pool does not keep them. A store that is only slow loses nothing as long as there is memory.

use std::collections::VecDeque;
use std::sync::Arc;

use foretell_policy::{Block, FileId, Input, Nanos};

use super::State;
use crate::object::{Open, Part, Run, Stage};
use crate::part::Pending;

/// The parts of a run that have not come.
struct Missing {
    number: u64,
    file: FileId,
    serial: u64,
    parts: std::ops::Range<u32>,
}

/// Runs that are silent and have their frames, the one that has been for the longest time first: no more than requests may be under
/// way.
#[derive(Default)]
pub(super) struct Silent(VecDeque<Missing>);

/// What a part has that waits for a request without a frame. The engine is not told of a reference to it: it would give up
/// something for what does not come.
pub(super) fn wait_without_frame(open: &mut Open, part: u32) -> Option<Arc<Pending>> {
    match open.parts.get_mut(&part)? {
        Part::Pending { pending, stage: Stage::Frameless, waited_for } => {
            *waited_for = true;
            Some(pending.clone())
        }
        _ => None,
    }
}

impl State {
    /// Of a run of which `got` parts came nothing has come for some time. Gives whether its place is another one's now.
    pub(crate) fn is_silent(&mut self, run: &Run, got: usize) -> bool {
        let parts = run.first + got as u32..run.first + run.parts as u32;
        let (file, serial) = (run.file, run.fixed.serial);
        self.silent.0.push_back(Missing { number: run.number, file, serial, parts });
        self.flow.lend()
    }

    /// Something has come of it, or it has ended.
    pub(crate) fn is_heard(&mut self, run: &Run, is_lent: bool) {
        self.silent.0.retain(|missing| missing.number != run.number);
        if is_lent {
            self.flow.take_back();
        }
    }

    /// The request that has been silent for the longest time gives up its frames; `false` if there is none.
    pub(super) fn take_frames(&mut self, now: Nanos) -> bool {
        let Some(missing) = self.silent.0.pop_front() else { return false };
        for index in missing.parts {
            let its = |open: &&mut Open| open.fixed.serial == missing.serial;
            let Some(open) = self.object_mut(missing.file).filter(its) else { break };
            if let Some(Part::Pending { stage: stage @ Stage::UnderWay, .. }) = open.parts.get_mut(&index) {
                *stage = Stage::Frameless;
                let block = Block::new(missing.file, index);
                self.engine.tell(now, Input::FetchFailed { block });
                self.will_not_come(now, block);
            }
        }
        true
    }
}
