//! What a recording says by itself: how each file is read, and what is waited for.

use std::collections::HashMap;
use std::path::PathBuf;

use foretell_recording::{FileNumber, PAGE_BYTES, Recording, RoleId, Way};
use serde::Serialize;

/// Files that are told one by one: those that are read most.
const FILES: usize = 12;
/// And of them those with this share of all that is read.
const SHARE: f64 = 0.01;
/// From this share of pages that follow the one before in the same file, it is read in order.
const IN_ORDER: f64 = 0.8;
/// More passes than this are a repetition.
const AGAIN: f64 = 1.3;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pattern {
    /// From its beginning on, once.
    InOrder,
    /// From its beginning on, more than once.
    InOrderAgain,
    /// Here and there, each place once.
    Scattered,
    /// Here and there, places again and again.
    ScatteredAgain,
    /// It is written as well.
    Written,
}

impl Pattern {
    /// In words.
    pub(crate) fn said(self) -> &'static str {
        match self {
            Pattern::InOrder => "in order, once",
            Pattern::InOrderAgain => "in order, again and again",
            Pattern::Scattered => "here and there, once",
            Pattern::ScatteredAgain => "here and there, again and again",
            Pattern::Written => "written as well",
        }
    }
}

/// One file, or the rest of them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileRead {
    pub(crate) path: PathBuf,
    pub(crate) read_bytes: u64,
    pub(crate) distinct_bytes: u64,
    /// What its readers waited, each for itself.
    pub(crate) wait_s: f64,
    pub(crate) pattern: Pattern,
}

/// What a job reads and waits for.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Profile {
    /// All bytes that were read, repeated ones each time.
    pub(crate) read_bytes: u64,
    /// Each byte once.
    pub(crate) distinct_bytes: u64,
    /// What came from devices on the night that was recorded.
    pub(crate) device_bytes: u64,
    /// Time in which somebody waited.
    pub(crate) wait_s: f64,
    /// How many files are read.
    pub(crate) file_count: usize,
    /// Bytes of each pattern.
    pub(crate) by_pattern: Vec<(Pattern, u64)>,
    /// Those that are read most.
    pub(crate) files: Vec<FileRead>,
}

#[derive(Default, Clone)]
struct Counted {
    pages: u64,
    following: u64,
    waited_ns: u64,
    written: bool,
    ranges: Vec<(u32, u32)>,
}

impl Profile {
    /// Counts.
    pub(crate) fn of(recording: &Recording) -> Profile {
        let mut counted = vec![Counted::default(); recording.files.len()];
        let mut ends: HashMap<(RoleId, FileNumber), u32> = HashMap::new();
        for access in &recording.accesses {
            let Some(file) = counted.get_mut(access.file.0 as usize) else { continue };
            if access.way == Way::Written {
                file.written = true;
                continue;
            }
            let end = access.first_page.saturating_add(access.pages);
            let before = ends.insert((access.role, access.file), end);
            file.pages += u64::from(access.pages);
            // Within one access all pages but the first follow; a new reader that begins at the beginning does, too.
            let follows = before.unwrap_or(0).abs_diff(access.first_page) <= 1 || access.first_page == 0;
            file.following += u64::from(access.pages) - u64::from(!follows);
            file.waited_ns += access.waited_ns;
            file.ranges.push((access.first_page, end));
        }
        let mut files: Vec<FileRead> = Vec::new();
        for (record, counted) in recording.files.iter().zip(counted).filter(|(_, c)| c.pages > 0) {
            let distinct = distinct_pages(counted.ranges);
            let in_order = counted.following as f64 >= IN_ORDER * counted.pages as f64;
            let again = counted.pages as f64 > AGAIN * distinct as f64;
            let pattern = match (counted.written, in_order, again) {
                (true, ..) => Pattern::Written,
                (_, true, false) => Pattern::InOrder,
                (_, true, true) => Pattern::InOrderAgain,
                (_, false, false) => Pattern::Scattered,
                (_, false, true) => Pattern::ScatteredAgain,
            };
            files.push(FileRead {
                path: record.path.clone(),
                read_bytes: counted.pages * PAGE_BYTES,
                distinct_bytes: distinct * PAGE_BYTES,
                wait_s: counted.waited_ns as f64 / 1e9,
                pattern,
            });
        }
        let mut by_pattern: Vec<(Pattern, u64)> = Vec::new();
        for file in &files {
            match by_pattern.iter_mut().find(|(pattern, _)| *pattern == file.pattern) {
                Some((_, bytes)) => *bytes += file.read_bytes,
                None => by_pattern.push((file.pattern, file.read_bytes)),
            }
        }
        by_pattern.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let sum = |of: fn(&FileRead) -> u64| files.iter().map(of).sum();
        let (read_bytes, distinct_bytes) = (sum(|file| file.read_bytes), sum(|file| file.distinct_bytes));
        let file_count = files.len();
        files.sort_by(|a, b| (b.read_bytes, &a.path).cmp(&(a.read_bytes, &b.path)));
        files.retain(|file| file.read_bytes as f64 >= SHARE * read_bytes as f64);
        files.truncate(FILES);
        Profile {
            read_bytes,
            distinct_bytes,
            device_bytes: recording.summary.device_read_bytes,
            wait_s: waits(recording).iter().map(|(from, to)| to - from).sum::<u64>() as f64 / 1e9,
            file_count,
            by_pattern,
            files,
        }
    }
}

