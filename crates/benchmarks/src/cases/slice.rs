//! Programs and what `foretell slice` makes of them: the cases of Yang, Mitra and Chiueh 2002, Table 2, and two
//! whose addresses depend on data, on both slow devices.
//!
//! Each case runs as it is and translated, in turn, from a cold start; then some times more with its files in memory,
//! which tells its computing time, and what a slice costs where there is nothing to gain: the CPU time of the
//! program and its slice together. The share of I/O time that is masked is what prefetching took away of the
//! time beyond that.
//!
//! Beside each case stands the least time in which the device could read what the case reads, each page once, in the
//! best order, everything known from the beginning.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use foretell_slicer::{Input, Options, RUNTIME_SOURCE, translate, write_runtime};
use foretell_slowdisk::Timing;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::{Bench, Case, MIB, Place};
use crate::cold;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::random::Random;

const PLAYER: &str = include_str!("../../../../benches/slice/player.c");
const RAYCASTER: &str = include_str!("../../../slicer/tests/corpus/raycaster.c");
const FFT: &str = include_str!("../../../slicer/tests/corpus/fft.c");
const POINTER_CHASE: &str = include_str!("../../../slicer/tests/corpus/pointer_chase.c");
const BTREE: &str = include_str!("../../../slicer/tests/corpus/btree.c");

const PROGRAMS: &[(&str, &str)] = &[
    ("player", PLAYER),
    ("raycaster", RAYCASTER),
    ("fft", FFT),
    ("pointer_chase", POINTER_CHASE),
    ("btree", BTREE),
];

/// What a case must show.
enum Target {
    /// At least this share of I/O time masked, and at most this share of the time.
    Masked(f64, f64),
    /// At most this share of the time.
    Time(f64),
}

/// Name, program, arguments, file, target: those of the paper's Table 2, never slower by more than 1% where it
/// lost, and 2% where nothing can be gained.
const CASES: &[(&str, &str, &str, &str, Target)] = &[
    ("Vol Vis 1", "raycaster", "volume.bin 256 16 0", "volume.bin", Target::Time(0.46)),
    ("Vol Vis 2", "raycaster", "volume.bin 256 16 1", "volume.bin", Target::Time(0.78)),
    ("Vol Vis 3", "raycaster", "volume.bin 256 32 0", "volume.bin", Target::Time(0.85)),
    ("Vol Vis 4", "raycaster", "volume.bin 256 32 1", "volume.bin", Target::Time(0.96)),
    ("FFT 256K", "fft", "fft256.bin 262144", "fft256.bin", Target::Time(1.01)),
    ("FFT 512K", "fft", "fft512.bin 524288", "fft512.bin", Target::Time(1.01)),
    ("Forward 1", "player", "volume.bin 4096 forward", "volume.bin", Target::Time(1.01)),
    ("Backward 1", "player", "volume.bin 4096 backward", "volume.bin", Target::Masked(0.84, 0.15)),
    ("Forward 2", "player", "volume.bin 8192 forward", "volume.bin", Target::Time(1.01)),
    ("Backward 2", "player", "volume.bin 8192 backward", "volume.bin", Target::Masked(0.78, 0.25)),
    ("pointer chase", "pointer_chase", "", "chain.bin", Target::Time(1.02)),
    ("B-tree", "btree", "", "tree.bin", Target::Time(0.333)),
];

const DEVICES: [(&str, Timing); 2] = [("8 ms disk", Timing::disk_8ms()), ("1 ms x 8", Timing::cloud_1ms())];

/// Blocks of 4 KiB of the pointer chase; keys in the tree, and how many are looked up.
const CHAIN_BLOCKS: u64 = 999;
const KEYS: u64 = 8_000;
const LOOK_UPS: u64 = 1_000;

/// Runs with the files in memory a round: some last only milliseconds.
const WARM_RUNS: usize = 5;
/// Most CPU time of all cases, translated, as a share of that of the originals, where nothing can be gained.
const MOST_CPU: f64 = 1.02;
const PAGE_BYTES: u64 = 4096;

pub(crate) struct Slices<'b> {
    bench: &'b Bench,
    programs: PathBuf,
    places: Vec<Place>,
    /// Of each case, the pages of its file that it reads.
    pages: Vec<BTreeSet<u64>>,
}

/// What one run took.
struct Took {
    wall_s: f64,
    /// Of the program; what its slice took is in the statistics.
    cpu_s: f64,
}

