//! An engine told again what another one was told.
//!
//! Actions are taken from the engine where they were taken when the log was written: as many, after the same input.
//! So the sums are comparable after every group of them, and the first difference is known to the input.

use std::any::Any;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use foretell_policy::{Action, Answer, Config, Counters, Engine, Input, ManagerCounters, ManagerId, Nanos};

use crate::error::LogError;
use crate::reader::{Reader, Record};
use crate::sum::Sum;

/// How a replay came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With the log's end.
    Complete,
    /// With the end of a log that reached its limit.
    CutAtLimit,
    /// Where a log ends that was not finished.
    CutShort,
    /// After as many inputs as were asked for.
    Stopped,
    /// With a panic of the engine.
    Panicked,
}

/// Where a replay first does something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The input, counted from 1, after which the actions differ.
    pub input: u64,
    /// What differs.
    pub what: &'static str,
}

/// The engine panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    /// At this input, counted from 1.
    pub input: u64,
    /// What it said.
    pub message: String,
}

/// What a replay shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Inputs told.
    pub inputs: u64,
    /// Actions that the engine gave.
    pub actions: u64,
    /// Actions that were asked for after the last ones which were taken when the log was written; a plane that
    /// stops may leave some.
    pub actions_left: u64,
    /// The sum over the actions.
    pub sum: u64,
    /// Are they those of the log, as far as it was replayed?
    pub checksum_matches: bool,
    /// Where they first differ.
    pub first_difference: Option<Difference>,
    /// The defect that ended the replay.
    pub panicked: Option<Panicked>,
    /// How it ended.
    pub end: End,
    /// What the engine counted.
    pub counters: Counters,
    /// What its managers' decisions were worth, all of them together.
    pub managers: ManagerCounters,
}

/// Something that a replay shows as it goes.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The engine was told something.
    Input {
        /// Which input, counted from 1.
        number: u64,
        /// When.
        now: Nanos,
        /// What.
        input: Input<'a>,
        /// What it said.
        answer: Answer,
    },
    /// It asks for something.
    Action(Action),
}

/// An engine, with what is known of its managers.
pub(crate) struct Told {
    pub(crate) engine: Engine,
    managers: Vec<ManagerId>,
}

impl Told {
    pub(crate) fn new(config: Config) -> Told {
        Told { engine: Engine::new(config), managers: Vec::new() }
    }

    /// Tells it something; the message if it panics.
    pub(crate) fn tell(&mut self, now: Nanos, input: Input<'_>) -> Result<Answer, String> {
        // After a panic it is only asked for its counters.
        let answer = catch_unwind(AssertUnwindSafe(|| self.engine.tell(now, input)));
        let answer = answer.map_err(|panic| message(&*panic))?;
        if let Answer::Manager(manager) = answer
            && !self.managers.contains(&manager)
        {
            self.managers.push(manager);
        }
        Ok(answer)
    }

    pub(crate) fn managers(&self) -> ManagerCounters {
        let mut all = ManagerCounters::default();
        for &manager in &self.managers {
            all += self.engine.manager_counters(manager);
        }
        all
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Replays a log, all of it or its first inputs.
///
/// # Errors
/// The log is damaged. One that is only cut short is replayed as far as it goes ([`End::CutShort`]).
pub fn replay<R: Read>(reader: &mut Reader<R>, until: Option<u64>) -> Result<Outcome, LogError> {
    replay_with(reader, until, |_| {})
}

/// The same, showing everything that goes in and comes out.
///
/// # Errors
/// As [`replay`].
pub fn replay_with<R: Read>(
    reader: &mut Reader<R>,
    until: Option<u64>,
    mut show: impl FnMut(Event<'_>),
) -> Result<Outcome, LogError> {
    let mut told = Told::new(reader.header().config.clone());
    let (mut inputs, mut sum) = (0, Sum::default());
    let mut first_difference = None;
    let mut panicked = None;
    let mut differs = |input, what| {
        first_difference.get_or_insert(Difference { input, what });
    };
    let end = loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break End::Complete,
            Err(LogError::CutShort { .. }) => break End::CutShort,
            Err(e) => return Err(e),
        };
        match record {
            Record::Input { .. } if until.is_some_and(|until| inputs >= until) => break End::Stopped,
            Record::Input { now, input } => {
                inputs += 1;
                match told.tell(now, input.as_input()) {
                    Ok(answer) => show(Event::Input { number: inputs, now, input: input.as_input(), answer }),
                    Err(message) => {
                        panicked = Some(Panicked { input: inputs, message });
                        break End::Panicked;
                    }
                }
            }
            Record::Actions { actions, short_sum } => {
                for _ in 0..actions {
                    let Some(action) = told.engine.poll_action() else {
                        differs(inputs, "fewer actions than in the log");
                        break;
                    };
                    sum.add(&action);
                    show(Event::Action(action));
                }
                if sum.short() != short_sum {
                    differs(inputs, "other actions than in the log");
                }
            }
            Record::Check { actions, sum: logged, .. } => {
                if (actions, logged) != (sum.actions(), sum.value()) {
                    differs(inputs, "other actions than in the log up to here");
                }
            }
            Record::End { actions, sum: logged, cut_at_limit, .. } => {
                if (actions, logged) != (sum.actions(), sum.value()) {
                    differs(inputs, "other actions than in the log up to its end");
                }
                break if cut_at_limit { End::CutAtLimit } else { End::Complete };
            }
        }
    };
    let mut actions_left = 0;
    while let Some(action) = told.engine.poll_action() {
        actions_left += 1;
        show(Event::Action(action));
    }
    Ok(Outcome {
        inputs,
        actions: sum.actions(),
        actions_left,
        sum: sum.value(),
        checksum_matches: first_difference.is_none() && panicked.is_none(),
        first_difference,
        panicked,
        end,
        counters: told.engine.counters(),
        managers: told.managers(),
    })
}
