//! `foretell model`: the closed-form model of reads, and how it compares with what was published.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, anyhow};
use foretell_analytic::advise::{Advice, Setting, advise};
use foretell_analytic::predict::{Bound, Prediction, predict};
use foretell_analytic::published::{self, Claim, Reproduction};
use foretell_analytic::response::Breakdown;
use foretell_analytic::workload::Workload;
use foretell_device::{DeviceParameters, catalogue};
use serde::Serialize;

use crate::memory::usable_bytes;
use crate::nearest::nearest;
use crate::terminal::say;
use crate::workload;

/// What `--reproduce` knows.
const PAPERS: &[&str] = &["shriver99"];

/// Say how long reads take and why, without a trace: a closed-form model of file system and device.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Compute a paper's tables and claims and compare: shriver99
    #[arg(long, value_name = "PAPER")]
    reproduce: Option<String>,
    /// Write JSON instead of a table
    #[arg(long, requires = "reproduce")]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say how long a workload takes at a device, and what prefetching has to do with it
    Predict(WorkloadArgs),
    /// Say what to set for a workload at a device, why, and what it gains
    Advise(WorkloadArgs),
}

#[derive(Debug, clap::Args)]
struct WorkloadArgs {
    /// A built-in device, or the path of a device file
    #[arg(long, value_name = "NAME|FILE")]
    device: String,
    /// sequential, strided, random or hinted, then KEY=VALUE: bytes (of each stream), request, streams,
    /// think_us, stride, span, horizon, fs (linux, ffs, direct), read_ahead, memory
    #[arg(long, value_name = "PATTERN,KEY=VALUE,..")]
    workload: String,
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Some(Action::Predict(args)) => execute_predict(args)?,
        Some(Action::Advise(args)) => execute_advise(args)?,
        None => {}
    }
    if let Some(paper) = &args.reproduce {
        if !PAPERS.contains(&paper.as_str()) {
            let hint = nearest(paper, PAPERS.iter().copied()).unwrap_or(PAPERS[0]);
            return Err(anyhow!("--reproduce: no paper '{paper}'; did you mean '{hint}'?"));
        }
        let reproduction = published::reproduce()?;
        if args.json {
            say(&format!("{}\n", serde_json::to_string_pretty(&reproduction.rows)?));
        } else {
            say(&reproduction_table(&reproduction));
        }
    }
    Ok(0)
}

fn execute_predict(args: &WorkloadArgs) -> Result<()> {
    let device = find_device(&args.device)?;
    let workload = parse_workload(&args.workload)?;
    let prediction = predict(&device, &workload).map_err(|e| anyhow!("--workload: {e}"))?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&PredictionJson::new(&device, &prediction))?));
    } else {
        say(&prediction_table(&device, &workload, &prediction));
    }
    Ok(())
}

fn execute_advise(args: &WorkloadArgs) -> Result<()> {
    let device = find_device(&args.device)?;
    let workload = parse_workload(&args.workload)?;
    let (now, advice) = advise(&device, &workload).map_err(|e| anyhow!("--workload: {e}"))?;
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
        let Advice { setting, value, time_ms, because, holds_if } = advice;
        AdviceJson {
            setting: setting_name(*setting),
            value: *value,
            time_ms: *time_ms,
            now_ms,
            because,
            holds_if,
        }
    }
}

fn setting_name(setting: Setting) -> &'static str {
    match setting {
        Setting::ReadAheadKb => "read_ahead_kb",
        Setting::Horizon => "horizon",
        Setting::QueueDepth => "queue_depth",
        Setting::Batch => "batch",
        Setting::BlockBytes => "block_bytes",
        Setting::MergeGapBytes => "merge_gap_bytes",
        Setting::Streams => "streams",
    }
}

fn advice_table(device: &DeviceParameters, now_ms: f64, advice: &[Advice]) -> String {
    let mut out = format!("{}: {now_ms:.2} ms as it is\n", device.name);
    if advice.is_empty() {
        out.push_str("  nothing to set would make it 3% faster\n");
    }
    for Advice { setting, value, time_ms, because, holds_if } in advice {
        let _ = writeln!(
            out,
            "  {:<16}{value:>12}   {time_ms:.2} ms, {:.2} times as fast: {because}\n{:>33}if {holds_if}",
            setting_name(*setting),
            now_ms / time_ms,
            "",
        );
    }
    out
}

