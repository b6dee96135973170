//! `foretell slowdisk`: a block device that is slow in a chosen way.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use foretell_slowdisk::{Backing, Helper, Options, Timing};

use crate::size::{Size, human_bytes};
use crate::terminal::say;

/// The hidden subcommand that the device's own processes are started with.
pub const HELPER: &str = "helper";

/// Make a block device that is slow in a chosen way, for tests and benchmarks: a FUSE file that delays,
/// under a loop device, under ext4. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell slowdisk up /mnt/slow --seek-ms 8 --mb-s 100 --channels 1\n  \
    foretell slowdisk up /mnt/cloud --name cloud --latency-ms 1 --channels 8 --mb-s 200 --total-mb-s 250 --stay\n  \
    foretell slowdisk down cloud")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start a device and mount it; it is removed at Ctrl-C, or with 'down' when it was told to stay
    Up(UpArgs),
    /// Remove a device
    Down {
        /// Its name
        name: String,
        /// Remove it even when programs still use it; they get errors
        #[arg(long)]
        force: bool,
    },
    /// List the devices that are up
    List,
    /// Say what a device has served since it was started, as JSON
    Stats {
        /// Its name
        name: String,
    },
    /// Remove what is left of devices whose processes were all killed
    Cleanup,
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Where to mount it: an empty directory, or a new one
    mount_point: PathBuf,
    /// A name for 'down' and 'stats'
    #[arg(long, default_value = "slow")]
    name: String,
    /// Size of the device
    #[arg(long, default_value = "1G")]
    size: String,
    /// Time added when a request does not continue the last one on its channel, in ms
    #[arg(long, default_value_t = 0.0)]
    seek_ms: f64,
    /// Time that every request takes, in ms
    #[arg(long, default_value_t = 0.0)]
    latency_ms: f64,
    /// Requests served at the same time
    #[arg(long, default_value_t = 1)]
    channels: u32,
    /// Transfer rate of a channel, in millions of bytes per second
    #[arg(long, default_value_t = 100.0)]
    mb_s: f64,
    /// Transfer rate of all channels together [default: no limit]
    #[arg(long)]
    total_mb_s: Option<f64>,
    /// Keep the bytes in this file instead of memory
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Let writes take as long as reads
    #[arg(long)]
    slow_writes: bool,
    /// End, and leave the device up until 'down'
    #[arg(long)]
    stay: bool,
}

/// Does what the arguments say.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Action::Up(args) => up(args)?,
        Action::Down { name, force } => foretell_slowdisk::down(name, *force)?,
        Action::List => {
            for info in foretell_slowdisk::list() {
                say(&format!(
                    "{:<16} {:>10}  {}\n",
                    info.options.name,
                    human_bytes(info.options.size_bytes),
                    info.options.mount_point.display()
                ));
            }
        }
        Action::Stats { name } => {
            say(&format!("{}\n", serde_json::to_string_pretty(&foretell_slowdisk::counters(name)?)?));
        }
        Action::Cleanup => {
            for name in foretell_slowdisk::cleanup_stale()? {
                say(&format!("removed what was left of '{name}'\n"));
            }
        }
    }
    Ok(0)
}

fn up(args: &UpArgs) -> Result<()> {
    let size_bytes = match Size::parse(&args.size).map_err(|e| anyhow!("--size: {e}"))? {
        Size::Bytes(bytes) => bytes,
        Size::Percent(_) => return Err(anyhow!("--size: give bytes or a unit, as in 1G")),
    };
    let timing =
        Timing::from_units(args.seek_ms, args.latency_ms, args.channels, args.mb_s, args.total_mb_s)?;
    let working_directory = std::env::current_dir()?;
    let options = Options {
        backing: match &args.backing {
            Some(file) => Backing::File(working_directory.join(file)),
            None => Backing::Memory,
        },
        slow_writes: args.slow_writes,
        ..Options::new(&args.name, working_directory.join(&args.mount_point), size_bytes, timing)
    };
    let mut disk = foretell_slowdisk::up(&options, &Helper::current_exe(["slowdisk", HELPER])?)?;
    let mount_point = disk.mount_point().display();
    if args.stay {
        say(&format!("mounted at {mount_point}; remove it with: foretell slowdisk down {}\n", args.name));
        disk.stay()?;
    } else {
        say(&format!(
            "mounted at {mount_point}; Ctrl-C or 'foretell slowdisk down {}' removes it\n",
            args.name
        ));
        disk.wait()?;
    }
    Ok(())
}
