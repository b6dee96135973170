//! In which directories the job is, for whoever guesses to which it comes next.
//!
//! The kernel tells of pages of files, and nothing of names and inodes, for which many a job waits and does little else
//! (`du`, `find`, `rsync`). But who goes through a directory has it open, or works in it. So of a process that waits for
//! something else than what it reads of files the descriptors are looked through every millisecond, some microseconds
//! each time. What it has open at the same time lies in each other, as a rule: the innermost is where it is.

use foldhash::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::network;

/// A job that has waited so long for other things than reading files may wait for names,
const UNEXPLAINED_NS: u64 = 20_000_000;
/// if this is more than one part of all its waits in so many.
const UNEXPLAINED_SHARE: u64 = 8;
/// Time between two looks at least,
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// and so many times what the last one took: an eighth of a processor.
const LOOK_SHARE: u32 = 8;
/// Processes that are looked at each time, those that have waited longest.
const LOOKED_AT: usize = 8;
/// Looks at a process after which it is not looked at any more if it has neither waited nor moved.
const QUIET: u32 = 64;
/// Looks after which a process that waits and does not move is looked at half as often, and again after as many more, up to one
/// time in 2^6: it writes, most likely.
const STILL: u32 = 64;
const SELDOM: u32 = 6;
/// Descriptors of a process that are looked at: the first ones, as the lowest number that is free is taken.
const DESCRIPTORS: usize = 64;
/// Processes that are followed; for one more, all are forgotten.
const PROCESSES: usize = 4096;
/// Places that are kept until they are asked for; of more the newest are lost.
const PLACES: usize = 4096;

/// A process is seen in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub process: u32,
    /// The directory, by the path that it has where it is mounted.
    pub directory: Arc<Path>,
    /// The number of that mount (proc_pid_mountinfo(5)).
    pub mount: u64,
    /// What the process has waited since it was seen last, other than for what it read of files; nanoseconds.
    pub waited_ns: u64,
}

/// A directory that a process has open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directory {
    path: Arc<Path>,
    mount: u64,
}

impl Directory {
    fn place(&self, process: u32, waited_ns: u64) -> Place {
        Place { process, directory: Arc::clone(&self.path), mount: self.mount, waited_ns }
    }
}

/// A process that waits.
#[derive(Debug, Default)]
struct Followed {
    /// What it has waited since it was looked at, and what was not for a file.
    waited_ns: u64,
    /// Looks since it has waited or moved,
    quiet: u32,
    /// and since it has moved.
    still: u32,
    /// What it had open: the path that each link shows, and the same if there is a directory.
    open: Vec<(PathBuf, Option<Directory>)>,
    /// Where it was.
    at: Option<Directory>,
}

/// Follows the processes of a job through directories.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    processes: HashMap<u32, Followed>,
    /// What all have waited, and of this for what they have read; nanoseconds.
    waited_ns: u64,
    explained_ns: u64,
    /// When it is time for the next look, and how many there were.
    next: Option<Instant>,
    looks: u32,
    places: Vec<Place>,
}

impl Whereabouts {
    /// A process has waited.
    pub(super) fn waited(&mut self, process: u32, waited_ns: u64) {
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&process) {
            self.processes.clear();
        }
        let followed = self.processes.entry(process).or_default();
        followed.waited_ns = followed.waited_ns.saturating_add(waited_ns);
        followed.quiet = 0;
    }

    /// So much of that was for reading a file.
    pub(super) fn explained(&mut self, process: u32, waited_ns: u64) {
        self.explained_ns = self.explained_ns.saturating_add(waited_ns);
        if let Some(followed) = self.processes.get_mut(&process) {
            followed.waited_ns = followed.waited_ns.saturating_sub(waited_ns);
        }
    }

    /// What all have waited for reading files, nanoseconds.
    pub(super) fn explained_ns(&self) -> u64 {
        self.explained_ns
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Whether there is somebody to be looked at, again and again.
    pub(super) fn matter(&self) -> bool {
        let unexplained_ns = self.waited_ns.saturating_sub(self.explained_ns);
        unexplained_ns > UNEXPLAINED_NS
            && unexplained_ns > self.waited_ns / UNEXPLAINED_SHARE
            && self.processes.values().any(|followed| followed.quiet < QUIET)
    }

    /// The time until the next look, if there is somebody to be looked at: of those who move least it is long.
    pub(super) fn until_next(&self) -> Option<Duration> {
        if !self.matter() {
            return None;
        }
        let active = self.processes.values().filter(|followed| followed.quiet < QUIET);
        let seldom = active.map(Followed::seldom).min()?;
        let next = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
        Some(next.max(BETWEEN_LOOKS * (1 << seldom)))
    }

    /// Looks where they are, if it is time.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if !self.matter() || self.next.is_some_and(|next| now < next) {
            return;
        }
        self.looks = self.looks.wrapping_add(1);
        let looks = self.looks;
        let active = self.processes.iter().filter(|(_, followed)| followed.is_due(looks));
        let mut active: Vec<(u64, u32)> =
            active.map(|(&process, followed)| (followed.waited_ns, process)).collect();
        active.sort_unstable_by(|a, b| b.cmp(a));
        active.truncate(LOOKED_AT);
        for (_, process) in active {
            let Some(followed) = self.processes.get_mut(&process) else { continue };
            let room = PLACES.saturating_sub(self.places.len());
            self.places.extend(followed.look(process).into_iter().take(room));
        }
        let after = Instant::now();
        self.next = Some(after + BETWEEN_LOOKS.max(LOOK_SHARE * (after - now)));
    }

    /// Where they were since this was asked the last time, in order for each process.
    pub(super) fn take(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.places)
    }
}

