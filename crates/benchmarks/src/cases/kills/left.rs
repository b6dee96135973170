//! What may be left when all is over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::processes;

/// The kernel takes leave of a BPF program a moment after its last user.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Our objects in the kernel are called so.
const NAME: &str = "foretell";
/// Directories in which nothing of ours may appear.
const ELSEWHERE: [&str; 3] = ["/sys/fs/bpf", "/dev/shm", "/sys/fs/cgroup"];

/// What was there before.
#[derive(Debug)]
pub(super) struct Before {
    readahead: BTreeMap<PathBuf, String>,
    elsewhere: BTreeSet<PathBuf>,
}

impl Before {
    pub(super) fn look() -> Before {
        Before { readahead: readahead(), elsewhere: elsewhere() }
    }

    /// What is left of what was started from programs in a directory, each in words.
    pub(super) fn left(&self, directory: &Path) -> Vec<String> {
        let began = Instant::now();
        let mut left = self.now(directory);
        while !left.is_empty() && began.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_EVERY);
            // What others on this machine begin and end meanwhile is seen once.
            let now = self.now(directory);
            left.retain(|one| now.contains(one));
        }
        left
    }

    fn now(&self, directory: &Path) -> Vec<String> {
        let mut left = Vec::new();
        let programs = ["bin/job", "bin/foretell", "bin/foretell-tools"].map(|name| directory.join(name));
        let running = processes::running(&programs);
        left.extend(running.iter().map(|pid| format!("process {pid}, {}", processes::name(*pid))));
        left.extend(sockets(directory));
        for name in ["hosts", "tmp"] {
            left.extend(names(&directory.join(name)).map(|path| path.display().to_string()));
        }
        for name in ["", "out", "state/jobs/job", "fresh/jobs/job"] {
            let temporary = names(&directory.join(name)).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".foretell-"))
            });
            left.extend(temporary.map(|path| path.display().to_string()));
            let socket = directory.join(name).join("s.sock");
            left.extend(socket.exists().then(|| socket.display().to_string()));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = directory.display().to_string();
        left.extend(mounts.lines().filter(|line| line.contains(&below)).map(|line| format!("mount {line}")));
        let readahead = readahead();
        let changed = self.readahead.iter().filter(|(path, value)| readahead.get(*path) != Some(value));
        left.extend(changed.map(|(path, value)| format!("{} was {value}", path.display())));
        let new = elsewhere().into_iter().filter(|path| !self.elsewhere.contains(path));
        left.extend(new.filter(|path| is_of_nobody(path)).map(|path| path.display().to_string()));
        left.extend(programs_of_nobody());
        left
    }
}

/// What lies in a directory.
fn names(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Abstract sockets to start programs with whose makers are gone, and others in the directory.
fn sockets(directory: &Path) -> Vec<String> {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let directory = directory.display().to_string();
    let is_left =
        |name: &&str| match name.strip_prefix("@foretell-start-").and_then(|rest| rest.split_once('-')) {
            Some((pid, _)) => !Path::new("/proc").join(pid).exists(),
            None => name.starts_with(&directory),
        };
    let named = sockets.lines().filter_map(|line| line.split_ascii_whitespace().nth(7));
    named.filter(is_left).map(|name| format!("socket {name}")).collect()
}

fn readahead() -> BTreeMap<PathBuf, String> {
    let settings = names(Path::new("/sys/block")).map(|disk| disk.join("queue/read_ahead_kb"));
    settings
        .filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?.trim().to_owned())))
        .collect()
}

fn elsewhere() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for directory in ELSEWHERE {
        let inner: Vec<PathBuf> = names(Path::new(directory)).collect();
        let deeper = inner.iter().filter(|path| path.is_dir() && !path.is_symlink());
        let deeper: Vec<PathBuf> = deeper.flat_map(|path| names(path)).collect();
        let is_ours = |path: &PathBuf| path.to_string_lossy().contains(NAME);
        found.extend(inner.into_iter().chain(deeper).filter(is_ours));
    }
    found
}

/// Is nobody there whose number it bears? Others may use this machine as well.
fn is_of_nobody(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let numbers = name.split(|char: char| !char.is_ascii_digit()).filter(|number| !number.is_empty());
    !numbers.into_iter().any(|number| Path::new("/proc").join(number).exists())
}

/// BPF programs of our names that no process holds.
fn programs_of_nobody() -> Vec<String> {
    let loaded = aya::programs::loaded_programs().flatten();
    let ours = loaded.filter(|program| program.name_as_str().is_some_and(|name| name.starts_with(NAME)));
    let ours: Vec<(u32, String)> =
        ours.map(|program| (program.id(), program.name_as_str().unwrap_or_default().to_owned())).collect();
    if ours.is_empty() {
        return Vec::new();
    }
    let held = held_programs();
    let of_nobody = ours.into_iter().filter(|(id, _)| !held.contains(id));
    of_nobody.map(|(id, name)| format!("BPF program {id}, {name}")).collect()
}

/// The numbers of all BPF programs that some process has open, or a link of (proc_pid_fdinfo(5)).
fn held_programs() -> BTreeSet<u32> {
    let processes = names(Path::new("/proc"));
    let open = processes.flat_map(|process| names(&process.join("fdinfo")));
    let texts = open.filter_map(|path| fs::read_to_string(path).ok());
    let mut held = BTreeSet::new();
    for text in texts {
        let numbers = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        held.extend(numbers.filter_map(|number| number.trim().parse::<u32>().ok()));
    }
    held
}
