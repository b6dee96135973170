//! How many processes and threads may still be started.
//!
//! Ours count where the job's do: in its control group, and among the user's. A job whose fork fails because of us has
//! failed because of us, so where there are few we take none.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::getuid;

use foretell_cgroup::{Group, Whose, groups};

/// Processes and threads that foretell starts beside a job, at most: 16 seen of a steered night on two processors, 36 where
/// names are guessed.
pub const OURS: u64 = 64;

/// There must be so many times as many, else a job that starts many itself is in danger.
const SHARE: u64 = 4;

/// From this limit on a user's processes are not counted one by one: nobody comes near it by chance.
const MANY: u64 = 16_384;

/// Is there no room for ours beside the job's? Says how many may still be started.
#[must_use]
pub fn too_few() -> Option<u64> {
    room().filter(|&room| room < SHARE * OURS)
}

/// Processes and threads that may still be started: what the least of the limits leaves. `None` where there is none.
fn room() -> Option<u64> {
    let of_groups = groups(Whose::Ours, "pids").unwrap_or_default().iter().filter_map(left).min();
    of_groups.into_iter().chain(of_user()).min()
}

/// What a group's limit leaves (`pids.max`, in both versions).
fn left(group: &Group) -> Option<u64> {
    Some(group.number("pids.max")?.saturating_sub(group.number("pids.current")?))
}

/// What the user's limit leaves (`RLIMIT_NPROC`, getrlimit(2)). Root has none.
fn of_user() -> Option<u64> {
    let user = getuid();
    if user.is_root() {
        return None;
    }
    let limit = soft_limit("Max processes").filter(|&limit| limit < MANY)?;
    let processes = fs::read_dir("/proc").ok()?.flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|of| of.uid() == user.as_raw())
    });
    // A process that has just ended has no directory any more.
    let threads = processes.map(|entry| fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count));
    Some(limit.saturating_sub(threads.sum::<usize>() as u64))
}

/// A limit of this process's, by its name in proc_pid_limits(5); `None` where there is none. The system call may be forbidden
/// (`SystemCallFilter=`, systemd.exec(5)), and to rustix that is a defect.
fn soft_limit(name: &str) -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn limits_are_told_without_the_call() {
        assert_eq!(soft_limit("Max processes"), getrlimit(Resource::Nproc).current);
        assert_eq!(soft_limit("Max open files"), getrlimit(Resource::Nofile).current);
        assert_eq!(soft_limit("Max cpu time"), getrlimit(Resource::Cpu).current);
        assert_eq!(soft_limit("No such"), None);
    }

    #[test]
    fn a_group_leaves_what_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group { directory: dir.path().to_owned(), version: foretell_cgroup::Version::Two };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(left(&group), None, "the root of a hierarchy has no such files");
        write("pids.max", "20\n");
        write("pids.current", "7\n");
        assert_eq!(left(&group), Some(13));
        write("pids.current", "21\n");
        assert_eq!(left(&group), Some(0), "the limit was lowered");
        write("pids.max", "max\n");
        assert_eq!(left(&group), None);
    }
}
