//! The model against the device models of `foretell-device`, stepped request by request.
//!
//! Neither side knows the other: the model has formulas, the device has an arm, platters and token buckets.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod stepping;

use foretell_analytic::predict::predict;
use foretell_analytic::workload::{Layout, Pattern, Prefetching, Workload};
use foretell_device::catalogue;
use stepping::{Ahead, stepped_ms};

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
                    let stepped_ms = stepped_ms(&parameters, &workload, Ahead::Depth(depth));
                    cases.push(Case { device, workload, model_ms, stepped_ms });
                }
            }
        }
    }
    cases
}

#[test]
fn the_model_and_the_devices_agree() {
    let cases = grid();
    for case in &cases {
        let Workload { pattern, streams, request_bytes, think_us, .. } = case.workload;
        println!(
            "{} {pattern:?} x{streams} {} KB {think_us} us: model {:.0} ms, device {:.0} ms, {:+.1}%",
            case.device,
            request_bytes >> 10,
            case.model_ms,
            case.stepped_ms,
            100.0 * case.error(),
        );
        assert!(case.error().abs() <= 0.10);
    }
    let mean = cases.iter().map(|case| case.error().abs()).sum::<f64>() / cases.len() as f64;
    println!("{} points, mean error {:.1}%", cases.len(), 100.0 * mean);
    assert!(mean <= 0.02);
}
