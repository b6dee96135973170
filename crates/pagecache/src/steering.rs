//! Steering: observations become the policy's events.
//!
//! The kernel reports pages and folios, the policy thinks in blocks. A block counts as loaded when the
//! first of its pages arrives and as gone when none of them is left. Blocks that we prefetch are loaded when
//! their data is there, which their worker thread sees, not when their empty pages are added.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

use foretell_policy::{Block, Config, Engine, FileId, Input, Limits, ManagerId, Nanos, Prefetch, ProcessId};

use crate::advice::ReadaheadOff;
use crate::descriptors;
use crate::disks::DISKS;
use crate::eviction::{self, Waiting};
use crate::fetching::Fetch;
use crate::files::{FileTable, ManagedFile};
use crate::folios::Folio;
use crate::kernel;
use crate::ledger::Ledger;
use crate::left_out::{LeftOuts, UNDER_ANOTHERS_RULE};
use crate::looks::Looks;
use crate::mapped::InLanes;
use crate::observe::{FileKey, Observation};
use crate::options::{Options, SessionId};
use crate::orphans::ORPHAN_SHARE;
use crate::pressure::Pressure;
use crate::put_off::{self, PutOff};
use crate::recorder::History;
use crate::returning::Returning;
use crate::sessions::{SESSIONS, Sessions};
use crate::streams::{Run, Streams};
use crate::unfound::Unfound;
use crate::workers::{Eviction, Workers};

/// Threads whose last wait is remembered.
const WAITERS: usize = 256;
/// Managers of the policy: those of all sessions, and of ended ones that still own blocks.
const POLICY_MANAGERS: u32 = 2 * SESSIONS as u32;
/// A prefetch without an answer for so long is given up. A full lane ([`crate::fetching::PREFETCH_QUEUE_BLOCKS`]) of
/// scattered blocks on a slow disk takes 40 s.
const FETCH_TIMEOUT: Nanos = Nanos(60_000_000_000);

/// What the observer is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Manage(FileKey),
    Ignore(FileKey),
    Forget(FileKey),
}

/// The state of the plane, apart from the observer.
pub(crate) struct Steering {
    pub(crate) options: Options,
    pub(crate) engine: Engine,
    pub(crate) workers: Workers,
    pub(crate) files: FileTable,
    pub(crate) sessions: Sessions,
    pub(crate) ledger: Ledger,
    pub(crate) readahead_off: ReadaheadOff,
    pub(crate) commands: Vec<Command>,
    pub(crate) history: Option<History>,
    /// log2 of the pages of a block.
    pub(crate) block_order: u32,
    streams: Streams,
    /// Thread that has just slept for a page, by the thread's number.
    waited: Vec<u32>,
    pub(crate) ignored: HashSet<FileKey>,
    pub(crate) ignored_order: VecDeque<FileKey>,
    pub(crate) unfound: Unfound,
    pub(crate) left_out: LeftOuts,
    /// Files seen for the first time in this round.
    pub(crate) settling: Vec<FileId>,
    /// Files that somebody has let go of, and of which it was not looked yet whether that was the last.
    pub(crate) let_go_of: BTreeSet<FileId>,
    /// Files of which it is being looked up what is cached.
    pub(crate) looks: Looks,
    /// How much of the loop's time each user's doing has taken since that was asked last.
    pub(crate) spent: BTreeMap<u32, Duration>,
    /// Blocks that are being prefetched.
    pub(crate) in_flight: HashSet<Block>,
    /// Blocks of a folio that has just been added, of which the policy has not been told yet.
    pub(crate) arriving: Option<(FileId, Range<u32>)>,
    /// To be prefetched when their eviction has been tried.
    pub(crate) deferred: Vec<(Block, ManagerId)>,
    pub(crate) fetches: Vec<Fetch>,
    /// Prefetches that were given up, of which the policy is told by and by: each is still on its way for it.
    pub(crate) given_up: BTreeSet<Block>,
    /// Disks with an arm, as the policy knows them, and whether they move more than they read.
    pub(crate) arms: BTreeMap<foretell_policy::DiskId, bool>,
    /// Blocks that each reads while its arm moves, as the policy knows them.
    pub(crate) reaches: Vec<u32>,
    pub(crate) waiting: Waiting,
    /// Folios that can go, by file.
    pub(crate) ready: BTreeMap<FileId, Vec<Folio>>,
    /// Evictions for which the queue had no room.
    pub(crate) backlog: VecDeque<Eviction>,
    /// The same of files that processes have mapped: another thread does those.
    pub(crate) mapped_backlog: VecDeque<Eviction>,
    pub(crate) in_lanes: InLanes,
    /// Evictions to be tried a second time, and when.
    pub(crate) retries: Vec<Eviction>,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) put_off: PutOff,
    /// Folios that stay, of which the policy is told by and by.
    pub(crate) returning: Returning,
    /// When each process referenced something last, by [`ProcessId`]; only kept for forestall.
    referenced_at: Vec<Nanos>,
    /// The manager whose queue was appended to last.
    pub(crate) last_appended: (SessionId, usize),
    pub(crate) last_appended_user: u32,
    /// The budget, if it follows the memory.
    pressure: Option<Pressure>,
    /// Something was asked from outside that the next round of the loop must not sleep before.
    pub(crate) stirred: bool,
    /// A thread was looking at the queue of prefetches when something was to be done to it. No thread tells when it has done.
    pub(crate) queue_is_busy: bool,
    /// When something was observed last.
    pub(crate) observed_at: Instant,
    /// When the policy last asked for something.
    pub(crate) acted_at: Instant,
    /// See [`crate::orphans`].
    pub(crate) orphan_limit: usize,
    start: Instant,
    own_pid: u32,
}

