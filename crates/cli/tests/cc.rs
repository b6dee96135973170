//! `foretell cc` in place of the compiler: what it leaves as it is, and what it makes of a program.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A program of two units: one reads, the other says where.
const MAIN: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "where.h"

int main(void)
{
    char byte = 0;
    int sum = 0, fd = open("data", O_RDONLY);
    for (int i = 0; i < COUNT; i++)
        if (pread(fd, &byte, 1, where(i)) == 1)
            sum += byte;
    close(fd);
    printf("%d\n", sum);
    return sum % 100;
}
"#;
const WHERE: &str = "#include \"where.h\"\nlong where(int i) { return 90000 - i * 4096; }\n";
const HEADER: &str = "long where(int i);\n";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("main.c", MAIN), ("where.c", WHERE)] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::create_dir(folder.path().join("include")).unwrap();
        fs::write(folder.path().join("include/where.h"), HEADER).unwrap();
        let data: Vec<u8> = (0..100_000_u32).map(|i| (i * 7 % 101) as u8).collect();
        fs::write(folder.path().join("data"), data).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, program: &Path, arguments: &str) -> Output {
        Command::new(program)
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .env_remove("FORETELL_CC")
            .env_remove("FORETELL_SLICE")
            .env("FORETELL_SLICE_TRACE", self.path("trace"))
            .env("FORETELL_CC_KEEP", self.path("kept"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// `foretell cc` and the real compiler with the same arguments.
    fn cc(&self, arguments: &str) -> Output {
        self.run(Path::new(env!("CARGO_BIN_EXE_foretell")), &format!("cc {arguments}"))
    }

    /// It says nothing and succeeds.
    fn cc_quietly(&self, arguments: &str) {
        let output = self.cc(arguments);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments}");
        assert!(output.status.success() && output.stdout.is_empty(), "{arguments}: {output:?}");
    }

    /// Runs a program; does it prefetch what it reads?
    fn prefetches(&self, program: &str) -> bool {
        let _ = fs::remove_file(self.path("trace"));
        let output = self.run(&self.path(program), "");
        let sum: u32 = (0..20_u32).map(|i| (90_000 - i * 4096) * 7 % 101).sum();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sum}\n"));
        assert_eq!(output.status.code(), Some((sum % 100) as i32));
        let trace = fs::read_to_string(self.path("trace")).unwrap_or_default();
        let side = |mark: char| -> Vec<&str> {
            trace.lines().filter(|line| line.starts_with(mark)).map(|line| &line[1..]).collect()
        };
        assert_eq!(side('P'), side('R'));
        side('P').len() == 20
    }
}

#[test]
fn annotations_need_no_flag() {
    let project = Project::new();
    let marked = MAIN.replace("#include \"where.h\"", "#include \"where.h\"\n#include <foretell_slice.h>");
    let marked = marked.replace("for (int i", "FORETELL_PREFETCH(fd);\n    for (int i");
    fs::write(project.path("main.c"), marked).unwrap();
    project.cc_quietly("-Iinclude -DCOUNT=20 -MD -c main.c -o main.o");
    project.cc_quietly("-Iinclude -c where.c -o where.o");
    project.cc_quietly("main.o where.o -o prog");
    assert!(project.prefetches("prog"));
    // What make looks for the next time is still there.
    let needed = fs::read_to_string(project.path("main.d")).unwrap();
    let header = needed.split_whitespace().find(|path| path.ends_with("/foretell_slice.h")).unwrap();
    assert!(Path::new(header).exists(), "{header}");
}

#[test]
fn objects_become_a_program_that_prefetches() {
    let project = Project::new();
    project.cc_quietly("-O2 -Wall -Iinclude -DCOUNT=20 -MMD -MF main.d -c main.c -o main.o");
    project.cc_quietly("-O2 -Wall -I include -c where.c");
    project.cc_quietly("main.o where.o -o prog");
    assert!(project.prefetches("prog"));
    // The dependencies are those of the source, and the translation can be read.
    assert!(fs::read_to_string(project.path("main.d")).unwrap().contains("main.c include/where.h"));
    assert!(
        fs::read_to_string(project.path("kept/prog/main.i")).unwrap().contains("foretell_prefetch_pread")
    );
}

