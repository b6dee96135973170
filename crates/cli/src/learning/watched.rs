//! A night on which the job is watched, and nothing else is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use foretell_learn::How;
use foretell_pagecache::watch::{Totals, Watcher};

use super::{Ran, Wanted, alone, pass_signals_on};
use crate::program::{Program, exit_code};
use crate::terminal::warn;

/// Runs the job and writes down what it reads. The recording is kept when `counts` says so of the exit code.
pub(super) fn watched(wanted: &Wanted, recording: &Path, counts: impl Fn(u8) -> bool) -> Result<Ran> {
    let held = Program::start_held(wanted.program.as_os_str(), &wanted.arguments);
    let mut program = match held {
        Ok(program) => program,
        Err(error) => {
            warn(&format!("the job is not watched ({error:#})"));
            return alone(wanted);
        }
    };
    let mut watcher = Watcher::start(program.pid(), recording)
        .map_err(|error| warn(&format!("the job is not watched ({error})")))
        .ok();
    pass_signals_on(&program);
    if let Some(watcher) = &mut watcher {
        watcher.begin();
    }
    program.release();
    let started = Instant::now();
    let status = loop {
        let Some(watching) = &mut watcher else { break program.wait()? };
        // A defect of ours must not become one of the job's.
        match catch_unwind(AssertUnwindSafe(|| watching.step(&[program.ended()]))) {
            Ok(Ok(ready)) if ready.is_empty() => {}
            Ok(Ok(_)) => {
                if let Some(status) = program.try_wait()? {
                    break status;
                }
            }
            Ok(Err(error)) => {
                warn(&format!("the job is watched no longer ({error})"));
                watcher = None;
            }
            Err(_) => {
                warn("the job is watched no longer (a defect of foretell)");
                watcher = None;
            }
        }
    };
    let (elapsed, code) = (started.elapsed(), exit_code(status));
    let Some(watcher) = watcher else {
        return Ok(Ran::unseen(How::Alone, code, elapsed));
    };
    if let Some(left_out) = watcher.left_out() {
        warn(&left_out);
    }
    let totals = Totals { elapsed, exit_code: Some(code.into()), ..watcher.totals() };
    if counts(code) {
        if let Err(error) = watcher.finish(totals) {
            warn(&format!("what was seen could not be kept ({error})"));
        }
    } else {
        watcher.discard();
    }
    let (wait_ns, read_bytes) = (Some(totals.wait_ns), Some(totals.device_read_bytes));
    Ok(Ran { how: How::Watched, code, elapsed, wait_ns, read_bytes, predicted: None, stats: None })
}
