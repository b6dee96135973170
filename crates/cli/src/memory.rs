//! How much memory this process may use: the machine's, or less where a memory cgroup limits it.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that may be used: `MemTotal` of `/proc/meminfo` or, if less, the smallest limit of our memory
/// cgroup and those above it. `None` when the kernel does not say.
#[must_use]
pub fn usable_bytes() -> Option<u64> {
    let total = total_bytes(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups(&membership).into_iter().flat_map(|(mount, group, file)| {
        let directories: Vec<PathBuf> = group.ancestors().map(|g| Path::new(mount).join(g)).collect();
        directories.into_iter().filter_map(move |directory| limit_in(&directory.join(file)))
    });
    Some(limits.min().map_or(total, |limit| limit.min(total)))
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// No number (`max`) is no limit; neither is version 1's largest number, which is above any memory.
fn limit_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Where the limits of the groups that `/proc/self/cgroup` names may be (cgroups(7)): mount point, group,
/// and the name of the file. The places are those where systemd and container engines mount them.
fn groups(membership: &str) -> Vec<(&'static str, PathBuf, &'static str)> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let group = PathBuf::from(group.trim_start_matches('/'));
        if controllers.is_empty() {
            found.push(("/sys/fs/cgroup", group.clone(), "memory.max"));
            found.push(("/sys/fs/cgroup/unified", group, "memory.max"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            found.push(("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_kib() {
        assert_eq!(total_bytes("MemTotal:        4 kB\nMemFree: 1 kB\n"), Some(4096));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert!(usable_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn both_versions_of_cgroups_are_looked_at() {
        let found = groups("4:cpu,memory:/a/b\n3:cpuset:/\n0::/c\n");
        assert_eq!(
            found,
            [
                ("/sys/fs/cgroup/memory", "a/b".into(), "memory.limit_in_bytes"),
                ("/sys/fs/cgroup", "c".into(), "memory.max"),
                ("/sys/fs/cgroup/unified", "c".into(), "memory.max"),
            ]
        );
    }
}
