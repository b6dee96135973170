//! What would help a job that was recorded, by how much, and from how much memory on.
//!
//! ```text
//!  recording ──► profile: each file's pattern, what is waited for ──┐
//!      └──► one sequence of references with compute times ──► forecast: the simulator on a device ──► words
//!  nights ──► what the job takes by itself ─────────────────────────┘       (made to fit the night that was seen)
//! ```
//!
//! The forecast is a model, not a measurement: `foretell compare` measures.

mod device;
mod forecast;
mod profile;
mod verdict;
pub(crate) mod words;

use anyhow::{Result, bail};
use foretell_device::DeviceParameters;
use foretell_learn::{How, Night, by_itself};
use foretell_recording::Recording;
use serde::Serialize;

pub(crate) use forecast::runs as simulations;

use device::Given;
use forecast::{At, Forecast};
use profile::Profile;
use verdict::Verdict;

/// What is known of a job when advice is asked for.
pub(crate) struct Known {
    /// The job, or the file.
    pub(crate) name: String,
    /// What it read.
    pub(crate) recording: Recording,
    /// Its nights, if it was learnt.
    pub(crate) nights: Vec<Night>,
}

/// What is said of a job.
#[derive(Debug, Serialize)]
pub(crate) struct Advice {
    /// The job, or the file.
    pub(crate) name: String,
    /// What it takes by itself.
    pub(crate) elapsed_s: f64,
    /// Of that, with all that waits at the same time counted once.
    pub(crate) wait_s: f64,
    /// Was it steered already? What that took, in the middle of the last nights.
    pub(crate) steered_s: Option<f64>,
    /// What it reads.
    pub(crate) profile: Profile,
    /// The device that was reckoned with, and whether it was made to fit.
    pub(crate) device: String,
    /// Memory that is free for it at present.
    pub(crate) free_bytes: Option<u64>,
    /// By memory, the least first; empty when nothing was worth reckoning.
    pub(crate) forecast: Vec<At>,
    /// The smallest memory with 90% of the gain.
    pub(crate) enough_bytes: Option<u64>,
    /// What to do.
    pub(crate) verdict: Verdict,
    /// In words.
    pub(crate) said: String,
}

/// Nights of each kind that the middle one is taken of.
const NIGHTS: usize = 5;

/// Advises on one job. `memory` is what to reckon with besides the usual steps; `progress` is called after each of the
/// simulations, of which there are as many as `forecast::runs` says.
///
/// # Errors
/// The recording holds nothing that can be reckoned with.
pub(crate) fn advise(
    known: &Known,
    given: Option<&DeviceParameters>,
    free_bytes: Option<u64>,
    progress: &(impl Fn() + Sync),
) -> Result<Advice> {
    let Known { name, recording, nights } = known;
    let profile = Profile::of(recording);
    let recorded_s = recording.summary.elapsed_ns as f64 / 1e9;
    if recorded_s <= 0.0 {
        bail!("{name}: the recording says nothing of the time that the job took");
    }
    let compute_s = (recorded_s - profile.wait_s).max(0.0);
    // A recording of a steered night tells what is read and computed; what is waited without us the other nights tell.
    let elapsed_s = by_itself(nights.iter(), 0).unwrap_or(recorded_s).max(compute_s);
    let wait_s = elapsed_s - compute_s;
    let steered: Vec<f64> = nights
        .iter()
        .rev()
        .filter(|night| night.how == How::Steered && night.exit_code == 0)
        .take(NIGHTS)
        .map(|night| night.elapsed_s)
        .collect();
    let early = Verdict::without_forecast(&profile, elapsed_s, wait_s);
    let device = Given::choose(given, recording)?;
    let forecast = match early {
        Some(_) => Forecast::default(),
        None => Forecast::make(recording, &profile, &device, wait_s, free_bytes, progress)?,
    };
    let verdict = early.unwrap_or_else(|| Verdict::of(&forecast, free_bytes));
    let enough_bytes = forecast.enough_bytes();
    let mut advice = Advice {
        name: name.clone(),
        elapsed_s,
        wait_s,
        steered_s: middle(steered),
        profile,
        device: device.by,
        free_bytes,
        forecast: forecast.by_memory,
        enough_bytes,
        verdict,
        said: String::new(),
    };
    advice.said = words::verdict(&advice);
    Ok(advice)
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
