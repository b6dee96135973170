//! The engine: what each event does to the books, and what the plane is asked to do about it.
//!
//! A block is absent, on its way, or cached; in an advisory plane it may also be leaving (asked to go,
//! not answered yet). Every reference goes through three steps: it is matched against its manager's
//! disclosed list, it changes the residency and the recency of its block, and the prefetch algorithm
//! is asked whether there is now something to fetch.

use std::collections::VecDeque;

use crate::allocation::placeholders::Placeholders;
use crate::blocks::{BlockId, Blocks, Mark, NOBODY, NUMBERS, State};
use crate::config::{Config, Residency};
use crate::control::pools::Pools;
use crate::control::revocation;
use crate::counters::{Counters, ManagerCounters};
use crate::disclosure::Disclosures;
use crate::event::{Access, Action, Event, LimitReached};
use crate::fetches::Fetches;
use crate::ids::{Block, DiskId, FileId, ManagerId, Nanos, ProcessId};
use crate::layout::Layout;
use crate::prefetch::Trigger;
use crate::prefetch::forestall::History;
use crate::prefetch::reverse_aggressive::Schedule;
use crate::prefetch::sequential::Stream;
use crate::recency::{NONE, RecencyList};

/// Managers of which records are made before those of ended ones are used again.
const MANAGERS_KEPT: usize = 1024;

/// Who owns blocks.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) alive: bool,
    /// Keeps its blocks when its last process has ended.
    persistent: bool,
    processes: u32,
    /// Blocks with a frame that name it as their owner, also after its end.
    pub(crate) owned: u32,
    /// `None` as long as it has neither directed nor disclosed anything: an oblivious manager.
    pub(crate) pools: Option<Box<Pools>>,
    pub(crate) standing: revocation::Record,
    pub(crate) counters: ManagerCounters,
    /// Fetches asked for on its behalf that have not ended.
    pub(crate) in_flight: u32,
    /// The process of its that referenced something last: prefetches are charged to it.
    pub(crate) last_process: ProcessId,
    /// Its last times between references.
    pub(crate) compute_times: History,
    /// The schedule that it follows, with reverse aggressive.
    pub(crate) schedule: Option<Box<Schedule>>,
}

/// A process record.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) manager: ManagerId,
    alive: bool,
    counters: Counters,
}

/// The policy. See the crate's documentation.
///
/// ```
/// use foretell_policy::{Access, Action, Block, Config, Engine, Event, Layout, Nanos, Reason};
///
/// let mut engine = Engine::new(Config::new(2));
/// let manager = engine.add_manager(false).unwrap();
/// let process = engine.add_process(manager);
/// let file = engine.add_file(Layout::Unknown).unwrap();
/// let a = Block::new(file, 0);
///
/// assert_eq!(engine.access(Nanos(0), process, a), Access::Miss);
/// assert_eq!(engine.poll_action(), Some(Action::Fetch { block: a, reason: Reason::Demand, manager }));
/// engine.handle(Nanos(9), Event::Loaded { block: a, by: None });
/// assert_eq!(engine.access(Nanos(10), process, a), Access::Hit);
/// ```
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) blocks: Blocks,
    pub(crate) global: RecencyList,
    pub(crate) placeholders: Placeholders,
    pub(crate) disclosures: Disclosures,
    pub(crate) managers: Vec<Manager>,
    pub(crate) processes: Vec<Process>,
    pub(crate) used_blocks: u32,
    pub(crate) actions: VecDeque<Action>,
    /// Prefetches started since the algorithm was asked.
    pub(crate) batch: Vec<BlockId>,
    /// Prefetches by the time at which they are given up; only with a fetch time-out.
    pub(crate) deadlines: VecDeque<(Nanos, BlockId, u32)>,
    /// Blocks that processes wait for while every frame is on its way to another block.
    pub(crate) awaited: VecDeque<(BlockId, ProcessId)>,
    /// Processes that wait for a block to arrive (exact planes): their references count as made, and
    /// move the cursor, when it is there.
    pub(crate) waiting: Vec<(BlockId, ManagerId)>,
    totals: Counters,
    files: Vec<Counters>,
    pub(crate) fetches: Fetches,
    /// Fetches under way, by disk.
    pub(crate) disk_in_flight: Vec<u32>,
    /// The last access times, by disk.
    pub(crate) access_times: Vec<History>,
    /// Free disks and the room left in their batches, while aggressive fills them.
    pub(crate) open_batches: Vec<(DiskId, u32)>,
    /// How each file is being read, for the algorithms without hints.
    pub(crate) streams: Vec<Stream>,
}

