//! The model against the device models of `foretell-device`, stepped request by request by the naive
//! drivers below: one file behind the other from the device's start, each stream with its reads in order.
//!
//! Neither side knows the other: the model has formulas, the device has an arm, platters and token buckets.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::collections::BTreeMap;

use foretell_analytic::predict::predict;
use foretell_analytic::workload::{Layout, Pattern, Prefetching, Workload};
use foretell_device::{Device, DeviceEvent, DeviceParameters, Discipline, Request, catalogue};

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

/// The first sectors of each stream's reads.
fn reads(workload: &Workload) -> Vec<Vec<u64>> {
    let mut numbers = Numbers(1);
    let request = workload.request_bytes;
    let span_sectors = workload.span_bytes / SECTOR_BYTES;
    let stream = |s: u64| {
        (0..workload.reads())
            .map(|i| {
                let offset = match workload.pattern {
                    Pattern::Sequential => i * request,
                    Pattern::Strided { stride_bytes } => i * stride_bytes,
                    Pattern::Random | Pattern::Hinted { .. } => {
                        numbers.below(workload.span_bytes / request) * request
                    }
                };
                s * span_sectors + offset / SECTOR_BYTES
            })
            .collect()
    };
    (0..u64::from(workload.streams)).map(stream).collect()
}

/// When all streams are done, in ms: each keeps `depth` reads in flight and computes after each in turn.
fn stepped_ms(parameters: &DeviceParameters, workload: &Workload, depth: usize) -> f64 {
    let mut device = Device::new(parameters, Discipline::Cscan);
    let reads = reads(workload);
    let think_ns = (workload.think_us * 1e3) as u64;
    let sectors = (workload.request_bytes / SECTOR_BYTES) as u32;
    let mut submitted = vec![0; reads.len()];
    let mut consumed = vec![0; reads.len()];
    let mut arrived: Vec<Vec<bool>> = reads.iter().map(|r| vec![false; r.len()]).collect();
    // Streams that compute, by when they are done.
    let mut computing: BTreeMap<(u64, usize), ()> = BTreeMap::new();
    let mut idle = vec![true; reads.len()];
    let mut now_ns = 0;
    loop {
        for s in 0..reads.len() {
            while submitted[s] < reads[s].len() && submitted[s] < consumed[s] + depth {
                let id = ((s as u64) << 32) | submitted[s] as u64;
                let request = Request { id, sector: reads[s][submitted[s]], sectors, write: false };
                device.submit(now_ns, request).unwrap();
                submitted[s] += 1;
            }
            if idle[s] && consumed[s] < reads[s].len() && arrived[s][consumed[s]] {
                idle[s] = false;
                computing.insert((now_ns + think_ns, s), ());
            }
        }
        let next_ns = [device.next_event_ns(), computing.keys().next().map(|(ns, _)| *ns)];
        let Some(next_ns) = next_ns.into_iter().flatten().min() else { return now_ns as f64 / 1e6 };
        now_ns = next_ns;
        device.advance(now_ns);
        while let Some(event) = device.poll() {
            if let DeviceEvent::Completed(done) = event {
                arrived[(done.id >> 32) as usize][(done.id & 0xffff_ffff) as usize] = true;
            }
        }
        while let Some((&(ns, s), ())) = computing.first_key_value().filter(|((ns, _), ())| *ns <= now_ns) {
            computing.remove(&(ns, s));
            idle[s] = true;
            consumed[s] += 1;
        }
    }
}

struct Case {
    device: &'static str,
    workload: Workload,
    model_ms: f64,
    stepped_ms: f64,
}

impl Case {
    fn error(&self) -> f64 {
        self.model_ms / self.stepped_ms - 1.0
    }
}

/// Direct reads, so that the model's windows and the reads are the same requests.
fn grid() -> Vec<Case> {
    let mut cases = Vec::new();
    for device in ["hp97560", "st34501w", "disk7200", "nvme", "cloud-volume", "object-store"] {
        let parameters = catalogue::find(device).unwrap();
        for request_bytes in [8 << 10, 64 << 10] {
            for think_us in [0.0, 500.0, 2000.0] {
                let base = Workload {
                    request_bytes,
                    think_us,
                    prefetching: Prefetching::Off,
                    layout: Layout::Adjacent,
                    ..Workload::sequential(16 << 20)
                };
                let patterns = [
                    (Pattern::Sequential, 1, 1, 16 << 20),
                    (Pattern::Sequential, 4, 1, 16 << 20),
                    (Pattern::Random, 1, 1, 256 << 20),
                    (Pattern::Random, 4, 1, 64 << 20),
                    (Pattern::Hinted { horizon: 16 }, 1, 16, 256 << 20),
                    (Pattern::Hinted { horizon: 64 }, 1, 64, 256 << 20),
                    (Pattern::Strided { stride_bytes: 1 << 20 }, 1, 1, 0),
                ];
                for (pattern, streams, depth, span_bytes) in patterns {
                    let mut workload = Workload { pattern, streams, span_bytes, ..base };
                    if let Pattern::Strided { stride_bytes } = pattern {
                        workload.bytes = 256 * request_bytes;
                        workload.span_bytes = 256 * stride_bytes;
                    }
                    let model_ms = predict(&parameters, &workload).unwrap().time_ms;
                    let stepped_ms = stepped_ms(&parameters, &workload, depth);
                    cases.push(Case { device, workload, model_ms, stepped_ms });
                }
            }
        }
    }
    cases
}

/// 256 requests of an object store in order are too few for the mean of its first bytes: each waits for the
/// latest before it, and the latest of so many is a matter of luck.
fn too_few_for_a_mean(case: &Case) -> bool {
    let hinted = matches!(case.workload.pattern, Pattern::Hinted { .. });
    hinted && case.device == "object-store" && case.workload.request_bytes > 8 << 10
}

#[test]
fn the_model_and_the_devices_agree() {
    let cases = grid();
    for case in &cases {
        let Workload { pattern, streams, request_bytes, think_us, .. } = case.workload;
        let limit = if too_few_for_a_mean(case) { 0.15 } else { 0.10 };
        println!(
            "{} {pattern:?} x{streams} {} KB {think_us} us: model {:.0} ms, device {:.0} ms, {:+.1}%",
            case.device,
            request_bytes >> 10,
            case.model_ms,
            case.stepped_ms,
            100.0 * case.error(),
        );
        assert!(case.error().abs() <= limit);
    }
    let mean = cases.iter().map(|case| case.error().abs()).sum::<f64>() / cases.len() as f64;
    println!("{} points, mean error {:.1}%", cases.len(), 100.0 * mean);
    assert!(mean <= 0.02);
}
