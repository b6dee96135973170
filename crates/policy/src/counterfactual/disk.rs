//! A disk of the machine beside, and how long its requests take.
//!
//! The time of a request depends on how far it is from the one before. Distances are put into classes: the next block,
//! and powers of two of blocks in either direction. Each class has the mean of what was measured in it lately, or else that
//! of the same distance in the other direction. One of which neither was measured lies between the next ones that were, as
//! the time of a seek does: by the root of its distance. Where lists are followed, an arm goes through many short distances
//! and back over the longest ones, and those in between are what it goes without them.
//!
//! A device that serves several requests at a time is one with as many *channels*. How many is seen from what ours did:
//! the most services of which the times overlapped. Their distances are those between one and the next that began, so an
//! ended one waits until those that began before it have most likely ended as well: for two more of each other channel.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::DiskId;

/// Classes of distances: powers of two up to 2^30 in either direction, and the next block.
const CLASSES: usize = 64;

/// The class of the next block.
const NEXT: usize = 32;

/// Measured times over which a mean is taken: long enough for a mean, short enough for another file system.
const REMEMBERED: f64 = 512.0;

/// The class of a distance: far backwards, back, the same block, the next one, on, far on.
fn class(from: u64, to: u64) -> usize {
    let distance = to.wrapping_sub(from) as i64;
    let log2 = |n: u64| (n.max(1).ilog2() as usize).min(29);
    match distance {
        1 => NEXT,
        2.. => NEXT + 1 + log2(distance.unsigned_abs()),
        _ => NEXT - 1 - log2(distance.unsigned_abs()),
    }
}

/// The most requests that a device is taken to serve at a time: as many as one of the simulator may have.
const CHANNELS: u32 = 65_536;

/// How many services of one of our disks were under way at a time, at the most.
///
/// There are most of them just before one of them ends. Each that ends later and began before adds one there: a service
/// adds one to all that ended since it began, which are the last ones. So one of which the count is no higher than a later
/// one's will never be higher, and is forgotten: there are no more records than the highest count.
#[derive(Debug, Clone, Default)]
struct UnderWay {
    /// Services by their ends, and by how much the count of each is higher than the next one's.
    ended: Vec<(u64, u32)>,
    /// The count of the first one, which is the highest.
    most: u32,
}

impl UnderWay {
    /// A service from `begun` to `ended` has ended, after all others so far. Gives the most that were under way.
    fn ended(&mut self, begun: u64, ended: u64) -> u32 {
        if begun >= ended {
            return self.most;
        }
        let before = self.ended.partition_point(|&(end, _)| end <= begun);
        if before == 0 && self.most == CHANNELS {
            return self.most;
        }
        self.ended.push((ended, 1));
        match before.checked_sub(1) {
            None => self.most += 1,
            Some(last) => {
                self.ended[last].1 -= 1;
                if self.ended[last].1 == 0 {
                    self.ended.remove(last);
                }
            }
        }
        self.most
    }
}

/// What was measured.
#[derive(Debug)]
pub(super) struct AccessTimes {
    /// Where our own disks are.
    heads: Vec<Option<u64>>,
    /// Services that have ended, by their beginnings, of each disk: address and time. No more than two a channel.
    ended: Vec<BinaryHeap<Reverse<(u64, u64, u64)>>>,
    /// Mean in ns, and how many it was taken of.
    classes: [(f64, f64); CLASSES],
    /// Of each disk.
    under_way: Vec<UnderWay>,
    /// Requests that a disk serves at a time.
    channels: u32,
}

impl AccessTimes {
    pub(super) fn new(disks: u16) -> AccessTimes {
        let disks = disks.max(1) as usize;
        AccessTimes {
            heads: vec![None; disks],
            ended: vec![BinaryHeap::new(); disks],
            classes: [(0.0, 0.0); CLASSES],
            under_way: vec![UnderWay::default(); disks],
            channels: 1,
        }
    }

    /// A disk of ours has ended a service at `now` that took so long.
    pub(super) fn served(&mut self, now: u64, disk: DiskId, ns: u64) {
        if let Some(under_way) = self.under_way.get_mut(disk.0 as usize) {
            self.channels = self.channels.max(under_way.ended(now.saturating_sub(ns), now));
        }
    }

