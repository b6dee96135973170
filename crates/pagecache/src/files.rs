//! The files under control: who they are, where they are, and our descriptors on them.
//!
//! A file is known by device and inode. It keeps its place in the table for as long as it is under control;
//! our descriptor on it may be closed in between, so that any number of files gets by with a limited number
//! of descriptors, and is opened anew by path (and looked at: it must be the same file). Of deleted files, and
//! of those that nobody is interested in any more ([`crate::orphans`]), no descriptor is kept at all.

mod names;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use foretell_policy::{Block, DiskId, FileId, Layout, ManagerId, PoolPolicy};

use crate::aside;
use crate::deletions::{Deletions, Watched};
use crate::descriptors::{self, Descriptors, Search, Unknown};
use crate::disk::Disk;
use crate::disks::Disks;
use crate::extents::{EXTENTS_IN_ALL, EXTENTS_OF_USER};
use crate::file_at;
use crate::folios::FolioMap;
use crate::handles::Mounts;
use crate::kernel;
use crate::listed_runs::ListedRuns;
use crate::observe::FileKey;
use crate::orphans::{Lent, Orphans};
use crate::resolve;
use crate::shown::Names;

/// Processes remembered to have mapped one file; pages mapped by further ones are not evicted.
const MAPPERS: usize = 64;

/// A file under control.
#[derive(Debug)]
pub(crate) struct ManagedFile {
    pub(crate) key: FileKey,
    /// The inode by which it is opened, where `/proc/PID/maps` may show that one.
    pub(crate) shown: FileKey,
    /// It is opened on an overlay: its path leads to another inode than the one that has its pages, and to yet another
    /// one when it is copied up.
    pub(crate) layered: bool,
    /// Number of this registration, never used again.
    pub(crate) serial: u32,
    /// Generation of the inode where it was seen, else 0.
    pub(crate) generation: u32,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) disk: Arc<Disk>,
    pub(crate) folios: FolioMap,
    /// Policy and priority by the first rule that matched.
    pub(crate) control: Option<(PoolPolicy, i32)>,
    /// Managers whose rules have been looked through for it.
    pub(crate) placed: Vec<ManagerId>,
    /// Managers whose lists name it.
    pub(crate) listed: Vec<ManagerId>,
    /// In what runs they do.
    pub(crate) listed_runs: ListedRuns,
    /// Sessions that named it by a descriptor. While there are any it is never opened by its path: what lies
    /// there is up to those who may write the directory.
    pub(crate) holders: u32,
    /// The user whose processes read it, and whether those of other users did so as well.
    pub(crate) used_by: Option<u32>,
    pub(crate) used_by_others: bool,
    /// So much of it was cached when it came under control that not all was looked up.
    pub(crate) partly_known: bool,
    /// Processes that have mapped it.
    pub(crate) mapped_by: Vec<u32>,
    /// The process that used it last.
    pub(crate) last_user: u32,
    /// A process that has or had it open, and under which number, as it has told itself: where to look first.
    pub(crate) told: Option<(u32, i32)>,
    /// Deleted, and not found open anywhere when it was looked for: not looked for until it is used again.
    pub(crate) lost: bool,
    /// Last page that a process's own reads or the kernel's readahead added, and which process.
    pub(crate) added_up_to: Option<(u32, u64)>,
    /// Its last name is gone: we hold no descriptor, so that its space is freed when its users close it.
    pub(crate) unlinked: bool,
    /// Bytes that its path may have, beyond some for every file ([`names`]).
    name_room: usize,
    /// Its number among the orphans, if it is one.
    orphan: Option<u64>,
    /// Extents that the policy keeps of it, for whom, and the first of them.
    extents: usize,
    account: u32,
    places: Layout,
    pub(crate) descriptor: Option<Arc<File>>,
    watched: Option<Watched>,
    recently_used: bool,
}

impl ManagedFile {
    /// Nobody is interested in it any more, and some of it is still cached.
    pub(crate) fn is_orphan(&self) -> bool {
        self.orphan.is_some()
    }

