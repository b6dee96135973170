//! What hints that are partly wrong cost or gain: each policy against the better of demand LRU and Linux readahead,
//! which have none.
//!
//! `./x bench wrong-hints` runs all workloads, arrays, kinds and shares of errors; the options below make it smaller.
//! A cell is the elapsed time with such hints over the time of the better plain one: below 1 is a gain, and more
//! than 1.02 is what must not be.

use std::collections::BTreeMap;

use clap::Parser;
use foretell_device::catalogue;
use foretell_policy::{Beside, PoolPolicy, Prefetch};
use foretell_sim::{Cell, Hints, Input, Outcome, PolicyName, in_parallel, simulate};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// Elapsed time of policies with wrong hints over that of the better of demand LRU and Linux readahead.
#[derive(Debug, Parser)]
struct Args {
    /// Workloads by name.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "synth,cscope1,cscope2,cscope3,ld,glimpse,postgres-join,xds,dinero,zipf:references=100000"
    )]
    workloads: Vec<String>,
    /// Numbers of disks.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,16")]
    disks: Vec<u16>,
    /// Policies to compare.
    #[arg(long, value_delimiter = ',', default_value = "informed")]
    policies: Vec<PolicyName>,
    /// Shares of references that are wrong, in per cent.
    #[arg(long, value_delimiter = ',', default_value = "0,1,5,20,50")]
    percent: Vec<u32>,
    /// References that are disclosed ahead; 0 for all.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    lookahead: Vec<u32>,
    /// Seeds of layouts and errors.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// The drives.
    #[arg(long, default_value = "hp97560")]
    device: String,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Cells that are printed, the worst first.
    #[arg(long, default_value_t = 20)]
    worst: usize,
    /// The papers' queues, in which a demand fetch waits for its turn.
    #[arg(long)]
    paper: bool,
    /// Do not suspend what loses against the plain kernel.
    #[arg(long)]
    unguarded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Exact,
    Dropped,
    Inserted,
    Perturbed,
    Shuffled,
}

#[derive(Debug, Clone)]
struct Task {
    workload: usize,
    disks: u16,
    seed: u64,
    /// `None` for one of the plain ones.
    wrong: Option<(Kind, u32, u32)>,
    policy: PolicyName,
}

