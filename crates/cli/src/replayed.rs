//! What a replay shows, in words and as JSON: a line an input or action, and what came of all of them.

use std::fmt::Write as _;

use foretell_policy::{Access, Action, Answer, Block, Input, Nanos, Reason};
use foretell_replay::{Criterion, End, Event, Header, Outcome, VERSION};
use serde_json::{Value, json};

use crate::report::thousands;

/// Blocks of a disclosure that a line names.
const BLOCKS_NAMED: usize = 4;

/// A line for something that went into the engine or came out of it. Blocks are `FILE:INDEX`.
#[must_use]
pub(crate) fn line(event: &Event<'_>) -> String {
    match event {
        Event::Input { number, now, input, answer } => {
            format!("{number} {} {}{}\n", seconds(*now), told(input), said(*answer))
        }
        Event::Action(action) => format!("  -> {}\n", asked(*action)),
    }
}

fn seconds(Nanos(ns): Nanos) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn name(Block { file, index }: Block) -> String {
    format!("{}:{index}", file.0)
}

fn told(input: &Input<'_>) -> String {
    match *input {
        Input::Accessed { process, block, stalled } => {
            let stalled = if stalled { ", had to wait" } else { "" };
            format!("accessed {} by process {}{stalled}", name(block), process.0)
        }
        Input::Loaded { block, by: None } => format!("loaded {}", name(block)),
        Input::Loaded { block, by: Some(by) } => format!("loaded {} by process {}", name(block), by.0),
        Input::FetchFailed { block } => format!("fetch-failed {}", name(block)),
        Input::Gone { block } => format!("gone {}", name(block)),
        Input::TakenAlong { block } => format!("taken-along {}", name(block)),
        Input::EvictRefused { block } => format!("evict-refused {}", name(block)),
        Input::ProcessExited { process } => format!("process-exited {}", process.0),
        Input::DiskBatch { disk, batch } => format!("disk {} batch {batch}", disk.0),
        Input::DiskArm { disk, reach_blocks } => format!("disk {} arm {reach_blocks}", disk.0),
        Input::Served { disk, access } => format!("served disk {} in {} ns", disk.0, access.0),
        Input::Computed { process, compute } => {
            format!("computed process {} for {} ns", process.0, compute.0)
        }
        Input::TimePassed => "time-passed".to_owned(),
        Input::FileAdded { layout } => format!("file-added {layout:?}"),
        Input::FileLength { file, length_blocks } => format!("file-length {} is {length_blocks}", file.0),
        Input::FileRemoved { file } => format!("file-removed {}", file.0),
        Input::FetchesAllowed { file } => format!("fetches-allowed file {}", file.0),
        Input::ManagerAdded { persistent } => {
            format!("manager-added{}", if persistent { ", persistent" } else { "" })
        }
        Input::ManagerRemoved { manager } => format!("manager-removed {}", manager.0),
        Input::ProcessAdded { manager } => format!("process-added of manager {}", manager.0),
        Input::CacheSize { cache_blocks } => format!("cache-size {cache_blocks}"),
        Input::MemoryReleased => "memory-released".to_owned(),
        Input::Disclosed { manager, list, blocks } => {
            let mut text = format!("disclosed manager {} list {list}: {} blocks", manager.0, blocks.len());
            for block in blocks.iter().take(BLOCKS_NAMED) {
                let _ = write!(text, " {}", name(*block));
            }
            text + if blocks.len() > BLOCKS_NAMED { " ..." } else { "" }
        }
        Input::ReaderAssigned { process, list } => {
            format!("reader-assigned process {} list {list}", process.0)
        }
        Input::OneProcess { process, first } => {
            format!("one-process process {} process {}", process.0, first.0)
        }
        Input::ListsOpen { manager, open } => {
            format!("lists-{} manager {}", if open { "open" } else { "told" }, manager.0)
        }
        Input::Cancelled { manager } => format!("cancelled manager {}", manager.0),
        Input::Priority { manager, file, priority } => {
            format!("priority manager {} file {} {priority}", manager.0, file.0)
        }
        Input::Policy { manager, priority, policy } => {
            format!("policy manager {} priority {priority} {policy:?}", manager.0)
        }
        Input::TemporaryPriority { manager, file, first, last, priority } => {
            format!("temporary-priority manager {} {}:{first}..={last} {priority}", manager.0, file.0)
        }
        Input::Flushed { manager, file, first, last } => {
            format!("flushed manager {} {}:{first}..={last}", manager.0, file.0)
        }
        Input::Scheduled { manager, fetch_references, batch } => {
            format!("scheduled manager {} F {fetch_references} batch {batch}", manager.0)
        }
    }
}

