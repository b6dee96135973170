//! The guard in simulated machines: hints of another job, and processes that suffer from each other's.
#![allow(clippy::unwrap_used)]

use foretell_device::catalogue;
use foretell_policy::Beside;
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
    let linux = run(&input, PolicyName::Linux, 1, Beside::Nothing, &[]);
    let ratio =
        |beside, wrong| run(&input, PolicyName::Informed, 1, beside, &[wrong]).elapsed_s / linux.elapsed_s;
    let (left_alone, guarded) = (ratio(Beside::Counterfactual, 0.5), ratio(Beside::Guard, 0.5));
    assert!(left_alone > 1.2 && guarded < 1.02, "{left_alone} without the guard, {guarded} with it");
    let (complete, guarded) = (ratio(Beside::Counterfactual, 0.0), ratio(Beside::Guard, 0.0));
    assert!(guarded < 0.7 && guarded <= complete * 1.005, "complete: {guarded} instead of {complete}");
}

#[test]
fn hints_of_another_job_cost_less_than_2_per_cent() {
    // All of them name other blocks of the same files.
    let input = input(&["cscope2"]);
    for disks in [1, 4] {
        let linux = run(&input, PolicyName::Linux, disks, Beside::Nothing, &[]);
        let guarded = run(&input, PolicyName::Informed, disks, Beside::Guard, &[1.0]);
        let shadow = guarded.estimated_linux_s.unwrap();
        assert!(guarded.elapsed_s < 1.02 * linux.elapsed_s, "{} of {}", guarded.elapsed_s, linux.elapsed_s);
        assert!(guarded.elapsed_s < 1.02 * shadow, "{} of {shadow}", guarded.elapsed_s);
    }
}
