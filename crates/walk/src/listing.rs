//! What is in a directory, and the orders in which programs go through it.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, open, statx};

/// Entries of the largest directory that is followed: its names take 1 MB.
pub(crate) const ENTRIES: usize = 1 << 14;
/// Listings that are kept, and their entries in all.
const KEPT: usize = 64;
const KEPT_ENTRIES: usize = 2 * ENTRIES;

/// What is in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The directory.
    pub directory: Arc<Path>,
    /// The directories in it as they are listed, by name and number of the inode.
    pub directories: Vec<(OsString, u64)>,
    /// How many other names there are in it.
    pub others: usize,
}

impl Contents {
    /// Nothing.
    pub(crate) fn none(directory: &Arc<Path>) -> Contents {
        Contents { directory: Arc::clone(directory), directories: Vec::new(), others: 0 }
    }
}

/// What something in a directory is. Everything else (links, devices, sockets) is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory on the same file system.
    Directory,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
    /// The number of its inode.
    pub inode: u64,
}

/// Where directories are read.
pub trait Tree {
    /// What is in a directory, as it is listed; `None` if it cannot be read, or has more entries than are followed.
    fn list(&mut self, directory: &Path) -> Option<Vec<Entry>>;

    /// The same of one to which nobody has come yet: somebody has to wait for it.
    fn list_ahead(&mut self, directory: &Path) -> Ahead {
        Ahead::Now(self.list(directory))
    }
}

/// What is in a directory to which nobody has come yet.
#[derive(Debug)]
pub enum Ahead {
    /// That.
    Now(Option<Vec<Entry>>),
    /// It is to be told later ([`Walks::listed`](crate::Walks::listed)), when it is [wanted](crate::Wanted::Listing).
    Later,
}

/// The directories of this machine on disks that were mounted when it was made: what a job mounts itself it will
/// unmount, and must not find busy; and what a server has may never answer.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Numbers of mounts.
    mounts: HashSet<u64>,
    beside: Beside,
}

/// Another path to a directory, good while the descriptor is open, by which its mount is not kept busy: on mounts of our own.
pub type Beside = fn(&Path) -> Option<(Arc<OwnedFd>, PathBuf)>;

impl Disk {
    /// With what is mounted now (proc_pid_mountinfo(5)).
    #[must_use]
    pub fn as_mounted() -> Disk {
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts.split(|&byte| byte == b'\n').filter_map(mount_of_a_disk).collect();
        Disk { mounts, beside: |_| None }
    }

    /// The same, with other paths where there are some.
    pub(crate) fn by(self, beside: Beside) -> Disk {
        Disk { beside, ..self }
    }

    /// Is this the number of such a mount?
    pub(crate) fn is_mount(&self, mount: u64) -> bool {
        self.mounts.contains(&mount)
    }

    /// Is there a directory on such a file system? Links are not followed, and nothing is mounted on the way
    /// (automount(8)). Before Linux 5.8 it is not told.
    pub(crate) fn has(&self, directory: &Path) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::MNT_ID;
        let beside = (self.beside)(directory);
        let path = beside.as_ref().map_or(directory, |(_, path)| path);
        statx(CWD, path, flags, wanted).is_ok_and(|found| {
            let is_told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
            let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
            is_told && is_directory && (beside.is_some() || self.is_mount(found.stx_mnt_id))
        })
    }
}

/// The number of a mount, if what is mounted there lies on a disk: on a device of its own, or on those that btrfs
/// and overlays have below them. FUSE is a program.
fn mount_of_a_disk(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let (number, device) = (fields.next()?.parse().ok()?, fields.nth(1)?);
    let kind = file_system.split(' ').next()?;
    let has_device = !device.starts_with("0:") || matches!(kind, "btrfs" | "overlay");
    (has_device && !kind.starts_with("fuse")).then_some(number)
}

