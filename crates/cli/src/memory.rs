//! How much memory this process may use: the machine's, or less where a memory cgroup limits it.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that may be used: `MemTotal` of `/proc/meminfo` or, if less, the smallest `memory.max` of our
/// cgroup and those above it (cgroup v2). `None` when the kernel does not say.
#[must_use]
pub fn usable_bytes() -> Option<u64> {
    let total = total_bytes(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let limit = cgroup_directory()
        .into_iter()
        .flat_map(|own| own.ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .take_while(|directory| directory.starts_with("/sys/fs/cgroup"))
        .filter_map(|directory| fs::read_to_string(directory.join("memory.max")).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min();
    Some(limit.map_or(total, |limit: u64| limit.min(total)))
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The directory of our cgroup v2, mounted where systemd and everyone else mounts it.
fn cgroup_directory() -> Option<PathBuf> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = membership.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(own))
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
}
