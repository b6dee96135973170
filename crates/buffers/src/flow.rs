//! How many requests to have under way: as many as the store shows to be worth it.
//!
//! The rule is that of the page cache's devices (`crates/pagecache/src/disk.rs`), without what concerns arms and without
//! requests that are sent alone to be timed, for which a store with many milliseconds to the first byte would stand idle:
//!
//! - *A request alone* takes the shortest time to the first byte that was seen lately, and for each of its bytes the
//!   shortest time that was seen. Both are the lowest of the last 512 to 1,024 requests.
//! - *The time between two ends* while requests are under way is a mean that forgets. It falls as long as more requests at
//!   a time bring more bytes.
//! - *A slow request* is one whose first byte is late beyond what is usual: the mean and four mean deviations. A second one is
//!   made for it (`request.rs`), for no more than one in twenty.
//! - *The limit* is as many as end within 20 ms more than one alone takes. As long as the store has room the time between
//!   ends falls with the limit, which so rises by a part each time; where the network is full it stands still.

/// No reader should wait longer behind what is fetched ahead: as on the page cache.
const QUEUE_NS: f64 = 20e6;
/// Requests under way before anything is known, and the least: as on the page cache.
const START_REQUESTS: usize = 4;
const LEAST_REQUESTS: usize = 2;
/// What is left of an old sample when a new one comes: the last 32 count.
const KEEP: f64 = 31.0 / 32.0;
/// Requests after which the lowest of those before is forgotten.
const REMEMBERED: u32 = 512;
/// Requests that must have been seen before one can be called slow.
const KNOWN: u32 = 32;
/// A request is slow when its first byte is later than the mean by so many mean deviations: as TCP takes a packet for lost
/// (RFC 6298).
const SLOW_DEVIATIONS: f64 = 4.0;
/// Nothing is slow before: on a busy machine threads wait as long for a processor, and what is asked twice comes no sooner.
const SLOW_LEAST_NS: f64 = 50e6;
/// Parts of a request are taken for as many as those of the last ones, times this, so that requests can grow.
const GROWTH: f64 = 2.0;

/// The lowest of the last values.
#[derive(Debug, Clone, Copy)]
struct Lowest {
    now: f64,
    before: f64,
    count: u32,
}

impl Lowest {
    const fn new() -> Lowest {
        Lowest { now: f64::INFINITY, before: f64::INFINITY, count: 0 }
    }

    fn push(&mut self, value: f64) {
        self.now = self.now.min(value);
        self.count += 1;
        if self.count >= REMEMBERED {
            *self = Lowest { now: f64::INFINITY, before: self.now, count: 0 };
        }
    }

    /// 0 before the first one.
    fn get(self) -> f64 {
        let lowest = self.now.min(self.before);
        if lowest.is_finite() { lowest } else { 0.0 }
    }
}

/// A mean that forgets exponentially.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    weight: f64,
    sum: f64,
}

impl Mean {
    fn push(&mut self, value: f64) {
        self.weight = self.weight * KEEP + 1.0;
        self.sum = self.sum * KEEP + value;
    }

    fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    began_ns: u64,
    parts: usize,
    whole: bool,
}

/// What has been seen of the store. Times are nanoseconds from any one moment.
#[derive(Debug)]
pub(crate) struct Flow {
    most: usize,
    first_byte_ns: Lowest,
    /// The same as a mean, and how far from it they are.
    first_byte_mean_ns: Mean,
    first_byte_deviation_ns: Mean,
    seen: u32,
    ns_a_byte: Lowest,
    between_ns: Mean,
    bytes: Mean,
    parts: Mean,
    /// 1 for a request of a whole object, 0 for one of a part of it.
    whole: Mean,
    ended_ns: u64,
    under_way: usize,
    /// Requests under way besides, which have lent their places.
    silent: usize,
}

