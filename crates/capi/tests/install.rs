//! `./x install`: what a user has afterwards works from where it lies.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use foretell_testkit::programs::outside_of_cargo;

const PROGRAM: &str = r#"
#include <foretell.h>
#include <stdio.h>

int main(void)
{
    if (foretell_set_policy(0, FORETELL_MRU) != 0)
        return 1;
    printf("connected: %d\n", foretell_connected());
    return 0;
}
"#;

const OF_BUFFERS: &str = r#"
#include <foretell-buffers.h>
#include <stdio.h>

int main(void)
{
    struct foretell_pool_options options = { .size = sizeof options, .budget_bytes = 1 };
    if (foretell_pool_new(&options) == NULL)
        puts(foretell_pool_error());
    return 0;
}
"#;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{told}", output.status);
    output
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

/// Installs what was built for the tests.
fn install(prefix: &Path, below: Option<&Path>) {
    let mut command = Command::new(repository().join("x"));
    outside_of_cargo(&mut command).arg("install").arg(prefix);
    command.env("FORETELL_INSTALL", "debug").env("CARGO_NET_OFFLINE", "true");
    // The folder that the tests themselves were built into: target/debug/deps/this.
    let this = std::env::current_exe().unwrap();
    command.env("CARGO_TARGET_DIR", this.ancestors().nth(3).unwrap());
    match below {
        Some(below) => command.env("DESTDIR", below),
        None => command.env_remove("DESTDIR"),
    };
    run(&mut command);
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_installed_works_from_where_it_lies_and_may_be_installed_again() {
    let test = "what_is_installed_works_from_where_it_lies_and_may_be_installed_again";
    if Command::new("pkg-config").arg("--version").output().is_err() {
        println!("skipped: {test}: there is no pkg-config");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix, None);
    let first = files(&prefix);
    install(&prefix, None);
    assert_eq!(files(&prefix), first);

    for (name, answer) in
        [("foretell", "foretell "), ("foretell-tools", "foretell "), ("foretelld", "foretelld ")]
    {
        let program = prefix.join("bin").join(name);
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        let version = printed(Command::new(&program).arg("--version"));
        assert!(version.starts_with(answer) && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    }
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/foretelld.service")).unwrap();
    let service = format!("\nExecStart={}\n", prefix.join("bin/foretelld").display());
    assert!(unit.contains(&service), "{unit}");
    for page in ["foretell.3", "foretell-buffers.3"] {
        assert!(prefix.join("share/man/man3").join(page).is_file());
    }
    for page in [
        "man/man1/foretell.1",
        "man/man1/foretell-learn.1",
        "man/man8/foretelld.8",
        "zsh/site-functions/_foretell",
    ] {
        assert!(prefix.join("share").join(page).is_file(), "{page}");
    }

    let source = folder.path().join("program.c");
    fs::write(&source, PROGRAM).unwrap();
    let pkg_config = |what: &[&str]| {
        let mut command = Command::new("pkg-config");
        let words =
            printed(command.args(what).arg("foretell").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
        words.split_whitespace().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(pkg_config(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let program = folder.path().join("program");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&program).arg(&source).args(pkg_config(&["--cflags", "--libs"]));
    run(&mut cc);
    let mut shared = Command::new(&program);
    shared.env("LD_LIBRARY_PATH", prefix.join("lib")).env("FORETELL_SOCKET", "/nonexistent");
    assert_eq!(printed(&mut shared), "connected: 0\n");

    let mut cc = Command::new("cc");
    let libraries =
        pkg_config(&["--libs-only-l", "--static"]).into_iter().filter(|word| word != "-lforetell");
    cc.arg("-o").arg(&program).arg(&source).args(pkg_config(&["--cflags"]));
    cc.arg(prefix.join("lib/libforetell.a")).args(libraries);
    run(&mut cc);
    let linked = printed(Command::new(&program).env("FORETELL_SOCKET", "/nonexistent"));
    assert_eq!(linked, "connected: 0\n");

    let other = folder.path().join("buffers.c");
    fs::write(&other, OF_BUFFERS).unwrap();
    let words = printed(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "foretell-buffers"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    run(Command::new("cc").arg("-o").arg(&program).arg(&other).args(words.split_whitespace()));
    let said = printed(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert_eq!(said, "budget: 1 bytes hold no part of 16384 bytes; give more, or make parts smaller\n");

    // What others have laid there stays.
    let other = prefix.join("bin/foretell-of-another");
    fs::write(&other, "").unwrap();
    run(Command::new(repository().join("x")).arg("uninstall").arg(&prefix));
    assert_eq!(files(&prefix), [Path::new("bin/foretell-of-another")]);
    let again = Command::new(repository().join("x")).arg("uninstall").arg(&prefix).output().unwrap();
    let told = String::from_utf8(again.stderr).unwrap();
    assert_eq!((again.status.code(), told.lines().count()), (Some(2), 1), "{told}");
}

/// As packages are made: the files lie elsewhere than they say.
#[test]
fn below_destdir_files_name_the_folder_that_they_will_lie_in() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    install(Path::new("/usr"), Some(folder.path()));
    let read = |path: &str| fs::read_to_string(folder.path().join("usr/lib").join(path)).unwrap();
    assert!(read("pkgconfig/foretell.pc").starts_with("prefix=/usr\n"));
    assert!(read("systemd/system/foretelld.service").contains("\nExecStart=/usr/bin/foretelld\n"));
    assert!(folder.path().join("usr/bin/foretelld").is_file());
}

#[test]
fn a_folder_that_is_no_absolute_path_is_refused_in_one_line() {
    let output = Command::new(repository().join("x")).args(["install", "somewhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.trim_end().lines().count() == 1 && told.contains("must begin with /: 'somewhere'"),
        "{told}"
    );
}
