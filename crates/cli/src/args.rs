//! The command line. One file in `commands/` a subcommand, each with its own arguments.

use clap::{Parser, Subcommand};

use crate::commands::{
    advise, buffers, cc, compare, completions, daemon, device, doctor, learn, model, mount, replay, run, sim,
    slice, slowdisk, status, top, trace,
};

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
    /// Run a job that runs again and again: what it will read is guessed, then known, and fetched ahead.
    Learn(Box<learn::Args>),
    /// Say what would help a job that was learnt, and by how much.
    Advise(advise::Args),
    /// Run a job on the plain kernel and under foretell in turn, and compare.
    Compare(Box<compare::Args>),
    /// Serve programs that speak for themselves: one budget for all of them.
    Daemon(daemon::Args),
    /// Say what the service is doing.
    Status(status::Args),
    /// Watch the service: its processes and files, as they change.
    Top(top::Args),
    /// Keep what programs read of object stores in one pool a user, for all of them.
    Buffers(Box<buffers::Args>),
    /// Mount objects of a store as files, read-only, read ahead and kept in memory.
    Mount(Box<mount::Args>),
    /// Say which of the kernel's mechanisms work here, and what to do about the others.
    Doctor(doctor::Args),
    /// Say how long reads take and why, without a trace.
    Model(model::Args),
    /// Say what each policy would do to a trace, on simulated disks.
    Sim(Box<sim::Args>),
    /// Run again what '--log-inputs' logged, without a kernel: are all actions the same?
    Replay(replay::Args),
    /// Look into traces, and store them in one format.
    Trace(trace::Args),
    /// List and show device models, or compare one with a measured drive.
    Device(device::Args),
    /// Compile C as cc does, into programs that prefetch for themselves: make CC="foretell cc".
    #[command(
        after_help = "All arguments are the compiler's, but for a --help that stands alone.\nFORETELL_SLICE=off before a program \
        runs it without its slice.\n\nExamples:\n  \
        make CC=\"foretell cc\"\n  \
        ./configure CC=\"foretell cc\" && make\n  \
        foretell cc -O2 -o search search.c\n  \
        foretell cc -v --help                    what the compiler itself says"
    )]
    Cc(cc::Args),
    /// Compile C++ as c++ does, unchanged so far: CXX="foretell c++" beside CC="foretell cc".
    #[command(
        name = "c++",
        after_help = "All arguments are the compiler's, but for a --help that stands alone.\n\nExamples:\n  \
        make CC=\"foretell cc\" CXX=\"foretell c++\"\n  \
        foretell c++ -O2 -o search search.cpp"
    )]
    Cxx(cc::Args),
    /// Make a C program prefetch for itself, by a slice of it that runs ahead.
    Slice(slice::Args),
    /// Make a block device that is slow in a chosen way, for tests and benchmarks.
    Slowdisk(slowdisk::Args),
    /// Print completions for bash, zsh or fish.
    Completions(completions::Args),
    /// Write manual pages into a directory.
    Man(completions::ManArgs),
}

/// What clap says about a wrong command line, in one line: what, and the nearest thing that exists, or else
/// where to look it up.
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
    for (rust, plain) in NUMBERS {
        out = out.replace(rust, plain);
    }
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    if let Some(usage) = usage.filter(|_| !text.contains("tip: ")) {
        let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        let command: Vec<_> = usage.split(' ').take_while(is_word).collect();
        out.push_str(&format!("; '{} --help' says more", command.join(" ")));
    }
    out
}

/// What the standard library says of numbers, and what it means.
const NUMBERS: [(&str, &str); 4] = [
    ("number would be zero for non-zero type", "give at least 1"),
    ("invalid digit found in string", "give a whole number, not negative"),
    ("number too large to fit in target type", "this is too large"),
    ("cannot parse integer from empty string", "give a number"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// A paragraph is one line, which is broken where the terminal ends.
    #[test]
    fn what_help_says_at_its_end_is_broken_only_behind_sentences() {
        for command in Cli::command().get_subcommands() {
            let said = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let text = said.split("Examples:").next().unwrap_or_default();
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.for_each(|line| assert!(line.ends_with('.'), "{}: {line}", command.get_name()));
        }
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
        assert_eq!(
            missing,
            "the following required arguments were not provided: <PROGRAM>...; 'foretell run --help' says more"
        );
        let zero = says(&["foretell", "sim", "--horizon", "0"]);
        assert_eq!(zero, "invalid value '0' for '--horizon <N>': give at least 1");
        assert!(says(&["foretell", "runn"]).contains("'run'"));
    }

    #[test]
    fn what_is_said_of_numbers_is_what_the_standard_library_says() {
        let zero = "0".parse::<std::num::NonZeroU32>().unwrap_err().to_string();
        let word = "x".parse::<u32>().unwrap_err().to_string();
        let large = "9999999999".parse::<u32>().unwrap_err().to_string();
        let nothing = "".parse::<u32>().unwrap_err().to_string();
        assert_eq!(
            NUMBERS.map(|(rust, _)| rust),
            [zero, word, large, nothing].each_ref().map(String::as_str)
        );
    }
}
