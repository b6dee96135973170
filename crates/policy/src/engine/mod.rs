//! The engine: every input goes through [`Engine::tell`], which has the books take it in and then asks the planner
//! whether there is now something to fetch.

mod short_forms;

use crate::action::{Access, Action};
use crate::books::{Books, Desk, Load};
use crate::config::{Beside, Config};
use crate::counterfactual::{Counterfactual, Guard, Machine, Met};
use crate::counters::{Counters, ManagerCounters};
use crate::ids::{Block, FileId, ManagerId, Nanos, ProcessId};
use crate::input::{Answer, Input, LimitReached};
use crate::planner::{self, Occasion, Planner};
use crate::pool_policy::PoolPolicy;
use crate::shadow::ShadowReport;

/// What withdrawn lists and removed files leave in the tables: positions and blocks that are taken out with each input,
/// and when time passes.
const TIDIED_WITH_EACH: usize = 8;
const TIDIED_AT_A_TIME: usize = 2048;

/// Sees every input before the policy does, to log it; see [`Engine::set_tap`].
pub trait Tap: Send {
    /// An input comes in at `now`.
    fn input(&mut self, now: Nanos, input: &Input<'_>);

    /// An action goes out.
    fn action(&mut self, action: &Action);
}

/// The policy. See the crate's documentation.
///
/// ```
/// use foretell_policy::{Access, Action, Block, Config, Engine, Input, Layout, Nanos, Reason};
///
/// let mut engine = Engine::new(Config::new(2));
/// let manager = engine.add_manager(false).unwrap();
/// let process = engine.add_process(manager);
/// let file = engine.add_file(Layout::Unknown).unwrap();
/// let a = Block::new(file, 0);
///
/// assert_eq!(engine.access(Nanos(0), process, a), Access::Miss);
/// assert_eq!(engine.poll_action(), Some(Action::Fetch { block: a, reason: Reason::Demand, manager }));
/// engine.tell(Nanos(9), Input::Loaded { block: a, by: None });
/// assert_eq!(engine.access(Nanos(10), process, a), Access::Hit);
/// ```
pub struct Engine {
    books: Books,
    planner: Box<dyn Planner>,
    /// The plain kernel's machine.
    beside: Option<Box<Machine>>,
    /// Who compares us with it.
    guard: Option<Box<Guard>>,
    tap: Option<Box<dyn Tap>>,
    /// The time of the last input: that of inputs that have none of their own.
    last: Nanos,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("books", &self.books)
            .field("planner", &self.planner)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// A policy with an empty cache.
    #[must_use]
    pub fn new(config: Config) -> Engine {
        let planner = planner::planner(config.prefetch, &config);
        let beside = (config.beside != Beside::Nothing).then(|| Box::new(Machine::new(&config)));
        let guard = (config.beside == Beside::Guard).then(|| Box::new(Guard::new()));
        let mut books = Books::new(config);
        if let Some(guard) = &guard {
            books.set_affordable(guard.affordable());
        }
        Engine { books, planner, beside, guard, tap: None, last: Nanos(0) }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.books.config()
    }

    /// Shows every input and every action from now on to `tap`, which can log them. The policy does not depend on
    /// it.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) {
        self.tap = tap;
    }

