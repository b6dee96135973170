//! The doctor takes everything back. Alone in its program, because it counts the descriptors of the process.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use foretell_pagecache::doctor::{examine, missing_for_run};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Whether a directory of this name is anywhere below `place`.
fn is_below(place: &Path, name: &str) -> bool {
    std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok).any(|entry| {
        let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        directory && (entry.file_name() == name || is_below(&entry.path(), name))
    })
}

#[test]
fn nothing_is_left_behind() {
    // The first time also opens what is kept for ever by the libraries.
    assert!(!examine().is_empty());
    let before = open_descriptors();
    assert!(!examine().is_empty());
    let _ = missing_for_run();
    assert_eq!(open_descriptors(), before);
    let group = format!("foretell-doctor-{}", std::process::id());
    assert!(!is_below(Path::new("/sys/fs/cgroup"), &group));
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    assert_eq!(children.unwrap_or_default(), "");
}
