//! The start set: executables and libraries of the job, asked for before it begins.
//!
//! What a program maps it reads page by page, in the order in which it happens to jump; asked for together, in the order
//! in which they lie in their files, the pages come in large pieces. They are asked for and not waited for: the job
//! begins at once, and what it needs first it fetches itself.

use foretell_learn::StartRange;
use rustix::fs::{Advice, fadvise};

/// Starts a thread that asks for the ranges. A thread that cannot be had, or a file that is gone, is no loss.
pub(super) fn fetch(ranges: Vec<StartRange>) {
    if ranges.is_empty() {
        return;
    }
    // Not waited for: it ends by itself, or with us.
    let _ = std::thread::Builder::new().name("start".into()).spawn(move || {
        for StartRange { path, offset, length } in ranges {
            let Some(file) = foretell_pagecache::open_regular(&path) else { continue };
            let _ = fadvise(&file, offset, std::num::NonZeroU64::new(length), Advice::WillNeed);
        }
    });
}
