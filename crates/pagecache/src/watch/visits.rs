//! Which files the job begins to read, and which pieces of them it reads, for whoever guesses what comes next.
//!
//! A *visit* begins when a thread reads the first page of another file than the one it was at, and lasts until its next
//! one. A *piece* is what a process reads in one go, or has read of that since it was told of last. Of a process that
//! does not wait for storage no pieces are told: it may read a million a second.

use foldhash::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Visits that are kept until they are asked for; of more the newest are lost.
const VISITS: usize = 4096;
/// Files that were left and are kept until the next visit; of more the newest are lost.
const LEFT: usize = 256;
/// Files whose paths are kept: 1.5 MB. Of more, half of those go that were asked for longest ago, and are not told of any more.
const PATHS: usize = 1 << 14;
/// Threads that are followed; for one more, all are forgotten. As many processes.
const THREADS: usize = 4096;
/// Pieces that are kept until they are asked for; of more the newest are lost.
const PIECES: usize = 4096;
/// Pieces after which a process is taken not to wait. They come to 16 MiB or more.
const WITHOUT_WAITING: u32 = 4096;

/// A thread begins to read a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The file.
    pub path: PathBuf,
    /// What it waited to open it and for its first page, nanoseconds. If the file before was mapped, what it waited for that
    /// counts here: a mapped page is told of before it is waited for.
    pub waited_ns: u64,
    /// It has fetched the first page itself: nobody had it read ahead, or it was gone again.
    pub has_fetched: bool,
    /// Files that threads have left since the visit before, this thread or others, for another file or as they ended.
    pub left: Vec<Left>,
}

/// A file that was visited, and is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The file.
    pub path: Arc<Path>,
    /// Pages that were read of it,
    pub read: u32,
    /// and how many it has.
    pub of: u32,
}

/// A process has read a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The process.
    pub process: u32,
    /// The file, by its number in the recording.
    pub file: u32,
    /// The same, by its path.
    pub path: Arc<Path>,
    /// The pages.
    pub pages: Range<u32>,
    /// Pages that the file has.
    pub of: u32,
    /// What the process waited for them, nanoseconds.
    pub waited_ns: u64,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy)]
struct At {
    process: u32,
    file: u32,
    /// What it has waited there since that was told, nanoseconds.
    waited_ns: u64,
}

/// Paths of files, and their pages, by their numbers.
#[derive(Debug, Default)]
struct Paths {
    /// Those that came or were asked for since the others were put away; no more than half of all.
    young: HashMap<u32, (Arc<Path>, u32)>,
    old: HashMap<u32, (Arc<Path>, u32)>,
}

impl Paths {
    fn insert(&mut self, file: u32, known: (Arc<Path>, u32)) {
        if self.young.len() >= PATHS / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(file, known);
    }

    fn get(&mut self, file: u32) -> Option<(Arc<Path>, u32)> {
        if let Some(known) = self.old.remove(&file) {
            self.insert(file, known);
        }
        self.young.get(&file).cloned()
    }
}

/// Visits, from the runs of processes.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    paths: Paths,
    /// Where each thread is.
    threads: HashMap<u32, At>,
    /// Pages that were read of these.
    read: HashMap<u32, u32>,
    left: Vec<Left>,
    visits: Vec<Visit>,
    pieces: Vec<Piece>,
    /// Pieces of processes since they waited the last time.
    since_waiting: HashMap<u32, u32>,
}

impl Visits {
    /// A file of so many pages has this number.
    pub(super) fn named(&mut self, file: u32, path: &Path, pages: u32) {
        self.paths.insert(file, (path.into(), pages));
    }

    /// A thread of a process begins a run at this page, which it has fetched itself or not. (In a pid namespace of its own the
    /// number of a thread may be that of another process.)
    pub(super) fn began(
        &mut self,
        (process, tid): (u32, u32),
        file: u32,
        (page, has_fetched): (u32, bool),
        waited_ns: u64,
    ) {
        if page > 0 || self.threads.get(&tid).is_some_and(|at| at.file == file) {
            return;
        }
        let Some((path, _)) = self.paths.get(file) else { return };
        let path = path.to_path_buf();
        if self.threads.len() >= THREADS {
            self.threads.clear();
            self.read.clear();
        }
        let at = self.threads.insert(tid, At { process, file, waited_ns: 0 });
        let waited_ns = waited_ns + at.map_or(0, |at| at.waited_ns);
        if let Some(at) = at {
            self.leave(at.file);
        }
        self.read.entry(file).or_insert(0);
        if self.visits.len() < VISITS {
            self.visits.push(Visit { path, waited_ns, has_fetched, left: std::mem::take(&mut self.left) });
        }
    }

    /// A thread is at this file no more.
    fn leave(&mut self, file: u32) {
        let read = self.read.remove(&file);
        if let (Some(read), Some((path, of))) = (read, self.paths.get(file))
            && self.left.len() < LEFT
        {
            self.left.push(Left { path, read: read.min(of), of });
        }
    }

