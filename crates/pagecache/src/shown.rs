//! Under what a file is shown as mapped.

use crate::file_key::FileKey;

/// Under what a file is shown as mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Names {
    /// The inode that has its pages.
    pub(crate) key: FileKey,
    /// The inode that it was opened by, under its superblock's device number.
    pub(crate) shown: FileKey,
}
