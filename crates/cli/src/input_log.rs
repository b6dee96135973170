//! `--log-inputs`: what a run's policy is told, in a file that `foretell replay` runs again.
//!
//! The file is looked at before anything runs. After that it never disturbs the run: what goes wrong with it is one
//! line at the end, and the exit code stays.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use foretell_output::Output;
use foretell_policy::{Config, Tap};
use foretell_replay::{DEFAULT_LIMIT_BYTES, Writer};

use crate::report::thousands;
use crate::terminal::warn;

/// The flag, as messages name it.
const FLAG: &str = "--log-inputs";

/// A log that is being written.
#[derive(Debug, Clone)]
pub(crate) struct InputLog {
    path: PathBuf,
    writer: Writer,
}

impl InputLog {
    /// Can a log be written under this name? Nothing is left there.
    ///
    /// # Errors
    /// When it cannot: said with the flag's name.
    pub(crate) fn check(path: &Path) -> Result<()> {
        // A log is written over hours and renamed at the end: neither a device nor a link's target is.
        let is_file = path.symlink_metadata().map_or(true, |m| m.is_file() || m.is_dir());
        ensure!(is_file, "{FLAG} {}: is no regular file; name a file", path.display());
        Output::open(path).map(drop).map_err(|e| anyhow!("{FLAG} {e}"))
    }

    /// Begins the log of an engine with this configuration.
    ///
    /// # Errors
    /// As [`InputLog::check`].
    pub(crate) fn create(path: &Path, config: &Config) -> Result<InputLog> {
        InputLog::check(path)?;
        let writer = Writer::create(path, config, env!("CARGO_PKG_VERSION"), DEFAULT_LIMIT_BYTES)
            .map_err(|e| anyhow!("{FLAG} {}: cannot write there: {e}", path.display()))?;
        Ok(InputLog { path: path.to_owned(), writer })
    }

    /// What the engine is to be watched with.
    pub(crate) fn tap(&self) -> Box<dyn Tap> {
        Box::new(self.writer.clone())
    }

    /// Ends the log; says in one line if it is not whole.
    pub(crate) fn finish(&self) {
        let path = self.path.display();
        match self.writer.finish() {
            Ok(written) if written.cut_at_limit => warn(&format!(
                "{FLAG} {path}: the log ends at its limit, after {} inputs; the run went on without it",
                thousands(written.inputs)
            )),
            Ok(_) => {}
            Err(e) => warn(&format!("{FLAG} {path}: the log could not be written: {e}")),
        }
    }
}
