//! Which files the job begins to read, for whoever guesses what comes next.
//!
//! A *visit* begins when a thread reads the first page of another file than the one it was at, and lasts until its next
//! one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Visits that are kept until they are asked for; of more the newest are lost.
const VISITS: usize = 4096;
/// Files whose paths are kept, for the case that they are visited again: 1.5 MB.
const PATHS: usize = 1 << 14;
/// Threads that are followed; for one more, all are forgotten.
const THREADS: usize = 4096;

/// A thread begins to read a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The file.
    pub path: PathBuf,
    /// What it waited to open it and for its first page, nanoseconds.
    pub waited_ns: u64,
    /// Pages that were read of the file which the same thread was at before, and how many it has.
    pub before: Option<(u32, u32)>,
}

/// Visits, from the runs of processes.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    /// By the number of a file: its path, and its pages.
    paths: HashMap<u32, (Box<Path>, u32)>,
    /// The file at which each thread is.
    threads: HashMap<u32, u32>,
    /// Pages that were read of these.
    read: HashMap<u32, u32>,
    visits: Vec<Visit>,
}

impl Visits {
    /// A file of so many pages has this number.
    pub(super) fn named(&mut self, file: u32, path: &Path, pages: u32) {
        if self.paths.len() < PATHS {
            self.paths.insert(file, (path.into(), pages));
        }
    }

    /// A thread begins a run at this page.
    pub(super) fn began(&mut self, tid: u32, file: u32, page: u32, waited_ns: u64) {
        if page > 0 || self.threads.get(&tid) == Some(&file) {
            return;
        }
        let Some((path, _)) = self.paths.get(&file) else { return };
        if self.threads.len() >= THREADS {
            self.threads.clear();
            self.read.clear();
        }
        let before = self.threads.insert(tid, file).and_then(|before| {
            let (_, of) = self.paths.get(&before)?;
            Some((self.read.remove(&before)?.min(*of), *of))
        });
        self.read.entry(file).or_insert(0);
        if self.visits.len() < VISITS {
            self.visits.push(Visit { path: path.to_path_buf(), waited_ns, before });
        }
    }

    /// So many pages of a file have been read in one run.
    pub(super) fn read(&mut self, file: u32, pages: u32) {
        if let Some(read) = self.read.get_mut(&file) {
            *read = read.saturating_add(pages);
        }
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, tgid: u32) {
        if let Some(file) = self.threads.remove(&tgid) {
            self.read.remove(&file);
        }
    }

    /// The visits since this was asked the last time.
    pub(super) fn take(&mut self) -> Vec<Visit> {
        std::mem::take(&mut self.visits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_begins_with_the_first_page_of_another_file() {
        let mut visits = Visits::default();
        for file in 0..3 {
            visits.named(file, Path::new(&format!("/{file}")), 8);
        }
        visits.began(1, 0, 0, 7);
        visits.read(0, 5);
        visits.began(1, 0, 0, 7);
        visits.read(0, 5);
        visits.began(1, 1, 3, 7);
        visits.began(2, 0, 0, 0);
        visits.began(1, 1, 0, 0);
        visits.began(1, 9, 0, 0);
        let told: Vec<_> = visits.take().into_iter().map(|v| (v.path, v.waited_ns, v.before)).collect();
        let path = PathBuf::from;
        assert_eq!(told, [(path("/0"), 7, None), (path("/0"), 0, None), (path("/1"), 0, Some((8, 8)))]);
        visits.ended(1);
        visits.began(1, 2, 0, 0);
        assert_eq!(visits.take()[0].before, None);
        for n in 0..2 * VISITS as u32 {
            visits.began(n, 0, 0, 0);
        }
        assert_eq!(visits.take().len(), VISITS);
        assert!(visits.threads.len() <= THREADS && visits.read.len() <= THREADS);
    }
}
