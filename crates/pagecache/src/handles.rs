//! Opening a file by the number of its inode (`open_by_handle_at(2)`): without a path, which may lead elsewhere
//! by now or be up to a stranger, and without going through the descriptors of whoever has it open, which may be
//! thousands.
//!
//! A handle is what file systems give to NFS servers: inode number and generation, in the layouts of ext2 to
//! ext4, XFS and others with 32-bit inode numbers (`FILEID_INO32_GEN`), and of XFS with 64-bit ones
//! (`include/linux/exportfs.h`). A deleted file can be opened as long as somebody else has it open, and never
//! again after that. It takes `CAP_DAC_READ_SEARCH`.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

use crate::observe::FileKey;
use crate::proc_text;
use crate::resolve::{look_at, open_quietly};

/// Devices whose mount point is remembered; a further one makes all be looked up anew.
const REMEMBERED: usize = 64;

/// Where file systems are mounted, as far as known. Only paths are kept, so that nothing stays busy.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    points: Vec<(u64, PathBuf)>,
}

impl Mounts {
    /// A descriptor of our own on the inode; `None` when there is no such inode any more, its file system is
    /// not mounted where we see it or knows no such handles, or it is not permitted.
    pub(crate) fn open(&mut self, key: FileKey, generation: u32) -> Option<File> {
        /// `struct file_handle` with the longest handle used here.
        #[repr(C)]
        struct Handle {
            bytes: u32,
            kind: i32,
            handle: [u32; 3],
        }
        let mount = self.mount(key.dev)?;
        let handle = match u32::try_from(key.ino) {
            Ok(ino) => Handle { bytes: 8, kind: 0x1, handle: [ino, generation, 0] },
            // `struct xfs_fid64` packs the inode number and the generation.
            Err(_) => {
                Handle { bytes: 12, kind: 0x81, handle: [key.ino as u32, (key.ino >> 32) as u32, generation] }
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
        look_at(&file).is_ok_and(|looks| looks.is_file && looks.key == key).then_some(file)
    }

    /// A directory of the file system, open.
    fn mount(&mut self, dev: u64) -> Option<File> {
        let on_device = |point: &PathBuf| {
            let mount = open_quietly(point).ok()?;
            look_at(&mount).is_ok_and(|looks| looks.key.dev == dev).then_some(mount)
        };
        if let Some(at) = self.points.iter().position(|(known, _)| *known == dev) {
            if let Some(mount) = on_device(&self.points[at].1) {
                return Some(mount);
            }
            self.points.swap_remove(at);
        }
        let point = mount_point(dev)?;
        let mount = on_device(&point)?;
        if self.points.len() >= REMEMBERED {
            self.points.clear();
        }
        self.points.push((dev, point));
        Some(mount)
    }
}

/// A directory at which the file system of this device is mounted.
fn mount_point(dev: u64) -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    // Files can be mounted too.
    proc_text::mount_points(&mounts, dev).find(|point| point.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_opened_by_its_number_until_it_is_gone() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (file, path) = file.into_parts();
        let key = FileKey::of(&file).unwrap();
        let generation = crate::resolve::generation(&file);
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
        assert!(mounts.open(key, generation).is_none());
    }
}
