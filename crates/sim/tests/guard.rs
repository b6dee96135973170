//! The guard in simulated machines: hints of another job, and processes that suffer from each other's.
#![allow(clippy::unwrap_used)]

use foretell_device::catalogue;
use foretell_policy::{Beside, Prefetch};
use foretell_sim::{Cell, Hints, Input, Outcome, PolicyName, simulate};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

fn input(workloads: &[&str]) -> Input {
    let mut input = Input::default();
    for name in workloads {
        let workload: Workload = name.parse().unwrap();
        input.add(workload.open(1), DEFAULT_BLOCK_BYTES).unwrap();
    }
    input
}

fn run(input: &Input, policy: PolicyName, disks: u16, beside: Beside, wrong: &[f64]) -> Outcome {
    let device = catalogue::find("hp97560").unwrap();
    let mut cell = Cell::new(policy, disks, "hp97560", device, 1280);
    (cell.demand_first, cell.beside) = (true, beside);
    let hints = |&perturb_share: &f64| Hints { perturb_share, ..Hints::default() };
    cell.hints_by_process = wrong.iter().map(hints).collect();
    simulate(&cell, input).unwrap()
}

#[test]
fn half_of_the_hints_wrong_is_no_slower_than_the_plain_kernel() {
    let input = input(&["ld"]);
    let linux = run(&input, PolicyName::Planner(Prefetch::Linux), 1, Beside::Nothing, &[]);
    let ratio = |beside, wrong| {
        run(&input, PolicyName::Planner(Prefetch::Informed), 1, beside, &[wrong]).elapsed_s / linux.elapsed_s
    };
    let (left_alone, guarded) = (ratio(Beside::Counterfactual, 0.5), ratio(Beside::Guard, 0.5));
    assert!(left_alone > 1.2 && guarded < 1.02, "{left_alone} without the guard, {guarded} with it");
    let (complete, guarded) = (ratio(Beside::Counterfactual, 0.0), ratio(Beside::Guard, 0.0));
    assert!(guarded < 0.7 && guarded <= complete * 1.005, "complete: {guarded} instead of {complete}");
}

#[test]
fn hints_of_another_job_cost_less_than_2_per_cent() {
    // All of them name other blocks of the same files.
    for (workload, disks) in [("cscope2", 1), ("cscope2", 4), ("cscope1", 1), ("ld", 16)] {
        let input = input(&[workload]);
        let linux = run(&input, PolicyName::Planner(Prefetch::Linux), disks, Beside::Nothing, &[]);
        let guarded = run(&input, PolicyName::Planner(Prefetch::Informed), disks, Beside::Guard, &[1.0]);
        let shadow = guarded.estimated_linux_s.unwrap();
        assert!(guarded.elapsed_s < 1.02 * linux.elapsed_s, "{} of {}", guarded.elapsed_s, linux.elapsed_s);
        assert!(guarded.elapsed_s < 1.02 * shadow, "{} of {shadow}", guarded.elapsed_s);
    }
}

#[test]
fn nobody_pays_for_what_its_neighbours_fetch_ahead() {
    // All hints are complete. What three others fetch ahead, and when they compute, is in the way of the first one.
    let input = input(&["cscope1", "cscope2", "glimpse", "ld"]);
    let linux = run(&input, PolicyName::Planner(Prefetch::Linux), 4, Beside::Nothing, &[]);
    let worst = |beside| {
        let with = run(&input, PolicyName::Planner(Prefetch::Informed), 4, beside, &[0.0; 4]);
        let ratios =
            with.ends_ns.iter().zip(&linux.ends_ns).map(|(with, plain)| *with as f64 / *plain as f64);
        ratios.fold(0.0, f64::max)
    };
    let (left_alone, guarded) = (worst(Beside::Counterfactual), worst(Beside::Guard));
    assert!(left_alone > 1.3 && guarded < 1.02, "{left_alone} without the guard, {guarded} with it");
}

#[test]
fn the_plain_kernel_beside_several_processes_is_the_plain_kernel() {
    // Steered by nothing, so that the times that are measured are those of the same requests.
    for (workloads, processors) in [(&["cscope1", "ld"][..], 1), (&["cscope1", "cscope2", "ld"], 2)] {
        let input = input(workloads);
        let device = catalogue::find("hp97560").unwrap();
        let mut cell = Cell::new(PolicyName::Planner(Prefetch::Linux), 2, "hp97560", device, 1280);
        (cell.demand_first, cell.beside, cell.processors) = (true, Beside::Counterfactual, processors);
        let linux = simulate(&cell, &input).unwrap();
        let ratio = linux.estimated_linux_s.unwrap() / linux.elapsed_s;
        assert!((0.97..1.03).contains(&ratio), "{workloads:?}: {ratio}");
    }
}

#[test]
fn a_process_whose_files_are_the_kernels_in_part_is_one_process() {
    let input = input(&["cscope2"]);
    let device = catalogue::find("hp97560").unwrap();
    let mut cell = Cell::new(PolicyName::Planner(Prefetch::Linux), 1, "hp97560", device, 1280);
    (cell.demand_first, cell.beside) = (true, Beside::Counterfactual);
    let whole = simulate(&cell, &input).unwrap();
    // Every other file is left to the kernel.
    let files = (0..input.survey.file_blocks.len()).map(|file| (file % 2 == 0).then_some(0)).collect();
    cell.control = Some(std::sync::Arc::new(foretell_sim::Control { files, ..Default::default() }));
    let parts = simulate(&cell, &input).unwrap();
    assert_eq!((parts.elapsed_ns, parts.estimated_linux_s), (whole.elapsed_ns, whole.estimated_linux_s));
}
