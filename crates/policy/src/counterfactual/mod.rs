//! The counterfactual: what would have been waited for on the plain kernel, found out beside the engine.
//!
//! The same references are given to a second, simulated machine that knows nothing of lists or rules:
//!
//! 1. Its cache has as many blocks as ours, replaced by LRU, and is filled by demand and by Linux's readahead
//!    ([`crate::planner`], the same windows). Both are exact, not sampled: a window is a property of all references.
//! 2. Its disks ([`disk`]) serve a queue each in one direction (CSCAN), and a demand fetch overtakes queued readahead. The
//!    time of a request is what requests at the same distance from the one before have been measured to take.
//! 3. Its clock is its own: it advances by the compute times that are told, and by what a reference waits.
//!
//! What it cannot know is the processor time of a fetch, which the plane adds: all of it for a fetch that a disk began
//! while the process computed, none for one that it began while the process waited. Processes take turns as they do in reality, which was shaped by
//! our waits and not by its own. Before the first measured time a request takes none.
//!
//! Memory: as many records as the cache has blocks, and a queue of no more requests for each disk; further readahead is
//! left out. What was read of a file that is removed stays until it is replaced.

mod disk;
mod guard;

use std::collections::HashMap;

use crate::config::Config;
use crate::ids::{Block, DiskId, Nanos};
use crate::planner::Windows;
use crate::pool_policy::PoolPolicy;
use crate::replacement::{Ranking, key_of};
use disk::{AccessTimes, Disk};
pub(crate) use guard::{Cost, Guard};

/// What the plain kernel would have done with the references so far, as far as that can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counterfactual {
    /// Time that references would have waited, the processor time of the fetches begun meanwhile included.
    pub waited: Nanos,
    /// References that would have waited.
    pub waits: u64,
    /// Fetches that disks would have begun while a reference waited.
    pub begun_in_waits: u64,
    /// Blocks that would have been fetched, on demand and by readahead.
    pub fetches: u64,
    /// Compute time that was told.
    pub computed: Nanos,
}

impl Counterfactual {
    /// Time in which the processor would have had nothing to do, where each fetch takes so much of it.
    #[must_use]
    pub fn stall(&self, driver: Nanos) -> Nanos {
        Nanos(self.waited.0.saturating_sub(driver.0.saturating_mul(self.begun_in_waits)))
    }

    /// Elapsed time, where each fetch takes so much of the processor's.
    #[must_use]
    pub fn elapsed(&self, driver: Nanos) -> Nanos {
        let busy = self.computed.0.saturating_add(driver.0.saturating_mul(self.fetches));
        Nanos(busy.saturating_add(self.stall(driver).0))
    }
}

/// Where a block is: its disk, and its address there.
pub(crate) type Place = (DiskId, u64);

/// The machine beside.
#[derive(Debug)]
pub(crate) struct Machine {
    cache: Option<Ranking>,
    cache_blocks: u32,
    windows: Windows,
    most_readahead: u32,
    disks: Vec<Disk>,
    times: AccessTimes,
    /// Blocks that are queued or being fetched, by key, with their disk. Only looked up: nothing depends on its order.
    on_their_way: HashMap<u64, usize>,
    /// Blocks whose fetch has ended, to be taken from there.
    arrived: Vec<u64>,
    clock: u64,
    /// The access time that a disk has just told, until the block is named.
    served: Option<(DiskId, u64)>,
    report: Counterfactual,
}

impl Machine {
    pub(crate) fn new(config: &Config) -> Machine {
        Machine {
            cache: Ranking::new(PoolPolicy::Lru, config.cache_blocks, 1),
            cache_blocks: config.cache_blocks,
            windows: Windows::linux(config),
            most_readahead: config.readahead_blocks.max(1),
            disks: (0..config.disks.max(1)).map(|_| Disk::default()).collect(),
            times: AccessTimes::new(config.disks),
            on_their_way: HashMap::new(),
            arrived: Vec::new(),
            clock: 0,
            served: None,
            report: Counterfactual::default(),
        }
    }

