//! What is said of a night: three lines, and the same for machines.

use foretell_learn::{How, Names, Night, by_itself, usual_exit_code};
use serde::Serialize;

use super::guessing::Guessed;
use super::{Done, Planned};
use crate::size::human_bytes;
use crate::stats::Stats;

/// The report for a person: what was done and why, what came of it, what is next.
#[must_use]
pub fn report(done: &Done) -> String {
    let Done { name, night, before, why, .. } = done;
    let number = before.len() + 1;
    let why = if done.is_unlearnt { String::new() } else { format!(": {why}") };
    let mut lines = vec![format!("foretell: night {number} of '{name}', {}{why}", night.how)];
    let mut took = format!("  it took {}", seconds(night.elapsed_s));
    if let Some(plain) = by_itself(before.iter(), night.read_bytes).filter(|_| night.how == How::Steered) {
        took += &format!(", by itself {}", seconds(plain));
    }
    if let Some(wait_s) = night.wait_s {
        // Threads that wait beside each other each count.
        let who = if wait_s > night.elapsed_s { "all its threads together " } else { "" };
        took += &format!("; {who}waited {} for storage", seconds(wait_s));
    }
    if let Some(saved_s) = night.saved_s {
        took += &format!(", and some {} less as what it came to was guessed", seconds(saved_s));
    }
    took += &format!(", read {}", human_bytes(night.read_bytes));
    lines.push(took);
    if let Some(stats) = &done.stats {
        lines.push(format!("  {}", steering(stats, night, done.planned)));
    } else if done.is_known {
        lines.push("  it is known now what the job reads; the next night is steered if that pays".to_owned());
    } else if night.how == How::Watched && night.wait_s.is_none() {
        lines.push("  it was over before it could be watched".to_owned());
    } else if let Some(usual) = usual_exit_code(before).filter(|usual| *usual != night.exit_code)
        && night.how == How::Watched
    {
        lines.push(format!("  nothing is learnt from it: the job usually ends with exit code {usual}"));
    }
    lines.join("\n") + "\n"
}

fn steering(stats: &Stats, night: &Night, planned: Option<Planned>) -> String {
    let mut parts = vec![format!("fetched {} blocks ahead", stats.counts.prefetches)];
    if let Some(predicted) = night.predicted {
        parts.push(format!("{:.0}% of what was read had been predicted", 100.0 * predicted));
    }
    // What was cached already is fetched by nobody, and on a night of another job little is compared at all.
    let fetches = stats.counts.prefetches + stats.counts.demand_fetches;
    let comparable = |optimum: &u64| *optimum > 0 && fetches >= *optimum && night.predicted > Some(0.5);
    if let Some(optimum) = stats.belady_fetches.filter(comparable) {
        let more = 100.0 * (fetches as f64 / optimum as f64 - 1.0);
        parts.push(format!("{more:+.1}% against the fewest fetches possible"));
    }
    if let Some(budget) = night.budget_bytes {
        parts.push(format!("{} of memory", human_bytes(budget)));
    }
    if let Some(Planned { names: Names { renamed, missing }, .. }) = planned {
        if renamed > 0 {
            parts.push(format!("{renamed} files under another name"));
        }
        if missing > 0 {
            parts.push(format!("{missing} files gone"));
        }
    }
    parts.join(", ")
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2} s") } else { format!("{seconds:.1} s") }
}

/// The same as JSON.
#[derive(Debug, Serialize)]
pub struct Told<'a> {
    /// The job.
    pub job: &'a str,
    /// How many-th night it was.
    pub night_number: usize,
    /// Why it was alone, watched or steered.
    pub why: &'a str,
    /// The night.
    #[serde(flatten)]
    pub night: &'a Night,
    /// What was guessed of a watched night.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guesses: Option<Guessed>,
    /// Distinct bytes that the plan named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_bytes: Option<u64>,
    /// What the plane did on a steered night.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steering: Option<&'a Stats>,
}

impl<'a> Told<'a> {
    /// Everything that is known of a night.
    #[must_use]
    pub fn new(done: &'a Done) -> Told<'a> {
        Told {
            job: &done.name,
            night_number: done.before.len() + 1,
            why: &done.why,
            night: &done.night,
            guesses: done.guesses,
            planned_bytes: done.planned.map(|planned| planned.distinct_bytes),
            steering: done.stats.as_ref(),
        }
    }
}
