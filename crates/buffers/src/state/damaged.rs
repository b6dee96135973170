//! Objects whose bytes have another checksum than their store gives.
//!
//! Some of the bytes may have been read before that was known. So nothing is left of such an object, and it gives no more: whoever
//! reads on is told. Opened again, it is asked for anew.

use foretell_policy::{Block, FileId, Input, Nanos};

use super::State;
use crate::error::Error;
use crate::object::{Part, Run};
use crate::running::Pieces;
use crate::tier::Kept;

impl State {
    /// All that a request was to bring has come.
    ///
    /// # Errors
    /// When with that all of the object has come, and it has not got its checksum.
    pub(crate) fn summed(&mut self, now: Nanos, run: &Run, pieces: Pieces) -> Result<(), Error> {
        let serial = run.fixed.serial;
        let Some(open) = self.object_mut(run.file).filter(|open| open.fixed.serial == serial) else {
            return Ok(());
        };
        let Some(running) = &mut open.running else { return Ok(()) };
        let said = running.add(pieces);
        if said.is_some() || running.is_too_much() {
            open.running = None;
        }
        let Some(Err(why)) = said else { return Ok(()) };
        let error = Error::Damaged { url: run.fixed.url.to_string(), why };
        self.is_damaged(now, run.file, &error);
        Err(error)
    }

    /// Nothing more is given of an object.
    pub(super) fn is_damaged(&mut self, now: Nanos, file: FileId, error: &Error) {
        let Some(open) = self.object_mut(file) else { return };
        open.lost = Some(error.clone());
        open.running = None;
        let name = (open.fixed.store, open.fixed.path.clone());
        let ready = |part: &mut Part| matches!(part, Part::Ready { .. });
        let parts: Vec<(u32, Part)> = open.parts.extract_if(|_, part| ready(part)).collect();
        let kept: Vec<(u32, Kept)> = open.kept.drain().collect();
        self.listed.forget(&name);
        for (index, part) in parts {
            self.given_up(part);
            self.engine.tell(now, Input::Gone { block: Block::new(file, index) });
        }
        if let Some(tier) = &mut self.tier {
            for (index, kept) in kept {
                let block = Block::new(file, index);
                let is_there = matches!(kept, Kept::There(_));
                tier.tell(now, if is_there { Input::Gone { block } } else { Input::FetchFailed { block } });
            }
        }
    }
}
