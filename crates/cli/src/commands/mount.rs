//! `foretell mount`: objects of a store as files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use foretell_buffers::{Options, Pool};
use foretell_mount::{Guard, Mounted};
use globset::{GlobBuilder, GlobMatcher};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::rule::{self, Rule};
use crate::signals::ignored_signals;
use crate::size::Size;
use crate::terminal::{say, warn};

/// The hidden subcommand of the process that unmounts when this one is killed.
pub const GUARD: &str = "guard";
/// How often it is looked whether somebody else has unmounted it.
const LOOKED: Duration = Duration::from_millis(200);
/// A run of a job ends when no file has been open for so long: programs look at what they do next for seconds at most.
const IDLE: Duration = Duration::from_secs(10);
/// The longest that a listing may be believed: no one needs more.
const MOST_BELIEVED_S: u64 = 365 * 86_400;

/// Mount objects of a store as files, for programs that know only files: read-only, what is read in order is read ahead.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Credentials come from the environment, as the stores' own tools have them, and from --option.\n\
    It is unmounted by Ctrl-C, by 'umount', and when this program ends in any other way.\n\n\
    Examples:\n  \
    foretell mount s3://bucket/images /mnt/images\n  \
    foretell mount s3://bucket /mnt/bucket --option endpoint=http://127.0.0.1:9000 --option allow_http=true\n  \
    foretell mount s3://bucket /mnt/bucket --rule '**/*.idx=lru,priority=1' --profile ~/.cache/nightly\n  \
    foretell mount gs://bucket /mnt/bucket --memory 4G --disk-dir /var/tmp --disk 100G"
)]
pub struct Args {
    /// A bucket, or a path in it: s3://BUCKET/PATH, also gs, az, file
    url: String,

    /// Where to mount it: a directory that is there
    directory: PathBuf,

    /// Memory for what is read ahead and read again, beside the page cache, as 64M or 1.5G
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: String,

    /// What is fetched as one, at least
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    part: String,

    /// Keep what memory has no room for in this directory, in a file that goes with this program
    #[arg(long, value_name = "DIR", requires = "disk")]
    disk_dir: Option<PathBuf>,

    /// How much of it
    #[arg(long, value_name = "SIZE", requires = "disk_dir")]
    disk: Option<String>,

    /// How long names, lengths and listings are believed before the store is asked again, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=MOST_BELIEVED_S))]
    believe: u64,

    /// Which files stay longer, and what of them goes first: GLOB=POLICY[,priority=N] as for 'foretell run', below DIRECTORY; may be
    /// repeated
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,

    /// Keep in this file what a job reads here, and fetch it ahead when the job comes again
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// An option of the store, as the crate object_store names it: endpoint, region, skip_signature; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    option: Vec<String>,

    /// Let other users read, too
    #[arg(long)]
    allow_other: bool,
}

/// Mounts, and serves until it is unmounted.
///
/// # Errors
/// What was asked for is wrong, or the kernel refuses.
pub fn execute(args: &Args) -> Result<u8> {
    let mut chosen = Options::new(bytes("--memory", &args.memory)?);
    chosen.part_bytes = u32::try_from(bytes("--part", &args.part)?).unwrap_or(u32::MAX);
    chosen.disk_dir = args.disk_dir.clone();
    chosen.disk_bytes = args.disk.as_ref().map_or(Ok(0), |size| bytes("--disk", size))?;
    for option in &args.option {
        let (name, value) = option
            .split_once('=')
            .with_context(|| format!("--option: '{option}' is none; NAME=VALUE is needed"))?;
        chosen.store.push((name.to_owned(), value.to_owned()));
    }
    let directory = std::fs::canonicalize(&args.directory)
        .with_context(|| format!("{}: nothing can be mounted there", args.directory.display()))?;
    let rules = rules(&args.rule, &directory)?;
    let profile = args.profile.as_ref().map(std::path::absolute).transpose().context("--profile")?;
    if let Some(profile) = profile.as_ref().filter(|profile| profile.starts_with(&directory)) {
        bail!(
            "--profile: {} would be hidden by what is mounted there; name another place",
            profile.display()
        );
    }
    // From here on a signal ends it in order.
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(wanted).context("cannot handle signals")?;
    let pool = Pool::new(chosen)?;
    let options = foretell_mount::Options {
        url: args.url.clone(),
        believed: Duration::from_secs(args.believe),
        allow_other: args.allow_other,
        policies: rules.iter().map(|(_, rule)| (rule.priority, rule.policy)).collect(),
        priority: Arc::new(move |path| {
            rules.iter().find(|(glob, _)| glob.is_match(path)).map(|(_, rule)| rule.priority)
        }),
        profile,
        idle: IDLE,
        complain: Arc::new(warn),
    };
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.args(["mount", GUARD]);
    let guard = Guard::start(command, &directory)?;
    let mounted = match Mounted::new(&pool, &directory, options) {
        Ok(mounted) => mounted,
        Err(error) => {
            guard.end();
            bail!(error);
        }
    };
    if let Some(remark) = pool.remark() {
        warn(&remark);
    }
    say(&format!("mounted at {0}; Ctrl-C or 'umount {0}' ends it\n", directory.display()));
    let (came, comes) = mpsc::channel();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().try_for_each(|signal| came.send(signal).ok()))
        .context("cannot start a thread")?;
    while matches!(comes.recv_timeout(LOOKED), Err(RecvTimeoutError::Timeout)) && !mounted.has_ended() {}
    mounted.unmount();
    guard.end();
    Ok(0)
}

/// Rules and their patterns of paths below the directory.
fn rules(given: &[String], directory: &Path) -> Result<Vec<(GlobMatcher, Rule)>> {
    let rules = given.iter().map(|text| Rule::parse(text)).collect::<Result<Vec<Rule>, _>>()?;
    rule::check(&rules)?;
    let of = |rule: Rule| {
        let glob = match rule.glob.strip_prefix('/') {
            None => rule.glob.trim_start_matches("./"),
            Some(_) => {
                let below = rule.glob.strip_prefix(&globset::escape(&directory.to_string_lossy()));
                let below = below.and_then(|below| below.strip_prefix('/'));
                below.with_context(|| {
                    let directory = directory.display();
                    format!("rule '{rule}': names nothing below {directory}; write a pattern without a slash before it")
                })?
            }
        };
        // It has been parsed once.
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .with_context(|| format!("rule '{rule}'"))?;
        Ok((glob.compile_matcher(), rule))
    };
    rules.into_iter().map(of).collect()
}

fn bytes(name: &str, size: &str) -> Result<u64> {
    match Size::parse(size).map_err(|error| anyhow!("{name}: {error}"))? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => bail!("{name}: give bytes or a unit, as in 1G"),
    }
}
