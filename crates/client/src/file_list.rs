//! Lists of files: the papers' FileListStart and FileListEnd (Cao et al. 1996, section 4.1.2).
//!
//! In ACFS the kernel saw each `open` between the two calls. A library does not, so it looks at the process's
//! descriptors at both moments (`/proc/self/fd`): those that have come to mean another file, or a file at all,
//! are the list. Their order is that of their numbers. The kernel gives out the lowest free number, so this
//! is the order of the `open` calls as long as nothing is closed between the two moments.

use std::collections::HashMap;
use std::fs;
use std::os::fd::RawFd;

use crate::client::Client;
use crate::files::{self, Key, borrow};

/// A list that has begun. Ended by [`FileList::end`]; dropped, it discloses nothing.
#[derive(Debug)]
pub struct FileList<'a> {
    client: &'a Client,
    before: HashMap<RawFd, Key>,
}

impl<'a> FileList<'a> {
    pub(crate) fn start(client: &'a Client) -> FileList<'a> {
        FileList { client, before: open_files().into_iter().collect() }
    }

    /// Ends the list: the files opened since its beginning and still open will be read, each from beginning to
    /// end, in the order of their descriptors' numbers. Returns how many were disclosed. Without `/proc`, none.
    pub fn end(self) -> usize {
        self.end_at(usize::MAX)
    }

    /// The same for the first `most` of them.
    pub fn end_at(self, most: usize) -> usize {
        let mut opened = open_files();
        opened.retain(|(number, key)| self.before.get(number) != Some(key));
        let numbers = opened.iter().take(most).map(|(number, _)| *number);
        let readable = numbers.map(borrow).filter(|file| files::check_readable(*file).is_ok());
        // What another thread closes meanwhile ends the list early.
        self.client.disclose_files(readable.collect::<Vec<_>>()).unwrap_or(0)
    }
}

/// The regular files that are open, by ascending number.
fn open_files() -> Vec<(RawFd, Key)> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    let seen = numbers.filter_map(|number| Some((number, files::look(borrow(number)).ok()?.key)));
    let mut open: Vec<_> = seen.collect();
    open.sort_unstable_by_key(|(number, _)| *number);
    open
}
