//! A job that runs again and again: watched, then steered by what was seen.
//!
//! ```text
//!  commands/learn ──► name ──► Store ──► tonight? ──┬─ alone ─────────────────────────────┐
//!                                                   ├─ watched: Watcher ──► recording ────┤──► night, three lines
//!                                                   └─ steered: Plan ──► Guide: Plane ────┘
//! ```
//!
//! **The job comes first.** Whatever fails on our side, before it begins or while it runs, costs one line on standard
//! error, and the job runs on the kernel alone. Nothing of ours lies between the job and its files.

mod alone;
mod guessing;
mod name;
mod patience;
mod start;
mod steered;
mod watched;
pub mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Instant, SystemTime};

use anyhow::Result;
use foretell_learn::{
    How, Job, Means, Names, Night, Plan, Store, StoreError, Tonight, WATCHING_BYTES, by_itself, memory,
    needs_all_memory, tonight, usual_exit_code, without_plan,
};
use foretell_recording::{Access, ReadError, Recording};

use self::guessing::Guessed;
use self::patience::Patience;
use crate::kept::Left;
use crate::stats::Stats;
use crate::terminal::warn;

pub use alone::Wanted;
use alone::{Ran, alone};
pub use name::job_name;

/// A recording may take one part of the memory in so many while a plan is made of it; a longer one is not read.
const MEMORY_SHARE: u64 = 8;
/// Bytes of an access in memory.
const ACCESS_BYTES: u64 = size_of::<Access>() as u64;

/// What a night was like, and what is to be said of it.
#[derive(Debug)]
pub struct Done {
    /// The job's name.
    pub name: String,
    /// How the job ended.
    pub code: u8,
    /// The night.
    pub night: Night,
    /// Those before, the oldest first.
    pub before: Vec<Night>,
    /// Why it was alone, watched or steered.
    pub why: String,
    /// What was planned, of a steered night.
    pub planned: Option<Planned>,
    /// The counts of a steered night.
    pub stats: Option<Stats>,
    /// What was guessed of a watched one, if anything was.
    pub guesses: Option<Guessed>,
    /// The night was watched, and what the job has read is known now.
    pub is_known: bool,
    /// Nothing can be learnt from it, which has been said with its reason.
    pub is_unlearnt: bool,
}

/// What a plan says, without its lists.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// Distinct bytes that will be read.
    pub distinct_bytes: u64,
    /// How many lists.
    pub lists: usize,
    /// How their files were found.
    pub names: Names,
}

/// Runs the job, learns from it, and keeps what was learnt.
///
/// # Errors
/// When the program could not be started. What fails on our side is said, and the job runs alone.
pub fn run(wanted: &Wanted) -> Result<Done> {
    let began = Instant::now();
    let began_s = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let job = known(wanted);
    let before = job.as_ref().map(nights).unwrap_or_default();
    // A defect of ours must not become one of the job's.
    let decided = catch_unwind(AssertUnwindSafe(|| decide(wanted, job.as_ref(), &before)));
    let (how, why, plan) = decided.unwrap_or_else(|_| (How::Alone, "a defect of foretell".to_owned(), None));
    let planned = plan.as_ref().map(|plan| Planned {
        distinct_bytes: plan.distinct_bytes,
        lists: plan.lists.lists.len(),
        names: Names::default(),
    });
    let budget_bytes = plan.as_ref().map(|plan| plan.budget_bytes);
    // A night that ends as the job usually does replaces the recording.
    let usual = usual_exit_code(&before);
    let counts = move |code: u8| usual.is_none_or(|usual| usual == code);
    let recording = job.as_ref().map(Job::recording);
    let ran = match (how, plan, recording) {
        (How::Steered, Some(plan), Some(recording)) => {
            // Of a steered night the recording does not tell how far the job comes by itself. It is of the last night that
            // was watched or steered and ended as usual.
            let recorded = |night: &&Night| night.how != How::Alone && counts(night.exit_code);
            let plain = before.iter().rev().find(recorded).is_some_and(|night| night.how == How::Watched);
            let pace = plan.pace.clone().filter(|_| plain);
            let by_itself_s = by_itself(before.iter(), plan.distinct_bytes);
            let patience = Patience::new(by_itself_s, plan.lists.references, pace, plan.movement_ns > 0);
            steered::steered(wanted, &plan, &recording, counts, patience)?
        }
        (How::Watched, _, Some(recording)) => watched::watched(wanted, &recording, counts)?,
        (_, _, recording) => {
            // Where nothing is remembered it is not remembered by who stays either.
            let has_no_room = memory::free_bytes().is_some_and(|free| free < WATCHING_BYTES);
            if recording.is_some() && (has_no_room || was_short(&before)) {
                wanted.line.leave(&why, How::Alone);
            }
            alone(wanted)?
        }
    };
    Ok(Known { job, before, why }.remember(wanted, ran, (began, began_s), (planned, budget_bytes)))
}

