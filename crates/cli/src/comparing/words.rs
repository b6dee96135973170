//! A comparison in a table and a few sentences.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Agreement, Comparison, Faster, Figures, Side, Span};
use crate::report::thousands;
use crate::size::human_bytes;

/// The headings of [`row`].
pub(crate) const HEADINGS: [&str; 8] =
    ["", "median", "fastest – slowest", "read", "requests", "most memory", "exit code", "times as fast"];

/// The table, and what there is to say of it.
pub(crate) fn report(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(HEADINGS);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for figures in &comparison.sides {
        table.add_row(row(figures));
    }
    let mut out = format!("{}\n{}\n\n{table}\n\n", comparison.job, conditions(comparison));
    for sentence in sentences(comparison) {
        out += &sentence;
        out.push('\n');
    }
    out
}

/// Under what it was compared, in a line.
pub(crate) fn conditions(comparison: &Comparison) -> String {
    let mut parts = vec![match comparison.memory_bytes {
        Some(bytes) => format!("{} of memory for each run, foretell's own included", human_bytes(bytes)),
        None => "memory not limited".to_owned(),
    }];
    parts.push(if comparison.cold { "cold".to_owned() } else { "warm".to_owned() });
    if !comparison.devices.is_empty() {
        let setting = comparison.read_ahead_kb.map(|kb| format!(" (read_ahead_kb {kb})")).unwrap_or_default();
        parts.push(format!("on {}{setting}", comparison.devices.join(", ")));
    }
    parts.join(", ")
}

/// The cells of one side.
pub(crate) fn row(figures: &Figures) -> [String; 8] {
    let middle = |span: Option<Span>, said: fn(u64) -> String| {
        span.map_or_else(String::new, |span| said(span.median.round() as u64))
    };
    let Span { least, median, most } = figures.elapsed_s;
    let codes: Vec<String> = figures.exit_codes.iter().map(u8::to_string).collect();
    [
        figures.name.clone(),
        seconds(median),
        format!("{} – {}", seconds(least), seconds(most)),
        middle(figures.read_bytes, human_bytes),
        middle(figures.requests, thousands),
        middle(figures.peak_bytes, human_bytes),
        codes.join(", "),
        figures.faster.map_or_else(String::new, |faster| times(&faster)),
    ]
}

fn times(faster: &Faster) -> String {
    match faster.interval {
        Some((low, high)) => format!("{:.2} ({low:.2} – {high:.2})", faster.times),
        None => format!("{:.2}", faster.times),
    }
}

/// What the table does not say.
pub(crate) fn sentences(comparison: &Comparison) -> Vec<String> {
    let mut out = Vec::new();
    let ours = comparison.sides.iter().find(|figures| figures.side == Side::Foretell);
    if let Some(ours) = ours {
        out.push(verdict(comparison, ours));
        let (steered, runs) = (ours.steered, ours.runs);
        let why = comparison.runs.iter().filter(|run| run.side == Side::Foretell);
        let why = why.filter(|run| run.how != Some(foretell_learn::How::Steered));
        let why = why.filter_map(|run| run.why.as_deref()).next_back().unwrap_or("it did not pay");
        out.push(match steered {
            0 => format!("foretell steered none of its {runs} runs ({why})."),
            _ if steered == runs => format!("foretell steered all of its {runs} runs."),
            _ => format!("foretell steered {steered} of its {runs} runs, the last other one not: {why}."),
        });
    }
    if let Some(night) = &comparison.learning {
        let waited = night.wait_s.map(|s| format!(" and waited {} for storage", seconds(s)));
        out.push(format!(
            "The night on which it learnt took {}{}.",
            seconds(night.elapsed_s),
            waited.unwrap_or_default()
        ));
    }
    for (what, agreement) in [("output", comparison.output), ("exit code", comparison.exit_codes)] {
        out.push(match agreement {
            Agreement::Same => format!("The {what} was the same in all runs."),
            Agreement::DiffersAnyway => {
                format!("The {what} differs from run to run without foretell, too.")
            }
            Agreement::Differs => format!("THE {} DIFFERS UNDER FORETELL.", what.to_uppercase()),
            Agreement::Unknown => format!("The {what} was not seen to its end in all runs."),
        });
    }
    if ours.is_some_and(|ours| ours.faster.is_some_and(|faster| faster.interval.is_some())) {
        out.push("In brackets: where the true value lies with 95% confidence.".to_owned());
    }
    out
}

/// One sentence for somebody who reads no tables.
fn verdict(comparison: &Comparison, ours: &Figures) -> String {
    let Some(faster) = ours.faster else { return "There is nothing to compare.".to_owned() };
    let certain = |faster: &Faster| faster.interval.is_none_or(|(low, high)| low > 1.0 || high < 1.0);
    let best = comparison.sides.iter().filter(|figures| matches!(figures.side, Side::ReadAhead(_)));
    let best = best.min_by(|a, b| a.elapsed_s.median.total_cmp(&b.elapsed_s.median));
    let against = best.filter(|best| best.elapsed_s.median > 0.0).map(|best| {
        let ratio = best.elapsed_s.median / ours.elapsed_s.median;
        format!(", and {ratio:.2} times as fast as the best tuned kernel ({})", best.name)
    });
    let against = against.unwrap_or_default();
    match faster.times {
        _ if !certain(&faster) => {
            let medians =
                "The medians differ, but no difference between foretell and the kernel is certain yet";
            format!("{medians}: more --rounds tell more.")
        }
        times if times > 1.0 => format!("With foretell the job is {times:.2} times as fast{against}."),
        times => {
            let slower = 100.0 * (1.0 / times - 1.0);
            format!("With foretell the job is {slower:.0}% slower{against}.")
        }
    }
}

/// A time as people read it.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s >= 60.0 => format!("{} min {:.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s if s >= 10.0 => format!("{s:.1} s"),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_read_them() {
        assert_eq!([0.1234, 9.5, 12.34, 351.0].map(seconds), ["0.12 s", "9.50 s", "12.3 s", "5 min 51 s"]);
    }
}
