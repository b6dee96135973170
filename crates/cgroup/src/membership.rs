//! Where groups are mounted, and which of them hold a process (cgroups(7), cgroup_namespaces(7)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Of which of the two kinds a hierarchy of groups is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One of several, each with some controllers.
    One,
    /// The unified one.
    Two,
}

/// A hierarchy of groups that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    /// Where.
    pub(crate) mount: PathBuf,
    /// The group that is seen there: another one than the first in a container without a namespace of groups.
    root: PathBuf,
    /// What it was mounted with: of version 1 the controllers.
    options: Vec<String>,
}

impl Hierarchy {
    /// All that are mounted, as found when this was asked first: they are mounted when the machine, or the container, starts.
    pub(crate) fn all() -> io::Result<&'static [Hierarchy]> {
        static ALL: OnceLock<Vec<Hierarchy>> = OnceLock::new();
        if let Some(all) = ALL.get() {
            return Ok(all);
        }
        let all = Hierarchy::parse(&fs::read_to_string("/proc/self/mountinfo")?);
        Ok(ALL.get_or_init(|| all))
    }

    /// Those of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    pub(crate) fn parse(mounts: &str) -> Vec<Hierarchy> {
        let parse = |line: &str| {
            let (before, after) = line.split_once(" - ")?;
            let mut before = before.split(' ').skip(3);
            let (root, mount) = (before.next()?, before.next()?);
            let mut after = after.split(' ');
            let version = match after.next()? {
                "cgroup" => Version::One,
                "cgroup2" => Version::Two,
                _ => return None,
            };
            let options = after.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
            Some(Hierarchy { version, mount: mount.into(), root: root.into(), options })
        };
        mounts.lines().filter_map(parse).collect()
    }

    /// Was it mounted with this option, as with a controller of version 1?
    pub(crate) fn has_option(&self, wanted: &str) -> bool {
        self.options.iter().any(|option| option == wanted)
    }

    /// The directory of a group, named as in `/proc/PID/cgroup`, and those of the groups above it.
    fn directories(&self, group: &Path) -> Vec<PathBuf> {
        let group = group.strip_prefix(&self.root).unwrap_or(group);
        let group = group.strip_prefix("/").unwrap_or(group);
        group.ancestors().map(|group| self.mount.join(group)).collect()
    }
}

/// Whose groups are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those of this process, and of what it starts.
    Ours,
    /// Those of another process, by its number.
    Process(u32),
    /// A group and those above it, named as a directory or as systemd and `/proc/PID/cgroup` have it.
    Group(&'a Path),
}

/// A group that holds a process, itself or below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Where its files are.
    pub directory: PathBuf,
    /// Of which kind it is: that says what they are called.
    pub version: Version,
}

impl Group {
    /// What one of its files says, if that is a number.
    #[must_use]
    pub fn number(&self, file: &str) -> Option<u64> {
        // `max` is no number; version 1's largest number is above any memory.
        fs::read_to_string(self.directory.join(file)).ok()?.trim().parse().ok()
    }
}

/// The groups that may limit somebody by a controller that both versions call so, the innermost first: those of version 1
/// that have the controller, and all of version 2. None on a kernel without groups.
///
/// # Errors
/// It cannot be told: the process is not there any more, or what the kernel says of it cannot be read.
pub fn groups(whose: Whose<'_>, controller: &str) -> io::Result<Vec<Group>> {
    let hierarchies = Hierarchy::all()?;
    let own = || match fs::read_to_string("/proc/self/cgroup") {
        // The kernel knows of no groups.
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists() => {
            Ok(String::new())
        }
        read => read,
    };
    match whose {
        Whose::Ours => Ok(groups_in(&own()?, hierarchies, controller)),
        Whose::Process(pid) => match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && Path::new(&format!("/proc/{pid}")).exists() =>
            {
                Ok(Vec::new())
            }
            read => Ok(groups_in(&read?, hierarchies, controller)),
        },
        Whose::Group(group) => {
            let group = inside(group, hierarchies);
            // Of version 1 the hierarchies are taken to have the same groups, as systemd and container engines make them.
            let limiting =
                hierarchies.iter().filter(|one| one.version == Version::Two || one.has_option(controller));
            Ok(limiting.flat_map(|one| with_those_above(one, &group)).collect())
        }
    }
}

