//! Processes, as /proc tells of them.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Sends a signal to a process; says whether there was one.
pub(super) fn signal(process: u32, signal: Signal) -> bool {
    pid(process).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The same to a group of processes.
pub(super) fn signal_group(group: u32, signal: Signal) -> bool {
    pid(group).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

/// The children of a process, whichever of its threads has started them.
pub(super) fn children(of: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children: String = lists.collect();
    children.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// What a process is called.
pub(super) fn name(of: u32) -> String {
    fs::read_to_string(format!("/proc/{of}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The processes of some programs.
pub(super) fn running(programs: &[PathBuf]) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_it =
        all.filter(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| programs.contains(&exe)));
    of_it.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
