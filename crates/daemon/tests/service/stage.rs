//! A service of the test's own, on a socket of its own, and files that nothing is cached of.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use foretell_pagecache::{Options, doctor};
use foretell_testkit::programs;
use foretelld::{Configuration, Confinement, Limits, Service, ServiceError, Snapshot};

use crate::client::Client;
use crate::users::{NOBODY, role, start_as, start_command};

pub(crate) const BLOCK: u64 = 8192;

/// A directory on a disk, for one test at a time.
pub(crate) struct Stage {
    pub(crate) directory: PathBuf,
    _removed_at_end: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The stage, or `None` with a line that says why, where page caches cannot be observed.
pub(crate) fn stage(test: &str) -> Option<Stage> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(why) = doctor::missing_for_run() {
        println!("skipped: {test}: {why}");
        return None;
    }
    // Not in the build's directory: its path may be too long for a socket, and closed to other users.
    let directory = tempfile::Builder::new().prefix("foretelld").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = fs::canonicalize(directory.path()).unwrap();
    Some(Stage { directory: path, _removed_at_end: directory, _alone: alone })
}

/// A running service, in a process of its own, stopped at the end.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    child: Child,
    command: RefCell<Client>,
    /// Kept open: who writes into a closed one fails.
    _output: BufReader<ChildStdout>,
}

impl Stage {
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("s.sock")
    }

    /// A file of so many blocks, written back, with nothing of it cached.
    pub(crate) fn file(&self, name: &str, blocks: u64) -> PathBuf {
        let path = self.directory.join(name);
        let mut file = File::create(&path).unwrap();
        for block in 0..blocks {
            file.write_all(&[block as u8; BLOCK as usize]).unwrap();
        }
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        path
    }

    pub(crate) fn configuration(&self, budget_blocks: u64, limits: Limits) -> Configuration {
        let options = Options::new(budget_blocks * BLOCK);
        Configuration { socket: self.socket(), options, limits, confinement: Confinement::None }
    }

    pub(crate) fn service(&self, budget_blocks: u64) -> Running {
        self.service_with(budget_blocks, Limits::default())
    }

    pub(crate) fn service_with(&self, budget_blocks: u64, limits: Limits) -> Running {
        let socket = self.socket();
        let child = start_as("service", &socket, &words(budget_blocks, &limits), None);
        Running::begun(child, socket)
    }

    /// A service that may have so many descriptors open.
    pub(crate) fn service_with_descriptors(&self, budget_blocks: u64, most: u32) -> Running {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
        let socket = self.socket();
        let words = words(budget_blocks, &Limits::default());
        Running::begun(start_command(command, "service", &socket, &words), socket)
    }

    /// A service that sees another `/etc/subuid` (subuid(5)), in a mount namespace of its own.
    pub(crate) fn service_with_subuid(&self, budget_blocks: u64, limits: Limits, subuid: &str) -> Running {
        let (list, program) = (self.directory.join("subuid"), self.directory.join("service"));
        fs::write(&list, subuid).unwrap();
        programs::copy("/proc/self/exe", &program);
        let mut command = std::process::Command::new("unshare");
        let script = r#"mount --bind "$0" /etc/subuid && exec "$@""#;
        command.args(["--mount", "sh", "-c", script]).arg(list).arg(program);
        let socket = self.socket();
        Running::begun(start_command(command, "service", &socket, &words(budget_blocks, &limits)), socket)
    }

    /// The same as the user `nobody` with some capabilities (`,+NAME,+NAME`).
    pub(crate) fn service_as_nobody(
        &self,
        budget_blocks: u64,
        limits: Limits,
        capabilities: &str,
    ) -> Running {
        self.service_as_nobody_with(budget_blocks, limits, capabilities, |_| {})
    }

    /// The same of a command that `set` has had.
    pub(crate) fn service_as_nobody_with(
        &self,
        budget_blocks: u64,
        limits: Limits,
        capabilities: &str,
        set: impl FnOnce(&mut std::process::Command),
    ) -> Running {
        let (mut command, socket) = self.command_as_nobody(capabilities);
        set(&mut command);
        Running::begun(start_command(command, "service", &socket, &words(budget_blocks, &limits)), socket)
    }

    /// Why a service does not begin, as the user `nobody` with some capabilities.
    pub(crate) fn refusal_as_nobody(&self, capabilities: &str) -> String {
        let (mut command, socket) = self.command_as_nobody(capabilities);
        command.stderr(std::process::Stdio::piped());
        let child = start_command(command, "service", &socket, &words(128, &Limits::default()));
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// A command that ends in this binary, as the user `nobody` with some capabilities, and a socket for it.
    fn command_as_nobody(&self, capabilities: &str) -> (std::process::Command, PathBuf) {
        let directory = self.directory.join("run");
        fs::create_dir_all(&directory).unwrap();
        std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
        // Where it was built nobody else may look, perhaps.
        let program = self.directory.join("service");
        // Once: helpers of a service that has just ended may still run it.
        if !program.exists() {
            programs::copy("/proc/self/exe", &program);
        }
        let socket = directory.join("s.sock");
        let mut command = std::process::Command::new("setpriv");
        for set in ["inh-caps", "ambient-caps", "bounding-set"] {
            command.arg(format!("--{set}=-all{capabilities}"));
        }
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]).arg(program);
        (command, socket)
    }
}