impl<'b> Slices<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let programs = bench.launcher.scratch().join("programs");
        build(&programs)?;
        let mut places = Vec::new();
        for (number, (_, timing)) in DEVICES.into_iter().enumerate() {
            let place = bench.slow_device(&format!("slice{number}"), timing, 96 * MIB)?;
            make_data(&place.directory)?;
            places.push(place);
        }
        let mut slices = Self { bench, programs, places, pages: Vec::new() };
        slices.pages = (0..CASES.len()).map(|case| slices.pages_read(case)).collect::<Result<_>>()?;
        Ok(slices)
    }

    fn run_once(
        &self,
        case: usize,
        device: usize,
        translated: bool,
        setting: Option<(&str, &Path)>,
    ) -> Result<Took> {
        let (name, program, arguments, ..) = &CASES[case];
        let file = if translated { format!("{program}.sliced") } else { (*program).to_owned() };
        let mut command = Command::new(self.programs.join(file));
        command.args(arguments.split_whitespace()).current_dir(&self.places[device].directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).env_remove("FORETELL_SLICE");
        // No service of this machine's has a part in it.
        command.env("FORETELL_SLICE_SINK", "readahead");
        if let Some((variable, path)) = setting {
            command.env(variable, path);
        }
        let begin = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        // It stays until it is waited for again, and so does what the kernel has noted of it.
        waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let wall_s = begin.elapsed().as_secs_f64();
        let times = fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap_or_default();
        let status = child.wait()?;
        ensure!(status.success(), "{name} failed: {status}");
        let cpu_ns = times.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
        Ok(Took { wall_s, cpu_s: cpu_ns.context("no CPU time in /proc/PID/schedstat")? / 1e9 })
    }

    /// The pages of its file that a case reads, by the trace of its translation.
    fn pages_read(&self, case: usize) -> Result<BTreeSet<u64>> {
        let trace = self.bench.launcher.scratch().join("trace");
        self.run_once(case, 0, true, Some(("FORETELL_SLICE_TRACE", &trace)))?;
        let text = fs::read_to_string(&trace).context("the translated program left no trace")?;
        let mut pages = BTreeSet::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if let ["R", _, path, offset, bytes] = fields[..]
                && path == CASES[case].3
            {
                let (offset, bytes): (u64, u64) = (offset.parse()?, bytes.parse()?);
                pages.extend(offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES));
            }
        }
        Ok(pages)
    }
}

/// The least time in which a device reads some pages of a file that lies in one piece: from the first to the last,
/// all channels busy, a gap read as well where that takes less time than another request.
fn least_device_s(timing: &Timing, pages: &BTreeSet<u64>) -> f64 {
    let channels = f64::from(timing.channels);
    let rate = timing.channel_bytes_per_s as f64 * channels;
    let rate = timing.total_bytes_per_s.map_or(rate, |total| rate.min(total as f64));
    let request_s = (timing.seek_ns + timing.latency_ns) as f64 / 1e9 / channels;
    let page_s = PAGE_BYTES as f64 / rate;
    let gaps = pages.iter().zip(pages.iter().skip(1)).map(|(page, next)| (next - page - 1) as f64);
    let gaps_s: f64 = gaps.map(|gap| request_s.min(gap * page_s)).sum();
    request_s + pages.len() as f64 * page_s + gaps_s
}

/// Arms: cases, devices, the original and the translation.
fn arm(case: usize, device: usize, translated: bool) -> String {
    let which = if translated { "translated" } else { "original" };
    format!("{}, {}, {which}", CASES[case].0, DEVICES[device].0)
}

