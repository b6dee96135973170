//! Under which numbers programs have files open.
//!
//! `/proc/PID/fd` leads from a number to a file, and not the other way. To look at each number takes a
//! microsecond, and a sort has two thousand files open. So what was seen is kept, and a file that is asked for
//! is looked for in three steps: under the numbers that it was seen under; then under those that have come
//! since, of which the names alone are read; at last under all, as a number may mean another file by now.
//! What a step finds is looked at once more by whoever uses it.
//!
//! The second and the third step cost as much as a program likes to have files open. They are limited to a
//! share of the time; without it a file that is not found at once is not found.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::file_at::{self, Looks};
use crate::file_key::FileKey;
use crate::reach::{self, Links, Seen};

/// Descriptors of a process that are looked at, 15 ms; a file that it has open beyond is found only if the
/// program has told its number.
const DESCRIPTORS: usize = 8192;
/// Processes of which something is kept, 128 KiB each at most; for one more, all is forgotten.
const PROCESSES: usize = 64;
/// What going through descriptors may take of the time: one part in so many ...
const SHARE: u32 = 16;
/// ... and so much more at once.
const BURST: Duration = Duration::from_millis(200);

/// What was seen of the programs' open files.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Numbers of regular files, and of what else there is ([`NO_FILE`]), in ascending order.
    processes: HashMap<u32, Vec<(i32, FileKey)>>,
    allowance: Allowance,
    /// Open files that nobody can steer, and why: each when it is looked at.
    unsteered: Vec<(PathBuf, &'static str)>,
}

/// Open files that cannot be steered and of which nobody has heard yet; further ones are not told.
const UNSTEERED: usize = 16;

/// The key of what is no regular file.
const NO_FILE: FileKey = FileKey { dev: 0, ino: 0 };

/// The limit of [`crate::files::FileTable::new`] that leaves half of the process's descriptors to the rest of it. The
/// process's own limit is not raised: the program that it starts would inherit that.
pub(crate) fn limit() -> usize {
    // By way of /proc: the system call may be forbidden, and to rustix that is a defect.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_ascii_whitespace().next());
    let soft: Option<usize> = soft.and_then(|soft| soft.parse().ok());
    soft.map_or(1 << 15, |soft| soft / 2).min(1 << 15)
}

/// How thoroughly to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// Only as long as there is time for it.
    WithinTheShare,
    /// Come what may: who asks will not ask again.
    Certain,
}

/// Why no number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The process does not have the file open, or has too many open.
    NotOpen,
    /// There is no time to look now.
    NoTime,
}

impl Descriptors {
    pub(crate) fn new() -> Descriptors {
        Descriptors {
            processes: HashMap::new(),
            allowance: Allowance::new(Instant::now()),
            unsteered: Vec::new(),
        }
    }

    /// A number under which a process has a file open.
    ///
    /// # Errors
    /// When none is known.
    pub(crate) fn find(&mut self, pid: u32, key: FileKey, search: Search) -> Result<i32, Unknown> {
        if let Some(number) = self.seen(pid, key) {
            return Ok(number);
        }
        for again in [false, true] {
            self.go_through(pid, again, search)?;
            if let Some(number) = self.seen(pid, key) {
                return Ok(number);
            }
        }
        Err(Unknown::NotOpen)
    }

    /// All numbers under which a process has a file open; with `again` also those that meant another file
    /// when they were looked at.
    pub(crate) fn find_all(&mut self, pid: u32, key: FileKey, again: bool) -> Vec<i32> {
        // Without time to look, what has been seen before will do.
        let _ = self.go_through(pid, again, Search::WithinTheShare);
        let table = self.processes.get(&pid).into_iter().flatten();
        table.filter(|(_, seen)| *seen == key).map(|(number, _)| *number).collect()
    }

    /// What has been seen since the last time that cannot be steered.
    pub(crate) fn take_unsteered(&mut self) -> Vec<(PathBuf, &'static str)> {
        std::mem::take(&mut self.unsteered)
    }

