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
//!           the thread that turns readahead off ────►  a lane
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
mod link;
mod message;
mod permits;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::own_mounts;

pub use client::Broker;
pub(crate) use link::{Link, Links, Seen};

/// From now on the calling thread does not ask the broker, if there is one, in the loop's place.
pub(crate) fn ask_as_adviser() {
    if let Some(broker) = Broker::of_process() {
        broker.ask_as_adviser();
    }
}

/// Looks at what a path leads to.
///
/// # Errors
/// When nothing is there, or it is on a server in the network ([`crate::network`]).
pub(crate) fn look(path: &Path, wants_it: bool) -> io::Result<Seen> {
    match Broker::of_process() {
        Some(broker) => broker.look(path, wants_it),
        None => here::look(path, wants_it, false),
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
        None => which.iter().map(|&link| here::look(&links.path(pid, link), false, false).ok()).collect(),
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
        None if own_mounts::is_new(&file) => Err(io::Error::other(own_mounts::NEW)),
        None => own_mounts::open_again(file.as_fd()).map_or_else(|| here::open_again(file), Ok),
    }
}

/// The same by a thread for what clients name ([`crate::aside`]); `None` where there is no broker to wait for.
pub(crate) fn open_aside(file: impl AsFd) -> Option<io::Result<File>> {
    Broker::of_process().map(|broker| broker.open_aside(file.as_fd()))
}

#[cfg(test)]
mod tests;