/// Why a job is to have no process of ours beside it tonight, if that is so. It is noted.
pub(crate) fn is_to_be_left_alone(store: &Store, name: &str) -> Option<String> {
    let usable_bytes = memory::usable_bytes()?;
    let why = needs_all_memory(&store.look(name).ok()?.nights().ok()?, usable_bytes)?;
    if let Err(error) = store.begin(name).and_then(|job| job.leave_alone()) {
        warn(&format!("this night is not remembered: {error}"));
    }
    Some(why)
}

/// Goes on where who has worked for the job has left: runs the job if it has not run, and keeps what is known of the night.
///
/// # Errors
/// When the program could not be started.
pub(crate) fn run_to_the_end(wanted: &Wanted, left: Left, began: Instant) -> Result<Done> {
    let began_s = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let began = if left.has_run() { began } else { Instant::now() };
    let began_s = began_s.saturating_sub(began.elapsed().as_secs());
    let why = left.why.clone();
    let did = left.did;
    let code = left.run(&wanted.program, &wanted.arguments)?;
    let job = known(wanted);
    let before = job.as_ref().map(nights).unwrap_or_default();
    // Of a watched night nothing is known that was not seen to its end.
    let how = if did == How::Steered { How::Steered } else { How::Alone };
    let was_compared = did == How::Alone && was_short(&before);
    let short_bytes = memory::usable_bytes().filter(|_| !was_compared);
    let ran = Ran { short_bytes, ..Ran::unseen(how, code, began.elapsed()) };
    Ok(Known { job, before, why }.remember(wanted, ran, (began, began_s), (None, None)))
}

/// Was the last night one on which the job needed all the memory?
fn was_short(before: &[Night]) -> bool {
    before.last().is_some_and(|night| night.short_bytes.is_some())
}

/// What is known of a job before a night, and why it was done tonight what was done.
struct Known {
    job: Option<Job>,
    before: Vec<Night>,
    why: String,
}

impl Known {
    /// Keeps what a night was like that began at this time, also in seconds since 1970; with what was planned, and the memory
    /// for it, bytes.
    fn remember(
        self,
        wanted: &Wanted,
        ran: Ran,
        (began, began_s): (Instant, u64),
        (planned, budget_bytes): (Option<Planned>, Option<u64>),
    ) -> Done {
        let Known { job, before, why } = self;
        let used = foretell_pagecache::children_usage();
        let planned = planned.map(|planned| Planned { names: ran.names, ..planned });
        let (stats, guesses, is_known) = (ran.stats, ran.guesses, ran.is_known);
        let counts = stats.as_ref().map(|stats| stats.counts);
        let night = Night {
            began_s,
            how: ran.how,
            // What we take to begin and to end is part of what steering costs.
            elapsed_s: if ran.how == How::Steered { began.elapsed() } else { ran.elapsed }.as_secs_f64(),
            wait_s: ran.wait_ns.map(|ns| ns as f64 / 1e9),
            file_wait_s: ran.file_wait_ns.map(|ns| ns as f64 / 1e9),
            saved_s: ran.guesses.map(Guessed::saved_s),
            at_full_rate_s: ran.guesses.map(Guessed::at_full_rate_s).filter(|&wait_s| wait_s > 0.0),
            threads_waiting: ran.threads_waiting,
            busy_s: Some(used.processor.as_secs_f64() / foretell_learn::processors() as f64),
            read_bytes: ran.read_bytes.unwrap_or(used.read_bytes),
            resident_bytes: used.resident_bytes,
            files: ran.files,
            memory_bytes: ran.memory_bytes,
            short_bytes: ran.short_bytes,
            left_alone: 0,
            exit_code: ran.code,
            budget_bytes: budget_bytes.filter(|_| ran.how == How::Steered),
            prefetched: counts.map(|counts| counts.prefetches),
            predicted: ran.predicted,
        };
        if let Some(job) = &job
            && let Err(error) = job.add(night.clone())
        {
            warn(&format!("this night is not remembered: {error}"));
        }
        let (name, code, is_unlearnt) = (wanted.name.clone(), ran.code, job.is_none());
        Done { name, code, night, before, why, planned, stats, guesses, is_known, is_unlearnt }
    }
}

