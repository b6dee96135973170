//! Programs and what `foretell slice` makes of them: the cases of Yang, Mitra and Chiueh 2002, Table 2, and two
//! whose addresses depend on data, on both slow devices.
//!
//! Each case runs as it is and translated, in turn, from a cold start; then once more with its files in memory,
//! which tells its computing time. The share of I/O time that is masked is what prefetching took away of the
//! time beyond that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use foretell_slicer::{Input, Options, RUNTIME_SOURCE, translate, write_runtime};
use foretell_slowdisk::Timing;

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

pub(crate) struct Slices<'b> {
    bench: &'b Bench,
    programs: PathBuf,
    places: Vec<Place>,
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
        Ok(Self { bench, programs, places })
    }

    fn time(&self, case: usize, device: usize, translated: bool, stats: Option<&Path>) -> Result<f64> {
        let (name, program, arguments, ..) = &CASES[case];
        let file = if translated { format!("{program}.sliced") } else { (*program).to_owned() };
        let mut command = Command::new(self.programs.join(file));
        command.args(arguments.split_whitespace()).current_dir(&self.places[device].directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).env_remove("FORETELL_SLICE");
        if let Some(path) = stats {
            command.env("FORETELL_SLICE_STATS", path);
        }
        let begin = Instant::now();
        let status = command.status().with_context(|| format!("cannot start {name}"))?;
        ensure!(status.success(), "{name} failed: {status}");
        Ok(begin.elapsed().as_secs_f64())
    }
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
        let wall_s = self.time(case, device, translated, None)?;
        let blocks = self.places[device].read_blocks()? - before;
        let stats = self.bench.launcher.scratch().join("stats");
        // Another run, with the files in memory.
        let _ = fs::remove_file(&stats);
        let warm_s = self.time(case, device, translated, Some(&stats))?;
        let mut measured = vec![("wall_s", wall_s), ("warm_s", warm_s), ("device_blocks", blocks)];
        if translated {
            let text = fs::read_to_string(&stats).context("the translated program left no statistics")?;
            let value: serde_json::Value = serde_json::from_str(&text)?;
            let cpu_ns = value["slice_cpu_ns"].as_f64().context("statistics without slice_cpu_ns")?;
            measured.push(("slice_cpu_s", cpu_ns / 1e9));
        }
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
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
        let input = Input { path: source.clone(), flags: Vec::new(), folder: None };
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
