//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cases::SuiteArguments;
use crate::killed_job::KilledJob;
use crate::reader::ReaderArguments;

/// Benchmarks of the plain kernel against foretell, with the same total memory, from a cold start.
#[derive(Debug, Parser)]
#[command(name = "foretell-benchmarks", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to measure, and how often.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The benchmark.
    #[arg(value_enum, default_value = "cyclic")]
    pub(crate) name: Name,
    /// Rounds of each arm; medians of fewer than five mean little.
    #[arg(long, default_value_t = 5, value_parser = parse_rounds)]
    pub(crate) rounds: usize,
    /// Write the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run the kernel's arms only.
    #[arg(long)]
    pub(crate) kernel_only: bool,
    /// The foretell command [default: beside this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) foretell: Option<PathBuf>,
    /// A directory on the machine's own disk for the files of the `-disk` benchmarks
    /// [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Memory of every arm beyond the cache's budget: room for the program and for foretell itself (its event ring, its
    /// tables; docs/results/cost.md). The kernel may use it as cache.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) headroom_mib: u64,
    /// Divide the sizes of files, budgets and runs by this, for a quick look; results mean less.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) shrink: u64,
    /// For `kills`: how many of them, in all rounds together.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kills: u64,
    /// For `kills`: whence their moments come.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Run only the arms whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
    /// Further arguments for `foretell run`, as one word each.
    #[arg(long = "foretell-argument", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) foretell_arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) suite: SuiteArguments,
}

/// The benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// 128 MiB read cyclically five times, 60 MiB budget, MRU rule, 8 ms disk
    Cyclic,
    /// 256 MiB in a known random order, twice, 0.2 ms of compute a block, 64 MiB budget, 1 ms x 8 channels
    Random,
    /// 1 GiB once from beginning to end, no rule, 8 ms disk
    Sequential,
    /// `cyclic` on the machine's own disk
    CyclicDisk,
    /// `random` on the machine's own disk
    RandomDisk,
    /// `sequential` on the machine's own disk
    SequentialDisk,
    /// The cost of an 8 KiB read of cached data: alone, file not managed, file managed
    Hits,
    /// An uncontrolled program in its own cgroup beside a controlled scan
    Neighbour,
    /// Jobs that are only watched, and recorded: waiting for 1 ms x 8 channels, and reading cached data
    Watch,
    /// Unmodified jobs under foretell learn: first, second and a changed night, 1 ms x 8 channels
    Nights,
    /// `nights` on the 8 ms disk
    NightsDisk,
    /// Real programs under foretell learn, against three kernels, on three devices
    Suite,
    /// 160 MiB read four times in every way, by counts, no latency: never more device reads than without
    Reads,
    /// First nights of jobs that walk through a tree of small files
    Walks,
    /// First nights of jobs that go through a tree and read nothing of its files
    Names,
    /// Trees of small files on the 8 ms disk, names and inodes cold: the first three nights
    Trees,
    /// Kills at random moments of what runs a job: the job runs once and as without, and nothing is left
    Kills,
    /// Two controlled processes, one foolish, under LRU-SP and LRU-S
    Foolish,
    /// The strategies of OSDI 1994 through the service, each alone, 1 ms x 8 channels
    Strategies,
    /// Two to four of them at once
    Mixes,
    /// The calibrated model against real reads: machine's disk, slow devices, a throttled disk
    ModelReality,
    /// What the model advises against a sweep of the setting, on slow devices
    ModelAdvice,
    /// How far calibrations of the same slow device differ
    ModelCalibration,
    /// Programs and their translations by foretell slice, 8 ms disk and 1 ms x 8 channels
    Slice,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}

/// What this binary does for its own benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The program that is measured
    #[command(hide = true)]
    Reader(ReaderArguments),
    /// The job of `kills`
    #[command(hide = true)]
    KilledJob(KilledJob),
    /// Enters a cgroup and becomes the command
    #[command(hide = true)]
    InGroup {
        /// The group's list of processes.
        procs: PathBuf,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Runs programs together, with the service beside them or without
    #[command(hide = true)]
    Together {
        /// What to run, as JSON.
        description: PathBuf,
    },
    /// Calibrates a file, as a process that a cgroup can hold back
    #[command(hide = true)]
    Calibrate {
        /// The file.
        file: PathBuf,
        /// The device file to write.
        output: PathBuf,
    },
    /// The helper process of a slow device
    #[command(hide = true)]
    SlowdiskHelper,
    /// Cleans up when the benchmark has ended, however it ended
    #[command(hide = true)]
    Janitor,
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=1000) => Ok(rounds),
        _ => Err("a number between 1 and 1000".to_owned()),
    }
}
