//! A comparison as one self-contained page: no scripts, nothing loaded from elsewhere, light and dark.

use std::fmt::Write;

use super::words::{self, HEADINGS};
use super::{Comparison, Figures, Run, Span};
use crate::plot;
use crate::report::thousands;
use crate::size::human_bytes;
use crate::sweep::chart::ticks;
use crate::sweep::page::{STYLE, escape};

/// Sizes in user units of an SVG.
const LABEL_WIDTH: f64 = 172.0;
const BAR_WIDTH: f64 = 300.0;
const VALUE_WIDTH: f64 = 84.0;
const ROW_HEIGHT: f64 = 26.0;
const BAR_HEIGHT: f64 = 15.0;
const AXIS_HEIGHT: f64 = 38.0;

/// One figure: what is measured, of whom, and each run's value.
struct Chart<'a> {
    title: &'static str,
    unit: &'static str,
    /// What one unit of the axis is in the values' own.
    scale: f64,
    said: fn(f64) -> String,
    rows: Vec<(&'a Figures, Span, Vec<f64>)>,
}

/// The page. `pattern` is the drawing of what the job reads; `command` is what made the page.
pub(crate) fn page(comparison: &Comparison, pattern: Option<&str>, command: &str) -> String {
    let title = escape(&comparison.job);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}: foretell compare</title>\n<style>\n{STYLE}\
         svg .whisker {{ stroke: var(--ink); stroke-width: 1.5; }}\n\
         svg .run {{ fill: var(--card); stroke: var(--ink); stroke-width: 1; }}\n\
         svg .ours {{ fill: var(--driver); }}\n.key.ours {{ background: var(--driver); }}\n\
         th:nth-child(n), td:nth-child(n) {{ text-align: right; }}\n\
         td:first-child, th:first-child {{ text-align: left; }}\n\
         </style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"kind\">foretell compare</p>\n<h1>{title}</h1>\n\
         <p>{}</p>\n</header>\n<section>\n",
        escape(&words::conditions(comparison))
    );
    for sentence in words::sentences(comparison) {
        let _ = writeln!(out, "<p>{}</p>", escape(&sentence));
    }
    out += "</section>\n<section>\n<h2>Kernel and foretell</h2>\n<p class=\"legend\">\
            <span class=\"key compute\"></span>kernel <span class=\"key ours\"></span>foretell; \
            bars are medians, lines reach from the least to the most, circles are runs</p>\n<div class=\"panels\">\n";
    for chart in charts(comparison) {
        let _ = write!(out, "<figure><figcaption>{}</figcaption>\n{}</figure>\n", chart.title, draw(&chart));
    }
    out += "</div>\n</section>\n<section>\n<h2>Figures</h2>\n";
    out += &table(&HEADINGS, comparison.sides.iter().map(words::row));
    out += "</section>\n";
    if let Some(pattern) = pattern {
        let said = "where in each file the job reads, against time";
        let _ = write!(
            out,
            "<section>\n<h2>What the job reads</h2>\n<p class=\"legend\">as it was seen in its last run under foretell: \
             time to the right, the place in the file upwards</p>\n<figure>{}</figure>\n</section>\n",
            plot::inlined(pattern, said)
        );
    }
    out += "<section>\n<h2>All runs</h2>\n";
    let headings = ["round", "side", "foretell did", "took", "read", "requests", "most memory", "exit code"];
    out += &table(&headings, comparison.learning.iter().chain(&comparison.runs).map(run));
    let _ = write!(
        out,
        "</section>\n<footer><pre>{}</pre>\n<p>foretell {}</p></footer>\n</main>\n</body>\n</html>\n",
        escape(command),
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn run(run: &Run) -> [String; 8] {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(String::new, human_bytes);
    [
        if run.round == 0 { "learning".to_owned() } else { run.round.to_string() },
        run.side.to_string(),
        run.how.map_or_else(String::new, |how| how.to_string()),
        words::seconds(run.elapsed_s),
        bytes(run.read_bytes),
        run.requests.map_or_else(String::new, thousands),
        bytes(run.peak_bytes),
        run.exit_code.to_string(),
    ]
}

fn table<const N: usize>(headings: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut out = "<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
    for heading in headings {
        let _ = write!(out, "<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out + "</tbody>\n</table></div>\n"
}

fn charts(comparison: &Comparison) -> Vec<Chart<'_>> {
    let rows = |value: fn(&Run) -> Option<f64>| -> Vec<(&Figures, Span, Vec<f64>)> {
        let of = |figures: &'_ Figures| {
            let runs = comparison.runs.iter().filter(|run| run.side == figures.side);
            let values: Vec<f64> = runs.filter_map(value).collect();
            Some((Span::of(values.iter().copied())?, values))
        };
        comparison.sides.iter().filter_map(|f| of(f).map(|(span, values)| (f, span, values))).collect()
    };
    let mut charts = vec![Chart {
        title: "Elapsed time",
        unit: "seconds",
        scale: 1.0,
        said: words::seconds,
        rows: rows(|run| Some(run.elapsed_s)),
    }];
    let said_bytes = |bytes: f64| human_bytes(bytes.round() as u64);
    let mib = f64::from(1 << 20);
    let (unit, scale) = ("MiB", mib);
    let (read, requests, peak) = (
        rows(|run| run.read_bytes.map(|bytes| bytes as f64)),
        rows(|run| run.requests.map(|requests| requests as f64)),
        rows(|run| run.peak_bytes.map(|bytes| bytes as f64)),
    );
    charts.push(Chart { title: "Read from the device", unit, scale, said: said_bytes, rows: read });
    charts.push(Chart {
        title: "Requests to the device",
        unit: "requests",
        scale: 1.0,
        said: |requests| thousands(requests.round() as u64),
        rows: requests,
    });
    charts.push(Chart { title: "Most memory at a time", unit, scale, said: said_bytes, rows: peak });
    // No empty panels: what was not measured is not drawn.
    charts.retain(|chart| chart.rows.iter().any(|(_, span, _)| span.most > 0.0));
    charts
}

fn draw(chart: &Chart) -> String {
    let rows = chart.rows.len() as f64;
    let (width, height) = (LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH, rows * ROW_HEIGHT + AXIS_HEIGHT);
    let most = chart.rows.iter().map(|(_, span, _)| span.most).fold(0.0, f64::max) / chart.scale;
    let x = |value: f64| LABEL_WIDTH + BAR_WIDTH * value / most;
    let bottom = rows * ROW_HEIGHT;
    let mut svg =
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n", chart.title);
    for tick in ticks(most) {
        let at = x(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\">{tick}</text>",
            bottom + 14.0
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LABEL_WIDTH + BAR_WIDTH / 2.0,
        bottom + 31.0,
        chart.unit
    );
    for (i, (figures, span, values)) in chart.rows.iter().enumerate() {
        let top = i as f64 * ROW_HEIGHT;
        let (y, middle) = (top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0, top + ROW_HEIGHT / 2.0);
        let class = if figures.side == super::Side::Foretell { "ours" } else { "compute" };
        let said = (chart.said)(span.median);
        let [least, median, most] = [span.least, span.median, span.most].map(|v| x(v / chart.scale));
        let _ = write!(
            svg,
            "<g><title>{name}: {said}</title><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
             <rect class=\"{class}\" x=\"{LABEL_WIDTH}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{BAR_HEIGHT}\"/>\
             <line class=\"whisker\" x1=\"{least:.1}\" y1=\"{middle:.1}\" x2=\"{most:.1}\" y2=\"{middle:.1}\"/>",
            LABEL_WIDTH - 8.0,
            middle + 4.0,
            (median - LABEL_WIDTH).max(0.5),
            name = escape(&figures.name),
        );
        for value in values {
            let at = x(value / chart.scale);
            let _ = write!(svg, "<circle class=\"run\" cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"2.6\"/>");
        }
        let _ = writeln!(
            svg,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{said}</text></g>",
            most.max(median) + 8.0,
            middle + 4.0
        );
    }
    svg + "</svg>\n"
}