/// The job's knowledge; says why there is none.
fn known(wanted: &Wanted) -> Option<Job> {
    let Some(store) = &wanted.store else {
        warn(
            "there is no place for what is learnt (neither HOME nor XDG_STATE_HOME is an absolute path); the job runs alone, name one with --state",
        );
        return None;
    };
    match store.begin(&wanted.name) {
        Ok(job) => Some(job),
        Err(error @ StoreError::Busy { .. }) => {
            warn(&format!("{error}; this one runs alone"));
            None
        }
        Err(error) => {
            warn(&format!("nothing can be learnt ({error}); the job runs alone"));
            None
        }
    }
}

fn nights(job: &Job) -> Vec<Night> {
    job.nights().unwrap_or_else(|error| {
        warn(&format!("{error}; the job is watched as on its first night"));
        Vec::new()
    })
}

/// What to do tonight, why, and by which plan.
fn decide(wanted: &Wanted, job: Option<&Job>, before: &[Night]) -> (How, String, Option<Plan>) {
    let Some(job) = job else { return (How::Alone, "nothing can be learnt".to_owned(), None) };
    let asked = || "as asked for".to_owned();
    let verdict = match wanted.how {
        Some(How::Alone) => Tonight::Alone(asked()),
        Some(How::Watched) => Tonight::Watch(asked()),
        Some(How::Steered) if job.recording().exists() => Tonight::Steer(asked()),
        _ => tonight(before, job.recording().exists(), memory::usable_bytes().unwrap_or(u64::MAX)),
    };
    let why = match verdict {
        Tonight::Alone(why) => return (How::Alone, why, None),
        Tonight::Watch(why) => why,
        Tonight::Steer(why) => match plan(wanted, job, before) {
            Ok(plan) => return (How::Steered, why, Some(plan)),
            Err(Unplanned::Unknown(problem)) => problem,
            Err(Unplanned::Impossible(problem)) if wanted.how.is_some() => problem,
            Err(Unplanned::Impossible(problem)) => match without_plan(before, problem) {
                Tonight::Watch(why) | Tonight::Steer(why) => why,
                Tonight::Alone(why) => return (How::Alone, why, None),
            },
        },
    };
    match memory::free_bytes() {
        Some(free) if free < WATCHING_BYTES => {
            let (free, needed) = (free >> 20, WATCHING_BYTES >> 20);
            (How::Alone, format!("{free} MiB of memory are free, and to watch it takes {needed}"), None)
        }
        _ => (How::Watched, why, None),
    }
}

/// Why there is no plan.
enum Unplanned {
    /// What is known of the job cannot be read.
    Unknown(String),
    /// It is known, and there is nothing to be done, or no memory to do it in.
    Impossible(String),
}

fn plan(wanted: &Wanted, job: &Job, before: &[Night]) -> Result<Plan, Unplanned> {
    let usable_bytes = memory::usable_bytes().unwrap_or(u64::MAX);
    let most_accesses = usize::try_from(usable_bytes / MEMORY_SHARE / ACCESS_BYTES).unwrap_or(usize::MAX);
    let recording = Recording::read_within(job.recording(), most_accesses).map_err(|error| match error {
        // Recordings are bounded when they are written: what is larger here is too large for the memory.
        ReadError::Limit { limit, .. } => Unplanned::Impossible(format!(
            "what is known of it is too much for {} MiB of memory, in which {limit} reads can be thought of",
            usable_bytes >> 20
        )),
        error => Unplanned::Unknown(error.to_string()),
    })?;
    let means = Means {
        usable_bytes,
        // Where it is not known, nothing is taken.
        free_bytes: memory::free_bytes().unwrap_or(0).saturating_sub(memory::own_mapped_bytes()),
        job_bytes: own_bytes(before),
        most_bytes: wanted.most_bytes,
        at_full_rate: foretell_learn::is_at_full_rate(before),
    };
    Plan::new(&recording, means).map_err(|problem| Unplanned::Impossible(problem.to_string()))
}

/// What the job needs for itself, as far as it is known: of the last night on which that was looked at.
fn own_bytes(before: &[Night]) -> u64 {
    let seen = before.iter().rev().find_map(|night| night.memory_bytes);
    seen.or(before.last().map(|night| night.resident_bytes)).unwrap_or(0)
}
