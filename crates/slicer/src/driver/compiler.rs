//! The real compiler, and what comes of its commands.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use super::broken_off::PassedOn;

/// What makes the compiler write down, in more files than its command names, what it did; or do everything twice (GCC manual,
/// "Environment Variables Affecting GCC"). That is for the user's own commands.
const FOR_THE_USER: &[&str] = &["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG"];

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
    /// What the user's own command is given of what this process was started with.
    prepare: fn(&mut Command),
    passed_on: Option<PassedOn>,
}

impl Compiler {
    /// The command that the variable `name` holds, otherwise `usual`.
    pub(super) fn from_environment(name: &'static str, usual: &str, prepare: fn(&mut Command)) -> Self {
        let given = std::env::var(name).unwrap_or_default();
        let words: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
        let words = if words.is_empty() { vec![usual.into()] } else { words };
        Self { words, variable: name, prepare, passed_on: None }
    }

    /// The user's own command is told of signals.
    pub(super) fn passes_on(&mut self, signals: Option<PassedOn>) {
        self.passed_on = signals;
    }

    /// A command of ours.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        FOR_THE_USER.iter().for_each(|name| _ = command.env_remove(name));
        command
    }

    /// The user's own command, which has all that we were given.
    fn users(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(arguments);
        (self.prepare)(&mut command);
        command
    }

    fn failed(&self, reason: std::io::Error) -> NoCompiler {
        NoCompiler { compiler: self.words[0].to_string_lossy().into_owned(), variable: self.variable, reason }
    }

    /// Runs the user's own command.
    pub(super) fn run(&self, arguments: &[OsString]) -> Result<ExitStatus, NoCompiler> {
        self.run_beside(arguments, || ()).map(|(status, ())| status)
    }

    /// The same, and does `work` while it runs.
    pub(super) fn run_beside<T>(
        &self,
        arguments: &[OsString],
        work: impl FnOnce() -> T,
    ) -> Result<(ExitStatus, T), NoCompiler> {
        let mut running = self.users(arguments).spawn().map_err(|e| self.failed(e))?;
        self.passed_on.iter().for_each(|signals| signals.to(&running));
        let done = work();
        let status = running.wait().map_err(|e| self.failed(e))?;
        self.passed_on.iter().for_each(PassedOn::end);
        Ok((status, done))
    }

    /// Becomes the user's own command: it has our number, our parent and its own way to end. Returns when that fails.
    pub(super) fn become_it(&self, arguments: &[OsString]) -> NoCompiler {
        self.failed(self.users(arguments).exec())
    }

    /// Runs the compiler, and gives what it prints; what it has to say is only told, in one line, when it fails.
    pub(super) fn run_quietly(
        &self,
        folder: Option<&Path>,
        arguments: &[OsString],
        what: &str,
    ) -> Result<Vec<u8>, String> {
        let mut command = self.command();
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(output.stdout);
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