impl Flow {
    /// With `most` requests at a time.
    pub(crate) fn new(most: usize) -> Flow {
        Flow {
            most,
            first_byte_ns: Lowest::new(),
            first_byte_mean_ns: Mean::default(),
            first_byte_deviation_ns: Mean::default(),
            seen: 0,
            ns_a_byte: Lowest::new(),
            between_ns: Mean::default(),
            bytes: Mean::default(),
            parts: Mean::default(),
            whole: Mean::default(),
            ended_ns: 0,
            under_way: 0,
            silent: 0,
        }
    }

    /// A request begins, of so many parts, which are a whole object or not.
    pub(crate) fn begin(&mut self, now_ns: u64, parts: usize, whole: bool) -> Ticket {
        self.under_way += 1;
        Ticket { began_ns: now_ns, parts, whole }
    }

    /// A request that is not answered does not count any more. No more than as many as may be under way: a store that is only slow is
    /// not asked for ever more.
    pub(crate) fn lend(&mut self) -> bool {
        let may = self.silent < self.most && self.under_way > 0;
        self.silent += usize::from(may);
        self.under_way -= usize::from(may);
        may
    }

    /// One that did not count does again.
    pub(crate) fn take_back(&mut self) {
        self.silent -= 1;
        self.under_way += 1;
    }

    /// Requests under way, those that have lent their places as well.
    pub(crate) fn all(&self) -> usize {
        self.under_way + self.silent
    }

    /// A request has ended, of which `bytes` came from `first_ns` on. Gives how long the store worked on it: since it
    /// began, or since the one before ended; `None` if it failed.
    pub(crate) fn end(
        &mut self,
        now_ns: u64,
        ticket: Ticket,
        first_ns: Option<u64>,
        bytes: u64,
    ) -> Option<u64> {
        self.under_way = self.under_way.saturating_sub(1);
        let between_ns = now_ns.saturating_sub(self.ended_ns.max(ticket.began_ns));
        self.ended_ns = self.ended_ns.max(now_ns);
        let first_ns = first_ns.filter(|_| bytes > 0)?;
        let waited_ns = first_ns.saturating_sub(ticket.began_ns) as f64;
        self.first_byte_ns.push(waited_ns);
        let off_ns = (waited_ns - self.first_byte_mean_ns.get().unwrap_or(waited_ns)).abs();
        self.first_byte_deviation_ns.push(off_ns);
        self.first_byte_mean_ns.push(waited_ns);
        self.seen = self.seen.saturating_add(1);
        self.ns_a_byte.push(now_ns.saturating_sub(first_ns) as f64 / bytes as f64);
        self.between_ns.push(between_ns as f64);
        self.bytes.push(bytes as f64);
        self.parts.push(ticket.parts as f64);
        self.whole.push(f64::from(u8::from(ticket.whole)));
        Some(between_ns)
    }

    /// A request whose first byte has not come after so long is slow; `None` as long as too few were seen.
    pub(crate) fn slow_after_ns(&self) -> Option<u64> {
        let (mean_ns, off_ns) = (self.first_byte_mean_ns.get()?, self.first_byte_deviation_ns.get()?);
        let after_ns = (mean_ns + SLOW_DEVIATIONS * off_ns).max(SLOW_LEAST_NS);
        (self.seen >= KNOWN).then_some(after_ns as u64)
    }

    /// Requests that may be under way when somebody waits.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Requests that may be under way when what is fetched ahead is asked for.
    pub(crate) fn requests(&self) -> usize {
        let (Some(between_ns), Some(bytes)) = (self.between_ns.get(), self.bytes.get()) else {
            return START_REQUESTS.min(self.most);
        };
        let alone_ns = self.first_byte_ns.get() + self.ns_a_byte.get() * bytes;
        let worth = ((QUEUE_NS + alone_ns) / between_ns.max(1.0)) as usize;
        worth.clamp(LEAST_REQUESTS.min(self.most), self.most)
    }

