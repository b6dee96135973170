//! What benchmarks of first nights have in common: each job on the kernel alone and under a `foretell learn` that knows nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Bench, MIB};
use crate::outcome::{Outcome, Verdict};
use crate::program::{Job, Steering};

/// Memory for the programs, foretell and the files, of which all fit.
const LIMIT_MIB: u64 = 200;
/// The kernel's readahead, KiB: its default before Linux 6.18.
pub(super) const READ_AHEAD_KB: u32 = 128;

/// Jobs, each with its name and its script for a shell that is in the tree.
pub(super) struct FirstNights {
    jobs: &'static [(&'static str, &'static str)],
    kernel_only: bool,
    state: PathBuf,
}

impl FirstNights {
    pub(super) fn new(
        bench: &Bench,
        name: &str,
        jobs: &'static [(&'static str, &'static str)],
    ) -> FirstNights {
        let state = bench.launcher.scratch().join(format!("{name}-learnt"));
        FirstNights { jobs, kernel_only: bench.kernel_only, state }
    }

    pub(super) fn arms(&self) -> Vec<String> {
        let nights: &[&str] = if self.kernel_only { &["kernel"] } else { &["kernel", "night 1"] };
        self.jobs
            .iter()
            .flat_map(|(job, _)| nights.iter().map(move |night| format!("{job}: {night}")))
            .collect()
    }

    /// What an arm runs in a directory.
    pub(super) fn job(&self, arm: usize, directory: &Path) -> Job {
        let nights = self.arms().len() / self.jobs.len();
        let (_, script) = self.jobs[arm / nights];
        let steering = if arm.is_multiple_of(nights) {
            Steering::Kernel
        } else {
            // As if nothing had been learnt yet.
            let _ = std::fs::remove_dir_all(&self.state);
            Steering::Learn(
                ["--state".into(), self.state.clone().into(), "--name".into(), "job".into()].into(),
            )
        };
        let script = format!("cd '{}' && {script}", directory.display());
        let command: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
        Job { name: "job".to_owned(), command, steering, limit_bytes: LIMIT_MIB * MIB, report: None }
    }

    /// No first night may take more than `most` of the kernel's time.
    pub(super) fn verdicts(&self, outcome: &Outcome, most: f64) -> Vec<Verdict> {
        let of_the_kernels = |(job, _): &(&str, &str)| {
            let wall = |night: &str| outcome.best(&format!("{job}: {night}"), "wall_s");
            let what = format!("{job}: night 1, elapsed, of the kernel's");
            Some(Verdict::at_most(&what, wall("night 1")? / wall("kernel")?, most))
        };
        self.jobs.iter().filter_map(of_the_kernels).collect()
    }
}
