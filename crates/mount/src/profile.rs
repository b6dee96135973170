//! Profiles: what was read of a mounted directory, by run, and which run this one is like.
//!
//! A *run* begins with the first file that is opened and ends when none has been open for a while, so that a job that comes
//! again each night is a run each night. A profile holds the last few that differ. It is a recording
//! (`foretell-recording`): each run is a role of it, files have their paths below what is mounted.
//!
//! A run that begins is taken for the kept one that begins with the same file, or has one of its first files among its
//! first; the latest of several. What both have read by then is crossed off, and the rest is what comes next. Files are known
//! to be opened also when the kernel has their bytes and does not ask for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foretell_recording::{
    Access, Event, FileNumber, FileRecord, PAGE_BYTES, ReadError, Recording, Role, RoleId, Summary,
    WriteError, Writer, limits,
};

/// Runs that are kept; the one that was like a new one longest ago makes room.
pub(crate) const MOST_RUNS: usize = 8;
/// Reads of a run that are kept, the first ones: as many as all runs together may have in a recording.
pub(crate) const MOST_READS: usize = limits::ACCESSES / MOST_RUNS;
/// A run of fewer reads is worth nothing: somebody looked at a file.
pub(crate) const LEAST_READS: usize = 8;
/// The first files of a run, by which it is known again.
pub(crate) const FIRST_FILES: usize = 8;
/// What roles of a profile are called.
const ROLE: &str = "run";

/// Pages of a file that were read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// Its number in the profile.
    pub(crate) file: u32,
    pub(crate) first_page: u32,
    pub(crate) pages: u32,
}

/// The reads of a run, in order, and when they were: in milliseconds since its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) reads: Vec<Read>,
    at_ms: Vec<u32>,
}

impl Run {
    /// Takes a read, unless there are too many.
    pub(crate) fn push(&mut self, read: Read, since: Duration) {
        if self.reads.len() < MOST_READS {
            self.reads.push(read);
            self.at_ms.push(u32::try_from(since.as_millis()).unwrap_or(u32::MAX));
        }
    }

    /// Its files, each once.
    fn files(&self) -> HashSet<u32> {
        self.reads.iter().map(|read| read.file).collect()
    }

    /// The first files, in order.
    fn first_files(&self) -> Vec<u32> {
        let mut files = Vec::with_capacity(FIRST_FILES);
        for read in &self.reads {
            if !files.contains(&read.file) {
                files.push(read.file);
                if files.len() == FIRST_FILES {
                    break;
                }
            }
        }
        files
    }

    /// What is left of it when these reads have been made.
    pub(crate) fn without(&self, made: &[Read]) -> Vec<Read> {
        let mut times: HashMap<Read, u32> = HashMap::new();
        made.iter().for_each(|&read| *times.entry(read).or_default() += 1);
        let mut left = self.reads.clone();
        left.retain(|read| match times.get_mut(read) {
            Some(times) if *times > 0 => {
                *times -= 1;
                false
            }
            _ => true,
        });
        left
    }
}

/// Runs, the latest last, and the paths of their files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    paths: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    runs: VecDeque<Run>,
}

impl Profile {
    /// Reads one.
    pub(crate) fn read(path: &Path) -> Result<Profile, ReadError> {
        let recording = Recording::read(path)?;
        let mut profile = Profile::default();
        let files: Vec<Option<u32>> = recording
            .files
            .iter()
            .map(|file| profile.number(&Arc::from(file.path.to_str().filter(|path| !path.is_empty())?)))
            .collect();
        let mut runs = vec![Run::default(); recording.roles.len()];
        for access in &recording.accesses {
            let (Some(run), Some(Some(file))) =
                (runs.get_mut(access.role.0 as usize), files.get(access.file.0 as usize))
            else {
                continue;
            };
            let read = Read { file: *file, first_page: access.first_page, pages: access.pages };
            run.push(read, Duration::from_nanos(access.at_ns));
        }
        // Of another job's recording there may be more.
        runs.into_iter().for_each(|run| _ = profile.keep(run, &HashSet::new(), None));
        Ok(profile)
    }

