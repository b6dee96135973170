//! Whatever happens to us, the program runs: what is done when something fails that is no fault of what was asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use foretell_output::OutputError;
use foretell_pagecache::lastly;

use crate::kept::{self, Line, Role};
use crate::program::{self, NotRun};
use crate::stats::Outcome;
use crate::terminal::warn;
use crate::uncontrolled::Refused;

/// Stands for a working directory that is gone: nothing lies in it, and nothing can be made there.
const NO_DIRECTORY: &str = "/proc/self/cwd";

/// The working directory, or what stands for it.
pub(crate) fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|e| {
        warn(&format!("the working directory is gone ({e}); relative paths name nothing"));
        PathBuf::from(NO_DIRECTORY)
    })
}

/// Does what was asked for with a program. Where that fails for want of means, or ends in a defect, before the program has
/// begun, it runs without; with `strict` it does not.
///
/// # Errors
/// What was asked for is wrong, or the program cannot be executed.
pub(crate) fn run(
    name: &OsString,
    arguments: &[OsString],
    strict: bool,
    obey: impl FnOnce(&Line) -> Result<u8>,
) -> Result<u8> {
    // There is to be no process of ours then: it is refused, and this one becomes the program.
    if program::too_few_tasks().is_some() {
        return obey(&Line::default());
    }
    let line = match kept::split() {
        Role::Work(line) => line,
        Role::Ran(code) => return Ok(code),
        Role::Alone(alone) if strict => {
            let why = format!("{}; without --strict the program runs uncontrolled", alone.why);
            return Err(NotRun::Failed(why).into());
        }
        Role::Alone(alone) => return alone.run(name, arguments),
        Role::Left(left) => {
            warn(&format!("nothing more was done for the program ({})", left.why));
            return left.run(name, arguments);
        }
    };
    let done = match obey(&line) {
        Err(error) if !strict && lacks_means(&error) && !lastly::is_started() => {
            let program: Vec<OsString> = std::iter::once(name).chain(arguments).cloned().collect();
            Refused::Unable(error).or_uncontrolled(false, &program, &line).map(|ran| ran.code)
        }
        done => done,
    };
    match done {
        Err(error) if !strict && kept::lacks_means(&error) && line.cannot() => Ok(1),
        done => done,
    }
}

/// How a program has run that was under control, or held for it. One that did not begin after all runs without.
///
/// # Errors
/// It did not run, or how it ended is not known.
pub(crate) fn ran(
    outcome: Result<Outcome>,
    strict: bool,
    program: &[OsString],
    line: &Line,
) -> Result<Outcome> {
    match outcome {
        Err(error) if !strict && !error.is::<NotRun>() && !lastly::is_started() => {
            Refused::Unable(error).or_uncontrolled(false, program, line)
        }
        outcome => Ok(outcome.map_err(NotRun::failed)?),
    }
}

/// Why what a flag names cannot be written; with the cause, which may be no fault of what was asked for.
pub(crate) fn cannot_write(flag: &str, error: OutputError) -> anyhow::Error {
    let text = format!("{flag} {error}");
    anyhow!(error).context(text)
}

/// Has something failed that is no fault of what was asked for?
fn lacks_means(error: &anyhow::Error) -> bool {
    let lacks = |cause: &(dyn std::error::Error + 'static)| {
        let errno = cause.downcast_ref::<rustix::io::Errno>().map(|errno| std::io::Error::from(*errno));
        errno.as_ref().or(cause.downcast_ref()).is_some_and(program::lacks_means)
    };
    error.chain().any(lacks)
}
