//! The command line. One file in `commands/` a subcommand, each with its own arguments.

use clap::{Parser, Subcommand};

use crate::commands::{cc, daemon, device, doctor, model, run, sim, slice, slowdisk, status, top, trace};

/// Lets programs that nobody may change run under a caching and prefetching policy.
#[derive(Debug, Parser)]
#[command(name = "foretell", version, about, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program with its files under a caching and prefetching policy.
    Run(Box<run::Args>),
    /// Serve programs that speak for themselves: one budget for all of them.
    Daemon(daemon::Args),
    /// Say what the service is doing.
    Status(status::Args),
    /// Watch the service: its processes and files, as they change.
    Top(top::Args),
    /// Say which of the kernel's mechanisms work here, and what to do about the others.
    Doctor(doctor::Args),
    /// Say how long reads take and why, without a trace.
    Model(model::Args),
    /// Say what each policy would do to a trace, on simulated disks.
    Sim(Box<sim::Args>),
    /// Look into traces, and store them in one format.
    Trace(trace::Args),
    /// List and show device models, or compare one with a measured drive.
    Device(device::Args),
    /// Compile C as cc does, into programs that prefetch for themselves: make CC="foretell cc".
    Cc(cc::Args),
    /// Make a C program prefetch for itself, by a slice of it that runs ahead.
    Slice(slice::Args),
    /// Make a block device that is slow in a chosen way, for tests and benchmarks.
    Slowdisk(slowdisk::Args),
}

/// What clap says about a wrong command line, in one line: what, and the nearest thing that exists.
#[must_use]
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = said.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let mut out = String::new();
    for (i, line) in said.enumerate() {
        let line = line.trim_start_matches("error: ").trim_start_matches("tip: ");
        // Only an argument that stands alone continues the sentence before it.
        let joint = if i == 0 {
            ""
        } else if out.ends_with(':') {
            " "
        } else {
            "; "
        };
        out.push_str(joint);
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_command_lines_are_told_in_one_line() {
        let says = |args: &[&str]| one_line(&Cli::try_parse_from(args).unwrap_err());
        let unknown = says(&["foretell", "doctor", "--jsno"]);
        assert_eq!(unknown, "unexpected argument '--jsno' found; a similar argument exists: '--json'");
        // What follows the program's name belongs to the program, with '--' or without.
        for args in [&["--", "x", "--unknown"][..], &["x", "--budget"]] {
            assert!(Cli::try_parse_from([&["foretell", "run"][..], args].concat()).is_ok());
        }
        let missing = says(&["foretell", "run"]);
        assert!(missing.contains("PROGRAM") && !missing.contains('\n'), "{missing}");
        assert!(says(&["foretell", "runn"]).contains("'run'"));
    }
}