impl Steering {
    pub(crate) fn new(options: Options, workers: Workers, readahead_off: ReadaheadOff) -> Steering {
        let block_bytes = u64::from(options.block_bytes);
        // Checked when the plane was opened.
        let cache_blocks = u32::try_from(options.budget_bytes / block_bytes).unwrap_or(u32::MAX);
        let config = Config {
            residency: foretell_policy::Residency::Advisory,
            allocation: options.allocation,
            prefetch: options.prefetch,
            batch: options.batch,
            horizon: options.horizon,
            order: options.order,
            disks: DISKS,
            revocation: options.revocation,
            fetch_timeout: Some(FETCH_TIMEOUT),
            limits: Limits {
                managers: POLICY_MANAGERS,
                disclosed_blocks: options.list_blocks,
                ..Limits::default()
            },
            ..Config::new(cache_blocks)
        };
        let block_order = (block_bytes / kernel::page_bytes()).ilog2();
        let mut engine = Engine::new(config);
        if options.list_blocks_in_all < u32::MAX {
            // Several share the loop: nobody is to wait until the table of what another one has named has grown.
            engine.expect(cache_blocks as usize + options.list_blocks_in_all as usize);
        }
        Steering {
            engine,
            workers,
            files: FileTable::new(descriptors::limit(), options.movement_ns),
            sessions: Sessions::default(),
            ledger: Ledger::new(!options.list_ended),
            readahead_off,
            commands: Vec::new(),
            history: options.compare_with_optimum.then(History::default),
            block_order,
            streams: Streams::new(),
            waited: vec![0; WAITERS],
            ignored: HashSet::new(),
            ignored_order: VecDeque::new(),
            unfound: Unfound::default(),
            left_out: LeftOuts::default(),
            settling: Vec::new(),
            let_go_of: BTreeSet::new(),
            looks: Looks::default(),
            spent: BTreeMap::new(),
            in_flight: HashSet::new(),
            arriving: None,
            deferred: Vec::new(),
            fetches: Vec::new(),
            given_up: BTreeSet::new(),
            arms: BTreeMap::new(),
            reaches: Vec::new(),
            waiting: Waiting::new(eviction::limit_pages(cache_blocks, 1 << block_order)),
            ready: BTreeMap::new(),
            backlog: VecDeque::new(),
            mapped_backlog: VecDeque::new(),
            in_lanes: InLanes::default(),
            retries: Vec::new(),
            retry_at: None,
            returning: Returning::default(),
            put_off: PutOff::new(put_off::limit_pages(cache_blocks, 1 << block_order)),
            referenced_at: Vec::new(),
            last_appended: (SessionId(0), 0),
            last_appended_user: 0,
            pressure: options.follow_pressure.then(|| Pressure::new(cache_blocks, Instant::now())),
            stirred: false,
            queue_is_busy: false,
            observed_at: Instant::now(),
            acted_at: Instant::now(),
            orphan_limit: (options.files / ORPHAN_SHARE) as usize,
            start: Instant::now(),
            own_pid: std::process::id(),
            options,
        }
    }

