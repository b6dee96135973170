//! Two controlled processes, one of them foolish: the experiment of Cao, Felten and Li 1994, section 6.1,
//! on real files.
//!
//! ReadN reads its first N blocks five times, then the next N. Read300 is oblivious under LRU and foolish
//! under MRU; the other one, Read390 or Read490, is under LRU, and its fetches tell whether it keeps its
//! share of the 819 blocks. Each has a device of its own, which counts them.
//!
//! All sizes are ten times the paper's and each block takes some computing: at the paper's sizes a pass is
//! over in a millisecond today, and what is measured would be how the two happen to be scheduled.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, READ_AHEAD_KB, budget, common_metrics, files};
use crate::cold;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering, read_report};
use crate::reader::BLOCK_BYTES;

/// Blocks for each of the paper's.
const SCALE: u64 = 10;
/// Processor time of each process a block, which makes about 3 s of it in all.
const COMPUTE_US: u64 = 50;
/// Cache of the experiment.
const CACHE_BLOCKS: u64 = 819;
/// The foolish one's N and file: 1,310 fetches are compulsory.
const FOOLISH_GROUP: u64 = 300;
const FOOLISH_BLOCKS: u64 = 1310;
/// The other's N; its file is three times that.
const GROUPS: [u64; 2] = [390, 490];
/// Setting, policy of Read300, allocation policy.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("oblivious", "lru", "lru-sp"),
    ("unprotected (LRU-S)", "mru", "lru-s"),
    ("protected (LRU-SP)", "mru", "lru-sp"),
];

pub(crate) struct Foolish<'b> {
    bench: &'b Bench,
    foolish_place: Place,
    foolish_file: PathBuf,
    place: Place,
    files: [PathBuf; 2],
    /// The reader under two names, by which the rules tell the processes apart.
    foolish_program: PathBuf,
    program: PathBuf,
}

fn arm_name(setting: &str, group: u64) -> String {
    format!("Read{group}, {setting}")
}