impl Tree for Disk {
    fn list(&mut self, directory: &Path) -> Option<Vec<Entry>> {
        if !self.has(directory) {
            return None;
        }
        let beside = (self.beside)(directory);
        let directory = beside.as_ref().map_or(directory, |(_, path)| path);
        let mut entries = Vec::new();
        for (at, entry) in fs::read_dir(directory).ok()?.enumerate() {
            if at == ENTRIES {
                return None;
            }
            let entry = entry.ok()?;
            let kind = match entry.file_type().ok()? {
                kind if kind.is_file() => Kind::File,
                // What is mounted on it is found out when it is listed itself: to ask here costs a read of the disk.
                kind if kind.is_dir() => Kind::Directory,
                _ => continue,
            };
            entries.push(Entry { name: entry.file_name(), kind, inode: entry.ino() });
        }
        Some(entries)
    }
}

impl Disk {
    /// What is in a directory; `None` if it cannot be looked at, or has more entries than are followed. With inodes, what the
    /// kernel wants to know of each name is read as well.
    pub(crate) fn contents(&mut self, directory: &Arc<Path>, with_inodes: bool) -> Option<Contents> {
        let entries = self.list(directory)?;
        if with_inodes {
            let beside = (self.beside)(directory);
            look_up(beside.as_ref().map_or(directory, |(_, path)| path), &entries);
        }
        let is = |kind| move |entry: &&Entry| entry.kind == kind;
        let directories =
            entries.iter().filter(is(Kind::Directory)).map(|entry| (entry.name.clone(), entry.inode));
        Some(Contents {
            directory: Arc::clone(directory),
            directories: directories.collect(),
            others: entries.iter().filter(is(Kind::File)).count(),
        })
    }
}

/// Makes the kernel know the inodes of files: in the order of their numbers, in which file systems keep them. On a directory
/// something else may be mounted, which may never answer; it is known when it is listed itself.
fn look_up(directory: &Path, entries: &[Entry]) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(directory) = open(directory, flags, Mode::empty()) else { return };
    let mut entries: Vec<&Entry> = entries.iter().filter(|entry| entry.kind == Kind::File).collect();
    entries.sort_unstable_by_key(|entry| entry.inode);
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    for entry in entries {
        // One that is gone is gone.
        let _ = statx(&directory, &entry.name, flags, StatxFlags::TYPE);
    }
}

/// By what the entries of a directory are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// As the file system lists them: `find`, `tar`, `grep -r`.
    Listing,
    /// By name: shells, `ls`, `sort`, `rsync`, most backups.
    Name,
    /// By the numbers of their inodes: what is clever about disks with an arm.
    Inode,
    /// Against the listing: whoever puts what is listed on a stack, such as `rg`.
    Reverse,
    /// Against the names: `ls -r`, `bup`, whoever begins with the latest of dated files.
    ReversedName,
    /// By name, where digits stand for numbers: `sort -V`, and loops that count.
    Number,
}

/// An order in which a tree is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// The order of the files of a directory.
    files: By,
    /// That of the directories in it. If it is another, files come first.
    directories: By,
    /// The files of a directory come before the directories in it, otherwise each entry at its place.
    files_first: bool,
}

impl Order {
    /// All of them. The first one wins where several fit.
    pub(crate) const ALL: [Order; 11] = [
        Order::mixed(By::Listing),
        Order::mixed(By::Name),
        Order::mixed(By::Inode),
        Order::mixed(By::Reverse),
        Order::files_first(By::Listing, By::Listing),
        Order::files_first(By::Name, By::Name),
        Order::files_first(By::Inode, By::Inode),
        Order::files_first(By::Reverse, By::Reverse),
        // rsync(1) with checksums.
        Order::files_first(By::Listing, By::Name),
        Order::mixed(By::ReversedName),
        Order::mixed(By::Number),
    ];

    const fn mixed(by: By) -> Order {
        Order { files: by, directories: by, files_first: false }
    }

    const fn files_first(files: By, directories: By) -> Order {
        Order { files, directories, files_first: true }
    }

    fn index(self) -> usize {
        Order::ALL.iter().position(|order| *order == self).unwrap_or(0)
    }
}

