//! What the job would take, by memory, for each who could look after the page cache.
//!
//! All references of the recording become one sequence, in order of time: what several processes compute or wait for at
//! the same time counts once, as it did that night. The policies of the simulator run on it. The device's times are
//! stretched so that the plain kernel waits as long as it really did; as only the ratio of computing to waiting matters
//! to the simulator, the processor is made faster or slower instead, and the results are multiplied.

use std::collections::BTreeSet;
use std::num::NonZero;

use anyhow::{Context, Result};
use foretell_learn::{LEAST_MEMORY_BYTES, STEERING_BYTES};
use foretell_policy::Prefetch;
use foretell_recording::{PAGE_BYTES, Recording, Way};
use foretell_sim::{
    Batch, Cell, Input, InputReference, LINUX_READAHEAD_BYTES, PolicyName, in_parallel, simulate,
};
use serde::Serialize;

use super::device::Given;
use super::profile::{Profile, waits};

/// Shares of what is read that memory is reckoned with.
const SHARES: [f64; 6] = [0.125, 0.25, 0.5, 0.75, 1.0, 1.25];
/// The block; larger where there would be more references than this.
const BLOCK_BYTES: u64 = PAGE_BYTES;
const REFERENCES: u64 = 1 << 20;
/// Settings of `read_ahead_kb` that are tried.
pub(crate) const READ_AHEAD_KB: [u32; 2] = [1024, 4096];
/// Prefetches that are issued together.
const BATCH: u32 = 16;
/// Processor time of a fetch beside that, in ns.
const DRIVER_NS: f64 = 1_000.0;
/// What foretell takes to begin and to end, in seconds (docs/results/cost.md).
const OWN_S: f64 = 0.1;
/// How often the device is stretched at most, how close it must come (as a logarithm), and how far it may go.
const STRETCHES: usize = 10;
const CLOSE: f64 = 0.01;
const MOST_STRETCH: f64 = 7.0;
/// Blocks of the smallest cache.
const LEAST_BLOCKS: u64 = 64;
/// The share of the gain that is enough.
const ENOUGH: f64 = 0.9;

/// What is predicted with so much memory, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct At {
    pub(crate) memory_bytes: u64,
    pub(crate) kernel_s: f64,
    /// By [`READ_AHEAD_KB`].
    pub(crate) tuned_s: [f64; 2],
    pub(crate) foretell_s: f64,
    /// No schedule can be faster.
    pub(crate) best_s: f64,
}

impl At {
    /// The better setting of the kernel, and what it takes.
    pub(crate) fn best_tuned(&self) -> (u32, f64) {
        let [first, second] = self.tuned_s;
        if second < first { (READ_AHEAD_KB[1], second) } else { (READ_AHEAD_KB[0], first) }
    }
}

/// By memory, the least first.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    pub(crate) by_memory: Vec<At>,
}

/// Who looks after the page cache.
#[derive(Debug, Clone, Copy)]
enum Who {
    Kernel(u32),
    Foretell,
}

/// Simulations of a forecast, for a bar.
pub(crate) fn runs() -> u64 {
    (SHARES.len() * (2 + READ_AHEAD_KB.len()) + STRETCHES) as u64
}

