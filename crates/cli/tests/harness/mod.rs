//! Starts the command as a process, on real files.

#![allow(dead_code, unreachable_pub)] // every test file uses its own part

pub mod browser;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The command under test.
pub const FORETELL: &str = env!("CARGO_BIN_EXE_foretell");
/// A socket that nobody listens on.
const NOWHERE: &str = "/nonexistent/foretelld.sock";

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` for a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the command to its end.
pub fn foretell<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    let mut command = Command::new(FORETELL);
    // No service of this machine's has a part in it.
    command.env("FORETELL_SOCKET", NOWHERE);
    command.args(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// The same with a directory of its own for the sockets of private hosts: it sees those there and no others.
pub fn foretell_in<A: AsRef<OsStr>>(hosts: &Path, arguments: impl IntoIterator<Item = A>) -> Ended {
    let mut command = Command::new(FORETELL);
    command.env("FORETELL_SOCKET", NOWHERE).env("FORETELL_HOSTS", hosts);
    command.args(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// Can programs be controlled here? If not, says that the test is skipped.
pub fn can_control(test: &str) -> bool {
    let doctor = foretell(["doctor"]);
    if doctor.code != Some(0) {
        println!("skipped: {test}: 'foretell doctor' says that nothing can be controlled here");
    }
    doctor.code == Some(0)
}

/// A directory on the disk that holds the build, with files in it.
pub struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    /// Files of these names and sizes, in bytes; clean, so that they can be dropped from the cache.
    pub fn new(files: &[(&str, usize)]) -> Tree {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (name, bytes) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text: Vec<u8> = (0..*bytes).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, text).unwrap();
            std::fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        Tree { directory }
    }

    /// The directory, without links in it.
    pub fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.file(name), contents).unwrap();
        self.file(name)
    }

    /// Drops the clean files of the tree from the page cache.
    pub fn drop_cache(&self) {
        for entry in std::fs::read_dir(self.path()).unwrap().flatten() {
            // Opening a FIFO would wait for its writer.
            if entry.file_type().is_ok_and(|kind| kind.is_file())
                && let Ok(file) = std::fs::File::open(entry.path())
            {
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).ok();
            }
        }
    }

    /// `--rule` for everything below.
    pub fn rule(&self, policy: &str) -> String {
        format!("{}/**={policy}", self.path().display())
    }
}

/// Statistics that `--stats` wrote.
pub fn statistics(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A number of some statistics.
pub fn number(stats: &serde_json::Value, key: &str) -> u64 {
    stats[key].as_u64().unwrap_or_else(|| panic!("{key} in {stats}"))
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run in the background whose program prints "begun" when it begins. Killed when dropped.
pub struct Background {
    child: Option<Child>,
    pid: u32,
}

impl Background {
    /// Starts `foretell` with these arguments and waits for the word.
    pub fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Background {
        let mut background = Background::spawn(None, arguments);
        background.wait_for_begin();
        background
    }

    /// The same with a directory for the sockets of private hosts, and without waiting.
    pub fn spawn<A: AsRef<OsStr>>(
        hosts: Option<&Path>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Background {
        // Whoever started the tests may have had signals ignored (nohup, a shell's background job), and
        // ignored they would stay.
        let mut command = Command::new("env");
        command.args(["--default-signal", FORETELL]).env("FORETELL_SOCKET", NOWHERE);
        if let Some(hosts) = hosts {
            command.env("FORETELL_HOSTS", hosts);
        }
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        Background { pid: child.id(), child: Some(child) }
    }

    /// Waits for the word.
    pub fn wait_for_begin(&mut self) {
        let child = self.child.as_mut().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim() != "begun" {
            let output = self.child.take().unwrap().wait_with_output().unwrap();
            panic!("did not begin: {line:?} {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Number of the foretell process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Closes the program's standard input, on which it waits, and waits for the end.
    pub fn end(mut self) -> Ended {
        let mut child = self.child.take().unwrap();
        drop(child.stdin.take());
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
