//! The kernel and foretell in turn, on a job that is somebody's own.
//!
//! ```text
//!  commands/compare ──► Wanted ──► compare: one night to learn, then rounds ──► Comparison ──► words: table, JSON
//!                                    │ each run: stage (memory, cold, settings)              └─► page: HTML
//!                                    └─ run: the job held back, put into a group, let go
//! ```
//!
//! What was learnt lies in a directory of its own that is removed at the end: a comparison neither uses up nor spoils
//! the nights of the real job. Every run is the whole command from its first instruction to its end; with foretell that
//! includes what foretell takes to begin and to end, and its memory counts against the same limit.
//!
//! All that is changed (cgroups, `read_ahead_kb`, the directory) is held by values that undo it when they are dropped.
//! Signals are only noted and ask for an early end, so that it is also undone after Ctrl-C.

mod devices;
mod figures;
pub(crate) mod page;
mod run;
mod signals;
mod stage;
mod wanted;
pub(crate) mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foretell_learn::{How, Store};
use serde::Serialize;

use crate::terminal::warn;

pub(crate) use devices::Devices;
pub(crate) use figures::{Faster, Figures, Span};
pub(crate) use run::{Run, typed};
pub(crate) use signals::{Interrupted, Signals};
pub(crate) use stage::Stage;
use wanted::JOB;
pub(crate) use wanted::{Side, Wanted};

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// The job as it was typed.
    pub(crate) job: String,
    /// Memory of each run; `None` without a limit.
    pub(crate) memory_bytes: Option<u64>,
    /// Were caches dropped before each run?
    pub(crate) cold: bool,
    /// The devices that most of what is read lies on.
    pub(crate) devices: Vec<String>,
    /// Their `read_ahead_kb` where the kernel was left as it is.
    pub(crate) read_ahead_kb: Option<u32>,
    /// The night on which foretell learnt; `None` when it knew the job.
    pub(crate) learning: Option<Run>,
    /// The compared runs as they were made.
    pub(crate) runs: Vec<Run>,
    /// Each side.
    pub(crate) sides: Vec<Figures>,
    /// How the outputs compare.
    pub(crate) output: Agreement,
    /// How the exit codes compare.
    pub(crate) exit_codes: Agreement,
}

/// Do runs agree in something?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agreement {
    /// It is the same in all runs.
    Same,
    /// It differs from run to run without foretell, too.
    DiffersAnyway,
    /// It differs between foretell and the kernel.
    Differs,
    /// It was not seen in all runs.
    Unknown,
}

impl Agreement {
    /// Of what each run showed; the kernel's runs, however set, decide whether it repeats at all.
    fn of<T: PartialEq>(runs: &[(Side, Option<T>)]) -> Agreement {
        let Some((_, first)) = runs.first() else { return Agreement::Unknown };
        if runs.iter().any(|(_, seen)| seen.is_none()) {
            return Agreement::Unknown;
        }
        let mut plain = runs.iter().filter(|(side, _)| *side != Side::Foretell);
        if plain.any(|(_, seen)| seen != first) {
            return Agreement::DiffersAnyway;
        }
        if runs.iter().any(|(_, seen)| seen != first) { Agreement::Differs } else { Agreement::Same }
    }
}

/// What a comparison leaves until its page is drawn: the recording of the job.
pub(crate) struct Compared {
    /// The numbers.
    pub(crate) comparison: Comparison,
    /// The private state.
    state: tempfile::TempDir,
}

impl Compared {
    /// What the job read when it was seen last.
    pub(crate) fn recording(&self) -> PathBuf {
        recording(self.state.path())
    }
}

fn recording(state: &Path) -> PathBuf {
    state.join("jobs").join(JOB).join("recording")
}

