//! How many descriptors the service may have, and room for them.

use std::os::fd::BorrowedFd;

use foretell_pagecache::Options;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{HALF_DESCRIPTORS_OF_USER, LOBBY};

/// Descriptors that the service needs beside the files' (half of all) and the connections' (two each): its own,
/// those of messages that are not complete, of four users at once, and those of a quarter of the lobby, which is one
/// user's share.
const OTHERS: u64 = 256 + 4 * HALF_DESCRIPTORS_OF_USER as u64 + LOBBY.most_of_user as u64;

/// Takes as many descriptors as the system gives; says how many.
pub(crate) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Refused, the limit stays what it is.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)
}

/// Connections for which so many descriptors do.
pub(crate) fn sessions_within(descriptors: u64) -> u32 {
    let most = descriptors.saturating_sub(descriptors / 2 + OTHERS) / 2;
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Has the kernel make room in its table for all that there may be: 8 bytes each. To grow while there are threads it
/// waits until all processors have been somewhere else (`expand_files` of `fs/file.c`), some milliseconds on a busy
/// machine, and the loop with it. It never shrinks.
pub(crate) fn make_room(any: BorrowedFd<'_>, descriptors: u64, options: &Options, sessions: u32) {
    let wanted = u64::from(options.files) + 2 * u64::from(sessions) + OTHERS;
    let last = i32::try_from(wanted.min(descriptors)).unwrap_or(i32::MAX) - 1;
    // Refused, the table grows later.
    drop(rustix::io::fcntl_dupfd_cloexec(any, last.max(0)));
}