impl Followed {
    /// Whether it is to be looked at in the look of this number.
    fn is_due(&self, look: u32) -> bool {
        self.quiet < QUIET && look.is_multiple_of(1 << self.seldom())
    }

    /// It is looked at one time in 2 to the power of this.
    fn seldom(&self) -> u32 {
        (self.still / STILL).min(SELDOM)
    }

    /// The directories in which the process is now and was not before; or the one in which it still is, if it has waited.
    fn look(&mut self, process: u32) -> Vec<Place> {
        let mut waited_ns = std::mem::take(&mut self.waited_ns);
        let before = std::mem::take(&mut self.open);
        if before.is_empty() {
            // What it has waited before it was looked at says nothing of where it is now.
            waited_ns = 0;
        }
        for (link, path) in links(process) {
            let known = before.iter().find(|(known, _)| *known == path);
            let directory = known.map_or_else(|| directory_behind(&link, &path), |(_, known)| known.clone());
            self.open.push((path, directory));
        }
        // Where it works it is if it goes about so: the first one, of which most never change.
        let works_at = |open: &[(PathBuf, Option<Directory>)]| open.first().and_then(|(_, at)| at.clone());
        let skipped = usize::from(works_at(&before) == works_at(&self.open));
        let was_open =
            |directory: &Directory| before.iter().any(|(_, known)| known.as_ref() == Some(directory));
        let open = || self.open.iter().skip(skipped).filter_map(|(_, directory)| directory.as_ref());
        let is_innermost = |directory: &&Directory| {
            !open().any(|other| other != *directory && other.path.starts_with(&directory.path))
        };
        let mut places: Vec<Place> = Vec::new();
        self.still = self.still.saturating_add(1);
        let mut last = None;
        for directory in open().filter(is_innermost) {
            // One level up from where it was, what is open has been so all the time.
            let is_back = |at: &Directory| at.path.starts_with(&directory.path) && at != directory;
            if was_open(directory) && !self.at.as_ref().is_some_and(is_back) {
                continue;
            }
            if !places.iter().any(|place| place.directory == directory.path) {
                places.push(directory.place(process, 0));
                last = Some(directory.clone());
            }
        }
        if last.is_some() {
            self.at = last;
            self.still = 0;
        } else if let Some(at) = self.at.as_ref().filter(|_| waited_ns > 0) {
            places.push(at.place(process, 0));
        }
        match places.first_mut() {
            Some(first) => {
                first.waited_ns = waited_ns;
                self.quiet = 0;
            }
            None => self.quiet = self.quiet.saturating_add(1),
        }
        places
    }
}

