//! The counterfactual: what would have been waited for on the plain kernel, found out beside the engine.
//!
//! The same references are given to a second, simulated machine that knows nothing of lists or rules:
//!
//! 1. Its cache ([`cache`]) has as many blocks as ours, replaced by LRU, and is filled by demand and by Linux's readahead
//!    ([`crate::planner`], the same windows). Both are exact, not sampled: a window is a property of all references.
//!    What is on its way is not replaced: where all is, readahead is left out, and a demand fetch waits for a place.
//! 2. Its disks ([`disk`]) serve a queue each in one direction (CSCAN), and a demand fetch overtakes queued readahead. The
//!    time of a request is what requests at the same distance from the one before have been measured to take.
//! 3. Each process has a clock of its own ([`clocks`]), which advances by the compute times that are told, by what its
//!    references wait, and by what it waits for a processor. Disks, cache and processors are shared, so that it is seen
//!    what processes would have waited beside each other without lists.
//!
//! A fetch takes [`Config::driver`] of a processor's time when its disk begins it. Before the first measured time a
//! request takes none.
//!
//! Memory: as many records as the cache has blocks, no more requests in the queues, one that waits for a place for each
//! process, and the references that were made here and not yet there, of which there is a limit ([`clocks`]). What was
//! read of a file that is removed stays until it is replaced.

mod cache;
mod clocks;
mod disk;
mod guard;
pub(crate) mod met;

use std::collections::VecDeque;

use crate::config::Config;
use crate::ids::{Block, DiskId, Nanos, ProcessId};
use crate::planner::Windows;
use crate::replacement::key_of;
use cache::{Cache, Residence};
use clocks::Clocks;
use disk::{AccessTimes, Disk};
pub(crate) use guard::Guard;
pub(crate) use met::Met;

/// What the plain kernel would have done with the references so far, as far as that can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counterfactual {
    /// Time that references would have waited.
    pub waited: Nanos,
    /// References that would have waited.
    pub waits: u64,
    /// Blocks that would have been fetched, on demand and by readahead.
    pub fetches: u64,
    /// Time until its processes would have come as far: until the last one's end, if all have ended.
    pub elapsed: Nanos,
    /// Time within that in which a processor would have had nothing to do, of all processors together.
    pub stall: Nanos,
}

/// Where a block is: its disk, and its address there.
pub(crate) type Place = (DiskId, u64);

/// A reference that the machine beside has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) process: ProcessId,
    /// When it was made here, and when it would have been made there, in ns.
    pub(crate) here: u64,
    pub(crate) there: u64,
    /// What the one before would have waited.
    pub(crate) waited: u64,
    /// It met the same here and there, by the same rules: a difference between what it has waited and what it would have
    /// is the estimate's.
    pub(crate) alike: bool,
}

/// Numbers of processes that may stand for another one ([`crate::Limits::processes`] are no more).
const PROCESSES: usize = 1 << 16;

/// The machine beside.
#[derive(Debug)]
pub(crate) struct Machine {
    cache: Cache,
    windows: Windows,
    most_readahead: u32,
    disks: Vec<Disk>,
    times: AccessTimes,
    /// Processor time of a fetch, in ns.
    driver: u64,
    /// Blocks that processes wait for until there is a place in the cache, by key; no more than processes.
    awaited: VecDeque<(u64, Place)>,
    clocks: Clocks,
    /// As whom each process is known here, up to the last one that has two numbers.
    known_as: Vec<ProcessId>,
    /// The access time that a disk has just told and when that began, until the block is named.
    served: Option<(DiskId, u64, u64)>,
    /// To be taken from there.
    followed: Vec<Followed>,
    waited: u64,
    waits: u64,
    fetches: u64,
}

impl Machine {
    pub(crate) fn new(config: &Config) -> Machine {
        Machine {
            cache: Cache::new(config.cache_blocks),
            windows: Windows::linux(config),
            most_readahead: config.readahead_blocks.max(1),
            disks: (0..config.disks.max(1)).map(|_| Disk::default()).collect(),
            times: AccessTimes::new(config.disks),
            driver: config.driver.0,
            awaited: VecDeque::new(),
            clocks: Clocks::new(config.processors),
            known_as: Vec::new(),
            served: None,
            followed: Vec::new(),
            waited: 0,
            waits: 0,
            fetches: 0,
        }
    }