    pub(crate) fn report(&self) -> Counterfactual {
        self.report
    }

    /// A process computed.
    pub(crate) fn computed(&mut self, compute: Nanos) {
        self.clock = self.clock.saturating_add(compute.0);
        self.report.computed = Nanos(self.report.computed.0.saturating_add(compute.0));
    }

    /// A disk of ours has served a request.
    pub(crate) fn served(&mut self, disk: DiskId, access: Nanos) {
        self.served = Some((disk, access.0));
    }

    /// The block that it was is at this place.
    pub(crate) fn loaded(&mut self, (disk, address): Place) {
        if let Some((of, access)) = self.served.take()
            && of == disk
        {
            self.times.measured(disk, address, access);
        }
    }

    /// The cache has another size.
    pub(crate) fn resize(&mut self, cache_blocks: u32) {
        self.cache_blocks = cache_blocks.max(1);
        if let Some(cache) = &mut self.cache {
            cache.set_capacity(self.cache_blocks);
        }
        self.make_room(0);
    }

    /// A process references a block. `place` says where a block is, `None` outside of its file.
    /// Gives what it costs.
    pub(crate) fn reference(&mut self, block: Block, place: impl Fn(Block) -> Option<Place>) -> Cost {
        let before = self.report;
        self.follow(block, place);
        let after = self.report;
        let fetches = after.fetches - before.fetches;
        Cost {
            waited: after.waited.0 - before.waited.0,
            fetches_beside: fetches as i64 - (after.begun_in_waits - before.begun_in_waits) as i64,
        }
    }

    fn follow(&mut self, block: Block, place: impl Fn(Block) -> Option<Place>) {
        let key = key_of(block);
        self.advance();
        let begun = self.begun();
        let Some(cache) = &mut self.cache else { return };
        let waits_for = match cache.find(key) {
            Some(slot) => {
                cache.hit(slot);
                self.on_their_way.get(&key).copied()
            }
            None => {
                let Some(place) = place(block) else { return };
                Some(self.fetch(key, place, true))
            }
        };
        // Readahead is submitted with the demand fetch, before the wait.
        if let Some((from, to)) = self.windows.linux_ahead(block, self.most_readahead) {
            for index in from..to {
                let ahead = Block::new(block.file, index);
                let ahead_key = key_of(ahead);
                let is_absent = self.cache.as_ref().is_some_and(|cache| cache.find(ahead_key).is_none());
                if is_absent
                    && let Some(place) = place(ahead)
                    && self.disks[place.0.0 as usize % self.disks.len()].queued() < self.cache_blocks as usize
                {
                    self.fetch(ahead_key, place, false);
                }
            }
        }
        if let Some(disk) = waits_for {
            self.wait(key, disk);
            self.report.begun_in_waits += self.begun() - begun;
        }
    }

    /// Requests that the disks have begun.
    fn begun(&self) -> u64 {
        self.disks.iter().map(Disk::begun).sum()
    }

    /// Everything that the disks have done up to now.
    fn advance(&mut self) {
        if self.on_their_way.is_empty() {
            return;
        }
        for disk in &mut self.disks {
            disk.advance(self.clock, &self.times, &mut self.arrived);
        }
        for key in self.arrived.drain(..) {
            self.on_their_way.remove(&key);
        }
    }

    fn fetch(&mut self, key: u64, (disk, address): Place, demand: bool) -> usize {
        self.make_room(1);
        if let Some(cache) = &mut self.cache {
            cache.insert(key, 0);
        }
        let number = disk.0 as usize % self.disks.len();
        self.report.fetches += 1;
        self.on_their_way.insert(key, number);
        let times = &self.times;
        self.disks[number].submit(self.clock, key, address, demand, times);
        number
    }

    fn make_room(&mut self, blocks: u32) {
        let Some(cache) = &mut self.cache else { return };
        while cache.len() + blocks > self.cache_blocks
            && let Some(victim) = cache.victim()
        {
            cache.remove(victim, true);
        }
    }