    /// The service that has just ended was of this address, and began at `begun`.
    pub(super) fn measured(&mut self, disk: DiskId, address: u64, begun: u64, ns: u64) {
        let number = disk.0 as usize;
        let Some(ended) = self.ended.get_mut(number) else { return };
        ended.push(Reverse((begun, address, ns)));
        let waiting = 2 * (self.channels as usize - 1);
        if ended.len() <= waiting {
            // Until distances are known, this is what everything takes.
            return self.note(0, ns);
        }
        while self.ended[number].len() > waiting
            && let Some(Reverse((_, address, ns))) = self.ended[number].pop()
        {
            let before = self.heads[number].replace(address);
            self.note(before.map_or(0, |before| class(before, address)), ns);
        }
    }

    fn note(&mut self, class: usize, ns: u64) {
        let (mean, count) = &mut self.classes[class];
        *count = (*count + 1.0).min(REMEMBERED);
        *mean += (ns as f64 - *mean) / *count;
    }

    /// How long a request takes, in ns.
    fn expected(&self, from: Option<u64>, to: u64) -> u64 {
        let at = from.map_or(0, |from| class(from, to));
        let (nearer, further) = if at > NEXT {
            (self.first_of((NEXT..at).rev()), self.first_of(at..CLASSES))
        } else if at < NEXT {
            (self.first_of(at + 1..=NEXT), self.first_of((0..=at).rev()))
        } else {
            (None, self.first_of(NEXT..CLASSES))
        };
        match (nearer, further) {
            // Until distances are known.
            (None, None) => self.classes[0].0 as u64,
            (Some((_, ns)), None) | (None, Some((_, ns))) => ns as u64,
            (Some((near, near_ns)), Some((far, far_ns))) => {
                let root = |class: usize| (class.abs_diff(NEXT) as f64 / 2.0).exp2();
                let share = (root(at) - root(near)) / (root(far) - root(near));
                (near_ns + share * (far_ns - near_ns)) as u64
            }
        }
    }

    /// The first of these classes in which something was measured, or in that of the same distance in the other direction,
    /// and the mean.
    fn first_of(&self, mut classes: impl Iterator<Item = usize>) -> Option<(usize, f64)> {
        let mean = |class: usize| self.classes.get(class).filter(|of| of.1 > 0.0).map(|of| of.0);
        classes.find_map(|class| Some((class, mean(class).or_else(|| mean(2 * NEXT - class))?)))
    }
}

/// A request.
#[derive(Debug, Clone, Copy)]
struct Request {
    key: u64,
    address: u64,
}

/// A disk with its queues.
#[derive(Debug, Default)]
pub(super) struct Disk {
    head: Option<u64>,
    /// When what is being served ends, the how manieth request it is, and its key: as many as there are channels.
    serving: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// Requests that were begun.
    begun: u64,
    /// Demand fetches and readahead that wait, in no order. A process waits for one block at a time.
    demand: Vec<Request>,
    queue: Vec<Request>,
}

impl Disk {
    /// When the next request ends.
    pub(super) fn busy_until(&self) -> Option<u64> {
        self.serving.peek().map(|&Reverse((end, ..))| end)
    }

    /// Requests of readahead that wait.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Takes a request; says how many are begun at once.
    pub(super) fn submit(
        &mut self,
        now: u64,
        key: u64,
        address: u64,
        demand: bool,
        times: &AccessTimes,
    ) -> usize {
        let queue = if demand { &mut self.demand } else { &mut self.queue };
        queue.push(Request { key, address });
        self.start(now, times)
    }

    /// Ends the request that ends first, if it has ended by `now`; gives its key, and how many are begun then.
    pub(super) fn end_one(&mut self, now: u64, times: &AccessTimes) -> Option<(u64, usize)> {
        let &Reverse((end, _, key)) = self.serving.peek()?;
        if end > now {
            return None;
        }
        self.serving.pop();
        Some((key, self.start(end, times)))
    }

