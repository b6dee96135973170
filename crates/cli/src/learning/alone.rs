//! A job as it was asked for, how it ran, and the job by itself.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::Result;
use foretell_learn::{How, Names, Store};

use super::guessing::Guessed;
use crate::kept::Line;
use crate::program::exit_code;
use crate::stats::Stats;

/// What was asked for.
#[derive(Debug)]
pub struct Wanted {
    /// The program, as it was typed.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The job's name.
    pub name: String,
    /// Where the knowledge lies; `None` when there is no place for it.
    pub store: Option<Store>,
    /// Do this tonight, whatever was before.
    pub how: Option<How>,
    /// A bound of the memory, bytes.
    pub most_bytes: Option<u64>,
    /// Our line to the process that stays with the job whatever happens to us.
    pub(crate) line: Line,
}

/// How a job ran: what the three ways have in common.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) how: How,
    pub(super) code: u8,
    pub(super) elapsed: Duration,
    pub(super) wait_ns: Option<u64>,
    pub(super) file_wait_ns: Option<u64>,
    /// Threads that have waited at a time, in the mean.
    pub(super) threads_waiting: Option<f64>,
    pub(super) read_bytes: Option<u64>,
    /// Files that were seen to be read or written.
    pub(super) files: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    /// The memory that could be used, if the job needed all of it.
    pub(super) short_bytes: Option<u64>,
    /// The share of the references that a list had predicted.
    pub(super) predicted: Option<f64>,
    /// What was guessed of a night that was watched.
    pub(super) guesses: Option<Guessed>,
    pub(super) stats: Option<Stats>,
    /// How the files of the plan were found.
    pub(super) names: Names,
    /// The recording of a night that was watched is kept.
    pub(super) is_known: bool,
}

impl Ran {
    /// A job of which no more is known than a clock tells.
    pub(super) fn unseen(how: How, code: u8, elapsed: Duration) -> Ran {
        Ran {
            how,
            code,
            elapsed,
            wait_ns: None,
            file_wait_ns: None,
            threads_waiting: None,
            read_bytes: None,
            files: None,
            memory_bytes: None,
            short_bytes: None,
            predicted: None,
            guesses: None,
            stats: None,
            names: Names::default(),
            is_known: false,
        }
    }
}

/// The job by itself.
pub(super) fn alone(wanted: &Wanted) -> Result<Ran> {
    let started = Instant::now();
    let mut program = wanted.line.start(&wanted.program, &wanted.arguments)?;
    let status = program.wait()?;
    Ok(Ran::unseen(How::Alone, exit_code(status), started.elapsed()))
}
