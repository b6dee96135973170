//! Where the blocks of a file are on its device: extents from the `FS_IOC_FIEMAP` ioctl
//! (`Documentation/filesystems/fiemap.rst`), as a layout for the policy.

#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foretell_policy::{DiskId, Extent, Layout};

use crate::aside::{self, Question};
use crate::kernel::page_bytes;

/// Extents asked for at a time.
const EXTENTS_A_CALL: usize = 256;
/// Extents kept of one file: 32 KiB of memory, 12 ms of the loop's time; the blocks beyond are taken to follow the
/// last one.
const EXTENTS_KEPT: usize = 1024;
/// Extents of those that the order of prefetches goes by, 4 KiB; a file in more pieces is slow in any order.
const EXTENTS_ORDERED: usize = 128;
/// Extents kept of all files, 32 MiB. Of files beyond no place is known.
pub(crate) const EXTENTS_IN_ALL: usize = 1 << 20;
/// Extents kept of the files that one user has named first, 8 MiB. Of files beyond no place is known.
pub(crate) const EXTENTS_OF_USER: usize = 1 << 18;
/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Unknown location, delayed allocation, encoded, inline or tail-packed data: no usable address.
const FIEMAP_EXTENT_NO_ADDRESS: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS_A_CALL],
}

/// How long a user waits for where its file lies; for that of the user as whom we run, whom nobody else waits for
/// but itself, and for that of root, who has named it by its path.
const PATIENCE: Duration = Duration::from_millis(10);
const PATIENCE_FOR_OURS: Duration = Duration::from_secs(1);

/// The layouts of files that somebody has named, in bytes from the beginning of their devices. At most `room` extents are
/// kept. They are asked for in one go: to wake a thread for each takes longer than its answer. What is not told in time is
/// not known.
pub(crate) fn layouts(files: &[(&File, DiskId)], block_bytes: u64, room: usize, user: u32) -> Vec<Layout> {
    let room = room / files.len().max(1);
    let asked: Vec<_> = files.iter().map(|(file, disk)| (file.try_clone(), *disk)).collect();
    let told = Arc::new(Mutex::new(Vec::with_capacity(files.len())));
    let tell = Arc::clone(&told);
    aside::ask(user, patience(user), move || {
        for (file, disk) in asked {
            let extents = file.map_or_else(|_| Vec::new(), |file| read(&file, block_bytes, disk, room));
            tell.lock().unwrap_or_else(PoisonError::into_inner).push(extents);
        }
    });
    let mut found = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    found.resize_with(files.len(), Vec::new);
    files.iter().zip(found).map(|((file, disk), found)| layout_of(file, *disk, found)).collect()
}

/// The same with what the file system has said. Where it has not said anything, or not soon ([`aside`]), files follow
/// each other by their numbers: most file systems put those with near numbers near each other.
pub(crate) fn layout_of(file: &File, disk: DiskId, found: Vec<Extent>) -> Layout {
    if !found.is_empty() {
        return Layout::Extents(found);
    }
    let Ok(metadata) = file.metadata() else { return Layout::Unknown };
    // A number of the file and one of the block, as nothing else is known.
    let address = metadata.ino() << 32;
    Layout::Extents(vec![Extent { first_block: 0, blocks: u32::MAX, address, stride: 1, disk }])
}

/// What the file system says of it, if it does so soon.
pub(crate) fn extents(file: &File, block_bytes: u64, disk: DiskId, room: usize, user: u32) -> Vec<Extent> {
    let Ok(file) = file.try_clone() else { return Vec::new() };
    aside::ask(user, patience(user), move || read(&file, block_bytes, disk, room)).unwrap_or_default()
}

/// Asks for it.
pub(crate) fn question(
    file: &File,
    block_bytes: u64,
    disk: DiskId,
    room: usize,
    user: u32,
) -> Question<Vec<Extent>> {
    let file = file.try_clone();
    let ask = move || file.map_or_else(|_| Vec::new(), |file| read(&file, block_bytes, disk, room));
    Question::new(user, patience(user), ask)
}

fn patience(user: u32) -> Duration {
    let is_ours = user == 0 || user == rustix::process::geteuid().as_raw();
    if is_ours { PATIENCE_FOR_OURS } else { PATIENCE }
}

