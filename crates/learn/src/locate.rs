//! Files that bear another name tonight.
//!
//! Names change from night to night where they hold dates and counters: `log/2026-11-21/part-7` is
//! `log/2026-11-22/part-7` a day later. A path that does not exist is followed from the root; where a part of it is
//! missing, the parts that are equal but for their digits take its place, and among several the one that was changed
//! last. What one part was replaced by holds for all files below it.
//!
//! A file that was replaced under its own name, that has grown or shrunk, is the same file here: who reads it reads the
//! same places, most likely, and what does not exist any more is left out where the plan is made.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Entries of a directory that are looked at for one that is missing.
const ENTRIES: usize = 1 << 14;
/// Entries of a like name that are compared; the age of each is asked for.
const ALIKE: usize = 256;
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
        for part in path.components() {
            then.push(part);
            now = match self.found.get(&then) {
                Some(known) => known.clone()?,
                None => {
                    let found = self.step(&now, part);
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

    /// One part further, from a directory that exists.
    fn step(&mut self, directory: &Path, part: Component<'_>) -> Option<PathBuf> {
        let path = directory.join(part);
        if fs::symlink_metadata(&path).is_ok() {
            return Some(path);
        }
        let Component::Normal(name) = part else { return None };
        let folded = (directory.to_owned(), fold(name));
        if let Some(known) = self.alike.get(&folded) {
            return known.clone();
        }
        if !name.as_bytes().iter().any(u8::is_ascii_digit) || self.searches >= SEARCHES {
            return None;
        }
        self.searches += 1;
        let entries = fs::read_dir(directory).ok()?.take(ENTRIES).flatten();
        let alike = entries.filter(|entry| fold(&entry.file_name()) == folded.1).take(ALIKE);
        let dated = alike.filter_map(|entry| {
            let changed = entry.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((changed, entry.file_name()))
        });
        let best = dated.max().map(|(_, name)| directory.join(name));
        self.alike.insert(folded, best.clone());
        best
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
        assert_eq!((locator.renamed(), locator.searches), (2, 1), "the directory was looked for once");
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
