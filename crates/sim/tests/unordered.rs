//! A job that reads what its list names, in another order.
#![allow(clippy::unwrap_used)]

mod given;

use foretell_device::catalogue;
use foretell_policy::{Beside, Prefetch};
use foretell_sim::{Advisory, Cell, Hints, Input, Outcome, PolicyName, simulate};

const FILES: u32 = 1000;
const BLOCKS: u64 = 6;
const COMPUTE_NS: u64 = 50_000;

/// Every file once, in order; the hints have another.
fn once() -> Input {
    files(FILES, BLOCKS)
}

fn files(count: u32, blocks: u64) -> Input {
    given::input((0..count).flat_map(|file| (0..blocks).map(move |block| (0, file, block, COMPUTE_NS))))
}

fn run(input: &Input, device: &str, policy: PolicyName, cache_blocks: u32, shuffle_share: f64) -> Outcome {
    let mut cell = Cell::new(policy, 1, device, catalogue::find(device).unwrap(), cache_blocks);
    cell.demand_first = true;
    cell.advisory = Some(Advisory { faults: None });
    cell.hints = Hints { shuffle_share, ..Hints::default() };
    cell.beside =
        if policy == PolicyName::Planner(Prefetch::Informed) { Beside::Guard } else { Beside::Nothing };
    simulate(&cell, input).unwrap()
}

/// What the job takes beside the plain kernel, and its fetches beside the kernel's.
fn beside_the_kernel(input: &Input, device: &str, cache_blocks: u32, shuffle_share: f64) -> (f64, f64) {
    let linux = run(input, device, PolicyName::Planner(Prefetch::Linux), cache_blocks, 0.0);
    let informed = run(input, device, PolicyName::Planner(Prefetch::Informed), cache_blocks, shuffle_share);
    (informed.elapsed_s / linux.elapsed_s, informed.fetches as f64 / linux.fetches as f64)
}

#[test]
fn what_a_list_names_is_fetched_when_its_order_is_lost() {
    let input = once();
    for (device, cache_blocks, most) in
        [("cloud", 8000, 0.6), ("cloud", 3000, 0.8), ("hp97560", 8000, 0.97), ("hp97560", 3000, 1.0)]
    {
        let (elapsed, fetches) = beside_the_kernel(&input, device, cache_blocks, 1.0);
        assert!(elapsed < most, "{device}, {cache_blocks}: {elapsed:.3} of the kernel's time");
        assert!(fetches < 1.25, "{device}, {cache_blocks}: {fetches:.3} of the kernel's fetches");
    }
}

#[test]
fn an_order_that_is_right_is_followed() {
    let input = once();
    for (device, cache_blocks) in [("cloud", 3000), ("hp97560", 3000)] {
        let (in_order, _) = beside_the_kernel(&input, device, cache_blocks, 0.0);
        let (mostly, fetches) = beside_the_kernel(&input, device, cache_blocks, 0.05);
        assert!(
            mostly < in_order * 1.2 && fetches < 1.05,
            "{device}: {in_order:.3}, then {mostly:.3}; {fetches:.3}"
        );
    }
}

#[test]
fn of_large_files_in_another_order_the_present_one_is_fetched_ahead() {
    let input = files(12, 1024);
    for (device, cache_blocks) in [("cloud", 6000), ("cloud", 3000), ("hp97560", 6000), ("hp97560", 3000)] {
        let (elapsed, fetches) = beside_the_kernel(&input, device, cache_blocks, 1.0);
        assert!(elapsed < 1.02, "{device}, {cache_blocks}: {elapsed:.3} of the kernel's time");
        assert!(fetches < 1.15, "{device}, {cache_blocks}: {fetches:.3} of the kernel's fetches");
    }
}