    pub(crate) fn report(&self) -> Counterfactual {
        Counterfactual {
            waited: Nanos(self.waited),
            waits: self.waits,
            fetches: self.fetches,
            elapsed: Nanos(self.clocks.now()),
            stall: Nanos(self.clocks.idle()),
        }
    }

    /// Two numbers of one process.
    pub(crate) fn one_process(&mut self, process: ProcessId, first: ProcessId) {
        let slot = process.0 as usize;
        if slot >= PROCESSES {
            return;
        }
        for new in self.known_as.len()..=slot {
            self.known_as.push(ProcessId(new as u32));
        }
        self.known_as[slot] = first;
    }

    /// As whom a process is known here.
    pub(crate) fn known_as(&self, process: ProcessId) -> ProcessId {
        self.known_as.get(process.0 as usize).copied().unwrap_or(process)
    }

    /// A process computed.
    pub(crate) fn computed(&mut self, process: ProcessId, compute: Nanos) {
        self.clocks.computed(process, compute.0);
    }

    /// A disk of ours has served a request.
    pub(crate) fn served(&mut self, now: Nanos, disk: DiskId, access: Nanos) {
        self.times.served(now.0, disk, access.0);
        self.served = Some((disk, now.0.saturating_sub(access.0), access.0));
    }

    /// The block that it was is at this place.
    pub(crate) fn loaded(&mut self, (disk, address): Place) {
        if let Some((of, begun, access)) = self.served.take()
            && of == disk
        {
            self.times.measured(disk, address, begun, access);
        }
    }

    /// The cache has another size.
    pub(crate) fn resize(&mut self, cache_blocks: u32) {
        self.cache.resize(cache_blocks);
    }

    /// A process references a block, and meets this here. `place` says where a block is, `None` outside of its file. What can
    /// be followed now is to be had from [`Machine::take_followed`].
    pub(crate) fn reference(
        &mut self,
        now: Nanos,
        process: ProcessId,
        block: Block,
        met: Met,
        place: impl Fn(Block) -> Option<Place>,
    ) {
        while self.clocks.is_full(process) && self.clocks.leave_behind() {
            self.go_on(&place);
        }
        self.clocks.told(process, block, now.0, met);
        self.go_on(&place);
    }

    /// A process ended.
    pub(crate) fn exited(&mut self, process: ProcessId, place: impl Fn(Block) -> Option<Place>) {
        if let Some(known_as) = self.known_as.get_mut(process.0 as usize) {
            *known_as = process;
        }
        self.clocks.exited(process);
        self.go_on(&place);
    }

