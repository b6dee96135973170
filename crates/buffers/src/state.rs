//! What the pool's lock protects: the engine, the parts in memory, and what waits to be asked for.
//!
//! A part is *ready*, or *pending*: it waits for a frame of the engine's, stands in one of the queues (`queues`), or is
//! under way. What of it is on a disk, says `kept`.

mod beginnings;
mod damaged;
mod kept;
mod listed;
mod queues;
mod silent;
mod untold;

pub(crate) use kept::{Read, Write};

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foretell_policy::{
    Access, Action, Answer, Block, Config, DiskId, Engine, FileId, Input, Layout, ManagerId, Nanos, Order,
    PoolPolicy, ProcessId, belady_fetches,
};

use crate::error::Error;
use crate::flow::Flow;
use crate::listed::Listed;
use crate::memory::{Arena, Buffer, Lanes};
use crate::object::{Fixed, Got, Open, Part, Run, Sequence, Stage, serial};
use crate::options::{
    AHEAD_PART, AHEAD_PART_IN_ORDER, MOST_DISCLOSED, MOST_PARTS, Options, REQUEST_BYTES, ahead_at_most,
};
use crate::readers::{Readers, Reading};
use crate::recorder::Recorder;
use crate::ring::Rings;
use crate::running::Running;
use crate::silent::Silent;
use crate::source::{Source, Stamp};
use crate::statistics::Statistics;
use crate::tier::Tier;
use crate::who::Who;

/// The store is one device to the planner, whatever it is made of.
const STORE: DiskId = DiskId(0);
/// One request in so many may be a second one for a slow one: a store that is slow altogether is not asked for everything
/// twice (Dean and Barroso, "The Tail at Scale", 2013, hedge 5%).
const HEDGES_PART: u64 = 20;
/// Stale entries of a queue that are tolerated beside as many as there are frames.
const STALE: usize = 64;

pub(crate) struct State {
    engine: Engine,
    own: Who,
    policy: PoolPolicy,
    part_bytes: u32,
    request_parts: usize,
    /// By the engine's number.
    objects: Vec<Option<Open>>,
    by_name: HashMap<(usize, String), FileId>,
    listed: Listed,
    beginnings: VecDeque<(FileId, u64)>,
    opened: u64,
    open: u64,
    demanded: VecDeque<Block>,
    ahead: VecDeque<Block>,
    from_disk: VecDeque<Block>,
    writes: VecDeque<kept::Write>,
    tier: Option<Tier>,
    flow: Flow,
    silent: Silent,
    batch: u32,
    /// Parts that are there and that nobody has read.
    unread: u32,
    readers: Readers,
    recorder: Recorder,
    counts: Statistics,
    arena: Arc<Arena>,
    lanes: Lanes,
    /// References that readers may leave while the planner waits for them.
    told_at: u64,
}

impl State {
    pub(crate) fn new(options: &Options, arena: Arc<Arena>, rings: &Rings) -> Result<State, Error> {
        let mut config = Config::new(options.parts());
        config.prefetch = options.prefetch;
        config.order = Order::Fcfs;
        // What is listed within it is fetched at once, however quick the store.
        config.horizon = Some((options.requests as u32).min(ahead_at_most(options.parts(), AHEAD_PART)));
        config.readahead_blocks = u32::try_from(REQUEST_BYTES / u64::from(options.part_bytes))
            .unwrap_or(u32::MAX)
            .clamp(1, ahead_at_most(options.parts(), AHEAD_PART_IN_ORDER));
        config.limits = options.limits();
        config.late_positions = options.waited_for();
        let mut engine = Engine::new(config);
        let manager = engine.add_manager(true).map_err(refused)?;
        engine.set_policy(manager, 0, options.policy).map_err(refused)?;
        let own = Who { manager, process: engine.add_process(manager) };
        let mut tier = Tier::new(options, rings)?;
        if let Some(tier) = &mut tier {
            tier.add_manager(own, true, options.policy);
        }
        Ok(State {
            engine,
            own,
            policy: options.policy,
            part_bytes: options.part_bytes,
            request_parts: options.request_parts(),
            objects: Vec::new(),
            by_name: HashMap::new(),
            listed: Listed::default(),
            beginnings: VecDeque::new(),
            opened: 0,
            open: 0,
            demanded: VecDeque::new(),
            ahead: VecDeque::new(),
            from_disk: VecDeque::new(),
            writes: VecDeque::new(),
            tier,
            flow: Flow::new(options.requests),
            silent: Silent::default(),
            batch: 0,
            unread: 0,
            readers: Readers::default(),
            recorder: Recorder::new(options.recorded_references),
            counts: Statistics::default(),
            arena,
            lanes: Lanes::new(),
            told_at: options.told_at(),
        })
    }

