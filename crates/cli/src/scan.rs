//! A bounded look at the files that rules match, before the program starts: does a rule match anything,
//! and does another run hold one of the files under another policy?
//!
//! Globs may match whole file systems, so the walk stops after [`MAX_ENTRIES`] directory entries in all and
//! then gives no verdict: a missing warning does less harm than a late start.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::rule::Rule;

/// Directory entries looked at in all. About a quarter of a second with cold directories on a disk.
pub const MAX_ENTRIES: usize = 100_000;

/// Entries that may still be looked at; shared by the walks of one start.
#[derive(Debug)]
pub struct Allowance {
    entries: usize,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { entries: MAX_ENTRIES }
    }
}

/// What a bounded walk can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<T> {
    /// Found.
    Found(T),
    /// Looked everywhere, found nothing.
    Nothing,
    /// Ran out of the allowance before an answer.
    Unknown,
}

/// Entries that are still looked at after the first match, for more of them: about 10 ms.
const ENTRIES_FOR_MORE: usize = 4096;

/// Files that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    /// Some of them.
    pub files: Vec<PathBuf>,
    /// These are all.
    pub are_all: bool,
}

/// The regular files that the rule matches: at most `most`, and only those that stand near the first one.
pub fn matching(rule: &Rule, most: usize, allowance: &mut Allowance) -> Verdict<Matching> {
    let Some(glob) = matcher(rule) else { return Verdict::Unknown };
    let mut matches = Vec::new();
    let mut near = Allowance { entries: allowance.entries };
    let verdict = walk(&rule.root(), &mut near, |path, near| {
        if glob.is_match(path) {
            if matches.is_empty() {
                allowance.entries = near.entries;
                near.entries = near.entries.min(ENTRIES_FOR_MORE);
            }
            matches.push(path.to_owned());
        }
        (matches.len() >= most).then_some(())
    });
    if !matches.is_empty() {
        return Verdict::Found(Matching { files: matches, are_all: verdict == Verdict::Nothing });
    }
    allowance.entries = near.entries;
    if verdict == Verdict::Nothing { Verdict::Nothing } else { Verdict::Unknown }
}

/// The first file that one of `ours` and one of `theirs` put under different policies or priorities, with
/// the two rules. In both lists the first rule that matches decides.
pub fn conflict<'a>(
    ours: &'a [Rule],
    theirs: &'a [Rule],
    allowance: &mut Allowance,
) -> Verdict<(PathBuf, &'a Rule, &'a Rule)> {
    let compile = |rules: &'a [Rule]| -> Vec<(&'a Rule, GlobMatcher)> {
        rules.iter().filter_map(|rule| Some((rule, matcher(rule)?))).collect()
    };
    let (our_globs, their_globs) = (compile(ours), compile(theirs));
    let first = |globs: &[(&'a Rule, GlobMatcher)], path: &Path| {
        globs.iter().find(|(_, glob)| glob.is_match(path)).map(|(rule, _)| *rule)
    };
    let mut unknown = false;
    for rule in ours {
        // Files that both match lie below both roots: walk the deeper one.
        let root = rule.root();
        let roots = theirs.iter().map(Rule::root).filter_map(|other| {
            if other.starts_with(&root) {
                Some(other)
            } else {
                root.starts_with(&other).then(|| root.clone())
            }
        });
        let mut roots: Vec<PathBuf> = roots.collect();
        roots.sort();
        roots.dedup();
        for root in roots {
            let verdict = walk(&root, allowance, |path, _| {
                let (our, their) = (first(&our_globs, path)?, first(&their_globs, path)?);
                let differ = (our.policy, our.priority) != (their.policy, their.priority);
                differ.then(|| (path.to_owned(), our, their))
            });
            match verdict {
                Verdict::Found(found) => return Verdict::Found(found),
                Verdict::Unknown => unknown = true,
                Verdict::Nothing => {}
            }
        }
    }
    if unknown { Verdict::Unknown } else { Verdict::Nothing }
}

fn matcher(rule: &Rule) -> Option<GlobMatcher> {
    Some(GlobBuilder::new(&rule.glob).literal_separator(true).build().ok()?.compile_matcher())
}

/// Asks `found` about every regular file at or below `root`, breadth first and in order of the names, until
/// it answers. It may shorten the allowance. Links are not followed: a rule matches real paths. The kernel's own file systems are left out.
fn walk<T>(
    root: &Path,
    allowance: &mut Allowance,
    mut found: impl FnMut(&Path, &mut Allowance) -> Option<T>,
) -> Verdict<T> {
    let kernel = ["/proc", "/sys", "/dev"];
    if root.is_file() {
        return found(root, allowance).map_or(Verdict::Nothing, Verdict::Found);
    }
    let mut directories = VecDeque::from([root.to_owned()]);
    while let Some(directory) = directories.pop_front() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            match allowance.entries.checked_sub(1) {
                Some(left) => allowance.entries = left,
                None => return Verdict::Unknown,
            }
            names.push(entry);
        }
        names.sort_by_key(std::fs::DirEntry::file_name);
        for entry in names {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_file() {
                if let Some(answer) = found(&path, allowance) {
                    return Verdict::Found(answer);
                }
            } else if kind.is_dir() && !kernel.iter().any(|k| Path::new(k) == path) {
                directories.push_back(path);
            }
        }
    }
    Verdict::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        for name in ["a.db", "d/b.db", "d/e/c.txt"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        (dir, root)
    }

    fn rules(root: &Path, texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| Rule::parse(text).unwrap().absolute(root)).collect()
    }

    #[test]
    fn a_glob_matches_or_does_not_or_there_is_no_verdict() {
        let (_dir, root) = tree();
        let rule = |text| rules(&root, &[text]).remove(0);
        let ask = |text, entries| matching(&rule(text), 2, &mut Allowance { entries });
        let found = |names: &[&str], are_all| {
            Verdict::Found(Matching { files: names.iter().map(|name| root.join(name)).collect(), are_all })
        };
        assert_eq!(ask("**/c.txt=mru", 100), found(&["d/e/c.txt"], true));
        assert_eq!(ask("a.db=mru", 100), found(&["a.db"], true));
        assert_eq!(ask("**=mru", 100), found(&["a.db", "d/b.db"], false));
        assert_eq!(ask("*.txt=mru", 100), Verdict::Nothing);
        assert_eq!(ask("d=mru", 100), Verdict::Nothing);
        assert_eq!(ask("**/c.txt=mru", 3), Verdict::Unknown);
    }

    #[test]
    fn a_conflict_is_a_file_under_two_policies() {
        let (_dir, root) = tree();
        let mut allowance = Allowance::default();
        let ours = rules(&root, &["d/**=mru"]);
        let theirs = rules(&root, &["**/*.txt=mru", "d/*.db=lru,priority=1"]);
        match conflict(&ours, &theirs, &mut allowance) {
            Verdict::Found((path, our, their)) => {
                assert_eq!(path, root.join("d/b.db"));
                assert_eq!((our, their), (&ours[0], &theirs[1]));
            }
            other => panic!("{other:?}"),
        }
        let same = rules(&root, &["**=mru"]);
        assert_eq!(conflict(&ours, &same, &mut allowance), Verdict::Nothing);
        let elsewhere = rules(&root, &["a.db=lru"]);
        assert_eq!(conflict(&ours, &elsewhere, &mut allowance), Verdict::Nothing);
    }
}
