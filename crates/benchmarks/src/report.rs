//! Progress on the terminal, a table, and JSON.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::machine;
use crate::outcome::{Outcome, Series};

/// A bar of `runs` steps on standard error; nothing in a pipe.
pub(crate) fn progress(runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}, {eta} left  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Arms that fit beside each other on a terminal.
const MOST_COLUMNS: usize = 8;

/// Prints the table, the references, the verdicts and the notes.
pub(crate) fn print(outcome: &Outcome) {
    let table = outcome.table.clone().unwrap_or_else(|| medians(outcome));
    println!("{}\n{table}", outcome.title);
    for reference in &outcome.references {
        println!("  {}: {}", reference.what, number(reference.value));
    }
    for verdict in &outcome.verdicts {
        let word = if verdict.met { "met" } else { "NOT MET" };
        println!("  {word}: {} {} ({})", verdict.what, number(verdict.value), verdict.target);
    }
    for note in &outcome.notes {
        println!("{note}");
    }
}

/// The table of medians: a row a metric, a column an arm; the other way round for many arms.
fn medians(outcome: &Outcome) -> String {
    let mut metrics: Vec<&str> = Vec::new();
    for series in outcome.arms.iter().flat_map(|(_, series)| series) {
        if !metrics.contains(&series.metric) {
            metrics.push(series.metric);
        }
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let corner = ["median (least to most)".to_owned()];
    let found = |series: &[Series], metric: &str| {
        series.iter().find(|series| series.metric == metric).map_or(String::new(), cell)
    };
    if outcome.arms.len() > MOST_COLUMNS {
        table.set_header(corner.into_iter().chain(metrics.iter().map(|metric| (*metric).to_owned())));
        for (arm, series) in &outcome.arms {
            let cells = metrics.iter().map(|metric| found(series, metric));
            table.add_row([arm.clone()].into_iter().chain(cells));
        }
    } else {
        table.set_header(corner.into_iter().chain(outcome.arms.iter().map(|(arm, _)| arm.clone())));
        for metric in metrics {
            let cells = outcome.arms.iter().map(|(_, series)| found(series, metric));
            table.add_row([metric.to_owned()].into_iter().chain(cells));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn cell(series: &Series) -> String {
    let (least, most) = (series.min(), series.max());
    if (most - least).abs() < 1e-9 {
        number(series.median())
    } else {
        format!("{} ({} to {})", number(series.median()), number(least), number(most))
    }
}

/// Counts as integers, the rest with three digits.
fn number(value: f64) -> String {
    if value.fract().abs() < 1e-9 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else if value.abs() >= 1000.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// Writes everything, also the single rounds, with what is needed to repeat it.
pub(crate) fn write_json(path: &Path, name: &str, rounds: usize, outcome: &Outcome) -> Result<()> {
    let arms: Map<String, Value> = outcome
        .arms
        .iter()
        .map(|(arm, series)| {
            let metrics: Map<String, Value> = series
                .iter()
                .map(|series| {
                    let value = json!({ "median": series.median(), "values": series.values });
                    (series.metric.to_owned(), value)
                })
                .collect();
            (arm.clone(), Value::Object(metrics))
        })
        .collect();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let command: Vec<String> = std::env::args().skip(1).collect();
    let result = json!({
        "benchmark": name,
        "title": outcome.title,
        "command": format!("./x bench {}", command.join(" ")),
        "commit": machine::commit(),
        "machine": machine::describe(),
        "unix_time_s": seconds,
        "rounds": rounds,
        "arms": arms,
        "references": outcome.references,
        "verdicts": outcome.verdicts,
        "notes": outcome.notes,
    });
    let text = serde_json::to_string_pretty(&result)? + "\n";
    Ok(foretell_output::write(path, text.as_bytes())?)
}
