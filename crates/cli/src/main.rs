//! The `foretell` command: finds the subcommand, prints errors in one line, gives the exit code.

use std::process::ExitCode;

use clap::Parser;
use foretell::args::{Cli, Command, one_line};
use foretell::commands::{
    advise, cc, compare, completions, daemon, device, doctor, learn, model, replay, run, sim, slice,
    slowdisk, status, top, trace,
};
use foretell::program::{EXEC_WHEN_TOLD, NotRun, exec_when_told};
use foretell::terminal::{unsaid, warn, with_causes};

/// Exit code for everything that is wrong with what was asked for, before anything was started.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    foretell_pagecache::expect_children();
    let mut arguments = std::env::args_os().skip(1);
    // What foretell starts itself as takes its arguments as they are: they belong to the program.
    match arguments.next() {
        Some(name) if name == EXEC_WHEN_TOLD => return exec_when_told(arguments).into(),
        Some(name) if name == "slowdisk" && arguments.next().is_some_and(|a| a == slowdisk::HELPER) => {
            return foretell_slowdisk::helper_main();
        }
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            // Help or version were asked for; a closed pipe is no reason to complain.
            let _ = e.print();
            return ExitCode::SUCCESS;
        }
        Err(e) if e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = e.print();
            return BAD_INPUT.into();
        }
        Err(e) => return fail(&one_line(&e)),
    };
    let done = match &cli.command {
        Command::Run(args) => run::execute(args),
        Command::Learn(args) => learn::execute(args),
        Command::Advise(args) => advise::execute(args),
        Command::Compare(args) => compare::execute(args),
        Command::Daemon(args) => daemon::execute(args),
        Command::Status(args) => status::execute(args),
        Command::Top(args) => top::execute(args),
        Command::Doctor(args) => doctor::execute(args),
        Command::Model(args) => model::execute(args),
        Command::Sim(args) => sim::execute(args),
        Command::Replay(args) => replay::execute(args),
        Command::Trace(args) => trace::execute(args),
        Command::Device(args) => device::execute(args),
        Command::Cc(args) => cc::execute(args),
        Command::Slice(args) => slice::execute(args),
        Command::Slowdisk(args) => slowdisk::execute(args),
        Command::Completions(args) => completions::execute(args),
        Command::Man(args) => completions::man(args),
    };
    match done {
        Ok(code) => match unsaid() {
            None => code.into(),
            Some(e) => fail(&format!("standard output: not all of it could be written ({e})")),
        },
        Err(e) => {
            warn(&with_causes(&e));
            e.downcast_ref::<NotRun>().map_or(BAD_INPUT, NotRun::code).into()
        }
    }
}

fn fail(what: &str) -> ExitCode {
    warn(what);
    BAD_INPUT.into()
}
