//! The report at the end of a run: lines that line up, only what is worth reading.
//!
//! ```text
//! foretell: 12.3 s, of which 4.5 s waiting for reads; foretell itself used 0.20 s of CPU
//!   budget             64.0 MiB   8192 blocks of 8 KiB
//!   references           51,200   blocks read by the program
//!   hits                 10,240   20.0%: found in the cache
//!   demand fetches       40,960   the program waited for these
//!   device reads        320 MiB
//!   distance from best    1.02x   40,960 fetches; optimal replacement would have made 40,157
//! ```

use std::fmt::Write;

use foretell_learn::is_worth_steering;

use crate::size::{Size, human_bytes};
use crate::stats::{Counters, Stats};
use crate::watch::figures::printable;

/// Processes and files named one by one, those with the most fetches.
const TOP: usize = 5;
/// Width of the names on the left.
const LABEL_CHARS: usize = 20;
/// Width of the figures.
const FIGURE_CHARS: usize = 12;

/// The report of a run, for a terminal; ends with a newline.
#[must_use]
pub fn render(stats: &Stats) -> String {
    let mut out = String::new();
    let counts = &stats.counts;
    let _ = writeln!(
        out,
        "foretell: {}, of which {} waiting for reads; foretell itself used {} of CPU",
        seconds(stats.elapsed_s),
        seconds(stats.wait_s),
        seconds(stats.daemon_cpu_s)
    );
    if let Some(why) = &stats.uncontrolled_because {
        let _ = writeln!(out, "  not controlled all the time: {why}");
    }
    if let Some(chosen) = &stats.chosen {
        let _ = writeln!(out, "  chosen: {chosen}");
    }
    let mut line = |label: &str, figure: String, what: String| {
        let text = format!("  {label:<LABEL_CHARS$}{figure:>FIGURE_CHARS$}   {what}");
        let _ = writeln!(out, "{}", text.trim_end());
    };
    let block = Size::Bytes(stats.block_bytes.into());
    let blocks = stats.budget_bytes.checked_div(stats.block_bytes.into()).unwrap_or(0);
    if stats.budget_bytes > 0 {
        line("budget", human_bytes(stats.budget_bytes), format!("{} blocks of {block}", thousands(blocks)));
        line("references", thousands(counts.references), "blocks that the program read".into());
    } else {
        line("references", thousands(counts.references), format!("blocks of {block} that the program read"));
    }
    let mut count = |label: &str, value: u64, what: String| {
        if value > 0 {
            line(label, thousands(value), what);
        }
    };
    count("hits", counts.hits, format!("{} found in the cache", percent(counts.hits, counts.references)));
    count("demand fetches", counts.demand_fetches, "read when the program asked for them".into());
    count("prefetches", counts.prefetches, prefetches(counts));
    count("evictions", counts.evictions, "dropped because the policy said so".into());
    count("evictions refused", counts.evictions_refused, "the kernel kept these blocks".into());
    count("foreign evictions", counts.foreign_evictions, "dropped by the kernel without our asking".into());
    count("lost events", stats.lost_events, "not seen; the books were corrected afterwards".into());
    count("hints skipped", stats.hints_skipped, "could not be followed".into());
    line("device reads", human_bytes(stats.device_read_bytes), String::new());
    match (stats.belady_fetches, &stats.belady_missing) {
        (Some(best), _) => {
            let ratio = match (counts.fetches(), best) {
                (0, 0) => "1.00x".to_owned(),
                (_, 0) => "-".to_owned(),
                (fetches, best) => format!("{:.2}x", fetches as f64 / best as f64),
            };
            let fetches = thousands(counts.fetches());
            let best = thousands(best);
            let cached = if counts.fetches() < stats.belady_fetches.unwrap_or(0) {
                "; some blocks were cached before the start"
            } else {
                ""
            };
            line(
                "distance from best",
                ratio,
                format!("{fetches} fetches; optimal replacement: {best}{cached}"),
            );
        }
        (None, Some(why)) => line("distance from best", "-".into(), why.clone()),
        (None, None) => {}
    }
    let processes = stats.processes.iter().map(|p| {
        let pid = p.pid.map_or(String::new(), |pid| format!(" ({pid})"));
        (format!("{}{pid}", printable(&p.name)), p.counts)
    });
    top(&mut out, "process", processes.collect());
    let files = stats.files.iter().map(|f| (printable(&f.path.to_string_lossy()), f.counts));
    top(&mut out, "file", files.collect());
    if stats.watched {
        let _ = writeln!(out, "  nothing was changed; {}", what_would_help(stats));
    }
    out
}

