//! How much memory a job can have for its files.
//!
//! The machine's, or less where a memory cgroup limits it: a group's page cache can grow to what its limit leaves over
//! its other memory. Both versions of cgroups are understood. What a group does not say counts as no limit; where it cannot be
//! told which groups there are, it is not known how much is free.
//!
//! A job that walks 10,000 files leaves 18 MB of the kernel's own tables behind, of names and inodes, which count as its memory.
//! The kernel drops them as it drops page cache, so they are as good as free.

use std::fs;

pub use foretell_cgroup::Whose;
use foretell_cgroup::{Group, Version, groups};

const CONTROLLER: &str = "memory";
/// What the kernel cannot drop of its memory for a group of few processes, bytes: their stacks and page tables. A shell and a
/// program had 1 to 3 MB.
const KERNELS_OWN_BYTES: u64 = 4 << 20;

/// Bytes that may be used: `MemTotal` of `/proc/meminfo` or, if less, the smallest limit of our memory cgroup and those
/// above it, as far as they are known. `None` when the kernel does not say.
#[must_use]
pub fn usable_bytes() -> Option<u64> {
    usable_bytes_of(Whose::Ours)
}

/// The same of another one's memory cgroup.
#[must_use]
pub fn usable_bytes_of(whose: Whose<'_>) -> Option<u64> {
    let total = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let groups = groups(whose, CONTROLLER).unwrap_or_default();
    Some(groups.iter().filter_map(limit).min().map_or(total, |limit| limit.min(total)))
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
    let groups = groups(whose, CONTROLLER).ok()?;
    Some(groups.iter().filter_map(room).min().map_or(available, |room| room.min(available)))
}

/// Our memory at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// As [`free_bytes`].
    pub free_bytes: u64,
    /// What has been read again that had gone a short while before, bytes since the group is there.
    pub refaulted_bytes: u64,
    /// Pages of mapped files that were read when they were used, since the group is there.
    pub major_faults: u64,
    /// What our own process has allocated, bytes (proc_pid_status(5), `RssAnon`): no haste of the job's.
    pub own_bytes: u64,
}

/// Looks at our memory: at the memory cgroup that has the least room, or at the machine. What the kernel does not count is 0.
/// `None` when it does not say what is free.
#[must_use]
pub fn look() -> Option<Look> {
    let available = of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let groups = groups(Whose::Ours, CONTROLLER).ok()?;
    let looks = groups.iter().filter_map(look_at);
    let tightest = looks.min_by_key(|look| look.free_bytes).filter(|look| look.free_bytes <= available);
    let machine = Look { free_bytes: available, refaulted_bytes: 0, major_faults: 0, own_bytes: 0 };
    Some(Look { own_bytes: of_our_status("RssAnon:"), ..tightest.unwrap_or(machine) })
}

/// Bytes of files that our own process has mapped and uses: page cache that is as good as taken. 0 when the kernel
/// does not say (proc_pid_status(5), `RssFile`).
#[must_use]
pub fn own_mapped_bytes() -> u64 {
    of_our_status("RssFile:")
}

fn of_our_status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    of_meminfo(&status, field).unwrap_or(0)
}

/// One line of `/proc/meminfo`, in bytes.
fn of_meminfo(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn limit(group: &Group) -> Option<u64> {
    group.number(if group.version == Version::Two { "memory.max" } else { "memory.limit_in_bytes" })
}

/// What its limit leaves over what cannot be dropped.
fn room(group: &Group) -> Option<u64> {
    look_at(group).map(|look| look.free_bytes)
}

/// A group that has a limit.
fn look_at(group: &Group) -> Option<Look> {
    let limit = limit(group)?;
    let stat = fs::read_to_string(group.directory.join("memory.stat")).ok()?;
    let used = group.number(if group.version == Version::Two {
        "memory.current"
    } else {
        "memory.usage_in_bytes"
    })?;
    let prefix = if group.version == Version::Two { "" } else { "total_" };
    let field = |name: &str| {
        let name = format!("{prefix}{name} ");
        stat.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<u64>().ok())
    };
    let file_cache = field("inactive_file").unwrap_or(0).saturating_add(field("active_file").unwrap_or(0));
    let tables = match group.version {
        Version::Two => field("slab_reclaimable").unwrap_or(0),
        Version::One => group.number("memory.kmem.usage_in_bytes").map_or(0, droppable_bytes),
    };
    // Told apart from anonymous memory since Linux 5.9.
    let refaults = field("workingset_refault_file").or_else(|| field("workingset_refault")).unwrap_or(0);
    Some(Look {
        free_bytes: limit.saturating_sub(used.saturating_sub(file_cache.saturating_add(tables))),
        refaulted_bytes: refaults.saturating_mul(rustix::param::page_size() as u64),
        major_faults: field("pgmajfault").unwrap_or(0),
        own_bytes: 0,
    })
}

