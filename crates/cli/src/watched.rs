//! A program that is only watched: nothing is fetched, evicted or changed for it. So runs `foretell run` with neither rule
//! nor list, and a job on its first night (`learning/watched.rs`).

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use foretell_learn::{How, WATCHING_BYTES};
use foretell_pagecache::watch::{Totals, WatchError, Watcher, Watching};

use crate::attached::Job;
use crate::kept::Line;
use crate::program::{NoRoom, Program, exit_code, too_few_tasks};
use crate::shortage::Shortage;
use crate::stats::{Outcome, Stats};
use crate::terminal::warn;
use crate::uncontrolled::{Refused, room_for};

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How.
    pub(crate) status: ExitStatus,
    /// After which time.
    pub(crate) elapsed: Duration,
    /// Who watched it; `None` when that has failed, which was said.
    pub(crate) watcher: Option<Watcher>,
}

/// Watches a job that began at `started`, until it has ended. What was seen is shown to `look` time and again. Where
/// the job needs the memory this process leaves, if `line` leads to another one that stays.
///
/// # Errors
/// It cannot be waited for.
pub(crate) fn until_end(
    job: &mut Job,
    started: Instant,
    mut watcher: Option<Watcher>,
    line: &Line,
    mut look: impl FnMut(&mut Watcher),
) -> Result<Ended> {
    let mut shortage = Shortage::watching();
    let status = loop {
        let Some(watching) = &mut watcher else {
            foretell_pagecache::give_memory_back();
            break job.wait()?;
        };
        if let Some(why) = shortage.found() {
            line.leave(&why, How::Watched);
            warn(&format!("the job is watched no longer ({why})"));
            watcher = None;
            continue;
        }
        // A defect of ours must not become one of the program's.
        let step = catch_unwind(AssertUnwindSafe(|| {
            let ready = watching.step(&job.changed());
            look(watching);
            ready
        }));
        match step {
            Ok(Ok(ready)) if ready.is_empty() => {}
            Ok(Ok(_)) => {
                if let Some(status) = job.try_wait()? {
                    break status;
                }
                job.take_new().into_iter().for_each(|pid| watching.attach(pid));
            }
            Ok(Err(error)) => {
                let since = if watching.is_observing() { "watched no longer" } else { "not watched" };
                warn(&format!("the job is {since} ({error})"));
                watcher = None;
            }
            Err(_) => {
                warn("the job is watched no longer (a defect of foretell)");
                watcher = None;
            }
        }
    };
    Ok(Ended { status, elapsed: started.elapsed(), watcher })
}

/// A program that is watched and has not begun, or a job that runs already.
#[derive(Debug)]
pub(crate) struct Held {
    job: Job,
    watcher: Watcher,
}

impl Held {
    /// Starts a program, held until it is watched. The recording will be called `recording`.
    ///
    /// # Errors
    /// It cannot be watched here, or what was asked for is wrong.
    pub(crate) fn start(
        name: &OsString,
        arguments: &[OsString],
        recording: Option<&Path>,
        line: &Line,
    ) -> Result<Held, Refused> {
        room()?;
        foretell_pagecache::let_go_at_once();
        // Half of what the program would wait for is done beside the other half.
        let watching = Watching::load();
        line.about_to_begin();
        let mut program = Program::start_holding(name, arguments, |_| ()).map_err(Refused::not_held)?;
        let watching = watching.wait();
        program.wait_until_held().map_err(Refused::not_held)?;
        let watcher = watching.and_then(|watching| watching.start(program.pid(), recording));
        match (watcher, program.ended_early()) {
            (Ok(watcher), _) => Ok(Held { job: Job::Program(program), watcher }),
            // By somebody else: no wonder that it cannot be watched.
            (Err(_), Some(early)) => Err(Refused::Wrong(early.into())),
            (Err(error), None) => Err(refused(error)),
        }
    }

    /// Watches a job that runs already.
    ///
    /// # Errors
    /// As [`Held::start`].
    pub(crate) fn attach(mut attached: Job, recording: Option<&Path>) -> Result<Held, Refused> {
        room()?;
        let mut watcher = Watcher::attach_to(attached.pid(), recording).map_err(refused)?;
        attached.take_new().into_iter().for_each(|pid| watcher.attach(pid));
        Ok(Held { job: attached, watcher })
    }

    /// Lets the program begin and watches it until it has ended.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(crate) fn run(self, line: &Line) -> Result<Outcome> {
        let Held { mut job, mut watcher } = self;
        if let Job::Program(program) = &mut job {
            line.begun(program);
        }
        watcher.begin();
        job.release();
        let Ended { status, elapsed, watcher } =
            until_end(&mut job, Instant::now(), Some(watcher), line, |_| ())?;
        let code = exit_code(status);
        let Some(mut watcher) = watcher else {
            let stats = Stats::uncontrolled("it was only watched, and not to its end");
            return Ok(Outcome { code, stats: Stats { elapsed_s: elapsed.as_secs_f64(), ..stats } });
        };
        let stats = Stats { controlled: false, watched: true, ..Stats::from(watcher.report(elapsed)) };
        if let Some(left_out) = watcher.left_out() {
            warn(&left_out);
        }
        let totals = Totals { elapsed, exit_code: job.exit_code(code), ..watcher.totals() };
        if let Err(error) = watcher.finish(totals) {
            warn(&format!("--record: {error}"));
        }
        Ok(Outcome { code, stats })
    }
}

/// Is there room to watch in?
fn room() -> Result<(), Refused> {
    if let Some(why) = too_few_tasks() {
        return Err(Refused::Unable(anyhow!(NoRoom(why)).context("cannot watch")));
    }
    room_for(WATCHING_BYTES, "watch")
}

fn refused(error: WatchError) -> Refused {
    match error {
        WatchError::Write(error) => Refused::Wrong(anyhow!(error).context("--record")),
        error => Refused::Unable(anyhow!(error).context("cannot watch")),
    }
}
