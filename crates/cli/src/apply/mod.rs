//! Setting what the model advises on a block device, and putting it back.
//!
//! ```text
//! apply:  read what is set ──► state file (from, to) ──► set ──► read what became of it ──► state file
//! undo:   state file ──► still as we left it? ──► set back ──► remove the state file
//! ```
//!
//! The state file is there before the first change, so that whatever is interrupted can be undone: a setting
//! that is still at its old value counts as put back. Only what was changed here is put back, and only while
//! it is as it was left; what somebody has changed since is left alone and said. Applying twice keeps the
//! oldest values. The settings and the state file both live until the machine is started anew, the first in
//! sysfs, the second in /run.

mod queue;
mod state;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use foretell_analytic::advise::{Advice, Setting};

pub use queue::Queue;
use state::{Change, State};

/// Where state files are unless said otherwise.
pub const STATE_DIRECTORY: &str = "/run/foretell/applied";

/// A file of a device's queue directory, and what it should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub file: &'static str,
    /// What it should say.
    pub value: String,
}

/// What became of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was changed.
    Changed(Change),
    /// It was so before.
    Already(Wanted),
    /// It was put back.
    Restored(Change),
    /// It had its old value already.
    Untouched(Change),
    /// Somebody else has changed it since, to this.
    LeftAlone(Change, String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Changed(c) => write!(f, "{}: {} -> {}", c.file, c.from, c.to),
            Outcome::Already(w) => write!(f, "{}: is {} already", w.file, w.value),
            Outcome::Restored(c) => write!(f, "{}: {} -> {}, as it was", c.file, c.to, c.from),
            Outcome::Untouched(c) => write!(f, "{}: is {}, as it was", c.file, c.from),
            Outcome::LeftAlone(c, now) => {
                write!(f, "{}: left at {now}: it was set to {} here and changed since", c.file, c.to)
            }
        }
    }
}

/// What of the advice can be set on a device: `read_ahead_kb`, and a queue that holds as many requests as are
/// to be in flight or sorted together. A request queue is only made longer.
#[must_use]
pub fn wanted(advice: &[Advice], queue: &Queue) -> Vec<Wanted> {
    let value = |setting| advice.iter().find(|a| a.setting == setting).map(|a| a.value);
    let mut wanted = Vec::new();
    if let Some(kb) = value(Setting::ReadAheadKb) {
        wanted.push(Wanted { file: queue::READ_AHEAD_KB, value: kb.to_string() });
    }
    let longest = value(Setting::QueueDepth).max(value(Setting::Batch));
    let now = queue.read(queue::NR_REQUESTS).ok().and_then(|text| text.parse::<u64>().ok());
    if let (Some(requests), Some(now)) = (longest, now)
        && requests > now
    {
        wanted.push(Wanted { file: queue::NR_REQUESTS, value: requests.to_string() });
    }
    // Without a scheduler nothing is sorted.
    let unsorted = queue.read(queue::SCHEDULER).is_ok_and(|name| name == "none");
    if value(Setting::Batch).is_some() && unsorted && queue.offers("mq-deadline") {
        wanted.push(Wanted { file: queue::SCHEDULER, value: "mq-deadline".to_owned() });
    }
    wanted
}

/// Sets what is wanted; all of it or nothing.
///
/// # Errors
/// A missing permission, a value that the kernel refuses, a state file that cannot be written; then
/// everything is as before.
pub fn apply(queue: &Queue, wanted: &[Wanted], states: &Path) -> Result<Vec<Outcome>> {
    let mut state = State::open(states, queue)?;
    let mut outcomes = Vec::new();
    let mut todo = Vec::new();
    for one in wanted {
        let now = queue.read(one.file)?;
        if now == one.value {
            outcomes.push(Outcome::Already(one.clone()));
            continue;
        }
        let change = state.remember(one.file, &now, &one.value);
        todo.push((change, now));
    }
    if todo.is_empty() {
        return Ok(outcomes);
    }
    state.write()?;
    for (i, (change, _)) in todo.iter().enumerate() {
        if let Err(e) = queue.write(&change.file, &change.to) {
            for (done, before) in &todo[..i] {
                // As before this call, which may be later than as before the first one.
                let _ = queue.write(&done.file, before);
            }
            state.forget(queue)?;
            return Err(e);
        }
    }
    for (change, before) in todo {
        let now = queue.read(&change.file)?;
        // The kernel rounds some values.
        state.became(&change.file, &now);
        outcomes.push(Outcome::Changed(Change { from: before, to: now, ..change }));
    }
    state.write()?;
    Ok(outcomes)
}

/// Puts back what was changed.
///
/// # Errors
/// A missing permission, or a state file that cannot be read. What was put back by then stays so.
pub fn undo(queue: &Queue, states: &Path) -> Result<Vec<Outcome>> {
    let mut state = State::open(states, queue)?;
    let mut outcomes = Vec::new();
    for change in state.changes().to_vec() {
        let now = queue.read(&change.file)?;
        if now == change.from {
            outcomes.push(Outcome::Untouched(change));
        } else if now == change.to {
            queue.write(&change.file, &change.from)?;
            if queue.read(&change.file)? != change.from {
                bail!("{}: '{}' cannot be set again", change.file, change.from);
            }
            outcomes.push(Outcome::Restored(change));
        } else {
            outcomes.push(Outcome::LeftAlone(change, now));
        }
    }
    state.remove()?;
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