/// A built-in device by its name, else a file.
fn find_device(name: &str) -> Result<DeviceParameters> {
    let unknown = match catalogue::find(name) {
        Ok(device) => return Ok(device),
        Err(unknown) => unknown,
    };
    match fs::read_to_string(name) {
        Ok(text) => DeviceParameters::parse(&text).with_context(|| format!("--device {name}")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(anyhow!("--device: {unknown}")),
        Err(e) => Err(anyhow!("--device {name}: {e}; give a device file or a built-in device")),
    }
}

fn parse_workload(text: &str) -> Result<Workload> {
    workload::parse(text, usable_bytes().unwrap_or(u64::MAX)).map_err(|e| anyhow!("--workload: {e}"))
}

/// A prediction as JSON: ms, requests and words.
#[derive(Serialize)]
struct PredictionJson<'a> {
    device: &'a str,
    time_ms: f64,
    computation_ms: f64,
    waiting_ms: f64,
    unprefetched_ms: f64,
    device_reads: u64,
    bound: &'static str,
    saved_by_device_readahead_ms: f64,
    saved_by_fewer_overheads_ms: f64,
    saved_by_positioning_ms: f64,
    saved_by_requests_in_flight_ms: f64,
    saved_by_overlap_ms: f64,
}

impl<'a> PredictionJson<'a> {
    fn new(device: &'a DeviceParameters, prediction: &Prediction) -> PredictionJson<'a> {
        let Prediction { time_ms, computation_ms, unprefetched_ms, device_reads, bound, saved } = *prediction;
        PredictionJson {
            device: &device.name,
            time_ms,
            computation_ms,
            waiting_ms: time_ms - computation_ms,
            unprefetched_ms,
            device_reads,
            bound: bound_text(bound).0,
            saved_by_device_readahead_ms: saved.device_readahead_ms,
            saved_by_fewer_overheads_ms: saved.overhead_ms,
            saved_by_positioning_ms: saved.positioning_ms,
            saved_by_requests_in_flight_ms: saved.parallel_ms,
            saved_by_overlap_ms: saved.overlap_ms,
        }
    }
}

/// A word for machines and one line for people.
fn bound_text(bound: Bound) -> (&'static str, &'static str) {
    match bound {
        Bound::Latency => ("latency", "each request waits for the one before"),
        Bound::Device => ("device", "the device is busy all the time"),
        Bound::Operations => ("operations", "the device's operations a second"),
        Bound::Bytes => ("bytes", "the device's bytes a second"),
        Bound::Computation => ("computation", "the computation: reads are hidden behind it"),
    }
}

fn prediction_table(device: &DeviceParameters, workload: &Workload, prediction: &Prediction) -> String {
    let Prediction { time_ms, computation_ms, unprefetched_ms, device_reads, bound, saved } = *prediction;
    let mut out = format!("{}: {}\n\n", device.name, device.description);
    let mut line = |label: &str, ms: f64, what: String| {
        let _ = writeln!(out, "  {label:<26}{ms:>14.2} ms   {what}");
    };
    let mb_per_s = workload.bytes as f64 * f64::from(workload.streams) / time_ms / 1e3;
    line("time", time_ms, format!("{mb_per_s:.1} MB/s, {device_reads} device reads"));
    line("computation", computation_ms, String::from("of each stream"));
    line("waiting", time_ms - computation_ms, format!("limited by {}", bound_text(bound).1));
    line(
        "without any prefetching",
        unprefetched_ms,
        format!("{:.2} times as long", unprefetched_ms / time_ms),
    );
    for (label, ms) in [
        ("  device readahead", saved.device_readahead_ms),
        ("  overhead amortised", saved.overhead_ms),
        ("  positioning saved", saved.positioning_ms),
        ("  requests in flight", saved.parallel_ms),
        ("  overlap with computation", saved.overlap_ms),
    ] {
        // Rounding leaves less than this of a cause that does nothing.
        if ms.abs() > 1e-9 * unprefetched_ms {
            line(label, -ms, format!("{:+.1}%", -100.0 * ms / unprefetched_ms));
        }
    }
    for unverified in &device.unverified {
        let _ = writeln!(out, "  not certain: {}: {}", unverified.field, unverified.reason);
    }
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The tables, row by row, and the claims.
fn reproduction_table(reproduction: &Reproduction) -> String {
    let mut out = String::from(
        "Shriver, Small and Smith 1999: mean time of one read, in ms\n\n\
         table files request   file prefetch  measured     paper     model   error against\n         \
              KB     KB                                  measured  paper    where the model's time goes\n",
    );
    for row in &reproduction.rows {
        let _ = writeln!(
            out,
            "{:>5} {:>5} {:>7} {:>6} {:>8} {:>9.2} {:>9.2} {:>9.2}   {:>+7.1}% {:>+5.1}%   {}",
            row.table,
            row.files,
            row.request_kb,
            row.file_kb,
            if row.prefetch { "on" } else { "off" },
            row.measured_ms,
            row.paper_ms,
            row.model_ms,
            100.0 * row.error_measured(),
            100.0 * row.error_paper(),
            shares(&row.parts),
        );
    }
    let _ = writeln!(
        out,
        "\nmean error against the measurements: model {:.1}%, the paper's own computation {:.1}%\n\nclaims",
        100.0 * reproduction.mean_error_measured(),
        100.0 * reproduction.mean_error_of_paper(),
    );
    for claim in &reproduction.claims {
        render_claim(&mut out, claim);
    }
    out
}

fn render_claim(out: &mut String, claim: &Claim) {
    let verdict = if claim.reproduced() { "reproduced" } else { "NOT reproduced" };
    let _ = writeln!(
        out,
        "  {}: {}\n    published {}, model {}: {verdict}",
        claim.id,
        claim.what,
        percent_range(claim.paper_percent),
        percent_range(claim.model_percent),
    );
    let _ = writeln!(out, "    without {:>8.2} ms  {}", claim.without.total_ms(), shares(&claim.without));
    let with_ms = claim.with.total_ms() - claim.hidden_ms;
    let hidden = if claim.hidden_ms > 0.0 {
        format!("; {:.2} ms of it hidden by computation", claim.hidden_ms)
    } else {
        String::new()
    };
    let _ =
        writeln!(out, "    with    {with_ms:>8.2} ms  {}{hidden}\n    {}", shares(&claim.with), claim.note);
}

fn percent_range([low, high]: [f64; 2]) -> String {
    if high - low < 0.5 { format!("{high:.0}%") } else { format!("{low:.0}-{high:.0}%") }
}

/// The parts of a time, in percent; parts below half a percent are left out.
fn shares(parts: &Breakdown) -> String {
    let total_ms = parts.total_ms();
    let named = [
        ("overhead", parts.overhead_ms),
        ("seek", parts.seek_ms),
        ("return", parts.return_ms),
        ("rotation", parts.rotation_ms),
        ("transfer", parts.transfer_ms),
        ("file system", parts.file_system_ms),
    ];
    let named = named.iter().filter(|(_, ms)| *ms >= 0.005 * total_ms);
    named.map(|(what, ms)| format!("{what} {:.0}%", 100.0 * ms / total_ms)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_row_and_claim() {
        let text = reproduction_table(&published::reproduce().unwrap());
        assert_eq!(text.lines().filter(|line| line.contains("  on ") || line.contains(" off ")).count(), 36);
        assert_eq!(text.matches(": reproduced").count() + text.matches(": NOT reproduced").count(), 6);
        assert!(text.contains("mean error against the measurements: model 4.0%"), "{text}");
    }

    #[test]
    fn json_has_the_promised_fields() {
        let rows = serde_json::to_value(published::reproduce().unwrap().rows).unwrap();
        let mut fields: Vec<_> = rows[35].as_object().unwrap().keys().cloned().collect();
        fields.sort();
        let promised =
            ["file_kb", "files", "measured_ms", "model_ms", "paper_ms", "prefetch", "request_kb", "table"];
        assert_eq!(fields, promised);
        assert_eq!(rows.as_array().unwrap().len(), 36);
    }

    #[test]
    fn an_unknown_paper_is_refused() {
        let args = Args { reproduce: Some("shriver9".to_owned()), json: false, action: None };
        let error = execute(&args).unwrap_err().to_string();
        assert_eq!(error, "--reproduce: no paper 'shriver9'; did you mean 'shriver99'?");
    }
}
