//! Under which numbers programs have files open, and at which addresses mapped.
//!
//! `/proc/PID/fd` leads from a number to a file, and not the other way. To look at each number takes a
//! microsecond, and a sort has two thousand files open. So what was seen is kept, and a file that is asked for
//! is looked for in three steps: under the numbers that it was seen under; then under those that have come
//! since, of which the names alone are read; at last under all, as a number may mean another file by now.
//! What a step finds is looked at once more by whoever uses it.
//!
//! The second and the third step cost as much as a program likes to have files open. They are limited to a
//! share of the time; without it a file that is not found at once is not found.
//!
//! With `/proc/PID/map_files` it is the same: an interpreter with its libraries has a thousand mappings, and each library is
//! asked for once. There the third step is left out: that another file is mapped at just the same addresses is rare.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::file_at::{self, Looks};
use crate::file_key::FileKey;
use crate::reach::{self, Link, Links, Seen};

/// Descriptors of a process that are looked at, 15 ms; a file that it has open beyond is found only if the
/// program has told its number.
const DESCRIPTORS: usize = 8192;
/// Mappings of a process that are looked at, 2 ms; a file mapped beyond is looked for by its inode number.
const MAPPINGS: usize = 1024;
/// Processes of which something is kept, 256 KiB each at most; for one more, all is forgotten.
const PROCESSES: usize = 64;
/// What going through descriptors may take of the time: one part in so many ...
const SHARE: u32 = 16;
/// ... and so much more at once.
const BURST: Duration = Duration::from_millis(200);

/// What was seen of the programs' open files.
#[derive(Debug)]
pub(crate) struct Descriptors {
    open: Tables,
    mapped: Tables,
    allowance: Allowance,
    /// Processes that have other mounts than we have, and how often each was looked through for what cannot be steered.
    elsewhere: HashMap<u32, u32>,
    /// Open files that nobody can steer, and why: each when it is looked at.
    unsteered: Vec<(PathBuf, &'static str)>,
}

/// Links of one kind of each process that lead to regular files, and to what else there is ([`NO_FILE`]), in ascending order.
type Tables = HashMap<u32, Vec<(Link, FileKey)>>;

/// Times that a process with mounts of its own is looked through for what cannot be steered.
const LOOKS: u32 = 64;

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
            open: Tables::new(),
            mapped: Tables::new(),
            elsewhere: HashMap::new(),
            allowance: Allowance::new(Instant::now()),
            unsteered: Vec::new(),
        }
    }

    /// A number under which a process has a file open.
    ///
    /// # Errors
    /// When none is known.
    pub(crate) fn find(&mut self, pid: u32, key: FileKey, search: Search) -> Result<i32, Unknown> {
        let number = self.find_link((Links::Open, pid), key, &[false, true], search)?;
        i32::try_from(number.0).map_err(|_| Unknown::NotOpen)
    }

    /// What leads to where a process has a file mapped.
    pub(crate) fn find_mapped(&mut self, pid: u32, key: FileKey, search: Search) -> Option<PathBuf> {
        let link = self.find_link((Links::Mapped, pid), key, &[false], search).ok()?;
        Some(Links::Mapped.path(pid, link))
    }

    /// A link to a file that is known, or is found in one of these steps: among the new ones, or all.
    fn find_link(
        &mut self,
        (links, pid): (Links, u32),
        key: FileKey,
        steps: &[bool],
        search: Search,
    ) -> Result<Link, Unknown> {
        if let Some(link) = self.seen((links, pid), key) {
            return Ok(link);
        }
        for &again in steps {
            self.go_through((links, pid), again, search)?;
            if let Some(link) = self.seen((links, pid), key) {
                return Ok(link);
            }
        }
        Err(Unknown::NotOpen)
    }

    /// All numbers under which a process has a file open; with `again` also those that meant another file
    /// when they were looked at.
    pub(crate) fn find_all(&mut self, pid: u32, key: FileKey, again: bool) -> Vec<i32> {
        // Without time to look, what has been seen before will do.
        let _ = self.go_through((Links::Open, pid), again, Search::WithinTheShare);
        let table = self.open.get(&pid).into_iter().flatten();
        table
            .filter(|(_, seen)| *seen == key)
            .filter_map(|((number, _), _)| (*number).try_into().ok())
            .collect()
    }

    /// Looks through what a process has open that has other mounts than we have, as far as there is time: what of it cannot
    /// be steered is told then. A file of an overlay that we do not see is found by its number, and under a name below it.
    pub(crate) fn look_for_obstacles(&mut self, pid: u32) {
        if self.elsewhere.get(&pid).is_some_and(|&looks| looks >= LOOKS) || !has_other_mounts(pid) {
            return;
        }
        if self.elsewhere.len() >= PROCESSES && !self.elsewhere.contains_key(&pid) {
            self.elsewhere.clear();
        }
        *self.elsewhere.entry(pid).or_default() += 1;
        // It may have ended.
        let _ = self.go_through((Links::Open, pid), false, Search::WithinTheShare);
    }

    /// What has been seen since the last time that cannot be steered.
    pub(crate) fn take_unsteered(&mut self) -> Vec<(PathBuf, &'static str)> {
        std::mem::take(&mut self.unsteered)
    }

    /// The process has ended.
    pub(crate) fn forget_process(&mut self, pid: u32) {
        self.open.remove(&pid);
        self.mapped.remove(&pid);
        self.elsewhere.remove(&pid);
    }

    fn tables(&mut self, links: Links) -> &mut Tables {
        match links {
            Links::Open => &mut self.open,
            Links::Mapped => &mut self.mapped,
        }
    }

    /// A link that led to the file and still does.
    fn seen(&mut self, (links, pid): (Links, u32), key: FileKey) -> Option<Link> {
        let table = self.tables(links).get(&pid)?;
        let known = table.iter().filter(|(_, seen)| *seen == key).map(|(link, _)| *link);
        known.into_iter().find(|link| leads_to(&links.path(pid, *link), key))
    }

    /// Reads a process's links and looks at those that are new, or at all of them.
    fn go_through(&mut self, (links, pid): (Links, u32), all: bool, search: Search) -> Result<(), Unknown> {
        let started = Instant::now();
        if search == Search::WithinTheShare && !self.allowance.is_left(started) {
            return Err(Unknown::NoTime);
        }
        let most = if links == Links::Open { DESCRIPTORS } else { MAPPINGS };
        let mut there = reach::links(pid, links, most).map_err(|_| Unknown::NotOpen)?;
        there.sort_unstable();
        let tables = self.tables(links);
        if tables.len() >= PROCESSES && !tables.contains_key(&pid) {
            tables.clear();
        }
        let table = tables.entry(pid).or_default();
        let known = if all { Vec::new() } else { std::mem::take(table) };
        let before = |link: Link| known.binary_search_by_key(&link, |(link, _)| *link).map(|at| known[at].1);
        let new: Vec<Link> = there.iter().copied().filter(|&link| before(link).is_err()).collect();
        let mut seen = reach::look_at_links(pid, links, &new).into_iter();
        let unsteered = &mut self.unsteered;
        let mut key = |link| before(link).unwrap_or_else(|_| key_of(seen.next().flatten(), unsteered));
        let looked_at = there.into_iter().map(|link| (link, key(link))).collect();
        self.tables(links).insert(pid, looked_at);
        self.allowance.spend(started.elapsed());
        Ok(())
    }
}

