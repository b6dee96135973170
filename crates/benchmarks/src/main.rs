//! Benchmarks of the plain kernel against foretell, one command each.
//!
//! Every benchmark runs its *arms* (ways to run the same program) in turn, several rounds, each from a cold
//! start, with the same total memory: the program and whatever steers its cache are in one memory cgroup
//! with one limit. "The kernel" is the better of two readahead settings, because tuning alone wins much on
//! some devices. Medians and counts are printed as a table and written as JSON with the machine, the commit
//! and the command.
//!
//! The same binary is also the program that is measured (`reader`), the launcher that enters a cgroup, the
//! helper of the slow devices and the process that cleans up, so that there is one thing to build and no
//! path to configure.

mod arguments;
mod cases;
mod cold;
mod ideal;
mod janitor;
mod killed_job;
mod machine;
mod outcome;
mod patterned;
mod program;
mod random;
mod reader;
mod report;
mod strategies;
mod together;
mod ways;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::arguments::{Arguments, Command, RunArguments};
use crate::cases::Bench;
use crate::outcome::Outcome;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Some(Command::KilledJob(job)) => killed_job::run(&job),
        Some(Command::Reader(reader)) => reader::run(&reader).map(|()| ExitCode::SUCCESS),
        Some(Command::InGroup { procs, command }) => program::enter_group_and_run(&procs, &command),
        Some(Command::Together { description }) => together::run(&description).map(|()| ExitCode::SUCCESS),
        Some(Command::Calibrate { file, output }) => {
            cases::calibrate(&file, &output).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::SlowdiskHelper) => Ok(foretell_slowdisk::helper_main()),
        Some(Command::Janitor) => janitor::run().map(|()| ExitCode::SUCCESS),
        None => benchmark(&arguments.run).map(|()| ExitCode::SUCCESS),
    }
}

/// The first of these names, and how many there are besides.
fn some(names: &[String]) -> String {
    const FIRST: usize = 12;
    let first = names.iter().take(FIRST).cloned().collect::<Vec<_>>().join("; ");
    match names.len().saturating_sub(FIRST) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// Runs the named benchmark and reports.
fn benchmark(arguments: &RunArguments) -> Result<()> {
    let bench = Bench::new(arguments)?;
    let name = arguments.name;
    let mut case = cases::prepare(name, &bench).with_context(|| format!("cannot prepare {name}"))?;
    let arms = case.arms();
    let mut outcome = Outcome::new(case.title(), &arms);
    let wanted: Vec<usize> = (0..arms.len()).filter(|arm| arms[*arm].contains(&arguments.only)).collect();
    ensure!(!wanted.is_empty(), "no arm's name contains '{}'; they are: {}", arguments.only, some(&arms));
    let progress = report::progress(wanted.len() * arguments.rounds);
    for round in 0..arguments.rounds {
        for turn in 0..wanted.len() {
            // Another arm comes first in each round, so that none always follows the same one.
            let arm = wanted[(round + turn) % wanted.len()];
            progress.set_message(format!("round {} of {}: {}", round + 1, arguments.rounds, arms[arm]));
            let measured = case.run(arm).with_context(|| format!("{name}: {}", arms[arm]))?;
            outcome.record(arm, measured);
            progress.inc(1);
            if let Some(path) = &arguments.json {
                // What was measured is kept if the rest is interrupted.
                report::write_json(path, &name.to_string(), round + 1, &outcome)?;
            }
        }
    }
    progress.finish_and_clear();
    outcome.arms.retain(|(_, series)| !series.is_empty());
    outcome.references = case.references();
    outcome.verdicts = case.verdicts(&outcome);
    outcome.table = case.table(&outcome);
    outcome.notes = case.notes(&outcome);
    drop(case);
    report::print(&outcome);
    if let Some(path) = &arguments.json {
        report::write_json(path, &name.to_string(), arguments.rounds, &outcome)?;
    }
    Ok(())
}
