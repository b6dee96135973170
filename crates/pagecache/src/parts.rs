//! Directives over ranges, done part by part.
//!
//! A range may hold every block that is cached, or listed. What is asked for it takes as long as there are blocks, so
//! it is done a part at a time, and who drives the plane may see to others between two parts. Each part is an input of
//! the policy of its own: blocks that come in the meantime are in it if their part has not been done yet.

use foretell_policy::ManagerId;

use crate::clients::ByteRange;
use crate::error::ControlError;
use crate::naming::HeldFile;
use crate::options::SessionId;
use crate::plane::Plane;

/// Blocks of one part: some tens of microseconds.
const PART_BLOCKS: usize = 512;

/// What is asked for the blocks of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    TemporaryPriority(i32),
    DoneWith,
}

/// What is left to do of a directive: hand it to [`Plane::go_on`] until nothing is left. To give it up is to leave the
/// rest of the range as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    file: HeldFile,
    directive: Directive,
    next: u32,
    last: u32,
}

impl Plane {
    /// Gives the blocks of a range (those whose last byte lies in it) that are cached and the manager's own
    /// another priority, until each is referenced or replaced. Begins; [`Plane::go_on`] does it.
    ///
    /// # Errors
    /// When the session does not hold the file.
    pub fn set_temporary_priority(
        &mut self,
        session: SessionId,
        file: HeldFile,
        range: ByteRange,
        priority: i32,
    ) -> Result<Option<Rest>, ControlError> {
        self.begin(session, file, range, Directive::TemporaryPriority(priority))
    }

    /// The session's processes have no further use for the blocks of a range (those whose last byte lies in
    /// it): they are dropped as soon as the kernel does it, unless they are not the manager's own, or its list
    /// names them. Begins; [`Plane::go_on`] does it.
    ///
    /// # Errors
    /// When the session does not hold the file.
    pub fn done_with(
        &mut self,
        session: SessionId,
        file: HeldFile,
        range: ByteRange,
    ) -> Result<Option<Rest>, ControlError> {
        self.begin(session, file, range, Directive::DoneWith)
    }

    fn begin(
        &mut self,
        session: SessionId,
        file: HeldFile,
        range: ByteRange,
        directive: Directive,
    ) -> Result<Option<Rest>, ControlError> {
        self.steering.holder(session, file)?;
        let blocks = self.steering.ended_blocks(file.file, range);
        Ok(blocks.map(|(next, last)| Rest { file, directive, next, last }))
    }

    /// Does a part of what is left, some tens of microseconds; gives what is left then.
    ///
    /// # Errors
    /// When the session does not hold the file any more, or has as many priority levels as it may.
    pub fn go_on(&mut self, session: SessionId, rest: Rest) -> Result<Option<Rest>, ControlError> {
        let manager = self.steering.holder(session, rest.file)?;
        let Rest { file, next, last, .. } = rest;
        let end = self.steering.engine.part_end(file.file, next, last, PART_BLOCKS);
        self.do_part(manager, rest, end)?;
        Ok((end < last).then(|| Rest { next: end + 1, ..rest }))
    }

    fn do_part(&mut self, manager: ManagerId, rest: Rest, end: u32) -> Result<(), ControlError> {
        let Rest { file, directive, next, .. } = rest;
        let steering = &mut self.steering;
        match directive {
            Directive::TemporaryPriority(priority) => {
                steering.engine.set_temporary_priority(manager, file.file, next, end, priority)?;
            }
            Directive::DoneWith => {
                if steering.engine.flush(manager, file.file, next, end) > 0 {
                    steering.act();
                    steering.stirred = true;
                }
            }
        }
        Ok(())
    }
}