#[test]
fn what_no_slice_needs_is_not_compiled_again() {
    let project = Project::new();
    fs::write(project.path("other.c"), "int other(void) { return 7; }\n").unwrap();
    let (compiler, log) = (project.path("compiler"), project.path("log"));
    fs::write(&compiler, format!("#!/bin/sh\necho \"$@\" >>'{}'\nexec cc \"$@\"\n", log.display())).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    for arguments in [
        "-c -Iinclude -DCOUNT=20 main.c",
        "-c -Iinclude where.c",
        "-c other.c",
        "-o prog main.o where.o other.o",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_foretell"))
            .arg("cc")
            .args(arguments.split_whitespace())
            .current_dir(project.folder.path())
            .env("FORETELL_CC", &compiler)
            .env("XDG_CACHE_HOME", project.path("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments}: {output:?}");
    }
    assert!(project.prefetches("prog"));
    let log = fs::read_to_string(log).unwrap();
    let translated = |name: &str| log.lines().filter(|line| line.ends_with(name)).count();
    let programs = ["/main.i", "/where.1.i", "/other.2.i"].map(translated);
    let slices = ["/slice-main.i", "/slice-where.1.i", "/slice-other.2.i"].map(translated);
    assert_eq!((programs, slices), ([0, 0, 0], [1, 1, 0]), "{log}");
}

/// A second program of the same objects, and the same program again, ask neither the preprocessor nor the front end
/// about them; a source that has changed is looked at.
#[test]
fn an_object_is_looked_at_once_for_all_programs() {
    let project = Project::new();
    // Both names note how they are called.
    let bin = project.path("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    for (name, real) in [("compiler", "cc"), ("clang", "clang")] {
        let log = project.path(name);
        let text =
            format!("#!/bin/sh\necho \"$*\" >>'{}'\nPATH='{path}'\nexec {real} \"$@\"\n", log.display());
        fs::write(bin.join(name), text).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{path}", bin.display());
    let cc = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_foretell"))
            .arg("cc")
            .args(arguments.split_whitespace())
            .current_dir(project.folder.path())
            .env("PATH", &path)
            .env("FORETELL_CC", bin.join("compiler"))
            .env("XDG_CACHE_HOME", project.path("cache"))
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    };
    // How often the preprocessor, the front end and the compiler of translations were called since.
    let counted = || {
        let calls = |name: &str| {
            let text = fs::read_to_string(project.path(name)).unwrap_or_default();
            let _ = fs::remove_file(project.path(name));
            text
        };
        let (compiler, clang) = (calls("compiler"), calls("clang"));
        let with = |word: &str| compiler.lines().filter(|line| line.contains(word)).count();
        (with(" -E -x c "), clang.lines().count(), with("cpp-output"))
    };
    cc("-c -Iinclude -DCOUNT=20 main.c where.c");
    cc("-o first main.o where.o");
    // Small units are read by one front end.
    assert_eq!(counted(), (2, 1, 2));
    cc("-o first main.o where.o");
    cc("-o second main.o where.o");
    assert_eq!(counted(), (0, 0, 0));
    assert!(project.prefetches("second"));
    fs::write(project.path("include/where.h"), "long where(int i);\nextern int other;\n").unwrap();
    cc("-c -Iinclude -DCOUNT=20 main.c");
    cc("-o first main.o where.o");
    assert_eq!(counted(), (1, 1, 1));
    assert!(project.prefetches("first"));
}

#[test]
fn one_command_response_files_and_archives() {
    let project = Project::new();
    project.cc_quietly("-Iinclude -DCOUNT=20 main.c where.c -o together");
    assert!(project.prefetches("together"));

    fs::write(project.path("args"), "-Iinclude '-DCOUNT=20'\n main.c where.c -o 'from file'").unwrap();
    project.cc_quietly("@args");
    assert!(project.prefetches("from file"));

    // Of the archive only what is linked counts: the other member has a main of its own.
    fs::write(project.path("other.c"), "int other(void) { return 1; }\nint main(void) { return other(); }\n")
        .unwrap();
    project.cc_quietly("-Iinclude -c where.c other.c");
    let ar = project.run(Path::new("ar"), "rcs libwhere.a other.o where.o");
    assert!(ar.status.success(), "{ar:?}");
    project.cc_quietly("-Iinclude -DCOUNT=20 main.c -o archived -L. -lwhere");
    assert!(project.prefetches("archived"));
}

#[test]
fn what_is_no_program_is_the_compilers_alone() {
    let project = Project::new();
    for arguments in [
        "-E -Iinclude main.c",
        "-M -Iinclude main.c",
        "-S -Iinclude where.c -o -",
        "--version",
        "-dumpmachine",
        "-print-search-dirs",
        "-Iinclude -fsyntax-only where.c",
        "-Iinclude -c missing.c",
        "-Iinclude -DCOUNT=nonsense -c main.c",
        "-Iinclude where.c -o no_main",
        "-v",
    ] {
        let ours = project.cc(arguments);
        let theirs = project.run(Path::new("cc"), arguments);
        assert_eq!(ours.status.code(), theirs.status.code(), "{arguments}");
        // Names of temporary files differ from run to run.
        if theirs.status.success() && arguments != "-v" {
            assert_eq!(ours.stdout, theirs.stdout, "{arguments}");
            assert_eq!(ours.stderr, theirs.stderr, "{arguments}");
        }
    }
    project.cc_quietly("-shared -fPIC -Iinclude where.c -o libwhere.so");
    // where() has no source then, and the line says so.
    let output = project.cc("-Iinclude -DCOUNT=20 main.c -o shared ./libwhere.so");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.lines().count() == 1 && said.contains("where()"), "{said}");
    assert!(!project.prefetches("shared"));
}