    /// Closes our descriptor, if there is one. Of a deleted file it may be the last.
    fn close(&mut self) -> bool {
        let Some(descriptor) = self.descriptor.take() else { return false };
        self.watched = None;
        if descriptor.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            aside::close(self.account, descriptor);
        }
        true
    }

    /// Under what processes that have mapped it show it.
    pub(crate) fn names(&self) -> Names {
        Names { key: self.key, shown: self.shown }
    }

    /// A process of a user's has read it.
    pub(crate) fn used(&mut self, user: u32) {
        self.used_by_others |= *self.used_by.get_or_insert(user) != user;
    }

    /// Where a block of it, which the policy numbers `block.file`, is on its device, as a number that grows along it.
    pub(crate) fn place(&self, block: Block) -> u64 {
        self.places.locate(block.file.0, block.index).1
    }

    pub(crate) fn mapped(&mut self, pid: u32) {
        if !self.mapped_by.contains(&pid) && self.mapped_by.len() < MAPPERS {
            self.mapped_by.push(pid);
        }
    }
}

/// What is known of a file when it is registered.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) key: FileKey,
    pub(crate) generation: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) last_user: u32,
    /// It was named by a descriptor.
    pub(crate) held: bool,
    /// To whose share its extents count; 0 for what was named by a path.
    pub(crate) account: u32,
}

/// The files under control, by the policy's numbers.
#[derive(Debug)]
pub(crate) struct FileTable {
    slots: Vec<Option<ManagedFile>>,
    by_key: HashMap<FileKey, FileId>,
    by_path: HashMap<PathBuf, FileId>,
    disks: Disks,
    /// Where programs have their files open.
    pub(crate) descriptors: Descriptors,
    pub(crate) orphans: Orphans,
    pub(crate) mounts: Mounts,
    pub(crate) lent: Lent,
    pub(crate) deletions: Deletions,
    next_serial: u32,
    /// The sizes of all files together.
    bytes: u64,
    /// Extents of all files, and of those that count to each share.
    extents: usize,
    extents_of: BTreeMap<u32, usize>,
    open: usize,
    open_limit: usize,
    /// Where to go on looking for a descriptor to close, and for files that changed.
    close_hand: usize,
    sweep_hand: usize,
    audit_hand: usize,
    audit_at: Option<u64>,
}

impl FileTable {
    /// A table that keeps at most `open_limit` descriptors open; of its disks those with an arm are said to take so long for a
    /// movement of it, 0 if that is not known.
    pub(crate) fn new(open_limit: usize, movement_ns: u64) -> FileTable {
        FileTable {
            slots: Vec::new(),
            by_key: HashMap::new(),
            by_path: HashMap::new(),
            disks: Disks::new(movement_ns),
            descriptors: Descriptors::new(),
            orphans: Orphans::default(),
            mounts: Mounts::default(),
            lent: Lent::default(),
            deletions: Deletions::start(),
            next_serial: 0,
            bytes: 0,
            extents: 0,
            extents_of: BTreeMap::new(),
            open: 0,
            open_limit: open_limit.max(1),
            close_hand: 0,
            sweep_hand: 0,
            audit_hand: 0,
            audit_at: None,
        }
    }

    pub(crate) fn find(&self, key: FileKey) -> Option<FileId> {
        self.by_key.get(&key).copied()
    }

    pub(crate) fn find_path(&self, path: &std::path::Path) -> Option<FileId> {
        self.by_path.get(path).copied()
    }

    pub(crate) fn get(&self, file: FileId) -> Option<&ManagedFile> {
        self.slots.get(file.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, file: FileId) -> Option<&mut ManagedFile> {
        self.slots.get_mut(file.0 as usize)?.as_mut()
    }

    /// The file, if it is still the same registration.
    pub(crate) fn get_serial(&mut self, file: FileId, serial: u32) -> Option<&mut ManagedFile> {
        self.get_mut(file).filter(|managed| managed.serial == serial)
    }

    /// Files in the table.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The sizes of all files together, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &ManagedFile)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(at, slot)| slot.as_ref().map(|file| (FileId(at as u32), file)))
    }

