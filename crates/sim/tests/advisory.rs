//! The advisory machine: the kernel holds the blocks, and is faulty on purpose.
#![allow(clippy::unwrap_used)]

mod given;

use std::collections::BTreeSet;

use foretell_device::catalogue;
use foretell_policy::{Action, Input as Told, Nanos, PoolPolicy, Prefetch, Tap};
use foretell_sim::{
    Advised, Advisory, Batch, Cell, Hints, Input, Outcome, PolicyName, simulate, simulate_tapped,
};
use foretell_testkit::perturb::Random;
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// A small workload: some processes that scan files, in part or whole, and read blocks here and there.
fn small(random: &mut Random) -> Input {
    let processes = 1 + random.below(3) as u32;
    let mut references = Vec::new();
    for _ in 0..3 + random.below(8) {
        let process = random.below(processes as usize) as u32;
        let file = random.below(4) as u32;
        let first = random.below(20) as u64;
        let scan = random.chance(0.7);
        for i in 0..1 + random.below(20) as u64 {
            let block = if scan { first + i } else { random.below(40) as u64 };
            references.push((process, file, block, random.below(3_000_000) as u64));
        }
    }
    given::input(references)
}

fn some_cell(random: &mut Random, seed: u64) -> Cell {
    let devices = ["hp97560", "cloud", "nvme"];
    let device = catalogue::find(devices[random.below(3)]).unwrap();
    let policies = [
        PolicyName::Planner(Prefetch::Informed),
        PolicyName::Planner(Prefetch::Forestall),
        PolicyName::Planner(Prefetch::Aggressive),
        PolicyName::Demand(PoolPolicy::Mru),
    ];
    let policy = policies[random.below(4)];
    let mut cell = Cell::new(policy, 1 + random.below(3) as u16, "some", device, 2 + random.below(40) as u32);
    cell.demand_first = true;
    cell.batch = Batch::Fixed(1 + random.below(16) as u32);
    cell.processors = 1 + random.below(2) as u16;
    let share = if random.chance(0.5) { 0.0 } else { 0.3 };
    cell.hints = Hints { drop_share: share, perturb_share: share, ..Hints::default() };
    cell.seed = seed;
    cell.advisory = Some(Advisory { faults: Some(seed) });
    cell
}

/// What holds of every run, faults or not.
fn check(cell: &Cell, outcome: &Outcome, seed: u64) -> Advised {
    let advised = outcome.advised.unwrap();
    assert_eq!(advised.differing, 0, "seed {seed}: the books are wrong at rest: {advised:?}");
    // Somebody computes or a disk works at any time: no time is lost for a missed observation.
    let busy_s = outcome.utilization * f64::from(cell.disks) * outcome.elapsed_s;
    let most_s = outcome.compute_s + outcome.driver_s + busy_s;
    assert!(outcome.elapsed_s <= most_s + 1e-6, "seed {seed}: {} of {most_s}", outcome.elapsed_s);
    let sum_ns = outcome.compute_ns + outcome.driver_ns + outcome.stall_ns;
    assert_eq!(u64::from(cell.processors) * outcome.elapsed_ns, sum_ns, "seed {seed}");
    advised
}

