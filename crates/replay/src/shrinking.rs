//! A log cut down to the inputs that it takes.
//!
//! Delta debugging (Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", TSE 2002): ranges of
//! inputs are left out, half of the log first, then quarters, down to single inputs; what still shows the defect is
//! kept. Every attempt is a run of a new engine, so there is a limit to their number.

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

use foretell_policy::{Config, Counters, ManagerCounters, Nanos};

use crate::error::LogError;
use crate::input::OwnedInput;
use crate::reader::{Reader, Record};
use crate::replaying::Told;
use crate::writer::{Log, Written};

/// Runs of one shrinking at most, unless said otherwise.
pub const SHRINK_RUNS: u32 = 2000;

/// Inputs and blocks of lists that are kept in memory at most: 1 GiB.
const KEPT: usize = 1 << 24;

/// Something that a shrunk log must still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    /// The engine panics.
    Panics,
    /// A counter is larger than this at the end.
    Exceeds {
        /// Its place in the table of counters.
        counter: usize,
        /// The number that it must be larger than.
        number: u64,
    },
}

/// All counters by name: those of the engine, then those of its managers, which are added up.
fn values(counters: Counters, managers: ManagerCounters) -> impl Iterator<Item = (&'static str, u64)> {
    let of_engine = Counters::TABLE.iter().map(move |counter| (counter.name, (counter.of)(&counters)));
    of_engine.chain(ManagerCounters::TABLE.iter().map(move |counter| (counter.name, (counter.of)(&managers))))
}

impl Criterion {
    /// The names of all counters.
    pub fn counters() -> impl Iterator<Item = &'static str> {
        values(Counters::default(), ManagerCounters::default()).map(|(name, _)| name)
    }

    /// All counters by name, with their values.
    pub fn values(
        counters: &Counters,
        managers: &ManagerCounters,
    ) -> impl Iterator<Item = (&'static str, u64)> {
        values(*counters, *managers)
    }

    /// Does an engine do this that is told these inputs? Every action is taken at once.
    #[must_use]
    pub fn holds(&self, config: &Config, inputs: &[&(Nanos, OwnedInput)]) -> bool {
        let mut told = Told::new(config.clone());
        for (now, input) in inputs {
            if told.tell(*now, input.as_input()).is_err() {
                return *self == Criterion::Panics;
            }
            while told.engine.poll_action().is_some() {}
        }
        match *self {
            Criterion::Panics => false,
            Criterion::Exceeds { counter, number } => {
                let value = values(told.engine.counters(), told.managers()).nth(counter);
                value.is_some_and(|(_, value)| value > number)
            }
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Criterion::Panics => f.write_str("panics"),
            Criterion::Exceeds { counter, number } => {
                write!(f, "{}>{number}", Criterion::counters().nth(counter).unwrap_or("?"))
            }
        }
    }
}

/// A criterion that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCriterion {
    /// Neither of the two forms.
    #[error("'{text}' is neither 'panics' nor COUNTER>N")]
    Form {
        /// What was given.
        text: String,
    },
    /// No counter has this name.
    #[error("unknown counter '{name}'; known are {}", Criterion::counters().collect::<Vec<_>>().join(", "))]
    Counter {
        /// What was given.
        name: String,
    },
}

impl FromStr for Criterion {
    type Err = UnknownCriterion;

    /// `panics`, or `COUNTER>N`.
    fn from_str(text: &str) -> Result<Criterion, UnknownCriterion> {
        let form = || UnknownCriterion::Form { text: text.to_owned() };
        if text == "panics" {
            return Ok(Criterion::Panics);
        }
        let (name, number) = text.split_once('>').ok_or_else(form)?;
        let (name, number) = (name.trim(), number.trim().parse().map_err(|_| form())?);
        let counter = Criterion::counters().position(|known| known == name);
        let counter = counter.ok_or_else(|| UnknownCriterion::Counter { name: name.to_owned() })?;
        Ok(Criterion::Exceeds { counter, number })
    }
}

/// What shrinking leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunk {
    /// The configuration of the engine.
    pub config: Config,
    /// The inputs that are left, each with its time.
    pub inputs: Vec<(Nanos, OwnedInput)>,
    /// Inputs of the log.
    pub of_inputs: usize,
    /// Engines that were run.
    pub runs: u32,
    /// No single input can be left out of it; false where the runs did not suffice to know.
    pub is_minimal: bool,
}