/// Pages in at least one of the ranges.
fn distinct_pages(mut ranges: Vec<(u32, u32)>) -> u64 {
    ranges.sort_unstable();
    let (mut pages, mut covered) = (0, 0);
    for (first, end) in ranges {
        pages += u64::from(end.saturating_sub(first.max(covered)));
        covered = covered.max(end);
    }
    pages
}

/// When somebody waited for storage: from and to in ns, joined where several waited at a time, in order.
pub(super) fn waits(recording: &Recording) -> Vec<(u64, u64)> {
    let end_ns = recording.summary.elapsed_ns;
    let waits = recording.accesses.iter().filter(|access| access.waited_ns > 0);
    let mut waits: Vec<(u64, u64)> = waits
        .map(|access| (access.at_ns.min(end_ns), access.at_ns.saturating_add(access.waited_ns).min(end_ns)))
        .collect();
    waits.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in waits {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{Access, FileRecord};

    /// Files a, b, …; accesses by role, file, first page, pages, way and what was waited; one each ms.
    fn recording(files: u32, accesses: &[(u32, u32, u32, u32, Way, u64)]) -> Recording {
        let file = |n: u32| FileRecord {
            path: format!("/{}", (b'a' + n as u8) as char).into(),
            dev: 0,
            ino: n.into(),
            size: 1 << 30,
            mtime_ns: 0,
        };
        let mut recording = Recording { files: (0..files).map(file).collect(), ..Recording::default() };
        for (at, &(role, file, first_page, pages, way, waited_ns)) in accesses.iter().enumerate() {
            let (at_ns, read) =
                (at as u64 * 1_000_000, Access::read(RoleId(role), FileNumber(file), first_page, pages));
            recording.accesses.push(Access { at_ns, waited_ns, way, ..read });
        }
        recording.summary.elapsed_ns = 1_000_000_000;
        recording
    }

    #[test]
    fn patterns_are_told_apart() {
        let mut accesses = Vec::new();
        for page in 0..100 {
            accesses.push((0, 0, page, 1, Way::Read, 0));
            // Each of two processes reads b from its beginning; c is jumped about in, d as well and again.
            accesses.push((page / 50, 1, page % 50, 1, Way::Read, 0));
            accesses.push((0, 2, page * 37 % 1009, 1, Way::Read, 0));
            accesses.push((0, 3, page * 37 % 50, 1, Way::Read, 0));
        }
        accesses.push((0, 4, 0, 64, Way::Read, 0));
        accesses.push((0, 4, 0, 1, Way::Written, 0));
        let profile = Profile::of(&recording(5, &accesses));
        let pattern =
            |name: &str| profile.files.iter().find(|file| file.path.to_str() == Some(name)).unwrap().pattern;
        use Pattern::{InOrder, InOrderAgain, Scattered, ScatteredAgain, Written};
        let patterns = ["/a", "/b", "/c", "/d", "/e"].map(pattern);
        assert_eq!(patterns, [InOrder, InOrderAgain, Scattered, ScatteredAgain, Written]);
        assert_eq!(profile.read_bytes, 464 * PAGE_BYTES);
        assert_eq!(profile.distinct_bytes, (100 + 50 + 100 + 50 + 64) * PAGE_BYTES);
    }

    #[test]
    fn what_is_waited_for_at_the_same_time_counts_once() {
        let ms = 1_000_000;
        let accesses =
            [(0, 0, 0, 1, Way::Read, 3 * ms), (1, 0, 9, 1, Way::Read, ms), (0, 0, 1, 1, Way::Read, 2 * ms)];
        let recording = recording(1, &accesses);
        assert_eq!(waits(&recording), [(0, 4 * ms)]);
        assert!((Profile::of(&recording).wait_s - 0.004).abs() < 1e-12);
    }
}
