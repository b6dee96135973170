//! Streams at one arm, followed request by request.
//!
//! Several streams on a disk have no closed form. Each waits for the platters by the same angle every time
//! they pass in turn, and which angle depends on where the files lie: nearly nothing or nearly a revolution.
//! What the drive reads ahead while it waits for computation or for the bus makes later requests short, which
//! leaves it more time to read ahead: the same load has two states, and the start decides. A mean over all
//! layouts misses single ones by a third. So the first [`FOLLOWED`] requests are followed, and the rest goes
//! on as the last three quarters of them did.
//!
//! # A request
//!
//! It is asked for when its stream has computed on the one before (synchronously), or when the stream comes to
//! the one before, there or not (Linux: the module `pipeline`). The driver takes the waiting request with the
//! lowest address from the last one on, else the lowest of all, and costs processor time as it does.
//!
//! - What the heads have read ahead, or are reading, costs `max(hit overhead + bus, media)`; they go on.
//! - What lies in a segment that they have left costs `hit overhead + bus`, and they go on where they are.
//! - Otherwise they leave: overhead, seek, the wait for the sector ([`crate::surface`]), media; the bus beside
//!   all that. A segment that holds the first part saves that part.
//!
//! They read on for the readahead past the last request. The stream that was served longest ago loses its
//! segment to one that has none.

use crate::costs::{Arm, Costs};
use crate::surface::Surface;
use crate::workload::Layout;

/// Requests that are followed. The two states above are told apart within a hundred, and this many take
/// about 100 us.
pub(crate) const FOLLOWED: u64 = 256;

/// What the streams do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    /// How many.
    pub(crate) streams: u32,
    /// Requests of each.
    pub(crate) requests: u64,
    /// Bytes of a request.
    pub(crate) bytes: f64,
    /// Bytes of the pieces that the device gets it in.
    pub(crate) piece_bytes: f64,
    /// From the start of a request to the start of the next.
    pub(crate) stride_bytes: f64,
    /// From the start of a stream to the start of the next.
    pub(crate) span_bytes: f64,
    /// Whether that is known.
    pub(crate) layout: Layout,
    /// Computation on each request, in ms.
    pub(crate) think_ms: f64,
    /// Processor time of starting each request, in ms.
    pub(crate) driver_ms: f64,
    /// Streams that compute at a time.
    pub(crate) processors: u32,
    /// Whether the next request is asked for before the computation instead of after it.
    pub(crate) ahead: bool,
    /// Whether the drive reads ahead.
    pub(crate) reads_ahead: bool,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Followed {
    /// Until the last stream is done, in ms.
    pub(crate) time_ms: f64,
    /// Of that, the drive at work, in ms.
    pub(crate) busy_ms: f64,
}

/// Places in which files are tried to lie if nobody knows where they do: gaps between them that turn the
/// platters by as many parts of a revolution.
const LAYOUTS: u32 = 4;

/// Follows `streams` at the disk; the mean over [`LAYOUTS`] if theirs is not known.
pub(crate) fn follow(costs: &Costs, arm: &Arm, surface: &Surface, streams: &Streams) -> Followed {
    if streams.layout == Layout::Adjacent || streams.streams == 1 {
        return Machine::new(costs, arm, surface, streams).run();
    }
    let (mut time_ms, mut busy_ms) = (0.0, 0.0);
    for part in 0..LAYOUTS {
        let gap_bytes = surface.track_bytes() * f64::from(part) / f64::from(LAYOUTS);
        // Files begin with a sector.
        let span_bytes = streams.span_bytes + (gap_bytes / 512.0).floor() * 512.0;
        let followed = Machine::new(costs, arm, surface, &Streams { span_bytes, ..*streams }).run();
        time_ms += followed.time_ms / f64::from(LAYOUTS);
        busy_ms += followed.busy_ms / f64::from(LAYOUTS);
    }
    Followed { time_ms, busy_ms }
}

/// A stream's place in its file and what the drive holds of it.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The next byte to ask for.
    at: f64,
    /// Requests not asked for yet.
    left: u64,
    /// Requests that wait in the queue, two at most.
    asked: u32,
    /// Requests arrived and not computed on.
    arrived: u32,
    /// Whether it has or waits for a processor.
    computing: bool,
    /// Whether it has computed yet.
    begun: bool,
    /// One past the last byte that its segment holds; 0 without a segment.
    cached_to: f64,
    /// When its segment was used last, in requests served.
    used: u64,
}