impl Engine {
    /// A policy with an empty cache.
    #[must_use]
    pub fn new(config: Config) -> Engine {
        Engine {
            blocks: Blocks::new(config.disks),
            global: RecencyList::default(),
            placeholders: Placeholders::new(config.limits.placeholders),
            disclosures: Disclosures::new(config.disks),
            managers: Vec::new(),
            processes: Vec::new(),
            used_blocks: 0,
            actions: VecDeque::new(),
            batch: Vec::new(),
            deadlines: VecDeque::new(),
            awaited: VecDeque::new(),
            waiting: Vec::new(),
            totals: Counters::default(),
            files: Vec::new(),
            fetches: Fetches::default(),
            disk_in_flight: vec![0; config.disks.max(1) as usize],
            access_times: vec![History::default(); config.disks.max(1) as usize],
            open_batches: Vec::new(),
            streams: Vec::new(),
            config,
        }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    // ---- files, managers, processes ----

    /// Takes a file under control. Ids of removed files are given out again, with fresh counters.
    ///
    /// # Errors
    /// When [`crate::Limits::files`] files are known.
    pub fn add_file(&mut self, layout: Layout) -> Result<FileId, LimitReached> {
        let limit = self.config.limits.files;
        if self.blocks.file_count() >= limit as usize {
            return Err(LimitReached { what: "files", limit });
        }
        let file = self.blocks.add_file(layout);
        if self.files.len() <= file.0 as usize {
            self.files.resize(file.0 as usize + 1, Counters::default());
        }
        self.files[file.0 as usize] = Counters::default();
        Ok(file)
    }

    /// Says how long a file is, in blocks: nothing beyond is prefetched by look-ahead. Unlimited unless said.
    pub fn set_file_length(&mut self, file: FileId, length_blocks: u32) {
        self.blocks.set_length(file, length_blocks);
    }

    /// Forgets a file (deleted, or no longer controlled): its blocks leave the books without any action,
    /// and lists that still name them pass over them when their turn comes.
    pub fn remove_file(&mut self, file: FileId) {
        for b in self.blocks.of_file(file, 0, u32::MAX) {
            self.forget(b);
            self.placeholders.delete_of(&mut self.blocks, b);
            self.blocks[b].set(Mark::Unfetchable, true);
            self.disclosures.refresh(&self.blocks, b);
            self.blocks.forget_if_idle(b);
        }
        for m in self.managers.iter_mut().filter_map(|m| m.pools.as_mut()) {
            m.forget_file(file);
        }
        self.blocks.remove_file(file);
    }

    /// A new manager. A persistent one lives until [`Engine::remove_manager`], another one until its
    /// last process has ended.
    ///
    /// # Errors
    /// When [`crate::Limits::managers`] are alive or have fetches under way.
    pub fn add_manager(&mut self, persistent: bool) -> Result<ManagerId, LimitReached> {
        let manager = Manager {
            alive: true,
            persistent,
            processes: 0,
            owned: 0,
            pools: None,
            standing: revocation::Record::default(),
            counters: ManagerCounters::default(),
            in_flight: 0,
            last_process: NOBODY,
            compute_times: History::default(),
            schedule: None,
        };
        let limit = self.config.limits.managers.min(NUMBERS);
        let idle = |m: &Manager| !m.alive && m.owned == 0 && m.in_flight == 0;
        let known = self.managers.len();
        // The counts of the first so many are kept: who has few wants to see them all at the end.
        let mut slot = if known < MANAGERS_KEPT.min(limit as usize) {
            None
        } else {
            self.managers.iter().position(idle)
        };
        if slot.is_none() && known >= limit as usize {
            self.disown_blocks_of_ended();
            slot = self.managers.iter().position(idle);
        }
        match slot {
            Some(slot) => self.managers[slot] = manager,
            None if known < limit as usize => self.managers.push(manager),
            None => return Err(LimitReached { what: "managers", limit }),
        }
        Ok(ManagerId(slot.unwrap_or(known) as u32))
    }

    /// Ends a manager: its list is dropped and its blocks have no owner any more; they stay until they
    /// are the least recently used ones.
    pub fn remove_manager(&mut self, manager: ManagerId) {
        self.cancel(manager);
        let m = &mut self.managers[manager.0 as usize];
        m.alive = false;
        m.pools = None;
    }

    /// A process of the manager. At [`crate::Limits::processes`] the record of one that has ended is used
    /// again, its counts forgotten; if none has, the newcomer shares the record of its manager's last one.
    pub fn add_process(&mut self, manager: ManagerId) -> ProcessId {
        let process = Process { manager, alive: true, counters: Counters::default() };
        let m = &mut self.managers[manager.0 as usize];
        m.processes += 1;
        if self.processes.len() >= self.config.limits.processes.clamp(1, NUMBERS) as usize {
            if let Some(ended) = self.processes.iter().position(|p| !p.alive) {
                self.processes[ended] = process;
                return ProcessId(ended as u32);
            }
            // The shared record must not end with the first of those who share it.
            m.persistent = true;
            let shared = self.processes.iter().rposition(|p| p.manager == manager);
            let shared = shared.unwrap_or(self.processes.len() - 1) as u32;
            return ProcessId(shared);
        }
        self.processes.push(process);
        let id = ProcessId(self.processes.len() as u32 - 1);
        if m.last_process == NOBODY {
            m.last_process = id;
        }
        id
    }

    /// Gives back the memory of tables in which nothing is left, as after the last file has been removed.
    /// Tables keep their size otherwise: what was needed once will be again.
    pub fn release_memory(&mut self) {
        self.blocks.release_memory();
        self.disclosures.release_memory();
        self.global.release_memory();
        if self.actions.is_empty() {
            self.actions = VecDeque::new();
        }
        if self.deadlines.is_empty() {
            self.deadlines = VecDeque::new();
        }
    }

    // ---- events ----

    /// Takes an event in. Drain [`Engine::poll_action`] afterwards.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Accessed { process, block, stalled } => {
                self.reference(now, process, block, stalled);
            }
            Event::Loaded { block, by } => self.loaded(now, block, by),
            Event::FetchFailed { block } => {
                if let Some(b) = self.blocks.find(block) {
                    self.fetch_failed(now, b);
                }
            }
            Event::Gone { block } => {
                if let Some(b) = self.blocks.find(block) {
                    self.gone(now, b, |c| c.foreign_evictions += 1);
                }
            }
            Event::TakenAlong { block } => {
                if let Some(b) = self.blocks.find(block) {
                    self.gone(now, b, |c| c.evictions += 1);
                }
            }
            Event::EvictRefused { block } => {
                if let Some(b) = self.blocks.find(block) {
                    self.evict_refused(b);
                }
            }
            Event::ProcessExited { process } => self.process_exited(process),
            Event::Served { disk, access } => {
                if let Some(times) = self.access_times.get_mut(disk.0 as usize) {
                    times.push(access.0);
                }
            }
            Event::Computed { process, compute } => {
                let manager = self.processes[process.0 as usize].manager;
                self.managers[manager.0 as usize].compute_times.push(compute.0);
            }
            Event::Cancelled { manager } => self.cancel(manager),
        }
    }

    /// The same as [`Engine::handle`] with [`Event::Accessed`], and says how the block was found.
    pub fn access(&mut self, now: Nanos, process: ProcessId, block: Block) -> Access {
        self.reference(now, process, block, false)
    }

    /// The next action, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Engine::handle_timeout`], if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.deadlines.front().map(|d| d.0)
    }

    /// Gives up the prefetches whose time has come.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(&(deadline, b, number)) = self.deadlines.front() {
            let current = self.fetch_number(b) == Some(number);
            if current && deadline > now {
                break;
            }
            self.deadlines.pop_front();
            if current {
                self.fetch_failed(now, b);
            }
        }
    }

    fn reference(&mut self, now: Nanos, process: ProcessId, block: Block, stalled: bool) -> Access {
        let Some(b) = self.blocks.find_or_add(block) else { return Access::Miss };
        let manager = self.processes[process.0 as usize].manager;
        self.managers[manager.0 as usize].last_process = process;
        if self.config.residency == Residency::Advisory || self.blocks[b].state == State::Cached {
            self.match_list(manager, b);
        } else {
            self.waiting.push((b, manager));
        }
        let access = match self.blocks[b].state {
            State::Cached => self.reference_cached(manager, b, stalled),
            State::InFlight => self.reference_in_flight(b),
            State::Leaving => Access::Hit,
            State::Awaited => Access::InFlight,
            State::Absent => self.reference_absent(process, b),
        };
        self.count(process, block.file, |c| {
            c.references += 1;
            c.hits += u64::from(access == Access::Hit);
        });
        self.observe(manager, b);
        self.plan(now, manager, Trigger::Reference(block));
        access
    }

    fn reference_cached(&mut self, manager: ManagerId, b: BlockId, stalled: bool) -> Access {
        let record = &mut self.blocks[b];
        record.set(Mark::Referenced, true);
        let demanded = record.take(Mark::Demanded);
        let prefetched = record.take(Mark::Prefetched);
        let (charged_to, file) = (record.charged_to(), record.block.file);
        record.set(Mark::Unfetchable, false);
        let place = record.global_place;
        let place = self.global.touch(place, |m, p| self.blocks[m].global_place = p);
        self.blocks[b].global_place = place;
        if self.blocks[b].placeholder != NONE {
            self.placeholders.delete_all_to(&mut self.blocks, b);
        }
        self.adopt(b, manager);
        self.settle(b);
        match (prefetched, stalled) {
            (true, true) => {
                self.count(charged_to, file, |c| c.prefetches_late += 1);
                Access::InFlight
            }
            (true, false) => {
                self.count(charged_to, file, |c| c.prefetches_useful += 1);
                Access::Hit
            }
            // The kernel loaded it for this very reference, or ahead of it on the process's behalf.
            (false, _) if demanded => Access::Miss,
            (false, _) => Access::Hit,
        }
    }

    fn reference_in_flight(&mut self, b: BlockId) -> Access {
        let record = &mut self.blocks[b];
        record.set(Mark::Referenced, true);
        let (charged_to, file) = (record.charged_to(), record.block.file);
        if record.take(Mark::Prefetched) {
            self.count(charged_to, file, |c| c.prefetches_late += 1);
        }
        if self.config.residency == Residency::Advisory {
            // The reference was made with the data there: the fetch has completed.
            self.arrive(b);
            self.resume(b);
        }
        Access::InFlight
    }

    fn reference_absent(&mut self, process: ProcessId, b: BlockId) -> Access {
        let file = self.blocks[b].block.file;
        self.count(process, file, |c| c.demand_fetches += 1);
        self.blocks[b].set(Mark::Referenced, true);
        match self.config.residency {
            Residency::Advisory => {
                self.make_room(b);
                self.occupy(b, State::Cached, Some(self.processes[process.0 as usize].manager), process);
                self.settle(b);
            }
            Residency::Exact => self.demand(b, process),
        }
        Access::Miss
    }

    fn process_exited(&mut self, process: ProcessId) {
        let Some(p) = self.processes.get_mut(process.0 as usize).filter(|p| p.alive) else { return };
        p.alive = false;
        let manager = p.manager;
        let m = &mut self.managers[manager.0 as usize];
        m.processes -= 1;
        if m.processes == 0 && !m.persistent {
            self.remove_manager(manager);
        }
    }

    // ---- getters ----

    /// Is the block in the cache (not: on its way)?
    #[must_use]
    pub fn is_cached(&self, block: Block) -> bool {
        self.blocks.find(block).is_some_and(|b| self.blocks[b].state == State::Cached)
    }

    /// Blocks in the cache or on their way.
    #[must_use]
    pub fn used_blocks(&self) -> u32 {
        self.used_blocks
    }

    /// Placeholders in use.
    #[must_use]
    pub fn placeholders(&self) -> u32 {
        self.placeholders.len()
    }

    /// Blocks that a manager owns at present.
    #[must_use]
    pub fn owned_blocks(&self, manager: ManagerId) -> u32 {
        self.managers.get(manager.0 as usize).filter(|m| m.alive).map_or(0, |m| m.owned)
    }

    /// Is the manager's control revoked?
    #[must_use]
    pub fn is_revoked(&self, manager: ManagerId) -> bool {
        self.managers.get(manager.0 as usize).is_some_and(|m| m.standing.is_revoked())
    }

    /// Counts in all.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.totals
    }

    /// Counts of one process.
    #[must_use]
    pub fn process_counters(&self, process: ProcessId) -> Counters {
        self.processes.get(process.0 as usize).map_or(Counters::default(), |p| p.counters)
    }

    /// Counts of one file.
    #[must_use]
    pub fn file_counters(&self, file: FileId) -> Counters {
        self.files.get(file.0 as usize).copied().unwrap_or_default()
    }

    /// What a manager's decisions were worth.
    #[must_use]
    pub fn manager_counters(&self, manager: ManagerId) -> ManagerCounters {
        self.managers.get(manager.0 as usize).map_or(ManagerCounters::default(), |m| m.counters)
    }

    #[inline]
    pub(crate) fn count(&mut self, process: ProcessId, file: FileId, add: impl Fn(&mut Counters)) {
        add(&mut self.totals);
        if let Some(process) = self.processes.get_mut(process.0 as usize) {
            add(&mut process.counters);
        }
        add(&mut self.files[file.0 as usize]);
    }
}
