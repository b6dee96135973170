//! `foretell model predict`: how long a workload takes at a device, and why.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use foretell_analytic::predict::{Prediction, predict};
use foretell_analytic::workload::Workload;
use foretell_device::DeviceParameters;
use serde::Serialize;

use super::bounds::bound_text;
use super::pictures::Pictures;
use super::workload::{WorkloadArgs, parse_workload};
use crate::devices::find_device;
use crate::terminal::say;

/// Predicts and prints.
pub(super) fn execute(args: &WorkloadArgs) -> Result<()> {
    let device = find_device(&args.device)?;
    let workload = parse_workload(&args.workload)?;
    let pictures = Pictures::of(args)?;
    let prediction = predict(&device, &workload).map_err(|e| anyhow!("--workload: {e}"))?;
    pictures.draw_prediction(&device, &workload, &prediction)?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&PredictionJson::new(&device, &prediction))?));
    } else {
        say(&prediction_table(&device, &workload, &prediction));
    }
    Ok(())
}

/// A prediction as JSON: ms, requests and words.
#[derive(Serialize)]
struct PredictionJson<'a> {
    device: &'a str,
    time_ms: f64,
    computation_ms: f64,
    waiting_ms: f64,
    unprefetched_ms: f64,
    device_reads: u64,
    bound: &'static str,
    saved_by_device_readahead_ms: f64,
    saved_by_fewer_overheads_ms: f64,
    saved_by_positioning_ms: f64,
    saved_by_requests_in_flight_ms: f64,
    saved_by_overlap_ms: f64,
}

impl<'a> PredictionJson<'a> {
    fn new(device: &'a DeviceParameters, prediction: &Prediction) -> PredictionJson<'a> {
        let Prediction { time_ms, computation_ms, unprefetched_ms, device_reads, bound, saved } = *prediction;
        PredictionJson {
            device: &device.name,
            time_ms,
            computation_ms,
            waiting_ms: time_ms - computation_ms,
            unprefetched_ms,
            device_reads,
            bound: bound_text(bound).0,
            saved_by_device_readahead_ms: saved.device_readahead_ms,
            saved_by_fewer_overheads_ms: saved.overhead_ms,
            saved_by_positioning_ms: saved.positioning_ms,
            saved_by_requests_in_flight_ms: saved.parallel_ms,
            saved_by_overlap_ms: saved.overlap_ms,
        }
    }
}

fn prediction_table(device: &DeviceParameters, workload: &Workload, prediction: &Prediction) -> String {
    let Prediction { time_ms, computation_ms, unprefetched_ms, device_reads, bound, saved } = *prediction;
    let mut out = format!("{}: {}\n\n", device.name, device.description);
    let mut line = |label: &str, ms: f64, what: String| {
        let _ = writeln!(out, "  {label:<26}{ms:>14.2} ms   {what}");
    };
    let mb_per_s = workload.bytes as f64 * f64::from(workload.streams) / time_ms / 1e3;
    line("time", time_ms, format!("{mb_per_s:.1} MB/s, {device_reads} device reads"));
    line("computation", computation_ms, String::from("of each stream"));
    line("waiting", time_ms - computation_ms, format!("limited by {}", bound_text(bound).1));
    line(
        "without any prefetching",
        unprefetched_ms,
        format!("{:.2} times as long", unprefetched_ms / time_ms),
    );
    for (label, ms) in [
        ("  device readahead", saved.device_readahead_ms),
        ("  overhead amortised", saved.overhead_ms),
        ("  positioning saved", saved.positioning_ms),
        ("  requests in flight", saved.parallel_ms),
        ("  overlap with computation", saved.overlap_ms),
    ] {
        // Rounding leaves less than this of a cause that does nothing.
        if ms.abs() > 1e-9 * unprefetched_ms {
            line(label, -ms, format!("{:+.1}%", -100.0 * ms / unprefetched_ms));
        }
    }
    for unverified in &device.unverified {
        let _ = writeln!(out, "  not certain: {}: {}", unverified.field, unverified.reason);
    }
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
