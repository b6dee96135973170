//! `foretell learn` on the first night before jobs that walk through a tree of small files, in every order that programs
//! have, and one that has none; and before jobs that go through a large file.
//!
//! What the files hold is cold; their names and inodes are not, as nothing but a file's pages can be dropped from the
//! cache without disturbing other programs.

use std::path::PathBuf;

use anyhow::Result;
use foretell_slowdisk::Timing;

use super::first_night::{FirstNights, READ_AHEAD_KB};
use super::{Bench, Case, Place, files};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::reader::BLOCK_BYTES;

/// The tree: directories in each other, and files in each.
const WIDTHS: [u64; 2] = [40, 5];
const FILES: u64 = 12;
/// Blocks of the large file: 48 MiB.
const LARGE_BLOCKS: u64 = 6 << 10;
/// Blocks of the smallest and the largest file.
const BLOCKS: [u64; 2] = [1, 8];
/// 4,000 times 100 bytes of any page of it.
const LOOK_UPS: &str = "perl -e 'srand 1; open F, \"<\", shift; $p = (-s F) / 4096; \
    for (1..4000) { sysseek F, 4096 * int rand $p, 0; sysread F, $b, 100; $n += length $b } print $n' ../large";
/// What a first night may take of the kernel's time.
const MOST: f64 = 1.02;
/// The jobs, for a shell that is in the tree.
const JOBS: [(&str, &str); 10] = [
    ("as listed", "tar cf - . | cksum"),
    ("searched", "grep -rc foretell . | cksum"),
    ("by name", "find . -type f | sort | xargs cat | cksum"),
    ("four at a time", "find . -type f | xargs -P4 -n8 cksum | cksum"),
    ("one kind of three", "find . -name '*.a' | xargs cat | cksum"),
    ("beginnings", "find . -type f | xargs head -qc 100 | cksum"),
    ("in no order", "find . -type f | sort -R --random-source=/proc/self/exe | xargs cat | cksum"),
    ("in sequence", "cksum ../large"),
    ("from the end", "tac ../large | cksum"),
    ("here and there", LOOK_UPS),
];

pub(crate) struct Walks<'b> {
    bench: &'b Bench,
    place: Place,
    tree: PathBuf,
    paths: Vec<PathBuf>,
    nights: FirstNights,
}

impl<'b> Walks<'b> {
    /// The tree, on a volume.
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let directories = (WIDTHS[0] / bench.shrink).max(4) * WIDTHS[1];
        let large_blocks = LARGE_BLOCKS / bench.shrink;
        let bytes = (directories * FILES * BLOCKS[1] + large_blocks) * BLOCK_BYTES;
        let place = bench.slow_device("walks", Timing::cloud_1ms(), bytes)?;
        let tree = place.directory.join("tree");
        let mut paths = Vec::new();
        for at in 0..directories {
            let directory = tree.join(format!("d{:03}", at / WIDTHS[1])).join(format!("e{}", at % WIDTHS[1]));
            std::fs::create_dir_all(&directory)?;
            for file in 0..FILES {
                let path = directory.join(format!("file-{file}.{}", ["a", "b", "c"][file as usize % 3]));
                files::make(&path, BLOCKS[0] + (at + file) % BLOCKS[1])?;
                paths.push(path);
            }
        }
        let large = place.directory.join("large");
        files::make(&large, large_blocks)?;
        paths.push(large);
        let nights = FirstNights::new(bench, "walks", &JOBS);
        Ok(Walks { bench, place, tree, paths, nights })
    }
}

impl Case for Walks<'_> {
    fn title(&self) -> String {
        format!(
            "first nights: {} small files in {} directories, and a large one; 1 ms x 8 channels",
            self.paths.len() - 1,
            self.paths.len() as u64 / FILES
        )
    }

    fn arms(&self) -> Vec<String> {
        self.nights.arms()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let job = self.nights.job(arm, &self.tree);
        self.place.run_cold(self.bench, &self.paths, READ_AHEAD_KB, job)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        self.nights.verdicts(outcome, MOST)
    }
}