/// Asks the file system, for as long as that takes.
fn read(file: &File, block_bytes: u64, disk: DiskId, room: usize) -> Vec<Extent> {
    let most = EXTENTS_KEPT.min(room);
    let mut extents = Vec::new();
    let mut start = 0;
    'file: while extents.len() < most {
        let mut map = Box::new(Fiemap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS_A_CALL as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS_A_CALL],
        });
        // SAFETY: the kernel writes at most `extent_count` extents into the structure, which has room for
        // them and outlives the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) };
        let mapped = (map.mapped_extents as usize).min(EXTENTS_A_CALL);
        if result != 0 || mapped == 0 {
            break;
        }
        for extent in &map.extents[..mapped] {
            extents.extend(blocks_of(extent, block_bytes, disk));
            start = extent.logical + extent.length;
            if extent.flags & FIEMAP_EXTENT_LAST != 0 {
                break 'file;
            }
        }
    }
    extents.truncate(most);
    extents.shrink_to_fit();
    extents
}

/// Where the first bytes of a file lie on its device, bytes from the device's beginning, if they are in one piece: so many, or
/// what there is of them.
pub(crate) fn beginning(file: &File, bytes: u64) -> Option<Range<u64>> {
    let first = read(file, page_bytes(), DiskId(0), 1).pop().filter(|first| first.first_block == 0)?;
    let wanted = bytes.min(file.metadata().ok()?.len()).next_multiple_of(page_bytes());
    let has = u64::from(first.blocks) * page_bytes();
    (wanted > 0 && has >= wanted).then(|| first.address..first.address + wanted)
}

/// The first extents of a layout.
pub(crate) fn first(layout: &Layout) -> Layout {
    match layout {
        Layout::Extents(extents) => Layout::Extents(extents.iter().take(EXTENTS_ORDERED).copied().collect()),
        Layout::Unknown | Layout::Striped { .. } => Layout::Unknown,
    }
}

/// Extents of a layout.
pub(crate) fn count(layout: &Layout) -> usize {
    match layout {
        Layout::Extents(extents) => extents.len(),
        Layout::Unknown | Layout::Striped { .. } => 0,
    }
}

/// The blocks whose first byte lies in the extent.
fn blocks_of(extent: &FiemapExtent, block_bytes: u64, disk: DiskId) -> Option<Extent> {
    let first = extent.logical.div_ceil(block_bytes);
    let end = (extent.logical + extent.length).div_ceil(block_bytes);
    if extent.flags & FIEMAP_EXTENT_NO_ADDRESS != 0 || first >= end {
        return None;
    }
    Some(Extent {
        first_block: u32::try_from(first).ok()?,
        blocks: u32::try_from(end - first).ok()?,
        address: extent.physical + (first * block_bytes - extent.logical),
        stride: block_bytes,
        disk,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_belongs_to_the_extent_of_its_first_byte() {
        let extent =
            |logical, length| FiemapExtent { logical, physical: 1 << 20, length, ..Default::default() };
        let blocks = blocks_of(&extent(4096, 16384), 8192, DiskId(3)).unwrap();
        assert_eq!((blocks.first_block, blocks.blocks), (1, 2));
        assert_eq!((blocks.address, blocks.disk), ((1 << 20) + 4096, DiskId(3)));
        assert_eq!(blocks_of(&extent(4096, 4096), 8192, DiskId(0)), None);
    }

    #[test]
    fn no_more_extents_are_kept_than_there_is_room_for() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // Holes between the blocks: at most file systems each block is an extent of its own.
        for block in 0..EXTENTS_KEPT as u64 + 500 {
            file.as_file().write_all_at(&[1; 4096], block * 16384).unwrap();
        }
        file.as_file().sync_all().unwrap();
        let kept = |room| read(file.as_file(), 8192, DiskId(0), room).len();
        assert!(kept(usize::MAX) <= EXTENTS_KEPT);
        assert!(kept(10) <= 10);
        assert_eq!(kept(0), 0);
    }

    #[test]
    fn the_extents_of_a_written_file_are_found_or_its_blocks_follow_each_other() {
        use std::io::Write;
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let found = extents(file.as_file(), 8192, DiskId(1), EXTENTS_IN_ALL, 0);
        if !found.is_empty() {
            assert_eq!(found.iter().map(|e| e.blocks).sum::<u32>(), 128);
            assert_eq!(found[0].first_block, 0);
        }
        for room in [0, EXTENTS_IN_ALL] {
            let layout = layouts(&[(file.as_file(), DiskId(1))], 8192, room, 0).pop().unwrap();
            let places: Vec<_> = (0..128).map(|block| layout.locate(7, block)).collect();
            assert!(places.iter().all(|(disk, _)| *disk == DiskId(1)), "{places:?}");
            assert!(room > 0 || places.is_sorted(), "{places:?}");
        }
    }
}
