//! The books: what is cached, whose it is, what is on its way, and what each event does to all that.
//!
//! A block is absent, on its way, or cached; in an advisory plane it may also be leaving (asked to go, not answered
//! yet). The parts each own their state and know nothing of each other but the block records that are handed to
//! them; what an event does to several of them at once is written here, one file an occasion:
//!
//! ```text
//!  references   a process references a block
//!  residency    a fetch or an eviction, asked for or not, has happened
//!  room         a block needs a frame: whose block goes (allocation)
//!  ownership    whose a block is, and what managers say of theirs (control)
//!  lists        what managers disclose, and how references move through it (knowledge)
//!  credit       how much may be fetched ahead before it has shown to be right
//!  desk         what planners see of all that
//! ```

mod credit;
mod desk;
mod lists;
mod ownership;
mod references;
mod residency;
mod room;
mod touch;

use std::collections::VecDeque;

use credit::Credit;

pub(crate) use desk::Desk;
pub(crate) use residency::Load;
pub(crate) use touch::Touch;

use crate::accounts::Accounts;
use crate::action::Action;
use crate::blocks::{BlockId, Blocks, Mark, State};
use crate::config::Config;
use crate::control::Managers;
use crate::counterfactual::met::Met;
use crate::counters::{Counters, ManagerCounters};
use crate::fetches::Fetches;
use crate::frames::Frames;
use crate::ids::{Block, DiskId, FileId, ManagerId, Nanos, ProcessId};
use crate::input::LimitReached;
use crate::knowledge::Knowledge;
use crate::layout::Layout;
use crate::placeholders::Placeholders;
use crate::pool_policy::PoolPolicy;
use crate::shadow::ShadowReport;

/// Blocks of a removed file that leave the books at once: some tenths of a millisecond.
const REMOVED_AT_ONCE: usize = 1024;

/// All parts, and the actions that they lead to.
#[derive(Debug)]
pub(crate) struct Books {
    config: Config,
    blocks: Blocks,
    frames: Frames,
    placeholders: Placeholders,
    managers: Managers,
    knowledge: Knowledge,
    fetches: Fetches,
    accounts: Accounts,
    credit: Credit,
    actions: VecDeque<Action>,
    /// Prefetches started since the planner was asked.
    batch: Vec<BlockId>,
    /// Removed files with blocks that are still in the books, and from which on: they leave by and by.
    removing: VecDeque<(FileId, u32)>,
    /// Had a list predicted the last reference?
    predicted: bool,
    /// Positions that readers have passed over since that was asked.
    passed_over: u32,
    /// The block that was referenced last, and how.
    last: Option<Block>,
    touch: Touch,
    /// Fetches that lists may have under way for each disk.
    affordable: u32,
}

