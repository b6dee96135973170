//! `foretell learn` before jobs that it knows nothing of: night after night, and a night on which the job is another.
//!
//! The jobs are scripts of the system's own programs, each of which goes through a set of files three times with memory
//! for about half of it: large files one after the other, thousands of small ones, and four programs at a time. The
//! nights are those of their users: the first is watched, the second is steered if foretell finds it worth while; on the
//! changed night the job reads half of the files only, in the opposite order, and on the shuffled one all of them once, in an
//! order that never was, the same for both sides.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, files};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;

/// Memory beside what the files are given: the programs, foretell, the kernel's own, MiB.
const BESIDE_MIB: u64 = 40;
/// The kernel's readahead, KiB: its default.
const READ_AHEAD_KB: u32 = 128;
/// How the three jobs go through their files.
const SETS: [Set; 3] = [
    Set { name: "large", files: 12, blocks: 1024, at_a_time: 1 },
    Set { name: "small", files: 3000, blocks: 4, at_a_time: 1 },
    Set { name: "four at a time", files: 48, blocks: 256, at_a_time: 4 },
];
/// What is done with each of them.
const NIGHTS: [Night; 7] = [
    Night::Kernel,
    Night::Watched,
    Night::Steered,
    Night::KernelChanged,
    Night::Changed,
    Night::KernelShuffled,
    Night::Shuffled,
];
/// Those of the kernel alone.
const KERNELS: [Night; 3] = [Night::Kernel, Night::KernelChanged, Night::KernelShuffled];

/// A set of files, and how many programs read it at a time.
#[derive(Debug, Clone, Copy)]
struct Set {
    name: &'static str,
    files: u64,
    blocks: u64,
    at_a_time: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Night {
    Kernel,
    Watched,
    Steered,
    KernelChanged,
    Changed,
    KernelShuffled,
    Shuffled,
}

impl Night {
    /// The same job on the kernel alone.
    fn kernels(self) -> Night {
        match self {
            Night::Changed | Night::KernelChanged => Night::KernelChanged,
            Night::Shuffled | Night::KernelShuffled => Night::KernelShuffled,
            Night::Kernel | Night::Watched | Night::Steered => Night::Kernel,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Night::Kernel => "kernel",
            Night::Watched => "night 1",
            Night::Steered => "night 2",
            Night::KernelChanged => "changed job on the kernel",
            Night::Changed => "changed night",
            Night::KernelShuffled => "shuffled job on the kernel",
            Night::Shuffled => "shuffled night",
        }
    }
}

pub(crate) struct Nights<'b> {
    bench: &'b Bench,
    place: Place,
    device: &'static str,
    paths: Vec<Vec<PathBuf>>,
    /// Where foretell keeps what it learns.
    state: PathBuf,
}

impl<'b> Nights<'b> {
    /// The files, on a disk with an arm or on a volume.
    pub(crate) fn prepare(bench: &'b Bench, disk: bool) -> Result<Self> {
        let (timing, device) =
            if disk { (Timing::disk_8ms(), "8 ms disk") } else { (Timing::cloud_1ms(), "1 ms x 8 channels") };
        let bytes = SETS.iter().map(|set| set.files * set.blocks * BLOCK_BYTES / bench.shrink).sum();
        let place = bench.slow_device("nights", timing, bytes)?;
        let mut paths = Vec::new();
        for set in SETS {
            let directory = place.directory.join(set.name.replace(' ', "-"));
            std::fs::create_dir(&directory)?;
            let files = (set.files / bench.shrink).max(4);
            let made = (0..files).map(|at| {
                let path = directory.join(format!("{at:05}"));
                files::make(&path, set.blocks)?;
                Ok(path)
            });
            paths.push(made.collect::<Result<Vec<PathBuf>>>()?);
        }
        let state = bench.launcher.scratch().join("learnt");
        Ok(Nights { bench, place, device, paths, state })
    }

    /// The job: three times through the files, once through half of them backwards, or through all in another order.
    fn command(&self, set: usize, night: Night) -> Vec<OsString> {
        let directory = self.paths[set][0].parent().unwrap_or(&self.place.directory).display().to_string();
        let Set { at_a_time, .. } = SETS[set];
        let sum = format!("xargs -P{at_a_time} -n8 cat");
        let script = match night.kernels() {
            Night::KernelChanged => {
                let half = self.paths[set].len() / 2;
                format!("ls -d '{directory}'/* | tail -n {half} | sort -r | {sum} | cksum")
            }
            Night::KernelShuffled => {
                format!("ls -d '{directory}'/* | shuf --random-source=/proc/self/exe | {sum} | cksum")
            }
            _ => format!("for i in 1 2 3; do ls -d '{directory}'/* | {sum}; done | cksum"),
        };
        vec!["sh".into(), "-c".into(), script.into()]
    }

    fn steering(&self, set: usize, how: Option<&str>) -> Steering {
        let mut arguments: Vec<OsString> =
            vec!["--state".into(), self.state.clone().into(), "--name".into(), format!("set{set}").into()];
        if let Some(how) = how {
            arguments.extend(["--as".into(), how.into()]);
        }
        Steering::Learn(arguments)
    }

    fn once(&self, set: usize, steering: Steering, night: Night) -> Result<Measured> {
        let bytes = self.paths[set].len() as u64 * SETS[set].blocks * BLOCK_BYTES;
        let job = Job {
            name: "job".to_owned(),
            command: self.command(set, night),
            steering,
            limit_bytes: bytes / 2 + BESIDE_MIB * MIB,
            report: None,
        };
        self.place.run_cold(self.bench, &self.paths[set], READ_AHEAD_KB, job)
    }
}

impl Case for Nights<'_> {
    fn title(&self) -> String {
        let sets = SETS.map(|set| format!("{} x {} KiB", set.files, set.blocks * BLOCK_BYTES / 1024));
        format!("unmodified jobs, three times through {}; memory for half; {}", sets.join(", "), self.device)
    }

    fn arms(&self) -> Vec<String> {
        let nights = NIGHTS.iter().filter(|night| !self.bench.kernel_only || KERNELS.contains(night));
        let nights: Vec<&Night> = nights.collect();
        let arms =
            SETS.iter().flat_map(|set| nights.iter().map(|night| format!("{}: {}", set.name, night.name())));
        arms.collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let each = self.arms().len() / SETS.len();
        let (set, night) = (arm / each, arm % each);
        let night = if self.bench.kernel_only { KERNELS[night] } else { NIGHTS[night] };
        if KERNELS.contains(&night) {
            return self.once(set, Steering::Kernel, night);
        }
        // As if nothing had been learnt yet.
        let _ = std::fs::remove_dir_all(self.state.join("jobs").join(format!("set{set}")));
        if night != Night::Watched {
            // Learnt by heart: what a night before would have left.
            self.once(set, self.steering(set, Some("watch")), Night::Watched)?;
        }
        self.once(set, self.steering(set, None), night)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for set in SETS {
            let wall = |night: Night| outcome.best(&format!("{}: {}", set.name, night.name()), "wall_s");
            for night in NIGHTS.into_iter().filter(|night| !KERNELS.contains(night)) {
                if let (Some(ours), Some(kernels)) = (wall(night), wall(night.kernels())) {
                    let what = format!("{}: {}, elapsed, of the kernel's", set.name, night.name());
                    verdicts.push(Verdict::at_most(&what, ours / kernels, 1.02));
                }
            }
        }
        verdicts
    }
}
