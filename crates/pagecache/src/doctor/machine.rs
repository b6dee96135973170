//! Scheduling, memory limits, pressure.
#![allow(unsafe_code)]

use std::io;
use std::path::PathBuf;

use foretell_cgroup::{Version, Whose, groups};

use super::Mechanism;

pub(super) fn examine() -> Vec<Mechanism> {
    let second = memory_group("cgroup v2 memory controller", &own_group(Version::Two), "memory.max");
    let first =
        memory_group("cgroup v1 memory controller", &own_group(Version::One), "memory.limit_in_bytes");
    let mut memory = [second, first];
    // The newer one is used where both work, and one of them is enough.
    if memory[0].works {
        memory[1].used = false;
    }
    if memory.iter().any(|version| version.works) {
        memory.iter_mut().for_each(|version| version.remedy = None);
    }
    std::iter::once(realtime()).chain(memory).chain(std::iter::once(pressure())).collect()
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

/// The directory of the group that this process is in, in the hierarchy that has memory limits (version 1) or in the
/// unified one (version 2). In a container its path may be that of the host, which is not mounted here: then one above it.
fn own_group(version: Version) -> Option<PathBuf> {
    let groups = groups(Whose::Ours, "memory").unwrap_or_default();
    groups
        .into_iter()
        .filter(|group| group.version == version)
        .map(|group| group.directory)
        .find(|path| path.is_dir())
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

fn pressure() -> Mechanism {
    let name = "pressure of I/O (PSI)";
    let of_group = own_group(Version::Two).map(|group| group.join("io.pressure"));
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