/// Compares names by their parts, where a run of digits is one part and counts as its number; names that are alike but for
/// zeros in front as bytes.
fn by_number(a: &OsStr, b: &OsStr) -> Ordering {
    let (mut left, mut right) = (a.as_encoded_bytes(), b.as_encoded_bytes());
    while let (Some(first), Some(second)) = (left.first(), right.first()) {
        let (ordering, lengths) = if first.is_ascii_digit() && second.is_ascii_digit() {
            let [left, right] = [left, right].map(leading_digits);
            let [first, second] = [left, right].map(without_zeros);
            (first.len().cmp(&second.len()).then_with(|| first.cmp(second)), [left.len(), right.len()])
        } else {
            (first.cmp(second), [1, 1])
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
        (left, right) = (&left[lengths[0]..], &right[lengths[1]..]);
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

fn leading_digits(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|&&digit| digit == b'0').count()..]
}

/// Whether two paths are the same as they are written, which takes less time than to compare their parts.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    a.as_os_str() == b.as_os_str()
}

/// A directory that was listed.
#[derive(Debug)]
pub(crate) struct Listing {
    path: PathBuf,
    entries: Vec<Entry>,
    /// The entries in each order, once it is asked for.
    sequences: [OnceCell<Sequence>; Order::ALL.len()],
}

/// Entries in an order.
#[derive(Debug)]
struct Sequence {
    /// The entry at each place.
    entries: Box<[u32]>,
    /// The place of each entry.
    places: Box<[u32]>,
}

