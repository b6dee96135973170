//! A device as its own requests show it: how long it takes to position, how quick it is, how much it does at a time.
//!
//! Nothing is set by hand. Each of our requests is timed from its start to its end, and three things are kept
//! of the device:
//!
//! - *A request alone* takes a + b times its bytes: the line below the last few of them, which hiccups do not move. To see the device alone, the first few requests go out one at a time, and
//!   later one in a while does, small ones and large ones in turn. Those that found the device busy with what somebody
//!   else asked for took longer: they count only until there are enough others.
//! - *The time between two ends* while the device is busy. It says how much the device serves at a time: a device with
//!   several channels ends a request every so often although each takes long. It is an average that forgets
//!   exponentially, in which a time far above it counts as a few times the average.
//! - *The same of scattered requests beside others*, less b times their bytes, the median of the last ones: the part of
//!   positioning that parallelism does not hide.
//!
//! What follows from them. The *largest request* is the one of which positioning is a tenth: larger ones gain nothing,
//! smaller ones waste the device. It takes no longer than 20 ms, unless positioning alone takes half of that: then it is
//! the one of which positioning is a half; on a disk with an arm 40 ms. The *requests in flight* are as many as end within 20 ms more
//! than one alone takes, and two at least, so that few demand reads wait longer than that behind them. The device has an *arm* when scattered requests take 3 ms or more to position and
//! two at a time are no quicker: then their order matters, and what lies between two blocks is read along with them if
//! that takes less than to position again ([`crate::fetching`]).
//!
//! The estimate knows no clock and no device.

use std::collections::VecDeque;

use super::line::{ENOUGH, Line, Mean, START_NS_A_BYTE, Sample};

/// No demand read should wait longer behind our requests.
const QUEUE_NS: f64 = 20e6;
/// Requests in flight at most, however quick the device.
const MOST_REQUESTS: usize = 64;
/// The largest request before anything is known, the smallest largest one, and the largest.
const START_BYTES: u64 = 256 << 10;
const LEAST_BYTES: u64 = 128 << 10;
const MOST_BYTES: u64 = 1 << 20;
/// The largest request to a device with an arm, where each saves milliseconds, and what it may take to read it: two files
/// that are read in turn are read a third faster than with half of it.
pub(super) const MOST_ARM_BYTES: u64 = 4 << 20;
const ARM_READ_NS: f64 = 40e6;
/// Largest requests are multiples of it.
const STEP_BYTES: u64 = 64 << 10;
/// Requests in flight before anything is known.
const START_REQUESTS: usize = 4;
/// Positioning is this part of the largest request's time.
const POSITIONING_PART: f64 = 0.1;
/// Requests that go out alone at first; then every eighth, until there are so many that some of them may be wrong.
const FIRST_PROBES: u64 = 4;
const EARLY_PROBES: u64 = 16;
const EARLY_REQUESTS: u64 = 8;
/// Afterwards one goes out alone when so many have ended and so much time has passed.
const PROBE_REQUESTS: u64 = 64;
const PROBE_NS: u64 = 1_000_000_000;
/// Largest of the small ones among those, and the least of the large ones.
const PROBE_BYTES: u64 = 64 << 10;
const LARGE_PROBE_BYTES: u64 = 512 << 10;
/// Positioning from which on a device may have an arm.
const ARM_NS: f64 = 3e6;
/// Part of positioning that two requests at a time must still take for the device to be taken for one with an arm, and
/// below which it is not any more. Two channels leave a half or less; requests in order on a disk about two thirds.
const ARM_PART: f64 = 0.7;
const NO_ARM_PART: f64 = 0.45;
/// Part of the arm's movement that reading what it passes over may take: the estimate of either may be wrong by some,
/// and what is read in vain takes memory for a moment.
const GAP_PART: f64 = 0.75;
/// Requests beside others that are remembered.
const BESIDE: usize = 32;
/// Quicker than this no device is: the data was in memory already, and the time says nothing.
const MEMORY_NS: f64 = 5_000.0;
const MEMORY_NS_A_BYTE: f64 = 1.0 / 20.0;

/// The one in the middle; of an even number, the lower one.
fn lower_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Puts a value behind the others; the last [`BESIDE`] stay.
fn remember<T>(values: &mut VecDeque<T>, value: T) {
    if values.len() >= BESIDE {
        values.pop_front();
    }
    values.push_back(value);
}

