//! Mounts of our own, so that what we have open keeps nobody from unmounting a disk.
//!
//! An open file keeps the mount busy through which it was opened: a job that ends with umount(8) would fail while it is
//! steered. So a file is opened through a copy of its mount which is attached nowhere (`OPEN_TREE_CLONE`, open_tree(2)), and
//! the mount itself stays free. When it is gone, which poll(2) tells of `/proc/self/mountinfo`, the files that were opened
//! through its copy are let go of, and then the disk is free as well.
//!
//! What has been mounted since we began is left alone altogether ([`is_new`]): a job that mounts a disk of its own unmounts it
//! again, and goes on at once with what lies below, be it to check it, to copy it or to remove it; that has to be free then,
//! and whole. Numbers of devices are used again, those of loop devices at once: one that was unmounted meanwhile is new when it
//! comes back.
//!
//! That takes `CAP_SYS_ADMIN`, and is done where it is asked for ([`let_go_at_once`]). Where it does not work, or the mount
//! is the root, which nobody unmounts, files are opened as by anybody else.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx};

use crate::kernel::open_quietly;
use crate::proc_text;

/// Mounts that are remembered; of further ones files are opened as by anybody else.
const MOST: usize = 64;
/// `include/uapi/linux/mount.h`.
const OPEN_TREE_CLONE: libc::c_uint = 1;

static ARE_WANTED: AtomicBool = AtomicBool::new(false);
/// What was mounted when that was asked for, and still is.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);
/// Disks of which a file was seen to lie on a mount that came later: nothing more is asked about them.
static NEW_DISKS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static COPIES: Mutex<Vec<Copied>> = Mutex::new(Vec::new());
static HAVE_CHANGED: AtomicBool = AtomicBool::new(false);
/// Tells poll(2) when something is mounted or unmounted.
static CHANGES: OnceLock<Option<File>> = OnceLock::new();

/// What was mounted at a time, and still is.
#[derive(Debug, Default)]
struct Before {
    /// Tells poll(2) when something is mounted or unmounted.
    changes: Option<File>,
    /// Of each mount what does not change as long as it is there.
    identities: HashSet<Vec<u8>>,
    /// The numbers of the mounts,
    mounts: HashSet<u64>,
    /// and those of their devices.
    devices: HashSet<u64>,
}

impl Before {
    fn now() -> Before {
        // Before it is read: no change is missed.
        let mut before = Before { changes: File::open("/proc/self/mountinfo").ok(), ..Before::default() };
        let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
        before.identities = proc_text::mount_identities(&mountinfo).map(Vec::from).collect();
        before.count();
        before
    }

    fn count(&mut self) {
        let numbers = self.identities.iter().flat_map(|identity| proc_text::mount_numbers(identity));
        (self.mounts, self.devices) = numbers.unzip();
    }

    /// Forgets what is mounted no more.
    fn look(&mut self) {
        let Some(changes) = &self.changes else { return };
        let mut change = [PollFd::new(changes, PollFlags::PRI)];
        let has_changed = poll(&mut change, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0);
        if has_changed && let Ok(mountinfo) = fs::read("/proc/self/mountinfo") {
            self.keep(&mountinfo);
        }
    }

    fn keep(&mut self, mountinfo: &[u8]) {
        let now: HashSet<&[u8]> = proc_text::mount_identities(mountinfo).collect();
        self.identities.retain(|identity| now.contains(identity.as_slice()));
        self.count();
    }
}

/// A mount that files were opened on.
#[derive(Debug)]
struct Copied {
    /// Its number, and that of the copy.
    id: u64,
    copy_id: u64,
    point: PathBuf,
    /// What was mounted below it when it was copied: of that the copy shows nothing.
    below: Vec<PathBuf>,
    /// The copy; `None` where there is none.
    root: Option<Arc<OwnedFd>>,
}

/// From now on what this process has open keeps no disk from being unmounted, and the space of no deleted file.
pub fn let_go_at_once() {
    before().get_or_insert_with(Before::now);
    ARE_WANTED.store(true, Relaxed);
}

/// Does this process let go at once?
pub(crate) fn are_wanted() -> bool {
    ARE_WANTED.load(Relaxed)
}

/// Why a file is left alone that lies on a disk which was not mounted when we began.
pub(crate) const NEW: &str = "on a disk that was mounted meanwhile";

/// Has this disk been mounted since, and was it seen to be?
pub(crate) fn is_new_disk(device: u64) -> bool {
    NEW_DISKS.lock().unwrap_or_else(PoisonError::into_inner).contains(&device)
}

/// A file of this disk lies on a mount that has come since.
fn remember(device: u64) {
    let mut new = NEW_DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    // Several file systems may have a number without a major one.
    if device >> 20 != 0 && !new.contains(&device) && new.len() < MOST {
        new.push(device);
    }
}