    /// Starts demand fetches, then readahead, on the channels that are free; of each the next address in the direction of
    /// the arm, or the first one.
    fn start(&mut self, now: u64, times: &AccessTimes) -> usize {
        let mut begun = 0;
        while self.serving.len() < times.channels as usize {
            let head = self.head.unwrap_or(0);
            let queue = if self.demand.is_empty() { &mut self.queue } else { &mut self.demand };
            let next = queue.iter().enumerate().min_by_key(|(_, r)| (r.address < head, r.address));
            let Some((next, _)) = next else { break };
            let request = queue.swap_remove(next);
            let end = now.saturating_add(times.expected(self.head, request.address));
            self.head = Some(request.address);
            self.begun += 1;
            self.serving.push(Reverse((end, self.begun, request.key)));
            begun += 1;
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_by_hand() {
        assert_eq!(
            [class(5, 6), class(5, 7), class(5, 5 + 4), class(5, 5), class(5, 4)],
            [32, 34, 35, 31, 31]
        );
        assert_eq!(class(0, u64::MAX / 2), 32 + 1 + 29);
        assert_eq!(class(u64::MAX / 2, 0), 31 - 29);
    }

    #[test]
    fn what_was_not_measured_lies_between_what_was() {
        let mut times = AccessTimes::new(1);
        assert_eq!(times.expected(Some(1), 2), 0);
        for (address, ns) in [(100, 7), (101, 10), (102, 20), (1102, 900)] {
            times.measured(DiskId(0), address, 0, ns);
        }
        assert_eq!(times.expected(Some(1), 2), 15);
        // 4 and 49 blocks: the roots of their classes are 2.8 and 8, of what was measured 1 and 32.
        assert_eq!(times.expected(Some(1), 5), 15 + 52);
        assert_eq!(times.expected(Some(50), 1), 15 + 199, "backwards as forwards");
        assert_eq!(times.expected(Some(1), 1 << 20), 900, "no further than what was measured");
        assert_eq!(times.expected(None, 1), 7);
    }

    #[test]
    fn demand_overtakes_and_the_rest_is_served_in_one_direction() {
        let mut times = AccessTimes::new(1);
        times.measured(DiskId(0), 0, 0, 10);
        let mut disk = Disk::default();
        for (key, address, demand) in
            [(1, 50, false), (2, 80, false), (3, 60, false), (4, 20, false), (5, 70, true)]
        {
            disk.submit(0, key, address, demand, &times);
        }
        let arrived: Vec<u64> =
            std::iter::from_fn(|| disk.end_one(1000, &times).map(|(key, _)| key)).collect();
        assert_eq!(arrived, [1, 5, 2, 4, 3]);
        assert_eq!(disk.busy_until(), None);
    }

    #[test]
    fn most_under_way_as_counted_at_each_instant() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        for round in 0..200 {
            let (mut under_way, mut services, mut now) = (UnderWay::default(), Vec::new(), 100);
            for _ in 0..40 {
                now += next(1 + round % 7);
                let begun = now - next(20);
                services.push((begun, now));
                let at = |t: u64| services.iter().filter(|&&(begun, ended)| begun <= t && t < ended).count();
                let most = (0..now).map(at).max().unwrap_or(0);
                assert_eq!(under_way.ended(begun, now) as usize, most, "{services:?}");
                assert!(under_way.ended.len() <= most);
            }
        }
    }

    #[test]
    fn no_more_channels_than_a_device_may_have() {
        let mut times = AccessTimes::new(1);
        for i in 0..70_000 {
            times.served(100_000 + i, DiskId(0), 100_000);
        }
        assert_eq!(times.channels, CHANNELS);
        assert_eq!(times.under_way[0].ended.len(), CHANNELS as usize);
    }

    #[test]
    fn distances_are_those_in_the_order_of_the_beginnings() {
        let mut times = AccessTimes::new(1);
        times.channels = 2;
        // One after the other address, begun in that order; each odd one ends before the even one before it.
        for pair in 0..100u64 {
            for (i, ns) in [(1, 5), (0, 20)] {
                let address = 2 * pair + i;
                times.measured(DiskId(0), address, 10 * address, ns);
            }
        }
        assert_eq!(times.ended[0].len(), 2);
        let known: Vec<usize> = (1..CLASSES).filter(|&class| times.classes[class].1 > 0.0).collect();
        assert_eq!(known, [NEXT], "but for the first ones, which are as far as can be");
    }

    #[test]
    fn channels_are_seen_where_services_overlap() {
        let mut times = AccessTimes::new(2);
        // One after the other, on two disks at once.
        for now in [10, 20, 30] {
            times.served(now, DiskId(0), 10);
            times.served(now, DiskId(1), 10);
        }
        assert_eq!(times.channels, 1);
        // From 30 to 44, 31 to 45 and 33 to 48; then one behind them.
        for (now, ns) in [(44, 14), (45, 14), (48, 15), (58, 10)] {
            times.served(now, DiskId(0), ns);
        }
        assert_eq!(times.channels, 3);
        times.measured(DiskId(0), 0, 0, 10);
        let mut disk = Disk::default();
        let begun: usize = (0..5).map(|key| disk.submit(0, key, 100 * key, false, &times)).sum();
        assert_eq!((begun, disk.queued(), disk.busy_until()), (3, 2, Some(10)));
    }
}