impl Case for Slices<'_> {
    fn title(&self) -> String {
        "programs and their translations by foretell slice, cold".to_owned()
    }

    fn arms(&self) -> Vec<String> {
        let cases = 0..CASES.len();
        cases
            .flat_map(|case| (0..DEVICES.len()).flat_map(move |d| [false, true].map(|t| arm(case, d, t))))
            .collect()
    }

    fn run(&mut self, number: usize) -> Result<Measured> {
        let (case, device, translated) = (number / 4, number / 2 % 2, number % 2 == 1);
        cold::evict(&self.places[device].directory.join(CASES[case].3))?;
        let before = self.places[device].read_blocks()?;
        let wall_s = self.run_once(case, device, translated, None)?.wall_s;
        let blocks = self.places[device].read_blocks()? - before;
        let stats = self.bench.launcher.scratch().join("stats");
        let (mut warm_s, mut warm_cpu_s, mut slice_cpu_s) = (0.0, 0.0, 0.0);
        for _ in 0..WARM_RUNS {
            let _ = fs::remove_file(&stats);
            let took = self.run_once(case, device, translated, Some(("FORETELL_SLICE_STATS", &stats)))?;
            warm_s += took.wall_s / WARM_RUNS as f64;
            warm_cpu_s += took.cpu_s / WARM_RUNS as f64;
            if translated {
                let text = fs::read_to_string(&stats).context("the translated program left no statistics")?;
                let value: serde_json::Value = serde_json::from_str(&text)?;
                let cpu_ns = value["slice_cpu_ns"].as_f64().context("statistics without slice_cpu_ns")?;
                slice_cpu_s += cpu_ns / 1e9 / WARM_RUNS as f64;
            }
        }
        let mut measured = vec![("wall_s", wall_s), ("warm_s", warm_s), ("device_blocks", blocks)];
        measured.push(("warm_cpu_s", warm_cpu_s + slice_cpu_s));
        if translated {
            measured.push(("slice_cpu_s", slice_cpu_s));
        }
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        for ((name, ..), pages) in CASES.iter().zip(&self.pages) {
            for (device, timing) in &DEVICES {
                let what =
                    format!("{name}, {device}: ideal, the device's least time for {} pages", pages.len());
                references.push(Reference { what, value: least_device_s(timing, pages) });
            }
        }
        references
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (case, (name, .., target)) in CASES.iter().enumerate() {
            for (device, (device_name, _)) in DEVICES.iter().enumerate() {
                let median = |translated, metric| outcome.median(&arm(case, device, translated), metric);
                let (Some(original), Some(translated), Some(computing)) =
                    (median(false, "wall_s"), median(true, "wall_s"), median(false, "warm_s"))
                else {
                    continue;
                };
                let what = |of: &str| format!("{name}, {device_name}: {of}");
                let ratio = translated / original;
                let masked = (original - translated) / (original - computing).max(1e-9);
                match target {
                    Target::Time(most) => verdicts.push(Verdict::at_most(what("time"), ratio, *most)),
                    Target::Masked(share, most) => {
                        verdicts.push(Verdict::at_most(what("time"), ratio, *most));
                        let unmasked = what("I/O time that is not masked");
                        verdicts.push(Verdict::at_most(unmasked, 1.0 - masked, 1.0 - share));
                    }
                }
            }
        }
        let all = |translated| {
            let arms = (0..CASES.len()).flat_map(|case| (0..DEVICES.len()).map(move |device| (case, device)));
            arms.map(|(case, device)| outcome.median(&arm(case, device, translated), "warm_cpu_s")).sum()
        };
        if let (Some(original), Some(translated)) = (all(false), all(true)) {
            let (original, translated): (f64, f64) = (original, translated);
            let what = "CPU time with the files in memory, all cases together";
            verdicts.push(Verdict::at_most(what, translated / original, MOST_CPU));
        }
        verdicts
    }
}

/// Compiles each program as it is and translated.
fn build(folder: &Path) -> Result<()> {
    let runtime = folder.join("runtime");
    write_runtime(&runtime)?;
    for (name, text) in PROGRAMS {
        let source = folder.join(format!("{name}.c"));
        fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
        let input = Input {
            path: source.clone(),
            flags: Vec::new(),
            folder: None,
            preprocessed: None,
            otherwise: None,
        };
        let translation = translate(&[input], &Options::default())?;
        ensure!(translation.prefetches(), "{name} is not translated: {:?}", translation.refusals);
        let sliced = folder.join(format!("{name}.sliced.c"));
        fs::write(&sliced, &translation.files[0])
            .with_context(|| format!("cannot write {}", sliced.display()))?;
        compile(&[&source], &runtime, &folder.join(name))?;
        compile(&[&sliced, &runtime.join(RUNTIME_SOURCE)], &runtime, &folder.join(format!("{name}.sliced")))?;
    }
    Ok(())
}