/// A request that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    began_ns: u64,
    bytes: u64,
    /// Requests that had begun before it.
    number: u64,
    /// None was under way when it began.
    first: bool,
    /// It does not go on where the one before it ended.
    scattered: bool,
    /// The device was busy with what others had asked for.
    delayed: bool,
}

/// The estimate. Times are nanoseconds from any one moment.
#[derive(Debug)]
pub(crate) struct Service {
    scattered: Line,
    following: Line,
    /// Time between two ends while busy, and the bytes that came meanwhile.
    between: Mean,
    between_bytes: Mean,
    /// That of the last scattered requests beside others, and their bytes.
    beside: VecDeque<(f64, f64)>,
    has_arm: bool,
    begun: u64,
    under_way: usize,
    ended_ns: Option<u64>,
    /// Ended alone, ever.
    alone: u64,
    /// When the last one ended alone, and how many had begun by then.
    probed: (u64, u64),
    now_ns: u64,
}

impl Service {
    pub(crate) fn new() -> Service {
        Service {
            scattered: Line::new(),
            following: Line::new(),
            between: Mean::default(),
            between_bytes: Mean::default(),
            beside: VecDeque::with_capacity(BESIDE),
            has_arm: false,
            begun: 0,
            under_way: 0,
            ended_ns: None,
            alone: 0,
            probed: (0, 0),
            now_ns: 0,
        }
    }

    /// A device with an arm that takes so long to move, as far as is known; its own requests soon tell better.
    pub(super) fn with_arm(movement_ns: u64) -> Service {
        let mut service = Service::new();
        let positioning_ns = movement_ns as f64;
        for _ in 0..ENOUGH.ceil() as usize {
            let time_ns = positioning_ns + START_NS_A_BYTE * PROBE_BYTES as f64;
            service.scattered.push(Sample { bytes: PROBE_BYTES as f64, time_ns, delayed: false });
            remember(&mut service.beside, (positioning_ns, 0.0));
        }
        service.look_for_an_arm();
        service
    }

    /// A request is about to be made; `scattered` if it does not go on where the one before it ended, `delayed` if the
    /// device is busy with what others have asked for.
    pub(crate) fn begin(&mut self, now_ns: u64, bytes: u64, scattered: bool, delayed: bool) -> Ticket {
        self.now_ns = self.now_ns.max(now_ns);
        let first = self.under_way == 0;
        let ticket = Ticket { began_ns: self.now_ns, bytes, number: self.begun, first, scattered, delayed };
        self.begun += 1;
        self.under_way += 1;
        ticket
    }

