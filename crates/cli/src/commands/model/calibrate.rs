//! `foretell model calibrate`: the device file of a real device, from timed reads.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use foretell_analytic::calibrate::{Calibration, Estimate, Kind, device_file};
use foretell_device::{Cap, Model};
use foretell_output::Output;
use foretell_probe::{Effort, Target, calibrate};

use super::calibrate_object;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::size::human_bytes;
use crate::terminal::{say, warn};

/// Bytes of a scratch file: small enough to write on a slow disk, too large for a disk's own cache.
const SCRATCH_BYTES: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file of 16 MiB or more, a block device, or the http(s) address of an object; only read, for less than
    /// 60 s and 2 GiB
    pub(super) target: String,
    /// The device file to write
    #[arg(long, short, value_name = "FILE", default_value = "calibrated.toml")]
    pub(super) output: PathBuf,
    /// For an object: say how many connections reach this many bytes a second
    #[arg(long, value_name = "SIZE")]
    pub(super) rate: Option<String>,
    /// Take the target for a directory, and write and remove a file of 256 MiB in it
    #[arg(long)]
    scratch: bool,
    /// Write JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// Calibrates, writes the device file and says what was found.
pub(super) fn execute(args: &Args) -> Result<()> {
    if ["http://", "https://"].iter().any(|scheme| args.target.starts_with(scheme)) {
        ensure!(!args.scratch, "--scratch: is for directories; an object is only read");
        return calibrate_object::execute(args);
    }
    ensure!(args.rate.is_none(), "--rate: is for objects, whose connections can be chosen; leave it out");
    let _held = check_output(&args.output)?;
    let name = args.output.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let target_name = one_line(&args.target);
    let scratch;
    let target = if args.scratch {
        scratch = make_scratch(Path::new(&args.target)).with_context(|| target_name.clone())?;
        // The file has no name; its descriptor has.
        Target::open(Path::new(&format!("/proc/self/fd/{}", scratch.as_raw_fd())))
    } else {
        Target::open(Path::new(&args.target))
    };
    let target = target.map_err(|e| anyhow!("{target_name}: {e}"))?;
    if target.is_memory {
        warn(&format!(
            "{target_name}: lies in memory: how fast it is copied is measured, and no device; name a file on a disk"
        ));
    } else if !target.is_direct {
        warn(&format!(
            "{target_name}: its file system has no direct reads; its pages are dropped before each read \
             instead, and times of the page cache are among the device's"
        ));
    }
    let bar = progress();
    let (calibration, effort) = calibrate(&target, |share| bar.set_position((share * 100.0) as u64))
        .map_err(|e| anyhow!("{target_name}: {e}"))?;
    bar.finish_and_clear();
    let description = format!("{target_name}, {}", what(&calibration));
    let source = "measured by foretell model calibrate";
    let text = device_file(&calibration, &name, &description, source);
    write_device_file(&args.output, &text)?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&Json::new(args, &calibration, effort))?));
    } else {
        say(&table(&target_name, &args.output, &calibration, effort));
    }
    Ok(())
}

pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn make_scratch(directory: &Path) -> Result<File> {
    ensure!(directory.is_dir(), "is no directory; --scratch writes its file into one");
    let mut file = tempfile::tempfile_in(directory).context("cannot write a scratch file there")?;
    // Not zeros, which some devices and file systems do not store.
    let mut block = vec![0u8; 1 << 20];
    for (i, byte) in block.iter_mut().enumerate() {
        *byte = (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    }
    for _ in 0..SCRATCH_BYTES / block.len() as u64 {
        file.write_all(&block).context("cannot write the scratch file")?;
    }
    file.sync_all().context("cannot write the scratch file")?;
    Ok(file)
}

/// Checks the name of the device file, before minutes are spent on its contents. To be held until it is written.
pub(super) fn check_output(path: &Path) -> Result<Output> {
    let output = Output::open(path).map_err(|e| anyhow!("--output {e}"))?;
    let is_toml = path.extension().is_some_and(|e| e == "toml");
    ensure!(is_toml, "--output {}: device files end in .toml", path.display());
    Ok(output)
}

pub(super) fn write_device_file(path: &Path, text: &str) -> Result<()> {
    foretell_output::write(path, text.as_bytes()).map_err(|e| anyhow!("--output {e}"))
}

/// A bar on a terminal, nothing in a pipe.
pub(super) fn progress() -> ProgressBar {
    let visible = std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(100), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% of the probes, {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// What it behaves like, in words.
fn what(calibration: &Calibration) -> &'static str {
    match calibration.kind {
        Kind::Disk => "behaves like a disk: requests that do not continue wait for it to position",
        Kind::Ssd => "behaves like an SSD: order and distance do not matter",
        Kind::CappedVolume => "behaves like a capped volume: it is faster than it may be",
    }
}

fn caps(calibration: &Calibration) -> (Option<Cap>, Option<Cap>) {
    match &calibration.device.model {
        Model::Measured(measured) => (measured.operations, measured.bytes),
        _ => (None, None),
    }
}

fn table(target: &str, output: &Path, calibration: &Calibration, effort: Effort) -> String {
    let mut out = format!("{target} {}\n\n", what(calibration));
    let mut line = |label: &str, estimate: Estimate, unit: &str| {
        let percent = if estimate.value > 0.0 {
            format!("  +- {:.1}%", 100.0 * estimate.error / estimate.value)
        } else {
            String::new()
        };
        let _ = writeln!(out, "  {label:<34}{:>12.3} {unit:<6}{percent}", estimate.value);
    };
    for (bytes, estimate) in &calibration.alone_ms {
        line(&format!("{} alone, in order", human_bytes(*bytes)), *estimate, "ms");
    }
    line("positioning", calibration.positioning_ms, "ms");
    for (bytes, estimate) in &calibration.busy_ms {
        line(&format!("{} at random, 32 in flight", human_bytes(*bytes)), *estimate, "ms");
    }
    line("small requests at a time", calibration.channels, "");
    let rate = calibration.bytes_per_s;
    line("rate", Estimate { value: rate.value / 1e6, error: rate.error / 1e6 }, "MB/s");
    let (operations, bytes) = caps(calibration);
    if let Some(cap) = operations {
        let _ = writeln!(
            out,
            "  capped at {} operations a second{}",
            cap.per_s,
            burst(cap, |b| format!("{b} operations"))
        );
    }
    if let Some(cap) = bytes {
        let _ = writeln!(out, "  capped at {:.1} MB/s{}", cap.per_s as f64 / 1e6, burst(cap, human_bytes));
    }
    if let Some(revolution_ms) = calibration.revolution_ms {
        let _ =
            writeln!(out, "  times at random spread like {:.0} revolutions a minute", 60e3 / revolution_ms);
    }
    for misfit in &calibration.misfits {
        let _ = writeln!(out, "  does not fit the model: {misfit}");
    }
    let _ = writeln!(
        out,
        "\n{} read in {:.1} s; wrote {}",
        human_bytes(effort.bytes),
        effort.time.as_secs_f64(),
        output.display()
    );
    out.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn burst(cap: Cap, words: impl Fn(u64) -> String) -> String {
    if cap.burst > 0 { format!(", after a burst of {}", words(cap.burst)) } else { String::new() }
}

/// What was found, as JSON: ms, bytes and bytes a second.
#[derive(Serialize)]
struct Json<'a> {
    target: &'a str,
    device_file: &'a Path,
    behaves_like: &'static str,
    alone: Vec<PointJson>,
    busy: Vec<PointJson>,
    positioning: EstimateJson,
    channels: EstimateJson,
    bytes_per_s: EstimateJson,
    operations_cap: Option<CapJson>,
    bytes_cap: Option<CapJson>,
    revolution_ms: Option<f64>,
    misfits: Vec<String>,
    read_bytes: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct PointJson {
    bytes: u64,
    ms: f64,
    error_ms: f64,
}

#[derive(Serialize)]
pub(super) struct EstimateJson {
    pub(super) value: f64,
    pub(super) error: f64,
}

#[derive(Serialize)]
struct CapJson {
    per_s: u64,
    burst: u64,
}

impl<'a> Json<'a> {
    fn new(args: &'a Args, calibration: &Calibration, effort: Effort) -> Json<'a> {
        let points = |points: &[(u64, Estimate)]| {
            points
                .iter()
                .map(|(bytes, e)| PointJson { bytes: *bytes, ms: e.value, error_ms: e.error })
                .collect()
        };
        let estimate = |e: Estimate| EstimateJson { value: e.value, error: e.error };
        let (operations, bytes) = caps(calibration);
        let cap = |cap: Cap| CapJson { per_s: cap.per_s, burst: cap.burst };
        Json {
            target: &args.target,
            device_file: &args.output,
            behaves_like: match calibration.kind {
                Kind::Disk => "disk",
                Kind::Ssd => "ssd",
                Kind::CappedVolume => "capped volume",
            },
            alone: points(&calibration.alone_ms),
            busy: points(&calibration.busy_ms),
            positioning: estimate(calibration.positioning_ms),
            channels: estimate(calibration.channels),
            bytes_per_s: estimate(calibration.bytes_per_s),
            operations_cap: operations.map(cap),
            bytes_cap: bytes.map(cap),
            revolution_ms: calibration.revolution_ms,
            misfits: calibration.misfits.iter().map(ToString::to_string).collect(),
            read_bytes: effort.bytes,
            seconds: effort.time.as_secs_f64(),
        }
    }
}