/// Runs the job many times. `progress` is told what is about to happen.
///
/// # Errors
/// What is asked for is not possible here, the job cannot be watched, or a signal came ([`Interrupted`]).
pub(crate) fn compare(wanted: &Wanted, signals: &Signals, progress: impl Fn(String)) -> Result<Compared> {
    let state = tempfile::Builder::new().prefix("foretell-compare-").tempdir();
    let state = state.context("cannot make a directory for what is learnt; set TMPDIR to another place")?;
    let mut stage = Stage::new(wanted)?;
    let learning = match &wanted.learnt {
        Some((store, name)) => {
            copy(store, name, state.path())?;
            None
        }
        None => {
            progress("learning night".to_owned());
            let run = run::run(wanted, &mut stage, signals, state.path(), Side::Foretell, 0)?;
            match run.how {
                Some(How::Watched) => Some(run),
                _ => bail!(
                    "the job cannot be watched, so there is nothing to compare ({}); 'foretell doctor' says more",
                    run.notes.first().map_or("no reason is known", String::as_str)
                ),
            }
        }
    };
    stage.look_at_devices(&recording(state.path()))?;
    let before_kb = stage.devices.read_ahead_kb();
    let mut sides = vec![Side::Kernel];
    sides.extend(wanted.read_ahead_kb.iter().map(|kb| Side::ReadAhead(*kb)));
    sides.push(Side::Foretell);
    let mut runs = Vec::new();
    for round in 1..=wanted.rounds {
        // What changes slowly on the machine must not always hit the same side.
        let order: Vec<Side> =
            if round % 2 == 1 { sides.clone() } else { sides.iter().rev().copied().collect() };
        for side in order {
            progress(format!("round {round} of {}: {side}", wanted.rounds));
            runs.push(run::run(wanted, &mut stage, signals, state.path(), side, round)?);
        }
    }
    let seen: Vec<&Run> = learning.iter().chain(&runs).collect();
    // The learning night changes nothing: it is one more run of the kernel.
    let side = |run: &Run| if run.round == 0 { Side::Kernel } else { run.side };
    let output = Agreement::of(&seen.iter().map(|run| (side(run), run.output)).collect::<Vec<_>>());
    let codes = Agreement::of(&seen.iter().map(|run| (side(run), Some(run.exit_code))).collect::<Vec<_>>());
    let comparison = Comparison {
        job: wanted.command.clone(),
        memory_bytes: wanted.memory_bytes,
        cold: stage.is_cold(),
        devices: stage.devices.names(),
        read_ahead_kb: before_kb,
        sides: figures::of(&sides, &runs),
        output,
        exit_codes: codes,
        learning,
        runs,
    };
    Ok(Compared { comparison, state })
}

/// Copies what is known of a job, so that the comparison leaves no nights in it.
fn copy(store: &Store, name: &str, state: &Path) -> Result<()> {
    let known = store.look(name)?;
    let to = Store::new(state).begin(JOB)?;
    if !known.recording().is_file() {
        bail!("--name {name}: nothing is recorded of this job yet; compare without --name");
    }
    fs::copy(known.recording(), to.recording())
        .with_context(|| format!("cannot copy {}", known.recording().display()))?;
    for night in known.nights()? {
        to.add(night)?;
    }
    Ok(())
}

/// Says what foretell said in the runs, each once.
pub(crate) fn say_notes(comparison: &Comparison) {
    let mut said: Vec<&str> = Vec::new();
    for note in comparison.learning.iter().chain(&comparison.runs).flat_map(|run| &run.notes) {
        if !said.contains(&note.as_str()) {
            said.push(note);
            warn(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_anyway_is_not_blamed_on_foretell() {
        use Agreement::{Differs, DiffersAnyway, Same, Unknown};
        use Side::{Foretell, Kernel, ReadAhead};
        let of = |seen: &[(Side, u8)]| {
            let seen: Vec<_> = seen.iter().map(|&(side, seen)| (side, (seen > 0).then_some(seen))).collect();
            Agreement::of(&seen)
        };
        assert_eq!(of(&[(Kernel, 1), (Foretell, 1), (ReadAhead(1), 1)]), Same);
        assert_eq!(of(&[(Kernel, 1), (Foretell, 2), (Kernel, 1)]), Differs);
        assert_eq!(of(&[(Kernel, 1), (Foretell, 1), (ReadAhead(1), 2)]), DiffersAnyway);
        assert_eq!(of(&[(Kernel, 1), (Foretell, 0)]), Unknown);
        assert_eq!(of(&[]), Unknown);
    }
}
