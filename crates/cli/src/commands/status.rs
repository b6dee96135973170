//! `foretell status`: how the service and the runs with a host of their own are, once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use foretelld::{Counters, FileStatus, ROUNDS, Snapshot, StatusRequest};

use crate::host::{Answer, Host, PATIENCE, Trouble, socket_path};
use crate::hosts;
use crate::report::thousands;
use crate::size::{Size, human_bytes};
use crate::terminal::{say, warn, with_causes};
use crate::watch::Users;
use crate::watch::figures::{percent, printable, share, span};

/// Files that are shown: as many as leave the rest on the screen.
const FILES: usize = 20;

/// Say how the service is, and each run with a budget of its own: the budget, and a row a process and a file. Others
/// than root see what is their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell status\n  \
    foretell status --json")]
pub struct Args {
    /// Only this service [default: $FORETELL_SOCKET, else /run/foretell/foretelld.sock, and all runs]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Only the rows of this user, by number or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Write JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
///
/// # Errors
/// There is no service, or no answer.
pub fn execute(args: &Args) -> Result<u8> {
    let users = Users::of_this_machine();
    let user = match &args.user {
        Some(name) => Some(users.number(name).ok_or_else(|| {
            anyhow::anyhow!("--user '{name}': no such user; give a name of this machine or a number")
        })?),
        None => None,
    };
    let seen = look(args.socket.as_deref(), StatusRequest { user })?;
    if args.json {
        say(&(serde_json::to_string_pretty(&seen)? + "\n"));
    } else {
        let viewer = rustix::process::geteuid().as_raw();
        let all = seen.service.iter().chain(&seen.runs);
        let texts: Vec<String> = all.map(|snapshot| tables(snapshot, &users, viewer)).collect();
        say(&texts.join("\n"));
    }
    Ok(0)
}

/// How all hosts are. As JSON the service's own fields, and the others' in a list.
#[derive(Debug, serde::Serialize)]
struct Seen {
    #[serde(flatten)]
    service: Option<Snapshot>,
    /// Runs with a host of their own.
    runs: Vec<Snapshot>,
}

/// Asks the service at a socket; without one the service at the usual place and the private hosts.
fn look(socket: Option<&Path>, request: StatusRequest) -> Result<Seen> {
    let ask = || -> Result<Snapshot> {
        let mut host = Host::service(&socket_path(socket))?;
        host.ask_status(request)?;
        match host.wait(PATIENCE)? {
            Answer::Status(snapshot) => Ok(*snapshot),
            other => bail!("the service answered with {other:?}"),
        }
    };
    if socket.is_some() {
        return Ok(Seen { service: Some(ask().map_err(explain)?), runs: Vec::new() });
    }
    let mut round = hosts::ask_private(request);
    round.wait();
    let (runs, silent) = round.snapshots();
    if silent > 0 {
        let many = if silent == 1 { "1 run" } else { &format!("{silent} runs") };
        warn(&format!("{many} did not answer: stopped, perhaps, or ending"));
    }
    match ask() {
        Ok(service) => Ok(Seen { service: Some(service), runs }),
        Err(_) if !runs.is_empty() && !socket_path(None).exists() => Ok(Seen { service: None, runs }),
        Err(error) if runs.is_empty() => Err(explain(error)),
        Err(error) => {
            warn(&with_causes(&error));
            Ok(Seen { service: None, runs })
        }
    }
}

/// With what to do.
fn explain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(Trouble::NoService { .. }) => anyhow::anyhow!(
            "{error}, and no run of this user controls a program; start a service with 'foretell daemon', or say \
             where one is with --socket"
        ),
        _ => error,
    }
}

/// A host in a few lines, then its processes, then its files.
fn tables(snapshot: &Snapshot, users: &Users, viewer: u32) -> String {
    let mut out = heading(snapshot, viewer);
    out += &section("process", &processes(snapshot, users), snapshot.cache.processes.len());
    out += &section("file", &files(snapshot, viewer), snapshot.cache.files.len());
    let hidden = snapshot.cache.files.len().saturating_sub(FILES);
    if hidden > 0 {
        let _ = writeln!(out, "and {} more; --json tells of all", thousands(hidden as u64));
    }
    if snapshot.rows_omitted > 0 {
        let _ = writeln!(
            out,
            "\n{} rows are left out, those with the fewest references.",
            thousands(snapshot.rows_omitted)
        );
    }
    out
}

fn section(what: &str, table: &Table, rows: usize) -> String {
    if rows == 0 {
        return format!("\nNo {what} is under control.\n");
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("\n{}\n", lines.join("\n"))
}

fn heading(snapshot: &Snapshot, viewer: u32) -> String {
    let cache = &snapshot.cache;
    let counts = &cache.counts;
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        let _ = writeln!(out, "{label:<12}{text}");
    };
    line(
        if snapshot.private { "run" } else { "service" },
        format!("{}, process {}, up {}", printable(&snapshot.version), snapshot.pid, span(snapshot.uptime_s)),
    );
    let block = Size::Bytes(cache.block_bytes.into());
    let budget = cache.budget_bytes.checked_div(cache.block_bytes.into()).unwrap_or(0);
    let budget_text = format!("{}, {} blocks of {block}", human_bytes(cache.budget_bytes), thousands(budget));
    if viewer == 0 {
        let used = u64::from(cache.used_blocks);
        let part = share(used, budget).map_or("-".to_owned(), percent);
        line("budget", format!("{budget_text}; {} in use ({part})", thousands(used)));
        let (opened, refused) = (thousands(snapshot.sessions_opened), thousands(snapshot.sessions_refused));
        line("sessions", format!("{}; {opened} since the start, {refused} refused", snapshot.sessions_open));
    } else {
        let own: u64 = cache.managers.iter().map(|manager| u64::from(manager.owned_blocks)).sum();
        line("budget", format!("{budget_text}; {} yours", thousands(own)));
        line("sessions", format!("{} of yours", snapshot.sessions_open));
    }
    line("references", format!("{}, {} found in the cache", thousands(counts.references), hits(counts)));
    line(
        "fetches",
        format!(
            "{} on demand, {} ahead of it{}",
            thousands(counts.demand_fetches),
            thousands(counts.prefetches),
            fates(counts)
        ),
    );
    line("evictions", thousands(counts.evictions));
    if viewer == 0 {
        line(
            "device",
            format!("{} read; programs waited {:.1} s", human_bytes(cache.device_read_bytes), cache.wait_s),
        );
        line(
            "itself",
            format!("{:.1} s of processor time, {} events lost", cache.cpu_s, thousands(cache.lost_events)),
        );
        let pieces = cache.works.iter().filter(|work| work.name != ROUNDS);
        let longest = pieces.max_by(|a, b| a.longest_s.total_cmp(&b.longest_s));
        if let Some(work) = longest {
            line(
                "longest",
                format!("{:.1} ms at a time, for {}", work.longest_s * 1000.0, printable(&work.name)),
            );
        }
    }
    out
}

