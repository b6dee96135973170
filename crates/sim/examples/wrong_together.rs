//! Several processes at a time, some with hints that are wrong on purpose: does anybody suffer?
//!
//! `./x bench wrong-together` runs two to four processes on one cache and one array. The hints of every process but the
//! first are complete, half dropped, half perturbed, or all wrong. A ratio is the time to the end of one process over
//! that of the same process where nobody has hints and all files are read ahead as Linux does it.
//!
//! Processes that share a disk are chaotic: the plain kernel itself is not as fast as before where some of them begin a bit
//! later. How much that is is measured as well, and how many cells are slower than all of that.

use clap::Parser;
use foretell_device::catalogue;
use foretell_policy::{Beside, Prefetch};
use foretell_sim::{Cell, Hints, Input, PolicyName, in_parallel, simulate};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// Times to the end of each of several processes with wrong hints, over those without any.
#[derive(Debug, Parser)]
struct Args {
    /// Groups of workloads that run together, joined by `+`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cscope1+ld,cscope2+glimpse,ld+postgres-join,dinero+cscope2+ld,cscope1+cscope2+glimpse+ld"
    )]
    groups: Vec<String>,
    /// Numbers of disks.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,16")]
    disks: Vec<u16>,
    /// Seeds of layouts and errors.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// Processors of the simulated machine.
    #[arg(long, default_value_t = 1)]
    processors: u16,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// By how many ms all processes but the first begin later in further runs of the plain kernel.
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    late_ms: Vec<u64>,
    /// Do not suspend what loses against the plain kernel.
    #[arg(long)]
    unguarded: bool,
}

/// What is wrong with the hints of all processes but the first, whose hints are complete.
const WRONG: [(&str, f64, f64); 4] = [
    ("complete", 0.0, 0.0),
    ("half dropped", 0.5, 0.0),
    ("half perturbed", 0.0, 0.5),
    ("all wrong", 0.0, 1.0),
];

/// By case, then by process.
type Ratios = Vec<Vec<f64>>;

/// Ratios of many cells.
struct Spread {
    /// Geometric.
    mean: f64,
    least: f64,
    most: f64,
    /// By more than 2%.
    slower: usize,
}

impl Spread {
    fn of(ratios: &[f64]) -> Spread {
        Spread {
            mean: (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp(),
            least: ratios.iter().copied().fold(f64::MAX, f64::min),
            most: ratios.iter().copied().fold(0.0, f64::max),
            slower: ratios.iter().filter(|r| **r > 1.02).count(),
        }
    }
}

/// Those of some processes, of all cells.
fn of<'a>(cells: impl Iterator<Item = &'a Vec<f64>>, processes: &std::ops::Range<usize>) -> Vec<f64> {
    cells.flat_map(|cell| &cell[processes.start..processes.end.min(cell.len())]).copied().collect()
}

/// A group of workloads, all but the first of which begin so many ms late.
fn together(group: &str, late_ms: u64) -> Result<Input, Box<dyn std::error::Error>> {
    let mut input = Input::default();
    for name in group.split('+') {
        let workload: Workload = name.parse()?;
        input.add(workload.open(1), DEFAULT_BLOCK_BYTES)?;
    }
    for first in input.processes.iter_mut().skip(1).filter_map(|process| process.first_mut()) {
        first.compute_ns += late_ms * 1_000_000;
    }
    Ok(input)
}