    /// Another manager, which discloses what it reads.
    pub(crate) fn begin_manager(&mut self) -> Result<Who, Error> {
        let manager = self.engine.add_manager(false).map_err(refused)?;
        let process = self.engine.add_process(manager);
        self.engine.set_policy(manager, 0, self.policy).map_err(refused)?;
        let who = Who { manager, process };
        if let Some(tier) = &mut self.tier {
            tier.add_manager(who, false, self.policy);
        }
        Ok(who)
    }

    /// It has ended, and what it disclosed is withdrawn.
    pub(crate) fn end_manager(&mut self, now: Nanos, who: Who) {
        self.tell_both(now, Input::ProcessExited { process: who.process });
    }

    fn tell_both(&mut self, now: Nanos, input: Input<'_>) {
        self.engine.tell(now, input);
        if let Some(tier) = &mut self.tier {
            tier.tell(now, input);
        }
    }

    // ---- objects ----

    /// Opens an object in the state of a stamp, once more if it is open in that state. `store` numbers its source.
    pub(crate) fn open(
        &mut self,
        store: usize,
        source: &Arc<dyn Source>,
        url: &str,
        path: &str,
        stamp: Stamp,
    ) -> Result<(FileId, Arc<Fixed>), Error> {
        let name = (store, path.to_owned());
        if let Some(&file) = self.by_name.get(&name)
            && let Some(open) = self.object_mut(file)
            && open.fixed.stamp.is_same(&stamp)
            && open.lost.is_none()
        {
            open.handles += 1;
            return Ok((file, open.fixed.clone()));
        }
        let parts = stamp.length.div_ceil(u64::from(self.part_bytes));
        let most = u64::from(MOST_PARTS);
        let too_many = Error::Limit { what: "parts of an object; make them larger", limit: most };
        let length_blocks = u32::try_from(parts).ok().filter(|&parts| parts <= MOST_PARTS).ok_or(too_many)?;
        let file = self
            .engine
            .add_file(Layout::Unknown)
            .map_err(|limit| Error::Limit { what: "open objects", limit: limit.limit.into() })?;
        self.engine.set_file_length(file, length_blocks);
        if let Some(tier) = &mut self.tier {
            tier.add_file(file, length_blocks);
        }
        self.opened += 1;
        if self.listed.get(&name).is_some_and(|listed| !listed.is_same(&stamp)) {
            self.listed.forget(&name);
        }
        let fixed = Arc::new(Fixed {
            store,
            url: url.into(),
            path: path.to_owned(),
            source: source.clone(),
            stamp,
            serial: serial(self.opened, file),
            closed: AtomicBool::new(false),
        });
        let slot = file.0 as usize;
        let running = fixed.stamp.checksum.as_ref().and_then(|whole| Running::new(whole, fixed.stamp.length));
        if self.objects.len() <= slot {
            self.objects.resize_with(slot + 1, || None);
        }
        self.objects[slot] = Some(Open {
            fixed: fixed.clone(),
            handles: 1,
            parts: HashMap::default(),
            kept: HashMap::default(),
            read_to: 0,
            lost: None,
            running,
            begun: None,
        });
        self.by_name.insert(name, file);
        self.open += 1;
        Ok((file, fixed))
    }

    /// One handle more of an open object.
    pub(crate) fn hold(&mut self, file: FileId) {
        if let Some(open) = self.object_mut(file) {
            open.handles += 1;
        }
    }

    /// A handle is closed; with the last one go the parts.
    pub(crate) fn close(&mut self, store: usize, file: FileId) {
        let Some(open) = self.object_mut(file) else { return };
        open.handles -= 1;
        if open.handles > 0 {
            return;
        }
        open.fixed.closed.store(true, Ordering::Relaxed);
        let Some(open) = self.objects[file.0 as usize].take() else { return };
        let name = (store, open.fixed.path.clone());
        if self.by_name.get(&name) == Some(&file) {
            self.by_name.remove(&name);
        }
        for part in open.parts.into_values() {
            self.given_up(part);
        }
        self.open -= 1;
        self.engine.remove_file(file);
        if let Some(tier) = &mut self.tier {
            tier.remove_file(file);
        }
    }

