//! Results for a terminal.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use foretell_sim::Outcome;
use foretell_sim::reproduce::{Finding, Verdict};

use super::{baseline, seconds};
use crate::report::thousands;

/// What all results share, in a few lines above the table.
fn heading(first: &Outcome, one_cache: bool) -> String {
    let mut out = first.workload.clone();
    if first.model {
        out += " (a model: the order of its references is a guess from a description)";
    }
    let _ = write!(out, "\n{} references", thousands(first.references));
    if let Some(distinct) = first.distinct_blocks {
        let _ = write!(out, " to {} blocks", thousands(distinct));
    }
    let _ = write!(
        out,
        "{}, {}, {}",
        if one_cache {
            format!(", cache of {} blocks", thousands(first.cache_blocks.into()))
        } else {
            String::new()
        },
        first.device,
        first.schedule
    );
    if let Some(optimum) = first.demand_opt_fetches.filter(|_| one_cache) {
        let _ = write!(out, "; optimal demand fetching makes {} fetches", thousands(optimum));
    }
    out.push('\n');
    out
}

/// By how much `a` exceeds `b`, as `+1.2%`.
#[must_use]
pub fn over(a: f64, b: Option<f64>) -> String {
    match b.filter(|b| *b > 0.0) {
        Some(b) => format!("{:+.1}%", 100.0 * (a / b - 1.0)),
        None => String::new(),
    }
}

/// The results as a table, the fastest of each array and cache in bold.
#[must_use]
pub fn outcomes(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let one_cache = outcomes.iter().all(|o| o.cache_blocks == first.cache_blocks);
    let estimates = outcomes.iter().any(|o| o.estimated_linux_s.is_some());
    let mut header = vec![
        "disks",
        "cache",
        "policy",
        "elapsed s",
        "vs linux",
        "compute",
        "driver",
        "stall",
        "fetches",
        "over opt",
        "wasted",
        "late",
        "fetch ms",
        "busy",
        "over bound",
    ];
    header.extend(estimates.then_some("linux est."));
    let mut table = plain(header);
    for column in table.column_iter_mut().filter(|c| c.index != 2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for o in outcomes {
        let same = |other: &&Outcome| (other.disks, other.cache_blocks) == (o.disks, o.cache_blocks);
        let same = outcomes.iter().filter(same);
        let fastest = same.map(|other| other.elapsed_ns).min() == Some(o.elapsed_ns);
        let fetches_over = over(o.fetches as f64, o.demand_opt_fetches.map(|f| f as f64));
        let mut row = vec![
            o.disks.to_string(),
            thousands(o.cache_blocks.into()),
            o.policy.to_string(),
            seconds(o.elapsed_s),
            baseline::ratio(o),
            seconds(o.compute_s),
            seconds(o.driver_s),
            seconds(o.stall_s),
            thousands(o.fetches),
            fetches_over,
            thousands(o.wasted_fetches),
            thousands(o.late_fetches),
            format!("{:.2}", o.mean_fetch_ms),
            format!("{:.0}%", 100.0 * o.utilization),
            over(o.elapsed_s, o.lower_bound_s),
        ];
        row.extend(estimates.then(|| o.estimated_linux_s.map_or(String::new(), seconds)));
        let bold = |cell: Cell| if fastest { cell.add_attribute(Attribute::Bold) } else { cell };
        table.add_row(row.into_iter().map(|text| bold(Cell::new(text))));
    }
    format!("{}{table}\n", heading(first, one_cache))
}

/// Published numbers beside ours; notes below, each once.
#[must_use]
pub fn findings(findings: &[Finding]) -> String {
    let mut table = plain(vec!["where", "what", "published", "ours", "difference", "verdict"]);
    let mut notes: Vec<&str> = Vec::new();
    for f in findings.iter().filter(|f| f.verdict != Verdict::CannotRun) {
        let verdict = match f.verdict {
            Verdict::Met => "met",
            Verdict::Direction => "direction",
            Verdict::Differs | Verdict::CannotRun => "DIFFERS",
        };
        let mark = match notes.iter().position(|n| *n == f.note) {
            _ if f.note.is_empty() => String::new(),
            Some(i) => format!(" [{}]", i + 1),
            None => {
                notes.push(&f.note);
                format!(" [{}]", notes.len())
            }
        };
        let verdict = format!("{verdict}{mark}");
        table.add_row([&f.source, &f.what, &f.published, &f.ours, &f.difference, &verdict]);
    }
    let mut out = format!("{table}\n");
    for (i, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "[{}] {note}", i + 1);
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let _ = writeln!(
        out,
        "\n{} met, {} in direction (modelled workloads), {} differ. Not run:",
        count(Verdict::Met),
        count(Verdict::Direction),
        count(Verdict::Differs)
    );
    for f in findings.iter().filter(|f| f.verdict == Verdict::CannotRun) {
        let _ = writeln!(out, "- {}: {}: {}", f.source, f.what, f.note);
    }
    out
}

fn plain(header: Vec<&str>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}