/// What a process has open and where it works: the link, and the path that it shows.
fn links(process: u32) -> Vec<(PathBuf, PathBuf)> {
    let of = PathBuf::from(format!("/proc/{process}"));
    let open = fs::read_dir(of.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::iter::once(of.join("cwd")).chain(open.take(DESCRIPTORS));
    let shown = all.filter_map(|link| fs::read_link(&link).ok().map(|path| (link, path)));
    shown.filter(|(_, path)| path.is_absolute()).collect()
}

/// The directory behind a link of a process that shows this path. What lies on a server in the network is not looked at, and the
/// path is not followed: what lies on the way may never answer, and we are who tells of the end of the job.
fn directory_behind(link: &Path, path: &Path) -> Option<Directory> {
    if network::leads_there(link) {
        return None;
    }
    let found = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::MNT_ID).ok()?;
    let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
    // Before Linux 5.8 it is not told.
    let has_mount = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    (is_directory && has_mount).then(|| Directory { path: path.into(), mount: found.stx_mnt_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// What this process is seen to have open below a directory, since it was asked the last time.
    fn seen(followed: &mut Followed, below: &Path) -> Vec<(PathBuf, u64)> {
        let places = followed.look(std::process::id()).into_iter();
        let places = places.filter(|place| place.directory.starts_with(below));
        places.map(|place| (place.directory.to_path_buf(), place.waited_ns)).collect()
    }

    #[test]
    fn the_innermost_directory_is_where_a_process_is() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let [a, b] = ["a", "a/b"].map(|name| top.join(name));
        fs::create_dir_all(&b).unwrap();
        let mut followed = Followed::default();
        followed.look(std::process::id());
        let _top = File::open(&top).unwrap();
        let open_a = File::open(&a).unwrap();
        followed.waited_ns = 5;
        assert_eq!(seen(&mut followed, &top), [(a.clone(), 5)]);
        assert_eq!(seen(&mut followed, &top), [], "it is there still");
        followed.waited_ns = 7;
        assert_eq!(seen(&mut followed, &top), [(a.clone(), 7)], "and has waited there");
        let open_b = File::open(&b).unwrap();
        assert_eq!(seen(&mut followed, &top), [(b.clone(), 0)]);
        drop(open_b);
        assert_eq!(seen(&mut followed, &top), [(a.clone(), 0)], "it is back");
        drop(open_a);
        assert_eq!(seen(&mut followed, &top), [(top.clone(), 0)]);
        fs::write(top.join("file"), "").unwrap();
        let _file = File::open(top.join("file")).unwrap();
        assert_eq!(seen(&mut followed, &top), [], "a file is no place");
    }

    #[test]
    fn who_waits_for_what_it_reads_is_not_looked_at() {
        let mut whereabouts = Whereabouts::default();
        let process = std::process::id();
        whereabouts.waited(process, UNEXPLAINED_NS);
        assert!(!whereabouts.matter());
        whereabouts.waited(process, 1);
        assert!(whereabouts.matter());
        whereabouts.waited(process, 20 * UNEXPLAINED_NS);
        whereabouts.explained(process, 20 * UNEXPLAINED_NS);
        assert!(!whereabouts.matter(), "a small part of what it waits for");
        whereabouts.waited(process, 10 * UNEXPLAINED_NS);
        assert!(whereabouts.matter());
        whereabouts.ended(process);
        assert!(!whereabouts.matter(), "there is nobody");
    }

    #[test]
    fn who_waits_and_does_not_move_is_looked_at_less_often() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut followed = Followed::default();
        let due = |followed: &Followed| (0..64).filter(|&look| followed.is_due(look)).count();
        let _open = File::open(dir.path()).unwrap();
        followed.look(std::process::id());
        assert_eq!(due(&followed), 64);
        followed.still = STILL;
        assert_eq!(due(&followed), 32);
        followed.still = u32::MAX;
        assert_eq!(due(&followed), 1);
        let inside = dir.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let _inside = File::open(&inside).unwrap();
        followed.look(std::process::id());
        assert_eq!(due(&followed), 64, "it has moved");
    }

    #[test]
    fn who_is_quiet_is_left_alone_and_there_are_limits() {
        let mut whereabouts = Whereabouts::default();
        // A number that no process has.
        whereabouts.waited(u32::MAX, 2 * UNEXPLAINED_NS);
        for _ in 0..QUIET {
            assert!(whereabouts.matter());
            whereabouts.next = None;
            whereabouts.look();
        }
        assert!(!whereabouts.matter());
        (0..2 * PROCESSES as u32).for_each(|process| whereabouts.waited(process, 1));
        assert!(whereabouts.processes.len() <= PROCESSES);
        let place = Place { process: 1, directory: Path::new("/").into(), mount: 1, waited_ns: 0 };
        whereabouts.places = vec![place; PLACES];
        whereabouts.waited(std::process::id(), 2 * UNEXPLAINED_NS);
        whereabouts.next = None;
        whereabouts.look();
        assert_eq!(whereabouts.take().len(), PLACES);
    }
}
