//! `foretell status`: what the service is doing, once.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use foretelld::{Counts, Snapshot, StatusRequest};

use crate::service::{Service, socket_path};
use crate::size::human_bytes;
use crate::terminal::say;

/// Rows of each kind that are printed; `--json` has all.
const ROWS: usize = 20;

/// Flags of `foretell status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the service listens [default: $FORETELL_SOCKET, else /run/foretell/foretelld.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Only this user's sessions, by number
    #[arg(long, value_name = "UID")]
    user: Option<u32>,

    /// Everything, as JSON
    #[arg(long)]
    json: bool,
}

/// Prints what the service tells.
pub fn execute(args: &Args) -> Result<u8> {
    let path = socket_path(args.socket.as_deref());
    let snapshot = Service::connect(&path)?.status(&StatusRequest { user: args.user })?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&snapshot)?));
    } else if args.user.is_some() && snapshot.sessions.is_empty() {
        bail!("no session of that user");
    } else {
        say(&render(&snapshot));
    }
    Ok(0)
}

/// For a terminal.
fn render(snapshot: &Snapshot) -> String {
    let Snapshot { cache, .. } = snapshot;
    let mut out = String::new();
    let used = u64::from(cache.used_blocks) * u64::from(cache.block_bytes);
    let _ = writeln!(
        out,
        "foretelld {} (process {}), up {:.0} s: {} of {} in use, {} sessions",
        snapshot.version,
        snapshot.pid,
        snapshot.uptime_s,
        human_bytes(used),
        human_bytes(cache.budget_bytes),
        snapshot.sessions_open
    );
    let _ = writeln!(out, "  {}", counts(&cache.counts));
    let mut managers: Vec<_> = cache.managers.iter().collect();
    managers.sort_by_key(|manager| std::cmp::Reverse(manager.owned_blocks));
    if !managers.is_empty() {
        let _ = writeln!(
            out,
            "\n{:>8} {:>6} {:<16} {:>9} {:>9} {:>10} {:>6}  {}",
            "pid", "user", "manager", "blocks", "listed", "overruled", "wrong", "control"
        );
    }
    for manager in managers.iter().take(ROWS) {
        let _ = writeln!(
            out,
            "{:>8} {:>6} {:<16} {:>9} {:>9} {:>10} {:>6}  {}",
            manager.root_pid,
            manager.user,
            manager.name.replace(char::is_control, " "),
            manager.owned_blocks,
            manager.disclosed_ahead,
            manager.overruled,
            manager.placeholders_used,
            if manager.revoked { "revoked" } else { "its own" }
        );
    }
    more(&mut out, managers.len());
    let mut files: Vec<_> = cache.files.iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.cached_bytes));
    if !files.is_empty() {
        let _ = writeln!(out, "\n{:>10} {:>10}  file", "cached", "size");
    }
    for file in files.iter().take(ROWS) {
        let path = file.path.display().to_string().replace(char::is_control, " ");
        let (cached, size) = (human_bytes(file.cached_bytes), human_bytes(file.size_bytes));
        let _ = writeln!(out, "{cached:>10} {size:>10}  {path}");
    }
    more(&mut out, files.len());
    out
}

fn more(out: &mut String, rows: usize) {
    if rows > ROWS {
        let _ = writeln!(out, "  and {} more; --json lists all", rows - ROWS);
    }
}

fn counts(counts: &Counts) -> String {
    let share = if counts.references == 0 { 0.0 } else { 100.0 * counts.hits as f64 / counts.references as f64 };
    format!(
        "{} references, {share:.1}% hits, {} demand fetches, {} prefetches ({} useful, {} late, {} wasted), {} evictions",
        counts.references,
        counts.demand_fetches,
        counts.prefetches,
        counts.prefetches_useful,
        counts.prefetches_late,
        counts.prefetches_wasted,
        counts.evictions
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_a_few_lines_without_control_characters() {
        let mut snapshot = Snapshot { version: "1".into(), ..Snapshot::default() };
        snapshot.cache.counts = Counts { references: 4, hits: 1, ..Counts::default() };
        snapshot.cache.managers.resize_with(25, Default::default);
        snapshot.cache.managers[3].name = "a\u{1b}[31m".into();
        snapshot.cache.files.resize_with(1, Default::default);
        snapshot.cache.files[0].path = "/a\nb".into();
        let text = render(&snapshot);
        assert!(text.contains("25.0% hits") && text.contains("and 5 more") && text.contains("/a b"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