impl Books {
    pub(crate) fn new(config: Config) -> Books {
        Books {
            blocks: Blocks::new(config.disks),
            frames: Frames::new(config.cache_blocks),
            placeholders: Placeholders::new(config.limits.placeholders),
            managers: Managers::new(&config.limits, config.revocation),
            knowledge: Knowledge::new(&config),
            fetches: Fetches::new(config.disks, config.fetch_timeout),
            accounts: Accounts::default(),
            credit: Credit::new(config.cache_blocks),
            actions: VecDeque::new(),
            batch: Vec::new(),
            removing: VecDeque::new(),
            predicted: false,
            passed_over: 0,
            last: None,
            touch: Touch::default(),
            affordable: u32::MAX,
            config,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.fetches.next_deadline()
    }

    /// A prefetch whose time has come.
    pub(crate) fn overdue(&mut self, now: Nanos) -> Option<BlockId> {
        self.fetches.overdue(&self.blocks, now)
    }

    // ---- files, managers, processes ----

    pub(crate) fn add_file(&mut self, layout: Layout) -> Result<FileId, LimitReached> {
        let limit = self.config.limits.files;
        if self.blocks.file_count() >= limit as usize {
            return Err(LimitReached { what: "files", limit });
        }
        let file = self.blocks.add_file(layout);
        // Its number may be that of one whose blocks have left by themselves.
        self.removing.retain(|(removed, _)| *removed != file);
        self.accounts.open_file(file);
        Ok(file)
    }

    pub(crate) fn set_file_length(&mut self, file: FileId, length_blocks: u32) {
        self.blocks.set_length(file, length_blocks);
    }

    pub(crate) fn remove_file(&mut self, file: FileId) {
        self.knowledge.forget_waiting_of(file);
        let end = self.blocks.part_end(file, 0, u32::MAX, REMOVED_AT_ONCE);
        self.remove_part(file, 0, end);
        for pools in self.managers.all_pools() {
            pools.forget_file(file);
        }
        if self.blocks.remove_file(file)
            && let Some(next) = end.checked_add(1)
        {
            self.removing.push_back((file, next));
        }
    }

    fn remove_part(&mut self, file: FileId, first: u32, last: u32) {
        for b in self.blocks.of_file(file, first, last) {
            self.forget(b);
            self.placeholders.delete_of(&mut self.blocks, b);
            self.blocks[b].set(Mark::Unfetchable, true);
            self.knowledge.refresh(&self.blocks, b);
            self.blocks.forget_if_idle(b);
        }
    }

    pub(crate) fn allow_fetches(&mut self, file: FileId) {
        for b in self.blocks.of_file(file, 0, u32::MAX) {
            if self.blocks[b].take(Mark::Unfetchable) {
                self.knowledge.refresh(&self.blocks, b);
            }
        }
    }

    pub(crate) fn add_manager(&mut self, persistent: bool) -> Result<ManagerId, LimitReached> {
        let mut place = self.managers.place(|m| self.is_forgotten(m));
        if place.is_none() {
            self.disown_blocks_of_ended();
            place = self.managers.place(|m| self.is_forgotten(m));
        }
        let place = place.ok_or(LimitReached { what: "managers", limit: self.managers.limit() })?;
        self.managers.enter(place, persistent);
        self.credit.open(place);
        Ok(place)
    }

    /// Does nothing speak of a manager that has ended any more?
    fn is_forgotten(&self, manager: ManagerId) -> bool {
        self.fetches.of_manager(manager) == 0 && !self.knowledge.is_withdrawing_of(manager)
    }

    pub(crate) fn remove_manager(&mut self, manager: ManagerId) {
        self.cancel(manager);
        self.managers.end(manager);
    }

    pub(crate) fn add_process(&mut self, manager: ManagerId) -> ProcessId {
        let (process, is_new) = self.managers.add_process(manager);
        if is_new {
            self.accounts.open_process(process);
        }
        process
    }

    pub(crate) fn end_process(&mut self, process: ProcessId) -> Option<ManagerId> {
        if let Some(manager) = self.managers.of_process(process) {
            self.knowledge.end_reader(manager, process);
        }
        let ended = self.managers.end_process(process)?;
        self.remove_manager(ended);
        Some(ended)
    }

    pub(crate) fn knows_manager(&self, manager: ManagerId) -> bool {
        self.managers.is_known(manager)
    }

    pub(crate) fn manager_of(&self, process: ProcessId) -> Option<ManagerId> {
        self.managers.of_process(process)
    }

    /// The manager of a process that has not ended.
    pub(crate) fn manager_of_living(&self, process: ProcessId) -> Option<ManagerId> {
        self.managers.of_living(process)
    }

    pub(crate) fn expect(&mut self, blocks: usize) {
        self.blocks.expect(blocks);
    }

    pub(crate) fn release_memory(&mut self) {
        // Lists that are still being taken out bear the numbers of blocks that are gone.
        if self.knowledge.is_withdrawing() {
            return;
        }
        self.blocks.release_memory();
        self.knowledge.release_memory();
        self.frames.release_memory();
        self.fetches.release_memory();
        self.placeholders.release_memory();
        if self.actions.is_empty() {
            self.actions = VecDeque::new();
        }
    }

    // ---- what can be asked ----

    /// Had a list predicted the last reference?
    pub(crate) fn was_predicted(&self) -> bool {
        self.predicted
    }

    pub(crate) fn find_or_add(&mut self, block: Block) -> Option<BlockId> {
        self.blocks.find_or_add(block)
    }

    pub(crate) fn find(&self, block: Block) -> Option<BlockId> {
        self.blocks.find(block)
    }

    /// Where a block is; `None` outside of its file.
    pub(crate) fn place(&self, block: Block) -> Option<(DiskId, u64)> {
        self.blocks.exists(block).then(|| self.blocks.place(block))
    }

    /// See [`Blocks::part_end`].
    pub(crate) fn part_end(&self, file: FileId, first: u32, last: u32, most: usize) -> u32 {
        self.blocks.part_end(file, first, last, most)
    }

    pub(crate) fn is_cached(&self, block: Block) -> bool {
        self.blocks.find(block).is_some_and(|b| self.blocks[b].state == State::Cached)
    }

    /// Lists may have no more fetches under way, for each disk.
    pub(crate) fn set_affordable(&mut self, fetches: u32) {
        self.affordable = fetches;
    }

    /// What a reference to a block meets where nobody is steered.
    pub(crate) fn met(&self, block: Block) -> Met {
        if self.fetches.of_lists() > 0 {
            return Met::Steered;
        }
        let Some(b) = self.blocks.find(block) else { return Met::Absent };
        match self.blocks[b].state {
            _ if self.blocks[b].is(Mark::OnCredit) => Met::Steered,
            State::Absent | State::Leaving => Met::Absent,
            State::Awaited | State::InFlight | State::Cached => Met::Present,
        }
    }

    /// Positions of lists that readers have passed over since this was asked.
    pub(crate) fn take_passed_over(&mut self) -> u32 {
        std::mem::take(&mut self.passed_over)
    }

    pub(crate) fn used_blocks(&self) -> u32 {
        self.frames.used()
    }

    pub(crate) fn placeholder_count(&self) -> u32 {
        self.placeholders.len()
    }

    pub(crate) fn owned_blocks(&self, manager: ManagerId) -> u32 {
        if self.managers.is_alive(manager) { self.managers.owned(manager) } else { 0 }
    }

    pub(crate) fn is_revoked(&self, manager: ManagerId) -> bool {
        self.managers.is_revoked(manager)
    }

    pub(crate) fn priority(&self, manager: ManagerId, file: FileId) -> i32 {
        self.managers.pools(manager).map_or(0, |p| p.priority(file))
    }

    pub(crate) fn policy(&self, manager: ManagerId, priority: i32) -> PoolPolicy {
        self.managers.pools(manager).map_or(PoolPolicy::default(), |p| p.policy(priority))
    }

    pub(crate) fn shadow_report(&self, manager: ManagerId, priority: i32) -> Option<ShadowReport> {
        self.managers.pools(manager)?.shadow_report(priority)
    }

    pub(crate) fn totals(&self) -> Counters {
        self.accounts.totals()
    }

    pub(crate) fn process_counters(&self, process: ProcessId) -> Counters {
        self.accounts.of_process(process)
    }

    pub(crate) fn file_counters(&self, file: FileId) -> Counters {
        self.accounts.of_file(file)
    }

    pub(crate) fn manager_counters(&self, manager: ManagerId) -> ManagerCounters {
        self.managers.counters(manager)
    }
}
