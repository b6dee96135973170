//! `foretell buffers`: a pool of buffers a user, for all programs of that user.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use foretell_buffers::{Door, MOST_USERS, Options, Pool, announce, usual_socket};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::BuffersTable;
use crate::signals::ignored_signals;
use crate::size::Size;
use crate::terminal::{say, warn};

/// The hidden subcommand of the process that has a user's pool.
pub const HOST: &str = "host";

/// Keep what programs read of object stores in one pool a user: what one has fetched the others find there.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Started by root it serves all users, each by a process of that user's; by anybody else, that user.\n\
    Programs bring their own credentials (FORETELL_BUFFERS says where it listens, if not here).\n\n\
    Examples:\n  \
    foretell buffers --budget 4G\n  \
    foretell buffers --budget 4G --disk-dir /var/tmp --disk 100G"
)]
pub struct Args {
    /// Memory of a pool, as 64M or 1.5G
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    budget: String,

    /// What is fetched, kept and given up as one
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    part: String,

    /// Keep what memory has no room for in this directory, in a file a user, which goes with the pool
    #[arg(long, value_name = "DIR", requires = "disk")]
    disk_dir: Option<PathBuf>,

    /// How much of it, a user
    #[arg(long, value_name = "SIZE", requires = "disk_dir")]
    disk: Option<String>,

    /// No read waits longer for a part of an object, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// A pool goes when no program has been connected for so long, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle: u64,

    /// Users that have a pool at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=MOST_USERS as u64))]
    users: u64,

    /// Where to listen [default: $FORETELL_BUFFERS, else /run/foretell/buffers.sock, of a user's own $XDG_RUNTIME_DIR/foretell/buffers.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// End with the standard input
    #[arg(long, hide = true)]
    beside: bool,
}

/// The command line of the hidden subcommand.
#[derive(Debug, clap::Parser)]
pub struct Host {
    /// The same flags.
    #[command(flatten)]
    pub args: Args,
}

impl Args {
    fn options(&self) -> Result<Options> {
        let mut chosen = Options::new(bytes("--budget", &self.budget)?);
        chosen.part_bytes = u32::try_from(bytes("--part", &self.part)?).unwrap_or(u32::MAX);
        chosen.disk_dir = self.disk_dir.clone();
        chosen.disk_bytes = self.disk.as_ref().map_or(Ok(0), |size| bytes("--disk", size))?;
        chosen.timeout = Duration::from_secs(self.timeout);
        chosen.check()?;
        Ok(chosen)
    }

    /// The flags of a host of this one's.
    fn of_a_host(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        let (timeout, idle) = (self.timeout.to_string(), self.idle.to_string());
        let texts =
            [("--budget", &self.budget), ("--part", &self.part), ("--timeout", &timeout), ("--idle", &idle)];
        for (name, value) in texts.into_iter().chain(self.disk.as_ref().map(|disk| ("--disk", disk))) {
            flags.extend([name.into(), value.into()]);
        }
        if let Some(folder) = &self.disk_dir {
            flags.extend(["--disk-dir".into(), folder.into()]);
        }
        flags
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// What was asked for is wrong, or nobody can listen there.
pub fn execute(args: &Args) -> Result<u8> {
    args.options()?;
    let socket = args.socket.clone().unwrap_or_else(usual_socket);
    let cannot = || format!("{}: cannot listen there", socket.display());
    // Where the user says to listen there is a directory, or it is a slip.
    if let Some(folder) = socket.parent().filter(|_| args.socket.is_none()) {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    let own = std::env::current_exe().context("this program cannot be found")?;
    let flags = args.of_a_host();
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(wanted).context("cannot handle signals")?;
    let command = move || {
        let mut command = Command::new(&own);
        command.args(["buffers", HOST]).args(&flags);
        command
    };
    let door = Arc::new(Door::open(&socket, args.users as usize, command).with_context(cannot)?);
    say(&format!("serving at {}; Ctrl-C ends it\n", socket.display()));
    let serving = door.clone();
    std::thread::Builder::new()
        .name("door".to_owned())
        .spawn(move || serving.serve())
        .context("cannot start a thread")?;
    let (end, ends) = mpsc::channel();
    if args.beside {
        let end = end.clone();
        let waits = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            let _ = end.send(());
        });
        waits.context("cannot start a thread")?;
    }
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().next().map(|_| end.send(())))
        .context("cannot start a thread")?;
    let _ = ends.recv();
    door.close();
    Ok(0)
}

/// The same beside a service of page cache, as a process of its own that ends with this one: `[buffers]` of its configuration.
pub struct Beside {
    process: Child,
    line: String,
}

impl Beside {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not begin; it has said why.
    pub fn start(table: &BuffersTable) -> Result<Beside> {
        let own = std::env::current_exe().context("this program cannot be found")?;
        let mut flags: Vec<OsString> = vec!["--beside".into()];
        let BuffersTable { budget, part, disk_dir, disk, timeout, idle, users, socket } = table;
        for (flag, text) in [("--budget", budget), ("--part", part), ("--disk", disk)] {
            flags.extend(text.iter().flat_map(|text| [flag.into(), text.into()]));
        }
        for (flag, number) in [("--timeout", timeout), ("--idle", idle), ("--users", users)] {
            flags.extend(number.iter().flat_map(|number| [flag.into(), number.to_string().into()]));
        }
        for (flag, path) in [("--disk-dir", disk_dir), ("--socket", socket)] {
            flags.extend(path.iter().flat_map(|path| [flag.into(), path.into()]));
        }
        let given = Host::try_parse_from([&["buffers".into()][..], &flags].concat());
        let first = |error: clap::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
        let given =
            given.map_err(|error| anyhow!("[buffers]: {}", first(error).trim_start_matches("error: ")))?;
        given.args.options().context("[buffers]")?;
        let mut command = Command::new(own.with_file_name("foretell-tools"));
        command.arg("buffers").args(flags);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            process.context("[buffers]: foretell-tools, which serves them, cannot be started")?;
        let mut line = String::new();
        if let Some(said) = process.stdout.take() {
            BufReader::new(said).read_line(&mut line).context("[buffers]")?;
        }
        let line = line.split(';').next().unwrap_or_default().trim().to_owned();
        let beside = Beside { process, line };
        if beside.line.is_empty() { Err(anyhow!("[buffers]: they cannot be served")) } else { Ok(beside) }
    }

    /// Where it serves.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A user's pool, until the door that has started it is gone or nobody uses it any more.
///
/// # Errors
/// When there is no pool.
pub fn host(args: &Args) -> Result<u8> {
    // Ctrl-C is for the door, which ends this one.
    let _ignored = Signals::new([SIGINT, SIGHUP]).context("cannot handle signals")?;
    let pool = args.options().and_then(|options| Ok(Pool::new(options)?));
    let pool = pool.map_err(|error| foretell_buffers::Error::NoThreads { why: error.to_string() });
    if let Some(remark) = pool.as_ref().ok().and_then(Pool::remark) {
        warn(&remark);
    }
    announce(pool, Duration::from_secs(args.idle))?;
    Ok(0)
}

fn bytes(name: &str, size: &str) -> Result<u64> {
    match Size::parse(size).map_err(|error| anyhow!("{name}: {error}"))? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => bail!("{name}: give bytes or a unit, as in 1G"),
    }
}