    /// Are most requests for neighbours in larger objects, and not for small objects or for parts here and there?
    pub(crate) fn is_in_order(&self) -> bool {
        self.parts.get().is_some_and(|parts| parts > 1.0) && self.whole.get().is_some_and(|whole| whole < 0.5)
    }

    /// Parts that one request may be expected to fetch, 1 to `most`.
    pub(crate) fn parts_a_request(&self, most: usize) -> usize {
        let mean = self.parts.get().unwrap_or(1.0);
        // As long as requests are of one part each, there are no neighbours to be fetched with it.
        if mean <= 1.0 { 1 } else { ((GROWTH * mean) as usize).clamp(1, most.max(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that takes 15 ms to the first byte and then sends all requests at a rate of 200 MB/s together.
    fn settle(bytes: u64, most: usize) -> Vec<usize> {
        let mut flow = Flow::new(most);
        let (mut now_ns, mut free_ns) = (0_u64, 0_u64);
        let mut under_way: Vec<(u64, Ticket, u64)> = Vec::new();
        let mut limits = Vec::new();
        for _ in 0..2000 {
            while flow.under_way() < flow.requests() {
                let ticket = flow.begin(now_ns, 1, false);
                let first_ns = free_ns.max(now_ns + 15_000_000);
                free_ns = first_ns + bytes * 5;
                under_way.push((free_ns, ticket, first_ns));
            }
            let (ended_ns, ticket, first_ns) = under_way.remove(0);
            now_ns = ended_ns;
            flow.end(now_ns, ticket, Some(first_ns), bytes);
            limits.push(flow.requests());
        }
        limits
    }

    #[test]
    fn small_requests_fill_the_way_to_the_store() {
        let limits = settle(50 << 10, 64);
        // 50 KiB take 0.256 ms of the network: 60 of them are under way at 15 ms.
        assert!(limits[1999] >= 60, "{:?}", limits.last());
    }

    #[test]
    fn large_requests_do_not_queue() {
        let limits = settle(8 << 20, 64);
        assert!(limits[1000..].iter().all(|&limit| limit <= 3), "{:?}", limits.iter().max());
    }

    #[test]
    fn no_more_than_was_allowed() {
        assert!(settle(50 << 10, 7).iter().all(|&limit| limit <= 7));
        assert!(settle(50 << 10, 1).iter().all(|&limit| limit == 1));
    }

    #[test]
    fn what_is_slow_is_far_from_what_is_usual() {
        let mut flow = Flow::new(64);
        for at in 0..200 {
            let ticket = flow.begin(0, 1, false);
            assert_eq!(flow.slow_after_ns().is_some(), at >= u64::from(KNOWN));
            // 30 or 50 ms to the first byte.
            flow.end(60_000_000, ticket, Some(30_000_000 + at % 2 * 20_000_000), 1000);
        }
        let after_ns = flow.slow_after_ns().unwrap();
        assert!((70_000_000..90_000_000).contains(&after_ns), "{after_ns}");
    }

    #[test]
    fn no_more_requests_lend_their_places_than_there_are() {
        let mut flow = Flow::new(2);
        let tickets: Vec<_> = (0..2).map(|_| flow.begin(0, 1, false)).collect();
        assert!(flow.lend() && flow.lend() && !flow.lend());
        assert_eq!((flow.under_way(), flow.all()), (0, 2));
        flow.begin(0, 1, false);
        assert!(!flow.lend(), "the places of as many as may be are lent");
        assert_eq!(flow.all(), 3);
        for ticket in tickets {
            flow.take_back();
            flow.end(1, ticket, None, 0);
        }
        assert_eq!((flow.under_way(), flow.all()), (1, 1));
    }

    #[test]
    fn what_failed_says_nothing_of_times() {
        let mut flow = Flow::new(64);
        let ticket = flow.begin(0, 1, false);
        assert_eq!(flow.end(1_000_000_000, ticket, None, 0), None);
        assert_eq!((flow.under_way(), flow.requests()), (0, START_REQUESTS));
    }
}
