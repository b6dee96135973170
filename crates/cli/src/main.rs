//! The `foretell` command: what lies before a job is done here, all else by `foretell-tools`.
//!
//! A job waits until this program has been read, and on a cold disk that is most of what `foretell learn` costs a short
//! one. Charts, traces, simulators and compilers are half of what there is, so they lie in a file beside this one.

use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use foretell::commands::{learn, run};
use foretell::entry::{enter, fail};
use foretell::program::EXEC_WHEN_TOLD;
use foretell_pagecache::lastly::{self, WAIT_FOR};

/// The file beside this one that does the rest.
const TOOLS: &str = "foretell-tools";

/// The part of the command line that is read here; `foretell::args::Cli` is the whole of it.
#[derive(Debug, Parser)]
#[command(name = "foretell", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program with its files under a caching and prefetching policy.
    Run(Box<run::Args>),
    /// Run a job that runs again and again: what it will read is guessed, then known, and fetched ahead.
    Learn(Box<learn::Args>),
}

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    if ["run", "learn", EXEC_WHEN_TOLD, WAIT_FOR]
        .into_iter()
        .any(|own| first.as_deref().is_some_and(|first| first == own))
    {
        return enter(execute);
    }
    become_tools()
}

fn execute(cli: &Cli) -> Result<u8> {
    let code = match &cli.command {
        Command::Run(args) => run::execute(args),
        Command::Learn(args) => learn::execute(args),
    }?;
    lastly::end_likewise(code);
    Ok(code)
}

/// Becomes the other program, with the same name and arguments. Returns when that fails.
fn become_tools() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "foretell".into());
    let error = match std::env::current_exe() {
        Ok(own) => {
            let tools = own.with_file_name(TOOLS);
            let mut command = std::process::Command::new(&tools);
            command.arg0(name).args(arguments);
            // What was closed is closed there, and what was ignored is ignored.
            foretell_pagecache::expect_children();
            foretell_pagecache::hand_on(&mut command);
            let error = command.exec();
            format!("cannot execute {}, which belongs beside this program ({error})", tools.display())
        }
        Err(error) => format!("cannot find {TOOLS}, which belongs beside this program ({error})"),
    };
    fail(&error)
}
