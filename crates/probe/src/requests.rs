//! The requests of a plan, on a real target: a thread for each one in flight.
//!
//! Threads and not an asynchronous interface, because every system has them and each thread times exactly
//! its own reads; 32 of them cost a small machine a few microseconds a request, which is in the times then
//! as it is in those of a program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foretell_analytic::calibrate::{BUSY_DEPTH, Probe, Sample, Timing};

use crate::buffer::AlignedBuffer;
use crate::target::{Target, TargetError};

/// Rest before a probe with many requests in flight, so that a small token bucket is full again.
const REST: Duration = Duration::from_millis(300);

/// Runs `probe` on `target`. `go_on` is asked after each request; when it says no, the probe ends early.
///
/// # Errors
///
/// [`TargetError::Read`] for the first read that failed.
pub fn run(target: &Target, probe: Probe, go_on: &(impl Fn() -> bool + Sync)) -> Result<Sample, TargetError> {
    let probe = Probe { bytes: probe.bytes.next_multiple_of(target.alignment_bytes), ..probe };
    if probe.depth >= BUSY_DEPTH {
        std::thread::sleep(REST);
    }
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let most = Duration::from_secs_f64(probe.most_ms / 1e3);
    let mut buffers: Vec<AlignedBuffer> = (0..probe.depth)
        .map(|_| AlignedBuffer::new(probe.bytes as usize, target.alignment_bytes as usize))
        .collect();
    let began = Instant::now();
    let worker = |buffer: &mut AlignedBuffer| -> Result<Vec<Timing>, TargetError> {
        let mut timings = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= probe.most_requests || stop.load(Ordering::Relaxed) {
                return Ok(timings);
            }
            let start = began.elapsed();
            let outcome = target.read_direct(buffer.bytes(), probe.offset(index, target.span_bytes));
            let done = began.elapsed();
            if outcome.is_err() || done > most || !go_on() {
                stop.store(true, Ordering::Relaxed);
            }
            outcome?;
            let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
            timings.push(Timing { start_ms: ms(start), done_ms: ms(done) });
        }
    };
    let outcomes: Vec<Result<Vec<Timing>, TargetError>> = std::thread::scope(|scope| {
        let worker = &worker;
        let threads: Vec<_> = buffers.iter_mut().map(|buffer| scope.spawn(move || worker(buffer))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Ok(Vec::new()))).collect()
    });
    let mut timings = Vec::new();
    for outcome in outcomes {
        timings.extend(outcome?);
    }
    timings.sort_by(|a, b| a.done_ms.total_cmp(&b.done_ms));
    Ok(Sample { probe, timings })
}