    /// Takes an input in. Drain [`Engine::poll_action`] afterwards.
    ///
    /// Any sequence of inputs is survived: what is impossible (a process that was never added, a block that leaves
    /// twice) is ignored, or believed and the books corrected.
    pub fn tell(&mut self, now: Nanos, input: Input<'_>) -> Answer {
        self.last = now;
        if let Some(tap) = &mut self.tap {
            tap.input(now, &input);
        }
        if self.books.is_untidy() {
            self.books.tidy(TIDIED_WITH_EACH);
        }
        if self.beside.is_some() {
            self.tell_beside(now, &input);
        }
        match input {
            Input::Accessed { process, block, stalled } => {
                return Answer::Access(self.reference(now, process, block, stalled));
            }
            Input::Loaded { block, by } => self.loaded(now, block, by),
            Input::FetchFailed { block } => {
                if let Some(b) = self.books.find(block)
                    && let Some(manager) = self.books.fail(b)
                {
                    self.plan(now, manager, Occasion::Opportunity);
                }
            }
            Input::Gone { block } => self.gone(now, block, |c| c.foreign_evictions += 1),
            Input::TakenAlong { block } => self.gone(now, block, |c| c.evictions += 1),
            Input::EvictRefused { block } => {
                if let Some(b) = self.books.find(block) {
                    self.books.keep_refused(b);
                }
            }
            Input::ProcessExited { process } => {
                if let Some(manager) = self.books.end_process(process) {
                    self.note(now, &Input::ManagerRemoved { manager });
                }
            }
            Input::Served { .. }
            | Input::DiskBatch { .. }
            | Input::DiskArm { .. }
            | Input::Computed { .. }
            | Input::Scheduled { .. } => self.note(now, &input),
            Input::TimePassed => {
                self.books.tidy(TIDIED_AT_A_TIME);
                self.time_passed(now);
            }
            Input::FileAdded { layout } => {
                return answer(self.books.add_file(layout.clone()).map(Answer::File));
            }
            Input::FileLength { file, length_blocks } => self.books.set_file_length(file, length_blocks),
            Input::FileRemoved { file } => self.books.remove_file(file),
            Input::FetchesAllowed { file } => self.books.allow_fetches(file),
            Input::ManagerAdded { persistent } => {
                let added = self.books.add_manager(persistent);
                if let (Some(guard), Ok(manager)) = (&mut self.guard, added)
                    && guard.open(manager)
                {
                    self.suspend_as_guarded();
                }
                return answer(added.map(Answer::Manager));
            }
            Input::ManagerRemoved { manager } => {
                self.books.remove_manager(manager);
                self.note(now, &input);
            }
            Input::ProcessAdded { manager } => return Answer::Process(self.books.add_process(manager)),
            // Told to the machine beside.
            Input::OneProcess { .. } => {}
            Input::CacheSize { cache_blocks } => self.books.resize(cache_blocks),
            Input::MemoryReleased => self.books.release_memory(),
            Input::Disclosed { manager, .. } if !self.books.knows_manager(manager) => {
                return Answer::Taken(0);
            }
            Input::Disclosed { manager, list, blocks } => {
                let taken = self.books.disclose(manager, list, blocks);
                // Lists that were withdrawn may have taken the suspension with them.
                if self.is_suspended(manager) {
                    self.books.suspend(manager, true);
                }
                self.plan(now, manager, Occasion::Opportunity);
                return Answer::Taken(taken);
            }
            Input::ReaderAssigned { process, list } => self.books.assign_reader(process, list),
            Input::ListsOpen { manager, open } if self.books.knows_manager(manager) => {
                self.note(now, &input);
                if !open {
                    self.plan(now, manager, Occasion::Opportunity);
                }
            }
            Input::ListsOpen { .. } => {}
            Input::Cancelled { manager } => {
                self.books.cancel(manager);
                self.note(now, &input);
            }
            Input::Priority { manager, file, priority } => {
                return answer(self.books.set_priority(manager, file, priority).map(|()| Answer::None));
            }
            Input::Policy { manager, priority, policy } => {
                return answer(self.books.set_policy(manager, priority, policy).map(|()| Answer::None));
            }
            Input::TemporaryPriority { manager, file, first, last, priority } => {
                let done = self.books.set_temporary_priority(manager, file, first, last, priority);
                return answer(done.map(|()| Answer::None));
            }
            Input::Flushed { manager, file, first, last } => {
                return Answer::Flushed(self.books.flush(manager, file, first, last));
            }
        }
        Answer::None
    }

