//! A device with files on it, calibrated, on which jobs are run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use foretell_analytic::calibrate::device_file;
use foretell_analytic::predict::predict;
use foretell_cgroup::{Controller, ThrottledGroup};
use foretell_device::DeviceParameters;
use foretell_probe::Target;
use foretell_slowdisk::Timing;
use serde::{Deserialize, Serialize};

use super::super::{Bench, MIB, Place, files};
use super::job::{Job, Path};
use crate::cold;
use crate::janitor::Undo;
use crate::program::{group_name, read_report};
use crate::reader::BLOCK_BYTES;

/// Files, one for each stream.
const FILES: usize = 4;
/// Bytes of each.
pub(crate) const FILE_BYTES: u64 = 128 * MIB;

/// What stands behind the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The machine's own disk.
    Own,
    /// The machine's own disk, held back to this many bytes a second.
    Throttled { bytes_per_s: u64 },
    /// 8 ms to position, one request at a time.
    Seeking,
    /// 1 ms a request, eight at a time.
    Parallel,
}

impl Kind {
    pub(crate) fn label(self) -> String {
        match self {
            Kind::Own => "own disk".to_owned(),
            Kind::Throttled { bytes_per_s } => format!("own disk at {} MB/s", bytes_per_s / 1_000_000),
            Kind::Seeking => "8 ms disk".to_owned(),
            Kind::Parallel => "1 ms x 8".to_owned(),
        }
    }
}

/// A device that is ready.
pub(crate) struct Stage<'b> {
    bench: &'b Bench,
    pub(crate) kind: Kind,
    place: Place,
    files: Vec<PathBuf>,
    group: Option<ThrottledGroup>,
}

impl<'b> Stage<'b> {
    pub(crate) fn prepare(bench: &'b Bench, kind: Kind) -> Result<Stage<'b>> {
        let place = match kind {
            Kind::Own | Kind::Throttled { .. } => bench.own_disk()?,
            Kind::Seeking => bench.slow_device("seeking", Timing::disk_8ms(), FILES as u64 * FILE_BYTES)?,
            Kind::Parallel => {
                bench.slow_device("parallel", Timing::cloud_1ms(), FILES as u64 * FILE_BYTES)?
            }
        };
        let files: Vec<PathBuf> = (0..FILES)
            .map(|i| place.directory.join(format!("{}-{i}", kind.label().replace(['/', ' '], "-"))))
            .collect();
        for file in &files {
            files::make(file, FILE_BYTES / BLOCK_BYTES)?;
        }
        let group = match kind {
            Kind::Throttled { bytes_per_s } => {
                let group = foretell_cgroup::Place::find(Controller::Io, &group_name("throttled"))?;
                bench.janitor.remember_once(Undo::Group { path: group.path().to_owned() })?;
                Some(ThrottledGroup::new(group, &place.device.numbers()?, bytes_per_s)?)
            }
            _ => None,
        };
        Ok(Stage { bench, kind, place, files, group })
    }

    /// Calibrates the first file, as `foretell model calibrate` does it; what was found, and at what price.
    pub(crate) fn calibrate(&self) -> Result<(DeviceParameters, Effort)> {
        let launcher = &self.bench.launcher;
        let output = launcher.scratch().join("calibrated.toml");
        let mut command = self.in_group(launcher.own_program().to_owned());
        command.arg("calibrate").arg(&self.files[0]).arg(&output);
        let ended = command.stdin(Stdio::null()).output().context("cannot start the calibration")?;
        ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim());
        let text = std::fs::read_to_string(&output)?;
        let device = DeviceParameters::parse(&text).map_err(|e| anyhow!("{}: {e}", output.display()))?;
        Ok((device, serde_json::from_slice(&ended.stdout)?))
    }

    /// Runs a job once, from a cold start; its time in ms.
    pub(crate) fn run(&self, job: &Job) -> Result<f64> {
        if let Path::Kernel { read_ahead_kb } = job.path {
            self.place.device.set_read_ahead_kb(&self.bench.janitor, read_ahead_kb)?;
        }
        for file in self.files.iter().take(job.streams as usize) {
            cold::evict(file)?;
        }
        let (command, report) = self.bench.launcher.reader("patterned", job.arguments(&self.files));
        let (program, arguments) = command.split_first().context("an empty command")?;
        let ended = self.in_group(program.into()).args(arguments).stdin(Stdio::null()).output()?;
        ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim());
        Ok(read_report(&report)?.elapsed_s * 1e3)
    }

    fn in_group(&self, program: PathBuf) -> Command {
        match &self.group {
            None => Command::new(program),
            Some(group) => {
                let mut command = Command::new(self.bench.launcher.own_program());
                command.arg("in-group").arg(group.procs()).arg("--").arg(program);
                command
            }
        }
    }
}

/// What a calibration took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Effort {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
}

/// Calibrates `file`, writes the device file `output`, and prints the [`Effort`] as JSON.
pub(crate) fn calibrate(file: &std::path::Path, output: &std::path::Path) -> Result<()> {
    let target = Target::open(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    let (found, effort) =
        foretell_probe::calibrate(&target, |_| {}).map_err(|e| anyhow!("{}: {e}", file.display()))?;
    std::fs::write(output, device_file(&found, "calibrated", "the device of a benchmark", "measured"))
        .with_context(|| format!("cannot write {}", output.display()))?;
    let effort = Effort { seconds: effort.time.as_secs_f64(), bytes: effort.bytes };
    println!("{}", serde_json::to_string(&effort)?);
    Ok(())
}

/// The model's time of a job, in ms.
pub(crate) fn predicted_ms(device: &DeviceParameters, job: &Job) -> Result<f64> {
    let prediction = predict(device, &job.workload(FILE_BYTES));
    Ok(prediction.map_err(|e| anyhow!("{}: {e}", job.label()))?.time_ms)
}
