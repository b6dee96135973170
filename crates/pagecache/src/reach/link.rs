//! What is open or mapped in a process, and what lies somewhere.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::file_key::FileKey;

/// What lies somewhere, as far as it can be told without asking its file system.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What statx(2) says.
    pub(crate) stat: FileKey,
    /// A regular file.
    pub(crate) is_file: bool,
    /// The path that led there is its canonical one. `false` where that is not known.
    pub(crate) is_canonical: bool,
    /// The same as a path only (`O_PATH`): of a regular file, if it was asked for, or if who it is to the page cache has
    /// to be found out by it ([`crate::identity`]).
    pub(crate) there: Option<OwnedFd>,
}

/// Of what there are links for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// `/proc/PID/fd`: what it has open.
    Open,
    /// `/proc/PID/map_files`: what it has mapped.
    Mapped,
}

/// The name of such a link: the number of a descriptor, or the first address of a mapping and the one behind its last.
pub(crate) type Link = (u64, u64);

impl Links {
    /// Where those of a process are.
    pub(super) fn directory(self, pid: u32) -> PathBuf {
        PathBuf::from(match self {
            Links::Open => format!("/proc/{pid}/fd"),
            Links::Mapped => format!("/proc/{pid}/map_files"),
        })
    }

    /// Where one of them is.
    pub(crate) fn path(self, pid: u32, (first, end): Link) -> PathBuf {
        self.directory(pid).join(match self {
            Links::Open => first.to_string(),
            Links::Mapped => format!("{first:x}-{end:x}"),
        })
    }

    /// The link that a directory has under this name.
    pub(super) fn parse(self, name: &str) -> Option<Link> {
        match self {
            Links::Open => Some((name.parse().ok()?, 0)),
            Links::Mapped => {
                let (first, end) = name.split_once('-')?;
                Some((u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
            }
        }
    }
}