    /// The next action, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.books.poll_action()?;
        if let Some(tap) = &mut self.tap {
            tap.action(&action);
        }
        Some(action)
    }

    /// When to tell [`Input::TimePassed`], if nothing happens before: at once where a long list was withdrawn or a large
    /// file removed, which leave the tables by and by.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.books.is_untidy() { Some(self.last) } else { self.books.next_deadline() }
    }

    /// Does a reference wait, as all frames have fetches under way?
    #[must_use]
    pub fn waits_for_frame(&self) -> bool {
        self.books.waits_for_frame()
    }

    // ---- what inputs do ----

    fn reference(&mut self, now: Nanos, process: ProcessId, block: Block, stalled: bool) -> Access {
        let Some(manager) = self.books.manager_of(process) else { return Access::Miss };
        let Some(b) = self.books.find_or_add(block) else { return Access::Miss };
        if self.books.is_missing(b) {
            self.planner.before_demand(&mut Desk::new(&mut self.books, now), manager, b);
        }
        let access = self.books.reference(process, manager, b, stalled);
        self.books.hold_more(manager);
        if let Some(guard) = &mut self.guard {
            guard.accessed(process, self.books.was_predicted(), self.books.take_passed_over());
        }
        self.plan(now, manager, Occasion::Reference(block));
        access
    }

    fn loaded(&mut self, now: Nanos, block: Block, by: Option<ProcessId>) {
        let Some(b) = self.books.find_or_add(block) else { return };
        if let Load::Completed(manager) = self.books.load(b, by) {
            // The disk is free at this very instant, before a process that waited goes on.
            self.plan(now, manager, Occasion::Opportunity);
            if self.books.resume(b) {
                self.plan(now, manager, Occasion::Opportunity);
            }
            self.books.serve_awaited();
            self.books.shed();
        }
    }

    fn gone(&mut self, now: Nanos, block: Block, add: impl Fn(&mut Counters)) {
        if let Some(b) = self.books.find(block)
            && let Some(owner) = self.books.lose(b, add)
        {
            self.plan(now, owner, Occasion::Opportunity);
        }
    }

    /// Gives up the prefetches whose time has come.
    fn time_passed(&mut self, now: Nanos) {
        while let Some(b) = self.books.overdue(now) {
            if let Some(manager) = self.books.fail(b) {
                self.plan(now, manager, Occasion::Opportunity);
            }
        }
    }

    /// Asks the planner what to fetch for `manager` now.
    #[inline]
    fn plan(&mut self, now: Nanos, manager: ManagerId, occasion: Occasion) {
        self.planner.plan(&mut Desk::new(&mut self.books, now), manager, occasion);
        self.books.hand_over_batch(manager);
    }

    fn note(&mut self, now: Nanos, input: &Input<'_>) {
        self.planner.note(&mut Desk::new(&mut self.books, now), input);
    }

    /// The machine beside is told what concerns it, and the guard what it has come to.
    fn tell_beside(&mut self, now: Nanos, input: &Input<'_>) {
        let Some(machine) = &mut self.beside else { return };
        let books = &self.books;
        let place = |block| books.place(block);
        let mut changes = false;
        match *input {
            Input::Accessed { process, block, .. } => {
                let process = machine.known_as(process);
                let Some(manager) = books.manager_of_living(process) else { return };
                if let Some(guard) = &mut self.guard {
                    changes = guard.enter(process, manager);
                }
                let met = match &self.guard {
                    Some(guard) if guard.all_suspended() => books.met(block),
                    _ => Met::Steered,
                };
                machine.reference(now, process, block, met, place);
            }
            Input::ProcessExited { process } => machine.exited(process, place),
            Input::Loaded { block, by: None } => {
                if let Some(place) = books.place(block) {
                    machine.loaded(place);
                }
                return;
            }
            Input::Served { disk, access } => return machine.served(now, disk, access),
            Input::Computed { process, compute } => {
                let process = machine.known_as(process);
                if books.manager_of_living(process).is_some() {
                    machine.computed(process, compute);
                }
                return;
            }
            Input::CacheSize { cache_blocks } => return machine.resize(cache_blocks),
            Input::OneProcess { process, first } => return machine.one_process(process, first),
            _ => return,
        }
        let Some(guard) = &mut self.guard else {
            machine.take_followed();
            return;
        };
        for followed in machine.take_followed() {
            changes |= guard.followed(&followed);
        }
        self.books.set_affordable(guard.affordable());
        if let Input::ProcessExited { process } = *input {
            changes |= guard.exited(process);
        }
        if changes {
            self.suspend_as_guarded();
        }
    }

    /// Suspends whom the guard says, and no others.
    fn suspend_as_guarded(&mut self) {
        while let Some(guard) = &mut self.guard
            && let Some((manager, suspended)) = guard.change()
        {
            self.books.suspend(manager, suspended);
        }
    }

    // ---- what can be asked ----

    /// What the plain kernel would have done with the references so far; `None` where [`Beside::Nothing`] was
    /// configured.
    #[must_use]
    pub fn counterfactual(&self) -> Option<Counterfactual> {
        self.beside.as_ref().map(|machine| machine.report())
    }

    /// Has the manager lost so much by its lists that it is treated as the plain kernel treats it? Never without
    /// [`Beside::Guard`].
    #[must_use]
    pub fn is_suspended(&self, manager: ManagerId) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_suspended(manager))
    }

    /// The share of what the manager's processes reference for the first time that its lists name, whatever their order, of
    /// the last hundred runs of blocks; `None` as long as there were few, and where the planner does not ask.
    #[must_use]
    pub fn known_share(&self, manager: ManagerId) -> Option<f64> {
        self.planner.known_share(manager)
    }

    /// Is the block in the cache (not: on its way)?
    #[must_use]
    pub fn is_cached(&self, block: Block) -> bool {
        self.books.is_cached(block)
    }

    /// Where a part of a range of blocks ends in which no more than `most` blocks are known of: the last block of it. A
    /// plane gives a directive over a long range part by part, so that nothing else has to wait for all of it.
    #[must_use]
    pub fn part_end(&self, file: FileId, first: u32, last: u32, most: usize) -> u32 {
        self.books.part_end(file, first, last, most)
    }

    /// Blocks in the cache or on their way.
    #[must_use]
    pub fn used_blocks(&self) -> u32 {
        self.books.used_blocks()
    }

    /// So many blocks will be known at a time, most likely: the largest table has room for them from the beginning, and
    /// nobody waits while it grows. It takes addresses, and memory as it is filled.
    pub fn expect(&mut self, blocks: usize) {
        self.books.expect(blocks);
    }

    /// Placeholders in use.
    #[must_use]
    pub fn placeholders(&self) -> u32 {
        self.books.placeholder_count()
    }

    /// References of the manager's list that lie ahead of its cursor.
    #[must_use]
    pub fn disclosed_ahead(&self, manager: ManagerId) -> usize {
        self.books.disclosed_ahead(manager)
    }

    /// The same of one of its lists.
    #[must_use]
    pub fn list_ahead(&self, manager: ManagerId, list: u32) -> usize {
        self.books.list_ahead(manager, list)
    }

    /// Positions of withdrawn lists that are still in the tables.
    #[must_use]
    pub fn withdrawn_positions(&self) -> usize {
        self.books.withdrawn_positions()
    }

    /// Blocks that a manager owns at present.
    #[must_use]
    pub fn owned_blocks(&self, manager: ManagerId) -> u32 {
        self.books.owned_blocks(manager)
    }

    /// Is the manager's control revoked?
    #[must_use]
    pub fn is_revoked(&self, manager: ManagerId) -> bool {
        self.books.is_revoked(manager)
    }

    /// The long-term priority of a file.
    #[must_use]
    pub fn priority(&self, manager: ManagerId, file: FileId) -> i32 {
        self.books.priority(manager, file)
    }

    /// The replacement policy of a priority level.
    #[must_use]
    pub fn policy(&self, manager: ManagerId, priority: i32) -> PoolPolicy {
        self.books.policy(manager, priority)
    }

    /// How policies compare on the references of a level, and which one it follows; `None` unless its policy
    /// is [`PoolPolicy::Adaptive`].
    #[must_use]
    pub fn shadow_report(&self, manager: ManagerId, priority: i32) -> Option<ShadowReport> {
        self.books.shadow_report(manager, priority)
    }

    /// Counts in all.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.books.totals()
    }

    /// Counts of one process.
    #[must_use]
    pub fn process_counters(&self, process: ProcessId) -> Counters {
        self.books.process_counters(process)
    }

    /// Counts of one file.
    #[must_use]
    pub fn file_counters(&self, file: FileId) -> Counters {
        self.books.file_counters(file)
    }

    /// What a manager's decisions were worth.
    #[must_use]
    pub fn manager_counters(&self, manager: ManagerId) -> ManagerCounters {
        self.books.manager_counters(manager)
    }
}

fn answer(result: Result<Answer, LimitReached>) -> Answer {
    result.unwrap_or_else(Answer::Refused)
}
