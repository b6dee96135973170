//! The control groups that limit a process.
//!
//! Both versions are understood, at the places where systemd and container engines mount them (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

/// Whose limits are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those of this process, and of what it starts.
    Ours,
    /// Those of another process, by its number.
    Process(u32),
    /// Those of a control group, named as a directory or as systemd and `/proc/PID/cgroup` have it.
    Group(&'a Path),
}

/// A control group that a process is in or below.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) directory: PathBuf,
    pub(crate) second_version: bool,
}

impl Group {
    /// What one of its files says, if that is a number.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        // `max` is no number; version 1's largest number is above any memory.
        fs::read_to_string(self.directory.join(file)).ok()?.trim().parse().ok()
    }
}

/// The groups of a controller that limit somebody.
pub(crate) fn groups(whose: Whose<'_>, controller: &str) -> Vec<Group> {
    let membership = match whose {
        Whose::Ours => fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        Whose::Process(pid) => fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(),
        Whose::Group(path) => membership_of(path),
    };
    groups_in(&membership, controller)
}

/// What `/proc/PID/cgroup` says of the processes in a group. Of version 1 its hierarchies are taken to have the same
/// groups, as systemd and container engines make them.
fn membership_of(group: &Path) -> String {
    /// The longer ones first: each begins with the last.
    const MOUNTS: [&str; 4] =
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup"];
    let inside = MOUNTS.iter().find_map(|mount| group.strip_prefix(mount).ok()).unwrap_or(group);
    let inside = inside.strip_prefix("/").unwrap_or(inside).display();
    format!("1:memory,pids:/{inside}\n0::/{inside}\n")
}

/// The groups that `/proc/self/cgroup` names, and those above them.
fn groups_in(membership: &str, wanted: &str) -> Vec<Group> {
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
        let mount = Path::new("/sys/fs/cgroup");
        let mounts = match second_version {
            true => vec![mount.to_owned(), mount.join("unified")],
            false if controllers.split(',').any(|controller| controller == wanted) => {
                vec![mount.join(wanted)]
            }
            false => Vec::new(),
        };
        for mount in &mounts {
            let directories = group.ancestors().map(|group| mount.join(group));
            found.extend(directories.map(|directory| Group { directory, second_version }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cgroups_are_looked_at() {
        let found: Vec<PathBuf> = groups_in("4:cpu,memory:/a/b\n3:pids:/d\n0::/c\n", "memory")
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
        let expected = "1:memory,pids:/system.slice/a.service\n0::/system.slice/a.service\n";
        for name in [
            "/system.slice/a.service",
            "system.slice/a.service",
            "/sys/fs/cgroup/system.slice/a.service",
            "/sys/fs/cgroup/memory/system.slice/a.service",
            "/sys/fs/cgroup/unified/system.slice/a.service",
        ] {
            assert_eq!(membership_of(Path::new(name)), expected, "{name}");
        }
        assert!(groups(Whose::Process(u32::MAX), "memory").is_empty());
    }
}