fn compile(sources: &[&Path], runtime: &Path, program: &Path) -> Result<()> {
    let mut command = Command::new("cc");
    command
        .args(["-O2", "-w", "-pthread", "-I"])
        .arg(runtime)
        .args(sources)
        .arg("-lm")
        .arg("-o")
        .arg(program);
    let output = command.output().context("cannot start cc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn make_data(folder: &Path) -> Result<()> {
    let mut random = Random::new(KEYS);
    let mut bytes =
        |count: u64| (0..count / 8).flat_map(|_| random.next().to_le_bytes()).collect::<Vec<u8>>();
    let files = [
        ("volume.bin", bytes(16 * MIB)),
        ("fft256.bin", bytes(2 * MIB)),
        ("fft512.bin", bytes(4 * MIB)),
        ("chain.bin", chain(bytes(CHAIN_BLOCKS * 4096))),
        ("tree.bin", tree()),
        ("keys.txt", keys().into_bytes()),
    ];
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        cold::evict(&path)?;
    }
    Ok(())
}

/// The numbers below `count` in random order.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut order: Vec<u64> = (0..count).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    order
}

/// Blocks in one cycle, each beginning with the number of the next.
fn chain(mut content: Vec<u8>) -> Vec<u8> {
    let order = shuffled(CHAIN_BLOCKS, 1);
    for (i, block) in order.iter().enumerate() {
        let next = order[(i + 1) % order.len()] as u32;
        let at = *block as usize * 4096;
        content[at..at + 4].copy_from_slice(&next.to_le_bytes());
    }
    content
}

/// A tree as btree.c reads it (a header page, pages of 4 KiB with 31 keys, records), each record in a page of
/// its own, in random order.
fn tree() -> Vec<u8> {
    const FANOUT: usize = 31;
    let keys: Vec<u32> = (0..KEYS as u32).collect();
    let places = shuffled(KEYS, 2);
    let mut pages: Vec<(u32, Vec<u32>, Vec<u32>)> = Vec::new();
    let mut below: Vec<(u32, u32)> = Vec::new();
    for chunk in keys.chunks(FANOUT) {
        pages.push((0, chunk.to_vec(), Vec::new()));
        below.push((pages.len() as u32, chunk[0]));
    }
    let mut level = 0;
    while below.len() > 1 {
        level += 1;
        let mut above = Vec::new();
        for group in below.chunks(FANOUT + 1) {
            let first_keys = group[1..].iter().map(|(_, key)| *key).collect();
            pages.push((level, first_keys, group.iter().map(|(page, _)| *page).collect()));
            above.push((pages.len() as u32, group[0].1));
        }
        below = above;
    }
    let records = (pages.len() as u32 + 1) * 4096;
    let root = below.first().map_or(0, |(page, _)| *page);
    let mut content = vec![0; 4096];
    content[4..8].copy_from_slice(&root.to_le_bytes());
    for (level, keys, mut children) in pages {
        if level == 0 {
            children = keys.iter().map(|key| records + places[*key as usize] as u32 * 4096).collect();
        }
        let mut page = [level, keys.len() as u32].to_vec();
        page.extend(&keys);
        page.resize(2 + FANOUT, 0);
        page.extend(&children);
        page.resize(1024, 0);
        content.extend(page.into_iter().flat_map(u32::to_le_bytes));
    }
    content.resize(content.len() + KEYS as usize * 4096, 0);
    for key in keys {
        let at = (records + places[key as usize] as u32 * 4096) as usize;
        content[at..at + 4].copy_from_slice(&key.to_le_bytes());
    }
    content
}

fn keys() -> String {
    shuffled(KEYS, 3).into_iter().take(LOOK_UPS as usize).map(|key| format!("{key}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_of_a_device() {
        let pages = |list: &[u64]| list.iter().copied().collect::<BTreeSet<u64>>();
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got}, not {wanted}");
        // A page takes 40.96 us; one seek.
        near(least_device_s(&Timing::disk_8ms(), &pages(&[5, 6, 7])), 8e-3 + 3.0 * 40.96e-6);
        // A gap of 10 pages is read, one of 1,000 is sought over.
        near(least_device_s(&Timing::disk_8ms(), &pages(&[0, 11, 1012])), 2.0 * 8e-3 + 13.0 * 40.96e-6);
        // 16.384 us a page at 250 MB/s; a request has an eighth of 1 ms.
        near(least_device_s(&Timing::cloud_1ms(), &pages(&[0, 100])), 2.0 * 125e-6 + 2.0 * 16.384e-6);
    }
}