    fn object_mut(&mut self, file: FileId) -> Option<&mut Open> {
        self.objects.get_mut(file.0 as usize)?.as_mut()
    }

    fn given_up(&mut self, part: Part) {
        let Part::Ready { buffer, used } = part else { return };
        buffer.withdraw();
        if !used {
            self.unread -= 1;
            self.counts.wasted_bytes += buffer.len() as u64;
        }
    }

    // ---- what readers do ----

    /// A thread begins to read; what it computed since its last read is told with each of its `references`.
    pub(crate) fn begin_read(&mut self, reading: Reading, references: u32) -> Option<Nanos> {
        let compute_ns = self.readers.begin(reading)?;
        Some(Nanos(compute_ns / u64::from(references.max(1))))
    }

    /// How a read of these parts begins.
    pub(crate) fn sequence(
        &mut self,
        file: FileId,
        parts: &std::ops::Range<u32>,
        who: Option<Who>,
    ) -> Sequence {
        // What is disclosed is referenced in the order in which it was said to be, and nothing is read ahead of it.
        let is_told = self.engine.disclosed_ahead(who.unwrap_or(self.own).manager) > 0;
        let Some(open) = self.object_mut(file) else { return Sequence::InOrder };
        let goes_on =
            parts.start == 0 || (open.read_to..=open.read_to.saturating_add(1)).contains(&parts.start);
        open.read_to = parts.end.saturating_sub(1);
        if goes_on || is_told { Sequence::InOrder } else { Sequence::FromTheEnd }
    }

    /// Some parts of a read are referenced. Gives what each of them comes to, the first one first.
    pub(crate) fn references(
        &mut self,
        now: Nanos,
        file: FileId,
        parts: std::ops::Range<u32>,
        sequence: Sequence,
        compute: Option<Nanos>,
        who: Option<Who>,
    ) -> Result<Vec<Got>, Error> {
        let mut reference = |part| self.reference(now, file, part, compute, who);
        match sequence {
            Sequence::InOrder => parts.map(reference).collect(),
            Sequence::FromTheEnd => {
                let mut got = parts.rev().map(&mut reference).collect::<Result<Vec<_>, _>>()?;
                got.reverse();
                Ok(got)
            }
        }
    }

    /// A part is referenced. Nothing is asked for before [`State::next_run`].
    fn reference(
        &mut self,
        now: Nanos,
        file: FileId,
        part: u32,
        compute: Option<Nanos>,
        who: Option<Who>,
    ) -> Result<Got, Error> {
        let open = open_one(&mut self.objects, file)?;
        if let Some(lost) = &open.lost
            && !matches!(open.parts.get(&part), Some(Part::Ready { .. }))
        {
            return Err(lost.clone());
        }
        if let Some(pending) = open.wait_without_frame(part) {
            return Ok(Got::Wait(pending));
        }
        let (serial, block) = (open.fixed.serial, Block::new(file, part));
        let process = who.unwrap_or(self.own).process;
        self.tell_reference(now, process, serial, block, compute);
        let open = open_one(&mut self.objects, file)?;
        let new = || Part::Pending { pending: Arc::default(), stage: Stage::Awaited, waited_for: true };
        let got = match open.parts.entry(part).or_insert_with(new) {
            Part::Ready { buffer, used } => {
                self.unread -= u32::from(!std::mem::replace(used, true));
                Got::Ready(buffer.clone())
            }
            Part::Pending { pending, stage, waited_for } => {
                *waited_for = true;
                if *stage == Stage::Ahead {
                    *stage = Stage::Demanded;
                    self.demanded.push_back(block);
                }
                Got::Wait(pending.clone())
            }
        };
        self.tell_tier(now, process, block);
        Ok(got)
    }

    /// The engine and whoever counts are told of a reference.
    fn tell_reference(
        &mut self,
        now: Nanos,
        process: ProcessId,
        serial: u64,
        block: Block,
        compute: Option<Nanos>,
    ) {
        self.recorder.reference(serial, block.index);
        if let Some(compute) = compute {
            self.engine.tell(now, Input::Computed { process, compute });
        }
        let access = self.engine.access(now, process, block);
        self.counts.references += 1;
        self.counts.hits += u64::from(access == Access::Hit);
        self.counts.late += u64::from(access == Access::InFlight);
    }

    fn tell_tier(&mut self, now: Nanos, process: ProcessId, block: Block) {
        if let Some(tier) = &mut self.tier {
            tier.access(now, process, block);
            self.keep_and_forget(now);
        }
    }

