//! Scheduling, memory limits, pressure.
#![allow(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use super::Mechanism;

pub(super) fn examine() -> Vec<Mechanism> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let second =
        memory_group("cgroup v2 memory controller", &own_group(&mounts, &groups, Version::Two), "memory.max");
    let first = memory_group(
        "cgroup v1 memory controller",
        &own_group(&mounts, &groups, Version::One),
        "memory.limit_in_bytes",
    );
    let mut memory = [second, first];
    // The newer one is used where both work, and one of them is enough.
    if memory[0].works {
        memory[1].used = false;
    }
    if memory.iter().any(|version| version.works) {
        memory.iter_mut().for_each(|version| version.remedy = None);
    }
    std::iter::once(realtime()).chain(memory).chain(std::iter::once(pressure(&mounts, &groups))).collect()
}

fn realtime() -> Mechanism {
    let name = "real-time scheduling, SCHED_FIFO";
    // In a thread of its own, which ends with it.
    let tried = std::thread::Builder::new().spawn(become_realtime).map(std::thread::JoinHandle::join);
    let remedy =
        "give CAP_SYS_NICE, or allow it by ulimit -r 1; without it actions come late on a busy machine";
    match tried {
        Ok(Ok(Ok(()))) => Mechanism::works(name, "granted to a thread"),
        Ok(Ok(Err(error))) | Err(error) => Mechanism::fails(name, error.to_string(), remedy),
        Ok(Err(_)) => Mechanism::fails(name, "the thread that tried ended early", remedy),
    }
}

fn become_realtime() -> io::Result<()> {
    // SAFETY: all fields of the structure are integers.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = 1;
    // SAFETY: the structure outlives the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The directory of the group that this process is in, in the hierarchy that has memory limits (version 1) or
/// in the unified one (version 2). `mounts` is `/proc/self/mounts`, `groups` is `/proc/self/cgroup`
/// (`cgroups(7)`).
fn own_group(mounts: &str, groups: &str, version: Version) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = fields[..] else { return None };
        let right = match version {
            Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
            Version::Two => kind == "cgroup2",
        };
        right.then_some(place)
    })?;
    let group = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let right = match version {
            Version::One => controllers.split(',').any(|controller| controller == "memory"),
            Version::Two => number == "0",
        };
        right.then_some(path)
    })?;
    let whole = Path::new(mount).join(group.trim_start_matches('/'));
    // In a container the path may be that of the host, which is not mounted here.
    Some(if whole.is_dir() { whole } else { PathBuf::from(mount) })
}

/// Makes a group and looks for the file that limits its memory.
fn memory_group(name: &str, parent: &Option<PathBuf>, limit: &str) -> Mechanism {
    let remedy =
        "only comparisons under a memory limit need it: run them where one of the two versions works";
    let Some(parent) = parent else { return Mechanism::fails(name, "not mounted", remedy) };
    let group = parent.join(format!("foretell-doctor-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        return Mechanism::fails(
            name,
            format!("no group can be made in {}: {error}", parent.display()),
            remedy,
        );
    }
    let limited = group.join(limit).exists();
    let removed = std::fs::remove_dir(&group);
    match (limited, removed) {
        (_, Err(error)) => {
            Mechanism::fails(name, format!("{} cannot be removed: {error}", group.display()), remedy)
        }
        (true, Ok(())) => Mechanism::works(name, format!("groups can be made in {}", parent.display())),
        (false, Ok(())) => {
            Mechanism::fails(name, format!("no memory limits in {}", parent.display()), remedy)
        }
    }
}

fn pressure(mounts: &str, groups: &str) -> Mechanism {
    let name = "pressure of I/O (PSI)";
    let of_group = own_group(mounts, groups, Version::Two).map(|group| group.join("io.pressure"));
    let places = of_group.into_iter().chain([PathBuf::from("/proc/pressure/io")]);
    let readable = |place: &PathBuf| std::fs::read_to_string(place).is_ok_and(|text| text.contains("total="));
    match places.into_iter().find(readable) {
        // The observer measures waits itself.
        Some(place) => Mechanism::works(name, place.display().to_string()).unused(),
        None => Mechanism {
            name: name.to_owned(),
            works: false,
            detail: "neither in the cgroup nor in /proc/pressure".to_owned(),
            used: false,
            remedy: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_in_both_versions() {
        let mounts =
            "cgroup /a/cpu cgroup rw,cpu 0 0\ncgroup /a/m cgroup rw,memory 0 0\nu /a/u cgroup2 rw 0 0\n";
        let groups = "4:memory:/x/y\n3:cpu:/z\n0::/w\n";
        // None of these directories exists: the mount points are what is left.
        assert_eq!(own_group(mounts, groups, Version::One), Some(PathBuf::from("/a/m")));
        assert_eq!(own_group(mounts, groups, Version::Two), Some(PathBuf::from("/a/u")));
        assert_eq!(own_group("", groups, Version::Two), None);
        assert_eq!(own_group(mounts, "", Version::One), None);
        let mounts = "cgroup / cgroup rw,memory 0 0\n";
        assert_eq!(own_group(mounts, "4:memory:/proc\n", Version::One), Some(PathBuf::from("/proc")));
    }
}