/// The heads' pass: byte `from` was under them at `since_ms`, and they read up to `limit`.
#[derive(Debug, Clone, Copy)]
struct Reading {
    stream: usize,
    from: f64,
    since_ms: f64,
    limit: f64,
}

struct Machine<'a> {
    costs: &'a Costs,
    arm: &'a Arm,
    surface: &'a Surface,
    what: &'a Streams,
    streams: Vec<Stream>,
    segments: usize,
    reading: Option<Reading>,
    /// Where the arm is when nothing is being read ahead.
    arm_at: f64,
    /// Address of the last request.
    head: f64,
    served: u64,
    /// Ready to compute, in order.
    ready: std::collections::VecDeque<usize>,
    /// Computing: when done, and who.
    running: Vec<(f64, usize)>,
    /// Until then an idle processor is the driver's.
    driver_until_ms: f64,
    busy_ms: f64,
}

impl<'a> Machine<'a> {
    fn new(costs: &'a Costs, arm: &'a Arm, surface: &'a Surface, what: &'a Streams) -> Machine<'a> {
        let stream = |i: u32| Stream {
            at: f64::from(i) * what.span_bytes,
            left: what.requests,
            asked: 0,
            arrived: 0,
            computing: false,
            begun: false,
            cached_to: 0.0,
            used: 0,
        };
        Machine {
            costs,
            arm,
            surface,
            what,
            streams: (0..what.streams).map(stream).collect(),
            segments: if what.reads_ahead { arm.segments as usize } else { 0 },
            reading: None,
            arm_at: 0.0,
            head: 0.0,
            served: 0,
            ready: std::collections::VecDeque::new(),
            running: Vec::new(),
            driver_until_ms: 0.0,
            busy_ms: 0.0,
        }
    }

    /// Follows the first [`FOLLOWED`] requests; the rest goes as the last three quarters of these.
    fn run(self) -> Followed {
        self.run_following(FOLLOWED)
    }

    fn run_following(mut self, followed: u64) -> Followed {
        let total = self.what.requests.saturating_mul(self.what.streams.into());
        let (mut now_ms, mut done_ms) = (0.0_f64, None);
        // Where the last three quarters begin.
        let mut quarter = (0, 0.0, 0.0);
        for s in 0..self.streams.len() {
            // Before the first read of a stream that reads synchronously there is its computation.
            if self.what.ahead { self.ask(s) } else { self.ready.push_back(s) }
        }
        loop {
            self.dispatch(now_ms);
            if done_ms.is_none()
                && let Some(s) = self.choose()
            {
                done_ms = Some((self.serve(now_ms, s), s));
                self.charge(now_ms);
                // Another one may have become ready to run beside it.
                continue;
            }
            let running = self.running.iter().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
            let running = running.map(|(i, &(ms, s))| (i, ms, s));
            match (done_ms, running) {
                (Some((ms, s)), run) if run.is_none_or(|(_, run_ms, _)| ms <= run_ms) => {
                    (now_ms, done_ms) = (ms, None);
                    self.arrive(s);
                    // The next one starts before whoever got this one can ask again.
                    if let Some(next) = self.choose() {
                        done_ms = Some((self.serve(now_ms, next), next));
                        self.charge(now_ms);
                    }
                    if quarter.0 == 0 && self.served >= followed / 4 {
                        quarter = (self.served, now_ms, self.busy_ms);
                    }
                    if self.served >= followed && self.served < total {
                        let (first, first_ms, first_busy_ms) = quarter;
                        let rest = (total - self.served) as f64 / (self.served - first) as f64;
                        let time_ms = now_ms + rest * (now_ms - first_ms);
                        return Followed {
                            time_ms,
                            busy_ms: self.busy_ms + rest * (self.busy_ms - first_busy_ms),
                        };
                    }
                }
                (_, Some((i, ms, s))) => {
                    now_ms = ms;
                    self.running.swap_remove(i);
                    self.streams[s].computing = false;
                    self.ask(s);
                    if self.what.ahead {
                        self.computed(s);
                    }
                }
                (_, None) => return Followed { time_ms: now_ms, busy_ms: self.busy_ms },
            }
        }
    }

    fn ask(&mut self, s: usize) {
        let stream = &mut self.streams[s];
        if u64::from(stream.asked) < stream.left {
            stream.asked += 1;
        }
    }

    /// A request has arrived at its stream.
    fn arrive(&mut self, s: usize) {
        let stream = &mut self.streams[s];
        stream.arrived += 1;
        self.computed(s);
    }

    /// A stream is free to compute on what has arrived.
    fn computed(&mut self, s: usize) {
        let stream = &mut self.streams[s];
        if stream.arrived == 0 || stream.computing {
            return;
        }
        stream.arrived -= 1;
        if self.what.ahead || stream.left > 0 {
            stream.computing = true;
            self.ready.push_back(s);
        }
    }

    fn dispatch(&mut self, now_ms: f64) {
        while self.running.len() < self.what.processors as usize
            && let Some(s) = self.ready.pop_front()
        {
            let alone = self.what.processors == 1;
            let begin_ms = if alone { now_ms.max(self.driver_until_ms) } else { now_ms };
            self.running.push((begin_ms + self.what.think_ms, s));
            // The first window's marker lies behind the first read; the later ones have it in front.
            if self.what.ahead && !std::mem::replace(&mut self.streams[s].begun, true) {
                self.ask(s);
            }
        }
    }

    /// A request starts: the driver has a processor that idles, else the one that is free soonest.
    fn charge(&mut self, now_ms: f64) {
        if self.running.len() < self.what.processors as usize {
            self.driver_until_ms = now_ms.max(self.driver_until_ms) + self.what.driver_ms;
        } else if let Some(run) = self.running.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)) {
            run.0 += self.what.driver_ms;
        }
    }

    /// The next request of an elevator that goes up only.
    fn choose(&self) -> Option<usize> {
        let waiting = || (0..self.streams.len()).filter(|&s| self.streams[s].asked > 0);
        let by_address = |a: &usize, b: &usize| self.streams[*a].at.total_cmp(&self.streams[*b].at);
        let upwards = waiting().filter(|&s| self.streams[s].at >= self.head).min_by(by_address);
        upwards.or_else(|| waiting().min_by(by_address))
    }

    /// Serves the request of stream `s` from `now_ms` on, piece by piece; gives when it is done.
    fn serve(&mut self, now_ms: f64, s: usize) -> f64 {
        let begin = self.streams[s].at;
        let end = begin + self.what.bytes;
        self.served += 1;
        self.head = begin;
        let (mut from, mut done_ms) = (begin, now_ms);
        while from < end {
            let to = (from + self.what.piece_bytes).min(end);
            done_ms = self.serve_piece(done_ms, s, from, to);
            from = to;
        }
        let stream = &mut self.streams[s];
        stream.asked -= 1;
        stream.left -= 1;
        stream.at += self.what.stride_bytes;
        stream.used = self.served;
        self.busy_ms += done_ms - now_ms;
        done_ms
    }

    fn serve_piece(&mut self, now_ms: f64, s: usize, begin: f64, end: f64) -> f64 {
        let bus_ms = (end - begin) / self.arm.bus_bytes_per_ms;
        let hit_ms = now_ms + self.costs.cached_overhead_ms + bus_ms;
        if let Some(media_ms) = self.read_on(now_ms, s, begin, end) {
            return hit_ms.max(media_ms);
        }
        if self.reading.is_none_or(|r| r.stream != s) && self.streams[s].cached_to >= end {
            return hit_ms;
        }
        self.position(now_ms, s, begin, end, bus_ms)
    }

    /// If the heads have come to `begin` in their pass: when they are at `end`.
    fn read_on(&mut self, now_ms: f64, s: usize, begin: f64, end: f64) -> Option<f64> {
        let reading = self.reading.as_mut().filter(|r| r.stream == s)?;
        let surface = self.surface;
        let read_ms = |r: &Reading, byte: f64| r.since_ms + surface.run_ms(r.from, byte);
        if begin >= reading.limit || begin > reading.from && read_ms(reading, begin) > now_ms {
            return None;
        }
        let limit = end + self.arm.readahead_bytes;
        let stopped_ms = read_ms(reading, reading.limit);
        if stopped_ms < now_ms {
            // They wait on the track of the last byte for the next one.
            let last = reading.limit - 1.0;
            let move_ms = match self.surface.cylinders(last, reading.limit) {
                0.0 => self.surface.switch_ms(last, reading.limit),
                cylinders => self.arm.seek_ms(cylinders),
            };
            let there_ms = now_ms + move_ms;
            reading.since_ms = there_ms + self.surface.wait_ms(there_ms, reading.limit);
            reading.from = reading.limit;
        }
        let media_ms = if end <= reading.from { now_ms } else { read_ms(reading, end) };
        reading.limit = reading.limit.max(limit);
        Some(media_ms)
    }

    /// The byte to which the heads have read at `now_ms`.
    fn reached(&self, reading: &Reading, now_ms: f64) -> f64 {
        let (mut low, mut high) = (reading.from, reading.limit);
        // To a sector of 512 bytes; the pass is not linear, as tracks and cylinders have gaps.
        while high - low > 512.0 {
            let middle = low + ((high - low) / 1024.0).floor().max(1.0) * 512.0;
            if middle >= high {
                break;
            }
            if reading.since_ms + self.surface.run_ms(reading.from, middle) <= now_ms {
                low = middle;
            } else {
                high = middle;
            }
        }
        let all = reading.since_ms + self.surface.run_ms(reading.from, high) <= now_ms;
        if all { high } else { low }
    }

    /// The heads leave for what stream `s` lacks.
    fn position(&mut self, now_ms: f64, s: usize, begin: f64, end: f64, bus_ms: f64) -> f64 {
        if let Some(reading) = self.reading.take() {
            let reached = self.reached(&reading, now_ms);
            self.arm_at = (reached - 1.0).max(reading.from - 1.0).max(0.0);
            self.streams[reading.stream].cached_to = reached;
        }
        let cached_to = self.streams[s].cached_to;
        let partly = (begin..end).contains(&cached_to) && cached_to > begin;
        let from = if partly { cached_to } else { begin };
        let overhead_ms = if partly { self.costs.cached_overhead_ms } else { self.costs.overhead_ms };
        let move_ms = match self.surface.cylinders(self.arm_at, from) {
            0.0 => self.surface.switch_ms(self.arm_at, from),
            cylinders => self.arm.seek_ms(cylinders),
        };
        let there_ms = now_ms + overhead_ms + self.arm.beside_overhead_ms(move_ms);
        let since_ms = there_ms + self.surface.wait_ms(there_ms, from);
        let media_ms = since_ms + self.surface.run_ms(from, end);
        self.arm_at = end - 1.0;
        if self.segments > 0 {
            self.give_segment(s);
            self.reading = Some(Reading { stream: s, from, since_ms, limit: end + self.arm.readahead_bytes });
        }
        (now_ms + overhead_ms + bus_ms).max(media_ms)
    }

    /// Makes sure that no more streams than segments have one, `s` being among them.
    fn give_segment(&mut self, s: usize) {
        self.streams[s].cached_to = self.streams[s].cached_to.max(f64::MIN_POSITIVE);
        let holders = || (0..self.streams.len()).filter(|&i| self.streams[i].cached_to > 0.0);
        if holders().count() > self.segments {
            let oldest = holders().filter(|&i| i != s).min_by_key(|&i| self.streams[i].used);
            if let Some(oldest) = oldest {
                self.streams[oldest].cached_to = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::catalogue::find;

    #[test]
    fn what_is_extrapolated_is_what_comes_of_all_requests() {
        for (name, streams, kib, think_ms, ahead) in [
            ("disk7200", 2, 128.0, 0.2, true),
            ("disk7200", 2, 512.0, 1.0, true),
            ("disk7200", 3, 1024.0, 2.0, true),
            ("disk7200", 2, 128.0, 0.2, false),
            ("hp97560", 2, 64.0, 5.0, true),
            ("hp97560", 5, 8.0, 0.5, false),
        ] {
            let costs = Costs::of(&find(name).unwrap());
            let arm = costs.arm.as_ref().unwrap();
            let (bytes, requests) = (kib * 1024.0, 1000);
            let streams = Streams {
                streams,
                requests,
                bytes,
                piece_bytes: bytes,
                stride_bytes: bytes,
                span_bytes: bytes * requests as f64,
                layout: Layout::Adjacent,
                think_ms,
                driver_ms: 0.1,
                processors: 1,
                ahead,
                reads_ahead: true,
            };
            let machine = || Machine::new(&costs, arm, arm.surface.as_ref().unwrap(), &streams);
            let (some, all) = (machine().run(), machine().run_following(u64::MAX));
            let error = (some.time_ms / all.time_ms - 1.0).abs();
            assert!(error < 0.02, "{name} {streams:?}: {some:?} {all:?}");
        }
    }
}