#[test]
fn what_cannot_be_translated_is_compiled_unchanged_and_one_line_says_why() {
    let project = Project::new();
    project.cc_quietly("-c -Iinclude where.c");
    // The source has changed since, and what it was is not kept any more.
    fs::write(project.path("where.c"), WHERE.replace("4096", "4095")).unwrap();
    fs::remove_dir_all(project.path("cache")).unwrap();
    let output = project.cc("-Iinclude -DCOUNT=20 main.c where.o -o stale");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    assert!(
        said.contains("stale: compiled unchanged: ") && said.contains("where.c is not what was compiled"),
        "{said}"
    );
    assert!(!project.prefetches("stale"));

    let assembly =
        "long where(int i) { long at = i; __asm__(\"\" : \"+r\"(at)); return 90000 - at * 4096; }\n";
    fs::write(project.path("where.c"), assembly).unwrap();
    let output = project.cc("-Iinclude -DCOUNT=20 main.c where.c -o refused");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("refused: compiled unchanged: ") && said.contains("assembly"), "{said}");
    assert!(!project.prefetches("refused"));
}

#[test]
fn a_table_of_ones_own_says_what_a_function_does() {
    let project = Project::new();
    project.cc_quietly("-shared -fPIC -Iinclude where.c -o libwhere.so");
    fs::write(project.path("models.toml"), "where = { pure = true }\n").unwrap();
    let with = |table: &str| {
        Command::new(env!("CARGO_BIN_EXE_foretell"))
            .args("cc -Iinclude -DCOUNT=20 main.c -o prog ./libwhere.so".split(' '))
            .current_dir(project.folder.path())
            .env("FORETELL_CC_MODELS", project.path(table))
            .env("XDG_CACHE_HOME", project.path("cache"))
            .output()
            .unwrap()
    };
    let output = with("models.toml");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(project.prefetches("prog"));
    let output = with("missing.toml");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.lines().count() == 1 && said.contains("missing.toml"), "{said}");
}

#[test]
fn programs_without_files_and_probes_of_configure_are_left_alone() {
    let project = Project::new();
    fs::write(
        project.path("hello.c"),
        "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n",
    )
    .unwrap();
    project.cc_quietly("hello.c");
    assert_eq!(project.run(&project.path("a.out"), "").stdout, b"hello\n");
    fs::copy(project.path("main.c"), project.path("conftest.c")).unwrap();
    project.cc_quietly("-Iinclude -DCOUNT=20 conftest.c where.c -o conftest");
    assert!(!project.prefetches("conftest"));
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let project = Project::new();
    let output = Command::new(env!("CARGO_BIN_EXE_foretell"))
        .args(["cc", "-c", "where.c"])
        .current_dir(project.folder.path())
        .env("FORETELL_CC", "no-such-compiler")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no-such-compiler does not start") && said.lines().count() == 1, "{said}");
}