fn words(budget_blocks: u64, limits: &Limits) -> [String; 2] {
    [budget_blocks.to_string(), serde_json::to_string(limits).unwrap()]
}

impl Running {
    fn begun(mut child: Child, socket: PathBuf) -> Running {
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim_end() != "serving" {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the service has not begun");
        }
        let command = RefCell::new(Client::command(&socket));
        Running { socket, child, command, _output: output }
    }
}

/// The service itself, until it is told to end.
#[test]
fn as_service() {
    let Some(words) = role("service") else { return };
    let options = Options::new(words[1].parse::<u64>().unwrap() * BLOCK);
    let limits = serde_json::from_str(&words[2]).unwrap();
    let configuration = Configuration {
        socket: PathBuf::from(&words[0]),
        options,
        limits,
        // It lives only as long as it does nothing else than it says.
        confinement: Confinement::Ends,
    };
    crate::privileges::keep_calls();
    let service = Service::open(configuration).unwrap();
    service.stop().on_signals().unwrap();
    println!("\nserving");
    match service.run() {
        // As the program does it, in one line and no panic: whoever looks for defects finds only those.
        Err(error @ ServiceError::NoBroker) => {
            eprintln!("{error}");
            std::process::exit(NO_BROKER);
        }
        other => other.unwrap(),
    }
}

/// The exit code of a service whose broker has ended.
pub(crate) const NO_BROKER: i32 = 3;

impl Running {
    /// What is going on, without the connection that asks.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.command.borrow_mut().status("");
        snapshot.sessions_open -= 1;
        snapshot.sessions_opened -= 1;
        snapshot
    }

    /// Looks until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let start = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if is_so(&snapshot) {
                return snapshot;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "never: {what}: {snapshot:?}");
            // No more often than may be asked.
            std::thread::sleep(Duration::from_millis(130));
        }
    }

    /// Stops the service; it must have had no trouble.
    pub(crate) fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }

    /// Descriptors that it has open.
    pub(crate) fn open_descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// What `/proc` says of it and of each of its threads.
    pub(crate) fn proc_status(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap()).collect()
    }

    /// A process that it has started, by its name.
    pub(crate) fn helper(&self, name: &str) -> u32 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let children =
            threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
        let children = children.collect::<String>();
        let mut pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
        let is_it = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|found| found.trim_end() == name)
        };
        pids.find(is_it).unwrap()
    }

    /// How it has ended, by itself.
    pub(crate) fn ended(mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills the service, and does not wait for its end.
    pub(crate) fn begin_to_kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Kills the service.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    // Also when its test has failed: nothing is left running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a file of so many blocks from beginning to end.
pub(crate) fn read_blocks(path: &Path, blocks: impl IntoIterator<Item = u64>) {
    use std::os::unix::fs::FileExt;
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut buffer = [0; BLOCK as usize];
    for block in blocks {
        file.read_exact_at(&mut buffer, block * BLOCK).unwrap();
        assert_eq!(buffer[0], block as u8);
    }
}