/// What is worth trying for a program that was only watched.
fn what_would_help(stats: &Stats) -> &'static str {
    if is_worth_steering(stats.elapsed_s, stats.wait_s) {
        "'foretell learn -- PROGRAM' fetches ahead what it reads, from its second run on; \
         --record FILE and 'foretell advise FILE' say what else would help"
    } else {
        "it waits too little for storage to be made faster"
    }
}

/// The few with the most fetches, when there is more than one and anything was fetched.
fn top(out: &mut String, what: &str, mut all: Vec<(String, Counters)>) {
    all.retain(|(_, counts)| counts.references + counts.fetches() > 0);
    if all.len() < 2 || all.iter().all(|(_, counts)| counts.fetches() == 0) {
        return;
    }
    // Stable: equals stay in order of appearance.
    all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.fetches()));
    let shown = all.len().min(TOP);
    let _ = writeln!(out, "  by {what}{:>1$}   hits", "fetches", LABEL_CHARS + FIGURE_CHARS - 3 - what.len());
    for (name, counts) in &all[..shown] {
        let figure = thousands(counts.fetches());
        let width = LABEL_CHARS + FIGURE_CHARS;
        let hits = percent(counts.hits, counts.references);
        let _ = writeln!(out, "  {figure:>width$}   {hits:>6}  {name}");
    }
    if all.len() > shown {
        let _ = writeln!(out, "  {:>1$}   and {2} more", "", LABEL_CHARS + FIGURE_CHARS, all.len() - shown);
    }
}

fn prefetches(counts: &Counters) -> String {
    let parts = [
        (counts.prefetches_useful, "in time"),
        (counts.prefetches_late, "late"),
        (counts.prefetches_wasted, "wasted"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", thousands(*n)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { "read ahead".to_owned() } else { format!("read ahead: {parts}") }
}

/// Seconds with about three digits.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 99.95 => format!("{s:.0} s"),
        s if s >= 9.995 => format!("{s:.1} s"),
        s => format!("{s:.2} s"),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

/// Digits in groups of three.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_pagecache::FileReport;

    fn stats() -> Stats {
        let counts =
            Counters { references: 51_200, hits: 10_240, demand_fetches: 40_960, ..Counters::default() };
        Stats {
            controlled: true,
            elapsed_s: 12.34,
            wait_s: 4.5,
            daemon_cpu_s: 0.2,
            budget_bytes: 64 << 20,
            block_bytes: 8192,
            counts,
            device_read_bytes: 320 << 20,
            belady_fetches: Some(40_157),
            ..Stats::default()
        }
    }

    #[test]
    fn the_report_lines_up_and_leaves_zeros_out() {
        assert_eq!(
            render(&stats()),
            "\
foretell: 12.3 s, of which 4.50 s waiting for reads; foretell itself used 0.20 s of CPU
  budget                  64.0 MiB   8,192 blocks of 8K
  references                51,200   blocks that the program read
  hits                      10,240   20.0% found in the cache
  demand fetches            40,960   read when the program asked for them
  device reads             320 MiB
  distance from best         1.02x   40,960 fetches; optimal replacement: 40,157
"
        );
    }

    #[test]
    fn what_was_only_watched_has_no_budget_and_ends_with_what_would_help() {
        let watched = Stats {
            controlled: false,
            watched: true,
            budget_bytes: 0,
            belady_fetches: None,
            elapsed_s: 6.0,
            ..stats()
        };
        let text = render(&watched);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  references                51,200   blocks of 8K that the program read");
        assert!(lines.last().unwrap().starts_with("  nothing was changed; 'foretell learn"), "{text}");
        assert!(!text.contains("budget") && !text.contains("distance"), "{text}");
        let quick = render(&Stats { wait_s: 0.9, ..watched });
        assert!(
            quick.ends_with("  nothing was changed; it waits too little for storage to be made faster\n")
        );
    }

    #[test]
    fn files_are_ranked_by_fetches() {
        let file = |name: &str, demand_fetches| FileReport {
            path: name.into(),
            counts: Counters { references: 10, hits: 5, demand_fetches, ..Counters::default() },
        };
        let files = (0..7).map(|i| file(&format!("/f{i}"), i)).collect();
        let text = render(&Stats { files, ..stats() });
        let tail: Vec<_> = text.lines().skip(7).collect();
        assert_eq!(tail[0], "  by file                  fetches   hits");
        assert_eq!(tail[1], "                                 6    50.0%  /f6");
        assert_eq!(tail[6], "                                     and 2 more");
    }

    #[test]
    fn digits_come_in_threes() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        cases.iter().for_each(|(n, text)| assert_eq!(thousands(*n), *text));
    }
}