    /// The process has ended.
    pub(crate) fn forget_process(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// A number that the file was seen under and still is.
    fn seen(&self, pid: u32, key: FileKey) -> Option<i32> {
        let table = self.processes.get(&pid)?;
        let numbers = table.iter().filter(|(_, seen)| *seen == key).map(|(number, _)| *number);
        numbers.into_iter().find(|&number| is_open_as(pid, number, key))
    }

    /// Reads a process's numbers and looks at those that are new, or at all of them.
    fn go_through(&mut self, pid: u32, all: bool, search: Search) -> Result<(), Unknown> {
        let started = Instant::now();
        if search == Search::WithinTheShare && !self.allowance.is_left(started) {
            return Err(Unknown::NoTime);
        }
        let links = reach::links(pid, Links::Open, DESCRIPTORS).map_err(|_| Unknown::NotOpen)?;
        let mut numbers: Vec<i32> =
            links.into_iter().filter_map(|(number, _)| number.try_into().ok()).collect();
        numbers.sort_unstable();
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let table = self.processes.entry(pid).or_default();
        let known = if all { Vec::new() } else { std::mem::take(table) };
        let before =
            |number: i32| known.binary_search_by_key(&number, |(number, _)| *number).map(|at| known[at].1);
        let new: Vec<reach::Link> = numbers
            .iter()
            .filter(|&&number| before(number).is_err())
            .map(|&number| name_of(number))
            .collect();
        let mut seen = reach::look_at_links(pid, Links::Open, &new).into_iter();
        *table = numbers
            .into_iter()
            .map(|number| {
                let key =
                    before(number).unwrap_or_else(|_| key_of(seen.next().flatten(), &mut self.unsteered));
                (number, key)
            })
            .collect();
        self.allowance.spend(started.elapsed());
        Ok(())
    }
}

/// What leads to a process's open file of this number.
pub(crate) fn link(pid: u32, number: i32) -> PathBuf {
    Links::Open.path(pid, name_of(number))
}

/// How its link is called.
fn name_of(number: i32) -> reach::Link {
    (number.unsigned_abs().into(), 0)
}

/// Has the process this file open under this number?
pub(crate) fn is_open_as(pid: u32, number: i32, key: FileKey) -> bool {
    file_at::look(&link(pid, number)).is_ok_and(|looks| looks.is(key))
}

fn key_of(seen: Option<Seen>, unsteered: &mut Vec<(PathBuf, &'static str)>) -> FileKey {
    let Some(seen) = seen.filter(|seen| seen.is_file) else { return NO_FILE };
    let looks = Looks::of(&seen, seen.there.as_ref());
    // What can have an obstacle is there.
    if let Some(what) = looks.obstacle()
        && unsteered.len() < UNSTEERED
        && let Some(path) = seen.there.as_ref().and_then(file_at::path_of)
    {
        unsteered.push((path, what));
    }
    looks.key
}

/// A share of the time.
#[derive(Debug)]
struct Allowance {
    since: Instant,
    left: Duration,
}

impl Allowance {
    fn new(now: Instant) -> Allowance {
        Allowance { since: now, left: BURST }
    }

    fn is_left(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.since) / SHARE;
        (self.since, self.left) = (now, BURST.min(self.left + earned));
        !self.left.is_zero()
    }

    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn open() -> (tempfile::NamedTempFile, FileKey) {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let key = FileKey::of(file.as_file()).unwrap();
        (file, key)
    }

    #[test]
    fn a_file_is_found_under_its_number_and_under_every_other_one() {
        let (file, key) = open();
        // Closed and not deleted: a file of another test could get the inode.
        let (file, _kept) = file.into_parts();
        let number = file.as_raw_fd();
        let mut descriptors = Descriptors::new();
        let pid = std::process::id();
        assert_eq!(descriptors.find(pid, key, Search::Certain), Ok(number));
        let second = file.try_clone().unwrap();
        let mut both = [number, second.as_raw_fd()];
        both.sort_unstable();
        descriptors.allowance = Allowance::new(Instant::now());
        assert_eq!(descriptors.find_all(pid, key, true), both);
        drop(file);
        assert_eq!(descriptors.find(pid, key, Search::Certain), Ok(second.as_raw_fd()));
        drop(second);
        assert_eq!(descriptors.find(pid, key, Search::Certain), Err(Unknown::NotOpen));
    }

    #[test]
    fn a_number_that_means_another_file_by_now_is_looked_at_again() {
        let (file, key) = open();
        let (other, other_key) = open();
        let mut descriptors = Descriptors::new();
        let pid = std::process::id();
        assert!(descriptors.find(pid, key, Search::Certain).is_ok());
        // The first file's number for the second one.
        let mut number = file.as_file().try_clone().unwrap();
        descriptors.allowance = Allowance::new(Instant::now());
        assert!(descriptors.find_all(pid, key, true).contains(&number.as_raw_fd()));
        let at = number.as_raw_fd();
        drop(std::mem::replace(&mut number, other.as_file().try_clone().unwrap()));
        // Closed and not deleted: a file of another test could get the inode.
        let _kept = (file.into_temp_path(), other.into_temp_path());
        let found = descriptors.find(pid, other_key, Search::Certain);
        assert_eq!(found, Ok(number.as_raw_fd()), "{at}");
        assert_eq!(descriptors.find(pid, key, Search::Certain), Err(Unknown::NotOpen));
    }

    #[test]
    fn a_process_that_is_none_has_nothing_open() {
        let (_file, key) = open();
        let mut descriptors = Descriptors::new();
        assert_eq!(descriptors.find(u32::MAX, key, Search::Certain), Err(Unknown::NotOpen));
        assert_eq!(descriptors.find_all(u32::MAX, key, true), []);
    }

    #[test]
    fn going_through_takes_its_share_of_the_time_and_no_more() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        assert!(allowance.is_left(start));
        allowance.spend(BURST);
        assert!(!allowance.is_left(start));
        // It earns a sixteenth, and saves no more than a burst.
        let later = start + Duration::from_secs(1);
        assert!(allowance.is_left(later));
        assert_eq!(allowance.left, Duration::from_secs(1) / SHARE);
        allowance.spend(Duration::from_secs(1) / SHARE);
        assert!(!allowance.is_left(later));
        assert!(allowance.is_left(later + Duration::from_secs(3600)));
        assert_eq!(allowance.left, BURST);
    }

    #[test]
    fn without_time_left_only_what_must_be_found_is_looked_for() {
        let (file, key) = open();
        let mut descriptors = Descriptors::new();
        // A debt: what is earned from here on does not pay it within this test.
        descriptors.allowance.since = Instant::now() + Duration::from_secs(3600);
        descriptors.allowance.left = Duration::ZERO;
        let pid = std::process::id();
        assert_eq!(descriptors.find(pid, key, Search::WithinTheShare), Err(Unknown::NoTime));
        let number = file.as_file().as_raw_fd();
        assert_eq!(descriptors.find(pid, key, Search::Certain), Ok(number));
        assert_eq!(descriptors.find(pid, key, Search::WithinTheShare), Ok(number), "seen before");
    }
}
