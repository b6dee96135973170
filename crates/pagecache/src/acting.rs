//! Doing what the policy asks for: evictions and prefetches, and what comes back from them.
//!
//! An eviction is believed when the kernel's record of the removal has come. Its call is synchronous, so
//! once it has returned and the ring has been read to its end, what is still in the books has stayed: the
//! folio was in use, most likely by the very read that made it the victim. It is tried once more a moment
//! later, and then put off ([`crate::put_off`]), as what is not written back yet is at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_policy::{Action, Block, DiskId, FileId, Input, ManagerId, Nanos};

use crate::eviction::{BACKLOG_RUNS, CALL_PAGES, merge};
use crate::fetching::{Fetch, Fetched};
use crate::files::ManagedFile;
use crate::folios::Folio;
use crate::mapped::SHARED;
use crate::options::{Options, arm_batch, default_batch};
use crate::put_off::{Cause, Run, Try};
use crate::steering::Steering;
use crate::workers::{Eviction, Outcome, Tried};

/// What a round may take to hand evictions on, and to judge what became of evictions and prefetches.
const DISPATCHING: Duration = Duration::from_millis(1);
const JUDGING: Duration = Duration::from_millis(1);
/// Folios of one file that are handed on before the clock is looked at.
const FOLIOS_A_TIME: usize = 1024;
/// Files are taken to fit if they are larger than the budget by one part in so many: it may have been rounded.
const ROUNDING_SHARE: u64 = 64;
/// As many blocks are read in the time of a movement at most, as a power of two: 4 MiB at 8 KiB.
const MOST_REACH_LOG: u32 = 9;
/// From this part of its time on a disk moves more than it reads, and until it moves for less than that.
const MOVING: f64 = 1.0 / 3.0;
const LEAST_MOVING: f64 = 1.0 / 8.0;
/// After this time what held a folio back (a read that copies from it) is over, most likely.
const RETRY_AFTER: Duration = Duration::from_millis(1);

