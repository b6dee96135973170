//! `foretell top`: a live view of the service and of the runs that have a host of their own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use foretelld::StatusRequest;

use crate::host::socket_path;
use crate::terminal::{say, width_chars};
use crate::top::{App, View, Watch, once, watch};
use crate::watch::Users;

/// Width of a frame that goes to a pipe, unless COLUMNS says otherwise.
const WIDTH_CHARS: u16 = 120;
/// Shortest and longest time between two snapshots.
const INTERVALS_S: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// Watch the service and all runs: a row a process and a file, sorted, filtered, as often as wanted. '?' explains the keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell top\n  \
    foretell top --interval 0.5")]
pub struct Args {
    /// Only this service [default: $FORETELL_SOCKET, else /run/foretell/foretelld.sock, and all runs]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Seconds between two snapshots
    #[arg(long, short = 'i', value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Begin with the files, not the processes
    #[arg(long)]
    files: bool,
    /// Begin with the counts since the start, not by the second
    #[arg(long)]
    totals: bool,
    /// Sort by this column (pid, name, blocks, refs, hits, …)
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Show only rows that have this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Print one frame as text, all rows, and end
    #[arg(long)]
    once: bool,
}

/// Does what the arguments say.
///
/// # Errors
/// There is no service, no terminal, or an argument is out of range.
pub fn execute(args: &Args) -> Result<u8> {
    if !INTERVALS_S.contains(&args.interval) {
        let (least, most) = INTERVALS_S.into_inner();
        bail!("--interval {} is out of range; from {least} to {most} seconds", args.interval);
    }
    let viewer = rustix::process::geteuid().as_raw();
    let interval = Duration::from_secs_f64(args.interval);
    let mut app = App::new(interval, args.totals, Users::of_this_machine(), viewer);
    let view = if args.files { View::Files } else { View::Processes };
    app.begin_with(view, args.sort.as_deref(), &args.filter)
        .map_err(|columns| anyhow!("--sort: no such column; one of {columns}"))?;
    let socket = socket_path(args.socket.as_deref());
    let watched = Watch { socket, runs: args.socket.is_none(), request: StatusRequest::default() };
    if !args.once {
        return watch(&watched, app);
    }
    say(&once(&watched, app, args.totals, width_chars(WIDTH_CHARS))?);
    Ok(0)
}
