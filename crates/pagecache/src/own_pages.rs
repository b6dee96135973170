//! The pages of our own program, which are charged to the memory that the job has too.
//!
//! To begin takes more of a program than to go on: of 11 MB of mapped code and tables 7 are used while a job is steered, 5
//! while it is watched. Reclaim takes mapped pages last, so in a memory cgroup the rest displaces what the job has cached.
//! So once the job runs, all of it is made old (`MADV_COLD`) and unmapped (`MADV_DONTNEED`, both madvise(2)). What is used comes back with a
//! minor fault each, and what is not is the first that reclaim takes.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::kernel::return_free_memory;

/// Mappings that are looked at.
const MAPPINGS: usize = 4096;

/// What is used of our program stays in memory.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// Unmaps what can be had again from the files of our program and its libraries.
pub fn unmap_program() {
    let is_held = IS_HELD.load(Relaxed);
    for_each_mapping(|start, length| {
        // SAFETY: the mapping cannot be written, and none of its pages differs from the file's: each access finds
        // the same bytes again. A kernel that does not know the advice changes nothing.
        unsafe {
            if is_held {
                libc::munlock(start, length);
            }
            for advice in [libc::MADV_COLD, libc::MADV_DONTNEED] {
                libc::madvise(start, length, advice);
            }
            if is_held {
                libc::mlock2(start, length, libc::MLOCK_ONFAULT);
            }
        }
    });
}

/// From now on what is used of our program stays in memory (`MLOCK_ONFAULT`, mlock2(2)). Where the job takes all of it each page
/// that we use to find that out, and to end, would be a wait of milliseconds, and the job would take it again before we use the
/// next one. Where it is not allowed nothing changes.
pub fn hold_program() {
    IS_HELD.store(true, Relaxed);
    // SAFETY: pages that are there stay there, and nothing else changes.
    for_each_mapping(|start, length| unsafe {
        libc::mlock2(start, length, libc::MLOCK_ONFAULT);
    });
}

fn for_each_mapping(act: impl Fn(*mut libc::c_void, usize)) {
    let text = std::fs::read("/proc/self/smaps").unwrap_or_default();
    for mapping in mappings_of_files(&text).take(MAPPINGS) {
        act(mapping.start as *mut libc::c_void, mapping.len());
    }
}

/// Gives back what memory this process does not use: what has been freed, and the pages of its program.
pub fn give_memory_back() {
    return_free_memory();
    unmap_program();
}

/// The private mappings of files that cannot be written and have not been (`Anonymous` is 0), as `/proc/self/smaps` tells
/// (proc_pid_smaps(5)). What the linker has relocated has been written, and is read-only afterwards.
fn mappings_of_files(smaps: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
        if let Some(mapping) = head(line) {
            current = mapping;
        } else if let Some(anonymous) = line.strip_prefix("Anonymous:")
            && let Some(range) = current.take()
            && anonymous.trim() == "0 kB"
        {
            found.push(range);
        }
    }
    found.into_iter()
}

/// The first line of a mapping, and its addresses if it is one of those.
fn head(line: &str) -> Option<Option<Range<usize>>> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
    let (permissions, path) = (fields.next()?, fields.nth(3));
    let is_file = path.is_some_and(|path| path.starts_with('/'));
    let goes = is_file && matches!(permissions, "r-xp" | "r--p") && range.start < range.end;
    Some(goes.then_some(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_its_file_is_found() {
        let smaps = "\
1000-3000 r--p 00000000 fe:01 7 /bin/x\nRss: 8 kB\nAnonymous: 0 kB\n\
3000-5000 r-xp 00002000 fe:01 7 /bin/x y\nAnonymous:             0 kB\nVmFlags: rd ex\n\
5000-6000 r--p 00004000 fe:01 7 /bin/x\nAnonymous: 4 kB\n\
6000-7000 rw-p 00005000 fe:01 7 /bin/x\nAnonymous: 0 kB\n\
7000-8000 r--s 00005000 fe:01 8 /data\nAnonymous: 0 kB\n\
8000-9000 r-xp 00000000 00:00 0 [vdso]\nAnonymous: 0 kB\n\
9000-8000 r-xp 00000000 fe:01 7 /bin/x\nAnonymous: 0 kB\n";
        assert_eq!(mappings_of_files(smaps.as_bytes()).collect::<Vec<_>>(), [0x1000..0x3000, 0x3000..0x5000]);
        assert_eq!(mappings_of_files(b"\xff\n1-\n").count(), 0);
    }

    /// In a process of its own: the other tests of this one go on, and have their pages back at once.
    #[test]
    fn a_program_goes_on_without_its_pages() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "--nocapture", "--test-threads=1", "own_pages::tests::as_alone"]);
        let ended = alone.env(ALONE, "").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains(DONE), "{said}");
    }

    /// What the process says that has come to its end: without it none may have run.
    const DONE: &str = "it went on without its pages";

    const ALONE: &str = "FORETELL_TEST_ALONE";

    #[test]
    fn as_alone() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
        };
        let before = resident();
        unmap_program();
        assert!(resident() < before, "{before} KiB before");
        unmap_program();
        println!("{DONE}");
    }
}
