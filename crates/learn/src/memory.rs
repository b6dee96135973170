//! How much memory a job can have for its files.
//!
//! The machine's, or less where a memory cgroup limits it: a group's page cache can grow to what its limit leaves over
//! its other memory. Both versions of cgroups are understood, at the places where systemd and container engines mount
//! them (cgroups(7)). What the kernel does not say counts as no limit.

use std::fs;
use std::path::{Path, PathBuf};

/// Whose memory is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    /// That of this process, and of what it starts.
    Ours,
    /// That of another process, by its number.
    Process(u32),
    /// That of a control group, named as a directory or as systemd and `/proc/PID/cgroup` have it.
    Group(&'a Path),
}

/// Bytes that may be used: `MemTotal` of `/proc/meminfo` or, if less, the smallest limit of our memory cgroup and those
/// above it. `None` when the kernel does not say.
#[must_use]
pub fn usable_bytes() -> Option<u64> {
    usable_bytes_of(Whose::Ours)
}

/// The same of another one's memory cgroup.
#[must_use]
pub fn usable_bytes_of(whose: Whose<'_>) -> Option<u64> {
    let total = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    Some(groups(whose).iter().filter_map(Group::limit).min().map_or(total, |limit| limit.min(total)))
}

/// Bytes that page cache may fill at present: what is available on the machine (`MemAvailable`) or, if less, what our
/// memory cgroups' limits leave over what is no page cache in them. `None` when the kernel does not say.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    free_bytes_of(Whose::Ours)
}

/// The same of another one's memory cgroup.
#[must_use]
pub fn free_bytes_of(whose: Whose<'_>) -> Option<u64> {
    let available = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(groups(whose).iter().filter_map(Group::room).min().map_or(available, |room| room.min(available)))
}

/// Bytes of files that our own process has mapped and uses: page cache that is as good as taken. 0 when the kernel
/// does not say (proc_pid_status(5), `RssFile`).
#[must_use]
pub fn own_mapped_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    of_meminfo(&status, "RssFile:").unwrap_or(0)
}

/// One line of `/proc/meminfo`, in bytes.
fn of_meminfo(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A memory cgroup that we are in or below.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    directory: PathBuf,
    second_version: bool,
}

impl Group {
    fn number(&self, file: &str) -> Option<u64> {
        // `max` is no number; version 1's largest number is above any memory.
        fs::read_to_string(self.directory.join(file)).ok()?.trim().parse().ok()
    }

    fn limit(&self) -> Option<u64> {
        self.number(if self.second_version { "memory.max" } else { "memory.limit_in_bytes" })
    }

    /// What its limit leaves over what cannot be dropped.
    fn room(&self) -> Option<u64> {
        let limit = self.limit()?;
        let stat = fs::read_to_string(self.directory.join("memory.stat")).ok()?;
        let used =
            self.number(if self.second_version { "memory.current" } else { "memory.usage_in_bytes" })?;
        let prefix = if self.second_version { "" } else { "total_" };
        let field = |name: &str| {
            let name = format!("{prefix}{name} ");
            stat.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let file_cache = field("inactive_file") + field("active_file");
        Some(limit.saturating_sub(used.saturating_sub(file_cache)))
    }
}

fn groups(whose: Whose<'_>) -> Vec<Group> {
    let membership = match whose {
        Whose::Ours => fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        Whose::Process(pid) => fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(),
        Whose::Group(path) => membership_of(path),
    };
    groups_in(&membership)
}

/// What `/proc/PID/cgroup` says of the processes in a group. Of version 1 its hierarchies are taken to have the same
/// groups, as systemd and container engines make them.
fn membership_of(group: &Path) -> String {
    /// The longer ones first: each begins with the last.
    const MOUNTS: [&str; 4] =
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup"];
    let inside = MOUNTS.iter().find_map(|mount| group.strip_prefix(mount).ok()).unwrap_or(group);
    let inside = inside.strip_prefix("/").unwrap_or(inside).display();
    format!("1:memory:/{inside}\n0::/{inside}\n")
}

/// The groups that `/proc/self/cgroup` names, and those above them.
fn groups_in(membership: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        // Outside of what this namespace of cgroups shows (cgroup_namespaces(7)): its limits are not to be read here.
        if group.starts_with("/..") {
            continue;
        }
        let group = Path::new(group.trim_start_matches('/'));
        let second_version = controllers.is_empty();
        let mounts: &[&str] = match second_version {
            true => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            false if controllers.split(',').any(|controller| controller == "memory") => {
                &["/sys/fs/cgroup/memory"]
            }
            false => &[],
        };
        for mount in mounts {
            let directories = group.ancestors().map(|group| Path::new(mount).join(group));
            found.extend(directories.map(|directory| Group { directory, second_version }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read_in_kib() {
        let meminfo = "MemTotal:        4 kB\nMemAvailable: 1 kB\n";
        assert_eq!(of_meminfo(meminfo, "MemTotal:"), Some(4096));
        assert_eq!(of_meminfo(meminfo, "MemAvailable:"), Some(1024));
        assert_eq!(of_meminfo("MemFree: 1 kB\n", "MemTotal:"), None);
        let (usable, free) = (usable_bytes().unwrap(), free_bytes().unwrap());
        assert!(usable > 1 << 20 && free <= usable);
        assert!((1 << 16..usable).contains(&own_mapped_bytes()), "the program itself");
    }

    #[test]
    fn both_versions_of_cgroups_are_looked_at() {
        let found: Vec<PathBuf> = groups_in("4:cpu,memory:/a/b\n3:cpuset:/\n0::/c\n")
            .into_iter()
            .map(|group| group.directory)
            .collect();
        let expected = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory/",
            "/sys/fs/cgroup/c",
            "/sys/fs/cgroup/",
            "/sys/fs/cgroup/unified/c",
            "/sys/fs/cgroup/unified/",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_group_is_found_by_its_directory_and_by_its_name() {
        let expected = "1:memory:/system.slice/a.service\n0::/system.slice/a.service\n";
        for name in [
            "/system.slice/a.service",
            "system.slice/a.service",
            "/sys/fs/cgroup/system.slice/a.service",
            "/sys/fs/cgroup/memory/system.slice/a.service",
            "/sys/fs/cgroup/unified/system.slice/a.service",
        ] {
            assert_eq!(membership_of(Path::new(name)), expected, "{name}");
        }
        assert_eq!(
            usable_bytes_of(Whose::Group(Path::new("/none"))),
            usable_bytes_of(Whose::Process(u32::MAX))
        );
    }

    #[test]
    fn what_cannot_be_dropped_leaves_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let group = |second_version| Group { directory: dir.path().to_owned(), second_version };
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 300\ninactive_file 400\nactive_file 100\n");
        assert_eq!(group(true).room(), Some(600));
        write("memory.max", "max\n");
        assert_eq!(group(true).room(), None);
        write("memory.limit_in_bytes", "500\n");
        write("memory.usage_in_bytes", "500\n");
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 0\n");
        assert_eq!(group(false).room(), Some(200));
    }
}
