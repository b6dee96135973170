//! Along: what lies next to a file that is fetched from a disk with an arm.
//!
//! To find a place takes an arm as long as reading fifty small files. These lie side by side in the order in which they were
//! written, and are gone through in the order of a hash or of their names: a movement for each of them. So with a file that is
//! fetched those go along that adjoin it on the disk, behind it and before it, if the program is going to come to them: they cost
//! the time to read them, and no movement. No more go along than the disk reads in the time of one movement: guesses that
//! are wrong cost twice what they would, at most. (The planner does the same for what is listed.)
//!
//! [`Neighbours`] knows where the files of a directory lie, and [`Along`] what went along and has not come.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Files of which it is known where they lie; of more those of the largest addresses are forgotten.
const KNOWN: usize = 1 << 14;
/// Files that go along at a time: each is open meanwhile.
pub(crate) const TOGETHER: usize = 128;
/// What a disk with an arm reads while it does not move: 100 MB/s. Newer ones are twice as fast on their outer tracks.
const BYTES_A_US: u64 = 100;
/// Of a file so many bytes are read, or all of it, although the program reads less of each (who reads the headers of messages): it
/// takes no longer to read them than to move to where the next file begins.
pub(crate) const WHOLE_BYTES: u64 = 128 << 10;
/// Bytes that go along at most: what two movements take.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes that may go along on a disk whose arm takes so long to move, nanoseconds; 0 where none is waited for.
pub(crate) fn reach_bytes(movement_ns: u64) -> u64 {
    (movement_ns / 1000).saturating_mul(BYTES_A_US).min(MOST_BYTES)
}

/// Of what a program has waited, and of what it did not wait for as it went along, one part in so many is spent on what may be for
/// nothing: to look for where files lie, and to read those that go along. Who stops half way has lost no more.
const SPENT_PART: u64 = 8;
/// Files of a directory whose inodes are read with one movement: what ext4 took for 4,000 in directories of 1,000.
const INODES_A_MOVEMENT: u64 = 128;

/// What may be spent on files that go along.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    /// Nanoseconds of waits, and of waits that were saved.
    earned_ns: u64,
    /// Nanoseconds that were spent on looking for files.
    looked_ns: u64,
}

impl Spending {
    /// The program has waited so long, or would have.
    pub(crate) fn earn(&mut self, ns: u64) {
        self.earned_ns = self.earned_ns.saturating_add(ns);
    }

    fn left_ns(&self) -> u64 {
        (self.earned_ns / SPENT_PART).saturating_sub(self.looked_ns)
    }

    /// Spends what it takes to look for where the files of a directory lie, if that is there.
    pub(crate) fn look_for(&mut self, files: usize, movement_ns: u64) -> bool {
        let ns = (files as u64 / INODES_A_MOVEMENT + 1).saturating_mul(movement_ns);
        let may = ns <= self.left_ns();
        self.looked_ns += if may { ns } else { 0 };
        may
    }

    /// Bytes that may have gone along and not have come.
    pub(crate) fn left_bytes(&self) -> u64 {
        (self.left_ns() / 1000).saturating_mul(BYTES_A_US)
    }
}

/// Where something lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDisk {
    /// The number of the device.
    pub device: u64,
    /// Bytes from its beginning.
    pub bytes: Range<u64>,
}

/// The beginning of a file on a disk.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// How much of it is fetched.
    bytes: u64,
    /// Where it ends.
    end: u64,
}

/// What there is to do about a file that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// It went along with another.
    Gone,
    /// It is fetched together with these, the first one on the disk first: itself at this place, and how much of each.
    Files(Vec<(PathBuf, u64)>, usize),
}

/// Where files lie to which a program is going to come.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    hasher: RandomState,
    /// By device, and by the place where they begin.
    files: BTreeMap<(u64, u64), Known>,
    /// The place of each, by a hash of the path: if two have the same, one does not go along.
    places: HashMap<u64, (u64, u64)>,
    /// What went along, by the same.
    gone: HashSet<u64>,
}

impl Neighbours {
    /// The first bytes of a file lie there.
    pub(crate) fn add(&mut self, path: PathBuf, bytes: u64, place: &OnDisk) {
        let hash = self.hasher.hash_one(&*path);
        self.remove(hash);
        self.gone.remove(&hash);
        let at = (place.device, place.bytes.start);
        if let Some(other) = self.files.insert(at, Known { path, bytes, end: place.bytes.end }) {
            self.places.remove(&self.hasher.hash_one(&*other.path));
        }
        self.places.insert(hash, at);
        if self.files.len() > KNOWN
            && let Some((_, last)) = self.files.pop_last()
        {
            self.places.remove(&self.hasher.hash_one(&*last.path));
        }
    }

