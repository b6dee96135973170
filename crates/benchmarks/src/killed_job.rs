//! A job that is looked at while what runs it is killed: it writes down that it begins, which signals reach it, and that it ends.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What it writes down when it begins and ends.
pub(crate) const BEGIN: &str = "begin";
pub(crate) const END: &str = "end";
/// And before the number of a signal.
pub(crate) const SIGNAL: &str = "signal ";
/// What it says of what it reads is followed by this.
pub(crate) const WHOLE: &str = "whole";

/// How often it looks whether a signal has come.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// After a signal it goes on for so long: a second one would be seen.
const AFTER_SIGNAL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct KilledJob {
    /// Where it is written down.
    notes: PathBuf,
    /// What is read.
    data: PathBuf,
    /// How long it takes, milliseconds.
    job_ms: u64,
    /// The exit code.
    code: u8,
    /// Signals are written down; otherwise they do what they do to any program.
    #[arg(long)]
    hears: bool,
}

/// A sum of the bytes, in order.
pub(crate) fn sum(bytes: &[u8], before: u64) -> u64 {
    bytes.iter().fold(before, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

pub(crate) fn run(job: &KilledJob) -> Result<ExitCode> {
    let began = Instant::now();
    let open = || OpenOptions::new().append(true).create(true).open(&job.notes);
    let mut notes = open().context("no notes can be taken")?;
    let heard = Arc::new(AtomicI32::new(0));
    if job.hears {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let (mut notes, heard) = (open()?, Arc::clone(&heard));
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // One write is one line, whoever else writes.
                let _ = notes.write_all(format!("{SIGNAL}{signal}\n").as_bytes());
                heard.store(signal, SeqCst);
            }
        });
    }
    notes.write_all(format!("{BEGIN}\n").as_bytes())?;
    let mut data = File::open(&job.data)?;
    let (mut buffer, mut summed) = (vec![0; 64 << 10], 0);
    loop {
        let bytes = data.read(&mut buffer)?;
        if bytes == 0 {
            break;
        }
        summed = sum(&buffer[..bytes], summed);
    }
    let mut output = std::io::stdout();
    output.write_all(format!("{summed:x}\n").as_bytes())?;
    while began.elapsed() < Duration::from_millis(job.job_ms) && heard.load(SeqCst) == 0 {
        std::thread::sleep(LOOK_EVERY);
    }
    let mut code = job.code;
    if heard.load(SeqCst) != 0 {
        std::thread::sleep(AFTER_SIGNAL);
        code = u8::try_from(128 + heard.load(SeqCst)).unwrap_or(u8::MAX);
    }
    output.write_all(format!("{WHOLE}\n").as_bytes())?;
    output.flush()?;
    notes.write_all(format!("{END}\n").as_bytes())?;
    Ok(code.into())
}