    /// References to come, in order.
    pub(crate) fn disclose(&mut self, now: Nanos, blocks: &[Block], who: Option<Who>) {
        let who = who.unwrap_or(self.own);
        self.engine.disclose(now, who.manager, blocks);
        if let Some(tier) = &mut self.tier {
            tier.disclose(now, who, blocks);
        }
    }

    /// Parts that can still be disclosed.
    pub(crate) fn room_ahead(&self, who: Option<Who>) -> usize {
        let manager = who.unwrap_or(self.own).manager;
        (MOST_DISCLOSED as usize).saturating_sub(self.engine.disclosed_ahead(manager))
    }

    /// What was disclosed is withdrawn.
    pub(crate) fn cancel(&mut self, now: Nanos, who: Option<Who>) {
        self.tell_both(now, Input::Cancelled { manager: who.unwrap_or(self.own).manager });
    }

    /// A directive, of whoever it is.
    pub(crate) fn direct(
        &mut self,
        now: Nanos,
        who: Option<Who>,
        directive: impl FnOnce(ManagerId) -> Input<'static>,
    ) -> Result<(), Error> {
        let directive = directive(who.unwrap_or(self.own).manager);
        let told = match self.engine.tell(now, directive) {
            Answer::Refused(limit) => Err(refused(limit)),
            _ => Ok(()),
        };
        if let Some(tier) = &mut self.tier {
            tier.tell(now, directive);
            self.keep_and_forget(now);
        }
        told
    }

    // ---- what the engine wants ----

    /// Does what the engine asks for, and gives the next request to begin, if any may.
    pub(crate) fn next_run(&mut self, now: Nanos) -> Option<Run> {
        if self.engine.poll_timeout().is_some_and(|due| due <= now) {
            self.engine.handle_timeout(now);
        }
        self.act(now);
        while self.engine.waits_for_frame() && self.take_frames(now) {
            self.act(now);
        }
        let batch = self.batch_wanted();
        if batch != self.batch {
            self.batch = batch;
            self.engine.tell(now, Input::DiskBatch { disk: STORE, batch });
        }
        self.set_told_at();
        // What cannot be fetched any more makes room for others, which are asked for here.
        while let Some(block) = self.next_queued() {
            let lost = self.object_mut(block.file).and_then(|open| open.lost.clone());
            let Some(lost) = lost else { return self.run_from(now, block) };
            self.fail(now, block, &lost);
            self.act(now);
        }
        None
    }

