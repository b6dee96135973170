//! Programs of a test's own.

use std::path::Path;
use std::process::Command;

/// Copies a program, to be executed under another name or by another user.
///
/// Another process writes the copy. A file that this one has open for writing is inherited, until it becomes another program,
/// by each child that a test beside this one is just starting; and what is open for writing cannot be executed (`ETXTBSY`).
///
/// # Panics
///
/// When it cannot be copied.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    // Of a link of procfs another process's is another one.
    let from = std::fs::canonicalize(from).expect("a program to copy");
    let copied = Command::new("cp").arg("--").arg(from).arg(to).status();
    assert!(copied.expect("cp can be executed").success(), "{} can be written", to.display());
}
