//! Which parts the disk holds: the second tier's books.
//!
//! A second engine of the same policy decides, with the disk for its cache: it is told all that the first one is told of
//! objects, managers, lists and references, so that the two number everything alike. What it wants to fetch is written to the
//! disk as soon as it is in memory; what it evicts is forgotten. It fetches nothing ahead: only what was read is written,
//! once. Where lists say what comes, the disk keeps what is needed soonest, as memory does.

use std::sync::Arc;

use foretell_policy::{Action, Block, Config, Engine, FileId, Input, Layout, Nanos, Prefetch, ProcessId};

use crate::disk::{Disk, Place};
use crate::error::Error;
use crate::options::Options;
use crate::ring::Rings;
use crate::who::Who;

/// What the disk has of a part.
#[derive(Debug)]
pub(crate) enum Kept {
    /// To be written when it comes.
    Wanted,
    Writing,
    There(Arc<Place>),
}

/// What is to be done with a part of an open object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Keep(Block),
    Forget(Block),
}

pub(crate) struct Tier {
    engine: Engine,
    disk: Arc<Disk>,
    /// Reads and writes of the disk that are under way, and bytes of parts that it holds.
    pub(crate) reading: usize,
    pub(crate) writing: usize,
}

impl Tier {
    /// `None` if there is to be none.
    pub(crate) fn new(options: &Options, rings: &Rings) -> Result<Option<Tier>, Error> {
        let Some(folder) = &options.disk_dir else { return Ok(None) };
        let slots = options.disk_parts();
        let mut config = Config::new(slots);
        config.prefetch = Prefetch::None;
        config.limits = options.limits();
        let disk = Disk::new(folder, slots, options.part_bytes, rings)
            .map_err(|error| Error::Disk { folder: folder.display().to_string(), why: error.to_string() })?;
        Ok(Some(Tier { engine: Engine::new(config), disk, reading: 0, writing: 0 }))
    }

    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    // ---- what the first engine is told ----

    /// A manager with one process, which the first engine has just got as well.
    pub(crate) fn add_manager(&mut self, who: Who, is_persistent: bool, policy: foretell_policy::PoolPolicy) {
        // What the first one takes, this one takes.
        let manager = self.engine.add_manager(is_persistent);
        let process = self.engine.add_process(who.manager);
        let _ = self.engine.set_policy(who.manager, 0, policy);
        debug_assert_eq!((manager.ok(), process), (Some(who.manager), who.process));
    }

    pub(crate) fn add_file(&mut self, file: FileId, length_blocks: u32) {
        let added = self.engine.add_file(Layout::Unknown);
        debug_assert_eq!(added.ok(), Some(file));
        self.engine.set_file_length(file, length_blocks);
    }

    pub(crate) fn remove_file(&mut self, file: FileId) {
        self.engine.remove_file(file);
    }

    pub(crate) fn disclose(&mut self, now: Nanos, who: Who, blocks: &[Block]) {
        self.engine.disclose(now, who.manager, blocks);
    }

    pub(crate) fn tell(&mut self, now: Nanos, input: Input<'_>) {
        self.engine.tell(now, input);
    }

    pub(crate) fn access(&mut self, now: Nanos, process: ProcessId, block: Block) {
        self.engine.access(now, process, block);
    }

    // ---- what this one wants ----

    pub(crate) fn next_task(&mut self) -> Option<Task> {
        loop {
            match self.engine.poll_action()? {
                Action::Fetch { block, .. } => return Some(Task::Keep(block)),
                Action::Evict { block } => return Some(Task::Forget(block)),
                Action::CancelPrefetches { .. } => {}
            }
        }
    }
}