impl Forecast {
    /// Simulates.
    pub(super) fn make(
        recording: &Recording,
        profile: &Profile,
        device: &Given,
        wait_s: f64,
        free_bytes: Option<u64>,
        progress: &(impl Fn() + Sync),
    ) -> Result<Forecast> {
        let mut block_bytes = BLOCK_BYTES;
        while profile.read_bytes / block_bytes > REFERENCES && block_bytes < 1 << 20 {
            block_bytes *= 2;
        }
        let input = references(recording, block_bytes).context("the recording names no file that is read")?;
        let compute_s = input.compute_ns() as f64 / 1e9;
        let cell = |who: Who, memory_bytes: u64, stretch: f64| {
            let blocks = (memory_bytes / block_bytes).max(LEAST_BLOCKS);
            let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
            let (policy, readahead_kb) = match who {
                Who::Kernel(kb) => (PolicyName::Planner(Prefetch::Linux), kb),
                Who::Foretell => (PolicyName::Planner(Prefetch::Informed), LINUX_READAHEAD_BYTES >> 10),
            };
            let parameters = device.parameters.clone();
            Cell {
                block_bytes: block_bytes as u32,
                batch: Batch::Fixed(BATCH),
                // What the processor does for a fetch is in the recorded compute times already.
                driver_ns: ((DRIVER_NS / stretch) as u64).max(1),
                demand_first: true,
                promote: true,
                readahead_bytes: readahead_kb << 10,
                cpu_speed: stretch,
                ..Cell::new(policy, 1, "", parameters, blocks)
            }
        };
        let simulated = |who: Who, memory_bytes: u64, stretch: f64| {
            let outcome = simulate(&cell(who, memory_bytes, stretch), &input);
            progress();
            outcome.context("the job cannot be simulated")
        };
        let usual = Who::Kernel(LINUX_READAHEAD_BYTES >> 10);
        // The memory of that night is not known; what came from devices tells how much was kept.
        let seen = memory_of_that_night(profile);
        let stretch = match device.fits {
            true => stretch(wait_s, |stretch| Ok(simulated(usual, seen, stretch)?.stall_s * stretch))?,
            false => 1.0,
        };
        let steps: BTreeSet<u64> = SHARES
            .iter()
            .map(|share| (share * profile.distinct_bytes as f64) as u64)
            .chain(free_bytes.filter(|free| *free < profile.distinct_bytes))
            .map(|bytes| bytes.max(LEAST_BLOCKS * block_bytes))
            .collect();
        // What foretell needs itself is not there for files; with too little it leaves the job to the kernel.
        let for_files = |who: Who, bytes: u64| match who {
            Who::Foretell if bytes >= LEAST_MEMORY_BYTES => (who, bytes - STEERING_BYTES, OWN_S),
            Who::Foretell => (usual, bytes, 0.0),
            Who::Kernel(_) => (who, bytes, 0.0),
        };
        let who = [usual, Who::Kernel(READ_AHEAD_KB[0]), Who::Kernel(READ_AHEAD_KB[1]), Who::Foretell];
        let tasks: Vec<(u64, Who)> =
            steps.iter().flat_map(|bytes| who.iter().map(move |who| (*bytes, *who))).collect();
        let jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
        let outcomes = in_parallel(
            &tasks,
            jobs,
            |&(bytes, who)| {
                let (who, bytes, own_s) = for_files(who, bytes);
                let outcome = simulated(who, bytes, stretch)?;
                Ok((outcome.elapsed_s * stretch + own_s, outcome.lower_bound_s.unwrap_or(0.0) * stretch))
            },
            |_| {},
        );
        let outcomes = outcomes.into_iter().collect::<Result<Vec<(f64, f64)>>>()?;
        let elapsed = |of: usize| outcomes[of].0;
        let by_memory = steps.iter().enumerate().map(|(n, bytes)| {
            let at = n * who.len();
            At {
                memory_bytes: *bytes,
                kernel_s: elapsed(at),
                tuned_s: [elapsed(at + 1), elapsed(at + 2)],
                foretell_s: elapsed(at + 3),
                best_s: outcomes[at].1.max(compute_s),
            }
        });
        Ok(Forecast { by_memory: by_memory.collect() })
    }

    /// The smallest memory with which foretell gains 90% of what it gains at most over the kernel with little memory.
    pub(crate) fn enough_bytes(&self) -> Option<u64> {
        let slowest_s = self.by_memory.first()?.kernel_s;
        let gain = |at: &At| slowest_s - at.foretell_s;
        let most = self.by_memory.iter().map(gain).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        self.by_memory.iter().find(|at| gain(at) >= ENOUGH * most).map(|at| at.memory_bytes)
    }
}

/// By how much times are to be stretched for `stalled_s` to give `wait_s`. It grows faster than in proportion where the
/// kernel reads ahead while the job computes, so each step follows the slope that the last two have shown (the secant
/// method, on logarithms).
fn stretch(wait_s: f64, mut stalled_s: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let (mut at, mut slope) = (0.0_f64, 1.0_f64);
    let mut before: Option<(f64, f64)> = None;
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..STRETCHES {
        let stalled_s = stalled_s(at.exp())?;
        if stalled_s <= 0.0 {
            break;
        }
        let off = (wait_s / stalled_s).ln();
        if off.abs() < best.0 {
            best = (off.abs(), at);
        }
        if off.abs() < CLOSE {
            break;
        }
        if let Some((at_before, off_before)) = before.replace((at, off)) {
            slope = ((off_before - off) / (at - at_before)).clamp(0.5, 8.0);
        }
        at = (at + off / slope).clamp(-MOST_STRETCH, MOST_STRETCH);
    }
    Ok(best.1.exp())
}

/// How much of what was read must have stayed in memory, as if the share of repeated reads that were hits were the share
/// of the files that fitted.
fn memory_of_that_night(profile: &Profile) -> u64 {
    let (read, distinct) = (profile.read_bytes as f64, profile.distinct_bytes as f64);
    let repeated = (read - distinct).max(1.0);
    let from_device = (profile.device_bytes as f64 - distinct).max(0.0);
    let kept = 1.0 - (from_device / repeated).min(1.0);
    (distinct * (0.25 + kept)) as u64
}

