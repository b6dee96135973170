//! The real compiler, and what comes of its commands.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The real compiler could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{compiler} does not start ({reason}); name the real compiler with {variable}")]
pub struct NoCompiler {
    /// What was tried.
    compiler: String,
    /// Where another one can be named.
    variable: &'static str,
    /// What the system said.
    reason: std::io::Error,
}

/// The real compiler: a command that may have arguments of its own, such as `ccache gcc`.
#[derive(Debug)]
pub(super) struct Compiler {
    pub(super) words: Vec<OsString>,
    /// The variable that can name another one.
    variable: &'static str,
}

impl Compiler {
    /// The command that the variable `name` holds, otherwise `usual`.
    pub(super) fn from_environment(name: &'static str, usual: &str) -> Self {
        let given = std::env::var(name).unwrap_or_default();
        let words: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
        Self { words: if words.is_empty() { vec![usual.into()] } else { words }, variable: name }
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    pub(super) fn failed(&self, reason: std::io::Error) -> NoCompiler {
        NoCompiler { compiler: self.words[0].to_string_lossy().into_owned(), variable: self.variable, reason }
    }

    pub(super) fn run(&self, arguments: &[OsString]) -> Result<ExitStatus, NoCompiler> {
        self.command().args(arguments).status().map_err(|e| self.failed(e))
    }

    /// Runs the compiler; what it has to say is only told, in one line, when it fails.
    pub(super) fn run_quietly(
        &self,
        folder: Option<&Path>,
        arguments: &[OsString],
        what: &str,
    ) -> Result<(), String> {
        let mut command = self.command();
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        // A linker says what is missing, and its driver only that there was something.
        let says = |word: &'static str| said.lines().find(move |line| line.contains(word));
        let error = says("undefined reference")
            .or_else(|| says("multiple definition"))
            .or_else(|| says("error"))
            .or_else(|| said.lines().next());
        Err(format!("{what}: {}", error.unwrap_or("no reason given").trim()))
    }
}

/// What came of a command.
#[derive(Debug)]
pub struct Compiled {
    /// The exit code of the real compiler, 128 and the signal's number if it was killed.
    pub exit_code: u8,
    /// Why the program is not, or not in all its files, what `foretell cc` could make of it: one line.
    pub diagnosis: Option<String>,
}

impl Compiled {
    pub(super) fn new(status: ExitStatus, diagnosis: Option<String>) -> Self {
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Self { exit_code: u8::try_from(code).unwrap_or(1), diagnosis }
    }
}

/// Is the output of a command a file, so that another one may take its place? A device, a pipe or a socket is written
/// to, by the compiler, and that is all.
pub(super) fn is_replaceable(output: &Path) -> bool {
    std::fs::metadata(output).is_ok_and(|metadata| metadata.is_file())
}
