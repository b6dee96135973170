//! `foretell-tools`: all that the command does. `foretell` becomes it for what it does not do itself (`main.rs`).

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};
use foretell::args::{Cli, Command, one_line};
use foretell::commands::{
    advise, buffers, cc, compare, completions, daemon, device, doctor, learn, model, mount, replay, run, sim,
    slice, slowdisk, status, top, trace,
};
use foretell::entry::enter;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(one), Some(other), _) if one == "slowdisk" && other == slowdisk::HELPER => {
            return foretell_slowdisk::helper_main();
        }
        (Some(one), Some(other), Some(directory)) if one == "mount" && other == mount::GUARD => {
            return foretell_mount::guard_main(directory.as_ref());
        }
        (Some(one), Some(other), _) if one == "buffers" && other == buffers::HOST => {
            return host();
        }
        _ => {}
    }
    enter(execute)
}

/// The process that has a user's pool.
fn host() -> ExitCode {
    let arguments = std::env::args_os().skip(2);
    match buffers::Host::try_parse_from(arguments) {
        Ok(host) => buffers::host(&host.args).map_or_else(|_| 2.into(), ExitCode::from),
        Err(error) => {
            eprintln!("{}", one_line(&error));
            2.into()
        }
    }
}

fn execute(cli: &Cli) -> Result<u8> {
    match &cli.command {
        Command::Run(args) => run::execute(args),
        Command::Learn(args) => learn::execute(args),
        Command::Advise(args) => advise::execute(args),
        Command::Compare(args) => compare::execute(args),
        Command::Daemon(args) => daemon::execute(args),
        Command::Status(args) => status::execute(args),
        Command::Top(args) => top::execute(args),
        Command::Buffers(args) => buffers::execute(args),
        Command::Mount(args) => mount::execute(args),
        Command::Doctor(args) => doctor::execute(args),
        Command::Model(args) => model::execute(args),
        Command::Sim(args) => sim::execute(args),
        Command::Replay(args) => replay::execute(args),
        Command::Trace(args) => trace::execute(args),
        Command::Device(args) => device::execute(args),
        Command::Cc(args) => cc::execute(args, Cli::command),
        Command::Cxx(args) => cc::execute_cxx(args, Cli::command),
        Command::Slice(args) => slice::execute(args),
        Command::Slowdisk(args) => slowdisk::execute(args),
        Command::Completions(args) => completions::execute(args, Cli::command()),
        Command::Man(args) => completions::man(args, Cli::command()),
    }
}