    /// Writes it: the file has its name when it is whole.
    pub(crate) fn write(&self, path: &Path) -> Result<(), WriteError> {
        let mut writer = Writer::create(path)?;
        let mut written: HashMap<u32, FileNumber> = HashMap::new();
        for (ordinal, run) in (0..).zip(&self.runs) {
            let role = RoleId(ordinal);
            writer.write(&Event::Role(role, Role { parent: None, name: ROLE.to_owned(), ordinal }))?;
            for (read, at_ms) in run.reads.iter().zip(&run.at_ms) {
                let next = FileNumber(written.len() as u32);
                let file = *written.entry(read.file).or_insert(next);
                if file == next {
                    let path = Path::new(&*self.paths[read.file as usize]).to_owned();
                    let record = FileRecord { path, dev: 0, ino: next.0.into(), size: 0, mtime_ns: 0 };
                    writer.write(&Event::File(file, record))?;
                }
                let Read { first_page, pages, .. } = *read;
                let at_ns = u64::from(*at_ms) * 1_000_000;
                let access = Access { at_ns, ..Access::read(role, file, first_page, pages) };
                writer.write(&Event::Access(access))?;
            }
        }
        writer.finish(Summary::default())
    }

    /// The number of a path, of which there are no more than a recording holds.
    pub(crate) fn number(&mut self, path: &Arc<str>) -> Option<u32> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        let number =
            u32::try_from(self.paths.len()).ok().filter(|&number| (number as usize) < limits::FILES)?;
        self.paths.push(path.clone());
        self.numbers.insert(path.clone(), number);
        Some(number)
    }

    pub(crate) fn path(&self, number: u32) -> Option<&Arc<str>> {
        self.paths.get(number as usize)
    }

    /// The run that one is like which has opened these files first, by its place.
    pub(crate) fn like(&self, opened: &[u32]) -> Option<usize> {
        let first = opened.first()?;
        let begins_so = |run: &Run| run.reads.first().is_some_and(|read| read.file == *first);
        let latest =
            |is_it: &dyn Fn(&Run) -> bool| (0..self.runs.len()).rev().find(|&at| is_it(&self.runs[at]));
        // Programs that read several files at a time may begin with another one of them.
        let shares = |run: &Run| run.first_files().iter().any(|file| opened.contains(file));
        latest(&begins_so).or_else(|| latest(&shares))
    }

    pub(crate) fn run(&self, at: usize) -> Option<&Run> {
        self.runs.get(at)
    }

    /// Keeps a run, which has opened these files, as the latest, in place of the one that it was like. Is the
    /// profile another one now?
    pub(crate) fn keep(&mut self, mut run: Run, opened: &HashSet<u32>, like: Option<usize>) -> bool {
        if let Some(before) = like.and_then(|like| self.runs.remove(like)) {
            // What the kernel still has in its page cache it reads by itself: a run that opened the same files and read less
            // is the same one.
            let files = before.files();
            let again = files.iter().filter(|file| opened.contains(file)).count();
            let is_mostly = |part: usize, whole: usize| part * 4 >= whole * 3;
            if is_mostly(again, files.len()) && !is_mostly(run.reads.len(), before.reads.len()) {
                run = before;
            }
        }
        if run.reads.len() < LEAST_READS {
            return like.is_some();
        }
        if self.runs.len() >= MOST_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
        true
    }

    /// Numbers are given anew when most of them are of no run.
    pub(crate) fn forget_paths(&mut self) {
        if self.paths.len() < limits::FILES / 2 {
            return;
        }
        let before = std::mem::take(self);
        for mut run in before.runs {
            run.reads.iter_mut().for_each(|read| {
                let path = &before.paths[read.file as usize];
                read.file = self.number(path).unwrap_or_default();
            });
            self.runs.push_back(run);
        }
    }
}

