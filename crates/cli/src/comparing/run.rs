//! One run of the job: held back, put into its group, let go, watched to its end.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foretell_learn::How;
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::{JOB, Side, Signals, Stage, Wanted};
use crate::program::{Program, exit_code};

/// How often it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(100);
/// What a job gets to end when it was asked to.
const GRACE: Duration = Duration::from_secs(3);
/// What processes that the job leaves behind get to close its output.
const CLOSING: Duration = Duration::from_secs(1);
/// What is kept of what the job says on standard error.
const KEPT_BYTES: usize = 16 << 10;
/// Lines of foretell's own that are kept.
const NOTES: usize = 8;

/// What a run gave.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) side: Side,
    /// From 1; 0 is the learning night.
    pub(crate) round: usize,
    /// From its first instruction to its end; foretell's own start and end included.
    pub(crate) elapsed_s: f64,
    /// Its exit code, or 128 + the signal.
    pub(crate) exit_code: u8,
    /// What it wrote to standard output; `None` if something holds it open.
    pub(crate) output: Option<Captured>,
    /// Read from the devices under its files while it ran.
    pub(crate) read_bytes: Option<u64>,
    /// Requests for that.
    pub(crate) requests: Option<u64>,
    /// Most memory at a time.
    pub(crate) peak_bytes: Option<u64>,
    /// What foretell did.
    pub(crate) how: Option<How>,
    /// Why it did that.
    pub(crate) why: Option<String>,
    /// Seconds that the job waited for storage, where foretell saw it.
    pub(crate) wait_s: Option<f64>,
    /// What foretell said.
    pub(crate) notes: Vec<String>,
}

/// An output, as far as it matters whether it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Captured {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// Of what `foretell learn --stats` writes.
#[derive(Debug, Deserialize)]
struct Told {
    how: How,
    why: String,
    wait_s: Option<f64>,
}

/// Runs the job once.
pub(super) fn run(
    wanted: &Wanted,
    stage: &mut Stage,
    signals: &Signals,
    state: &Path,
    side: Side,
    round: usize,
) -> Result<Run> {
    signals.check()?;
    let stats = state.join("stats.json");
    let (program, arguments) = command(wanted, state, &stats, side, round);
    let group = stage.group()?;
    let restore = match side {
        Side::ReadAhead(kb) => Some(stage.devices.set_read_ahead(kb)?),
        _ => None,
    };
    stage.cool()?;
    let mut held = Program::start_held_with(&program, &arguments, |command| {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    })?;
    if let Some(group) = &group {
        group.enter(held.pid())?;
    }
    let output = held.take_stdout().map(captured);
    let errors = held.take_stderr().map(last_words);
    let before = stage.devices.reads();
    held.release();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = held.wait_timeout(LOOK)? {
            break status;
        }
        if let Err(interrupted) = signals.check() {
            end(&mut held)?;
            return Err(interrupted.into());
        }
    };
    let elapsed_s = began.elapsed().as_secs_f64();
    let after = stage.devices.reads();
    let peak_bytes = group.as_ref().and_then(foretell_cgroup::MemoryGroup::peak_bytes);
    // Ctrl-C at the terminal reaches the job, too: how it ended then says nothing.
    signals.check()?;
    // What the job has left behind ends with its group, and lets go of the output.
    drop(group);
    drop(restore);
    let exit_code = exit_code(status);
    let words = errors.and_then(|words| words.recv_timeout(CLOSING).ok()).unwrap_or_default();
    if round == 0 && matches!(exit_code, 125..=127) {
        bail!("the job does not run (exit code {exit_code}): {}", last_line(&words));
    }
    let told = match side {
        Side::Foretell => Some(told(&stats).with_context(|| {
            format!("foretell did not say what it has done (exit code {exit_code}): {}", last_line(&words))
        })?),
        _ => None,
    };
    let notes = words.lines().filter_map(|line| line.strip_prefix("foretell: "));
    let notes = notes.filter(|_| side == Side::Foretell).take(NOTES).map(str::to_owned).collect();
    let read = before.zip(after);
    Ok(Run {
        side,
        round,
        elapsed_s,
        exit_code,
        output: output.and_then(|output| output.recv_timeout(CLOSING).ok()),
        read_bytes: read.map(|(before, after)| after.bytes.saturating_sub(before.bytes)),
        requests: read.map(|(before, after)| after.requests.saturating_sub(before.requests)),
        peak_bytes,
        how: told.as_ref().map(|told| told.how),
        wait_s: told.as_ref().and_then(|told| told.wait_s),
        why: told.map(|told| told.why),
        notes,
    })
}

