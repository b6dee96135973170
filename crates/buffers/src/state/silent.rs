//! What becomes of requests that are silent, and of their frames ([`crate::silent`]).

use foretell_policy::{Block, Input, Nanos};

use super::State;
use crate::object::{Open, Part, Run, Stage};

impl State {
    /// Of a run of which `got` parts came nothing has come for some time. Gives whether its place is another one's now.
    pub(crate) fn is_silent(&mut self, run: &Run, got: usize) -> bool {
        self.silent.add(run, got);
        self.flow.lend()
    }

    /// Something has come of it, or it has ended.
    pub(crate) fn is_heard(&mut self, run: &Run, is_lent: bool) {
        self.silent.remove(run);
        if is_lent {
            self.flow.take_back();
        }
    }

    /// The request that has been silent for the longest time gives up its frames; `false` if there is none.
    pub(super) fn take_frames(&mut self, now: Nanos) -> bool {
        let Some(missing) = self.silent.pop() else { return false };
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
