//! What takes rights over other people's files and processes, and who does it: this process, or a broker.
//!
//! Six things of this plane take `CAP_DAC_READ_SEARCH` or `CAP_SYS_PTRACE`: to look at what a path or a link of procfs
//! leads to, to open a file anew, to open one by the number of its inode, to see what a process has open or mapped, to
//! give advice on a process's open file, and to page out what a process has mapped. Who has both capabilities is as good
//! as root. So a service gives them up, and starts a process of its own before that which keeps them and does nothing
//! else: the *broker* (as in privilege separation: Provos, Friedl, Honeyman, "Preventing Privilege Escalation", USENIX
//! Security 2003).
//!
//! ```text
//!  service: loop ────── question, descriptors ──────►  broker: here.rs, if permits.rs says yes
//!                ◄───── answer, descriptors ────────
//!           threads for what is mapped ─────────────►  a lane for each
//!           threads for what clients name ──────────►  a lane for each
//! ```
//!
//! The broker need not trust who asks. It opens a file for reading only if it is handed a descriptor that is open for
//! reading already, or has opened the file before, or root has put a program under the service ([`permits`]). What
//! it hands out otherwise are descriptors by which nothing can be read (`O_PATH`), and numbers of inodes.
//!
//! Where there is no broker (`foretell run` without a service, or a service that keeps its rights) the same is done by this
//! process. Rights belong to a process, and so does the broker: there is one at most.

mod client;
mod here;
mod message;
mod permits;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::closing::Closer;
use crate::guard::OpenFile;
use crate::mappings::Names;
use crate::observe::FileKey;

pub use client::Broker;

/// What lies somewhere, as far as it can be told without asking its file system.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What statx(2) says.
    pub(crate) stat: FileKey,
    /// A regular file.
    pub(crate) is_file: bool,
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
    fn directory(self, pid: u32) -> PathBuf {
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
    fn parse(self, name: &str) -> Option<Link> {
        match self {
            Links::Open => Some((name.parse().ok()?, 0)),
            Links::Mapped => {
                let (first, end) = name.split_once('-')?;
                Some((u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
            }
        }
    }
}

/// Looks at what a path leads to.
///
/// # Errors
/// When nothing is there, or it is on a server in the network ([`crate::network`]).
pub(crate) fn look(path: &Path, wants_it: bool) -> io::Result<Seen> {
    match Broker::of_process() {
        Some(broker) => broker.look(path, wants_it),
        None => here::look(path, wants_it),
    }
}

/// Looks at what is open, whoever opened it.
///
/// # Errors
/// The system's.
pub(crate) fn look_at(file: impl AsFd) -> io::Result<Seen> {
    here::look_at(file)
}

/// Looks at links of a process, in their order; `None` for those that lead nowhere.
pub(crate) fn look_at_links(pid: u32, links: Links, which: &[Link]) -> Vec<Option<Seen>> {
    match Broker::of_process() {
        Some(broker) => broker.look_at_links(pid, links, which),
        None => which.iter().map(|&link| here::look(&links.path(pid, link), false).ok()).collect(),
    }
}

/// The first `most` links of a process.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub(crate) fn links(pid: u32, links: Links, most: usize) -> io::Result<Vec<Link>> {
    match Broker::of_process() {
        Some(broker) => broker.links(pid, links, most),
        None => here::links(pid, links, most),
    }
}

/// A second open file on the same inode, for reading: what is done to it does not show on the first.
///
/// # Errors
/// When it cannot be opened, or may not be had.
pub(crate) fn open_again(file: impl AsFd) -> io::Result<File> {
    match Broker::of_process() {
        Some(broker) => broker.open_again(file.as_fd()),
        None => here::open_again(file),
    }
}

/// The same by a thread for what clients name ([`crate::aside`]); `None` where there is no broker to wait for.
pub(crate) fn open_aside(file: impl AsFd) -> Option<io::Result<File>> {
    Broker::of_process().map(|broker| broker.open_aside(file.as_fd()))
}

/// Opens a file by the number of its inode, with the mounts that are known where it is done here. What comes is that inode of
/// that file system; of btrfs it may be another subvolume's.
pub(crate) fn open_by_number(
    key: FileKey,
    generation: u32,
    mounts: &mut crate::handles::Mounts,
) -> Option<File> {
    match Broker::of_process() {
        Some(broker) => broker.open_by_number(key, generation).ok(),
        None => mounts.open_here(key, generation),
    }
}

/// Gives advice on a process's open file, as if the process had. What was found in its place is closed on behalf of `user`,
/// whose process it is. Says whether it could.
pub(crate) fn advise(file: OpenFile, advice: libc::c_int, user: u32, closer: &Closer) -> bool {
    match Broker::of_process() {
        Some(broker) => broker.advise(file, advice, user).is_ok(),
        None => file.advise_here(advice, user, closer),
    }
}

/// Pages out what a process has mapped of a range of a file.
///
/// # Errors
/// When the process is gone, or the kernel refuses.
pub(crate) fn page_out(pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
    match Broker::of_process() {
        Some(broker) => broker.page_out(pid, file, offset, length),
        None => crate::mappings::page_out_here(pid, file, offset, length),
    }
}

#[cfg(test)]
mod tests;
