//! Several processes at a time, some with hints that are wrong on purpose: does anybody suffer?
//!
//! `./x bench wrong-together` runs two to four processes on one cache and one array. The hints of every process but the
//! first are complete, half dropped, half perturbed, or all wrong. A ratio is the time to the end of one process over
//! that of the same process where nobody has hints and all files are read ahead as Linux does it.

use clap::Parser;
use foretell_device::catalogue;
use foretell_policy::Beside;
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let device = catalogue::find("hp97560")?;
    let mut inputs = Vec::new();
    for group in &args.groups {
        let mut input = Input::default();
        for name in group.split('+') {
            let workload: Workload = name.parse()?;
            input.add(workload.open(1), DEFAULT_BLOCK_BYTES)?;
        }
        inputs.push(input);
    }
    let mut tasks = Vec::new();
    for input in 0..inputs.len() {
        for &disks in &args.disks {
            for &seed in &args.seeds {
                tasks.push((input, disks, seed));
            }
        }
    }
    let run = |&(input, disks, seed): &(usize, u16, u64), wrong: Option<(f64, f64)>| {
        let input = &inputs[input];
        let policy = if wrong.is_some() { PolicyName::Informed } else { PolicyName::Linux };
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
            let plain = run(task, None)?;
            let with = WRONG.iter().map(|&(_, dropped, perturbed)| {
                let ends = run(task, Some((dropped, perturbed)))?;
                Ok(ends.iter().zip(&plain).map(|(ours, plain)| *ours as f64 / *plain as f64).collect())
            });
            with.collect::<Result<Vec<Vec<f64>>, foretell_sim::SimError>>()
        },
        |_| {},
    );
    let ratios = ratios.into_iter().collect::<Result<Vec<_>, _>>()?;
    println!("| hints of the others | process | geometric mean | worst | slower than 2% |");
    println!("| --- | --- | ---: | ---: | ---: |");
    let mut cells = Vec::new();
    for (i, (name, ..)) in WRONG.iter().enumerate() {
        for first in [true, false] {
            let of = |task: &Vec<Vec<f64>>| if first { task[i][..1].to_vec() } else { task[i][1..].to_vec() };
            let all: Vec<f64> = ratios.iter().flat_map(of).collect();
            let mean = (all.iter().map(|r| r.ln()).sum::<f64>() / all.len() as f64).exp();
            let worst = all.iter().copied().fold(0.0, f64::max);
            let slower = all.iter().filter(|r| **r > 1.02).count();
            let who = if first { "first" } else { "others" };
            println!("| {name} | {who} | {mean:.3} | {worst:.2} | {slower} of {} |", all.len());
        }
        for ((input, disks, seed), task) in tasks.iter().zip(&ratios) {
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
