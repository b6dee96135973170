//! The processor's part of reads: time of this thread, not of the clock, so that a slow device and other
//! programs do not count. Only [`HostPath::Elapsed`] is by the clock: it is about what the device adds.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use foretell_analytic::calibrate::{HostPath, HostSample};
use rustix::time::{ClockId, clock_gettime};

use crate::buffer::AlignedBuffer;
use crate::target::{Target, TargetError};

/// Batches, of which the median is taken.
const BATCHES: u64 = 7;
/// Bytes that are read in order with readahead, and copied from memory, in each batch.
const RANGE_BYTES: u64 = 8 << 20;
/// Reads of a batch otherwise.
const READS: u64 = 24;
/// What is read at most.
pub(crate) const BYTES: u64 = BATCHES * (2 * RANGE_BYTES + 3 * READS * SMALL_BYTES);
const SMALL_BYTES: u64 = 4096;
const LARGE_BYTES: u64 = 128 << 10;
/// Each path ends after this.
const MOST: Duration = Duration::from_secs(3);

fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Measures all paths. Nothing is left out for a target without direct reads; its times are the page
/// cache's then.
///
/// # Errors
///
/// [`TargetError`] if it cannot be opened or read any more.
pub fn run(target: &Target) -> Result<Vec<HostSample>, TargetError> {
    let mut samples = in_order(target)?;
    samples.extend(by_the_clock(target)?);
    for path in [HostPath::Missing, HostPath::Asked, HostPath::Direct] {
        samples.extend(at_random(target, path)?);
    }
    Ok(samples)
}

/// The median of a path's batches, if there are any.
fn sample(path: HostPath, bytes: u64, mut values: Vec<f64>) -> Option<HostSample> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map(|&time_us| HostSample { path, bytes, time_us })
}

/// Is there time for one more batch? The median of two is worth having on the slowest device.
fn goes_on(batch: u64, began: Instant) -> bool {
    batch < 2 || began.elapsed() <= MOST
}

/// In order with readahead, then the same again while it is present, in large pieces and in small ones.
fn in_order(target: &Target) -> Result<Vec<HostSample>, TargetError> {
    let batch_bytes = RANGE_BYTES.min(target.span_bytes / (2 * BATCHES)) / LARGE_BYTES * LARGE_BYTES;
    let (mut ahead, mut present_large, mut present_small) = (Vec::new(), Vec::new(), Vec::new());
    let mut large = AlignedBuffer::new(LARGE_BYTES as usize, 4096);
    let mut small = AlignedBuffer::new(SMALL_BYTES as usize, 4096);
    let began = Instant::now();
    for batch in (0..BATCHES).take_while(|batch| goes_on(*batch, began)) {
        let start = batch * batch_bytes;
        target.drop_cached(start, batch_bytes);
        let file = target.reopened()?;
        let read = |buffer: &mut [u8]| -> Result<f64, TargetError> {
            let bytes = buffer.len() as u64;
            let before_us = processor_us();
            for offset in (start..start + batch_bytes).step_by(buffer.len()) {
                file.read_exact_at(buffer, offset).map_err(|error| TargetError::Read { offset, error })?;
            }
            Ok((processor_us() - before_us) / (batch_bytes / bytes) as f64)
        };
        ahead.push(read(large.bytes())?);
        present_large.push(read(large.bytes())?);
        present_small.push(read(small.bytes())?);
    }
    let samples = [
        sample(HostPath::ReadAhead, LARGE_BYTES, ahead),
        sample(HostPath::Present, SMALL_BYTES, present_small),
        sample(HostPath::Present, LARGE_BYTES, present_large),
    ];
    Ok(samples.into_iter().flatten().collect())
}

/// In order with as much readahead as a program gets by asking, in us of the clock: what processor and device take
/// together.
fn by_the_clock(target: &Target) -> Result<Option<HostSample>, TargetError> {
    let batch_bytes = RANGE_BYTES.min(target.span_bytes / (2 * BATCHES)) / LARGE_BYTES * LARGE_BYTES;
    let mut buffer = AlignedBuffer::new(LARGE_BYTES as usize, 4096);
    let mut values = Vec::new();
    let began = Instant::now();
    for batch in (0..BATCHES).take_while(|batch| goes_on(*batch, began)) {
        let start = batch * batch_bytes;
        target.drop_cached(start, batch_bytes);
        let file = target.reopened()?;
        // Without effect where the kernel ignores it.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        let before = Instant::now();
        for offset in (start..start + batch_bytes).step_by(LARGE_BYTES as usize) {
            file.read_exact_at(buffer.bytes(), offset)
                .map_err(|error| TargetError::Read { offset, error })?;
        }
        values.push(before.elapsed().as_secs_f64() * 1e6 / (batch_bytes / LARGE_BYTES) as f64);
    }
    Ok(sample(HostPath::Elapsed, LARGE_BYTES, values))
}

/// Small reads in the second half of the target, in an order that no readahead takes for a sequence.
fn at_random(target: &Target, path: HostPath) -> Result<Option<HostSample>, TargetError> {
    let mut small = AlignedBuffer::new(SMALL_BYTES as usize, 4096);
    let mut values = Vec::new();
    let half_bytes = target.span_bytes / 2;
    let step = (half_bytes / (BATCHES * READS) / SMALL_BYTES).max(3) * SMALL_BYTES;
    let began = Instant::now();
    for batch in (0..BATCHES).take_while(|batch| goes_on(*batch, began)) {
        let file = target.reopened()?;
        let offsets: Vec<u64> = (0..READS)
            .map(|i| half_bytes / SMALL_BYTES * SMALL_BYTES + (batch * READS + (i * 7) % READS) * step)
            .filter(|offset| offset + SMALL_BYTES <= target.span_bytes)
            .collect();
        if path != HostPath::Direct {
            target.drop_cached(half_bytes, target.span_bytes - half_bytes);
        }
        let before_us = processor_us();
        for &offset in &offsets {
            match path {
                HostPath::Direct => target.read_direct(small.bytes(), offset)?,
                HostPath::Asked => {
                    let length = std::num::NonZeroU64::new(SMALL_BYTES);
                    // Without effect where the kernel ignores it; then asking costs nothing, as it should.
                    let _ = rustix::fs::fadvise(&file, offset, length, rustix::fs::Advice::WillNeed);
                }
                _ => file
                    .read_exact_at(small.bytes(), offset)
                    .map_err(|error| TargetError::Read { offset, error })?,
            }
        }
        values.push((processor_us() - before_us) / offsets.len().max(1) as f64);
        if path == HostPath::Asked {
            // Until all are there; what nobody waits for must not delay what is timed next.
            for &offset in &offsets {
                target.read_cached(small.bytes(), offset)?;
            }
        }
    }
    Ok(sample(path, SMALL_BYTES, values))
}
