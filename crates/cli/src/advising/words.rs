//! Advice in plain words.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::forecast::READ_AHEAD_KB;
use super::verdict::with;
use super::{Advice, Verdict};
use crate::comparing::words::seconds;
use crate::report::thousands;
use crate::size::human_bytes;

/// Characters of a path that are shown: its end.
const PATH_CHARS: usize = 48;

/// The advice on one job.
pub(crate) fn report(advice: &Advice) -> String {
    let Advice { name, elapsed_s, wait_s, profile, .. } = advice;
    let mut out = format!(
        "{name}: takes {} by itself and waits {} of that for storage ({})",
        seconds(*elapsed_s),
        seconds(*wait_s),
        percent(wait_s / elapsed_s.max(1e-9)),
    );
    if let Some(steered_s) = advice.steered_s {
        out += &format!("; steered it took {}", seconds(steered_s));
    }
    out += &format!(
        "\nIt reads {} in {} files, {} with what is read again; {} came from devices.\n\n",
        human_bytes(profile.distinct_bytes),
        thousands(profile.file_count as u64),
        human_bytes(profile.read_bytes),
        human_bytes(profile.device_bytes)
    );
    let some = |bytes: &u64| *bytes as f64 >= 0.01 * profile.read_bytes as f64;
    let patterns = profile.by_pattern.iter().filter(|(_, bytes)| some(bytes));
    let patterns: Vec<String> = patterns
        .map(|(pattern, bytes)| {
            format!("{} {}", percent(*bytes as f64 / profile.read_bytes.max(1) as f64), pattern.said())
        })
        .collect();
    if !patterns.is_empty() {
        out += &format!("How it reads: {}.\n\n{}\n\n", patterns.join("; "), files(advice));
    }
    if !advice.forecast.is_empty() {
        out += &format!("What it would take, reckoned for {}:\n\n{}\n\n", advice.device, forecast(advice));
        if let Some(enough) = advice.enough_bytes {
            out += &format!("Nine tenths of the gain need {} of memory", human_bytes(enough));
            out += &advice
                .free_bytes
                .map(|free| format!("; {} are free now", human_bytes(free)))
                .unwrap_or_default();
            out += ".\n";
        }
    }
    out + &advice.said + "\n"
}

fn files(advice: &Advice) -> Table {
    let mut table = plain(["file", "read", "of it new", "waited", "how"]);
    for file in &advice.profile.files {
        table.add_row([
            end_of(&file.path.to_string_lossy()),
            human_bytes(file.read_bytes),
            human_bytes(file.distinct_bytes),
            seconds(file.wait_s),
            file.pattern.said().to_owned(),
        ]);
    }
    let rest = advice.profile.file_count - advice.profile.files.len();
    if rest > 0 {
        let shown: u64 = advice.profile.files.iter().map(|file| file.read_bytes).sum();
        table.add_row([
            format!("{} more files", thousands(rest as u64)),
            human_bytes(advice.profile.read_bytes - shown),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    align(&mut table, 1..4);
    table
}

fn forecast(advice: &Advice) -> Table {
    let tuned = READ_AHEAD_KB.map(|kb| format!("read_ahead_kb {kb}"));
    let mut table = plain(["memory", "kernel", &tuned[0], &tuned[1], "foretell", "best possible"]);
    for at in &advice.forecast {
        let times =
            [at.kernel_s, at.tuned_s[0], at.tuned_s[1], at.foretell_s, at.best_s].map(seconds).into_iter();
        table.add_row([human_bytes(at.memory_bytes)].into_iter().chain(times));
    }
    align(&mut table, 0..6);
    table
}

/// One row for each of many jobs.
pub(crate) fn list(all: &[Advice]) -> String {
    let mut table = plain(["job", "by itself", "waits", "advice"]);
    for advice in all {
        let waits = percent(advice.wait_s / advice.elapsed_s.max(1e-9));
        table.add_row([&advice.name, &seconds(advice.elapsed_s), &waits, &advice.said]);
    }
    align(&mut table, 1..3);
    format!("{table}\n")
}

/// What to do, in a sentence.
pub(crate) fn verdict(advice: &Advice) -> String {
    match advice.verdict {
        Verdict::Fits => "Nothing to gain, because what it reads was in memory already.".to_owned(),
        Verdict::Computes => format!(
            "Nothing to gain, because it waits too little for storage: {} of {}.",
            seconds(advice.wait_s),
            seconds(advice.elapsed_s)
        ),
        Verdict::NoGain => {
            "Nothing to gain, because nobody could fetch what it reads much earlier than the kernel does."
                .to_owned()
        }
        Verdict::Tune { read_ahead_kb, times } => format!(
            "Set read_ahead_kb of its device to {read_ahead_kb}: {times:.1} times as fast, as good as foretell would be."
        ),
        Verdict::Learn { times } => {
            let memory = with(&advice.forecast, advice.free_bytes).map(|at| human_bytes(at.memory_bytes));
            format!(
                "Put 'foretell learn --' before it: about {times:.1} times as fast with {} of memory.",
                memory.unwrap_or_default()
            )
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

fn end_of(path: &str) -> String {
    let count = path.chars().count();
    match count > PATH_CHARS {
        true => format!("…{}", path.chars().skip(count - PATH_CHARS + 1).collect::<String>()),
        false => path.to_owned(),
    }
}

fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn align(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in table.column_iter_mut().filter(|column| columns.contains(&column.index)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
