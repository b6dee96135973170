//! What all programs of the command begin and end with: the command line is read, errors are one line, and there is an
//! exit code. What they do is handed in, so that each holds only what it does itself.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use foretell_pagecache::lastly::WAIT_FOR;

use crate::args::one_line;
use crate::program::{EXEC_WHEN_TOLD, NotRun, exec_when_told, wait_instead};
use crate::terminal::{is_said, unsaid, warn, with_causes};

/// Exit code for everything that is wrong with what was asked for, before anything was started.
const BAD_INPUT: u8 = 2;

/// Reads the command line and does what it says by `execute`.
pub fn enter<C: Parser>(execute: fn(&C) -> Result<u8>) -> ExitCode {
    foretell_pagecache::expect_children();
    let mut arguments = std::env::args_os().skip(1);
    // What foretell starts itself as takes its arguments as they are: they belong to the program.
    match arguments.next() {
        Some(name) if name == EXEC_WHEN_TOLD => return exec_when_told(arguments).into(),
        Some(name) if name == WAIT_FOR => return wait_instead(arguments).into(),
        _ => {}
    }
    let cli = match C::try_parse() {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => return told(&e),
        Err(e) if e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = e.print();
            return BAD_INPUT.into();
        }
        Err(e) => return fail(&one_line(&e)),
    };
    match execute(&cli) {
        Ok(code) => said(code),
        Err(e) => {
            warn(&with_causes(&e));
            e.downcast_ref::<NotRun>().map_or(BAD_INPUT, NotRun::code).into()
        }
    }
}

/// Says the help or the version that was asked for.
#[must_use]
pub fn told(asked: &clap::Error) -> ExitCode {
    is_said(asked.print().and_then(|()| io::stdout().flush()));
    said(0)
}

/// The exit code, if all that was to be said could be. A closed pipe is no reason to complain.
#[must_use]
pub fn said(code: u8) -> ExitCode {
    match unsaid() {
        None => code.into(),
        Some(e) => fail(&format!("standard output: not all of it could be written ({e})")),
    }
}

/// Says what is wrong, in one line.
#[must_use]
pub fn fail(what: &str) -> ExitCode {
    warn(what);
    BAD_INPUT.into()
}