    /// Gives the policy as many blocks as there is memory for.
    pub(crate) fn follow_pressure(&mut self) {
        let (used, counters) = (self.engine.used_blocks(), self.engine.counters());
        let fetched = counters.prefetches + counters.demand_fetches;
        let Some(pressure) = &mut self.pressure else { return };
        if let Some(cache_blocks) = pressure.tend(used, fetched, Instant::now()) {
            self.put_off.set_limit(put_off::limit_pages(cache_blocks, 1 << self.block_order));
            self.waiting.set_limit(eviction::limit_pages(cache_blocks, 1 << self.block_order));
            self.tell(Input::CacheSize { cache_blocks });
        }
    }

    /// The policy's time.
    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Hands an input to the policy and does what it asks for in return.
    pub(crate) fn tell(&mut self, input: Input<'_>) {
        let now = self.now();
        self.engine.tell(now, input);
        self.act();
    }

    /// The pages of a block.
    pub(crate) fn pages(&self, index: u32) -> Range<u64> {
        let first = u64::from(index) << self.block_order;
        first..first + (1 << self.block_order)
    }

    /// The blocks that overlap a range of pages; those beyond 2^32 are not managed.
    pub(crate) fn blocks(&self, pages: &Range<u64>) -> Range<u32> {
        let end = if pages.is_empty() { 0 } else { ((pages.end - 1) >> self.block_order) + 1 };
        let cut = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        cut(pages.start >> self.block_order)..cut(end)
    }

