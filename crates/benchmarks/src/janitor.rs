//! What must be undone is undone by a process of its own, which waits until the benchmark has ended in
//! whatever way: its standard input then ends. Each line of it is one thing to undo, last first.

use std::io::{BufRead, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Something to undo. Undoing it twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Undo {
    /// Write this value to this file (a setting).
    Write { path: PathBuf, value: String },
    /// End the processes of this cgroup and remove it.
    Group { path: PathBuf },
    /// Remove this directory and what is in it.
    Directory { path: PathBuf },
}

impl Undo {
    fn concerns(&self) -> &PathBuf {
        match self {
            Self::Write { path, .. } | Self::Group { path } | Self::Directory { path } => path,
        }
    }
}

/// The benchmark's end of the janitor.
#[derive(Debug)]
pub(crate) struct Janitor {
    process: Child,
    notes: Mutex<(Option<ChildStdin>, Vec<PathBuf>)>,
}

impl Janitor {
    pub(crate) fn start() -> Result<Self> {
        let start = || -> Result<Child> {
            let program = std::env::current_exe()?;
            let mut command = Command::new(program);
            Ok(command.arg("janitor").stdin(Stdio::piped()).stdout(Stdio::null()).current_dir("/").spawn()?)
        };
        let mut process = start().context("cannot start the process that cleans up")?;
        let notes = Mutex::new((process.stdin.take(), Vec::new()));
        Ok(Self { process, notes })
    }

    /// Has `undo` done at the end, unless something is remembered about the same file already.
    pub(crate) fn remember_once(&self, undo: Undo) -> Result<()> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.1.contains(undo.concerns()) {
            return Ok(());
        }
        let mut line = serde_json::to_vec(&undo)?;
        line.push(b'\n');
        if let Some(input) = &mut notes.0 {
            input.write_all(&line).context("the process that cleans up has gone")?;
        }
        notes.1.push(undo.concerns().clone());
        Ok(())
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        drop(notes.0.take());
        drop(notes);
        // It ends when it has undone everything, and reports by itself what it could not.
        let _ = self.process.wait();
    }
}

/// Removes a directory, also one in which a slow device is mounted that is just being taken apart.
fn remove_directory(path: &Path) -> std::io::Result<()> {
    /// How often it is tried, 100 ms apart.
    const TRIES: usize = 100;
    for _ in 1..TRIES {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
    std::fs::remove_dir_all(path)
}

/// The janitor's own process.
pub(crate) fn run() -> Result<()> {
    // An interrupt typed at the terminal is for the benchmark.
    let _ = rustix::process::setsid();
    let mut undos: Vec<Undo> = Vec::new();
    for line in stdin().lock().lines() {
        undos.push(serde_json::from_str(&line?).context("this is no command for use by hand")?);
    }
    for undo in undos.into_iter().rev() {
        let outcome = match &undo {
            Undo::Write { path, value } => std::fs::write(path, value),
            Undo::Group { path } => foretell_cgroup::remove(path),
            Undo::Directory { path } => remove_directory(path),
        };
        match outcome {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                eprintln!("could not clean up {}: {error}", undo.concerns().display());
            }
            _ => {}
        }
    }
    Ok(())
}