    fn act(&mut self, now: Nanos) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Fetch { block, reason, .. } => self.queue(now, block, reason),
                Action::Evict { block } => {
                    let part = self.object_mut(block.file).and_then(|open| open.parts.remove(&block.index));
                    if let Some(part) = part {
                        self.counts.evictions += 1;
                        self.given_up(part);
                    }
                }
                // Those that were asked for come; they are no more than the batch.
                Action::CancelPrefetches { .. } => {}
            }
        }
        self.bound_queues();
    }

    /// Parts that may be on their way: enough for the requests that the store is worth when a quarter of them is done,
    /// which is when the planner asks for more; but together with those that are there unread no more than their share.
    fn batch_wanted(&self) -> u32 {
        let parts_a_request = self.flow.parts_a_request(self.request_parts);
        let parts = self.flow.requests() * parts_a_request;
        let share = if self.flow.is_in_order() { AHEAD_PART_IN_ORDER } else { AHEAD_PART };
        let most = ahead_at_most(self.engine.config().cache_blocks, share);
        u32::try_from(parts + parts.div_ceil(3)).unwrap_or(u32::MAX).min(most.saturating_sub(self.unread))
    }

    // ---- what comes of it ----

    /// A part of a run is there. `false` when its object is not open any more.
    pub(crate) fn arrived(&mut self, now: Nanos, run: &Run, part: u32, buffer: Buffer) -> bool {
        self.counts.fetched_bytes += buffer.len() as u64;
        self.came(now, run.fixed.serial, Block::new(run.file, part), buffer)
    }

    /// A part is in memory.
    fn came(&mut self, now: Nanos, serial: u64, block: Block, buffer: Buffer) -> bool {
        let Some(open) = self.object_mut(block.file).filter(|open| open.fixed.serial == serial) else {
            self.counts.wasted_bytes += buffer.len() as u64;
            return false;
        };
        if let Some(damaged @ Error::Damaged { .. }) = &open.lost {
            let damaged = damaged.clone();
            self.fail(now, block, &damaged);
            return false;
        }
        let Some(part_there) = open.parts.get_mut(&block.index) else { return true };
        let used = matches!(part_there, Part::Pending { waited_for: true, .. });
        if matches!(part_there, Part::Pending { stage: Stage::Frameless, .. }) {
            open.parts.remove(&block.index);
            self.counts.wasted_bytes += if used { 0 } else { buffer.len() as u64 };
            return true;
        }
        buffer.publish(serial, block.index);
        *part_there = Part::Ready { buffer: buffer.clone(), used };
        self.unread += u32::from(!used);
        self.engine.tell(now, Input::Loaded { block, by: None });
        self.keep(now, block, buffer);
        true
    }

    /// How long a request may keep its first byte back.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        self.flow.slow_after_ns().map(Duration::from_nanos)
    }

    /// May a second request be made for a slow one? It is counted then.
    pub(crate) fn may_hedge(&mut self) -> bool {
        let may = (self.counts.hedges + 1) * HEDGES_PART <= self.counts.requests;
        self.counts.hedges += u64::from(may);
        may
    }

    /// A second request was the quicker one.
    pub(crate) fn hedge_won(&mut self) {
        self.counts.hedges_won += 1;
    }

    /// A run has ended: `got` parts of it came, the first byte at `first`, and if not all of them, for this reason.
    pub(crate) fn ended(
        &mut self,
        now: Nanos,
        run: &Run,
        first: Option<Nanos>,
        got: usize,
        bytes: u64,
        error: Option<&Error>,
    ) {
        let first_ns = first.filter(|_| error.is_none() && !run.is_begun).map(|first| first.0);
        if let Some(served_ns) = self.flow.end(now.0, run.ticket, first_ns, bytes) {
            let access = Nanos(served_ns / run.parts.max(1) as u64);
            self.engine.tell(now, Input::Served { disk: STORE, access });
        }
        let Some(error) = error else { return };
        self.counts.requests_failed += 1;
        let serial = run.fixed.serial;
        let Some(open) = self.object_mut(run.file).filter(|open| open.fixed.serial == serial) else { return };
        if matches!(error, Error::Changed { .. } | Error::NotFound { .. }) {
            open.lost = Some(error.clone());
            self.listed.forget(&(run.fixed.store, run.fixed.path.clone()));
        }
        if got > 0 && matches!(error, Error::Damaged { .. }) {
            self.is_damaged(now, run.file, error);
        }
        for index in (run.first..).take(run.parts).skip(got) {
            self.fail(now, Block::new(run.file, index), error);
        }
    }

    fn fail(&mut self, now: Nanos, block: Block, error: &Error) {
        let Some(open) = self.object_mut(block.file) else { return };
        if let Some(Part::Pending { .. }) = open.parts.get(&block.index)
            && let Some(Part::Pending { pending, .. }) = open.parts.remove(&block.index)
        {
            pending.settle(Err(error.clone()));
            self.engine.tell(now, Input::FetchFailed { block });
            self.will_not_come(now, block);
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let counters = self.engine.counters();
        Statistics {
            demand_fetches: counters.demand_fetches,
            prefetches: counters.prefetches,
            prefetches_wasted: counters.prefetches_wasted,
            requests_under_way: self.flow.all() as u64,
            memory_bytes: self.arena.bytes(),
            memory_peak_bytes: self.arena.peak(),
            leased_bytes: self.arena.leased_bytes(),
            disclosed_ahead: self.engine.disclosed_ahead(self.own.manager) as u64,
            objects: self.open,
            ..self.counts
        }
    }

    /// The recorded references, and the frames: of what [`Statistics::best_fetches`] is made.
    pub(crate) fn recorded(&self) -> Option<(Vec<u32>, u32)> {
        let references = self.recorder.references()?;
        Some((references.to_vec(), self.engine.config().cache_blocks))
    }
}

fn open_one(objects: &mut [Option<Open>], file: FileId) -> Result<&mut Open, Error> {
    let closed = || Error::NoThreads { why: "the object is closed".to_owned() };
    objects.get_mut(file.0 as usize).and_then(Option::as_mut).ok_or_else(closed)
}

fn refused(limit: foretell_policy::LimitReached) -> Error {
    Error::Limit { what: limit.what, limit: limit.limit.into() }
}

/// What the best possible replacement would have fetched. Takes long: not to be called with the lock held.
pub(crate) fn best_fetches(recorded: Option<(Vec<u32>, u32)>) -> Option<u64> {
    recorded.map(|(references, frames)| belady_fetches(&references, frames))
}
