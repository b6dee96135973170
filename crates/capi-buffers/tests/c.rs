//! The C library: what it exports, what its calls give back, and the example.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use foretell_testkit::programs::static_library;
use tempfile::TempDir;

/// How a program takes the library.
#[derive(Debug, Clone, Copy)]
enum Linkage {
    Static,
    Shared,
}

/// A folder with libforetell-buffers.a and libforetell-buffers.so.0, made once for all tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<TempDir> = OnceLock::new();
    let dir = LIBRARY.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let archive = dir.path().join("libforetell-buffers.a");
        fs::copy(static_library("foretell-capi-buffers"), &archive).unwrap();
        let shared = dir.path().join("libforetell-buffers.so.0");
        run(Command::new(package().join("link.sh")).arg(&archive).arg(&shared));
        std::os::unix::fs::symlink(&shared, dir.path().join("libforetell-buffers.so")).unwrap();
        dir
    });
    dir.path()
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compile(source: &Path, to: &Path, linkage: Linkage) -> PathBuf {
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
            cc.arg(library().join("libforetell-buffers.a")).args(["-lgcc_s", "-lpthread", "-ldl", "-lm"])
        }
        Linkage::Shared => cc
            .arg(format!("-L{}", library().display()))
            .arg(format!("-Wl,-rpath,{}", library().display()))
            .args(["-lforetell-buffers", "-lpthread"]),
    };
    run(&mut cc);
    program
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{}{}", output.status, told.0, told.1);
    output
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn every_call_gives_back_what_the_header_says() {
    for linkage in [Linkage::Static, Linkage::Shared] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let url = |name: &str| format!("file://{}", path(name).display());
        fs::write(path("object"), content(100_000)).unwrap();
        fs::write(path("old"), content(20)).unwrap();
        fs::write(path("new"), content(30)).unwrap();
        let program = compile(&package().join("tests/programs/calls.c"), dir.path(), linkage);
        let said = printed(Command::new(program).arg(url("object")).arg(url("old")).arg(path("new")));
        assert_eq!(said, "0 failures\n");
    }
}

#[test]
fn the_example_reads_all_and_says_its_mistakes_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let example = package().ancestors().nth(2).unwrap().join("examples/c/objects.c");
    let program = compile(&example, dir.path(), Linkage::Shared);
    let mut urls = Vec::new();
    for at in 0..30 {
        let path = dir.path().join(format!("object {at}"));
        fs::write(&path, content(40_000 + at)).unwrap();
        urls.push(format!("file://{}", path.display()).replace(' ', "%20"));
    }
    // A budget of less than all of them, and more.
    let small = printed(Command::new(&program).arg("1").args(&urls));
    assert_eq!(small, printed(Command::new(&program).arg("64").args(&urls)));
    assert!(small.starts_with("1200435 bytes, sum "), "{small}");
    let wrong = Command::new(&program).args(["1", "s4://bucket/key"]).output().unwrap();
    let told = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        told.starts_with("objects: s4://bucket/key: unknown scheme") && told.lines().count() == 1,
        "{told}"
    );
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn nothing_but_the_calls_is_exported() {
    let shared = library().join("libforetell-buffers.so.0");
    let listed = printed(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(shared));
    let names = |text: &str, keep: &dyn Fn(&str) -> Option<String>| {
        let mut names: Vec<String> = text.lines().filter_map(keep).collect();
        names.sort();
        names
    };
    let exported = names(&listed, &|line| {
        let name = line.split([' ', '@']).next()?;
        name.starts_with("foretell").then(|| name.to_owned())
    });
    let others: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with("foretell") && !line.starts_with("FORETELL_BUFFERS_0.1"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let map = fs::read_to_string(package().join("foretell-buffers.map")).unwrap();
    let mapped = names(&map, &|line| {
        line.trim().strip_suffix(';').filter(|n| n.starts_with("foretell")).map(str::to_owned)
    });
    assert_eq!(exported, mapped);
    let header = fs::read_to_string(package().join("include/foretell-buffers.h")).unwrap();
    let page = fs::read_to_string(package().join("man/foretell-buffers.3")).unwrap();
    for name in &mapped {
        assert!(header.contains(&format!("{name}(")) && page.contains(name), "{name}");
    }
}