/// The pages of a range of bytes; `None` of nothing and of what lies beyond all pages.
pub(crate) fn pages(offset: u64, length: u64) -> Option<(u32, u32)> {
    let end = offset.checked_add(length).filter(|_| length > 0)?.div_ceil(PAGE_BYTES);
    let first = offset / PAGE_BYTES;
    let fits = u32::try_from(end).is_ok();
    fits.then(|| (first as u32, (end - first) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(profile: &mut Profile, reads: &[(&str, u32)]) -> Run {
        let mut run = Run::default();
        for &(path, first_page) in reads {
            let file = profile.number(&path.into()).unwrap();
            run.push(Read { file, first_page, pages: 2 }, Duration::from_millis(5));
        }
        run
    }

    fn of_files(profile: &mut Profile, names: &str) -> Run {
        let reads: Vec<(String, u32)> =
            names.chars().flat_map(|name| [(name.to_string(), 0), (name.to_string(), 2)]).collect();
        let reads: Vec<(&str, u32)> = reads.iter().map(|(name, page)| (&**name, *page)).collect();
        run(profile, &reads)
    }

    #[test]
    fn a_run_is_known_again_by_its_first_files() {
        let mut profile = Profile::default();
        for names in ["abcdef", "xyzuvw", "abqrst"] {
            let run = of_files(&mut profile, names);
            profile.keep(run, &HashSet::new(), None);
        }
        let mut like = |names: &str| {
            let begun = of_files(&mut profile, names);
            profile.like(&begun.first_files())
        };
        assert_eq!(like("a"), Some(2), "the latest that begins so");
        assert_eq!(like("x"), Some(1));
        assert_eq!(like("y"), Some(1), "among the first");
        assert_eq!(like("n"), None);
        assert_eq!(Profile::default().like(&[]), None);
    }

    #[test]
    fn what_was_read_already_is_crossed_off_once_for_each_time() {
        let mut profile = Profile::default();
        let kept = run(&mut profile, &[("a", 0), ("b", 0), ("a", 0), ("c", 0)]);
        let made = run(&mut profile, &[("a", 0), ("c", 0), ("n", 0)]);
        assert_eq!(kept.without(&made.reads), run(&mut profile, &[("b", 0), ("a", 0)]).reads);
    }

    #[test]
    fn the_latest_runs_are_kept_and_one_takes_the_place_of_its_like() {
        let mut profile = Profile::default();
        for at in 0..12_u8 {
            let names: String = (0..5).map(|n| char::from(b'a' + at + n)).collect();
            let run = of_files(&mut profile, &names);
            profile.keep(run, &HashSet::new(), None);
        }
        assert_eq!(profile.runs.len(), MOST_RUNS);
        let first =
            |profile: &Profile, at: usize| profile.path(profile.runs[at].reads[0].file).unwrap().to_string();
        assert_eq!(first(&profile, 0), "e");
        let again = of_files(&mut profile, "ezzzz");
        let like = profile.like(&again.first_files());
        profile.keep(again, &HashSet::new(), like);
        assert_eq!((profile.runs.len(), first(&profile, 0), first(&profile, 7)), (8, "f".into(), "e".into()));
        let short = run(&mut profile, &[("a", 0)]);
        profile.keep(short, &HashSet::new(), None);
        assert_eq!(first(&profile, 7), "e", "somebody looked at a file");
    }

    #[test]
    fn what_the_page_cache_had_is_not_forgotten_and_what_is_not_opened_any_more_is() {
        let mut profile = Profile::default();
        let all = of_files(&mut profile, "abcdefgh");
        let opened: HashSet<u32> = all.files();
        profile.keep(all.clone(), &opened, None);
        let warm = of_files(&mut profile, "abcde");
        profile.keep(warm.clone(), &opened, Some(0));
        assert_eq!(profile.run(0).unwrap(), &all);
        profile.keep(Run::default(), &opened, Some(0));
        assert_eq!(profile.run(0).unwrap(), &all);
        // The same reads of a job that has become another one.
        profile.keep(warm.clone(), &warm.files(), Some(0));
        assert_eq!((profile.runs.len(), profile.run(0).unwrap()), (1, &warm));
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        let mut profile = Profile::default();
        for names in ["abcdef", "dxyz uvw/"] {
            let run = of_files(&mut profile, names);
            profile.keep(run, &HashSet::new(), None);
        }
        profile.write(&path).unwrap();
        let read = Profile::read(&path).unwrap();
        assert_eq!(read.runs.len(), 2);
        for at in 0..2 {
            let named = |profile: &Profile| -> Vec<_> {
                let run = profile.run(at).unwrap();
                let path = |read: &Read| profile.path(read.file).unwrap().clone();
                run.reads.iter().map(|read| (path(read), read.first_page, read.pages)).collect()
            };
            assert_eq!(named(&read), named(&profile));
        }
        assert!(matches!(Profile::read(folder.path()), Err(ReadError::Io { .. })));
    }

    #[test]
    fn paths_of_no_run_make_room() {
        let mut profile = Profile::default();
        let kept = of_files(&mut profile, "abcde");
        profile.keep(kept.clone(), &HashSet::new(), None);
        for at in 0..limits::FILES - 5 {
            assert!(profile.number(&at.to_string().into()).is_some());
        }
        assert_eq!(profile.number(&"one more".into()), None);
        profile.forget_paths();
        assert_eq!(profile.paths.len(), 5);
        assert_eq!(profile.run(0).unwrap(), &kept);
        assert_eq!(profile.number(&"one more".into()), Some(5));
    }

    #[test]
    fn pages_are_those_that_a_range_touches() {
        assert_eq!(pages(0, 1), Some((0, 1)));
        assert_eq!(pages(4095, 2), Some((0, 2)));
        assert_eq!(pages(8192, 4096), Some((2, 1)));
        assert_eq!(pages(5, 0), None);
        assert_eq!(pages(u64::MAX, 5), None);
        assert_eq!(pages(1 << 50, 5), None);
    }
}