impl Steering {
    /// Takes the policy's actions until there is none.
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            self.acted_at = Instant::now();
            match action {
                Action::Fetch { block, manager, .. } => self.fetch(block, manager),
                Action::Evict { block } => self.evict(block),
                Action::CancelPrefetches { manager } => self.cancel_prefetches(manager),
            }
        }
    }

    fn answer(&mut self, input: Input<'_>) {
        let now = self.now();
        self.engine.tell(now, input);
    }

    fn evict(&mut self, block: Block) {
        let pages = self.pages(block.index);
        let id = block.file;
        let Some(managed) = self.files.get_mut(id).filter(|m| m.folios.any_cached(pages.clone())) else {
            self.answer(Input::Gone { block });
            return;
        };
        let folios = self.waiting.choose(id.0, &mut managed.folios, pages);
        if !folios.is_empty() {
            self.ready.entry(id).or_default().extend(folios);
        }
        while let Some((file, folio)) =
            self.waiting.overflow(|file| self.files.get(FileId(file)).map(|managed| &managed.folios))
        {
            if let Some(managed) = self.files.get_mut(FileId(file)) {
                managed.folios.issue(folio);
                self.ready.entry(FileId(file)).or_default().push(folio);
            }
        }
    }

    fn fetch(&mut self, block: Block, manager: ManagerId) {
        let pages = self.pages(block.index);
        let block_bytes = u64::from(self.options.block_bytes);
        let offset = u64::from(block.index) * block_bytes;
        if self.files.get(block.file).is_some_and(|managed| offset + block_bytes > managed.size) {
            self.files.refresh(block.file);
        }
        if self.files.get(block.file).is_some_and(ManagedFile::is_orphan) {
            // Whoever's list still names it has let go of it.
            self.give_up(block);
            return;
        }
        let descriptor = self.files.descriptor(block.file);
        let Some(managed) = self.files.get_mut(block.file) else {
            self.answer(Input::FetchFailed { block });
            return;
        };
        if self.arriving.as_ref().is_some_and(|(id, rest)| *id == block.file && rest.contains(&block.index)) {
            // Somebody else has fetched it already; the policy hears of that next.
            self.answer(Input::FetchFailed { block });
            return;
        }
        if pages.clone().any(|page| managed.folios.is_issued(page)) {
            // The eviction that is under way would undo it.
            self.deferred.push((block, manager));
            self.given_up.remove(&block);
            self.in_flight.insert(block);
            return;
        }
        self.waiting.cancel(block.file.0, &mut managed.folios, pages.clone());
        let length = block_bytes.min(managed.size.saturating_sub(offset));
        let needed = pages.start..pages.end.min(managed.size.div_ceil(crate::kernel::page_bytes()));
        if !needed.is_empty() && managed.folios.first_absent(needed.clone()) == needed.end {
            self.in_flight.remove(&block);
            self.answer(Input::Loaded { block, by: None });
            return;
        }
        let Some(file) = descriptor.filter(|_| length > 0) else {
            self.give_up(block);
            return;
        };
        let (serial, disk, place) =
            (managed.serial, std::sync::Arc::clone(&managed.disk), managed.place(block));
        self.given_up.remove(&block);
        self.in_flight.insert(block);
        self.fetches.push(Fetch { serial, block, manager, file, disk, offset, length, place });
    }

    /// A prefetch cannot be begun: the policy is told by and by, as it asks for another one at once. A list of a million
    /// blocks none of which can be had would be gone through here.
    fn give_up(&mut self, block: Block) {
        self.in_flight.insert(block);
        self.given_up.insert(block);
        self.stirred = true;
    }

    /// A prefetch will not complete. A part of the block may be there all the same.
    fn answer_failed(&mut self, block: Block) {
        self.answer(Input::FetchFailed { block });
        self.answer_if_kept(block);
    }

    /// What the policy neither has in its books nor wants gone is loaded for it if something of it is cached: nobody would
    /// evict it otherwise.
    pub(crate) fn answer_if_kept(&mut self, block: Block) {
        let pages = self.pages(block.index);
        if !self.engine.is_cached(block)
            && !self.in_flight.contains(&block)
            && self.files.get(block.file).is_some_and(|managed| managed.folios.any_kept(pages))
        {
            self.answer(Input::Loaded { block, by: None });
        }
    }

    fn cancel_prefetches(&mut self, manager: ManagerId) {
        self.workers.cancel(manager);
        let waiting = self.fetches.extract_if(.., |fetch| fetch.manager == manager);
        let waiting: Vec<Block> = waiting.map(|fetch| fetch.block).collect();
        let deferred = self.deferred.extract_if(.., |(_, owner)| *owner == manager);
        let blocks = waiting.into_iter().chain(deferred.map(|(block, _)| block));
        self.given_up.extend(blocks.filter(|block| self.in_flight.contains(block)));
        self.settle_cancelled();
        self.readahead_off.restore(manager);
    }

    /// What was withdrawn and not begun is given up, if its queue is free to be looked at.
    fn settle_cancelled(&mut self) {
        let dropped = self.workers.settle();
        self.queue_is_busy = dropped.is_none();
        let dropped = dropped.unwrap_or_default();
        let blocks = dropped.into_iter().map(|fetch| fetch.block);
        self.given_up.extend(blocks.filter(|block| self.in_flight.contains(block)));
        self.stirred |= !self.given_up.is_empty();
    }

    /// Tells the policy of prefetches that were given up, as many as there is time for. They may be as many as the cache
    /// has blocks, and with each the policy looks what to fetch instead.
    fn tell_of_given_up(&mut self, ends: Instant) {
        while let Some(block) = self.given_up.pop_first() {
            if self.in_flight.remove(&block) {
                self.answer_failed(block);
                self.act();
            }
            if Instant::now() >= ends {
                self.stirred |= !self.given_up.is_empty();
                return;
            }
        }
    }

    /// Hands what has been decided to the threads that do it.
    pub(crate) fn dispatch(&mut self) {
        let start = Instant::now();
        while let Some((id, mut folios)) = self.ready.pop_first() {
            if folios.len() > FOLIOS_A_TIME {
                self.ready.insert(id, folios.split_off(FOLIOS_A_TIME));
            }
            let descriptor = self.files.descriptor(id);
            if descriptor.is_none() && self.files.get(id).is_some_and(ManagedFile::is_orphan) {
                self.retire(id);
                continue;
            }
            let runs = merge(folios, CALL_PAGES);
            for folios in runs {
                let Some(managed) = self.files.get(id) else { break };
                let is_mapped = !managed.mapped_by.is_empty();
                let backlog = if is_mapped { &mut self.mapped_backlog } else { &mut self.backlog };
                match &descriptor {
                    Some(file) if backlog.len() < BACKLOG_RUNS => backlog.push_back(Eviction {
                        serial: managed.serial,
                        id,
                        names: managed.names(),
                        file: std::sync::Arc::clone(file),
                        folios,
                        mapped_by: managed.mapped_by.clone(),
                        tried: Tried::Never,
                        lane: None,
                    }),
                    _ => {
                        let serial = managed.serial;
                        self.give_back(id, serial, folios);
                    }
                }
            }
            if start.elapsed() >= DISPATCHING {
                self.stirred |= !self.ready.is_empty();
                break;
            }
        }
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            let retries = std::mem::take(&mut self.retries);
            let (mapped, others): (Vec<_>, Vec<_>) = retries.into_iter().partition(Eviction::is_mapped);
            self.mapped_backlog.extend(mapped);
            self.backlog.extend(others);
        }
        self.try_again();
        while let Some(eviction) = self.backlog.pop_front() {
            if let Err(eviction) = self.workers.evict(eviction) {
                self.backlog.push_front(eviction);
                break;
            }
        }
        while let Some(eviction) = self.mapped_backlog.pop_front() {
            self.evict_mapped(eviction);
        }
        self.settle_cancelled();
        if !self.fetches.is_empty() {
            // What finds no room waits here. The policy must not be told that it has failed: it would not ask again. There
            // are no more of them than blocks in the cache, as each has a frame.
            let mut fetches = std::mem::take(&mut self.fetches);
            fetches.retain(|fetch| self.in_flight.contains(&fetch.block));
            let cache_bytes =
                u64::from(self.engine.config().cache_blocks) * u64::from(self.options.block_bytes);
            self.workers.keep_gaps(self.files.bytes() <= cache_bytes + cache_bytes / ROUNDING_SHARE);
            self.fetches = self.workers.fetch(fetches).unwrap_or_else(|fetches| {
                self.queue_is_busy = true;
                fetches
            });
        }
    }

    /// Takes in what became of evictions and prefetches. All observations up to now must have been taken in.
    /// What a round has no time for is left.
    pub(crate) fn judge(&mut self, outcomes: &mut VecDeque<Outcome>) {
        let start = Instant::now();
        while !self.returning.is_full()
            && let Some(outcome) = outcomes.pop_front()
        {
            match outcome {
                Outcome::Evicted { eviction, unclean } => self.judge_eviction(eviction, &unclean),
                Outcome::Fetched(fetched) => self.judge_request(&fetched),
            }
            if start.elapsed() >= JUDGING {
                break;
            }
        }
        for (block, manager) in std::mem::take(&mut self.deferred) {
            self.fetch(block, manager);
        }
        self.act();
        self.tell_of_given_up(start + JUDGING);
    }

    fn judge_request(&mut self, fetched: &Fetched) {
        self.served(fetched);
        for (blocks, there) in &fetched.runs {
            let there = blocks.start.saturating_add(*there);
            for index in blocks.clone() {
                self.judge_fetch(fetched.serial, Block::new(fetched.id, index), index < there);
            }
        }
        self.workers.take_in(fetched);
        for index in fetched.gaps.iter().cloned().flatten() {
            self.judge_gap(fetched.serial, Block::new(fetched.id, index));
        }
    }

    /// What was read between two blocks should be gone again. Of what stays the policy hears now.
    fn judge_gap(&mut self, serial: u32, block: Block) {
        let pages = self.pages(block.index);
        let Some(managed) = self.files.get_serial(block.file, serial) else { return };
        if managed.folios.any_cached(pages)
            && !self.in_flight.contains(&block)
            && !self.engine.is_cached(block)
        {
            self.tell(Input::Loaded { block, by: None });
        }
    }

    /// Tells the policy how long a disk took for each block of a request, if it wants to know.
    fn served(&mut self, fetched: &Fetched) {
        if !self.options.prefetch.wants_times() {
            return;
        }
        let Some(dev) = self.files.get_serial(fetched.id, fetched.serial).map(|managed| managed.key.dev)
        else {
            return;
        };
        let disk = self.tell_of_disk(dev);
        for _ in 0..fetched.runs.iter().map(|(_, there)| there).sum() {
            self.answer(Input::Served { disk, access: Nanos(fetched.access_ns) });
        }
    }

    /// Tells the policy whether a disk has an arm, and how much it reads in the time of a movement, when that is known anew.
    pub(crate) fn tell_of_disk(&mut self, dev: u64) -> DiskId {
        let (disk, device) = self.files.disk(dev);
        let (has_arm, reach_bytes) = (device.has_arm(), device.reach_bytes());
        let moving_share = device.moving_share();
        self.suit_batch(disk, has_arm.then_some(moving_share));
        self.tell_reach(disk, reach_bytes);
        disk
    }

    /// Lets more prefetches be under way to a disk that turns out to have an arm, most of all while it moves for the greater part
    /// of its time, and fewer again if it has none. What was asked for by number stays.
    fn suit_batch(&mut self, disk: DiskId, moving_share: Option<f64>) {
        let Options { budget_bytes, block_bytes, batch, .. } = self.options;
        if batch != default_batch(budget_bytes, block_bytes) {
            return;
        }
        let moved = self.arms.get(&disk).copied();
        let moves = moving_share.map(|share| share > if moved == Some(true) { LEAST_MOVING } else { MOVING });
        if moves == moved {
            return;
        }
        let batch = match moves {
            Some(moves) => {
                self.arms.insert(disk, moves);
                arm_batch(budget_bytes, block_bytes, moves).max(batch)
            }
            None => {
                self.arms.remove(&disk);
                batch
            }
        };
        self.answer(Input::DiskBatch { disk, batch });
    }

    /// Tells the policy how much a disk reads in the time in which its arm moves, when that is another power of two.
    fn tell_reach(&mut self, disk: DiskId, reach_bytes: u64) {
        let blocks = reach_bytes / u64::from(self.options.block_bytes.max(1));
        let blocks = blocks.checked_ilog2().map_or(0, |log| 1 << log.min(MOST_REACH_LOG));
        let slot = usize::from(disk.0);
        if self.reaches.len() <= slot {
            self.reaches.resize(slot + 1, 0);
        }
        if std::mem::replace(&mut self.reaches[slot], blocks) != blocks {
            self.answer(Input::DiskArm { disk, reach_blocks: blocks });
        }
    }

    fn judge_fetch(&mut self, serial: u32, block: Block, ok: bool) {
        let pages = self.pages(block.index);
        let Some(managed) = self.files.get_serial(block.file, serial) else { return };
        // Evicted or dropped again since, if nothing of it is cached.
        let there = ok && managed.folios.any_cached(pages);
        if self.in_flight.remove(&block) {
            if there {
                self.answer(Input::Loaded { block, by: None });
            } else {
                self.answer_failed(block);
            }
            self.act();
        }
    }

    fn judge_eviction(&mut self, mut eviction: Eviction, unclean: &[Folio]) {
        self.left_lane(&mut eviction);
        let Some(managed) = self.files.get_serial(eviction.id, eviction.serial) else { return };
        // What has gone is done with, whatever has come to its place since: that has evictions of its own.
        let folios = &managed.folios;
        eviction.folios.retain(|folio| folios.census(*folio).issued > 0);
        let (unwritten, held): (Vec<Folio>, Vec<Folio>) =
            std::mem::take(&mut eviction.folios).into_iter().partition(|folio| unclean.contains(folio));
        let (id, serial) = (eviction.id, eviction.serial);
        match eviction.tried {
            Tried::Never => {
                self.put_off(id, serial, unwritten, Try::first(Cause::Unwritten));
                for run in merge(held, CALL_PAGES) {
                    let file = std::sync::Arc::clone(&eviction.file);
                    let mapped_by = eviction.mapped_by.clone();
                    self.retries.push(Eviction {
                        folios: run,
                        file,
                        mapped_by,
                        tried: Tried::Once,
                        ..eviction
                    });
                    self.retry_at.get_or_insert_with(|| Instant::now() + RETRY_AFTER);
                }
            }
            Tried::Once => {
                self.give_back(id, serial, unwritten);
                self.put_off_or_widen(id, serial, held);
            }
            Tried::PutOff(next) => {
                self.give_back(id, serial, unwritten);
                self.put_off(id, serial, held, next.next());
            }
        }
    }

    /// What is clean was tried twice and stays: somebody holds it. Where its size was guessed, the guess may have been too
    /// small: then the policy chooses again, with a larger one. One that cannot be larger is put off like the others: the
    /// policy would choose it again at once, and so on without end.
    fn put_off_or_widen(&mut self, id: FileId, serial: u32, folios: Vec<Folio>) {
        let Some(managed) = self.files.get_mut(id) else { return };
        // First all of them, so that none is in the way of its neighbour.
        folios.iter().for_each(|folio| managed.folios.put_off(*folio));
        let mut held = Vec::new();
        for folio in folios {
            let Some(managed) = self.files.get_mut(id) else { return };
            if managed.folios.folio(folio.head) != Some(folio) && managed.folios.is_guessed(folio) {
                // Taken for a part of a larger one by now.
                continue;
            }
            match managed.folios.is_guessed(folio).then(|| managed.folios.wider(folio)).flatten() {
                Some(wider) => self.widen(id, wider),
                None => held.push(folio),
            }
        }
        self.act();
        self.put_off(id, serial, held, Try::first(Cause::Held));
    }

    /// These pages are taken for one folio from now on: the policy gets back those of its blocks that were to go.
    fn widen(&mut self, id: FileId, wider: Folio) {
        let blocks = self.blocks(&wider.range());
        let Some(managed) = self.files.get(id) else { return };
        let chosen = blocks.filter(|index| managed.folios.any_chosen(self.pages(*index)));
        let chosen: Vec<u32> = chosen.collect();
        let Some(managed) = self.files.get_mut(id) else { return };
        for folio in managed.folios.folios(wider.range()) {
            self.waiting.forget(id.0, folio);
        }
        managed.folios.join(wider);
        for index in chosen {
            let block = Block::new(id, index);
            self.tell(Input::EvictRefused { block });
            self.answer_if_kept(block);
        }
    }

    /// Hands an eviction on to the threads for what is mapped; where too much waits it is put off. Nobody's stand behind
    /// another user's.
    pub(crate) fn evict_mapped(&mut self, mut eviction: Eviction) {
        let (lane, pages) = (self.lane_of(&eviction.mapped_by), eviction.pages());
        if self.in_lanes.has_room(lane, pages, self.put_off.limit_pages()) {
            eviction.lane = Some(lane);
            match self.workers.evict_mapped(lane, eviction) {
                Ok(()) => return self.in_lanes.add(lane, pages),
                Err(refused) => eviction = refused,
            }
        }
        let next = match eviction.tried {
            Tried::Never | Tried::Once => Try::first(Cause::Held),
            Tried::PutOff(next) => next.next(),
        };
        self.put_off(eviction.id, eviction.serial, eviction.folios, next);
    }

    /// An eviction has been tried: it waits no longer.
    pub(crate) fn left_lane(&mut self, eviction: &mut Eviction) {
        if let Some(lane) = eviction.lane.take() {
            self.in_lanes.subtract(lane, eviction.pages());
        }
    }

    /// The lane of what these processes have mapped: that of the one whose limits count for all of them.
    fn lane_of(&self, pids: &[u32]) -> u32 {
        let sessions = pids.iter().filter_map(|pid| self.sessions.process(*pid));
        let mut accounts =
            sessions.filter_map(|process| Some(self.sessions.get(process.session)?.origin.account));
        let Some(first) = accounts.next() else { return SHARED };
        if accounts.all(|account| account == first) { first } else { SHARED }
    }

    /// Folios that were to be evicted stay for now, and are tried again.
    pub(crate) fn put_off(&mut self, id: FileId, serial: u32, folios: Vec<Folio>, next: Try) {
        let now = Instant::now();
        for run in merge(folios, CALL_PAGES) {
            let Some(managed) = self.files.get_mut(id) else { return };
            run.iter().for_each(|folio| managed.folios.put_off(*folio));
            if let Err(folios) = self.put_off.add(now, next, id, serial, run) {
                self.give_back(id, serial, folios);
            }
        }
    }

    /// Sees to what has waited long enough.
    pub(crate) fn try_again(&mut self) {
        if self.returning.is_full() {
            return;
        }
        for (Run { id, serial, folios, next, .. }, is_due) in self.put_off.take(Instant::now()) {
            let Some(managed) = self.files.get_serial(id, serial) else { continue };
            // A reference may have taken the choice back, and the kernel may have dropped it by itself.
            let waiting = folios.into_iter().filter(|folio| managed.folios.is_put_off(*folio));
            let waiting: Vec<Folio> = waiting.collect();
            let (names, mapped_by) = (managed.names(), managed.mapped_by.clone());
            let room = self.backlog.len().max(self.mapped_backlog.len()) < BACKLOG_RUNS;
            let wanted = is_due && !waiting.is_empty() && room;
            let Some(file) = wanted.then(|| self.files.descriptor(id)).flatten() else {
                self.give_back(id, serial, waiting);
                continue;
            };
            // What lay in between may have gone.
            for run in merge(waiting, CALL_PAGES) {
                let Some(managed) = self.files.get_mut(id) else { break };
                run.iter().for_each(|folio| managed.folios.issue(*folio));
                let (file, mapped_by) = (Arc::clone(&file), mapped_by.clone());
                let backlog = if mapped_by.is_empty() { &mut self.backlog } else { &mut self.mapped_backlog };
                let (tried, lane) = (Tried::PutOff(next), None);
                backlog.push_back(Eviction { serial, id, names, file, folios: run, mapped_by, tried, lane });
            }
        }
    }
}