    /// The program comes to a file.
    pub(crate) fn came(&mut self, path: &Path) {
        let hash = self.hasher.hash_one(path);
        self.gone.remove(&hash);
        self.remove(hash);
    }

    /// A file is to be fetched. What adjoins it goes along, in so many bytes.
    pub(crate) fn take(&mut self, path: &Path, bytes: u64, most_bytes: u64) -> Run {
        let hash = self.hasher.hash_one(path);
        if self.gone.remove(&hash) {
            return Run::Gone;
        }
        let alone = || Run::Files(vec![(path.to_owned(), bytes)], 0);
        let Some(at) = self.places.remove(&hash) else { return alone() };
        let Some(itself) = self.files.remove(&at) else { return alone() };
        let (device, begin) = at;
        let mut left_bytes = most_bytes;
        let mut fits = |known: &Known, length: u64| {
            let fits = known.bytes.min(length) <= left_bytes;
            left_bytes = left_bytes.saturating_sub(length);
            fits
        };
        let mut next = itself.end;
        let mut behind = Vec::new();
        while behind.len() < TOGETHER / 2
            && let Some(known) = self.files.get(&(device, next)).filter(|known| fits(known, known.end - next))
        {
            behind.push((device, next));
            next = known.end;
        }
        let mut before = Vec::new();
        let mut first = begin;
        while before.len() < TOGETHER / 2
            && let Some((&at, known)) = self.files.range((device, 0)..(device, first)).next_back()
            && known.end == first
            && fits(known, known.end - at.1)
        {
            before.push(at);
            first = at.1;
        }
        if before.is_empty() && behind.is_empty() {
            return alone();
        }
        before.reverse();
        let mut run: Vec<_> = before.into_iter().filter_map(|at| self.go(at)).collect();
        let place = run.len();
        // To those behind it the way leads through all of it.
        run.push((itself.path, bytes.max(itself.bytes)));
        run.extend(behind.into_iter().filter_map(|at| self.go(at)));
        Run::Files(run, place)
    }

    /// The file at a place goes along.
    fn go(&mut self, at: (u64, u64)) -> Option<(PathBuf, u64)> {
        let known = self.files.remove(&at)?;
        let hash = self.hasher.hash_one(&*known.path);
        self.places.remove(&hash);
        if self.gone.len() >= KNOWN {
            self.gone.clear();
        }
        self.gone.insert(hash);
        Some((known.path, known.bytes))
    }

    fn remove(&mut self, hash: u64) {
        if let Some(at) = self.places.remove(&hash) {
            self.files.remove(&at);
        }
    }
}

/// Files that went along and have not come: of more than are [known](KNOWN) the oldest are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Along {
    hasher: RandomState,
    /// How many bytes of each were fetched, and whether that is over, by a hash of the path.
    pending: HashMap<u64, (u64, bool)>,
    /// The same, the oldest first, with those that have come since.
    order: VecDeque<u64>,
    bytes: u64,
}

impl Along {
    /// So much of a file went along.
    pub(crate) fn went(&mut self, path: &Path, bytes: u64) {
        let hash = self.hasher.hash_one(path);
        if let Some((before, _)) = self.pending.insert(hash, (bytes, false)) {
            self.bytes -= before;
        } else {
            self.order.push_back(hash);
        }
        self.bytes += bytes;
        while self.order.len() > KNOWN {
            let oldest = self.order.pop_front().and_then(|hash| self.pending.remove(&hash));
            self.bytes -= oldest.map_or(0, |(bytes, _)| bytes);
        }
    }

    /// A file that went along has been read from the device.
    pub(crate) fn fetched(&mut self, path: &Path) {
        if let Some((_, was_fetched)) = self.pending.get_mut(&self.hasher.hash_one(path)) {
            *was_fetched = true;
        }
    }

    /// The program comes to a file. If it went along, whether it had been read by then.
    pub(crate) fn came(&mut self, path: &Path) -> Option<bool> {
        let (bytes, was_fetched) = self.pending.remove(&self.hasher.hash_one(path))?;
        self.bytes -= bytes;
        Some(was_fetched)
    }

    /// Whether a file went along and has not come.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.pending.contains_key(&self.hasher.hash_one(path))
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Files of 8 KiB one behind the other, `0` to `9`; behind `4` there is a hole.
    fn side_by_side() -> Neighbours {
        let mut neighbours = Neighbours::default();
        for n in 0..10_u64 {
            let begin = (8 * n + u64::from(n > 4)) * KIB;
            neighbours.add(
                format!("/{n}").into(),
                8 * KIB,
                &OnDisk { device: 1, bytes: begin..begin + 8 * KIB },
            );
        }
        neighbours
    }