    /// Takes an observation in.
    pub(crate) fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Read { tgid, tid, file, first_page, last_page, generation, .. } => {
                let waited = self.take_wait(tid);
                if let Some(id) = self.sight(tgid, file, generation) {
                    self.read(tgid, tid, id, first_page..=last_page, waited);
                }
            }
            Observation::Fault { tgid, tid, file, page, generation, .. } => {
                let waited = self.take_wait(tid);
                if let Some(id) = self.sight(tgid, file, generation) {
                    self.map(tgid, id);
                    let mapped = self.mapped(id, page..=page);
                    self.read(tgid, tid, id, mapped, waited);
                }
            }
            Observation::MapPages { tgid, tid, file, first_page, last_page, generation, .. } => {
                if let Some(id) = self.sight(tgid, file, generation) {
                    self.map(tgid, id);
                    let mapped = self.mapped(id, first_page..=last_page);
                    self.read(tgid, tid, id, mapped, false);
                }
            }
            Observation::Added { tgid, tid, file, first_page, order, appended, generation, .. } => {
                let known = self.files.find(file);
                if let Some(id) = known.or_else(|| self.sight(tgid, file, generation)) {
                    self.added(tgid, id, first_page, order);
                    if appended {
                        // To write a block is to reference it, as in the papers.
                        let last_page = first_page + (1_u64 << order.min(63)) - 1;
                        self.read(tgid, tid, id, first_page..=last_page, false);
                    }
                }
            }
            Observation::Removed { file, first_page, order, .. } => {
                if let Some(id) = self.files.find(file) {
                    self.removed(id, first_page..first_page + (1_u64 << order.min(63)));
                }
            }
            Observation::Forked { parent, child } => self.forked(parent, child),
            Observation::Exec { tgid, comm } => self.executed(tgid, &comm),
            Observation::Exited { tgid, device_read_bytes, wait_ns } => {
                self.exited(tgid, device_read_bytes, wait_ns);
            }
            Observation::Waited { tid, .. } => self.waited[tid as usize % WAITERS] = tid,
        }
    }

    /// Has the thread slept for a page since its last record?
    fn take_wait(&mut self, tid: u32) -> bool {
        let waited = &mut self.waited[tid as usize % WAITERS];
        *waited == tid && std::mem::take(waited) != 0
    }

    fn map(&mut self, tgid: u32, id: FileId) {
        if let Some(managed) = self.files.get_mut(id) {
            managed.mapped(tgid);
        }
    }

    /// What a fault has mapped that told of these pages.
    fn mapped(&self, id: FileId, told: RangeInclusive<u64>) -> RangeInclusive<u64> {
        let Some(managed) = self.files.get(id).filter(|_| kernel::maps_whole_folios()) else { return told };
        let (first, last) = (*told.start(), *told.end());
        let first = managed.folios.folio(first).map_or(first, |folio| folio.head);
        let last = managed.folios.folio(last).map_or(last, |folio| folio.head + folio.pages - 1);
        first..=last
    }

    /// A thread was handed pages.
    fn read(&mut self, tgid: u32, tid: u32, id: FileId, record: RangeInclusive<u64>, waited: bool) {
        let Some(process) = self.sessions.process(tgid) else { return };
        let (process, manager, user, cast) = (process.id, process.manager_id, process.user, process.cast);
        if !cast {
            self.cast(tgid);
        }
        self.place(id, tgid, manager);
        let block_order = self.block_order;
        let Some(managed) = self.files.get_mut(id) else { return };
        managed.used(user);
        let last = *record.end();
        let Some(run) = self.streams.read(tid, managed.serial, record, waited, &managed.folios) else {
            return;
        };
        let overread = managed.added_up_to.take().is_some_and(|(who, page)| who == tgid && page > last);
        let listed = managed.listed.contains(&manager);
        managed.folios.mark_read(run.pages.clone());
        if listed {
            self.silence_readahead(tgid, id, manager, overread);
        }
        self.reference(process, id, &run, block_order, waited);
    }

    fn reference(&mut self, process: ProcessId, id: FileId, run: &Run, block_order: u32, waited: bool) {
        let blocks = run.blocks(block_order);
        let range =
            u32::try_from(blocks.start).unwrap_or(u32::MAX)..u32::try_from(blocks.end).unwrap_or(u32::MAX);
        // Which of several blocks a thread slept for is not told: one that was on its way, most likely.
        let late = range.clone().find(|&index| self.in_flight.contains(&Block::new(id, index)));
        self.computed(process, range.len(), waited);
        let stalled_at = if waited { late.or(Some(range.start)) } else { None };
        for index in range {
            let block = Block::new(id, index);
            let stalled = stalled_at == Some(index);
            self.before_reference(block, stalled);
            self.record(block);
            self.tell(Input::Accessed { process, block, stalled });
        }
    }

    /// Tells the policy how long a process computed before each of some references, if it wants to know. What
    /// a process that had to wait spent computing is not told apart from the wait, and left out.
    fn computed(&mut self, process: ProcessId, references: usize, waited: bool) {
        if !self.options.prefetch.wants_times() || references == 0 {
            return;
        }
        let (now, slot) = (self.now(), process.0 as usize);
        if self.referenced_at.len() <= slot {
            self.referenced_at.resize(slot + 1, Nanos(0));
        }
        let before = std::mem::replace(&mut self.referenced_at[slot], now);
        if waited || before == Nanos(0) {
            return;
        }
        let compute = Nanos(now.saturating_sub(before).0 / references as u64);
        for _ in 0..references {
            self.engine.tell(now, Input::Computed { process, compute });
        }
    }

    /// Brings the policy's view of a block up to date before it hears of a reference to it.
    fn before_reference(&mut self, block: Block, stalled: bool) {
        let pages = self.pages(block.index);
        let Some(managed) = self.files.get_mut(block.file) else { return };
        if self.waiting.cancel(block.file.0, &mut managed.folios, pages.clone()) {
            self.tell(Input::EvictRefused { block });
        } else if self.in_flight.contains(&block) {
            // It was there in time, only its worker has not told us yet.
            if !stalled && self.in_flight.remove(&block) {
                self.tell(Input::Loaded { block, by: None });
            }
        } else if self.settling.contains(&block.file)
            && !self.engine.is_cached(block)
            && self.files.get(block.file).is_some_and(|m| m.folios.any_cached(pages.clone()))
        {
            // Cached since before the file was seen.
            self.tell(Input::Loaded { block, by: None });
        } else if self.looks.is_pending(block.file) && !self.engine.is_cached(block) {
            // Nobody was seen to load it: the same, and not looked at yet.
            if let Some(managed) = self.files.get_mut(block.file) {
                let unknown = pages.filter(|&page| !managed.folios.is_cached(page)).collect::<Vec<u64>>();
                unknown.into_iter().for_each(|page| managed.folios.add_guessed(page));
            }
            self.tell(Input::Loaded { block, by: None });
        }
    }

    fn record(&mut self, block: Block) {
        let Some(managed) = self.files.get(block.file) else { return };
        if let Some(history) = &mut self.history {
            history.push(managed.serial, block.index);
        }
    }

    /// Tells the policy what a manager's rules say about a file, the first time it uses it.
    fn place(&mut self, id: FileId, tgid: u32, manager: ManagerId) {
        let Some(managed) = self.files.get_mut(id) else { return };
        if managed.placed.contains(&manager) {
            return;
        }
        let Some(process) = self.sessions.process(tgid) else { return };
        let rules = self.sessions.manager(process.session, process.manager).map(|m| &m.rules);
        // A manager without rules has nothing to say, and there may be thousands of them.
        let Some(rules) = rules.filter(|rules| !rules.is_empty()) else { return };
        managed.placed.push(manager);
        if rules.yields(&managed.path) {
            self.left_out.note(process.session, &managed.path, UNDER_ANOTHERS_RULE);
        }
        if let Some(rule) = rules.find(&managed.path) {
            // At the limit of file records, the file has priority 0.
            let _ = self.engine.set_priority(manager, id, rule.priority);
        }
    }

    /// Turns the kernel's readahead off where a list says what will be read.
    fn silence_readahead(&mut self, tgid: u32, id: FileId, manager: ManagerId, overread: bool) {
        if self.options.prefetch == Prefetch::None || self.engine.disclosed_ahead(manager) == 0 {
            return;
        }
        let Some(managed) = self.files.get(id) else { return };
        if managed.listed_runs.are_long(managed.size.div_ceil(u64::from(self.options.block_bytes))) {
            return;
        }
        if overread || !self.readahead_off.covers(tgid, managed.key) {
            let told = managed.told.filter(|(pid, _)| *pid == tgid).map(|(_, number)| number);
            let account = self.sessions.process(tgid).and_then(|process| self.sessions.get(process.session));
            let account = account.map_or(0, |session| session.origin.account);
            let open = (tgid, account, managed.key);
            self.readahead_off.turn_off(open, told, overread, manager);
        }
    }

    /// A folio was added.
    fn added(&mut self, tgid: u32, id: FileId, page: u64, order: u8) {
        let by = self.sessions.process(tgid).map(|process| process.id);
        let pages = page..page.saturating_add(1 << order.min(16));
        let blocks = self.blocks(&pages);
        let ours = |index: u32| self.in_flight.contains(&Block::new(id, index));
        if by.is_none() && self.files.get(id).is_some_and(ManagedFile::is_orphan) && !blocks.clone().any(ours)
        {
            return;
        }
        let Some(managed) = self.files.get_mut(id) else { return };
        // Folios taken for something else before, from what was found cached, make room for the one seen.
        let stale = managed.folios.folios(pages.clone());
        managed.folios.add(page, order);
        let serial = managed.serial;
        if !stale.is_empty() {
            self.count_anew(id, stale);
        }
        let Some(managed) = self.files.get_mut(id) else { return };
        if by.is_some() && !managed.listed.is_empty() {
            let before = managed.added_up_to.filter(|(who, _)| *who == tgid).map_or(0, |(_, page)| page);
            managed.added_up_to = Some((tgid, before.max(pages.end - 1)));
        }
        for index in blocks.clone() {
            self.arriving = Some((id, index..blocks.end));
            let block = Block::new(id, index);
            if self.in_flight.contains(&block) {
                if tgid == self.own_pid {
                    continue;
                }
                // The program was faster than our prefetch: it fetches the block itself.
                self.in_flight.remove(&block);
                if let Some(managed) = self.files.get(id) {
                    self.workers.overtaken(managed.serial, index);
                }
                self.tell(Input::FetchFailed { block });
            }
            // Gone again in a moment; if the program reads it meanwhile, the policy hears of that.
            if tgid == self.own_pid && self.workers.is_in_gap(serial, index) {
                continue;
            }
            let block_pages = self.pages(index);
            if let Some(managed) = self.files.get_mut(id)
                && self.waiting.cancel(id.0, &mut managed.folios, block_pages)
            {
                self.tell(Input::EvictRefused { block });
            }
            self.arriving = Some((id, index + 1..blocks.end));
            if !self.engine.is_cached(block) {
                self.tell(Input::Loaded { block, by });
            }
        }
        self.arriving = None;
    }

    /// Counts anew what is chosen of folios of which something has gone, or was never there.
    fn count_anew(&mut self, id: FileId, folios: Vec<Folio>) {
        let Some(managed) = self.files.get_mut(id) else { return };
        for folio in folios {
            if self.waiting.count(id.0, &mut managed.folios, folio) {
                self.ready.entry(id).or_default().push(folio);
            }
        }
    }

    /// Pages left the cache.
    pub(crate) fn removed(&mut self, id: FileId, pages: Range<u64>) {
        let blocks = self.blocks(&pages);
        let Some(managed) = self.files.get_mut(id) else { return };
        // Ours, if we asked for the folio; then it may hold blocks that the policy wanted to keep.
        let ours = managed.folios.is_issued(pages.start);
        let folios = managed.folios.folios(pages.clone());
        managed.folios.remove(pages);
        self.count_anew(id, folios);
        for index in blocks {
            let pages = self.pages(index);
            if self.files.get(id).is_some_and(|managed| !managed.folios.any_cached(pages)) {
                let block = Block::new(id, index);
                if !ours
                    && self.engine.is_cached(block)
                    && let Some(pressure) = &mut self.pressure
                {
                    pressure.lost(1);
                }
                self.tell(if ours { Input::TakenAlong { block } } else { Input::Gone { block } });
            }
        }
    }
}

