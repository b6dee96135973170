//! A program that is not under control after all, and why.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::{Result, anyhow};
use foretell_learn::memory;

use crate::kept::Line;
use crate::program::{self, NoRoom, NotRun};
use crate::stats::{Outcome, Stats};
use crate::terminal::{warn, with_causes};

/// Why control did not begin.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Something is missing here (privileges, kernel features): the program could still run uncontrolled.
    Unable(anyhow::Error),
    /// What was asked for is wrong.
    Wrong(anyhow::Error),
    /// The host that was to control the program has ended: the program runs without, as it would have gone on.
    Ended(anyhow::Error),
}

impl Refused {
    /// Why a program could not be held. Unless somebody has ended it there, that is no fault of its own.
    pub(crate) fn not_held(error: anyhow::Error) -> Refused {
        if error.is::<NotRun>() { Refused::Wrong(error) } else { Refused::Unable(error) }
    }

    /// What is lacking or wrong where there is no program that could run.
    fn of_what_runs(self) -> anyhow::Error {
        match self {
            Refused::Unable(e) => NotRun::Failed(format!(
                "{}{}",
                with_causes(&e),
                if more_is_known(&e) { "; 'foretell doctor' says more" } else { "" }
            ))
            .into(),
            Refused::Wrong(e) | Refused::Ended(e) => e,
        }
    }

    /// Runs the program without control, and says so: what lacks here is no fault of the job's. With `strict` it does
    /// not run.
    ///
    /// # Errors
    /// What is wrong, or lacking where that is an error; the program has not begun.
    pub(crate) fn or_uncontrolled(self, strict: bool, program: &[OsString], line: &Line) -> Result<Outcome> {
        let Some((name, arguments)) = program.split_first() else { return Err(self.of_what_runs()) };
        match self {
            Refused::Unable(e) | Refused::Ended(e) if strict => {
                let doctor = if more_is_known(&e) { "'foretell doctor' says more, " } else { "" };
                let advice = "without --strict the program runs uncontrolled";
                Err(NotRun::Failed(format!("{}; {doctor}{advice}", with_causes(&e))).into())
            }
            Refused::Ended(e) => {
                warn(&format!("{}; '{}' runs uncontrolled", with_causes(&e), name.display()));
                uncontrolled(name, arguments, &with_causes(&e), line)
            }
            Refused::Unable(e) => {
                let doctor = if more_is_known(&e) { "'foretell doctor' says more, " } else { "" };
                let advice = format!("{doctor}--strict makes this an error");
                warn(&format!("{}; '{}' runs uncontrolled ({advice})", with_causes(&e), name.display()));
                uncontrolled(name, arguments, &with_causes(&e), line)
            }
            Refused::Wrong(e) => Err(e),
        }
    }
}

/// Is there so much memory for what is to be done? Where there is less, the program would want for it.
///
/// # Errors
/// There is not.
pub(crate) fn room_for(needed: u64, to_do: &str) -> Result<(), Refused> {
    let Some(free) = memory::free_bytes().filter(|free| *free < needed) else { return Ok(()) };
    let (free, needed) = (free >> 20, needed >> 20);
    let why = format!("{free} MiB of memory are free, and it takes {needed}");
    Err(Refused::Unable(anyhow!(NoRoom(why)).context(format!("cannot {to_do}"))))
}

/// Does `foretell doctor` say more of what is lacking? It looks at mechanisms, not at how much there is room for.
fn more_is_known(error: &anyhow::Error) -> bool {
    error.downcast_ref::<NoRoom>().is_none()
}

/// Runs the program without control.
fn uncontrolled(name: &OsString, arguments: &[OsString], why: &str, line: &Line) -> Result<Outcome> {
    let started = Instant::now();
    // Where nothing more is to be had, or little, this process itself becomes the program.
    if program::too_few_tasks().is_some() && !line.has_keeper() {
        return Err(program::become_program(name, arguments).into());
    }
    let mut program = line.start(name, arguments)?;
    let code = program::exit_code(program.wait()?);
    let stats = Stats { elapsed_s: started.elapsed().as_secs_f64(), ..Stats::uncontrolled(why) };
    Ok(Outcome { code, stats })
}