    fn taken(neighbours: &mut Neighbours, path: &str, most_bytes: u64) -> String {
        match neighbours.take(Path::new(path), 4 * KIB, most_bytes) {
            Run::Gone => "gone".into(),
            Run::Files(files, at) => {
                let bytes = if files.len() > 1 { 8 * KIB } else { 4 * KIB };
                assert_eq!(files[at], (PathBuf::from(path), bytes), "whole, if others lie behind it");
                files.iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect()
            }
        }
    }

    #[test]
    fn what_adjoins_a_file_goes_along_once() {
        let mut neighbours = side_by_side();
        assert_eq!(taken(&mut neighbours, "/2", 16 * KIB), "/2/3/4");
        assert_eq!([taken(&mut neighbours, "/3", KIB), taken(&mut neighbours, "/3", KIB)], ["gone", "/3"]);
        assert_eq!(taken(&mut neighbours, "/1", MOST_BYTES), "/0/1", "2 is fetched");
        assert_eq!(taken(&mut neighbours, "/7", 8 * KIB + 1), "/7/8");
        assert_eq!(taken(&mut neighbours, "/elsewhere", MOST_BYTES), "/elsewhere");
        assert_eq!(taken(&mut neighbours, "/9", MOST_BYTES), "/9");
        assert_eq!(taken(&mut neighbours, "/5", 0), "/5");
    }

    #[test]
    fn what_the_program_came_to_does_not_go_along() {
        let mut neighbours = side_by_side();
        neighbours.came(Path::new("/6"));
        assert_eq!(taken(&mut neighbours, "/5", MOST_BYTES), "/5");
        assert_eq!(taken(&mut neighbours, "/8", MOST_BYTES), "/7/8/9");
        let mut neighbours = side_by_side();
        neighbours.add("/new".into(), 4 * KIB, &OnDisk { device: 1, bytes: 8 * KIB..12 * KIB });
        neighbours.add("/other".into(), 4 * KIB, &OnDisk { device: 2, bytes: 12 * KIB..16 * KIB });
        assert_eq!(taken(&mut neighbours, "/1", MOST_BYTES), "/1", "where it lay is the new one");
        assert_eq!(taken(&mut neighbours, "/0", MOST_BYTES), "/0/new");
        assert_eq!(taken(&mut neighbours, "/other", MOST_BYTES), "/other", "on a disk of its own");
    }

    #[test]
    fn no_more_are_known_and_no_more_go_than_there_may_be() {
        let mut neighbours = Neighbours::default();
        for n in 0..KNOWN as u64 + 10 {
            neighbours.add(format!("/{n}").into(), KIB, &OnDisk { device: 1, bytes: n * KIB..(n + 1) * KIB });
        }
        assert_eq!([neighbours.files.len(), neighbours.places.len()], [KNOWN, KNOWN]);
        let Run::Files(run, at) = neighbours.take(Path::new("/1000"), KIB, u64::MAX) else { panic!() };
        assert_eq!((run.len(), at), (TOGETHER + 1, TOGETHER / 2));
        let mut along = Along::default();
        for n in 0..KNOWN + 10 {
            along.went(Path::new(&format!("/{n}")), 2);
        }
        assert_eq!(along.bytes(), 2 * KNOWN as u64);
        assert!(!along.has(Path::new("/0")) && along.has(Path::new("/10")));
        along.fetched(Path::new("/12"));
        assert_eq!(
            ["/10", "/10", "/12"].map(|path| along.came(Path::new(path))),
            [Some(false), None, Some(true)]
        );
        along.went(Path::new("/11"), 1);
        assert_eq!(along.bytes(), 2 * KNOWN as u64 - 5);
    }

    #[test]
    fn no_more_is_spent_than_a_part_of_what_was_waited() {
        let mut spending = Spending::default();
        assert!(!spending.look_for(1, 8_000_000) && spending.left_bytes() == 0);
        spending.earn(8 * 24_000_000);
        assert!(spending.look_for(200, 8_000_000) && !spending.look_for(200, 8_000_000));
        assert_eq!(spending.left_bytes(), 800_000);
        spending.earn(u64::MAX);
        assert!(spending.look_for(usize::MAX, 8_000_000) || spending.left_bytes() > 0, "no overflow");
    }

    #[test]
    fn as_much_goes_along_as_is_read_in_the_time_of_a_movement() {
        assert_eq!([0, 8_000_000].map(reach_bytes), [0, 800_000]);
        assert_eq!([100_000_000, u64::MAX].map(reach_bytes), [MOST_BYTES; 2]);
    }
}
