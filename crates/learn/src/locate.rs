//! Files that bear another name tonight.
//!
//! Names change from night to night where they hold dates and counters: `log/2026-11-21/part-7` is
//! `log/2026-11-22/part-7` a day later. A path that does not exist is followed from the root; where a part of it is
//! missing, the parts that are equal but for their digits take its place, and among several the one that was changed
//! last. What one part was replaced by holds for all files below it.
//!
//! A directory that bears quite another name is known by what is in it: if the rest of the path exists in one of its
//! neighbours, and in no other one, that is it.
//!
//! A file that was replaced under its own name, that has grown or shrunk, is the same file here: who reads it reads the
//! same places, most likely, and what does not exist any more is left out where the plan is made.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Entries of a directory that are looked at for one that is missing.
const ENTRIES: usize = 1 << 14;
/// Entries of a like name that are compared; the age of each is asked for.
const ALIKE: usize = 256;
/// Neighbours of a missing directory in which the rest of a path is looked for; among more nobody can tell.
const NEIGHBOURS: usize = 64;
/// Directories that are looked through; what is missing beyond stays missing.
const SEARCHES: usize = 256;

/// Finds files again. It remembers what it found, so that a renamed directory is looked for once.
#[derive(Debug, Default)]
pub struct Locator {
    /// What a path, of a directory or a file, is tonight; `None`: not there.
    found: HashMap<PathBuf, Option<PathBuf>>,
    /// What stands for a name, without its digits, in a directory.
    alike: HashMap<(PathBuf, OsString), Option<PathBuf>>,
    searches: usize,
    renamed: u64,
}

impl Locator {
    /// The path of a recorded file tonight.
    pub fn find(&mut self, path: &Path) -> Option<PathBuf> {
        if fs::symlink_metadata(path).is_ok() {
            return Some(path.to_owned());
        }
        let mut now = PathBuf::new();
        let mut then = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            then.push(part);
            now = match self.found.get(&then) {
                Some(known) => known.clone()?,
                None => {
                    let found = self.step(&now, part, parts.as_path());
                    self.found.insert(then.clone(), found.clone());
                    found?
                }
            };
        }
        self.renamed += 1;
        Some(now)
    }

    /// Files that were found under another name.
    #[must_use]
    pub fn renamed(&self) -> u64 {
        self.renamed
    }

    /// One part further, from a directory that exists; `rest` of the path comes after it.
    fn step(&mut self, directory: &Path, part: Component<'_>, rest: &Path) -> Option<PathBuf> {
        let path = directory.join(part);
        if fs::symlink_metadata(&path).is_ok() {
            return Some(path);
        }
        let Component::Normal(name) = part else { return None };
        let folded = (directory.to_owned(), fold(name));
        if let Some(known) = self.alike.get(&folded) {
            return known.clone();
        }
        if name.as_bytes().iter().any(u8::is_ascii_digit) {
            let alike = self.search(directory, |entry| fold(&entry.file_name()) == folded.1);
            let dated = alike.into_iter().filter_map(|entry| {
                let changed = entry.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                Some((changed, entry.path()))
            });
            let best = dated.max().map(|(_, path)| path);
            if best.is_some() {
                self.alike.insert(folded, best.clone());
                return best;
            }
        }
        // Of the path's last part there is nothing by which it could be known.
        if rest.as_os_str().is_empty() {
            return None;
        }
        let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let neighbours = self.search(directory, is_directory);
        if neighbours.len() > NEIGHBOURS {
            return None;
        }
        let mut like = neighbours.iter().map(DirEntry::path);
        let has_rest = |path: &PathBuf| fs::symlink_metadata(path.join(rest)).is_ok();
        let found = like.find(has_rest)?;
        like.all(|path| !has_rest(&path)).then_some(found)
    }

    /// The entries of a directory that could be meant, up to [`ALIKE`].
    fn search(&mut self, directory: &Path, is_meant: impl Fn(&DirEntry) -> bool) -> Vec<DirEntry> {
        if self.searches >= SEARCHES {
            return Vec::new();
        }
        self.searches += 1;
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        entries.take(ENTRIES).flatten().filter(|entry| is_meant(entry)).take(ALIKE).collect()
    }
}

/// A name with each run of digits as one `0`.
fn fold(name: &OsStr) -> OsString {
    let mut folded: Vec<u8> = Vec::with_capacity(name.len());
    let mut in_digits = false;
    for &byte in name.as_bytes() {
        let is_digit = byte.is_ascii_digit();
        if !(is_digit && in_digits) {
            folded.push(if is_digit { b'0' } else { byte });
        }
        in_digits = is_digit;
    }
    std::os::unix::ffi::OsStringExt::from_vec(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_may_change_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for directory in ["2026-11-22", "other"] {
            fs::create_dir(at(directory)).unwrap();
            for file in ["part-7.csv", "part-12.csv", "notes"] {
                fs::write(at(directory).join(file), "x").unwrap();
            }
        }
        let mut locator = Locator::default();
        assert_eq!(locator.find(&at("other/notes")), Some(at("other/notes")));
        assert_eq!(locator.renamed(), 0);
        assert_eq!(locator.find(&at("2026-11-21/notes")), Some(at("2026-11-22/notes")));
        assert_eq!(locator.find(&at("2026-11-21/part-7.csv")), Some(at("2026-11-22/part-7.csv")));
        assert_eq!(locator.find(&at("2026-11-21/missing")), None);
        assert_eq!(locator.find(&at("another/notes")), None);
        // The date; "another", of which two neighbours could be it.
        assert_eq!((locator.renamed(), locator.searches), (2, 2), "each directory was looked for once");
    }

    #[test]
    fn a_renamed_directory_is_known_by_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for directory in ["now/a/b", "now/c", "other/a"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["now/a/b/one", "now/a/b/two", "now/c/three", "other/a/four"] {
            fs::write(at(file), "x").unwrap();
        }
        let mut locator = Locator::default();
        assert_eq!(locator.find(&at("before/a/b/one")), Some(at("now/a/b/one")));
        assert_eq!(locator.find(&at("before/c/three")), Some(at("now/c/three")));
        assert_eq!(locator.find(&at("before/a/b/gone")), None);
        assert_eq!((locator.renamed(), locator.searches), (2, 1));
        // A file of another name is another file.
        assert_eq!(locator.find(&at("now/c/four")), None);
        // Two of the neighbours have it.
        assert_eq!(locator.find(&at("elsewhere/a/.")), None);
    }

    #[test]
    fn among_several_the_last_changed_one_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        for (name, age_s) in [("run1", 300), ("run2", 100), ("run30", 200)] {
            let path = dir.path().join(name);
            fs::write(&path, "x").unwrap();
            let changed = SystemTime::now() - std::time::Duration::from_secs(age_s);
            fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
        }
        assert_eq!(Locator::default().find(&dir.path().join("run0")), Some(dir.path().join("run2")));
    }

    #[test]
    fn searching_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut locator = Locator { searches: SEARCHES - 1, ..Locator::default() };
        fs::write(dir.path().join("a1"), "x").unwrap();
        assert!(locator.find(&dir.path().join("a0")).is_some());
        fs::write(dir.path().join("b1"), "x").unwrap();
        assert!(locator.find(&dir.path().join("a9")).is_some(), "known already");
        assert!(locator.find(&dir.path().join("b0")).is_none(), "not looked for any more");
    }
}