fn hits(counts: &Counters) -> String {
    share(counts.hits, counts.references).map_or("-".to_owned(), percent)
}

/// What became of the prefetches.
fn fates(counts: &Counters) -> String {
    if counts.prefetches == 0 {
        return String::new();
    }
    let parts = [
        (counts.prefetches_useful, "useful"),
        (counts.prefetches_late, "late"),
        (counts.prefetches_wasted, "wasted"),
    ];
    let parts = parts.map(|(count, fate)| format!("{} {fate}", thousands(count)));
    format!(" ({})", parts.join(", "))
}

fn processes(snapshot: &Snapshot, users: &Users) -> Table {
    let mut table = plain(
        &[
            "pid",
            "process",
            "user",
            "owned",
            "ahead",
            "references",
            "hits",
            "fetches",
            "useful",
            "late",
            "wasted",
            "evicted",
            "placeholders",
            "revoked",
            "waited",
        ],
        &[1, 2],
    );
    let managers: HashMap<(u32, u32), _> =
        snapshot.cache.managers.iter().map(|manager| ((manager.session, manager.index), manager)).collect();
    for process in &snapshot.cache.processes {
        let manager = managers.get(&(process.session, process.manager));
        let counts = &process.counts;
        let of_manager = |number: fn(&foretelld::ManagerStatus) -> u64| {
            manager.map_or("-".to_owned(), |manager| thousands(number(manager)))
        };
        let revoked = manager.map_or("-", |manager| match (manager.revoked, manager.revocations) {
            (true, _) => "yes",
            (false, 0) => "no",
            (false, _) => "was",
        });
        let mut row = vec![
            process.pid.to_string(),
            printable(&process.name),
            users.name(process.user),
            of_manager(|manager| u64::from(manager.owned_blocks)),
            of_manager(|manager| manager.disclosed_ahead),
        ];
        row.extend(in_cells(counts));
        row.extend([
            of_manager(|manager| manager.placeholders_used),
            revoked.to_owned(),
            format!("{:.1} s", process.wait_s),
        ]);
        table.add_row(row);
    }
    table
}

/// Counts in the order in which both tables have them.
fn in_cells(counts: &Counters) -> [String; 7] {
    [
        thousands(counts.references),
        hits(counts),
        thousands(counts.fetches()),
        thousands(counts.prefetches_useful),
        thousands(counts.prefetches_late),
        thousands(counts.prefetches_wasted),
        thousands(counts.evictions),
    ]
}

fn files(snapshot: &Snapshot, viewer: u32) -> Table {
    let mut table = plain(
        &["file", "size", "cached", "references", "hits", "fetches", "useful", "late", "wasted", "evicted"],
        &[0],
    );
    for file in most_used(&snapshot.cache.files) {
        let mut row = vec![printable(&file.path.to_string_lossy()), human_bytes(file.size_bytes)];
        // What others do with it as well is not told.
        if viewer != 0 && file.user != Some(viewer) {
            row.resize(10, "-".to_owned());
        } else {
            let counts = &file.counts;
            let cached = share(file.cached_bytes, file.size_bytes).map(|share| share.min(1.0));
            row.push(cached.map_or("-".to_owned(), percent));
            row.extend(in_cells(counts));
        }
        table.add_row(row);
    }
    table
}

/// The files that are shown, the one with the most references first.
fn most_used(files: &[FileStatus]) -> Vec<&FileStatus> {
    let mut most_used: Vec<&FileStatus> = files.iter().collect();
    most_used.sort_by_key(|file| (Reverse(file.counts.references), Reverse(file.cached_bytes)));
    most_used.truncate(FILES);
    most_used
}

/// A table of figures on the right of their columns, but for the texts.
fn plain(header: &[&str], texts: &[usize]) -> Table {
    let mut table = Table::new();
    // Never folded: a line a row, so that it can be searched and cut.
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for column in table.column_iter_mut() {
        let left = if column.index == 0 { 0 } else { 1 };
        column.set_padding((left, 1));
        if !texts.contains(&column.index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_those_that_are_read_most_are_shown() {
        let file = |references, cached_bytes| FileStatus {
            cached_bytes,
            counts: Counters { references, ..Counters::default() },
            ..FileStatus::default()
        };
        let files: Vec<FileStatus> = (0..30).map(|at| file(at / 2, at)).collect();
        let shown: Vec<u64> = most_used(&files).iter().map(|file| file.cached_bytes).collect();
        assert_eq!(shown, (10..30).rev().collect::<Vec<u64>>());
    }
}
