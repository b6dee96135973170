//! A job as it was asked for, how it ran, and the job by itself.

use std::ffi::OsString;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use foretell_learn::{How, Names, Store};
use foretell_pagecache::keeper::Worker;

use super::guessing::Guessed;
use crate::program::{Program, exit_code};
use crate::signals;
use crate::stats::Stats;
use crate::terminal::{warn, with_causes};
use crate::watched::pass_signals_on;

/// Observer and plane are there after the first of these times, on a busy machine after the second.
const BEGINNING: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

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
    pub worker: Option<Rc<Worker>>,
}

impl Wanted {
    /// The job is about to begin: signals are meant for it from now on, and who stays is told.
    pub(super) fn about_to_begin(&self) {
        let Some(worker) = &self.worker else { return };
        if let Err(error) = signals::leave_to_the_keeper() {
            warn(&format!("signals may end the watching of the job ({})", with_causes(&error)));
        }
        worker.about();
    }

    /// It has begun, or is held.
    pub(super) fn begun(&self, program: &mut Program) {
        become_small();
        match &self.worker {
            Some(worker) => {
                worker.begun(program.pid());
                let line = Rc::clone(worker);
                program.tell(move |code, signal| line.ended(code, signal));
            }
            None => pass_signals_on(program, None),
        }
    }
}

/// How a job ran: what the three ways have in common.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) how: How,
    pub(super) code: u8,
    pub(super) elapsed: Duration,
    pub(super) wait_ns: Option<u64>,
    pub(super) file_wait_ns: Option<u64>,
    pub(super) read_bytes: Option<u64>,
    /// Files that were seen to be read or written.
    pub(super) files: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
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
            read_bytes: None,
            files: None,
            memory_bytes: None,
            predicted: None,
            guesses: None,
            stats: None,
            names: Names::default(),
            is_known: false,
        }
    }
}

/// Gives back the memory that only our beginning took, when that is over. It is no loss where it fails.
pub(super) fn become_small() {
    let later = || {
        for time in BEGINNING {
            std::thread::sleep(time);
            foretell_pagecache::unmap_program();
        }
    };
    drop(std::thread::Builder::new().name("become-small".to_owned()).spawn(later));
}

/// The job by itself.
pub(super) fn alone(wanted: &Wanted) -> Result<Ran> {
    let started = Instant::now();
    wanted.about_to_begin();
    let mut program = Program::start(&wanted.program, &wanted.arguments)?;
    wanted.begun(&mut program);
    let status = program.wait()?;
    Ok(Ran::unseen(How::Alone, exit_code(status), started.elapsed()))
}
