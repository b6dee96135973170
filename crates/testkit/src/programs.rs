//! Programs and libraries of a test's own.

use std::path::{Path, PathBuf};
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

/// A static library of the workspace as cargo builds it, by the name of its crate: `foretell-capi`.
///
/// A test depends on none, so nobody has built it before. It is built with all libraries and one test: of one crate alone, or
/// without a test, cargo would build each dependency again with the features that are needed then.
///
/// # Panics
///
/// When it cannot be built.
#[must_use]
pub fn static_library(package: &str) -> PathBuf {
    // The folder that the tests themselves were built into: target/debug/deps/this.
    let this = std::env::current_exe().expect("a test program");
    let target = this.ancestors().nth(3).expect("it lies in target/debug/deps");
    let mut cargo = Command::new(env!("CARGO"));
    let built = outside_of_cargo(&mut cargo)
        .args("build --quiet --offline --locked --workspace --lib --test tidy --target-dir".split(' '))
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.expect("cargo can be executed").success(), "the library can be built");
    target.join(format!("debug/lib{}.a", package.replace('-', "_")))
}

/// Takes away what cargo has told this test of its crate: build scripts look at it, and would be run again, and all that depends
/// on them.
pub fn outside_of_cargo(command: &mut Command) -> &mut Command {
    let is_of_crate = |name: &str| ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|of| name.starts_with(of));
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| is_of_crate(name))
        .fold(command, |command, name| command.env_remove(name))
}
