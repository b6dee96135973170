//! `foretell learn` on the first night before jobs that go through a tree and read next to nothing of its files: they wait for
//! names and inodes.
//!
//! What the kernel knows of a tree belongs to the memory cgroup of the process that made it, and can be taken back there
//! without disturbing other programs. So each run has a tree of its own, made by a process in a group, and the device's own
//! pages are dropped.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use foretell_cgroup::{Controller, MemoryGroup};
use foretell_slowdisk::Timing;

use super::first_night::{FirstNights, READ_AHEAD_KB};
use super::{Bench, Case, MIB, Place};
use crate::outcome::{Measured, Outcome, Reference, Verdict};

/// Directories in each other.
const WIDTHS: [u64; 2] = [400, 3];
/// The volume: the inodes of an ext4 of this size are enough for a tree.
const VOLUME_BYTES: u64 = 256 * MIB;
/// What a first night may take of the kernel's time.
const MOST: f64 = 0.6;
/// The jobs, for a shell that is in the tree.
const JOBS: [(&str, &str); 4] = [
    ("sizes", "du -s . | cksum"),
    ("new files", "find . -newermt 2000-01-01 | wc -l"),
    ("names", "find . -name '*.none' | wc -l"),
    ("by name", "ls -lR . | wc -l"),
];

pub(crate) struct Names<'b> {
    bench: &'b Bench,
    place: Place,
    directories: u64,
    nights: FirstNights,
}

impl<'b> Names<'b> {
    /// A volume, empty yet.
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let directories = (WIDTHS[0] / bench.shrink).max(20);
        let place = bench.slow_device("names", Timing::cloud_1ms(), VOLUME_BYTES)?;
        let nights = FirstNights::new(bench, "names", &JOBS);
        Ok(Names { bench, place, directories, nights })
    }

    /// A tree of which the kernel knows nothing, in place of the one before.
    fn tree(&self) -> Result<PathBuf> {
        let tree = self.place.directory.join("tree");
        if tree.exists() {
            std::fs::remove_dir_all(&tree)?;
        }
        let place = foretell_cgroup::Place::find(
            Controller::Memory,
            &format!("foretell-names-{}", std::process::id()),
        )?;
        let group = MemoryGroup::new(place, None)?;
        let make = format!(
            "echo $$ > '{}' && mkdir '{tree}' && cd '{tree}' && seq {} | sed 's|.*|&/e0 &/e1 &/e2|' | xargs mkdir -p && \
             find . -mindepth 2 -type d | sed 's|.*|&/1 &/2 &/3 &/4|' | xargs touch && sync",
            group.procs().display(),
            self.directories,
            tree = tree.display()
        );
        ensure!(Command::new("sh").args(["-c", &make]).status()?.success(), "the tree cannot be made");
        group.reclaim()?;
        // The blocks of the device that hold names and inodes belong to whoever has read them first.
        let device = std::fs::metadata(&tree)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let entry = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
        let device = Path::new("/dev").join(entry.file_name().unwrap_or_default());
        rustix::fs::fadvise(&std::fs::File::open(device)?, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(tree)
    }
}

impl Case for Names<'_> {
    fn title(&self) -> String {
        let directories = 1 + self.directories * (1 + WIDTHS[1]);
        format!("first nights: names and inodes of {directories} directories; 1 ms x 8 channels")
    }

    fn arms(&self) -> Vec<String> {
        self.nights.arms()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let job = self.nights.job(arm, &self.tree()?);
        self.place.run_cold(self.bench, &[], READ_AHEAD_KB, job)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        self.nights.verdicts(outcome, MOST)
    }
}
