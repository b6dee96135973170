//! A sweep as one self-contained page: no scripts, nothing loaded from elsewhere, light and dark.

use std::collections::BTreeMap;
use std::fmt::Write;

use foretell_sim::Outcome;

use super::table::over;
use super::{baseline, chart, seconds};
use crate::report::thousands;

pub(crate) const STYLE: &str = include_str!("page.css");

/// Text inside an element or an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}

/// Results by number of disks, and by blocks of the cache where there is more than one size.
type Arrays<'a> = BTreeMap<(u16, Option<u32>), Vec<&'a Outcome>>;

/// The page for the results of one sweep; `command` is what made it.
#[must_use]
pub fn page(outcomes: &[Outcome], command: &str) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let one_cache = outcomes.iter().all(|o| o.cache_blocks == first.cache_blocks);
    let mut arrays = Arrays::new();
    for o in outcomes {
        let cache = (!one_cache).then_some(o.cache_blocks);
        arrays.entry((o.disks, cache)).or_default().push(o);
    }
    let title = escape(&first.workload);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}: foretell sim</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    let _ = write!(
        out,
        "<header>\n<p class=\"kind\">foretell sim</p>\n<h1>{title}</h1>\n{}",
        facts(first, one_cache)
    );
    if first.model {
        out += "<p class=\"note\">This workload is a model: its totals are published, the order of its \
                references is a guess from a description.</p>\n";
    }
    out += "</header>\n";
    out += &findings(&arrays);
    out += &charts(&arrays);
    out += &table(outcomes);
    let _ = write!(
        out,
        "<footer><p>{}</p>\n<pre>{}</pre>\n<p>foretell {}</p></footer>\n</main>\n</body>\n</html>\n",
        what_the_times_are(first.processors),
        escape(command),
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// What elapsed time consists of, and the lower bound.
fn what_the_times_are(processors: u16) -> String {
    let bound = "compute time plus the driver time of the fewest possible fetches";
    match processors {
        1 => format!(
            "Elapsed time is compute, driver and stall time, and nothing else. The lower bound is {bound}."
        ),
        n => format!(
            "Compute, driver and stall time are those of {n} processors together: {n} times the elapsed time, and \
             nothing else. The bars show their means over the processors. The lower bound is {bound}, divided by {n}."
        ),
    }
}

/// What all results share.
fn facts(o: &Outcome, one_cache: bool) -> String {
    let mut facts = vec![("references", thousands(o.references))];
    if let Some(distinct) = o.distinct_blocks {
        facts.push(("distinct blocks", thousands(distinct)));
    }
    if one_cache {
        facts.push(("cache", format!("{} blocks", thousands(o.cache_blocks.into()))));
    }
    facts.push(("device", o.device.clone()));
    facts.push(("schedule", o.schedule.clone()));
    if o.processors > 1 {
        facts.push(("processors", o.processors.to_string()));
    }
    facts.push(("compute", format!("{} s", seconds(o.compute_s))));
    if let Some(fetches) = o.demand_opt_fetches.filter(|_| one_cache) {
        facts.push(("fewest fetches", thousands(fetches)));
    }
    if let Some(bound) = o.lower_bound_s.filter(|_| one_cache) {
        facts.push(("lower bound", format!("{} s", seconds(bound))));
    }
    facts.push(("seed", o.seed.to_string()));
    let mut out = "<dl class=\"facts\">\n".to_owned();
    for (name, value) in facts {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    out + "</dl>\n"
}

/// The fastest policy of each array, in words.
fn findings(arrays: &Arrays<'_>) -> String {
    let mut out = "<section>\n<h2>Fastest</h2>\n<ul class=\"findings\">\n".to_owned();
    for (array, outcomes) in arrays {
        let Some(best) = outcomes.iter().min_by_key(|o| o.elapsed_ns) else { continue };
        let slowest = outcomes.iter().max_by_key(|o| o.elapsed_ns).filter(|s| s.elapsed_ns > best.elapsed_ns);
        let (name, time) = (array_name(*array), seconds(best.elapsed_s));
        let _ = write!(out, "<li><strong>{name}</strong><span>{} in {time} s", best.policy);
        if let Some(bound) = best.lower_bound_s.filter(|b| *b > 0.0) {
            let percent = 100.0 * (best.elapsed_s / bound - 1.0);
            let _ = write!(out, ", {percent:.1}% over the lower bound");
        }
        if let Some(ratio) = best.vs_linux {
            let _ = write!(out, ", {ratio:.2} of Linux");
        }
        if let Some(slowest) = slowest {
            let times = slowest.elapsed_s / best.elapsed_s;
            let _ = write!(out, "; {} takes {times:.2} times as long", slowest.policy);
        }
        out += "</span>";
        out += "</li>\n";
    }
    out + "</ul>\n</section>\n"
}

fn array_name((disks, cache_blocks): (u16, Option<u32>)) -> String {
    let disks = if disks == 1 { "1 disk".to_owned() } else { format!("{disks} disks") };
    match cache_blocks {
        Some(blocks) => format!("{disks}, {} blocks", thousands(blocks.into())),
        None => disks,
    }
}

fn charts(arrays: &Arrays<'_>) -> String {
    let longest = arrays.values().flatten().map(|o| o.elapsed_s).fold(0.0, f64::max);
    let mut out = "<section>\n<h2>Elapsed time in seconds</h2>\n<p class=\"legend\">\
                   <span class=\"key compute\"></span>compute <span class=\"key driver\"></span>driver \
                   <span class=\"key stall\"></span>stall"
        .to_owned();
    if arrays.values().flatten().any(|o| o.lower_bound_s.is_some()) {
        out += " <span class=\"key bound\"></span>lower bound";
    }
    out += "</p>\n<div class=\"panels\">\n";
    for (array, outcomes) in arrays {
        let panel = chart::panel(outcomes, longest);
        let _ = write!(out, "<figure><figcaption>{}</figcaption>\n{panel}</figure>\n", array_name(*array));
    }
    out + "</div>\n</section>\n"
}

fn table(outcomes: &[Outcome]) -> String {
    const HEADINGS: [&str; 16] = [
        "disks",
        "cache",
        "policy",
        "batch",
        "elapsed s",
        "vs Linux",
        "compute s",
        "driver s",
        "stall s",
        "over bound",
        "fetches",
        "over fewest",
        "wasted",
        "late",
        "fetch ms",
        "disks busy",
    ];
    let mut out = "<section>\n<h2>Figures</h2>\n<div class=\"scroll\"><table>\n<thead><tr>".to_owned();
    for heading in HEADINGS {
        let _ = write!(out, "<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    let mut before = None;
    for o in outcomes {
        let array = (o.disks, o.cache_blocks);
        let class = if before.replace(array).is_some_and(|b| b != array) { " class=\"first\"" } else { "" };
        let cells = [
            o.disks.to_string(),
            thousands(o.cache_blocks.into()),
            o.policy.to_string(),
            o.batch.to_string(),
            seconds(o.elapsed_s),
            baseline::ratio(o),
            seconds(o.compute_s),
            seconds(o.driver_s),
            seconds(o.stall_s),
            over(o.elapsed_s, o.lower_bound_s),
            thousands(o.fetches),
            over(o.fetches as f64, o.demand_opt_fetches.map(|f| f as f64)),
            thousands(o.wasted_fetches),
            thousands(o.late_fetches),
            format!("{:.2}", o.mean_fetch_ms),
            format!("{:.0}%", 100.0 * o.utilization),
        ];
        let _ = write!(out, "<tr{class}>");
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}
