//! A file as the page cache knows it.

/// A file as the page cache knows it: device and inode.
///
/// `dev` is the kernel's own number of the file system's device (`super_block.s_dev`; on btrfs that of the subvolume,
/// as in `st_dev`), which is encoded differently from `st_dev`: build keys with [`FileKey::of`]. Inode numbers are reused
/// after a file is deleted; [`crate::Observation::Read`] carries the inode's generation of files that are
/// still unknown, to tell one life of an inode from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Kernel encoding: `major << 20 | minor` (`include/linux/kdev_t.h`).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}