    /// The process waits until the block is there.
    fn wait(&mut self, key: u64, number: usize) {
        let begun = self.clock;
        let disk = &mut self.disks[number];
        while let Some(end) = disk.busy_until() {
            self.clock = self.clock.max(end);
            disk.advance(self.clock, &self.times, &mut self.arrived);
            if self.arrived.contains(&key) {
                break;
            }
        }
        self.report.waits += 1;
        self.report.waited = Nanos(self.report.waited.0.saturating_add(self.clock - begun));
        // The others went on meanwhile.
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    const MS: u64 = 1_000_000;

    /// A disk on which the next block takes 1 ms and any other one 10 ms.
    fn machine(cache_blocks: u32) -> Machine {
        let config = Config { readahead_blocks: 4, ..Config::new(cache_blocks) };
        let mut machine = Machine::new(&config);
        for address in [100, 101, 102, 500, 501, 100, 101] {
            let time = if [101, 102, 501].contains(&address) { MS } else { 10 * MS };
            machine.served(DiskId(0), Nanos(time));
            machine.loaded((DiskId(0), address));
        }
        machine
    }

    fn read(machine: &mut Machine, index: u32, compute: u64) {
        machine.computed(Nanos(compute));
        let place = |b: Block| (b.index < 1000).then_some((DiskId(0), 1000 + u64::from(b.index)));
        machine.reference(Block::new(FileId(0), index), place);
    }

    #[test]
    fn a_scan_by_hand() {
        let mut machine = machine(100);
        // Block 0: 10 ms; a window of two (0, 1), of which 1 takes 1 ms and is there after 5 ms of computing.
        read(&mut machine, 0, 5 * MS);
        assert_eq!(
            machine.report(),
            Counterfactual {
                waited: Nanos(10 * MS),
                waits: 1,
                begun_in_waits: 2,
                fetches: 2,
                computed: Nanos(5 * MS)
            }
        );
        // At the marker the next window of four is fetched: 2 to 5, which take 1 ms each.
        read(&mut machine, 1, 5 * MS);
        assert_eq!((machine.report().waits, machine.report().fetches), (1, 6));
        // Block 2 has 1 ms and is there; block 5 would be there after 4 ms.
        read(&mut machine, 2, 2 * MS);
        assert_eq!(machine.report().waits, 1);
        // Again: a hit.
        read(&mut machine, 0, 0);
        assert_eq!(machine.report().waits, 1);
        let report = machine.report();
        let driver = Nanos(MS / 2);
        assert_eq!(report.stall(driver), Nanos(10 * MS - 2 * (MS / 2)));
        let fetches = report.fetches * MS / 2;
        assert_eq!(report.elapsed(driver), Nanos(12 * MS + fetches + 10 * MS - 2 * (MS / 2)));
    }

    #[test]
    fn its_queues_are_no_longer_than_its_cache() {
        let mut machine = Machine::new(&Config { readahead_blocks: 64, ..Config::new(8) });
        machine.served(DiskId(0), Nanos(MS));
        machine.loaded((DiskId(0), 0));
        let mut most = 0;
        // Each demand fetch has three blocks of readahead behind it, of which the disk serves one meanwhile.
        for file in 0..200 {
            let place = |b: Block| Some((DiskId(0), u64::from(b.file.0) * 1000 + u64::from(b.index)));
            machine.reference(Block::new(FileId(file), 0), place);
            most = most.max(machine.disks[0].queued());
            assert!(machine.cache.as_ref().is_some_and(|cache| cache.len() <= 8));
        }
        assert_eq!(most, 8 - 1, "full, but for the one that is being served");
    }

    #[test]
    fn its_cache_is_as_large_as_ours() {
        let mut machine = machine(3);
        for round in 0..2 {
            for index in [900, 700, 500, 300] {
                read(&mut machine, index, 0);
            }
            assert_eq!(machine.report().fetches, 4 * (round + 1), "LRU misses a cycle of one more");
        }
        machine.resize(1);
        assert_eq!(machine.cache.as_ref().map(Ranking::len), Some(1));
        assert!(machine.on_their_way.is_empty() && machine.arrived.is_empty());
    }
}
