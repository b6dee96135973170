//! The closed-form model against the simulator, point by point.
//!
//! Neither side knows the other: `foretell_analytic` has formulas, `foretell_sim` steps an event queue over
//! policy and disk. Only this module names both. A point is one disk, one workload, and the simulated policy
//! that reads as the workload says:
//!
//! | workload | policy of the simulator |
//! | --- | --- |
//! | sequential, strided, random without prefetching | `demand-lru` |
//! | random in a disclosed order | `fixed-horizon` with that horizon |
//! | sequential under Linux's readahead | `linux`, whose windows are requests of a block each |
//!
//! The simulator has one processor, which every fetch takes for 0.5 ms ([`foretell_sim::DRIVER_NS`]), and so
//! has the workload. Streams lie one behind the other from the start of the disk, as the model takes them
//! to: they are parts of one file, because the simulator scatters several.

mod grid;
mod table;

use std::time::Instant;

use anyhow::{Context, Result};
use foretell_analytic::predict::predict;
use foretell_analytic::workload::{Pattern, Prefetching, Workload};
use foretell_device::DeviceParameters;
use foretell_policy::{PoolPolicy, Prefetch};
use foretell_sim::{Cell, DRIVER_NS, Input, InputReference, PolicyName, simulate};
use serde::Serialize;

pub use grid::{Disk, Point, disks, points};
pub use table::table;

/// Seed of the order of random reads.
const SEED: u64 = 1999;

/// A point and what both sides say of it.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The disk, with what is changed about it.
    pub disk: &'static str,
    /// What is read, as in the first column of the table.
    pub pattern: String,
    /// Streams at the same time.
    pub streams: u32,
    /// Bytes of a read, in KB.
    pub request_kb: u64,
    /// Computation before each read, in ms.
    pub think_ms: f64,
    /// What the model says, in ms.
    pub model_ms: f64,
    /// What the simulator says, in ms.
    pub simulated_ms: f64,
    /// How long the model took, in us.
    #[serde(skip)]
    pub model_took_us: f64,
    /// How long the simulator took, in us.
    #[serde(skip)]
    pub simulator_took_us: f64,
}

impl Compared {
    /// The model's error: 0.05 is 5% too high.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.model_ms / self.simulated_ms - 1.0
    }
}

/// Asks model and simulator about one point.
///
/// # Errors
/// If one of them refuses it.
pub fn compare(point: &Point) -> Result<Compared> {
    let Point { disk, workload } = point;
    let begun = Instant::now();
    let prediction = predict(&disk.parameters, workload).with_context(|| format!("{point:?}"))?;
    let model_took_us = begun.elapsed().as_secs_f64() * 1e6;
    let begun = Instant::now();
    let simulated_ms = simulated_ms(&disk.parameters, workload)?;
    let simulator_took_us = begun.elapsed().as_secs_f64() * 1e6;
    Ok(Compared {
        disk: disk.name,
        pattern: pattern_name(workload),
        streams: workload.streams,
        request_kb: workload.request_bytes >> 10,
        think_ms: workload.think_ms(),
        model_ms: prediction.time_ms,
        simulated_ms,
        model_took_us,
        simulator_took_us,
    })
}

fn pattern_name(workload: &Workload) -> String {
    match (workload.pattern, workload.prefetching) {
        (Pattern::Sequential, Prefetching::Linux { read_ahead_bytes }) => {
            format!("sequential, read_ahead {} KB", read_ahead_bytes >> 10)
        }
        (Pattern::Sequential, _) => "sequential".to_owned(),
        (Pattern::Strided { stride_bytes }, _) => format!("every {} KB", stride_bytes >> 10),
        (Pattern::Random, _) => "random".to_owned(),
        (Pattern::Hinted { horizon }, _) => format!("random, horizon {horizon}"),
    }
}

/// The elapsed time that the simulator gives, in ms.
fn simulated_ms(device: &DeviceParameters, workload: &Workload) -> Result<f64> {
    let input = references(workload);
    let (policy, horizon) = match (workload.pattern, workload.prefetching) {
        (Pattern::Hinted { horizon }, _) => (PolicyName::Planner(Prefetch::FixedHorizon), Some(horizon)),
        (Pattern::Sequential, Prefetching::Linux { .. }) => (PolicyName::Planner(Prefetch::Linux), None),
        _ => (PolicyName::Demand(PoolPolicy::Lru), None),
    };
    // Room for everything in flight; nothing is read twice, so that more changes nothing.
    let cell = Cell {
        block_bytes: workload.request_bytes as u32,
        horizon,
        driver_ns: DRIVER_NS,
        ..Cell::new(policy, 1, &device.name, device.clone(), 4096)
    };
    Ok(simulate(&cell, &input)?.elapsed_ns as f64 / 1e6)
}

/// The reads of a workload: a process a stream, in the blocks of one file.
fn references(workload: &Workload) -> Input {
    let block = workload.request_bytes;
    let span_blocks = workload.span_bytes.div_ceil(block);
    let compute_ns = (workload.think_us * 1e3) as u64;
    let mut numbers = SplitMix(SEED);
    let processes: Vec<Vec<InputReference>> = (0..u64::from(workload.streams))
        .map(|stream| {
            let order: Vec<u64> = match workload.pattern {
                Pattern::Sequential => (0..workload.reads()).collect(),
                Pattern::Strided { stride_bytes } => {
                    (0..workload.reads()).map(|i| i * (stride_bytes / block)).collect()
                }
                Pattern::Random | Pattern::Hinted { .. } => {
                    numbers.distinct(span_blocks, workload.reads() as usize)
                }
            };
            let place = |at: u64| (stream * span_blocks + at) as u32;
            order.into_iter().map(|at| InputReference { file: 0, block: place(at), compute_ns }).collect()
        })
        .collect();
    let mut input = Input::default();
    input.survey.source = "grid".to_owned();
    input.survey.file_blocks = vec![(span_blocks * u64::from(workload.streams)) as u32];
    input.survey.references = processes.iter().map(|p| p.len() as u64).sum();
    input.survey.processes = processes.len();
    input.processes = processes;
    input
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }

    /// The first `count` of a random order of the numbers below `n` (Fisher and Yates).
    fn distinct(&mut self, n: u64, count: usize) -> Vec<u64> {
        let mut all: Vec<u64> = (0..n).collect();
        let count = count.min(all.len());
        for i in 0..count {
            let j = i + self.below(n - i as u64) as usize;
            all.swap(i, j);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests;
