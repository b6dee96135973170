//! `foretelld`: the same as `foretell daemon`, for those who look for a service by its name.

use std::process::ExitCode;

use clap::Parser;
use foretell::args::one_line;
use foretell::commands::daemon;
use foretell::entry::{said, told};
use foretell::terminal::{warn, with_causes};

/// Serves one page cache under one budget to all programs that speak for themselves.
#[derive(Debug, Parser)]
#[command(name = "foretelld", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: daemon::Args,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => return told(&e),
        Err(e) => return fail(&one_line(&e)),
    };
    match daemon::execute(&cli.args) {
        Ok(code) => said(code),
        Err(e) => fail(&with_causes(&e)),
    }
}

fn fail(what: &str) -> ExitCode {
    warn(what);
    2.into()
}