/// What the kernel can drop of so many bytes of its memory for a group. The first version of cgroups does not tell: beyond
/// [`KERNELS_OWN_BYTES`] it is taken to be the same share as on the whole machine.
fn droppable_bytes(kernel_bytes: u64) -> u64 {
    fs::read_to_string("/proc/meminfo").map_or(0, |meminfo| droppable_of(kernel_bytes, &meminfo))
}

fn droppable_of(kernel_bytes: u64, meminfo: &str) -> u64 {
    let field = |name| of_meminfo(meminfo, name).unwrap_or(0);
    let kept =
        field("SUnreclaim:").saturating_add(field("KernelStack:")).saturating_add(field("PageTables:"));
    let droppable = field("SReclaimable:");
    let all = kept.saturating_add(droppable).max(1);
    let beyond = kernel_bytes.saturating_sub(KERNELS_OWN_BYTES);
    u64::try_from(u128::from(beyond) * u128::from(droppable) / u128::from(all)).unwrap_or(0)
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
    fn what_cannot_be_dropped_leaves_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let group = |version| room(&Group { directory: dir.path().to_owned(), version });
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 300\ninactive_file 400\nactive_file 100\n");
        assert_eq!(group(Version::Two), Some(600));
        write("memory.stat", "anon 300\ninactive_file 400\nactive_file 100\nslab_reclaimable 50\n");
        assert_eq!(group(Version::Two), Some(650), "names and inodes go when memory is wanted");
        write("memory.max", "max\n");
        assert_eq!(group(Version::Two), None);
        write("memory.limit_in_bytes", "500\n");
        write("memory.usage_in_bytes", "500\n");
        write("memory.stat", "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 0\n");
        assert_eq!(group(Version::One), Some(200));
    }

    #[test]
    fn of_the_kernels_memory_a_share_can_be_dropped() {
        let meminfo = "SReclaimable: 6 kB\nSUnreclaim: 1 kB\nKernelStack: 0 kB\nPageTables: 1 kB\n";
        assert_eq!(droppable_of(KERNELS_OWN_BYTES, meminfo), 0, "stacks and page tables");
        assert_eq!(droppable_of(KERNELS_OWN_BYTES + 400, meminfo), 300);
        assert_eq!(droppable_of(u64::MAX, ""), 0, "nothing is known");
    }

    #[test]
    fn what_comes_back_is_counted_under_both_names() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let look = |version| look_at(&Group { directory: dir.path().to_owned(), version });
        write("memory.max", "max\n");
        assert_eq!(look(Version::Two), None);
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write(
            "memory.stat",
            "inactive_file 10\nworkingset_refault_anon 9\nworkingset_refault_file 2\npgmajfault 3\n",
        );
        let page_bytes = rustix::param::page_size() as u64;
        let seen = |free_bytes, refaults, major_faults| {
            Some(Look { free_bytes, refaulted_bytes: refaults * page_bytes, major_faults, own_bytes: 0 })
        };
        assert_eq!(look(Version::Two), seen(110, 2, 3));
        write("memory.limit_in_bytes", "500\n");
        write("memory.usage_in_bytes", "500\n");
        write("memory.stat", "workingset_refault 1\ntotal_workingset_refault 7\ntotal_pgmajfault 5\n");
        assert_eq!(look(Version::One), seen(0, 7, 5));
    }
}