/// Leaves out of `inputs` what `holds` does not need; it must hold for all of them. Gives what is left, the runs and
/// whether no single input can be left out of it.
pub fn shrink<'a, T>(
    inputs: &'a [T],
    runs: u32,
    mut holds: impl FnMut(&[&'a T]) -> bool,
) -> (Vec<&'a T>, u32, bool) {
    let mut kept: Vec<&T> = inputs.iter().collect();
    let (mut made, mut size) = (0, kept.len().div_ceil(2).max(1));
    let mut attempt = Vec::with_capacity(kept.len());
    loop {
        let (mut at, mut removed) = (0, false);
        while at < kept.len() {
            if made == runs {
                return (kept, made, false);
            }
            made += 1;
            let end = (at + size).min(kept.len());
            attempt.clear();
            attempt.extend_from_slice(&kept[..at]);
            attempt.extend_from_slice(&kept[end..]);
            if holds(&attempt) {
                std::mem::swap(&mut kept, &mut attempt);
                removed = true;
            } else {
                at = end;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if !removed {
            return (kept, made, true);
        }
    }
}

/// Shrinks a log as far as it goes, complete or not; `None` if the criterion does not hold for all of it.
///
/// # Errors
/// The log is damaged, or does not fit into memory.
pub fn shrink_log<R: Read>(
    reader: &mut Reader<R>,
    criterion: Criterion,
    runs: u32,
) -> Result<Option<Shrunk>, LogError> {
    let config = reader.header().config.clone();
    let (mut inputs, mut kept) = (Vec::new(), 0);
    loop {
        match reader.next_record() {
            Ok(Some(Record::Input { now, input })) => {
                kept += match &input {
                    OwnedInput::Plain(_) | OwnedInput::FileAdded { .. } => 1,
                    OwnedInput::Disclosed { blocks, .. } => 1 + blocks.len(),
                };
                if kept > KEPT {
                    return Err(LogError::TooLong { limit: KEPT });
                }
                inputs.push((now, input));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(LogError::CutShort { .. }) => break,
            Err(e) => return Err(e),
        }
    }
    let all: Vec<_> = inputs.iter().collect();
    if !criterion.holds(&config, &all) {
        return Ok(None);
    }
    let (left, made, is_minimal) = shrink(&inputs, runs, |some| criterion.holds(&config, some));
    let left = left.into_iter().cloned().collect();
    let of_inputs = inputs.len();
    Ok(Some(Shrunk { config, inputs: left, of_inputs, runs: made + 1, is_minimal }))
}

/// Runs an engine on these inputs and writes the log of that, up to its end or a panic.
///
/// # Errors
/// What writing meets.
pub fn recorded<W: Write>(
    target: W,
    config: &Config,
    program_version: &str,
    inputs: &[(Nanos, OwnedInput)],
) -> Result<(W, Written), LogError> {
    let mut log = Log::new(target, config, program_version, u64::MAX)?;
    let mut told = Told::new(config.clone());
    for (now, input) in inputs {
        log.input(*now, &input.as_input())?;
        if told.tell(*now, input.as_input()).is_err() {
            break;
        }
        while let Some(action) = told.engine.poll_action() {
            log.action(&action);
        }
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_left() {
        let inputs: Vec<u32> = (0..1000).collect();
        let needs = |some: &[&u32]| [3, 500, 501].iter().all(|n| some.contains(&n));
        let (left, runs, is_minimal) = shrink(&inputs, 500, needs);
        assert_eq!(left, [&3, &500, &501]);
        assert!(is_minimal && runs < 200, "{runs}");
        let (left, runs, is_minimal) = shrink(&inputs, 5, needs);
        assert!(needs(&left) && runs == 5 && !is_minimal);
        assert_eq!(shrink(&inputs, 500, |_| true).0, Vec::<&u32>::new());
    }

    #[test]
    fn criteria_are_read_as_they_are_written() {
        for text in ["panics", "prefetches_wasted>100", "revocations>0"] {
            assert_eq!(text.parse::<Criterion>().unwrap().to_string(), text);
        }
        assert!("prefetches".parse::<Criterion>().is_err());
        assert!("prefetches>x".parse::<Criterion>().is_err());
        let unknown = "wasted>1".parse::<Criterion>().unwrap_err().to_string();
        assert!(unknown.starts_with("unknown counter 'wasted'; known are references, hits"), "{unknown}");
    }
}