/// How far the plain kernel is from itself.
fn print_plain(late_ms: &[u64], ratios: &[(Ratios, Ratios)]) {
    println!("| others later by | process | geometric mean | least | worst | slower than 2% |");
    println!("| ---: | --- | ---: | ---: | ---: | ---: |");
    for (i, late_ms) in late_ms.iter().enumerate() {
        for (who, processes) in [("first", 0..1), ("others", 1..usize::MAX)] {
            let all = of(ratios.iter().map(|(_, late)| &late[i]), &processes);
            let Spread { mean, least, most, slower } = Spread::of(&all);
            println!(
                "| {late_ms} ms | {who} | {mean:.3} | {least:.2} | {most:.2} | {slower} of {} |",
                all.len()
            );
        }
    }
    println!();
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let device = catalogue::find("hp97560")?;
    // Of each group one on time, then the late ones.
    let mut inputs = Vec::new();
    for group in &args.groups {
        let late = |&late_ms| together(group, late_ms);
        inputs.push([0].iter().chain(&args.late_ms).map(late).collect::<Result<Vec<Input>, _>>()?);
    }
    let mut tasks = Vec::new();
    for input in 0..inputs.len() {
        for &disks in &args.disks {
            for &seed in &args.seeds {
                tasks.push((input, disks, seed));
            }
        }
    }
    let run = |&(input, disks, seed): &(usize, u16, u64), late: usize, wrong: Option<(f64, f64)>| {
        let input = &inputs[input][late];
        let policy = if wrong.is_some() {
            PolicyName::Planner(Prefetch::Informed)
        } else {
            PolicyName::Planner(Prefetch::Linux)
        };
        let mut cell = Cell::new(policy, disks, "hp97560", device.clone(), 1280);
        (cell.seed, cell.demand_first, cell.processors) = (seed, true, args.processors);
        if let Some((drop_share, perturb_share)) = wrong {
            cell.beside = if args.unguarded { Beside::Counterfactual } else { Beside::Guard };
            let others = Hints { drop_share, perturb_share, ..Hints::default() };
            cell.hints_by_process = vec![others; input.processes.len()];
            cell.hints_by_process[0] = Hints::default();
        }
        simulate(&cell, input).map(|outcome| outcome.ends_ns)
    };
    let ratios = in_parallel(
        &tasks,
        args.jobs,
        |task| {
            let plain = run(task, 0, None)?;
            let over_plain = |ends: Vec<u64>, late_ms: u64| {
                let over = |(i, (ours, plain)): (usize, (&u64, &u64))| {
                    let late_ns = if i > 0 { late_ms * 1_000_000 } else { 0 };
                    ours.saturating_sub(late_ns) as f64 / *plain as f64
                };
                ends.iter().zip(&plain).enumerate().map(over).collect::<Vec<f64>>()
            };
            let with = WRONG
                .iter()
                .map(|&(_, drop, perturb)| Ok(over_plain(run(task, 0, Some((drop, perturb)))?, 0)));
            let with = with.collect::<Result<Vec<_>, foretell_sim::SimError>>()?;
            let late = args.late_ms.iter().enumerate();
            let late = late.map(|(i, &late_ms)| Ok(over_plain(run(task, i + 1, None)?, late_ms)));
            Ok((with, late.collect::<Result<Vec<_>, foretell_sim::SimError>>()?))
        },
        |_| {},
    );
    let ratios = ratios.into_iter().collect::<Result<Vec<(Ratios, Ratios)>, foretell_sim::SimError>>()?;
    print_plain(&args.late_ms, &ratios);
    println!(
        "| hints of the others | process | geometric mean | worst | slower than 2% | than all plain ones |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    let mut cells = Vec::new();
    for (i, (name, ..)) in WRONG.iter().enumerate() {
        for (who, processes) in [("first", 0..1), ("others", 1..usize::MAX)] {
            let all = of(ratios.iter().map(|(with, _)| &with[i]), &processes);
            // The slowest plain run of the same process in the same place.
            let slowest = |late: &Ratios| {
                (0..late[0].len()).map(|p| late.iter().map(|late| late[p]).fold(1.0, f64::max)).collect()
            };
            let plain: Ratios = ratios.iter().map(|(_, late)| slowest(late)).collect();
            let plain = of(plain.iter(), &processes);
            let slower_than_all =
                all.iter().zip(&plain).filter(|(ours, plain)| **ours > 1.02 * **plain).count();
            let Spread { mean, most, slower, .. } = Spread::of(&all);
            println!(
                "| {name} | {who} | {mean:.3} | {most:.2} | {slower} of {} | {slower_than_all} |",
                all.len()
            );
        }
        for ((input, disks, seed), (task, _)) in tasks.iter().zip(&ratios) {
            for (process, ratio) in task[i].iter().enumerate() {
                let group = &args.groups[*input];
                cells.push((
                    *ratio,
                    format!("{group}, {disks} disks, seed {seed}, others {name}: process {process}"),
                ));
            }
        }
    }
    cells.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!();
    for (ratio, cell) in cells.iter().take(20) {
        println!("- {ratio:.3}: {cell}");
    }
    Ok(())
}