    /// A thread has waited for a file after it was told that it is there.
    pub(super) fn waited(&mut self, tid: u32, file: u32, waited_ns: u64) {
        if let Some(at) = self.threads.get_mut(&tid).filter(|at| at.file == file) {
            at.waited_ns = at.waited_ns.saturating_add(waited_ns);
        }
    }

    /// A process has read these pages of a file.
    pub(super) fn read_piece(&mut self, process: u32, file: u32, pages: Range<u32>, waited_ns: u64) {
        if self.since_waiting.len() >= THREADS && !self.since_waiting.contains_key(&process) {
            self.since_waiting.clear();
        }
        let since = self.since_waiting.entry(process).or_default();
        *since = if waited_ns > 0 { 0 } else { since.saturating_add(1) };
        if *since > WITHOUT_WAITING || self.pieces.len() >= PIECES {
            return;
        }
        if let Some((path, of)) = self.paths.get(file) {
            self.pieces.push(Piece { process, file, path, pages, of, waited_ns });
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
        self.since_waiting.remove(&tgid);
        let ended: Vec<u32> =
            self.threads.extract_if(|_, at| at.process == tgid).map(|(_, at)| at.file).collect();
        ended.into_iter().for_each(|file| self.leave(file));
    }

    /// The visits since this was asked the last time.
    pub(super) fn take(&mut self) -> Vec<Visit> {
        std::mem::take(&mut self.visits)
    }

    /// The pieces since this was asked the last time.
    pub(super) fn take_pieces(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_of_processes_that_wait() {
        let mut visits = Visits::default();
        visits.named(3, Path::new("/3"), 9);
        visits.read_piece(1, 3, 0..2, 5);
        visits.read_piece(1, 4, 0..2, 5);
        let told = visits.take_pieces();
        let path = Path::new("/3").into();
        assert_eq!(told, [Piece { process: 1, file: 3, path, pages: 0..2, of: 9, waited_ns: 5 }]);
        for _ in 0..3 * PIECES {
            visits.read_piece(1, 3, 2..3, 0);
        }
        assert_eq!(visits.take_pieces().len(), PIECES, "they have room for no more");
        visits.read_piece(1, 3, 2..3, 0);
        assert_eq!(visits.take_pieces(), [], "it does not wait");
        visits.read_piece(1, 3, 2..3, 1);
        assert_eq!(visits.take_pieces().len(), 1);
        (0..2 * THREADS as u32).for_each(|process| visits.read_piece(process, 3, 0..1, 0));
        assert!(visits.since_waiting.len() <= THREADS);
    }

    #[test]
    fn a_visit_begins_with_the_first_page_of_another_file() {
        let mut visits = Visits::default();
        for file in 0..3 {
            visits.named(file, Path::new(&format!("/{file}")), 8);
        }
        visits.began((1, 1), 0, (0, false), 7);
        visits.read(0, 5);
        visits.began((1, 1), 0, (0, false), 7);
        visits.read(0, 5);
        visits.began((1, 1), 1, (3, false), 7);
        visits.began((2, 2), 0, (0, false), 0);
        visits.began((1, 1), 1, (0, false), 0);
        visits.began((1, 1), 9, (0, false), 0);
        let told: Vec<_> = visits.take().into_iter().map(|v| (v.path, v.waited_ns, v.left)).collect();
        let (path, left) =
            (PathBuf::from, |path, read| vec![Left { path: Path::new(path).into(), read, of: 8 }]);
        assert_eq!(told, [(path("/0"), 7, vec![]), (path("/0"), 0, vec![]), (path("/1"), 0, left("/0", 8))]);
        visits.waited(1, 0, 5);
        visits.waited(1, 1, 6);
        visits.waited(1, 1, 1);
        visits.began((1, 1), 0, (0, true), 2);
        let visit = visits.take().remove(0);
        assert_eq!(visit.waited_ns, 9, "with what it waited for the file before");
        assert!(visit.has_fetched);
        visits.read(0, 3);
        visits.ended(1);
        visits.began((1, 1), 2, (0, false), 0);
        assert_eq!(visits.take()[0].left, left("/0", 3), "as its process has ended");
        for n in 0..2 * VISITS as u32 {
            visits.began((n, n), 0, (0, false), 0);
        }
        assert_eq!(visits.take().len(), VISITS);
        assert!(visits.threads.len() <= THREADS && visits.read.len() <= THREADS);
    }

    #[test]
    fn a_job_that_goes_through_many_files_is_told_of_to_the_end() {
        let mut visits = Visits::default();
        visits.named(0, Path::new("/index"), 8);
        for file in 1..=3 * PATHS as u32 {
            let path = PathBuf::from(format!("/{file}"));
            visits.named(file, &path, 8);
            visits.began((1, 1), file, (0, false), 0);
            let told: Vec<PathBuf> = visits.take().into_iter().map(|visit| visit.path).collect();
            assert_eq!(told, [path]);
            visits.read_piece(2, 0, 0..1, 1);
            assert_eq!(visits.take_pieces().len(), 1, "one that is read all the time is not forgotten");
            assert!(visits.paths.young.len() + visits.paths.old.len() <= PATHS);
        }
    }
}
