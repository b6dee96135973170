//! Short forms of [`Engine::tell`], one an input, with the answer in its own type.

use super::Engine;
use crate::action::Access;
use crate::ids::{Block, FileId, ManagerId, Nanos, ProcessId};
use crate::input::{Answer, Input, LimitReached};
use crate::layout::Layout;
use crate::pool_policy::PoolPolicy;

impl Engine {
    /// [`Input::Accessed`] without waiting; says how the block was found.
    pub fn access(&mut self, now: Nanos, process: ProcessId, block: Block) -> Access {
        match self.tell(now, Input::Accessed { process, block, stalled: false }) {
            Answer::Access(access) => access,
            _ => Access::Miss,
        }
    }

    /// [`Input::Disclosed`] to the manager's first list; gives how many references were taken. The rest can be
    /// appended when the cursor has moved on.
    pub fn disclose(&mut self, now: Nanos, manager: ManagerId, blocks: &[Block]) -> usize {
        match self.tell(now, Input::Disclosed { manager, list: 0, blocks }) {
            Answer::Taken(taken) => taken,
            _ => 0,
        }
    }

    /// [`Input::FileAdded`].
    ///
    /// # Errors
    /// When [`crate::Limits::files`] files are known.
    pub fn add_file(&mut self, layout: Layout) -> Result<FileId, LimitReached> {
        match self.tell(self.last, Input::FileAdded { layout: &layout }) {
            Answer::File(file) => Ok(file),
            Answer::Refused(limit) => Err(limit),
            _ => Err(UNEXPECTED),
        }
    }

    /// [`Input::FileLength`].
    pub fn set_file_length(&mut self, file: FileId, length_blocks: u32) {
        self.tell(self.last, Input::FileLength { file, length_blocks });
    }

    /// [`Input::FileRemoved`].
    pub fn remove_file(&mut self, file: FileId) {
        self.tell(self.last, Input::FileRemoved { file });
    }

    /// [`Input::FetchesAllowed`].
    pub fn allow_fetches(&mut self, file: FileId) {
        self.tell(self.last, Input::FetchesAllowed { file });
    }

    /// [`Input::ManagerAdded`].
    ///
    /// # Errors
    /// When [`crate::Limits::managers`] are alive or have fetches under way.
    pub fn add_manager(&mut self, persistent: bool) -> Result<ManagerId, LimitReached> {
        match self.tell(self.last, Input::ManagerAdded { persistent }) {
            Answer::Manager(manager) => Ok(manager),
            Answer::Refused(limit) => Err(limit),
            _ => Err(UNEXPECTED),
        }
    }

    /// [`Input::ManagerRemoved`].
    pub fn remove_manager(&mut self, manager: ManagerId) {
        self.tell(self.last, Input::ManagerRemoved { manager });
    }

    /// [`Input::ProcessAdded`]. At [`crate::Limits::processes`] the record of one that has ended is used
    /// again, its counts forgotten; if none has, the newcomer shares the record of its manager's last one.
    pub fn add_process(&mut self, manager: ManagerId) -> ProcessId {
        match self.tell(self.last, Input::ProcessAdded { manager }) {
            Answer::Process(process) => process,
            _ => ProcessId(u32::MAX),
        }
    }

    /// [`Input::Priority`].
    ///
    /// # Errors
    /// When the manager has as many levels or file records as [`crate::Limits`] allows.
    pub fn set_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        priority: i32,
    ) -> Result<(), LimitReached> {
        done(self.tell(self.last, Input::Priority { manager, file, priority }))
    }

    /// [`Input::Policy`].
    ///
    /// # Errors
    /// When the manager has as many levels as [`crate::Limits`] allows, or eight adaptive ones.
    pub fn set_policy(
        &mut self,
        manager: ManagerId,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), LimitReached> {
        done(self.tell(self.last, Input::Policy { manager, priority, policy }))
    }

    /// [`Input::TemporaryPriority`].
    ///
    /// # Errors
    /// When the manager has as many levels as [`crate::Limits`] allows.
    pub fn set_temporary_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        first: u32,
        last: u32,
        priority: i32,
    ) -> Result<(), LimitReached> {
        done(self.tell(self.last, Input::TemporaryPriority { manager, file, first, last, priority }))
    }

    /// [`Input::Flushed`]; gives how many blocks were evicted.
    pub fn flush(&mut self, manager: ManagerId, file: FileId, first: u32, last: u32) -> u32 {
        match self.tell(self.last, Input::Flushed { manager, file, first, last }) {
            Answer::Flushed(blocks) => blocks,
            _ => 0,
        }
    }

    /// [`Input::Scheduled`].
    pub fn set_schedule(&mut self, manager: ManagerId, fetch_references: f64, batch: u32) {
        self.tell(self.last, Input::Scheduled { manager, fetch_references, batch });
    }

    /// [`Input::TimePassed`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.tell(now, Input::TimePassed);
    }

    /// [`Input::MemoryReleased`]: as after the last file has been removed. Tables keep their size otherwise: what
    /// was needed once will be again.
    pub fn release_memory(&mut self) {
        self.tell(self.last, Input::MemoryReleased);
    }
}

/// An answer of another kind than the input's: never given by [`Engine::tell`].
const UNEXPECTED: LimitReached = LimitReached { what: "answers of this kind", limit: 0 };

fn done(answer: Answer) -> Result<(), LimitReached> {
    match answer {
        Answer::Refused(limit) => Err(limit),
        _ => Ok(()),
    }
}
