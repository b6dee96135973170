//! Running a program in a cgroup, on the plain kernel or under `foretell run`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use foretell_cgroup::{Controller, MemoryGroup, Place};
use serde_json::Value;

use crate::janitor::{Janitor, Undo};
use crate::reader::Report;

/// Who looks after the cache of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Steering {
    /// The kernel alone.
    Kernel,
    /// `foretell run` with these arguments.
    Foretell(Vec<OsString>),
    /// `foretell learn` with these arguments.
    Learn(Vec<OsString>),
}

/// A program and how it is run.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Its name in cgroup and file names.
    pub(crate) name: String,
    /// The command; a reader's report is added to it by the caller.
    pub(crate) command: Vec<OsString>,
    pub(crate) steering: Steering,
    /// Memory of the program and what steers its cache, together.
    pub(crate) limit_bytes: u64,
    /// Where the reader writes its report.
    pub(crate) report: Option<PathBuf>,
}

/// What one run gave.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    /// From the start of the command to its end: with `foretell run`, its own start and end included.
    pub(crate) wall_s: f64,
    pub(crate) report: Option<Report>,
    /// The statistics of `foretell run --stats`.
    pub(crate) stats: Option<Value>,
    pub(crate) peak_bytes: Option<u64>,
    /// What the program, and foretell, wrote to standard error.
    pub(crate) words: String,
}

/// Starts programs.
#[derive(Debug)]
pub(crate) struct Launcher {
    own_program: PathBuf,
    foretell: Option<PathBuf>,
    further_arguments: Vec<String>,
    /// For reports and statistics.
    scratch: PathBuf,
}

/// A program that is running.
#[derive(Debug)]
pub(crate) struct Running {
    job: Job,
    child: Child,
    started: Instant,
    group: MemoryGroup,
    stats: PathBuf,
    /// What it wrote to its standard error.
    words: PathBuf,
}

impl Launcher {
    /// `foretell` is `None` if only the kernel is measured.
    pub(crate) fn new(
        foretell: Option<PathBuf>,
        further_arguments: Vec<String>,
        scratch: PathBuf,
    ) -> Result<Self> {
        let own_program = std::env::current_exe().context("cannot find the running program")?;
        if let Some(path) = &foretell {
            ensure!(
                path.is_file(),
                "{} is not there: build it first (./x build), or measure the kernel only (--kernel-only)",
                path.display()
            );
        }
        Ok(Self { own_program, foretell, further_arguments, scratch })
    }

    /// The command of a reader that reports to a file of this name.
    pub(crate) fn reader<A: Into<OsString>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> (Vec<OsString>, PathBuf) {
        let report = self.scratch.join(format!("{name}.report.json"));
        let mut command: Vec<OsString> = vec![self.own_program.clone().into(), "reader".into()];
        command.extend(arguments.into_iter().map(Into::into));
        command.extend(["--report".into(), report.clone().into()]);
        (command, report)
    }

    /// The foretell command, unless only the kernel is measured.
    pub(crate) fn foretell(&self) -> Option<&Path> {
        self.foretell.as_deref()
    }

    /// A directory for small files of a benchmark.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// This program, which is also the reader.
    pub(crate) fn own_program(&self) -> &Path {
        &self.own_program
    }

    /// Starts a job.
    pub(crate) fn start(&self, janitor: &Janitor, job: Job) -> Result<Running> {
        let place = Place::find(Controller::Memory, &group_name(&job.name))?;
        janitor.remember_once(Undo::Group { path: place.path().to_owned() })?;
        let group = MemoryGroup::new(place, Some(job.limit_bytes))?;
        let stats = self.scratch.join(format!("{}.stats.json", job.name));
        for old in job.report.iter().chain([&stats]) {
            match std::fs::remove_file(old) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", old.display()));
                }
                _ => {}
            }
        }
        let mut command = Command::new(&self.own_program);
        command.arg("in-group").arg(group.procs()).arg("--");
        let foretell = match &job.steering {
            Steering::Kernel => None,
            Steering::Foretell(arguments) => Some((&["run", "--strict", "--quiet"][..], arguments)),
            Steering::Learn(arguments) => Some((&["learn"][..], arguments)),
        };
        if let Some((subcommand, arguments)) = foretell {
            let foretell = self.foretell.as_ref().context("this run needs the foretell command")?;
            command.arg(foretell).args(subcommand).arg("--stats").arg(&stats);
            command.args(arguments).args(&self.further_arguments).arg("--");
        }
        command.args(&job.command).stdin(Stdio::null()).stdout(Stdio::null());
        let words = self.scratch.join(format!("{}.stderr", job.name));
        let file =
            std::fs::File::create(&words).with_context(|| format!("cannot write {}", words.display()))?;
        command.stderr(file);
        let started = Instant::now();
        let child = command.spawn().context("cannot start the program")?;
        Ok(Running { job, child, started, group, stats, words })
    }

    /// Runs a job to its end.
    pub(crate) fn run(&self, janitor: &Janitor, job: Job) -> Result<Finished> {
        self.start(janitor, job)?.finish()
    }
}

impl Running {
    /// Waits for the end and collects what there is to know.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let status = self.child.wait().context("cannot wait for the program")?;
        let wall_s = self.started.elapsed().as_secs_f64();
        let words = std::fs::read_to_string(&self.words).unwrap_or_default();
        if !status.success() {
            bail!("{} ended with {status}: {}", self.job.name, words.trim());
        }
        let report = match &self.job.report {
            Some(path) => Some(read_report(path)?),
            None => None,
        };
        let stats = match self.job.steering {
            Steering::Kernel => None,
            Steering::Foretell(_) | Steering::Learn(_) => Some(read_json(&self.stats)?),
        };
        Ok(Finished { wall_s, report, stats, peak_bytes: self.group.peak_bytes(), words })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group's own end takes whatever is still in it; this only collects it.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The name of a group of ours: several benchmarks may run at a time.
pub(crate) fn group_name(name: &str) -> String {
    format!("foretell-bench-{}-{name}", std::process::id())
}

/// A reader's report.
pub(crate) fn read_report(path: &Path) -> Result<Report> {
    Ok(serde_json::from_value(read_json(path)?)?)
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}

/// Enters a cgroup, then becomes the command: so that all memory it ever uses is charged to the group.
pub(crate) fn enter_group_and_run(procs: &Path, command: &[OsString]) -> Result<ExitCode> {
    std::fs::write(procs, std::process::id().to_string())
        .with_context(|| format!("cannot enter the cgroup of {}", procs.display()))?;
    let [program, arguments @ ..] = command else { bail!("no command") };
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