impl Listing {
    fn new(path: PathBuf, entries: Vec<Entry>) -> Listing {
        Listing { path, entries, sequences: Default::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry at a place of an order.
    pub(crate) fn at(&self, order: Order, place: usize) -> Option<(u32, &Entry)> {
        let entry = *self.sequence(order).entries.get(place)?;
        Some((entry, &self.entries[entry as usize]))
    }

    pub(crate) fn entry(&self, entry: u32) -> &Entry {
        &self.entries[entry as usize]
    }

    /// The place of a name in an order.
    pub(crate) fn place(&self, order: Order, name: &OsStr) -> Option<usize> {
        let names = &self.sequence(Order::mixed(By::Name)).entries;
        let found =
            names.binary_search_by(|&at| self.entries[at as usize].name.as_os_str().cmp(name)).ok()?;
        Some(self.sequence(order).places[names[found] as usize] as usize)
    }

    fn by(&self, by: By, mut entries: Vec<u32>) -> Vec<u32> {
        let entry = |at: &u32| &self.entries[*at as usize];
        match by {
            By::Listing => {}
            By::Name => entries.sort_by(|a, b| entry(a).name.cmp(&entry(b).name)),
            By::Inode => entries.sort_by_key(|at| entry(at).inode),
            By::Reverse => entries.reverse(),
            By::ReversedName => entries.sort_by(|a, b| entry(b).name.cmp(&entry(a).name)),
            By::Number => entries.sort_by(|a, b| by_number(&entry(a).name, &entry(b).name)),
        }
        entries
    }

    fn sequence(&self, order: Order) -> &Sequence {
        self.sequences[order.index()].get_or_init(|| {
            let of = |kind: Option<Kind>, by: By| {
                let is = |at: &u32| kind.is_none_or(|kind| self.entries[*at as usize].kind == kind);
                self.by(by, (0..self.entries.len() as u32).filter(is).collect())
            };
            let entries = if order.files_first {
                [of(Some(Kind::File), order.files), of(Some(Kind::Directory), order.directories)].concat()
            } else {
                of(None, order.files)
            };
            let mut places = vec![0; entries.len()];
            for (place, &entry) in (0..).zip(&entries) {
                places[entry as usize] = place;
            }
            Sequence { entries: entries.into(), places: places.into() }
        })
    }
}

/// Listings, the last ones kept. To list costs tokens, of which whoever predicts well has enough: a program that reads
/// here and there must not make us read all of its directories.
#[derive(Debug)]
pub(crate) struct Listings<T> {
    tree: T,
    kept: VecDeque<Rc<Listing>>,
    /// Directories of which it will be told what is in them, and of these the ones for which nobody has been asked.
    later: VecDeque<PathBuf>,
    wanted: Vec<PathBuf>,
    tokens: u32,
    /// One of these is taken as well for a directory to which nobody has come yet.
    ahead_tokens: u32,
}

/// Directories of which it will be told what is in them; while there are so many no further ones are wanted.
const LATER: usize = 64;
/// Tokens there are in the beginning, and at most.
const TOKENS: u32 = 64;
/// Of those for directories to which nobody has come yet there are so many in the beginning: on a disk with an arm each takes some
/// movements, for which the program waits that perhaps goes into none of them.
const FIRST_AHEAD_TOKENS: u32 = 2;
/// Entries that cost as much as a directory: to read and order so many takes a tenth of a millisecond.
const ENTRIES_A_TOKEN: usize = 256;

impl<T: Tree> Listings<T> {
    pub(crate) fn new(tree: T) -> Listings<T> {
        Listings {
            tree,
            kept: VecDeque::new(),
            later: VecDeque::new(),
            wanted: Vec::new(),
            tokens: TOKENS,
            ahead_tokens: FIRST_AHEAD_TOKENS,
        }
    }

    /// More tokens.
    pub(crate) fn earn(&mut self, tokens: u32) {
        self.tokens = (self.tokens + tokens).min(TOKENS);
        self.ahead_tokens = (self.ahead_tokens + tokens).min(TOKENS);
    }

    /// What is in a directory, if that is known.
    pub(crate) fn known(&self, directory: &Path) -> Option<Rc<Listing>> {
        self.kept.iter().rfind(|kept| is_same(&kept.path, directory)).cloned()
    }

    /// What is in a directory, if that is known or may be found out.
    pub(crate) fn get(&mut self, directory: &Path) -> Option<Rc<Listing>> {
        if let Some(known) = self.known(directory) {
            return Some(known);
        }
        self.tokens = self.tokens.checked_sub(1)?;
        let entries = self.tree.list(directory);
        Some(self.keep(directory, entries))
    }

    /// What is in a directory to which nobody has come yet. If that is not known it may be wanted, and be known later.
    pub(crate) fn ahead(&mut self, directory: &Path) -> Option<Rc<Listing>> {
        if let Some(known) = self.known(directory) {
            return Some(known);
        }
        if self.later.len() >= LATER || self.later.iter().any(|later| is_same(later, directory)) {
            return None;
        }
        (self.tokens, self.ahead_tokens) = (self.tokens.checked_sub(1)?, self.ahead_tokens.checked_sub(1)?);
        match self.tree.list_ahead(directory) {
            Ahead::Now(entries) => Some(self.keep(directory, entries)),
            Ahead::Later => {
                self.later.push_back(directory.to_owned());
                self.wanted.push(directory.to_owned());
                None
            }
        }
    }

    /// Directories that have come to be wanted.
    pub(crate) fn take_wanted(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.wanted)
    }

    /// What is in a directory that was wanted. One that cannot be read is as good as empty, and need not be asked for again.
    pub(crate) fn keep(&mut self, directory: &Path, entries: Option<Vec<Entry>>) -> Rc<Listing> {
        self.later.retain(|later| !is_same(later, directory));
        // The program may have come there meanwhile.
        if let Some(known) = self.known(directory) {
            return known;
        }
        let entries = entries.unwrap_or_default();
        self.tokens = self.tokens.saturating_sub((entries.len() / ENTRIES_A_TOKEN) as u32);
        let listing = Rc::new(Listing::new(directory.to_owned(), entries));
        self.kept.push_back(Rc::clone(&listing));
        let entries = |kept: &VecDeque<Rc<Listing>>| kept.iter().map(|listing| listing.len()).sum::<usize>();
        while self.kept.len() > KEPT || (self.kept.len() > 1 && entries(&self.kept) > KEPT_ENTRIES) {
            self.kept.pop_front();
        }
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_are_gone_through() {
        let number = |line: &str| mount_of_a_disk(line.as_bytes());
        assert_eq!(number("29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"), Some(29));
        assert_eq!(number("31 29 0:30 /@home /home rw - btrfs /dev/vda2 rw"), Some(31));
        assert_eq!(number("32 29 0:31 / / rw - overlay overlay rw,lowerdir=/a"), Some(32));
        for line in [
            "22 29 0:21 / /proc rw - proc proc rw",
            "40 29 0:50 / /net rw - nfs4 server:/ rw",
            "41 29 0:51 / /far rw - fuse.sshfs u@server: rw",
            "42 29 8:1 / /mnt/usb rw - fuseblk /dev/sda1 rw",
            "43 29 8:1",
            "",
        ] {
            assert_eq!(number(line), None, "{line}");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut disk = Disk::as_mounted();
        let found = disk.list(here).unwrap();
        let kind = |name: &str| found.iter().find(|entry| entry.name == name).map(|entry| entry.kind);
        assert_eq!((kind("Cargo.toml"), kind("src")), (Some(Kind::File), Some(Kind::Directory)));
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(here.join("src")).unwrap());
        assert!(found.iter().any(|entry| entry.inode == inode));
        for other in ["/proc", "/no/such/directory", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            assert_eq!(disk.list(Path::new(other)), None, "{other}");
        }
        assert!(!Disk { mounts: HashSet::new(), beside: |_| None }.has(here), "mounted since");
    }

    #[test]
    fn orders_are_what_they_are_called() {
        let entry = |name: &str, kind, inode| Entry { name: name.into(), kind, inode };
        let entries =
            vec![entry("b", Kind::Directory, 3), entry("c", Kind::File, 1), entry("a", Kind::File, 2)];
        let listing = Listing::new("/d".into(), entries);
        let names = |order| {
            let at =
                |place| listing.at(order, place).map(|(_, entry)| entry.name.to_str().unwrap_or_default());
            (0..3).filter_map(at).collect::<String>()
        };
        assert_eq!(
            Order::ALL.map(names),
            ["bca", "abc", "cab", "acb", "cab", "acb", "cab", "acb", "cab", "cba", "abc"]
        );
        let place = |name: &str| listing.place(Order::ALL[1], OsStr::new(name));
        assert_eq!(["a", "b", "c", "d"].map(place), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn digits_in_names_stand_for_numbers() {
        let sorted = ["", "a", "a-", "a01", "a1", "a1b", "a2", "a10", "a10.2", "a10.10", "b"].map(OsStr::new);
        for (at, one) in sorted.iter().enumerate() {
            for (beside, other) in sorted.iter().enumerate() {
                assert_eq!(by_number(one, other), at.cmp(&beside), "{one:?} and {other:?}");
            }
        }
        let long = ["9".repeat(300), format!("1{}", "0".repeat(300))];
        assert_eq!(by_number(OsStr::new(&long[0]), OsStr::new(&long[1])), Ordering::Less, "of any length");
    }

    /// Nothing is known of it now.
    struct Late;

    impl Tree for Late {
        fn list(&mut self, _: &Path) -> Option<Vec<Entry>> {
            None
        }

        fn list_ahead(&mut self, _: &Path) -> Ahead {
            Ahead::Later
        }
    }

    #[test]
    fn no_more_directories_are_wanted_than_are_told() {
        let mut listings = Listings::new(Late);
        let path = |n: usize| PathBuf::from(format!("/no/{n}"));
        for n in 0..3 * LATER {
            assert!(listings.ahead(&path(n)).is_none() && listings.ahead(&path(n)).is_none());
            listings.earn(1);
        }
        assert!(listings.take_wanted().into_iter().eq((0..LATER).map(path)), "each once");
        listings.keep(&path(0), None);
        assert!(listings.ahead(&path(0)).is_some() && listings.ahead(&path(LATER)).is_none());
        assert_eq!(listings.take_wanted(), [path(LATER)]);
    }

    #[test]
    fn a_listing_costs_a_token_and_few_are_kept() {
        let mut listings = Listings::new(Disk { mounts: HashSet::new(), beside: |_| None });
        let path = |n: u32| PathBuf::from(format!("/no/{n}"));
        assert_eq!((0..2 * TOKENS).filter(|&n| listings.get(&path(n)).is_some()).count(), TOKENS as usize);
        assert_eq!(listings.kept.len(), KEPT);
        assert!(listings.get(&path(TOKENS - 1)).is_some(), "known still");
        listings.earn(1);
        assert!(listings.get(&path(TOKENS)).is_some() && listings.get(&path(TOKENS + 1)).is_none());
    }
}
