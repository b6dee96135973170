//! `foretell learn` night after night before jobs that go through small files on a disk with an arm.
//!
//! The files of a tree lie side by side in the order in which they were written, and no program goes through them in that order: a
//! movement of the arm for each file, and for each directory, which tells of its files. Nothing is cached at first, not even a name:
//! the disk is mounted anew before each run.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use foretell_slowdisk::Timing;

use super::first_night::READ_AHEAD_KB;
use super::{Bench, Case, MIB, Place, files};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;

/// Memory for the programs, foretell and the files, of which all fit, and memory in which a third of them fits beside us.
const LIMIT_MIB: u64 = 250;
const LITTLE_MIB: u64 = 56;
/// The jobs: what their tree is, and what is done in it.
const JOBS: [Tree; 5] = [
    Tree { name: "messages", directories: 1, files: 3000, job: "tar cf - . | cksum", limit_mib: LIMIT_MIB },
    Tree {
        name: "in little memory",
        directories: 1,
        files: 3000,
        job: "tar cf - . | cksum",
        limit_mib: LITTLE_MIB,
    },
    Tree {
        name: "one in two",
        directories: 1,
        files: 3000,
        job: "ls | grep '[02468]$' | xargs cat | cksum",
        limit_mib: LIMIT_MIB,
    },
    Tree {
        name: "documents",
        directories: 600,
        files: 5,
        job: "find . -type f | xargs cat | cksum",
        limit_mib: LIMIT_MIB,
    },
    Tree {
        name: "the first 40",
        directories: 1,
        files: 1000,
        job: "ls -U | head -n 40 | xargs cat | cksum",
        limit_mib: LIMIT_MIB,
    },
];
/// Blocks of the smallest file, and how many more the largest one has.
const BLOCKS: [u64; 2] = [1, 4];
/// What is done with each job.
const NIGHTS: [&str; 4] = ["kernel", "night 1", "night 2", "night 3"];

/// Directories with so many files each, and a script for a shell that is in the first one above them.
struct Tree {
    name: &'static str,
    directories: u64,
    files: u64,
    job: &'static str,
    limit_mib: u64,
}

pub(crate) struct Trees<'b> {
    bench: &'b Bench,
    place: Place,
    /// Where foretell keeps what it learns.
    state: PathBuf,
    /// Nights of each job that it knows.
    known: [usize; JOBS.len()],
}

impl<'b> Trees<'b> {
    /// The trees, on a disk with an arm.
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let count =
            |tree: &Tree| ((tree.directories / bench.shrink).max(1), (tree.files / bench.shrink).max(4));
        let files: u64 = JOBS.iter().map(count).map(|(directories, files)| directories * files).sum();
        let bytes = files * (BLOCKS[0] + BLOCKS[1]) * BLOCK_BYTES + 64 * MIB;
        let place = bench.slow_device("trees", Timing::disk_8ms(), bytes)?;
        for (tree, (directories, files)) in JOBS.iter().map(|tree| (tree, count(tree))) {
            for directory in 0..directories {
                let path = place.directory.join(tree.name.replace(' ', "-"));
                let path = if directories > 1 { path.join(format!("d{directory:04}")) } else { path };
                std::fs::create_dir_all(&path)?;
                for file in 0..files {
                    files::make(
                        &path.join(format!("{file:05}")),
                        BLOCKS[0] + (directory + file) % BLOCKS[1],
                    )?;
                }
            }
        }
        let state = bench.launcher.scratch().join("trees-learnt");
        Ok(Trees { bench, place, state, known: [0; JOBS.len()] })
    }

    /// A job on a night, 0 for the kernel, with nothing cached.
    fn once(&self, tree: &Tree, night: usize) -> Result<Measured> {
        let name = tree.name.replace(' ', "-");
        let state = || self.state.clone().into();
        let steering = match night {
            0 => Steering::Kernel,
            _ => Steering::Learn(["--state".into(), state(), "--name".into(), name.clone().into()].into()),
        };
        let script = format!("cd '{}' && {}", self.place.directory.join(&name).display(), tree.job);
        let command: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
        let job = Job {
            name: "job".to_owned(),
            command,
            steering,
            limit_bytes: tree.limit_mib * MIB,
            report: None,
        };
        self.place.forget()?;
        self.place.run_cold(self.bench, &[], READ_AHEAD_KB, job)
    }
}

impl Case for Trees<'_> {
    fn title(&self) -> String {
        let trees = JOBS.map(|tree| format!("{} of {} directories", tree.name, tree.directories));
        format!("small files, nothing cached: {}; 8 ms disk", trees.join(", "))
    }

    fn arms(&self) -> Vec<String> {
        let nights = if self.bench.kernel_only { &NIGHTS[..1] } else { &NIGHTS[..] };
        let arms =
            |tree: &Tree| nights.iter().map(|night| format!("{}: {night}", tree.name)).collect::<Vec<_>>();
        JOBS.iter().flat_map(arms).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let nights = self.arms().len() / JOBS.len();
        let (at, night) = (arm / nights, arm % nights);
        if night == 0 {
            return self.once(&JOBS[at], 0);
        }
        if self.known[at] >= night {
            // As if nothing had been learnt yet.
            std::fs::remove_dir_all(&self.state)?;
            self.known = [0; JOBS.len()];
        }
        // In which order the arms come is not known.
        for before in self.known[at] + 1..night {
            self.once(&JOBS[at], before)?;
        }
        self.known[at] = night;
        self.once(&JOBS[at], night)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for tree in &JOBS {
            let wall = |night: &str| outcome.best(&format!("{}: {night}", tree.name), "wall_s");
            for night in &NIGHTS[1..] {
                if let (Some(ours), Some(kernels)) = (wall(night), wall(NIGHTS[0])) {
                    let what = format!("{}: {night}, elapsed, of the kernel's", tree.name);
                    verdicts.push(Verdict::at_most(&what, ours / kernels, 1.02));
                }
            }
        }
        verdicts
    }
}