/// What leads to a process's open file of this number.
pub(crate) fn link(pid: u32, number: i32) -> PathBuf {
    Links::Open.path(pid, (number.unsigned_abs().into(), 0))
}

/// `false` also where that is not known.
fn has_other_mounts(pid: u32) -> bool {
    let mounts = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    mounts(&pid.to_string()).is_some_and(|theirs| mounts("self").is_some_and(|ours| ours != theirs))
}

fn leads_to(link: &Path, key: FileKey) -> bool {
    file_at::look(link).is_ok_and(|looks| looks.is(key))
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
    fn a_file_that_is_mapped_and_closed_is_found() {
        let program = FileKey::of(&std::fs::File::open("/proc/self/exe").unwrap()).unwrap();
        let (_open, other) = open();
        let pid = std::process::id();
        let mut descriptors = Descriptors::new();
        for _ in 0..2 {
            let link = descriptors.find_mapped(pid, program, Search::Certain).unwrap();
            assert!(leads_to(&link, program));
            assert_eq!(descriptors.find_mapped(pid, other, Search::Certain), None);
        }
        descriptors.forget_process(pid);
        assert!(descriptors.mapped.is_empty());
    }

    #[test]
    fn who_has_our_mounts_is_not_looked_through_for_what_cannot_be_steered() {
        let mut descriptors = Descriptors::new();
        descriptors.look_for_obstacles(std::process::id());
        descriptors.look_for_obstacles(u32::MAX);
        assert!(descriptors.elsewhere.is_empty() && descriptors.open.is_empty());
    }

    #[test]
    fn a_process_that_is_none_has_nothing_open() {
        let (_file, key) = open();
        let mut descriptors = Descriptors::new();
        assert_eq!(descriptors.find(u32::MAX, key, Search::Certain), Err(Unknown::NotOpen));
        assert_eq!(descriptors.find_mapped(u32::MAX, key, Search::Certain), None);
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
