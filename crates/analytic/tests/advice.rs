//! Advice against the best of a brute-force sweep on the device models: not on the model that gave it.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod stepping;

use foretell_analytic::advise::{Setting, advise};
use foretell_analytic::workload::{Layout, Pattern, Prefetching, Workload};
use foretell_device::catalogue;
use stepping::{Ahead, stepped_ms};

const DEVICES: [&str; 6] = ["hp97560", "st34501w", "disk7200", "nvme", "cloud-volume", "object-store"];
/// Within so much of the best.
const WITHIN: f64 = 1.05;

/// What a sweep found.
struct Swept {
    what: String,
    advised_ms: f64,
    default_ms: f64,
    best_ms: f64,
}

fn judge(all: &[Swept]) {
    for s in all {
        println!(
            "{}: {:.3} of the best, default {:.3}",
            s.what,
            s.advised_ms / s.best_ms,
            s.default_ms / s.best_ms
        );
    }
    for s in all {
        assert!(s.advised_ms <= WITHIN * s.best_ms, "{}: {:.3}", s.what, s.advised_ms / s.best_ms);
        assert!(s.advised_ms <= s.default_ms * 1.000_001, "{} is worse than the default", s.what);
    }
}

fn advised(device: &str, workload: &Workload, setting: Setting) -> Option<u64> {
    let (_, advice) = advise(&catalogue::find(device).unwrap(), workload).unwrap();
    advice.iter().find(|a| a.setting == setting).map(|a| a.value)
}

#[test]
fn read_ahead_kb_is_close_to_the_best() {
    let mut all = Vec::new();
    for device in DEVICES {
        let parameters = catalogue::find(device).unwrap();
        for (streams, think_us) in
            [(1, 0.0), (1, 100.0), (1, 1000.0), (1, 5000.0), (4, 0.0), (4, 1000.0), (4, 5000.0)]
        {
            let base =
                Workload { streams, think_us, layout: Layout::Adjacent, ..Workload::sequential(32 << 20) };
            let at = |kb: u64| {
                let prefetching = Prefetching::Linux { read_ahead_bytes: kb << 10 };
                stepped_ms(&parameters, &Workload { prefetching, ..base }, Ahead::Window)
            };
            let default_ms = at(128);
            let best_ms = (2..=15).map(|k| at(1 << k)).fold(f64::INFINITY, f64::min);
            let advised_ms = advised(device, &base, Setting::ReadAheadKb).map_or(default_ms, at);
            let what = format!("{device} x{streams} {think_us} us");
            all.push(Swept { what, advised_ms, default_ms, best_ms });
        }
    }
    judge(&all);
}

/// Small to large random reads, with less and more computation than a request takes.
fn random_reads() -> impl Iterator<Item = Workload> {
    [(4 << 10, 0.0), (8 << 10, 200.0), (8 << 10, 5000.0), (64 << 10, 0.0), (256 << 10, 1000.0)]
        .into_iter()
        .map(|(request_bytes, think_us)| Workload {
            pattern: Pattern::Random,
            request_bytes,
            think_us,
            span_bytes: 1 << 30,
            prefetching: Prefetching::Off,
            // What a sweep can reach, too.
            memory_bytes: 256 * request_bytes,
            ..Workload::sequential(4096 * request_bytes)
        })
}

/// In a disclosed order; the default is to fetch none ahead.
#[test]
fn the_horizon_is_close_to_the_best() {
    let mut all = Vec::new();
    for device in DEVICES {
        let parameters = catalogue::find(device).unwrap();
        for base in random_reads() {
            let at = |ahead: u64| stepped_ms(&parameters, &base, Ahead::Depth(ahead as usize));
            let default_ms = at(1);
            let best_ms = (0..=8).map(|k| at(1 << k)).fold(f64::INFINITY, f64::min);
            let value = advised(device, &base, Setting::Horizon);
            let what = format!("{device} {} KB {} us", base.request_bytes >> 10, base.think_us);
            all.push(Swept { what, advised_ms: value.map_or(default_ms, at), default_ms, best_ms });
        }
    }
    judge(&all);
}

/// Reads that do not depend on each other, nor on the order in which they are served.
#[test]
fn the_queue_depth_is_close_to_the_best() {
    let mut all = Vec::new();
    for device in ["nvme", "cloud-volume", "object-store"] {
        let parameters = catalogue::find(device).unwrap();
        for base in random_reads().filter(|w| w.think_us == 0.0) {
            let at = |depth: u64| stepped_ms(&parameters, &base, Ahead::InFlight(depth as usize));
            let default_ms = at(1);
            let best_ms = (0..=8).map(|k| at(1 << k)).fold(f64::INFINITY, f64::min);
            let value = advised(device, &base, Setting::QueueDepth);
            let what = format!("{device} {} KB", base.request_bytes >> 10);
            all.push(Swept { what, advised_ms: value.map_or(default_ms, at), default_ms, best_ms });
        }
    }
    judge(&all);
}
