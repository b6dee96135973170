//! `foretell model advise`: what to set for a workload at a device, why, and what it gains.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use foretell_analytic::advise::{Advice, advise};
use foretell_device::DeviceParameters;
use serde::Serialize;

use super::{Pictures, WorkloadArgs, find_device, parse_workload};
use crate::terminal::say;

/// Advises and prints.
pub(super) fn execute(args: &WorkloadArgs) -> Result<()> {
    let device = find_device(&args.device)?;
    let workload = parse_workload(&args.workload)?;
    let pictures = Pictures::of(args)?;
    let (now, advice) = advise(&device, &workload).map_err(|e| anyhow!("--workload: {e}"))?;
    pictures.draw_advice(&device, &workload, &now, &advice)?;
    if args.json {
        let rows: Vec<_> = advice.iter().map(|advice| AdviceJson::new(advice, now.time_ms)).collect();
        say(&format!("{}\n", serde_json::to_string_pretty(&rows)?));
    } else {
        say(&advice_table(&device, now.time_ms, &advice));
    }
    Ok(())
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