/// Is what lies at a path on such a mount? Nothing is opened, and a link is not followed.
pub(crate) fn is_new_at(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    are_wanted() && statx(CWD, path, flags, StatxFlags::MNT_ID).is_ok_and(|found| is_new_found(&found))
}

/// Does it lie on such a mount?
pub(crate) fn is_new(file: impl AsFd) -> bool {
    if !are_wanted() {
        return false;
    }
    let found = look(file).filter(is_new_found);
    if let Some(found) = &found {
        remember(device_of(found));
    }
    found.is_some()
}

/// By its device: a job may have mounts of its own of what was there (mount_namespaces(7)), and what is bound elsewhere is the
/// same disk. Where the number says nothing of that, as on btrfs, it is the mount that counts, if it is one of ours.
fn is_new_found(found: &Statx) -> bool {
    let mut before = before();
    let Some(before) = before.as_mut() else { return false };
    before.look();
    if before.mounts.is_empty() {
        // Without /proc nothing is known.
        return false;
    }
    if found.stx_dev_major != 0 {
        return !before.devices.contains(&device_of(found));
    }
    let (id, is_told) = (found.stx_mnt_id, StatxFlags::from_bits_retain(found.stx_mask));
    let is_known = || before.mounts.contains(&id) || copies().iter().any(|copied| copied.copy_id == id);
    is_told.contains(StatxFlags::MNT_ID) && !is_known() && is_mounted(id)
}

fn device_of(found: &Statx) -> u64 {
    u64::from(found.stx_dev_major) << 20 | u64::from(found.stx_dev_minor)
}

/// Is this one of the mounts that this process sees, and of a disk?
fn is_mounted(id: u64) -> bool {
    fs::read("/proc/self/mountinfo")
        .is_ok_and(|mountinfo| proc_text::disk_mounted_as(&mountinfo, id).is_some())
}

fn before() -> MutexGuard<'static, Option<Before>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copies() -> MutexGuard<'static, Vec<Copied>> {
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look(file: impl AsFd) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH;
    statx(file, "", flags, StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID).ok()
}

/// A second open file on the same inode, for reading, through a mount of our own; `None` where there is none.
pub(crate) fn open_again(file: BorrowedFd<'_>) -> Option<File> {
    if !are_wanted() {
        return None;
    }
    let wanted = look(file)?;
    let (root, point) = copy_of(wanted.stx_mnt_id)?;
    // Of a deleted file this leads nowhere.
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let below = path.strip_prefix(&point).ok()?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    // Nothing is opened by that, whatever has come to lie there.
    let there = openat2(&*root, below, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?;
    let found = look(&there)?;
    let who = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor, of.stx_ino);
    if who(&found) != who(&wanted) {
        return None;
    }
    open_quietly(Path::new(&format!("/proc/self/fd/{}", there.as_raw_fd()))).ok()
}

/// The copy that a path leads to, and the rest of the path.
fn leading(path: &Path) -> Option<(Arc<OwnedFd>, &Path)> {
    let copies = copies();
    let leads = |copied: &&Copied| {
        copied.root.is_some()
            && path.starts_with(&copied.point)
            && !copied.below.iter().any(|other| path.starts_with(other))
    };
    let copied = copies.iter().filter(leads).max_by_key(|copied| copied.point.as_os_str().len())?;
    Some((Arc::clone(copied.root.as_ref()?), path.strip_prefix(&copied.point).ok()?))
}