fn said(answer: Answer) -> String {
    match answer {
        Answer::None => String::new(),
        Answer::Access(Access::Hit) => " = hit".to_owned(),
        Answer::Access(Access::InFlight) => " = in flight".to_owned(),
        Answer::Access(Access::Miss) => " = miss".to_owned(),
        Answer::File(file) => format!(" = {}", file.0),
        Answer::Manager(manager) => format!(" = {}", manager.0),
        Answer::Process(process) => format!(" = {}", process.0),
        Answer::Taken(taken) => format!(" = {taken} taken"),
        Answer::Flushed(blocks) => format!(" = {blocks} flushed"),
        Answer::Refused(limit) => format!(" = refused: {limit}"),
    }
}

fn asked(action: Action) -> String {
    match action {
        Action::Fetch { block, reason, manager } => {
            let reason = match reason {
                Reason::Demand => "demand",
                Reason::Prefetch => "prefetch",
            };
            format!("fetch {} ({reason}, manager {})", name(block), manager.0)
        }
        Action::Evict { block } => format!("evict {}", name(block)),
        Action::CancelPrefetches { manager } => format!("cancel-prefetches manager {}", manager.0),
    }
}

/// How the replay ended, in one word for programs.
fn end(outcome: &Outcome) -> &'static str {
    match outcome.end {
        End::Complete => "complete",
        End::CutAtLimit => "cut-at-limit",
        End::CutShort => "cut-short",
        End::Stopped => "stopped",
        End::Panicked => "panicked",
    }
}

/// What came of a replay, for people.
#[must_use]
pub(crate) fn report(header: &Header, outcome: &Outcome) -> String {
    let until = match outcome.end {
        End::Complete => "all of the log",
        End::CutAtLimit => "all of the log, which ends at its limit",
        End::CutShort => "up to where the log was cut short",
        End::Stopped => "as many as were asked for",
        End::Panicked => "up to where the policy panicked",
    };
    let mut out = format!("written by foretell {}\n", header.program_version);
    let _ = writeln!(out, "  inputs       {:>15}   {until}", thousands(outcome.inputs));
    let actions = thousands(outcome.actions);
    let _ = match (&outcome.panicked, outcome.first_difference) {
        (Some(panicked), _) => {
            writeln!(
                out,
                "  actions      {actions:>15}\n  panicked     at input {}: {}",
                thousands(panicked.input),
                panicked.message
            )
        }
        (None, Some(difference)) => writeln!(
            out,
            "  actions      {actions:>15}   not the same\n  differs      after input {}: {}",
            thousands(difference.input),
            difference.what
        ),
        (None, None) => {
            writeln!(out, "  actions      {actions:>15}   the same, bit for bit (sum {:016x})", outcome.sum)
        }
    };
    if outcome.actions_left > 0 {
        let left = thousands(outcome.actions_left);
        let _ = writeln!(out, "  left         {left:>15}   asked for at the end and taken by nobody");
    }
    out
}

/// The same for programs, with all counters.
#[must_use]
pub(crate) fn json(header: &Header, outcome: &Outcome) -> Value {
    let counters: serde_json::Map<String, Value> = Criterion::values(&outcome.counters, &outcome.managers)
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    json!({
        "log_version": VERSION,
        "program_version": header.program_version,
        "end": end(outcome),
        "inputs": outcome.inputs,
        "actions": outcome.actions,
        "actions_left": outcome.actions_left,
        "sum": format!("{:016x}", outcome.sum),
        "same": outcome.checksum_matches,
        "first_difference": outcome.first_difference.map(|d| json!({ "input": d.input, "what": d.what })),
        "panicked": outcome.panicked.as_ref().map(|p| json!({ "input": p.input, "message": p.message })),
        "counters": counters,
    })
}