    /// The references that the machine has come to since this was asked, in its order.
    pub(crate) fn take_followed(&mut self) -> std::vec::Drain<'_, Followed> {
        self.followed.drain(..)
    }

    /// Goes on as far as it is known what all processes do.
    fn go_on(&mut self, place: &impl Fn(Block) -> Option<Place>) {
        loop {
            self.clocks.dispatch();
            let disks = self.disks.iter().enumerate();
            let disk = disks.filter_map(|(number, disk)| Some((disk.busy_until()?, number))).min();
            let reference = self.clocks.next_reference();
            let until = self.clocks.known_until();
            match (disk, reference) {
                (Some((end, number)), reference) if reference.is_none_or(|at| end <= at) => {
                    if end >= until {
                        return;
                    }
                    self.end_one(end, number);
                }
                (_, Some(at)) => {
                    if at >= until {
                        return;
                    }
                    self.refer(at, place);
                }
                (_, None) => return,
            }
        }
    }

    /// A disk has ended a request.
    fn end_one(&mut self, now: u64, number: usize) {
        let Some((key, begun)) = self.disks[number].end_one(now, &self.times) else { return };
        self.clocks.interrupt(now, number, begun, self.driver);
        self.cache.arrived(key);
        let (waits, waited) = self.clocks.arrived(now, key);
        self.waits += waits;
        self.waited = self.waited.saturating_add(waited);
        while let Some(&(key, place)) = self.awaited.front()
            && self.fetch(now, key, place, true)
        {
            self.awaited.pop_front();
        }
    }

    /// The next process makes its reference.
    fn refer(&mut self, now: u64, place: &impl Fn(Block) -> Option<Place>) {
        let Some((process, told, waited, alike)) = self.clocks.refer() else { return };
        self.followed.push(Followed { process, here: told.at, there: now, waited, alike });
        let block = told.block;
        let key = key_of(block);
        let residence = self.cache.find(key);
        let is_alike = match told.met {
            Met::Steered => false,
            Met::Absent => residence == Residence::Absent,
            Met::Present => residence != Residence::Absent,
        };
        self.clocks.set_alike(process, is_alike);
        let waits = match residence {
            Residence::Cached => {
                self.cache.touch(key);
                false
            }
            Residence::OnItsWay => true,
            Residence::Absent => match place(block) {
                Some(place) => {
                    if !self.is_awaited(key) && !self.fetch(now, key, place, true) {
                        self.awaited.push_back((key, place));
                    }
                    true
                }
                None => return self.clocks.go_on(now, process),
            },
        };
        // Readahead is submitted with the demand fetch, before the wait.
        if let Some((from, to)) = self.windows.linux_ahead(block, self.most_readahead) {
            for index in from..to {
                let ahead = Block::new(block.file, index);
                let key = key_of(ahead);
                let Some(place) = place(ahead) else { break };
                if self.cache.find(key) == Residence::Absent
                    && !self.is_awaited(key)
                    && !self.fetch(now, key, place, false)
                {
                    break;
                }
            }
        }
        if waits {
            self.clocks.wait(process, key);
        } else {
            self.clocks.go_on(now, process);
        }
    }

    fn is_awaited(&self, key: u64) -> bool {
        self.awaited.iter().any(|&(awaited, _)| awaited == key)
    }

    /// Asks a disk for a block; false if there is no place for it in the cache.
    fn fetch(&mut self, now: u64, key: u64, (disk, address): Place, demand: bool) -> bool {
        if !self.cache.enter(key) {
            return false;
        }
        let number = disk.0 as usize % self.disks.len();
        self.fetches += 1;
        let begun = self.disks[number].submit(now, key, address, demand, &self.times);
        self.clocks.interrupt(now, number, begun, self.driver);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    const MS: u64 = 1_000_000;

    /// A disk on which the next block takes 1 ms and any other one 10 ms, and fetches that take half a ms of a processor.
    fn machine(config: &Config) -> Machine {
        let config = Config { readahead_blocks: 4, driver: Nanos(MS / 2), ..config.clone() };
        let mut machine = Machine::new(&config);
        for address in [100, 101, 102, 500, 501, 100, 101] {
            let time = if [101, 102, 501].contains(&address) { MS } else { 10 * MS };
            machine.served(Nanos(0), DiskId(0), Nanos(time));
            machine.loaded((DiskId(0), address));
        }
        machine
    }

    fn place(b: Block) -> Option<Place> {
        (b.index < 1000).then_some((DiskId(0), 1000 + u64::from(b.file.0) * 2000 + u64::from(b.index)))
    }

    fn read_by(machine: &mut Machine, process: u32, index: u32, compute: u64) {
        machine.computed(ProcessId(process), Nanos(compute));
        machine.reference(
            Nanos(0),
            ProcessId(process),
            Block::new(FileId(process), index),
            Met::Steered,
            place,
        );
    }

    fn read(machine: &mut Machine, index: u32, compute: u64) {
        read_by(machine, 0, index, compute);
    }

    #[test]
    fn a_scan_by_hand() {
        let mut machine = machine(&Config::new(100));
        // Block 0: 10 ms; a window of two (0, 1), of which 1 takes 1 ms and is there after 5 ms of computing.
        read(&mut machine, 0, 5 * MS);
        assert_eq!((machine.report().fetches, machine.report().waited), (2, Nanos(10 * MS)));
        // At the marker the next window of four is fetched: 2 to 5, which take 1 ms each. It is reached at 5 + 10 + 5 ms
        // and what the processor needs for the fetch of block 1, which begins when 0 is there.
        read(&mut machine, 1, 5 * MS);
        let report = machine.report();
        assert_eq!((report.waits, report.waited, report.fetches), (1, Nanos(10 * MS), 6));
        assert_eq!(report.elapsed, Nanos(20 * MS + MS / 2));
        // 10 ms of waiting, in which the fetch of block 0 took the processor.
        assert_eq!(report.stall, Nanos(10 * MS - MS / 2));
        // Block 2 has 1 ms and is there; block 5 would be there after 4 ms.
        read(&mut machine, 2, 2 * MS);
        assert_eq!(machine.report().waits, 1);
        // Again: a hit.
        read(&mut machine, 0, 0);
        assert_eq!(machine.report().waits, 1);
    }

    #[test]
    fn two_processes_share_the_processor_and_the_disk() {
        for (processors, second) in [(1, 8), (2, 5)] {
            let config = Config { processors, ..Config::new(100) };
            let mut machine = machine(&config);
            machine.driver = 0;
            // Both are known of from the beginning.
            machine.computed(ProcessId(0), Nanos(3 * MS));
            machine.computed(ProcessId(1), Nanos(5 * MS));
            // Blocks of which the next one is not read ahead.
            machine.reference(Nanos(7), ProcessId(0), Block::new(FileId(0), 100), Met::Steered, place);
            assert!(machine.take_followed().next().is_none(), "what the other one does is not known");
            machine.reference(Nanos(9), ProcessId(1), Block::new(FileId(1), 100), Met::Steered, place);
            let followed: Vec<(u32, u64, u64)> =
                machine.take_followed().map(|f| (f.process.0, f.here, f.there / MS)).collect();
            assert_eq!(followed, [(0, 7, 3), (1, 9, second)]);
            // The first one has its block after 13 ms, the second one after 23.
            read_by(&mut machine, 0, 300, MS);
            read_by(&mut machine, 1, 300, MS);
            let followed: Vec<(u32, u64, u64)> =
                machine.take_followed().map(|f| (f.process.0, f.there / MS, f.waited / MS)).collect();
            assert_eq!(followed, [(0, 14, 10), (1, 24, 23 - second)]);
        }
    }

    #[test]
    fn who_does_nothing_is_left_behind() {
        let mut machine = machine(&Config::new(10));
        machine.computed(ProcessId(1), Nanos(0));
        let mut followed = 0;
        for told in 1..=20_000 {
            read_by(&mut machine, 0, 0, MS);
            followed += machine.take_followed().count();
            assert!(told - followed <= (1 << 14), "no more wait");
        }
        assert!(followed > 16_000);
        // It comes back at the time to which the other one has come.
        read_by(&mut machine, 1, 0, MS);
        machine.exited(ProcessId(0), place);
        let last = machine.take_followed().find(|f| f.process == ProcessId(1));
        assert!(last.is_some_and(|f| f.there > 16_000 * MS), "{last:?}");
    }

    #[test]
    fn one_process_may_have_two_numbers() {
        let mut machine = machine(&Config::new(10));
        machine.one_process(ProcessId(7), ProcessId(3));
        assert_eq!(machine.known_as(ProcessId(7)), ProcessId(3));
        machine.one_process(ProcessId(7), ProcessId(7));
        assert_eq!(machine.known_as(ProcessId(7)), ProcessId(7));
        machine.one_process(ProcessId(7), ProcessId(3));
        machine.exited(ProcessId(7), place);
        assert_eq!(machine.known_as(ProcessId(7)), ProcessId(7), "the number may be another one's now");
        machine.one_process(ProcessId(u32::MAX), ProcessId(0));
        assert_eq!(machine.known_as(ProcessId(u32::MAX)), ProcessId(u32::MAX));
    }

    #[test]
    fn the_end_of_a_process_lets_the_others_go_on() {
        let mut machine = machine(&Config::new(10));
        machine.computed(ProcessId(1), Nanos(0));
        read_by(&mut machine, 0, 0, MS);
        assert_eq!(machine.take_followed().count(), 0);
        machine.exited(ProcessId(1), place);
        assert_eq!(machine.take_followed().count(), 1);
        // What is left of one that has ended is followed to its end.
        machine.exited(ProcessId(0), place);
        // The driver has the processor when its block comes: it begins to fetch the next one.
        assert_eq!((machine.report().waits, machine.report().elapsed), (1, Nanos(11 * MS + MS / 2)));
    }

    #[test]
    fn what_is_on_its_way_is_not_replaced_and_who_finds_no_place_waits() {
        let mut machine = Machine::new(&Config { readahead_blocks: 4, ..Config::new(3) });
        machine.served(Nanos(0), DiskId(0), Nanos(MS));
        machine.loaded((DiskId(0), 0));
        for process in 0..3 {
            machine.computed(ProcessId(process), Nanos(0));
        }
        // Blocks 0 and 1 of file 0, then block 0 of file 1 and nothing of its readahead, then the third one waits until
        // block 0 of file 0 is there, which it replaces, and then for its own, behind the demand fetch before it.
        for process in 0..3 {
            let block = Block::new(FileId(process), 0);
            machine.reference(Nanos(0), ProcessId(process), block, Met::Steered, place);
        }
        for process in 0..3 {
            machine.exited(ProcessId(process), place);
        }
        let report = machine.report();
        assert_eq!((report.fetches, report.waits, report.waited), (4, 3, Nanos((1 + 2 + 3) * MS)));
        assert_eq!((report.elapsed, machine.awaited.len()), (Nanos(3 * MS), 0));
    }

    #[test]
    fn times_without_end_are_survived() {
        let mut machine = machine(&Config { processors: 3, ..Config::new(10) });
        read_by(&mut machine, 0, 2000, u64::MAX - 1);
        machine.exited(ProcessId(0), place);
        assert_eq!(machine.report().stall, Nanos(u64::MAX), "two that never had anything to do");
    }

    #[test]
    fn two_that_wait_for_a_place_for_the_same_block_get_it_once() {
        let mut machine = Machine::new(&Config { readahead_blocks: 1, ..Config::new(1) });
        machine.served(Nanos(0), DiskId(0), Nanos(MS));
        machine.loaded((DiskId(0), 0));
        for process in 0..3 {
            machine.computed(ProcessId(process), Nanos(0));
        }
        for (process, index) in [(0, 7), (1, 9), (2, 9)] {
            machine.reference(
                Nanos(0),
                ProcessId(process),
                Block::new(FileId(0), index),
                Met::Steered,
                place,
            );
        }
        for process in 0..3 {
            machine.exited(ProcessId(process), place);
        }
        assert_eq!((machine.report().fetches, machine.report().waited), (2, Nanos((1 + 2 + 2) * MS)));
    }

    #[test]
    fn its_queues_are_no_longer_than_its_cache() {
        let mut machine = Machine::new(&Config { readahead_blocks: 64, ..Config::new(8) });
        machine.served(Nanos(0), DiskId(0), Nanos(MS));
        machine.loaded((DiskId(0), 0));
        let mut most = 0;
        // Each demand fetch has three blocks of readahead behind it, of which the disk serves one meanwhile.
        for file in 0..200 {
            let place = |b: Block| Some((DiskId(0), u64::from(b.file.0) * 1000 + u64::from(b.index)));
            machine.reference(Nanos(0), ProcessId(0), Block::new(FileId(file), 0), Met::Steered, place);
            most = most.max(machine.disks[0].queued());
            assert!(machine.cache.len() <= 8);
        }
        assert!((5..8).contains(&most), "{most} queued");
    }

    #[test]
    fn what_the_driver_does_after_the_end_is_not_lost_from_the_stall() {
        let mut machine = machine(&Config::new(100));
        // 5 ms of computing, block 0 in 10 ms, of which the driver takes one half; block 1 is fetched after the end.
        read(&mut machine, 0, 5 * MS);
        machine.exited(ProcessId(0), place);
        let report = machine.report();
        // The fetch of block 1 is begun at the very instant of the end, and the process ends when the driver is done.
        assert_eq!((report.fetches, report.elapsed), (2, Nanos(15 * MS + MS / 2)));
        assert_eq!(report.stall, Nanos(10 * MS - MS / 2));
        // What is left in the queue is fetched while nobody is there, and nobody's stall is less for it.
        let mut machine = self::machine(&Config::new(100));
        for index in [0, 1] {
            read(&mut machine, index, 0);
        }
        let before = machine.report();
        machine.exited(ProcessId(0), place);
        let after = machine.report();
        assert_eq!(after.fetches, 6);
        let passed = after.elapsed.0 - before.elapsed.0;
        assert!(
            after.stall >= before.stall && after.stall.0 <= before.stall.0 + passed,
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn the_references_that_wait_are_bounded_for_all_processes_together() {
        let mut machine = machine(&Config::new(10));
        // 100 processes that go on, and one that does nothing and holds them up.
        machine.computed(ProcessId(100), Nanos(0));
        let mut followed = 0;
        for told in 1..=400_000u32 {
            read_by(&mut machine, told % 100, 0, 0);
            followed += machine.take_followed().count();
            assert!(told as usize - followed <= (1 << 18) + 100, "no more wait");
        }
        assert!(followed > 0);
    }

    #[test]
    fn its_cache_is_as_large_as_ours() {
        let mut machine = machine(&Config::new(3));
        for round in 0..2 {
            for index in [900, 700, 500, 300] {
                read(&mut machine, index, 0);
            }
            assert_eq!(machine.report().fetches, 4 * (round + 1), "LRU misses a cycle of one more");
        }
        machine.resize(1);
        assert_eq!(machine.cache.len(), 1);
    }
}