/// The job itself, or foretell before it.
fn command(
    wanted: &Wanted,
    state: &Path,
    stats: &Path,
    side: Side,
    round: usize,
) -> (OsString, Vec<OsString>) {
    let job = || std::iter::once(wanted.program.clone().into()).chain(wanted.arguments.iter().cloned());
    if side != Side::Foretell {
        return (wanted.program.clone().into(), wanted.arguments.clone());
    }
    // This very program, also if its file was replaced meanwhile.
    let foretell = format!("/proc/{}/exe", std::process::id());
    let mut arguments: Vec<OsString> =
        ["learn", "--quiet", "--name", JOB, "--state"].map(OsString::from).to_vec();
    arguments.extend([state.into(), "--stats".into(), stats.into()]);
    let how = if round == 0 { Some("watch") } else { wanted.how };
    arguments.extend(how.into_iter().flat_map(|how| ["--as".into(), how.into()]));
    arguments.extend(wanted.budget.iter().flat_map(|budget| ["--budget".into(), budget.into()]));
    arguments.push("--".into());
    arguments.extend(job());
    (foretell.into(), arguments)
}

fn told(stats: &Path) -> Result<Told> {
    let text = std::fs::read(stats).context("it wrote no statistics")?;
    std::fs::remove_file(stats)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Asks the job to end, and ends it when it does not.
fn end(job: &mut Program) -> Result<()> {
    let pidfd = job.pidfd()?;
    // It may just have ended.
    let _ = pidfd_send_signal(&pidfd, Signal::TERM);
    if job.wait_timeout(GRACE)?.is_none() {
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        job.wait()?;
    }
    Ok(())
}

/// Sums up what is written to a pipe, in a thread of its own: a full pipe would hold the job up.
fn captured(mut pipe: impl Read + Send + 'static) -> Receiver<Captured> {
    let (done, when_done) = channel();
    std::thread::spawn(move || {
        let (mut crc, mut bytes) = (flate2::Crc::new(), 0);
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            crc.update(&buffer[..read]);
            bytes += read as u64;
        }
        // Nobody may wait for it any more.
        let _ = done.send(Captured { bytes, crc32: crc.sum() });
    });
    when_done
}

/// The end of what is written to a pipe.
fn last_words(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (done, when_done) = channel();
    std::thread::spawn(move || {
        let mut kept: VecDeque<u8> = VecDeque::new();
        let mut buffer = vec![0; 1 << 12];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            kept.extend(&buffer[..read]);
            kept.drain(..kept.len().saturating_sub(KEPT_BYTES));
        }
        let kept: Vec<u8> = kept.into();
        let _ = done.send(String::from_utf8_lossy(&kept).into_owned());
    });
    when_done
}

fn last_line(words: &str) -> &str {
    words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing")
}

/// A command line as it can be typed again.
pub(crate) fn typed<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    let quoted = words.into_iter().map(|word| {
        let text = word.to_string_lossy();
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text.into_owned()
        } else {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed_again() {
        let typed = |words: &[&str]| super::typed(words.iter().map(OsStr::new));
        assert_eq!(typed(&["./nightly.sh", "--day=1"]), "./nightly.sh --day=1");
        assert_eq!(typed(&["sh", "-c", "cat a b", "it's", ""]), r"sh -c 'cat a b' 'it'\''s' ''");
    }

    #[test]
    fn the_end_of_long_words_is_kept() {
        let words = vec![b'x'; 3 * KEPT_BYTES];
        let mut text = words.clone();
        text.extend(b"\nend\n");
        let kept = last_words(std::io::Cursor::new(text)).recv().unwrap();
        assert_eq!((kept.len(), last_line(&kept)), (KEPT_BYTES, "end"));
        let sum = captured(std::io::Cursor::new(b"123456789".to_vec())).recv().unwrap();
        assert_eq!(sum, Captured { bytes: 9, crc32: 0xcbf4_3926 });
    }
}
