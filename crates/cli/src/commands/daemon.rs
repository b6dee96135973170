//! `foretell daemon`, also `foretelld`: the service.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use foretell_pagecache::Prefetch;
use foretelld::metrics::{MetricsAddress, MetricsServer};
use foretelld::{Configuration, Confinement, Service, ServiceError};

use super::help;
use crate::commands::buffers::Beside;
use crate::config::{self, BuffersTable, File, Flags, Surroundings};
use crate::host;
use crate::size::human_bytes;
use crate::terminal::{note, say};

/// Flags of `foretell daemon`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell daemon --budget 4G\n  \
    foretell daemon --budget 25% --socket /run/user/1000/foretelld.sock")]
pub struct Args {
    /// Page cache that the programs' files may occupy, as 64M, 1.5G or 50% [default: 50%]
    #[arg(long, value_name = "SIZE")]
    budget: Option<String>,

    /// Where to listen [default: $FORETELL_SOCKET, else /run/foretell/foretelld.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Read the configuration from a TOML file; flags beat it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = help::prefetch_disclosed())]
    prefetch: Option<String>,

    #[arg(long, value_name = "NAME", help = help::allocation())]
    allocation: Option<String>,

    /// Serve metrics for Prometheus at a loopback address, as 127.0.0.1:9464, or at the path of a socket
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<MetricsAddress>,

    /// Keep all privileges and system calls, to look into the service while it runs
    #[arg(long)]
    unconfined: bool,

    /// Print the effective configuration as TOML and end
    #[arg(long)]
    print_config: bool,
}

/// Serves until it is told to end.
pub fn execute(args: &Args) -> Result<u8> {
    let (configuration, buffers, text) = configuration(args)?;
    if args.print_config {
        say(&text);
        return Ok(0);
    }
    // While there are the privileges that it takes to be all users. It ends with this function.
    let buffers = buffers.map(|buffers| Beside::start(&buffers)).transpose()?;
    let budget = human_bytes(configuration.options.budget_bytes);
    let socket = configuration.socket.clone();
    let mut service = Service::open(configuration).map_err(explain)?;
    service.stop().on_signals().context("cannot handle signals")?;
    let watcher = service.watcher();
    let metrics = args.metrics.as_ref().map(|at| MetricsServer::start(at, move || watcher.snapshot()));
    // Served until the end of this function.
    let metrics = metrics.transpose()?;
    // Its socket could not be had any more, and only now it is certain that the service serves.
    let manager = manager();
    service.confine()?;
    note(&format!("foretelld: serving on {}, with a budget of {budget}\n", socket.display()));
    if let Some(metrics) = &metrics {
        note(&format!("foretelld: metrics at {}\n", metrics.address()));
    }
    if let Some(buffers) = &buffers {
        note(&format!("foretelld: buffers: {}\n", buffers.line()));
    }
    if let Some(manager) = manager {
        // Without it systemd gives up after a while and says so itself.
        let _ = manager.send(b"READY=1");
    }
    service.run()?;
    Ok(0)
}

fn explain(error: ServiceError) -> anyhow::Error {
    use foretell_pagecache::OpenError as E;
    match error {
        ServiceError::Plane(error @ (E::Observe(_) | E::System { .. })) => {
            anyhow!("cannot take control: {error}; 'foretell doctor' says more")
        }
        other => other.into(),
    }
}

/// What is to be served, and the same as TOML.
fn configuration(args: &Args) -> Result<(Configuration, Option<BuffersTable>, String)> {
    let working_directory =
        std::env::current_dir().context("the working directory is gone; change to another")?;
    let mut file = match &args.config {
        None => File::default(),
        Some(path) => File::read(path)?,
    };
    if !file.rules.is_empty() || !file.process.is_empty() || file.hints.is_some() {
        bail!("the service has no rules or hints of its own; give them to 'foretell run', which uses it");
    }
    let (limits, in_file) = (file.limits.take().unwrap_or_default(), file.socket.take());
    limits.check().map_err(|wrong| anyhow!("[limits]: {wrong}"))?;
    let buffers = file.buffers.take();
    file.prefetch.get_or_insert_with(|| Prefetch::FOR_LISTS.to_string());
    let flags = Flags {
        budget: args.budget.clone(),
        prefetch: args.prefetch.clone(),
        allocation: args.allocation.clone(),
        ..Flags::default()
    };
    let around = Surroundings {
        working_directory: &working_directory,
        file_directory: &working_directory,
        memory_bytes: foretell_learn::memory::usable_bytes().unwrap_or(u64::MAX),
    };
    let effective = config::resolve(&flags, &file, around)?;
    let socket = host::socket_path(args.socket.as_deref().or(in_file.as_deref()));
    let options = effective.plane_options();
    let whole = File {
        socket: Some(socket.clone()),
        limits: Some(limits),
        buffers: buffers.clone(),
        ..effective.to_file()
    };
    let text = toml::to_string(&whole).context("the configuration cannot be written as TOML")?;
    let confinement = if args.unconfined { Confinement::None } else { Confinement::Errors };
    Ok((Configuration { socket, options, limits, confinement }, buffers, text))
}

/// A line to systemd, if it wants to know when the service serves (sd_notify(3), `Type=notify`).
fn manager() -> Option<UnixDatagram> {
    let to = std::env::var_os("NOTIFY_SOCKET")?;
    let address = match to.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(to),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}
