//! Whatever happens to us, the program runs: what is done when something fails that is no fault of what was asked for.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use foretell_output::OutputError;
use foretell_pagecache::lastly;

use crate::program::{self, NotRun};
use crate::signals::ForProgram;
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

/// Does what was asked for with a program. Where that ends in a panic, or lacks means, before the program has begun, the
/// program runs without.
///
/// # Errors
/// What was asked for is wrong, or the program cannot be executed.
pub(crate) fn run(name: &OsString, arguments: &[OsString], obey: impl FnOnce() -> Result<u8>) -> Result<u8> {
    if let Ok(path) = program::find(name) {
        // A word that holds a zero cannot have been given to us.
        let _ = lastly::prepare(&path, name, arguments);
    }
    match catch_unwind(AssertUnwindSafe(obey)) {
        Ok(Err(error)) if lacks_means(&error) && !lastly::is_started() => {
            let program: Vec<OsString> = std::iter::once(name).chain(arguments).cloned().collect();
            let ran = Refused::Unable(error).or_uncontrolled(false, &program, ForProgram::default());
            ran.map(|ran| ran.code)
        }
        Ok(done) => done,
        Err(_) => {
            warn("foretell has a defect; the program runs uncontrolled");
            lastly::after_a_defect().context("the program's exit code is not known")
        }
    }
}

/// How a program has run that was under control, or held for it. One that did not begin after all runs without.
///
/// # Errors
/// It did not run, or how it ended is not known.
pub(crate) fn ran(outcome: Result<Outcome>, strict: bool, program: &[OsString]) -> Result<Outcome> {
    match outcome {
        Err(error) if !strict && !error.is::<NotRun>() && !lastly::is_started() => {
            Refused::Unable(error).or_uncontrolled(false, program, ForProgram::default())
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
