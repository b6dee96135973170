//! Timed reads of real things, for [`foretell_analytic::calibrate`]: that module says which requests to make
//! and what their times mean; this crate makes them.
//!
//! - [`target`]: a file or a block device, opened for direct reads.
//! - [`requests`]: the requests of a plan, one thread for each in flight.
//! - [`object`]: range requests of an object over HTTP or HTTPS.
//! - [`processor`]: the processor's part of reads through the page cache.
//!
//! Nothing is written. Reading drops the file's clean pages from memory where a read must miss.

pub mod object;
pub mod processor;
pub mod requests;
pub mod target;

mod buffer;

pub use buffer::AlignedBuffer;
pub use object::{Object, ObjectError};
pub use target::{Target, TargetError};

use std::time::{Duration, Instant};

use foretell_analytic::calibrate::{Calibration, FitError, HostFacts, Purpose, fit, plan};
use thiserror::Error;

/// A calibration ends by then, whatever the device; the plan alone needs less.
pub const MOST_TIME: Duration = Duration::from_secs(55);
/// What the page cache's part may take of that, with what one slow request may overrun.
const PROCESSOR_TIME: Duration = Duration::from_secs(14);

/// Why a target was not calibrated.
#[derive(Debug, Error)]
pub enum CalibrateError {
    /// It cannot be read.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Its times say nothing.
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// What a calibration took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Bytes that were read.
    pub bytes: u64,
    /// Time that it took.
    pub time: Duration,
}

/// Times the plan's requests at `target` and fits a device to them. `progress` is told the share that is
/// done, before each probe.
///
/// # Errors
///
/// [`CalibrateError`] if a read fails or too few came back in time.
pub fn calibrate(
    target: &Target,
    mut progress: impl FnMut(f64),
) -> Result<(Calibration, Effort), CalibrateError> {
    let began = Instant::now();
    let probes = plan(target.span_bytes);
    let steps = (probes.len() + 1) as f64;
    let mut samples = Vec::new();
    for (step, probe) in probes.into_iter().enumerate() {
        progress(step as f64 / steps);
        let in_time = || began.elapsed() + PROCESSOR_TIME < MOST_TIME;
        // What makes parameters comes before what only checks them.
        if in_time() || probe.purpose == Purpose::Parameters {
            samples.push(requests::run(target, probe, &in_time)?);
        }
    }
    progress((steps - 1.0) / steps);
    let processor = processor::run(target)?;
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let facts = target.max_request_bytes.map(|max_request_bytes| HostFacts { max_request_bytes, processors });
    let bytes = samples.iter().map(|s| s.timings.len() as u64 * s.probe.bytes).sum::<u64>();
    let calibration = fit(&samples, &processor, facts, target.capacity_bytes)?;
    Ok((calibration, Effort { bytes: bytes + processor::BYTES, time: began.elapsed() }))
}