fn hints(kind: Kind, percent: u32, lookahead: u32) -> Hints {
    let share = f64::from(percent) / 100.0;
    let lookahead = (lookahead > 0).then_some(lookahead);
    match kind {
        Kind::Exact => Hints { lookahead, ..Hints::default() },
        Kind::Dropped => Hints { drop_share: share, lookahead, ..Hints::default() },
        Kind::Inserted => Hints { insert_share: share, lookahead, ..Hints::default() },
        Kind::Perturbed => Hints { perturb_share: share, lookahead, ..Hints::default() },
        Kind::Shuffled => Hints { shuffle_share: share, lookahead, ..Hints::default() },
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let device = catalogue::find(&args.device)?;
    let mut inputs = Vec::new();
    for name in &args.workloads {
        let workload: Workload = name.parse()?;
        let input = Input::read(workload.open(1), DEFAULT_BLOCK_BYTES)?;
        let cache_blocks = workload.published().map_or(1280, |p| p.cache_blocks);
        inputs.push((input, cache_blocks));
    }
    let mut tasks = Vec::new();
    for workload in 0..inputs.len() {
        for &disks in &args.disks {
            for &seed in &args.seeds {
                let task = |wrong, policy| Task { workload, disks, seed, wrong, policy };
                tasks.push(task(None, PolicyName::Demand(PoolPolicy::Lru)));
                tasks.push(task(None, PolicyName::Planner(Prefetch::Linux)));
                for &policy in &args.policies {
                    for &lookahead in &args.lookahead {
                        for &percent in &args.percent {
                            let kinds: &[Kind] = match percent {
                                0 => &[Kind::Exact],
                                _ => &[Kind::Dropped, Kind::Inserted, Kind::Perturbed, Kind::Shuffled],
                            };
                            for &kind in kinds {
                                tasks.push(task(Some((kind, percent, lookahead)), policy));
                            }
                        }
                    }
                }
            }
        }
    }
    eprintln!("{} cells", tasks.len());
    let outcomes = in_parallel(
        &tasks,
        args.jobs,
        |t| {
            let (input, cache_blocks) = &inputs[t.workload];
            let mut cell = Cell::new(t.policy, t.disks, &args.device, device.clone(), *cache_blocks);
            cell.seed = t.seed;
            cell.demand_first = !args.paper;
            if t.policy == PolicyName::Planner(Prefetch::Informed) {
                cell.beside = if args.unguarded { Beside::Counterfactual } else { Beside::Guard };
            }
            if let Some((kind, percent, lookahead)) = t.wrong {
                cell.hints = hints(kind, percent, lookahead);
            }
            simulate(&cell, input)
        },
        |_| {},
    );
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    report(&args, &tasks, &outcomes);
    Ok(())
}

fn report(args: &Args, tasks: &[Task], outcomes: &[Outcome]) {
    let mut plain: BTreeMap<(usize, u16, u64), f64> = BTreeMap::new();
    for (task, outcome) in tasks.iter().zip(outcomes).filter(|(t, _)| t.wrong.is_none()) {
        let best = plain.entry((task.workload, task.disks, task.seed)).or_insert(f64::INFINITY);
        *best = best.min(outcome.elapsed_s);
    }
    estimates(tasks, outcomes);
    // Ratios by policy, kind and share.
    let mut columns: BTreeMap<(PolicyName, Kind, u32, u32), Vec<f64>> = BTreeMap::new();
    let mut cells = Vec::new();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        let Some((kind, percent, lookahead)) = task.wrong else { continue };
        let ratio = outcome.elapsed_s / plain[&(task.workload, task.disks, task.seed)];
        columns.entry((task.policy, kind, percent, lookahead)).or_default().push(ratio);
        let place = format!("{}, {} disks, seed {}", args.workloads[task.workload], task.disks, task.seed);
        cells.push((
            ratio,
            format!("{} {kind:?} {percent}% lookahead {lookahead}: {place}", task.policy),
            outcome,
        ));
    }
    println!("| policy | hints | geometric mean | worst | slower than 2% |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for ((policy, kind, percent, lookahead), ratios) in &columns {
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let slower = ratios.iter().filter(|r| **r > 1.02).count();
        println!(
            "| {policy} | {kind:?} {percent}%, {} | {mean:.3} | {worst:.2} | {slower} of {} |",
            if *lookahead == 0 { "all".to_owned() } else { format!("{lookahead} ahead") },
            ratios.len()
        );
    }
    cells.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nThe worst cells:\n");
    for (ratio, name, outcome) in cells.iter().take(args.worst) {
        let Outcome { elapsed_s, stall_s, fetches, wasted_fetches, mean_fetch_ms, .. } = outcome;
        println!(
            "- {ratio:.3}: {name} ({elapsed_s:.1} s, {stall_s:.1} s of it stall; {fetches} fetches of {mean_fetch_ms:.1} ms, \
             {wasted_fetches} wasted)"
        );
    }
}

/// How near the estimates of Linux beside the policies are to Linux run by itself.
fn estimates(tasks: &[Task], outcomes: &[Outcome]) {
    let place = |t: &Task| (t.workload, t.disks, t.seed);
    let linux: BTreeMap<_, &Outcome> = tasks
        .iter()
        .zip(outcomes)
        .filter(|(t, _)| t.wrong.is_none() && t.policy == PolicyName::Planner(Prefetch::Linux))
        .map(|(t, o)| (place(t), o))
        .collect();
    let mut columns: BTreeMap<(PolicyName, Kind, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for (t, o) in tasks.iter().zip(outcomes) {
        let Some((kind, percent, _)) = t.wrong else { continue };
        let (Some(elapsed_s), Some(stall_s)) = (o.estimated_linux_s, o.estimated_linux_stall_s) else {
            continue;
        };
        let real = linux[&place(t)];
        let (elapsed, stall) = (elapsed_s / real.elapsed_s, stall_s / real.stall_s);
        if std::env::var_os("DETAIL").is_some() {
            eprintln!("{:?} {kind:?} {percent} {elapsed:.3} {stall:.3}", place(t));
        }
        columns.entry((t.policy, kind, percent)).or_default().push((elapsed, stall));
    }
    println!("| policy | hints | Linux estimated: elapsed within 5% | stall within 10% | least | most |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for ((policy, kind, percent), ratios) in &columns {
        let near = |ratio: f64, by: f64| (ratio - 1.0).abs() <= by;
        let elapsed = ratios.iter().filter(|r| near(r.0, 0.05)).count();
        let stall = ratios.iter().filter(|r| near(r.1, 0.10)).count();
        let least = ratios.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
        let most = ratios.iter().map(|r| r.0).fold(0.0, f64::max);
        println!(
            "| {policy} | {kind:?} {percent}% | {elapsed} of {} | {stall} | {least:.2} | {most:.2} |",
            ratios.len()
        );
    }
    println!();
}