/// What lies at a path, on a copy that is known already: looked up like this a mount is free also while the disk is waited
/// for. Nothing is opened by that (`O_PATH`), and no symbolic link is followed.
pub(crate) fn look_beside(path: &Path) -> Option<OwnedFd> {
    if !are_wanted() {
        return None;
    }
    let (root, below) = leading(path)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(&*root, below, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}

/// Another path by which the same is reached while the descriptor is open: on a mount of our own, so that the other one is
/// free while the disk is waited for. `None` where there is no need, or no such mount.
#[must_use]
pub fn beside(path: &Path) -> Option<(Arc<OwnedFd>, PathBuf)> {
    if !are_wanted() {
        return None;
    }
    let leads = leading(path);
    let (root, below) = match leads {
        Some(leads) => leads,
        None => {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
            let found = statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
            if is_new_found(&found) {
                return None;
            }
            copy_of(found.stx_mnt_id)?;
            leading(path)?
        }
    };
    let path = Path::new("/proc/self/fd").join(root.as_raw_fd().to_string()).join(".").join(below);
    Some((root, path))
}

/// The path of something that is open, of which procfs has told this one: of a copy it tells what is below its root.
pub(crate) fn as_others_see(file: impl AsFd, path: PathBuf) -> PathBuf {
    let copies = copies();
    if copies.is_empty() {
        return path;
    }
    let copy_id = look(file).map(|found| found.stx_mnt_id);
    let copied = copies.iter().find(|copied| copied.root.is_some() && Some(copied.copy_id) == copy_id);
    match (copied, path.strip_prefix("/")) {
        (Some(copied), Ok(below)) => copied.point.join(below),
        _ => path,
    }
}

/// The root of the copy of the mount that something lies on, open; for what takes a descriptor of a file system.
pub(crate) fn root_beside(file: impl AsFd) -> Option<File> {
    if !are_wanted() {
        return None;
    }
    let (root, _) = copy_of(look(file)?.stx_mnt_id)?;
    open_quietly(Path::new(&format!("/proc/self/fd/{}", root.as_raw_fd()))).ok()
}

/// The copy of a mount, and where that is mounted.
fn copy_of(id: u64) -> Option<(Arc<OwnedFd>, PathBuf)> {
    let mut copies = copies();
    if copies.iter().any(|copied| copied.copy_id == id && copied.root.is_some()) {
        // It is one already.
        return None;
    }
    let known = copies.iter().position(|copied| copied.id == id);
    let copied = match known {
        Some(at) => &copies[at],
        None if copies.len() >= MOST => return None,
        None => {
            copies.push(copy(id));
            copies.last()?
        }
    };
    Some((Arc::clone(copied.root.as_ref()?), copied.point.clone()))
}

fn copy(id: u64) -> Copied {
    // Before anything is opened: no change is missed.
    CHANGES.get_or_init(|| File::open("/proc/self/mountinfo").ok());
    let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mut copied = Copied { id, copy_id: 0, point: PathBuf::new(), below: Vec::new(), root: None };
    let Some(point) = proc_text::disk_mounted_as(&mountinfo, id).filter(|point| point != Path::new("/"))
    else {
        return copied;
    };
    let root = open_tree(&point);
    copied.copy_id = root.as_ref().and_then(look).map_or(0, |found| found.stx_mnt_id);
    let others = proc_text::mounts(&mountinfo).map(|(other, _)| other);
    copied.below = others.filter(|other| *other != point && other.starts_with(&point)).collect();
    copied.point = point;
    copied.root = root.filter(|_| copied.copy_id != 0).map(Arc::new);
    copied
}

fn open_tree(point: &Path) -> Option<OwnedFd> {
    let path = std::ffi::CString::new(point.as_os_str().as_encoded_bytes()).ok()?;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC.cast_unsigned();
    // SAFETY: the path ends with a zero and outlives the call.
    let descriptor = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    let descriptor = i32::try_from(descriptor).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the descriptor is fresh and nobody else's.
    let root = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // What is mounted below it later is nothing to us: since Linux 6.15 copies take part in that.
    let private = MountAttributes { propagation: libc::MS_PRIVATE, ..MountAttributes::default() };
    // SAFETY: the structure is as long as is said, and outlives the call.
    unsafe {
        let (empty, bytes) = (c"".as_ptr(), size_of::<MountAttributes>());
        libc::syscall(
            libc::SYS_mount_setattr,
            descriptor,
            empty,
            libc::AT_EMPTY_PATH,
            &raw const private,
            bytes,
        );
    }
    Some(root)
}

/// `struct mount_attr`, mount_setattr(2).
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// What tells poll(2) by `PollFlags::PRI` that something was mounted or unmounted, if anything was opened.
pub(crate) fn changes() -> Option<BorrowedFd<'static>> {
    Some(CHANGES.get()?.as_ref()?.as_fd())
}

/// poll(2) has told so, which it does once.
pub(crate) fn have_changed() {
    HAVE_CHANGED.store(true, Relaxed);
}

/// The numbers of our copies whose mounts are gone since this was asked last. What was opened through them is to be closed.
pub(crate) fn gone() -> Vec<u64> {
    if !HAVE_CHANGED.swap(false, Relaxed) {
        return Vec::new();
    }
    let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mut copies = copies();
    let gone = copies.extract_if(.., |copied| proc_text::disk_mounted_as(&mountinfo, copied.id).is_none());
    gone.filter(|copied| copied.root.is_some()).map(|copied| copied.copy_id).collect()
}

/// Was a file opened through one of these copies?
pub(crate) fn is_through(file: &File, copies: &[u64]) -> bool {
    look(file).is_some_and(|found| copies.contains(&found.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_was_unmounted_is_forgotten_though_its_number_is_used_again() {
        const ROOT: &str = "27 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let loop_at =
            |at: &str| format!("{ROOT}40 27 7:0 / {at} rw shared:9 - ext4 /dev/loop0 rw\n").into_bytes();
        let identities = proc_text::mount_identities(&loop_at("/a")).map(Vec::from).collect();
        let mut before = Before { identities, ..Before::default() };
        before.count();
        before.keep(&loop_at("/a"));
        assert_eq!(before.devices, HashSet::from([254 << 20, 7 << 20]));
        before.keep(&loop_at("/b"));
        assert_eq!((before.devices, before.mounts), (HashSet::from([254 << 20]), HashSet::from([27])));
    }
}