/// The directory of a group that is named as a directory, or as systemd and `/proc/PID/cgroup` have it: in the unified
/// hierarchy, systemd's own, or any other one. `None` if there is none.
#[must_use]
pub fn directory_of(group: &Path) -> Option<PathBuf> {
    let mut hierarchies: Vec<&Hierarchy> = Hierarchy::all().unwrap_or_default().iter().collect();
    hierarchies.sort_by_key(|one| (one.version == Version::One, !one.has_option("name=systemd")));
    let inside = group.strip_prefix("/").unwrap_or(group);
    let below = hierarchies.iter().map(|one| one.mount.join(inside));
    std::iter::once(group.to_owned()).chain(below).find(|directory| directory.join("cgroup.procs").exists())
}

/// A group without the directory of the hierarchy that it was named with.
fn inside(group: &Path, hierarchies: &[Hierarchy]) -> PathBuf {
    // The longer ones first: that of the unified hierarchy may be where the others lie.
    let mut mounts: Vec<&Path> = hierarchies.iter().map(|one| one.mount.as_path()).collect();
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.as_os_str().len()));
    let inside = mounts.iter().find_map(|mount| group.strip_prefix(mount).ok()).unwrap_or(group);
    Path::new("/").join(inside)
}

fn with_those_above(hierarchy: &Hierarchy, group: &Path) -> impl Iterator<Item = Group> + use<> {
    let version = hierarchy.version;
    hierarchy.directories(group).into_iter().map(move |directory| Group { directory, version })
}

/// The groups that `/proc/PID/cgroup` names, and those above them.
fn groups_in(membership: &str, hierarchies: &[Hierarchy], wanted: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        // Outside of what this namespace of groups shows: its limits are not to be read here.
        if group.starts_with("/..") {
            continue;
        }
        let version = if controllers.is_empty() { Version::Two } else { Version::One };
        let limits = version == Version::Two || controllers.split(',').any(|controller| controller == wanted);
        let of_it =
            |one: &&Hierarchy| one.version == version && (version == Version::Two || one.has_option(wanted));
        for hierarchy in hierarchies.iter().filter(of_it).filter(|_| limits) {
            found.extend(with_those_above(hierarchy, Path::new(group)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                          31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          32 30 0:28 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n\
                          33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";

    fn directories(membership: &str, mounts: &str) -> Vec<String> {
        let found = groups_in(membership, &Hierarchy::parse(mounts), "memory");
        found.into_iter().map(|group| group.directory.join("x").to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn groups_of_both_versions_are_found_with_those_above_them() {
        let found = directories("4:cpu,memory:/a/b\n3:pids:/d\n0::/c\n", MOUNTS);
        let expected = [
            "/sys/fs/cgroup/memory/a/b/x",
            "/sys/fs/cgroup/memory/a/x",
            "/sys/fs/cgroup/memory/x",
            "/sys/fs/cgroup/unified/c/x",
            "/sys/fs/cgroup/unified/x",
        ];
        assert_eq!(found, expected);
        assert!(directories("0::/../outside\n", MOUNTS).is_empty());
        assert!(directories("0::/c\n", "").is_empty(), "nothing is mounted");
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_first() {
        let mounts = "31 30 0:27 /docker/1 /sys/fs/cgroup rw - cgroup2 none rw\n";
        assert_eq!(
            directories("0::/docker/1/a\n", mounts),
            ["/sys/fs/cgroup/a/x", "/sys/fs/cgroup/x"],
            "named from the machine's first group"
        );
    }

    #[test]
    fn a_group_is_found_by_its_directory_and_by_its_name() {
        let hierarchies = Hierarchy::parse(MOUNTS);
        for name in [
            "/system.slice/a.service",
            "system.slice/a.service",
            "/sys/fs/cgroup/memory/system.slice/a.service",
            "/sys/fs/cgroup/unified/system.slice/a.service",
        ] {
            assert_eq!(inside(Path::new(name), &hierarchies), Path::new("/system.slice/a.service"), "{name}");
        }
        assert_eq!(directory_of(Path::new("no/such/group")), None);
    }

    #[test]
    fn of_a_process_that_is_not_there_nothing_is_known() {
        assert!(groups(Whose::Process(u32::MAX), "memory").is_err());
        assert!(groups(Whose::Ours, "memory").is_ok());
    }
}