impl<'b> Foolish<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        anyhow::ensure!(!bench.kernel_only, "this benchmark has no arm of the kernel alone");
        let timing = Timing::cloud_1ms();
        let foolish_place = bench.slow_device("foolish", timing, FOOLISH_BLOCKS * SCALE * BLOCK_BYTES)?;
        let place =
            bench.slow_device("other", timing, GROUPS.iter().sum::<u64>() * 3 * SCALE * BLOCK_BYTES)?;
        let foolish_file = foolish_place.directory.join("data");
        files::make(&foolish_file, FOOLISH_BLOCKS * SCALE)?;
        let files = GROUPS.map(|group| place.directory.join(format!("data{group}")));
        for (file, group) in files.iter().zip(GROUPS) {
            files::make(file, group * 3 * SCALE)?;
        }
        let scratch = bench.launcher.scratch();
        let (foolish_program, program) = (scratch.join("read300"), scratch.join("readn"));
        for name in [&foolish_program, &program] {
            symlink(bench.launcher.own_program(), name)
                .with_context(|| format!("cannot make {}", name.display()))?;
        }
        Ok(Self { bench, foolish_place, foolish_file, place, files, foolish_program, program })
    }

    /// Rules for each of the two by its name.
    fn configuration(&self, file: &Path, foolish_policy: &str) -> Result<PathBuf> {
        let path = self.bench.launcher.scratch().join("policy.toml");
        let text = format!(
            "[[process]]\nname = \"read300\"\nrules = [\"{}={foolish_policy}\"]\n\n\
             [[process]]\nname = \"readn\"\nrules = [\"{}=lru\"]\n",
            self.foolish_file.display(),
            file.display()
        );
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Case for Foolish<'_> {
    fn title(&self) -> String {
        format!(
            "Read390 and Read490 beside a Read{FOOLISH_GROUP}, {CACHE_BLOCKS} blocks of cache (Cao et al. 1994), all times {SCALE}"
        )
    }

    fn arms(&self) -> Vec<String> {
        let settings = SETTINGS.iter().map(|(setting, _, _)| setting);
        settings.flat_map(|setting| GROUPS.map(|group| arm_name(setting, group))).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (_, foolish_policy, allocation) = SETTINGS[arm / GROUPS.len()];
        let (group, file) = (GROUPS[arm % GROUPS.len()], &self.files[arm % GROUPS.len()]);
        for place in [&self.place, &self.foolish_place] {
            place.device.set_read_ahead_kb(&self.bench.janitor, READ_AHEAD_KB[0])?;
        }
        cold::evict(file)?;
        cold::evict(&self.foolish_file)?;
        let reports =
            ["read300", "readn"].map(|name| self.bench.launcher.scratch().join(name.to_owned() + ".json"));
        // $1, $2: the foolish one's program and file; $3, $4: the other's; $5, $6: the reports.
        let script = format!(
            "\"$1\" reader read-n \"$2\" --group {} --compute-us {COMPUTE_US} --report \"$5\" & first=$!\n\
             \"$3\" reader read-n \"$4\" --group {} --compute-us {COMPUTE_US} --report \"$6\" || exit\n\
             wait $first",
            FOOLISH_GROUP * SCALE,
            group * SCALE
        );
        let mut command: Vec<OsString> = ["/bin/sh", "-c", script.as_str(), "sh"].map(Into::into).to_vec();
        command.extend([&self.foolish_program, &self.foolish_file, &self.program, file].map(Into::into));
        command.extend(reports.iter().map(Into::into));
        let steering = Steering::Foretell(vec![
            "--budget".into(),
            budget(CACHE_BLOCKS * SCALE * BLOCK_BYTES),
            "--allocation".into(),
            allocation.into(),
            "--prefetch".into(),
            "none".into(),
            "--config".into(),
            self.configuration(file, foolish_policy)?.into(),
        ]);
        let job = Job {
            name: "pair".to_owned(),
            command,
            steering,
            // Ample: the budget decides here, not the group's limit.
            limit_bytes: CACHE_BLOCKS * SCALE * BLOCK_BYTES + self.bench.headroom_bytes + 64 * MIB,
            report: None,
        };
        let (before, foolish_before) = (self.place.read_blocks()?, self.foolish_place.read_blocks()?);
        let finished = self.bench.launcher.run(&self.bench.janitor, job)?;
        let device_blocks = self.place.read_blocks()? - before;
        let foolish_blocks = self.foolish_place.read_blocks()? - foolish_before;
        let mut measured = vec![
            ("device_blocks", device_blocks),
            ("device_blocks_scaled", device_blocks / SCALE as f64),
            ("program_s", read_report(&reports[1])?.elapsed_s),
            ("read300_device_blocks", foolish_blocks),
            ("read300_s", read_report(&reports[0])?.elapsed_s),
        ];
        measured.extend(common_metrics(&finished));
        Ok(measured)
    }

    /// Table 1 of the paper.
    fn references(&self) -> Vec<Reference> {
        let published = [
            ("oblivious", [1172.0, 1176.0]),
            ("unprotected (LRU-S)", [1300.0, 1465.0]),
            ("protected (LRU-SP)", [1170.0, 1199.0]),
        ];
        published
            .iter()
            .flat_map(|(setting, fetches)| {
                GROUPS.into_iter().zip(fetches).map(move |(group, fetches)| Reference {
                    what: format!("published fetches of {}", arm_name(setting, group)),
                    value: *fetches,
                })
            })
            .collect()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        GROUPS
            .into_iter()
            .filter_map(|group| {
                let blocks =
                    |setting: usize| outcome.median(&arm_name(SETTINGS[setting].0, group), "device_blocks");
                let (oblivious, protected) = (blocks(0)?, blocks(2)?);
                let what = format!("Read{group}'s fetches under LRU-SP, of those beside an oblivious one");
                Some(Verdict::at_most(what, protected / oblivious, 1.025))
            })
            .collect()
    }
}