    /// Places of the table, also those in which there is no file.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The files in some of these places.
    pub(crate) fn between(&self, from: usize, count: usize) -> impl Iterator<Item = (FileId, &ManagedFile)> {
        let numbered = self.slots.iter().enumerate().skip(from).take(count);
        numbered.filter_map(|(at, slot)| slot.as_ref().map(|file| (FileId(at as u32), file)))
    }

    /// The disk that a device is.
    pub(crate) fn disk(&mut self, dev: u64) -> (DiskId, Arc<Disk>) {
        self.disks.of_device(dev)
    }

    /// Bytes that were read between files so far, on all disks.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.disks.passed_bytes()
    }

    /// Puts a file, which the policy numbers `file`, in its place; one that was there before is forgotten.
    ///
    /// # Errors
    /// When the file cannot be looked at.
    pub(crate) fn insert(&mut self, file: FileId, new: Registration) -> std::io::Result<()> {
        let looks = file_at::look_at(&new.file)?;
        let generation = if new.generation == 0 { looks.generation() } else { new.generation };
        let opened = self.with_pages(new.key, generation, new.file);
        let metadata = opened.metadata()?;
        let (_, disk) = self.disk(new.key.dev);
        let at = file.0 as usize;
        // The policy's number, and what it keeps under it, stay.
        let before = self.get_mut(file).map(|before| {
            let places = std::mem::replace(&mut before.places, Layout::Unknown);
            (before.extents, before.account, places)
        });
        let (extents, account, places) = before.unwrap_or((0, new.account, Layout::Unknown));
        self.remove(file);
        self.count_extents(account, 0, extents);
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.by_key.insert(new.key, file);
        self.by_path.insert(new.path.clone(), file);
        self.next_serial += 1;
        let unlinked = metadata.nlink() == 0;
        self.bytes = self.bytes.saturating_add(metadata.len());
        self.slots[at] = Some(ManagedFile {
            key: new.key,
            shown: looks.shown(),
            layered: looks.is_layered(),
            serial: self.next_serial,
            generation,
            name_room: new.path.as_os_str().len(),
            path: new.path,
            size: metadata.len(),
            disk,
            folios: FolioMap::default(),
            control: None,
            placed: Vec::new(),
            listed: Vec::new(),
            listed_runs: ListedRuns::default(),
            holders: 0,
            used_by: None,
            used_by_others: false,
            partly_known: false,
            mapped_by: Vec::new(),
            last_user: new.last_user,
            told: None,
            lost: false,
            added_up_to: None,
            unlinked,
            orphan: None,
            extents,
            account,
            places,
            descriptor: None,
            watched: None,
            recently_used: true,
        });
        if !unlinked {
            self.keep_open(file, Arc::new(opened));
        }
        Ok(())
    }

    /// Takes a file out of the table.
    pub(crate) fn remove(&mut self, file: FileId) -> Option<ManagedFile> {
        let mut managed = self.slots.get_mut(file.0 as usize)?.take()?;
        self.open -= usize::from(managed.close());
        self.bytes = self.bytes.saturating_sub(managed.size);
        self.count_extents(managed.account, managed.extents, 0);
        self.shrink();
        if let Some(number) = managed.orphan {
            self.orphans.remove(number);
        }
        if self.by_key.get(&managed.key) == Some(&file) {
            self.by_key.remove(&managed.key);
        }
        if self.by_path.get(&managed.path) == Some(&file) {
            self.by_path.remove(&managed.path);
        }
        Some(managed)
    }

    /// Gives back the places behind the last file.
    fn shrink(&mut self) {
        while matches!(self.slots.last(), Some(None)) {
            self.slots.pop();
        }
        if self.slots.len() < self.slots.capacity() / 4 {
            self.slots.shrink_to(2 * self.slots.len());
        }
    }

    /// Extents that may still be kept for somebody; 0 is root, who has no share.
    pub(crate) fn room_for_extents(&self, account: u32) -> usize {
        let own = self.extents_of.get(&account).copied().unwrap_or(0);
        let most = if account == 0 { EXTENTS_IN_ALL } else { EXTENTS_OF_USER };
        most.saturating_sub(own).min(EXTENTS_IN_ALL.saturating_sub(self.extents))
    }

    fn count_extents(&mut self, account: u32, before: usize, now: usize) {
        self.extents = self.extents - before + now;
        let own = self.extents_of.entry(account).or_default();
        *own = *own - before + now;
        if *own == 0 {
            self.extents_of.remove(&account);
        }
    }

    /// The policy keeps so many extents of a file, and these are the first of them.
    pub(crate) fn set_extents(&mut self, file: FileId, extents: usize, places: Layout) {
        let Some(managed) = self.get_mut(file) else { return };
        managed.places = places;
        let (before, account) = (std::mem::replace(&mut managed.extents, extents), managed.account);
        self.count_extents(account, before, extents);
    }

    /// Our descriptor on a file, opened anew if need be; `None` when the file cannot be had any more.
    pub(crate) fn descriptor(&mut self, file: FileId) -> Option<Arc<File>> {
        let managed = self.get_mut(file)?;
        managed.recently_used = true;
        if let Some(descriptor) = &managed.descriptor {
            return Some(Arc::clone(descriptor));
        }
        if managed.lost {
            return None;
        }
        let key = managed.key;
        if managed.is_orphan() {
            let (generation, account) = (managed.generation, managed.account);
            return self.lent.get(key, generation).or_else(|| {
                let opened = self.by_number(key, generation).map(Arc::new)?;
                self.lent.keep(account, key, generation, &opened);
                Some(opened)
            });
        }
        let by_path = (!managed.unlinked && managed.holders == 0)
            .then(|| file_at::open_same(&managed.path, key).ok())
            .flatten();
        let generation = managed.generation;
        match by_path {
            Some(opened) => {
                let opened = Arc::new(self.with_pages(key, generation, opened));
                self.keep_open(file, Arc::clone(&opened));
                Some(opened)
            }
            None => {
                let (unlinked, user) = (managed.unlinked, managed.last_user);
                let told = managed.told;
                let told = told
                    .and_then(|(pid, number)| file_at::open_same(&descriptors::link(pid, number), key).ok());
                let opened = match told.or_else(|| self.by_number(key, generation)) {
                    Some(opened) => opened,
                    None => {
                        let lists = (&mut self.descriptors, &mut self.mounts);
                        match resolve::find(user, key, generation, lists, Search::WithinTheShare) {
                            Ok(found) => found.open().ok()?,
                            Err(why) => {
                                self.get_mut(file)?.lost = unlinked && why == Unknown::NotOpen;
                                return None;
                            }
                        }
                    }
                };
                let opened = Arc::new(self.with_pages(key, generation, opened));
                // For one use only when it is deleted: a descriptor kept would keep its space.
                if !unlinked {
                    self.keep_open(file, Arc::clone(&opened));
                }
                Some(opened)
            }
        }
    }

    /// The file that has the pages of an open one: that one itself, but on an overlay the file below, if its file system
    /// can be reached and opens files by their number. Of the file above nothing tells what is dirty.
    fn with_pages(&mut self, key: FileKey, generation: u32, file: File) -> File {
        let layered = file_at::look_at(&file).is_ok_and(|looks| looks.is_layered());
        let below = if layered { self.by_number(key, generation) } else { None };
        below.unwrap_or(file)
    }

    /// Where a file under control lies, as far as known.
    pub(crate) fn path(&self, key: FileKey) -> Option<PathBuf> {
        let managed = self.get(self.find(key)?)?;
        (!managed.unlinked).then(|| managed.path.clone())
    }

    /// Opens a file by the number of its inode. Without a generation it could be another one by now.
    fn by_number(&mut self, key: FileKey, generation: u32) -> Option<File> {
        (generation != 0).then(|| self.mounts.open(key, generation)).flatten()
    }

    /// Gives back what the tables have room for beyond what they hold.
    pub(crate) fn release_memory(&mut self) {
        self.by_key.shrink_to_fit();
        self.by_path.shrink_to_fit();
    }

    /// Nobody is interested in the file any more: its descriptor is closed.
    pub(crate) fn orphan(&mut self, file: FileId) {
        let Some(managed) = self.slots.get_mut(file.0 as usize).and_then(Option::as_mut) else { return };
        if managed.is_orphan() {
            return;
        }
        managed.orphan = Some(self.orphans.add(file));
        managed.control = None;
        if let Some(descriptor) = managed.descriptor.take() {
            self.open -= 1;
            if managed.generation == 0 {
                managed.generation = kernel::generation(&*descriptor);
            }
            managed.descriptor = Some(descriptor);
            managed.close();
        }
        self.forget_long_name(file);
    }

    /// Somebody is interested in the file: says whether it was an orphan.
    pub(crate) fn claim(&mut self, file: FileId) -> bool {
        let number = self.get_mut(file).and_then(|managed| managed.orphan.take());
        number.inspect(|&number| self.orphans.remove(number)).is_some()
    }

    /// Has a file no descriptor, and shall have one?
    pub(crate) fn wants_descriptor(&self, file: FileId) -> bool {
        self.get(file).is_some_and(|managed| managed.descriptor.is_none() && !managed.unlinked)
    }

    /// Takes a descriptor of a file, unless it has one already or shall have none.
    pub(crate) fn offer(&mut self, file: FileId, descriptor: impl FnOnce() -> File) {
        if self.wants_descriptor(file) {
            self.keep_open(file, Arc::new(descriptor()));
        }
    }

    fn keep_open(&mut self, file: FileId, descriptor: Arc<File>) {
        while self.open >= self.open_limit && self.close_one() {}
        let watched = self.deletions.watch(&descriptor, file);
        if let Some(managed) = self.get_mut(file) {
            managed.watched = watched;
            let had = managed.descriptor.replace(descriptor).is_some();
            self.open += usize::from(!had);
        }
    }

    /// Closes a descriptor that was not used since the hand came by last (second chance).
    fn close_one(&mut self) -> bool {
        for _ in 0..2 * self.slots.len() {
            self.close_hand = (self.close_hand + 1) % self.slots.len();
            let Some(managed) = &mut self.slots[self.close_hand] else { continue };
            let used = std::mem::take(&mut managed.recently_used);
            if !used && managed.close() {
                self.open -= 1;
                return true;
            }
        }
        false
    }

    /// Looks at up to `count` files: sizes, names, whether they were deleted. Returns those whose size or
    /// existence changed. Places without a file do not count.
    pub(crate) fn sweep(&mut self, count: usize) -> Vec<FileId> {
        let mut changed = Vec::new();
        let mut looked_at = 0;
        for _ in 0..self.slots.len() {
            if looked_at == count {
                break;
            }
            self.sweep_hand = (self.sweep_hand + 1) % self.slots.len();
            if self.slots[self.sweep_hand].is_none() {
                continue;
            }
            looked_at += 1;
            if self.refresh(FileId(self.sweep_hand as u32)) {
                changed.push(FileId(self.sweep_hand as u32));
            }
        }
        changed
    }

    /// The next file whose books are to be compared with what is cached, in turn, and from which byte on.
    pub(crate) fn next_to_audit(&mut self) -> Option<(FileId, u64)> {
        if let Some(at) = self.audit_at.take() {
            return Some((FileId(self.audit_hand as u32), at));
        }
        let from = self.audit_hand + 1;
        let places = (from..self.slots.len()).chain(0..from.min(self.slots.len()));
        self.audit_hand = places.into_iter().find(|&at| self.slots[at].is_some())?;
        Some((FileId(self.audit_hand as u32), 0))
    }

    /// The file that was compared last goes on there next time.
    pub(crate) fn audit_on(&mut self, at: Option<u64>) {
        self.audit_at = at;
    }

    /// Looks at one file; says whether its size or existence changed, or it is deleted.
    pub(crate) fn refresh(&mut self, file: FileId) -> bool {
        let Some(managed) = self.slots.get_mut(file.0 as usize).and_then(Option::as_mut) else {
            return false;
        };
        let Some(descriptor) = &managed.descriptor else {
            if managed.holders > 0 {
                return managed.unlinked;
            }
            if managed.is_orphan() {
                return managed.folios.cached_pages() == 0;
            }
            // Its old path leads elsewhere and nothing of it is cached: deleted, as far as we can tell.
            managed.unlinked |= managed.folios.cached_pages() == 0
                && !file_at::look(&managed.path).is_ok_and(|looks| looks.key == managed.key);
            return managed.unlinked;
        };
        let Ok(metadata) = descriptor.metadata() else { return false };
        let before = std::mem::replace(&mut managed.size, metadata.len());
        self.bytes = self.bytes.saturating_sub(before).saturating_add(metadata.len());
        let resized = before != metadata.len();
        if metadata.nlink() == 0 {
            managed.unlinked = true;
            self.open -= usize::from(managed.close());
            return true;
        }
        let is_layered = managed.layered;
        // The path of the file below is another one.
        if !is_layered && let Some(path) = file_at::path_of(descriptor) {
            self.moved(file, path);
        }
        // Whether it was copied up is for the caller to find out.
        resized || is_layered
    }

    /// Descriptors open at present.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn registration(path: &std::path::Path) -> Registration {
        let file = kernel::open_quietly(path).unwrap();
        let key = FileKey::of(&file).unwrap();
        Registration {
            key,
            generation: 0,
            path: path.to_owned(),
            file,
            last_user: 0,
            held: false,
            account: 0,
        }
    }

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = std::fs::canonicalize(directory.path()).unwrap();
        (directory, path)
    }

    #[test]
    fn no_more_descriptors_than_the_limit_are_kept_and_all_files_can_be_had() {
        let (_directory, path) = directory();
        let mut table = FileTable::new(2, 0);
        for number in 0..5 {
            let path = path.join(number.to_string());
            std::fs::write(&path, "x").unwrap();
            table.insert(FileId(number), registration(&path)).unwrap();
        }
        assert_eq!(table.open(), 2);
        for number in 0..5 {
            let key = FileKey::of(&table.descriptor(FileId(number)).unwrap()).unwrap();
            assert_eq!(table.get(FileId(number)).unwrap().key, key);
            assert!(table.open() <= 2);
        }
    }

    #[test]
    fn a_closed_file_that_was_replaced_is_not_taken_for_the_old_one() {
        let (_directory, path) = directory();
        let (a, b) = (path.join("a"), path.join("b"));
        std::fs::write(&a, "x").unwrap();
        std::fs::write(&b, "y").unwrap();
        let mut table = FileTable::new(1, 0);
        table.insert(FileId(0), registration(&a)).unwrap();
        table.insert(FileId(1), registration(&b)).unwrap();
        std::fs::rename(&b, &a).unwrap();
        assert!(table.descriptor(FileId(0)).is_none());
    }

    #[test]
    fn names_that_have_gone_do_not_keep_a_deleted_file_open() {
        const NAMES: u32 = 1000;
        let (_directory, path) = directory();
        let mut table = FileTable::new(NAMES as usize, 0);
        for number in 0..NAMES {
            let path = path.join(number.to_string());
            std::fs::write(&path, "x").unwrap();
            table.insert(FileId(number), registration(&path)).unwrap();
            table.set_extents(FileId(number), 3, Layout::Unknown);
        }
        assert_eq!(table.room_for_extents(0), EXTENTS_IN_ALL - 3 * NAMES as usize);
        // The first and one in the middle stay: what is behind them is given back.
        let middle = NAMES / 2;
        for number in (1..NAMES).filter(|number| *number != middle) {
            table.remove(FileId(number));
        }
        assert_eq!(table.slots.len(), middle as usize + 1);
        assert_eq!(table.room_for_extents(0), EXTENTS_IN_ALL - 6);
        std::fs::remove_file(path.join(middle.to_string())).unwrap();
        assert_eq!(table.sweep(2), [FileId(middle)], "two files, two looks");
        assert_eq!(table.open(), 1);
        table.remove(FileId(middle));
        table.remove(FileId(0));
        assert!(table.slots.is_empty() && table.slots.capacity() <= 4, "{}", table.slots.capacity());
        assert_eq!(table.sweep(2), []);
        assert_eq!(table.room_for_extents(0), EXTENTS_IN_ALL);
    }

    #[test]
    fn extents_are_counted_by_share() {
        let (_directory, path) = directory();
        let mut table = FileTable::new(4, 0);
        for (number, account) in [(0, 7), (1, 7), (2, 8)] {
            let path = path.join(number.to_string());
            std::fs::write(&path, "x").unwrap();
            table.insert(FileId(number), Registration { account, ..registration(&path) }).unwrap();
        }
        table.set_extents(FileId(0), EXTENTS_OF_USER - 5, Layout::Unknown);
        table.set_extents(FileId(1), 5, Layout::Unknown);
        assert_eq!((table.room_for_extents(7), table.room_for_extents(8)), (0, EXTENTS_OF_USER));
        assert_eq!(table.room_for_extents(0), EXTENTS_IN_ALL - EXTENTS_OF_USER);
        table.set_extents(FileId(0), 1, Layout::Unknown);
        assert_eq!(table.room_for_extents(7), EXTENTS_OF_USER - 6);
        (0..3).for_each(|number| drop(table.remove(FileId(number))));
        assert_eq!((table.room_for_extents(7), table.extents_of.len()), (EXTENTS_OF_USER, 0));
    }

    #[test]
    fn a_path_that_grows_is_not_kept_for_a_client_nor_a_long_one_of_an_orphan() {
        let (_directory, path) = directory();
        let mut table = FileTable::new(4, 0);
        for account in [0, 7] {
            let (before, after) = (path.join(account.to_string()), path.join(format!("to{account}")));
            std::fs::create_dir_all(before.join("d")).unwrap();
            std::fs::write(before.join("d/f"), "x").unwrap();
            let new = Registration { account, ..registration(&before.join("d/f")) };
            table.insert(FileId(account), new).unwrap();
            let deep = std::iter::repeat_n("n".repeat(200), 3).fold(after, |path, name| path.join(name));
            std::fs::create_dir_all(&deep).unwrap();
            std::fs::rename(before.join("d"), deep.join("d")).unwrap();
            table.sweep(10);
            let is_followed = table.find_path(&deep.join("d/f")) == Some(FileId(account));
            assert_eq!(is_followed, account == 0, "what root names is followed anywhere");
            std::fs::rename(deep.join("d"), path.join("short")).unwrap();
            table.sweep(10);
            assert_eq!(table.find_path(&path.join("short/f")), Some(FileId(account)));
            std::fs::rename(path.join("short"), deep.join("d")).unwrap();
            let there = File::open(deep.join("d/f")).unwrap();
            table.named(FileId(account), &there);
            assert_eq!(table.find_path(&deep.join("d/f")), Some(FileId(account)), "it is counted anew");
            table.orphan(FileId(account));
            let is_kept = table.find_path(&deep.join("d/f")).is_some();
            let path = table.get(FileId(account)).unwrap().path.clone();
            assert_eq!((is_kept, path.as_os_str().is_empty()), (account == 0, account != 0));
            assert!(table.claim(FileId(account)));
            table.named(FileId(account), &there);
            assert_eq!(table.find_path(&deep.join("d/f")), Some(FileId(account)));
        }
    }

    #[test]
    fn a_deleted_file_is_closed_and_a_renamed_or_grown_one_followed() {
        let (_directory, path) = directory();
        let (a, b) = (path.join("a"), path.join("b"));
        std::fs::write(&a, "x").unwrap();
        let mut table = FileTable::new(4, 0);
        table.insert(FileId(0), registration(&a)).unwrap();
        assert_eq!(table.sweep(10), []);
        std::fs::rename(&a, &b).unwrap();
        std::fs::OpenOptions::new().append(true).open(&b).unwrap().write_all(b"yz").unwrap();
        assert_eq!(table.sweep(10), [FileId(0)]);
        let managed = table.get(FileId(0)).unwrap();
        assert_eq!((managed.size, managed.path.as_path()), (3, b.as_path()));
        assert_eq!(table.find_path(&b), Some(FileId(0)));
        std::fs::remove_file(&b).unwrap();
        assert_eq!(table.sweep(10), [FileId(0)]);
        assert!(table.get(FileId(0)).unwrap().unlinked);
        assert_eq!(table.open(), 0);
    }
}
