//! `foretell-tools`: all that the command does. `foretell` becomes it for what it does not do itself (`main.rs`).

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use foretell::args::{Cli, Command};
use foretell::commands::{
    advise, cc, compare, completions, daemon, device, doctor, learn, model, mount, replay, run, sim, slice,
    slowdisk, status, top, trace,
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
        _ => {}
    }
    enter(execute)
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
