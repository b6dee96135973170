//! A night on which the job is watched, and what comes next is at most guessed.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use foretell_learn::How;
use foretell_pagecache::ObserveError;
use foretell_pagecache::watch::{Beside, Totals, WatchError, Watcher};

use super::guessing::Guessing;
use super::{Ran, Wanted, alone};
use crate::attached::Job;
use crate::kept::Line;
use crate::program::{NotRun, Program, exit_code};
use crate::terminal::{warn, with_causes};
use crate::watched::{Ended, until_end};

/// Runs the job and writes down what it reads. The recording is kept when `counts` says so of the exit code.
///
/// The job does not wait for us: what it reads in its first 30 ms is not seen, and the next night learns it.
/// Where watching was asked for the job is held, and all is seen.
pub(super) fn watched(wanted: &Wanted, recording: &Path, counts: impl Fn(u8) -> bool) -> Result<Ran> {
    // What is read ahead is open for a moment.
    foretell_pagecache::let_go_at_once();
    let beside = if wanted.how == Some(How::Watched) { None } else { Beside::listen().ok() };
    let Some(beside) = beside else { return held(wanted, recording, counts) };
    let started = Instant::now();
    let program = wanted.line.start(&wanted.program, &wanted.arguments)?;
    let mut watcher = said(beside.follow(program.pid(), recording));
    let guessing = watcher.as_mut().map_or_else(Guessing::none, Guessing::start);
    follow(program, (started, &wanted.line), watcher, &guessing, counts)
}

/// The same of a job that begins when the observer is there.
fn held(wanted: &Wanted, recording: &Path, counts: impl Fn(u8) -> bool) -> Result<Ran> {
    wanted.line.about_to_begin();
    let held = Program::start_held(&wanted.program, &wanted.arguments);
    let mut program = match held {
        Ok(program) => program,
        // Somebody has ended it before it began.
        Err(error) if error.is::<NotRun>() => return Err(error),
        Err(error) => {
            warn(&format!("the job is not watched ({})", with_causes(&error)));
            return alone(wanted);
        }
    };
    let mut watcher = said(Watcher::start(program.pid(), Some(recording)));
    wanted.line.begun(&mut program);
    if let Some(watcher) = &mut watcher {
        watcher.begin();
    }
    program.release();
    follow(program, (Instant::now(), &wanted.line), watcher, &Guessing::none(), counts)
}

/// Goes on with a job that runs since `started` and is not steered any more: what comes next is guessed, and nothing is written
/// down, as its beginning is missing.
///
/// # Errors
/// It cannot be waited for.
pub(super) fn go_on(program: Program, started: Instant, line: &Line) -> Result<Ended> {
    let mut watcher = said(Watcher::attach_to(program.pid(), None));
    let guessing = watcher.as_mut().map_or_else(Guessing::none, Guessing::start);
    until_end(&mut Job::Program(program), started, watcher, line, |watcher| guessing.look(watcher))
}

/// The watcher, or a line that says why there is none: but of a job that is over already nothing was lost.
fn said(watcher: Result<Watcher, WatchError>) -> Option<Watcher> {
    let is_over = |error: &WatchError| matches!(error, WatchError::Observe(why) if matches!(**why, ObserveError::NoSuchProcess { .. }));
    match watcher {
        Ok(watcher) => Some(watcher),
        Err(error) if is_over(&error) => None,
        Err(error) => {
            warn(&format!("the job is not watched ({})", with_causes(&error.into())));
            None
        }
    }
}

/// Watches until the job ends.
fn follow(
    program: Program,
    (started, line): (Instant, &Line),
    watcher: Option<Watcher>,
    guessing: &Guessing,
    counts: impl Fn(u8) -> bool,
) -> Result<Ran> {
    let mut job = Job::Program(program);
    let Ended { status, elapsed, watcher } =
        until_end(&mut job, started, watcher, line, |watcher| guessing.look(watcher))?;
    let code = exit_code(status);
    let Some(watcher) = watcher else {
        return Ok(Ran::unseen(How::Alone, code, elapsed));
    };
    let (is_observed, memory_bytes) = (watcher.is_observing(), watcher.memory_bytes());
    let (file_wait_ns, files) = (watcher.file_wait_ns(), is_observed.then(|| watcher.files()));
    let threads_waiting = watcher.threads_waiting().filter(|_| is_observed);
    if let Some(left_out) = watcher.left_out() {
        warn(&left_out);
    }
    let totals = Totals { elapsed, exit_code: Some(code.into()), ..watcher.totals() };
    let mut is_known = false;
    if counts(code) {
        match watcher.finish(totals) {
            Ok(()) => is_known = is_observed,
            Err(error) => warn(&format!("what was seen could not be kept ({error})")),
        }
    } else {
        watcher.discard();
    }
    // Of a job that was over before it was observed no more is known than of one alone.
    let seen = is_observed.then_some(totals);
    let wait_ns = seen.map(|totals| totals.wait_ns);
    let file_wait_ns = is_observed.then_some(file_wait_ns);
    let read_bytes = seen.map(|totals| totals.device_read_bytes);
    let unseen = Ran::unseen(How::Watched, code, elapsed);
    Ok(Ran {
        wait_ns,
        file_wait_ns,
        threads_waiting,
        read_bytes,
        files,
        memory_bytes,
        is_known,
        guesses: guessing.guesses(),
        ..unseen
    })
}
