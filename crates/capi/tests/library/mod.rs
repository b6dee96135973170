//! The C library as it is installed, and programs built against it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use foretell_testkit::programs::static_library;
use tempfile::TempDir;

/// How a program takes the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    Static,
    Shared,
}

/// A folder with libforetell.a and libforetell.so.0, made once for all tests of this program.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<TempDir> = OnceLock::new();
    let dir = LIBRARY.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let archive = dir.path().join("libforetell.a");
        fs::copy(static_library("foretell-capi"), &archive).unwrap();
        let shared = dir.path().join("libforetell.so.0");
        run(Command::new(package().join("link.sh")).arg(&archive).arg(&shared));
        std::os::unix::fs::symlink("libforetell.so.0", dir.path().join("libforetell.so")).unwrap();
        dir
    });
    dir.path()
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the examples.
pub(crate) fn examples() -> PathBuf {
    package().ancestors().nth(2).unwrap().join("examples/c")
}

/// Builds a program; its path.
pub(crate) fn compile(source: &Path, to: &Path, linkage: Linkage) -> PathBuf {
    let name = source.file_stem().unwrap().to_string_lossy();
    let program = to.join(format!("{name}-{linkage:?}"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg(format!("-I{}", package().join("include").display()))
        .arg("-o")
        .arg(&program)
        .arg(source);
    match linkage {
        Linkage::Static => {
            cc.arg(library().join("libforetell.a")).args(["-lgcc_s", "-lpthread", "-ldl", "-lm"])
        }
        Linkage::Shared => cc
            .arg(format!("-L{}", library().display()))
            .arg(format!("-Wl,-rpath,{}", library().display()))
            .args(["-lforetell", "-lpthread"]),
    };
    run(&mut cc);
    program
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
