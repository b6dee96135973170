//! Opening a file by the number of its inode (`open_by_handle_at(2)`): without a path, which may lead elsewhere
//! by now or be up to a stranger, and without going through the descriptors of whoever has it open, which may be
//! thousands.
//!
//! A handle is what file systems give to NFS servers: inode number and generation, in the layouts of ext2 to
//! ext4, XFS and others with 32-bit inode numbers (`FILEID_INO32_GEN`), of XFS with 64-bit ones, and of btrfs, where
//! the number of the subvolume belongs to it (`include/linux/exportfs.h`, `fs/btrfs/export.h`). A deleted file can be
//! opened as long as somebody else has it open, and never again after that. It takes `CAP_DAC_READ_SEARCH`.
//!
//! On btrfs the subvolume has to be mounted itself: of one that is only reached as a directory of another, nothing
//! leads from its device number to it.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::file_at::look_at;
use crate::file_key::FileKey;
use crate::filesystems;
use crate::kernel::open_quietly;
use crate::own_mounts;
use crate::proc_text;
use crate::reach::Broker;

/// What is mounted may change: it is looked at anew after this time.
const BELIEVED: Duration = Duration::from_secs(1);
/// Devices whose mount point is remembered; a further one makes all be looked up anew.
const REMEMBERED: usize = 64;

/// Where file systems are mounted, as far as known. Only paths are kept, so that nothing stays busy.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    points: Vec<(u64, PathBuf)>,
    /// Devices that are seen in one place only, and until when that is believed.
    sole: Vec<(u64, bool)>,
    believed_until: Option<Instant>,
}

impl Mounts {
    /// Whether a path says under which name a program has a file of this device open: not where the file system is
    /// mounted twice, or may lie below an overlay.
    pub(crate) fn is_sole(&mut self, dev: u64) -> bool {
        let now = Instant::now();
        if self.believed_until.is_none_or(|until| now >= until) || self.sole.len() >= REMEMBERED {
            self.sole.clear();
            self.believed_until = Some(now + BELIEVED);
        }
        if let Some((_, sole)) = self.sole.iter().find(|(known, _)| *known == dev) {
            return *sole;
        }
        let sole =
            fs::read("/proc/self/mountinfo").is_ok_and(|mounts| proc_text::is_mounted_once(&mounts, dev));
        self.sole.push((dev, sole));
        sole
    }

    /// A descriptor of our own on the inode; `None` when there is no such inode any more, its file system is
    /// not mounted where we see it or knows no such handles, or it is not permitted.
    pub(crate) fn open(&mut self, key: FileKey, generation: u32) -> Option<File> {
        let file = match Broker::of_process() {
            Some(broker) => broker.open_by_number(key, generation).ok(),
            None => self.open_here(key, generation),
        }?;
        look_at(&file).is_ok_and(|looks| looks.is(key)).then_some(file)
    }

    /// The same, done by this process. It may be another subvolume's.
    pub(crate) fn open_here(&mut self, key: FileKey, generation: u32) -> Option<File> {
        let mount = self.mount(key.dev)?;
        let mount = own_mounts::root_beside(&mount).unwrap_or(mount);
        let handle = match u32::try_from(key.ino) {
            _ if key.dev >> 20 == 0 => {
                let kind = filesystems::under(&mount).ok()?.handle?;
                let subvolume = subvolume_of(&mount, kind)?;
                let ([low, high], [root_low, root_high]) = (halves(key.ino), halves(subvolume));
                Handle { bytes: 20, kind, handle: [low, high, root_low, root_high, generation] }
            }
            Ok(ino) => Handle { bytes: 8, kind: 0x1, handle: [ino, generation, 0, 0, 0] },
            // `struct xfs_fid64` packs the inode number and the generation.
            Err(_) => {
                let [low, high] = halves(key.ino);
                Handle { bytes: 12, kind: 0x81, handle: [low, high, generation, 0, 0] }
            }
        };
        // SAFETY: the handle says how many bytes of it are good, and outlives the call.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                mount.as_raw_fd(),
                &raw const handle,
                libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOATIME | libc::O_NONBLOCK,
            )
        };
        let descriptor = i32::try_from(descriptor).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the descriptor is fresh and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let _ = crate::kernel::advise(&file, 0, 0, libc::POSIX_FADV_RANDOM);
        Some(file)
    }

    /// Something on the file system, open.
    fn mount(&mut self, dev: u64) -> Option<File> {
        if let Some(at) = self.points.iter().position(|(known, _)| *known == dev) {
            if let Some(mount) = on_device(&self.points[at].1, dev) {
                return Some(mount);
            }
            self.points.swap_remove(at);
        }
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        let (point, mount) = proc_text::mount_points(&mounts, dev).find_map(|point| {
            let mount = on_device(&point, dev)?;
            Some((point, mount))
        })?;
        if self.points.len() >= REMEMBERED {
            self.points.clear();
        }
        self.points.push((dev, point));
        Some(mount)
    }
}

/// `struct file_handle` with the longest handle used here.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u32; 5],
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Opens what a file system is mounted on, if that is a directory or a file on the device.
fn on_device(point: &Path, dev: u64) -> Option<File> {
    let kind = fs::symlink_metadata(point).ok()?.file_type();
    if !kind.is_dir() && !kind.is_file() {
        return None;
    }
    if own_mounts::is_new_at(point) {
        return None;
    }
    let mount = open_quietly(point).ok()?;
    look_at(&mount).is_ok_and(|looks| looks.stat.dev == dev).then_some(mount)
}

/// The number of the btrfs subvolume on which something is: that of its tree, in the handle of that kind of whatever lies
/// there.
fn subvolume_of(file: &File, kind: i32) -> Option<u64> {
    let mut handle = Handle { bytes: 20, kind: 0, handle: [0; 5] };
    let mut mount_id = 0_i32;
    // SAFETY: the handle says how many bytes there is room for; all pointers are good for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            file.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    };
    let [.., low, high, _] = handle.handle;
    (result == 0 && handle.kind == kind).then_some(u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_opened_by_its_number_until_it_is_gone() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (file, path) = file.into_parts();
        let key = FileKey::of(&file).unwrap();
        let generation = crate::kernel::generation(&file);
        let mut mounts = Mounts::default();
        if generation == 0 || mounts.open(key, generation).is_none() {
            println!("skipped: an_inode_is_opened_by_its_number_until_it_is_gone: no file handles here");
            return;
        }
        assert_eq!(FileKey::of(&mounts.open(key, generation).unwrap()).unwrap(), key, "and once more");
        assert!(mounts.open(key, generation ^ 1).is_none(), "another file under the same number");
        path.close().unwrap();
        assert_eq!(FileKey::of(&mounts.open(key, generation).unwrap()).unwrap(), key, "deleted, still open");
        drop(file);
        // A process that another test has just forked may have it open for a moment.
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while mounts.open(key, generation).is_some() {
            assert!(std::time::Instant::now() < ends, "it is gone");
            std::thread::yield_now();
        }
    }
}