    /// The request has ended; `ok` if its data came. Says how long the device worked on it, in nanoseconds: since it
    /// began, or since the request before it ended. A device that serves several at a time so appears as one that
    /// is as many times as quick.
    pub(crate) fn end(&mut self, now_ns: u64, ticket: Ticket, ok: bool) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        let beside = self.under_way > 1;
        self.under_way = self.under_way.saturating_sub(1);
        let alone = ticket.first && self.begun == ticket.number + 1;
        let ended_ns = self.ended_ns.replace(now_ns).unwrap_or(0);
        let between_ns = now_ns - ended_ns.max(ticket.began_ns);
        if alone {
            self.alone += 1;
            self.probed = (now_ns, self.begun);
        }
        let (bytes, whole_ns) = (ticket.bytes as f64, (now_ns - ticket.began_ns) as f64);
        if !ok || whole_ns < MEMORY_NS + MEMORY_NS_A_BYTE * bytes {
            return between_ns;
        }
        let clipped_ns = self.between.clip(between_ns as f64);
        self.between.push(clipped_ns);
        self.between_bytes.push(bytes);
        if alone {
            let line = if ticket.scattered { &mut self.scattered } else { &mut self.following };
            line.push(Sample { bytes, time_ns: whole_ns, delayed: ticket.delayed });
        } else if beside && ticket.scattered {
            remember(&mut self.beside, (between_ns as f64, bytes));
        }
        self.look_for_an_arm();
        between_ns
    }

    fn look_for_an_arm(&mut self) {
        let line = &self.scattered;
        if !line.is_known() || (self.beside.len() as f64) < ENOUGH {
            return;
        }
        let rests = self.beside.iter().map(|(between_ns, bytes)| between_ns - line.ns_a_byte * bytes);
        let positioning_ns = lower_median(rests).unwrap_or(0.0);
        let part = if self.has_arm { NO_ARM_PART } else { ARM_PART };
        self.has_arm = line.positioning_ns >= ARM_NS && positioning_ns >= part * line.positioning_ns;
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Is the device one whose requests should come in the order of their places?
    pub(crate) fn has_arm(&self) -> bool {
        self.has_arm
    }

    /// Bytes that are worth reading to save the arm a movement: those that take a part of its time. 0 without an arm.
    pub(crate) fn gap_bytes(&self) -> u64 {
        if !self.has_arm {
            return 0;
        }
        (GAP_PART * self.scattered.movement_ns() / self.scattered.ns_a_byte) as u64
    }

    /// Bytes that are read in the time in which the arm moves. 0 without an arm.
    pub(crate) fn reach_bytes(&self) -> u64 {
        (self.gap_bytes() as f64 / GAP_PART) as u64
    }

    /// The part of its time in which the arm moves, of the last requests. 0 without an arm, and as long as that is not known.
    pub(crate) fn moving_share(&self) -> f64 {
        let (Some(between_ns), Some(bytes)) = (self.between.get(), self.between_bytes.get()) else {
            return 0.0;
        };
        if self.has_arm {
            (1.0 - self.scattered.ns_a_byte * bytes / between_ns.max(1.0)).max(0.0)
        } else {
            0.0
        }
    }

    /// Should the next request go out alone?
    fn is_probing(&self) -> bool {
        let (when_ns, number) = self.probed;
        let begun = self.begun - number;
        self.alone < FIRST_PROBES
            || (self.alone < EARLY_PROBES && begun >= EARLY_REQUESTS)
            || (begun >= PROBE_REQUESTS && self.now_ns.saturating_sub(when_ns) >= PROBE_NS)
    }

    /// Bytes of the largest request worth making: from 128 KiB to 1 MiB, to 4 MiB with an arm.
    pub(crate) fn largest_bytes(&self) -> u64 {
        let bytes = if self.scattered.is_known() {
            let Line { positioning_ns, ns_a_byte, .. } = self.scattered;
            let worth_ns = positioning_ns * (1.0 - POSITIONING_PART) / POSITIONING_PART;
            // However slow to position, the device should not position for longer than it reads.
            let most_ns =
                if self.has_arm { ARM_READ_NS } else { (QUEUE_NS - positioning_ns).max(positioning_ns) };
            worth_ns.min(most_ns) / ns_a_byte
        } else if self.following.is_known() {
            // On a disk what follows needs no positioning and says little of what does not. Two requests at a time are
            // enough then, and more would overtake each other.
            QUEUE_NS / 2.0 / self.following.ns_a_byte
        } else {
            START_BYTES as f64
        };
        let bytes = bytes as u64;
        let most = if self.has_arm { MOST_ARM_BYTES } else { MOST_BYTES };
        (bytes / STEP_BYTES * STEP_BYTES).clamp(LEAST_BYTES, most)
    }

    /// Bytes of the next request at most: the largest, or a small one to be compared with it.
    pub(crate) fn next_bytes(&self) -> u64 {
        match (self.is_probing(), self.alone) {
            (true, alone) if alone.is_multiple_of(2) => PROBE_BYTES,
            (true, _) => self.largest_bytes().max(LARGE_PROBE_BYTES),
            (false, _) => self.largest_bytes(),
        }
    }

    /// Requests that may be under way at a time, 1 to 64.
    pub(crate) fn requests(&self) -> usize {
        if self.is_probing() {
            return 1;
        }
        let Some(between_ns) = self.between.get() else { return START_REQUESTS };
        let alone_ns = self.scattered.of_known(self.between_bytes.get().unwrap_or(0.0));
        // The second one keeps the device busy while the end of the first is noticed. However slow the device, it also
        // shows whether two at a time are quicker than one.
        (((QUEUE_NS + alone_ns) / between_ns.max(1.0)) as usize).clamp(2, MOST_REQUESTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device for the tests: each request takes a channel for positioning and transfer; transfers share a path.
    struct Model {
        positioning_ns: f64,
        ns_a_byte: f64,
        total_ns_a_byte: f64,
        channels: Vec<f64>,
        path_free_ns: f64,
        /// The state of a random generator by which some requests are held up; 0 for none.
        noise: u64,
    }

    impl Model {
        fn new(positioning_ms: f64, channels: usize, mb_s: f64, total_mb_s: f64) -> Model {
            Model {
                positioning_ns: positioning_ms * 1e6,
                ns_a_byte: 1e3 / mb_s,
                total_ns_a_byte: 1e3 / total_mb_s,
                channels: vec![0.0; channels],
                path_free_ns: 0.0,
                noise: 0,
            }
        }

        /// Three of ten requests are held up by 10 to 50 ms, by what others have asked for meanwhile.
        fn hold_up_ns(&mut self) -> f64 {
            if self.noise == 0 {
                return 0.0;
            }
            // Knuth's MMIX generator.
            self.noise =
                self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (self.noise >> 33) % 1000;
            if random < 300 { 10e6 + 40e6 * random as f64 / 300.0 } else { 0.0 }
        }

        fn is_busy(&self, now_ns: f64) -> bool {
            self.channels.iter().any(|&free_ns| free_ns > now_ns)
        }

        /// When a request that comes now will be done.
        fn admit(&mut self, now_ns: f64, bytes: f64) -> f64 {
            let held_up_ns = self.hold_up_ns();
            let free =
                (0..self.channels.len()).min_by(|&a, &b| self.channels[a].total_cmp(&self.channels[b]));
            let channel = &mut self.channels[free.unwrap()];
            let transfer_from = now_ns.max(*channel) + self.positioning_ns + held_up_ns;
            self.path_free_ns = self.path_free_ns.max(transfer_from) + self.total_ns_a_byte * bytes;
            *channel = (transfer_from + self.ns_a_byte * bytes).max(self.path_free_ns);
            *channel
        }
    }

    /// What a naive loop over events gets from a device in `requests` requests of up to `bytes` each.
    struct Outcome {
        service: Service,
        bytes_per_s: f64,
        longest_queue_ns: f64,
    }

    fn drive(model: &mut Model, requests: usize, bytes: impl Fn(usize) -> u64) -> Outcome {
        drive_from(Service::new(), model, requests, bytes, None)
    }

    /// The same while a program reads 128 KiB at a time, and thinks for so many nanoseconds in between.
    fn drive_beside(
        model: &mut Model,
        requests: usize,
        bytes: impl Fn(usize) -> u64,
        thinks_ns: Option<f64>,
    ) -> Outcome {
        drive_from(Service::new(), model, requests, bytes, thinks_ns)
    }

    /// The same with what is known of the device already.
    fn drive_from(
        mut service: Service,
        model: &mut Model,
        requests: usize,
        bytes: impl Fn(usize) -> u64,
        thinks_ns: Option<f64>,
    ) -> Outcome {
        let mut program_reads_ns = thinks_ns.map_or(f64::INFINITY, |_| 0.0);
        let mut under_way: Vec<(f64, Ticket)> = Vec::new();
        let (mut now_ns, mut sent, mut ended, mut half) = (0.0_f64, 0, 0, (0.0, 0.0));
        let (mut total, mut longest_queue_ns) = (0.0, 0.0_f64);
        while ended < requests {
            while sent < requests && service.under_way() < service.requests() {
                let bytes = bytes(sent).min(service.next_bytes());
                let delayed = model.is_busy(now_ns);
                let ticket = service.begin(now_ns as u64, bytes, true, delayed);
                let done = model.admit(now_ns, bytes as f64);
                if sent > requests / 2 {
                    longest_queue_ns = longest_queue_ns.max(done - now_ns);
                }
                under_way.push((done, ticket));
                sent += 1;
            }
            let next =
                (0..under_way.len()).min_by(|&a, &b| under_way[a].0.total_cmp(&under_way[b].0)).unwrap();
            if program_reads_ns <= under_way[next].0 {
                now_ns = program_reads_ns;
                program_reads_ns = model.admit(now_ns, 131_072.0) + thinks_ns.unwrap();
                continue;
            }
            let (done, ticket) = under_way.swap_remove(next);
            now_ns = done;
            service.end(now_ns as u64, ticket, true);
            ended += 1;
            total += ticket.bytes as f64;
            if ended == requests / 2 {
                half = (now_ns, total);
            }
        }
        let bytes_per_s = (total - half.1) / (now_ns - half.0) * 1e9;
        Outcome { service, bytes_per_s, longest_queue_ns }
    }

    #[test]
    fn before_anything_is_measured_the_numbers_are_in_between() {
        let mut service = Service::new();
        assert_eq!((service.largest_bytes(), service.requests(), service.has_arm()), (256 << 10, 1, false));
        // Requests that fail, or whose data was there, teach nothing, and do not keep the others waiting.
        for round in 0..4 {
            let ticket = service.begin(round * 1_000_000, 8192, true, false);
            service.end(round * 1_000_000 + 100, ticket, round % 2 == 0);
        }
        assert_eq!((service.largest_bytes(), service.requests()), (256 << 10, 4));
    }

    #[test]
    fn a_disk_with_an_arm_gets_large_requests_one_or_two_at_a_time() {
        let seen = drive(&mut Model::new(8.0, 1, 100.0, 1e6), 400, |_| u64::MAX);
        assert!(seen.service.has_arm());
        let largest = seen.service.largest_bytes();
        assert!((2 << 20..=4 << 20).contains(&largest), "{largest}");
        assert!((1..=2).contains(&seen.service.requests()));
        assert!((seen.service.scattered.positioning_ns / 8e6 - 1.0).abs() < 0.05);
        // The second one waits for the first.
        assert!(seen.longest_queue_ns < 101e6, "{}", seen.longest_queue_ns);
        assert!(seen.bytes_per_s > 75e6, "{}", seen.bytes_per_s);
    }

    #[test]
    fn what_is_said_of_an_arm_holds_until_the_requests_tell() {
        let service = || Service::with_arm(8_000_000);
        assert!(service().has_arm());
        assert!((1 << 20..=2 << 20).contains(&service().reach_bytes()), "{}", service().reach_bytes());
        let seen = |mut model: Model| drive_from(service(), &mut model, 100, |_| u64::MAX, None).service;
        let slower = seen(Model::new(14.0, 1, 100.0, 1e6));
        assert!(slower.has_arm() && (slower.scattered.positioning_ns / 14e6 - 1.0).abs() < 0.05);
        assert!(!seen(Model::new(4.0, 8, 200.0, 250.0)).has_arm(), "a volume in the network");
        assert!(!seen(Model::new(0.08, 64, 1000.0, 3000.0)).has_arm(), "a quick drive");
    }

    #[test]
    fn a_disk_on_which_a_program_waits_too_gets_large_requests() {
        for (positioning_ms, thinks_ms) in [(8.0, 0.0), (8.0, 3.0), (8.0, 30.0), (15.0, 0.0), (15.0, 10.0)] {
            let mut model = Model::new(positioning_ms, 1, 100.0, 1e6);
            let seen = drive_beside(&mut model, 400, |_| u64::MAX, Some(thinks_ms * 1e6));
            let largest = seen.service.largest_bytes();
            assert!(largest >= 1 << 20, "{positioning_ms} {thinks_ms}: {largest}");
            assert!(seen.service.has_arm(), "{positioning_ms} {thinks_ms}");
            let moves_ms = seen.service.scattered.movement_ns() / 1e6;
            assert!(
                (0.95..1.1).contains(&(moves_ms / positioning_ms)),
                "{positioning_ms} {thinks_ms}: {moves_ms}"
            );
        }
    }

    #[test]
    fn a_disk_is_known_soon_whatever_holds_up_some_requests() {
        let sizes = [8 << 10, 400 << 10, u64::MAX, 120 << 10, u64::MAX, 900 << 10];
        // Of 200 disks, those that are seen as they are after so many requests.
        let seen = |positioning_ms, channels, requests| {
            let right = (1..=200_u64).filter(|&seed| {
                let mut model = Model { noise: seed, ..Model::new(positioning_ms, channels, 100.0, 400.0) };
                let size = |at: usize| sizes[(at * at + at / 5 + seed as usize) % sizes.len()];
                let service = drive(&mut model, requests, size).service;
                let is_near = |seen: f64, truth: f64| seen < 3.0 * truth && truth < 3.0 * seen;
                let largest = if channels == 1 { 1 << 20..=4 << 20 } else { 512 << 10..=1 << 20 };
                service.has_arm() == (channels == 1)
                    && largest.contains(&service.largest_bytes())
                    && is_near(service.scattered.positioning_ns, positioning_ms * 1e6)
                    && is_near(service.scattered.ns_a_byte, 10.0)
            });
            right.count()
        };
        let after = [seen(8.0, 1, 32), seen(8.0, 1, 128), seen(4.0, 8, 256), seen(4.0, 8, 1024)];
        println!("{after:?}");
        assert!(after.iter().zip([170, 170, 140, 170]).all(|(right, least)| *right >= least), "{after:?}");
    }

    #[test]
    fn a_disk_is_known_by_small_requests_as_well() {
        let seen = drive(&mut Model::new(8.0, 1, 100.0, 1e6), 200, |_| 8192);
        assert!(seen.service.has_arm());
        assert_eq!(seen.service.requests(), 3);
    }

    #[test]
    fn of_what_follows_on_as_much_is_asked_for_as_comes_in_half_the_time() {
        let mut service = Service::new();
        for round in 0..8 {
            let bytes = service.next_bytes();
            let ticket = service.begin(round * 1_000_000_000, bytes, false, false);
            service.end(round * 1_000_000_000 + 10 * bytes, ticket, true);
        }
        assert_eq!(service.largest_bytes(), 960 << 10);
        assert!(!service.has_arm());
        assert!(service.requests() >= 2);
    }

    #[test]
    fn a_volume_in_the_network_is_kept_busy_and_has_no_arm() {
        for positioning_ms in [1.0, 4.0] {
            let mut model = Model::new(positioning_ms, 8, 200.0, 250.0);
            let seen = drive(&mut model, 1000, |_| u64::MAX);
            assert!(!seen.service.has_arm());
            assert_eq!(seen.service.largest_bytes(), 1 << 20);
            assert!((3..=6).contains(&seen.service.requests()), "{}", seen.service.requests());
            assert!(seen.bytes_per_s > 0.93 * 250e6, "{}", seen.bytes_per_s);
            assert!(seen.longest_queue_ns < 40e6, "{}", seen.longest_queue_ns);
            let seen = drive(&mut Model::new(positioning_ms, 8, 200.0, 250.0), 4000, |_| 8192);
            assert!(!seen.service.has_arm());
            assert!(seen.service.requests() >= 8, "{}", seen.service.requests());
        }
    }

    #[test]
    fn a_quick_drive_gets_many_requests() {
        let seen = drive(&mut Model::new(0.08, 64, 1000.0, 3000.0), 4000, |_| u64::MAX);
        assert!(!seen.service.has_arm());
        let largest = seen.service.largest_bytes();
        assert!((512 << 10..=1 << 20).contains(&largest), "{largest}");
        assert_eq!(seen.service.requests(), MOST_REQUESTS);
        assert!(seen.bytes_per_s > 0.9 * 3e9, "{}", seen.bytes_per_s);
        let small = drive(&mut Model::new(0.08, 64, 1000.0, 3000.0), 4000, |_| 8192);
        assert_eq!(small.service.requests(), MOST_REQUESTS);
    }

    #[test]
    fn of_a_mixture_of_sizes_the_line_comes_out() {
        let seen =
            drive(&mut Model::new(1.0, 8, 200.0, 250.0), 4000, |at| [8192, 32768, 1 << 20, 131_072][at % 4]);
        let line = &seen.service.scattered;
        assert!((line.positioning_ns / 1e6 - 1.0).abs() < 0.1, "{line:?}");
        assert!((line.ns_a_byte / 5.0 - 1.0).abs() < 0.1, "{line:?}");
    }

    #[test]
    fn one_hiccup_moves_little_and_a_lasting_change_moves_all() {
        let mut service = drive(&mut Model::new(1.0, 1, 200.0, 200.0), 100, |_| u64::MAX).service;
        let mut now_ns = service.now_ns;
        let mut alone = |service: &mut Service, time_ns: u64, bytes: u64| {
            let ticket = service.begin(now_ns, bytes, true, false);
            now_ns += time_ns;
            service.end(now_ns, ticket, true);
        };
        let before = service.largest_bytes();
        alone(&mut service, 2_000_000_000, 1 << 20);
        assert!(service.requests() >= 2);
        assert_eq!(service.largest_bytes(), before);
        for at in 0..60 {
            let bytes = if at % 2 == 0 { 64 << 10 } else { 1 << 20 };
            alone(&mut service, 10_000_000 + 10 * bytes, bytes);
        }
        let line = &service.scattered;
        assert!((line.positioning_ns / 10e6 - 1.0).abs() < 0.05, "{line:?}");
        assert!((line.ns_a_byte / 10.0 - 1.0).abs() < 0.05, "{line:?}");
        assert!(service.largest_bytes() <= before);
    }

    #[test]
    fn one_in_a_while_goes_out_alone() {
        let mut model = Model::new(1.0, 8, 200.0, 250.0);
        let service = drive(&mut model, 2000, |_| u64::MAX).service;
        let seconds = service.now_ns / PROBE_NS;
        assert!(service.alone >= EARLY_PROBES + seconds / 2, "{} in {seconds} s", service.alone);
        assert!(service.alone <= EARLY_PROBES + seconds + 4, "{} in {seconds} s", service.alone);
    }
}
