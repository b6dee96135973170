//! Whose a number is: users may be lent further numbers, and are one user all the same.
//!
//! `/etc/subuid` and `/etc/subgid` lend ranges of user and group numbers to users, for their containers (subuid(5)). A
//! user can run processes under any of them (newuidmap(1)), so whatever is limited by user has to count them as the one
//! user who they are lent to: its *account*. What a process may see and do goes by its own number, as with the kernel.
//!
//! The owner stands there by name or by number. Names are looked up in `/etc/passwd` alone: a service that waits for
//! a directory of users on the network would wait with everybody else. A range whose owner is not found there, or is
//! root, is an account of its own, under its first number. A number that `/etc/passwd` gives to somebody is that somebody's.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of each of the files that are read.
const FILE_BYTES: u64 = 1 << 20;
/// Ranges that are known; further ones are nobody's.
const RANGES: usize = 1 << 16;
/// Time between two looks whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Numbers that are lent: the first, the one after the last, and the account that they count as.
type Lent = BTreeMap<u32, (u32, u32)>;

/// Which account a process's numbers belong to.
#[derive(Debug)]
pub(crate) struct Subordinates {
    directory: PathBuf,
    looked_at: Option<Instant>,
    /// Inode, size and change of each file, as it was read.
    read: Vec<Option<(u64, u64, i64, i64)>>,
    users: Lent,
    groups: Lent,
    own: BTreeSet<u32>,
}

impl Subordinates {
    /// Those of this directory, which is `/etc` but for tests.
    pub(crate) fn new(directory: &Path) -> Subordinates {
        Subordinates {
            directory: directory.to_owned(),
            looked_at: None,
            read: Vec::new(),
            users: Lent::new(),
            groups: Lent::new(),
            own: BTreeSet::new(),
        }
    }

    /// The account of a process that runs under these numbers.
    pub(crate) fn account(&mut self, user: u32, group: u32) -> u32 {
        if self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.looked_at = Some(Instant::now());
            self.look();
        }
        if user == 0 {
            return 0;
        }
        // A user's own processes may bear a lent group.
        let by_user = || lender(&self.users, user);
        let by_group = || lender(&self.groups, group).filter(|account| *account != 0);
        if self.own.contains(&user) { user } else { by_user().or_else(by_group).unwrap_or(user) }
    }

    /// Reads the files if they have changed.
    fn look(&mut self) {
        let paths = ["passwd", "subuid", "subgid"].map(|name| self.directory.join(name));
        let state = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
        };
        let now: Vec<_> = paths.iter().map(state).collect();
        if now == self.read {
            return;
        }
        self.read = now;
        let [passwd, users, groups] = paths.map(|path| text(&path));
        let names = names(&passwd);
        self.own = names.values().copied().collect();
        (self.users, self.groups) = (lent(&users, &names), lent(&groups, &names));
    }
}

/// What a file holds, as far as it is read.
fn text(path: &Path) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // What cannot be read is not there.
        let _ = file.take(FILE_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// The users of passwd(5), by name.
fn names(passwd: &[u8]) -> BTreeMap<&[u8], u32> {
    let lines = passwd.split(|&byte| byte == b'\n');
    let users = lines.filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        Some((name, number(fields.nth(1)?)?))
    });
    users.collect()
}

/// The ranges of subuid(5). Where two of them overlap, the first in the file holds.
fn lent(text: &[u8], names: &BTreeMap<&[u8], u32>) -> Lent {
    let mut lent = Lent::new();
    for line in text.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b':');
        let (Some(owner), Some(first), Some(count)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (Some(mut first), Some(count)) = (number(first), number(count)) else { continue };
        // What root lends to its containers is not root, whom no limit binds.
        let account = names.get(owner).copied().or_else(|| number(owner)).filter(|account| *account != 0);
        let account = account.unwrap_or(first);
        let end = first.saturating_add(count);
        // What is lent already stays as it is; what lies between is added.
        while first < end && lent.len() < RANGES {
            let before = lent.range(..=first).next_back().map(|(_, (end, _))| *end).unwrap_or(0);
            first = first.max(before);
            let next = lent.range(first..).next().map_or(end, |(next, _)| (*next).min(end));
            if first < next {
                lent.insert(first, (next, account));
            }
            first = first.max(next).max(lent.get(&next).map_or(0, |(end, _)| *end));
            if next == end {
                break;
            }
        }
    }
    lent
}

fn lender(lent: &Lent, number: u32) -> Option<u32> {
    let (_, (end, account)) = lent.range(..=number).next_back()?;
    (number < *end).then_some(*account)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subordinates(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Subordinates) {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
        let subordinates = Subordinates::new(directory.path());
        (directory, subordinates)
    }

    #[test]
    fn lent_numbers_count_as_their_owners() {
        let (_directory, mut all) = subordinates(&[
            ("passwd", b"root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:\nbob:x:1001:1001::/:\nodd:x:200005:1::/:\n"),
            ("subuid", b"ann:100000:65536\n1001:165536:65536\nnobody-known:300000:10\nroot:400000:10\nbad line\nann:x:y\n\xff:5:1\n"),
            ("subgid", b"bob:500000:10\n"),
        ]);
        let accounts: Vec<u32> =
            [0, 1000, 100_000, 165_535, 165_536, 300_009, 300_010, 400_002, 200_005, 99_999]
                .into_iter()
                .map(|user| all.account(user, 7))
                .collect();
        assert_eq!(accounts, [0, 1000, 1000, 1000, 1001, 300_000, 300_010, 400_000, 200_005, 99_999]);
        assert_eq!(all.account(70_000, 500_003), 1001, "by its group");
        assert_eq!(all.account(100_001, 500_003), 1000, "its user comes first");
        assert_eq!(all.account(1000, 500_003), 1000, "who has a name is who it is");
    }

    #[test]
    fn ranges_that_overlap_are_the_firsts() {
        let lent = lent(b"1:100:10\n2:90:40\n3:0:4294967295\n4:105:1\n", &BTreeMap::new());
        let all: Vec<Option<u32>> =
            [0, 89, 90, 99, 100, 109, 110, 129, 130, u32::MAX - 1, u32::MAX].map(|n| lender(&lent, n)).into();
        let expected = [3, 3, 2, 2, 1, 1, 2, 2, 3, 3].map(Some).into_iter().chain([None]);
        assert_eq!(all, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_list_of_ranges_without_end_is_cut_off() {
        let text: Vec<u8> =
            (0..RANGES as u32 + 100).flat_map(|n| format!("7:{}:1\n", 2 * n).into_bytes()).collect();
        assert_eq!(lent(&text, &BTreeMap::new()).len(), RANGES);
    }

    #[test]
    fn without_the_files_everybody_is_who_it_is() {
        let (_directory, mut all) = subordinates(&[]);
        assert_eq!((all.account(0, 0), all.account(100_000, 0)), (0, 100_000));
    }

    #[test]
    fn a_changed_file_is_read_anew() {
        let (directory, mut all) = subordinates(&[("subuid", b"7:100:10\n")]);
        assert_eq!(all.account(105, 0), 7);
        std::fs::write(directory.path().join("subuid"), b"8:100:10000\n").unwrap();
        all.looked_at = None;
        assert_eq!(all.account(105, 0), 8);
    }
}
