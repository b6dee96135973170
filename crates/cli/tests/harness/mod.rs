//! Starts the command as a process, on real files.

#![allow(dead_code, unreachable_pub)] // every test file uses its own part

pub mod browser;
pub mod nights;
pub mod slow_disk;
pub mod ways;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
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
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            signal: output.status.signal(),
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

/// Where a command finds other hosts: those here and no others. Nothing is left there when it is dropped.
pub struct Hosts {
    directory: tempfile::TempDir,
    socket: PathBuf,
}

impl Hosts {
    /// Without a service.
    pub fn new() -> Hosts {
        Hosts::beside(Path::new(NOWHERE))
    }

    /// With the service that listens there.
    pub fn beside(socket: &Path) -> Hosts {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Hosts { directory, socket: socket.to_owned() }
    }

    /// The directory of the private ones' sockets.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The names in it.
    pub fn names(&self) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    /// The processes that were started with these hosts, and what those have started: the name of each.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("FORETELL_HOSTS={}", self.path().display()).into_bytes();
        let has_it = |process: &Path| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark)
        };
        let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let ours = all.filter(|process| has_it(process));
        ours.filter_map(|process| std::fs::read_to_string(process.join("comm")).ok()).collect()
    }

    /// Nothing is left of what was started with these hosts: no process, and no name. What cleans up may take a moment.
    pub fn assert_left_as_they_were(&self) {
        wait_until("all processes have ended", || self.processes().is_empty());
        assert!(self.names().is_empty(), "{:?}", self.names());
    }

    fn set(&self, command: &mut Command) {
        command.env("FORETELL_SOCKET", &self.socket).env("FORETELL_HOSTS", self.path());
    }

    /// Runs the command to its end.
    pub fn foretell<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        let mut command = Command::new(FORETELL);
        self.set(&mut command);
        command.args(arguments).stdin(Stdio::null()).output().unwrap().into()
    }

    /// As [`Background::start`], without waiting.
    pub fn spawn<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Background {
        Background::spawn(|command| self.set(command), arguments)
    }
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
        drop_cache(&self.path());
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

/// Drops what is clean of the files in a directory from the page cache.
pub fn drop_cache(files: &Path) {
    for entry in std::fs::read_dir(files).unwrap().flatten() {
        // Opening a FIFO would wait for its writer.
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = std::fs::File::open(entry.path())
        {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).ok();
        }
    }
}

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

/// A file that a job waits for. Written when dropped: where a test fails the job must not wait for ever.
pub struct Go(PathBuf);

impl Go {
    pub fn at(path: PathBuf) -> Go {
        Go(path)
    }

    /// What a shell does until there is such a file.
    pub fn awaited(path: &Path) -> String {
        format!("until [ -e '{}' ]; do sleep 0.02; done", path.display())
    }

    /// Runs something whose job waits for the file, which is there when `condition` holds.
    pub fn when<T>(
        path: &Path,
        what: &str,
        condition: impl FnMut() -> bool + Send,
        run: impl FnOnce() -> T,
    ) -> T {
        let _ = std::fs::remove_file(path);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _go = Go::at(path.to_owned());
                wait_until(what, condition);
            });
            run()
        })
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.0, "");
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
        let nowhere = |command: &mut Command| {
            command.env("FORETELL_SOCKET", NOWHERE);
        };
        let mut background = Background::spawn(nowhere, arguments);
        background.wait_for_begin();
        background
    }

    fn spawn<A: AsRef<OsStr>>(
        set: impl FnOnce(&mut Command),
        arguments: impl IntoIterator<Item = A>,
    ) -> Background {
        // Whoever started the tests may have had signals ignored (nohup, a shell's background job), and
        // ignored they would stay.
        let mut command = Command::new("env");
        command.args(["--default-signal", FORETELL]);
        set(&mut command);
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

    /// Sends a signal to the process that does the work, and not to the one that stays with the program.
    pub fn signal_to_worker(&self, signal: rustix::process::Signal) {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap();
        let worker = children.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(worker).unwrap(), signal).unwrap();
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
