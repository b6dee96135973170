//! `foretell model advise`: what to set for a workload at a device, why, and what it gains.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use foretell_analytic::advise::{Advice, advise, streams_for_rate};
use foretell_analytic::workload::{Prefetching, Workload};
use foretell_device::DeviceParameters;
use serde::Serialize;

use super::pictures::Pictures;
use super::workload::{WorkloadArgs, parse_workload};
use crate::apply::{self, Outcome, Queue};
use crate::devices::find_device;
use crate::size::Size;
use crate::terminal::{note, say};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    workload: Option<WorkloadArgs>,
    /// Also say how many streams deliver so many bytes a second, as 500M
    #[arg(long, value_name = "SIZE", requires = "workload")]
    rate: Option<String>,
    /// Set what can be set on this block device, or on the one that this file lies on
    #[arg(long, value_name = "PATH", conflicts_with = "undo")]
    apply: Option<PathBuf>,
    /// Put back what --apply has set there
    #[arg(long, value_name = "PATH", exclusive = true)]
    undo: Option<PathBuf>,
}

/// Advises and prints, sets, or puts back.
pub(super) fn execute(args: &Args) -> Result<()> {
    if let Some(path) = &args.undo {
        return undo(path);
    }
    let Some(workload) = &args.workload else {
        bail!("give --device and --workload, or --undo PATH");
    };
    // Found out before anything is said.
    let queue = args.apply.as_deref().map(Queue::of).transpose().context("--apply")?;
    let advice = advise_workload(workload, args.rate.as_deref(), queue.as_ref())?;
    let Some(queue) = queue else { return Ok(()) };
    let wanted = apply::wanted(&advice, &queue);
    let outcomes = apply::apply(&queue, &wanted, Path::new(apply::STATE_DIRECTORY)).context("--apply")?;
    tell(
        workload.json,
        &queue,
        &outcomes,
        "nothing that can be set there would make it 3% faster than it is",
    );
    Ok(())
}

fn undo(path: &Path) -> Result<()> {
    let queue = Queue::of(path).context("--undo")?;
    let outcomes = apply::undo(&queue, Path::new(apply::STATE_DIRECTORY)).context("--undo")?;
    tell(false, &queue, &outcomes, "nothing was set there");
    Ok(())
}

/// On standard error beside JSON, which stays one document.
fn tell(json: bool, queue: &Queue, outcomes: &[Outcome], nothing: &str) {
    let mut text = String::new();
    for outcome in outcomes {
        let _ = writeln!(text, "{}: {outcome}", queue.name);
    }
    if outcomes.is_empty() {
        let _ = writeln!(text, "{}: {nothing}", queue.name);
    }
    if outcomes.iter().any(|o| matches!(o, Outcome::Changed(_))) {
        text.push_str(
            "files that are open already keep their readahead; put back with: foretell model advise --undo ",
        );
        let _ = writeln!(text, "/dev/{}", queue.name);
    }
    if json { note(&text) } else { say(&text) }
}

/// The workload as it is on a device whose readahead is set so: advice must be better than that, and not than what Linux
/// once began with. A workload that names a readahead keeps it.
fn as_set(workload: Workload, text: &str, queue: &Queue) -> Workload {
    let names_it = text.split(',').any(|part| part.trim_start().starts_with("read_ahead"));
    let set_kb = queue.read_ahead_kb().filter(|_| !names_it);
    match (workload.prefetching, set_kb) {
        (Prefetching::Linux { .. }, Some(kb)) => {
            Workload { prefetching: Prefetching::Linux { read_ahead_bytes: kb << 10 }, ..workload }
        }
        _ => workload,
    }
}

/// Advises and prints.
fn advise_workload(args: &WorkloadArgs, rate: Option<&str>, queue: Option<&Queue>) -> Result<Vec<Advice>> {
    let device = find_device(&args.device)?;
    let workload = parse_workload(&args.workload)?;
    let pictures = Pictures::of(args)?;
    // Where what is set does not fit the workload's memory, anything that does is better.
    let set = queue.map(|queue| as_set(workload, &args.workload, queue));
    let workload = set.filter(|set| advise(&device, set).is_ok()).unwrap_or(workload);
    let (now, mut advice) = advise(&device, &workload).map_err(|e| anyhow!("--workload: {e}"))?;
    if let Some(text) = rate {
        let size = Size::parse(text).map_err(|e| anyhow!("--rate: {e}"))?;
        let Size::Bytes(bytes_per_s) = size else {
            bail!("--rate: '{text}' is a share of memory; give bytes a second, as 500M");
        };
        let streams = streams_for_rate(&device, &workload, bytes_per_s as f64).with_context(|| {
            format!(
                "--rate: no number of streams gets {text} a second from {} in reads of this size; larger reads \
                 may, or a lower rate",
                device.name
            )
        })?;
        advice.push(streams);
    }
    pictures.draw_advice(&device, &workload, &now, &advice)?;
    if args.json {
        let rows: Vec<_> = advice.iter().map(|advice| AdviceJson::new(advice, now.time_ms)).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&rows)?));
    } else {
        say(&advice_table(&device, now.time_ms, &advice));
    }
    Ok(advice)
}

/// A piece of advice as JSON.
#[derive(Serialize)]
struct AdviceJson<'a> {
    setting: &'static str,
    value: u64,
    time_ms: f64,
    now_ms: f64,
    because: &'a str,
    holds_if: &'a str,
}

impl<'a> AdviceJson<'a> {
    fn new(advice: &'a Advice, now_ms: f64) -> AdviceJson<'a> {
        let Advice { setting, value, time_ms, because, holds_if, .. } = advice;
        AdviceJson { setting: setting.name(), value: *value, time_ms: *time_ms, now_ms, because, holds_if }
    }
}

fn advice_table(device: &DeviceParameters, now_ms: f64, advice: &[Advice]) -> String {
    let mut out = format!("{}: {now_ms:.2} ms as it is\n", device.name);
    if advice.is_empty() {
        out.push_str("  nothing to set would make it 3% faster\n");
    }
    for Advice { setting, value, time_ms, because, holds_if, .. } in advice {
        let _ = writeln!(
            out,
            "  {:<16}{value:>12}   {time_ms:.2} ms, {:.2} times as fast: {because}\n{:>33}if {holds_if}",
            setting.name(),
            now_ms / time_ms,
            "",
        );
    }
    out
}
