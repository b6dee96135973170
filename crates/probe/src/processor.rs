//! The processor's part of reads: time of this thread, not of the clock, so that a slow device and other
//! programs do not count.

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
pub(crate) const BYTES: u64 = BATCHES * (RANGE_BYTES + 3 * READS * SMALL_BYTES);
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
    let mut samples = Vec::new();
    let batches = RANGE_BYTES.min(target.span_bytes / (2 * BATCHES)) / LARGE_BYTES * LARGE_BYTES;
    let range = |batch: u64| batch * batches;
    // In order with readahead, then the same again while it is present.
    let mut ahead = Vec::new();
    let mut present = [Vec::new(), Vec::new()];
    let mut large = AlignedBuffer::new(LARGE_BYTES as usize, 4096);
    let mut small = AlignedBuffer::new(SMALL_BYTES as usize, 4096);
    let began = Instant::now();
    for batch in 0..BATCHES {
        if batch >= 2 && began.elapsed() > MOST {
            break;
        }
        target.drop_cached(range(batch), batches);
        let file = target.reopened()?;
        let read = |buffer: &mut [u8]| -> Result<f64, TargetError> {
            let bytes = buffer.len() as u64;
            let before_us = processor_us();
            for offset in (range(batch)..range(batch) + batches).step_by(buffer.len()) {
                file.read_exact_at(buffer, offset).map_err(|error| TargetError::Read { offset, error })?;
            }
            Ok((processor_us() - before_us) / (batches / bytes) as f64)
        };
        ahead.push(read(large.bytes())?);
        present[1].push(read(large.bytes())?);
        present[0].push(read(small.bytes())?);
    }
    let mut add = |path, bytes, mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        if let Some(&processor_us) = values.get(values.len() / 2) {
            samples.push(HostSample { path, bytes, processor_us });
        }
    };
    add(HostPath::ReadAhead, LARGE_BYTES, ahead);
    let [of_small, of_large] = present;
    add(HostPath::Present, SMALL_BYTES, of_small);
    add(HostPath::Present, LARGE_BYTES, of_large);
    for path in [HostPath::Missing, HostPath::Asked, HostPath::Direct] {
        let mut values = Vec::new();
        let began = Instant::now();
        let half_bytes = target.span_bytes / 2;
        // A stride that no readahead takes for a sequence.
        let step = (half_bytes / (BATCHES * READS) / SMALL_BYTES).max(3) * SMALL_BYTES;
        for batch in 0..BATCHES {
            if batch >= 2 && began.elapsed() > MOST {
                break;
            }
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
        add(path, SMALL_BYTES, values);
    }
    Ok(samples)
}
