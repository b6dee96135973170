//! What the plain kernel would take, estimated beside a run that is the plain kernel itself: the same requests, so that
//! the estimate should be right.
#![allow(clippy::unwrap_used)]

mod given;

use foretell_device::catalogue;
use foretell_policy::{Beside, Prefetch};
use foretell_sim::{Cell, Input, Outcome, PolicyName, simulate};
use foretell_testkit::perturb::Random;

/// Processes that read blocks of files of their own at random: so many each, of so many blocks, all or every second one, of
/// which nothing is read ahead.
fn at_random(processes: u32, reads: u64, blocks: usize, every: usize, compute_ns: u64) -> Input {
    let mut random = Random::new(1);
    let mut all = Vec::new();
    for _ in 0..reads {
        for process in 0..processes {
            let block = random.below(blocks) * every + every - 1;
            all.push((process, process, block as u64, compute_ns));
        }
    }
    given::input(all)
}

fn plain(input: &Input, device: &str, processors: u16, cache_blocks: u32) -> Outcome {
    let model = catalogue::find(device).unwrap();
    let mut cell = Cell::new(PolicyName::Planner(Prefetch::Linux), 1, device, model, cache_blocks);
    (cell.demand_first, cell.beside, cell.processors) = (true, Beside::Counterfactual, processors);
    simulate(&cell, input).unwrap()
}

#[test]
fn of_processes_that_saturate_a_disk() {
    for (device, reads, blocks, processors, cache_blocks) in [
        ("uniform", 300, 50, 1, 160),
        ("uniform", 300, 50, 4, 160),
        ("uniform", 1000, 400, 1, 1280),
        ("uniform", 1000, 100, 1, 320),
        ("hp97560", 1000, 400, 1, 1280),
    ] {
        let outcome = plain(&at_random(64, reads, blocks, 1, 10_000_000), device, processors, cache_blocks);
        let ratio = outcome.estimated_linux_s.unwrap() / outcome.elapsed_s;
        assert!((0.97..1.03).contains(&ratio), "{device}, {cache_blocks} blocks, {processors}: {ratio}");
        let stall = outcome.estimated_linux_stall_s.unwrap() - outcome.stall_s;
        let stall = stall / outcome.elapsed_s / f64::from(processors);
        assert!(stall.abs() < 0.03, "{device}, {cache_blocks} blocks, {processors}: {stall} of the time");
    }
}

#[test]
fn of_a_device_that_serves_many_at_a_time() {
    for (device, processes, processors) in
        [("cloud-volume", 128, 128), ("nvme", 128, 8), ("object-store", 64, 64), ("object-store", 64, 1)]
    {
        let outcome = plain(&at_random(processes, 300, 400, 2, 1_000_000), device, processors, 1280);
        let ratio = outcome.estimated_linux_s.unwrap() / outcome.elapsed_s;
        assert!((0.9..1.1).contains(&ratio), "{device}, {processes} on {processors}: {ratio}");
    }
}