#[cfg(test)]
impl Steering {
    /// One that steers nothing: nobody observes.
    pub(crate) fn idle() -> Steering {
        let closer = foretell_door::Closer::start().unwrap();
        let guard = crate::guard::Guard::start().unwrap();
        let cache =
            std::sync::Arc::new(crate::page_cache::Linux) as std::sync::Arc<dyn crate::page_cache::PageCache>;
        let workers = Workers::start(&cache, crate::schedule::Schedule::new(None), 1).unwrap();
        Steering::new(Options::new(1 << 20), workers, ReadaheadOff::start(guard, closer).unwrap())
    }

    /// Is no eviction under way, or to be tried again?
    pub(crate) fn is_at_rest(&self) -> bool {
        let queues = self.ready.is_empty()
            && self.backlog.is_empty()
            && self.retries.is_empty()
            && self.returning.is_empty();
        let issued = |file: &ManagedFile| file.folios.iter().any(|page| file.folios.is_issued(page));
        queues && self.put_off.is_empty() && !self.files.iter().any(|(_, file)| issued(file))
    }

    /// Pages in the books that the policy does not count, and that no eviction waits for.
    pub(crate) fn uncounted(&self) -> Vec<String> {
        let mut uncounted = Vec::new();
        for (id, file) in self.files.iter() {
            for page in file.folios.iter() {
                let block = Block::new(id, self.blocks(&(page..page + 1)).start);
                let waits = || file.folios.folio(page).is_some_and(|folio| self.waiting.waits(id.0, folio));
                if !self.engine.is_cached(block) && !waits() {
                    uncounted.push(format!(
                        "page {page} of {}: {:?}",
                        file.path.display(),
                        file.folios.folio(page)
                    ));
                }
            }
        }
        uncounted
    }
}