/// The recording as one process; `None` if nothing is read.
fn references(recording: &Recording, block_bytes: u64) -> Option<Input> {
    let mut input = Input::default();
    let waits = waits(recording);
    let mut order: Vec<usize> = (0..recording.accesses.len()).collect();
    order.sort_by_key(|&at| recording.accesses[at].at_ns);
    // Numbers of files that are read, and their blocks.
    let mut number_of: Vec<Option<u32>> = vec![None; recording.files.len()];
    let mut references = Vec::new();
    let (mut computed_ns, mut waited) = (0_u64, Waited { waits: &waits, at: 0, before_ns: 0 });
    for at in order {
        let access = recording.accesses[at];
        if access.way == Way::Written {
            continue;
        }
        let slot = number_of.get_mut(access.file.0 as usize)?;
        let file = match *slot {
            Some(file) => file,
            None => {
                let file = input.survey.file_blocks.len() as u32;
                *slot = Some(file);
                let blocks = recording.file(access.file)?.size.div_ceil(block_bytes);
                input.survey.file_blocks.push(u32::try_from(blocks).ok()?);
                input.survey.file_names.push(String::new());
                file
            }
        };
        let first = u64::from(access.first_page) * PAGE_BYTES / block_bytes;
        let last = ((u64::from(access.first_page) + u64::from(access.pages)) * PAGE_BYTES - 1) / block_bytes;
        let now_ns = access.at_ns.saturating_sub(waited.until(access.at_ns));
        let mut compute_ns = now_ns.saturating_sub(computed_ns);
        computed_ns = computed_ns.max(now_ns);
        for block in first..=last {
            let block = u32::try_from(block).ok()?;
            let length = &mut input.survey.file_blocks[file as usize];
            *length = (*length).max(block.saturating_add(1));
            references.push(InputReference { file, block, compute_ns });
            compute_ns = 0;
        }
    }
    if references.is_empty() {
        return None;
    }
    // What is computed after the last reference comes before it here: there is no other place for it.
    let all_ns = recording.summary.elapsed_ns.saturating_sub(waited.until(u64::MAX));
    if let Some(last) = references.last_mut() {
        last.compute_ns += all_ns.saturating_sub(computed_ns);
    }
    input.survey.references = references.len() as u64;
    input.survey.processes = 1;
    input.processes = vec![references];
    Some(input)
}

/// Sums up waits, asked for later and later times.
struct Waited<'a> {
    waits: &'a [(u64, u64)],
    at: usize,
    before_ns: u64,
}

impl Waited<'_> {
    /// What was waited until then.
    fn until(&mut self, ns: u64) -> u64 {
        while let Some((from, to)) = self.waits.get(self.at).filter(|(_, to)| *to <= ns) {
            self.before_ns += to - from;
            self.at += 1;
        }
        let within = self.waits.get(self.at).map_or(0, |(from, _)| ns.saturating_sub(*from));
        self.before_ns + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{Access, FileNumber, FileRecord, RoleId};

    const MS: u64 = 1_000_000;

    /// One file of so many pages, read from end to end so many times: a millisecond of computing before each 8 pages, and
    /// `wait_ns` of waiting for them.
    fn scans(pages: u32, passes: u32, wait_ns: u64, device_bytes: u64) -> Recording {
        let file = FileRecord {
            path: "/nonexistent".into(),
            dev: 0,
            ino: 1,
            size: u64::from(pages) * PAGE_BYTES,
            mtime_ns: 0,
        };
        let mut recording = Recording { files: vec![file], ..Recording::default() };
        let mut at_ns = 0;
        for _ in 0..passes {
            for first_page in (0..pages).step_by(8) {
                at_ns += MS;
                let read = Access::read(RoleId(0), FileNumber(0), first_page, 8);
                recording.accesses.push(Access { at_ns, waited_ns: wait_ns, ..read });
                at_ns += wait_ns;
            }
        }
        recording.summary.elapsed_ns = at_ns + 5 * MS;
        recording.summary.device_read_bytes = device_bytes;
        recording
    }

    #[test]
    fn compute_times_are_what_is_left_between_waits() {
        let recording = scans(32, 2, 3 * MS, 0);
        let input = references(&recording, 8192).unwrap();
        assert_eq!((input.references(), input.compute_ns()), (32, 8 * MS + 5 * MS));
        assert_eq!(input.processes[0][0].compute_ns, MS);
        assert_eq!(input.processes[0][4].compute_ns, MS);
        assert!(references(&Recording::default(), 8192).is_none());
    }

    #[test]
    fn the_kernel_is_predicted_as_it_was_and_foretell_gains() {
        // 128 MiB three times, and nothing was kept.
        let bytes = 32_768 * PAGE_BYTES;
        let recording = scans(32_768, 3, 2 * MS, 3 * bytes);
        let profile = Profile::of(&recording);
        let wait_s = profile.wait_s;
        let device = Given::choose(None, &recording).unwrap();
        let forecast = Forecast::make(&recording, &profile, &device, wait_s, None, &|| {}).unwrap();
        let elapsed_s = recording.summary.elapsed_ns as f64 / 1e9;
        let quarter = forecast.by_memory[1];
        assert_eq!(quarter.memory_bytes, bytes / 4);
        let off = (quarter.kernel_s / elapsed_s - 1.0).abs();
        assert!(off < 0.03, "{} for {elapsed_s}", quarter.kernel_s);
        for at in &forecast.by_memory {
            assert!(at.best_s <= at.foretell_s, "{at:?}");
            match at.memory_bytes {
                few if few < LEAST_MEMORY_BYTES => assert_eq!(at.foretell_s, at.kernel_s),
                some if some < bytes => assert!(at.foretell_s < at.kernel_s, "{at:?}"),
                // Where all of it just fits without us, it may not beside us.
                _ => {}
            }
        }
        assert!(forecast.enough_bytes().is_some_and(|enough| enough >= bytes / 4), "{forecast:?}");
    }
}
