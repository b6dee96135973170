//! The device models of `foretell-device`, stepped request by request: naive drivers, one file behind the
//! other from the device's start, each stream with its reads in order.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code)] // a test's own helpers; each test uses its part

use std::collections::BTreeMap;

use foretell_analytic::readahead;
use foretell_analytic::workload::{Pattern, Prefetching, Workload};
use foretell_device::{Device, DeviceEvent, DeviceParameters, Discipline, Request};

const SECTOR_BYTES: u64 = 512;

/// A generator for the order of random reads: Steele et al. 2014, splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A request and the computation on it.
#[derive(Debug, Clone, Copy)]
struct Read {
    sector: u64,
    bytes: u64,
    think_ns: u64,
}

/// How far ahead requests are made.
#[derive(Debug, Clone, Copy)]
pub enum Ahead {
    /// This many are not computed on yet.
    Depth(usize),
    /// This many have not arrived, in whatever order they do.
    InFlight(usize),
    /// The next one is asked for when the program comes to the one before, there or not: Linux. The first one's
    /// marker lies behind its first read.
    Window,
}

/// The requests of each stream: reads, or the windows of Linux.
fn requests(workload: &Workload) -> Vec<Vec<Read>> {
    let mut numbers = Numbers(1);
    let request = workload.request_bytes;
    let span_sectors = workload.span_bytes / SECTOR_BYTES;
    let sizes: Vec<u64> = match (workload.pattern, workload.prefetching) {
        (Pattern::Sequential, Prefetching::Linux { read_ahead_bytes }) => {
            let w = readahead::windows(workload.bytes, request, read_ahead_bytes);
            let steady = (0..w.steady).map(|_| w.steady_bytes);
            let last = (w.last_bytes > 0).then_some(w.last_bytes);
            w.head_bytes.iter().copied().chain(steady).chain(last).collect()
        }
        _ => vec![request; workload.reads() as usize],
    };
    let mut stream = |s: u64| {
        let mut at = 0;
        let read = |(i, &bytes): (usize, &u64)| {
            let offset = match workload.pattern {
                Pattern::Sequential => at,
                Pattern::Strided { stride_bytes } => i as u64 * stride_bytes,
                Pattern::Random | Pattern::Hinted { .. } => {
                    numbers.below(workload.span_bytes / request) * request
                }
            };
            at += bytes;
            let think_ns = (workload.think_us * 1e3 * bytes as f64 / request as f64) as u64;
            Read { sector: s * span_sectors + offset / SECTOR_BYTES, bytes, think_ns }
        };
        sizes.iter().enumerate().map(read).collect()
    };
    (0..u64::from(workload.streams)).map(&mut stream).collect()
}

/// When all streams are done, in ms.
pub fn stepped_ms(parameters: &DeviceParameters, workload: &Workload, ahead: Ahead) -> f64 {
    let mut device = Device::new(parameters, Discipline::Cscan);
    let reads = requests(workload);
    let mut submitted = vec![0; reads.len()];
    let mut begun = vec![0; reads.len()];
    let mut consumed = vec![0; reads.len()];
    let mut arrivals = vec![0; reads.len()];
    let mut arrived: Vec<Vec<bool>> = reads.iter().map(|r| vec![false; r.len()]).collect();
    // Streams that compute, by when they are done.
    let mut computing: BTreeMap<(u64, usize), ()> = BTreeMap::new();
    let mut idle = vec![true; reads.len()];
    let mut now_ns = 0;
    loop {
        for s in 0..reads.len() {
            if idle[s] && consumed[s] < reads[s].len() && arrived[s][consumed[s]] {
                idle[s] = false;
                begun[s] += 1;
                computing.insert((now_ns + reads[s][consumed[s]].think_ns, s), ());
            }
            let until = match ahead {
                Ahead::Depth(depth) => consumed[s] + depth,
                Ahead::InFlight(depth) => arrivals[s] + depth,
                Ahead::Window => (consumed[s] + 2).min(2 * begun[s] + 1),
            };
            while submitted[s] < reads[s].len() && submitted[s] < until {
                let id = ((s as u64) << 32) | submitted[s] as u64;
                let Read { sector, bytes, .. } = reads[s][submitted[s]];
                let sectors = bytes.div_ceil(SECTOR_BYTES) as u32;
                device.submit(now_ns, Request::read(id, sector, sectors)).unwrap();
                submitted[s] += 1;
            }
        }
        let next_ns = [device.next_event_ns(), computing.keys().next().map(|(ns, _)| *ns)];
        let Some(next_ns) = next_ns.into_iter().flatten().min() else { return now_ns as f64 / 1e6 };
        now_ns = next_ns;
        device.advance(now_ns);
        while let Some(event) = device.poll() {
            if let DeviceEvent::Completed(done) = event {
                let s = (done.id >> 32) as usize;
                arrived[s][(done.id & 0xffff_ffff) as usize] = true;
                arrivals[s] += 1;
            }
        }
        while let Some((&(ns, s), ())) = computing.first_key_value().filter(|((ns, _), ())| *ns <= now_ns) {
            computing.remove(&(ns, s));
            idle[s] = true;
            consumed[s] += 1;
        }
    }
}