#[test]
fn a_thousand_seeds_of_faults_leave_the_books_right() {
    let mut sum = Advised::default();
    let seeds = foretell_testkit::seeds(1000);
    let enough = seeds.end - seeds.start >= 500;
    for seed in seeds {
        let random = &mut Random::new(seed);
        let (input, cell) = (small(random), some_cell(random, seed));
        let outcome = simulate(&cell, &input).unwrap();
        assert_eq!(
            outcome.references,
            input.references(),
            "seed {seed}: also those of which the engine never heard"
        );
        let advised = check(&cell, &outcome, seed);
        sum.vanished += advised.vanished;
        sum.refused += advised.refused;
        sum.late += advised.late;
        sum.lost += advised.lost;
        sum.read_ahead += advised.read_ahead;
    }
    let Advised { vanished, refused, late, lost, read_ahead, .. } = sum;
    for count in [vanished, refused, late, lost, read_ahead] {
        assert!(count > 100 || !enough, "every fault has happened: {sum:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    let random = &mut Random::new(5);
    let (input, mut cell) = (small(random), some_cell(random, 5));
    let first = simulate(&cell, &input).unwrap();
    assert_eq!(simulate(&cell, &input).unwrap(), first);
    cell.advisory = Some(Advisory { faults: Some(6) });
    assert_ne!(simulate(&cell, &input).unwrap().advised, first.advised);
}

#[test]
fn steering_gains_beside_the_kernel_and_with_its_faults() {
    let workload: Workload = "cscope2".parse().unwrap();
    let input = Input::read(workload.open(1), DEFAULT_BLOCK_BYTES).unwrap();
    let run = |policy, faults| {
        let mut cell = Cell::new(policy, 1, "hp97560", catalogue::find("hp97560").unwrap(), 1280);
        (cell.demand_first, cell.advisory) = (true, Some(Advisory { faults }));
        let outcome = simulate(&cell, &input).unwrap();
        check(&cell, &outcome, 0);
        outcome
    };
    let plain = run(PolicyName::Demand(PoolPolicy::Lru), None);
    assert!(plain.advised.unwrap().read_ahead > 1000, "the kernel reads ahead by itself");
    assert_eq!(plain.advised.unwrap().vanished, 0);
    for (faults, most) in [(None, 0.7), (Some(1), 0.8), (Some(2), 0.8)] {
        let steered = run(PolicyName::Planner(Prefetch::Informed), faults);
        let ratio = steered.elapsed_s / plain.elapsed_s;
        assert!(ratio < most, "{faults:?}: {ratio}");
        assert_eq!(steered.advised.unwrap().lost > 0, faults.is_some());
    }
}

/// Who has ended, and whether anything was told of one of them afterwards.
#[derive(Default)]
struct Ended {
    processes: BTreeSet<u32>,
    managers_processes: u32,
}

impl Tap for Ended {
    fn input(&mut self, _: Nanos, input: &Told<'_>) {
        match *input {
            Told::ProcessExited { process } => {
                assert!(self.processes.insert(process.0), "it ends once");
            }
            Told::Accessed { process, .. } => {
                self.managers_processes = self.managers_processes.max(process.0 + 1);
                assert!(!self.processes.contains(&process.0), "{process:?} has ended");
            }
            _ => {}
        }
    }

    fn action(&mut self, _: &Action) {}
}

impl Drop for Ended {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.processes.len() >= self.managers_processes as usize, "every end is told");
        }
    }
}

#[test]
fn a_process_ends_after_all_that_it_did() {
    for seed in 0..200 {
        let random = &mut Random::new(seed);
        let (input, cell) = (small(random), some_cell(random, seed));
        simulate_tapped(&cell, &input, Some(Box::<Ended>::default())).unwrap();
    }
}

#[test]
fn a_block_that_was_read_ahead_overtakes_others_once_it_is_waited_for() {
    // Three processes scan files of their own, two blocks in a row between two far ones: the second one is read ahead.
    let reads =
        (0..600u64).flat_map(|i| (0..3).map(move |process| (process, process, i / 2 * 7 + i % 2, 100_000)));
    let input = given::input(reads);
    let run = |promote| {
        let mut cell = Cell::new(
            PolicyName::Demand(PoolPolicy::Lru),
            1,
            "hp97560",
            catalogue::find("hp97560").unwrap(),
            1280,
        );
        (cell.demand_first, cell.promote) = (true, promote);
        cell.advisory = Some(Advisory { faults: None });
        simulate(&cell, &input).unwrap().ends_ns
    };
    assert_ne!(run(true), run(false));
}
