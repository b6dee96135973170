//! A disk of the machine beside, and how long its requests take.
//!
//! The time of a request depends on how far it is from the one before. Distances are put into classes: the next block,
//! and powers of two of blocks in either direction. Each class has the mean of what was measured in it lately; one in
//! which nothing was measured has the nearest one's that is further, or else nearer.

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

/// What was measured.
#[derive(Debug)]
pub(super) struct AccessTimes {
    /// Where our own disks are.
    heads: Vec<Option<u64>>,
    /// Mean in ns, and how many it was taken of.
    classes: [(f64, f64); CLASSES],
}

impl AccessTimes {
    pub(super) fn new(disks: u16) -> AccessTimes {
        AccessTimes { heads: vec![None; disks.max(1) as usize], classes: [(0.0, 0.0); CLASSES] }
    }

    /// A disk of ours has served this address.
    pub(super) fn measured(&mut self, disk: DiskId, address: u64, ns: u64) {
        let Some(head) = self.heads.get_mut(disk.0 as usize) else { return };
        let before = head.replace(address);
        let (mean, count) = &mut self.classes[before.map_or(0, |before| class(before, address))];
        *count = (*count + 1.0).min(REMEMBERED);
        *mean += (ns as f64 - *mean) / *count;
    }

    /// How long a request takes, in ns.
    fn expected(&self, from: Option<u64>, to: u64) -> u64 {
        let at = from.map_or(0, |from| class(from, to));
        let is_known = |&class: &usize| self.classes[class].1 > 0.0;
        let (up, down) = (at..CLASSES, 0..at);
        let found = if at >= NEXT {
            up.clone().find(is_known).or_else(|| down.clone().rev().find(is_known))
        } else {
            (0..=at).rev().find(is_known).or_else(|| up.clone().find(is_known))
        };
        found.map_or(0, |class| self.classes[class].0 as u64)
    }
}

/// A request.
#[derive(Debug, Clone, Copy)]
struct Request {
    key: u64,
    address: u64,
}

/// A disk with its queue. One demand fetch at most waits at a time, as the process that asked for it does.
#[derive(Debug, Default)]
pub(super) struct Disk {
    head: Option<u64>,
    serving: Option<(Request, u64)>,
    /// Requests begun so far.
    begun: u64,
    demand: Option<Request>,
    /// Readahead that waits, in no order.
    queue: Vec<Request>,
}

impl Disk {
    /// When the present request ends.
    pub(super) fn busy_until(&self) -> Option<u64> {
        self.serving.map(|(_, end)| end)
    }

    /// Requests that wait.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Requests begun so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn submit(&mut self, now: u64, key: u64, address: u64, demand: bool, times: &AccessTimes) {
        let request = Request { key, address };
        match (demand, self.demand) {
            (true, None) => self.demand = Some(request),
            _ => self.queue.push(request),
        }
        if self.serving.is_none() {
            self.start(now, times);
        }
    }

    /// Everything that ends up to `now`; the keys of what has ended go to `arrived`.
    pub(super) fn advance(&mut self, now: u64, times: &AccessTimes, arrived: &mut Vec<u64>) {
        while let Some((request, end)) = self.serving.filter(|(_, end)| *end <= now) {
            arrived.push(request.key);
            self.serving = None;
            self.start(end, times);
        }
    }

    /// Starts the demand fetch, or the next address in the direction of the arm, or the first one.
    fn start(&mut self, now: u64, times: &AccessTimes) {
        let request = self.demand.take().or_else(|| {
            let head = self.head.unwrap_or(0);
            let next = self.queue.iter().enumerate().min_by_key(|(_, r)| (r.address < head, r.address))?.0;
            Some(self.queue.swap_remove(next))
        });
        let Some(request) = request else { return };
        let end = now.saturating_add(times.expected(self.head, request.address));
        self.head = Some(request.address);
        self.begun += 1;
        self.serving = Some((request, end));
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
    fn what_was_not_measured_is_taken_from_what_is_further() {
        let mut times = AccessTimes::new(1);
        assert_eq!(times.expected(Some(1), 2), 0);
        for (address, ns) in [(100, 7), (101, 10), (102, 20), (1102, 900)] {
            times.measured(DiskId(0), address, ns);
        }
        assert_eq!(times.expected(Some(1), 2), 15);
        assert_eq!(times.expected(Some(1), 5), 900);
        assert_eq!(times.expected(Some(1), 1 << 20), 900);
        assert_eq!(times.expected(Some(50), 1), 7, "far backwards, as the first one");
        assert_eq!(times.expected(None, 1), 7);
    }

    #[test]
    fn demand_overtakes_and_the_rest_is_served_in_one_direction() {
        let mut times = AccessTimes::new(1);
        times.measured(DiskId(0), 0, 10);
        let mut disk = Disk::default();
        for (key, address, demand) in
            [(1, 50, false), (2, 80, false), (3, 60, false), (4, 20, false), (5, 70, true)]
        {
            disk.submit(0, key, address, demand, &times);
        }
        let mut arrived = Vec::new();
        disk.advance(1000, &times, &mut arrived);
        assert_eq!(arrived, [1, 5, 2, 4, 3]);
        assert_eq!(disk.busy_until(), None);
    }
}
