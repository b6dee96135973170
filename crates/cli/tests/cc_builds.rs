//! A project is built by the tools that people use, with `cc` and with `foretell cc`: the result is the same program, and the
//! one of `foretell cc` prefetches.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FILES: &[(&str, &str)] = &[
    (
        "main.c",
        r#"#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "where.h"

int main(void)
{
    char byte = 0;
    int sum = 0, fd = open("data", O_RDONLY);
    for (int i = 0; i < 20; i++) {
        if (pread(fd, &byte, 1, where(i)) == 1)
            sum += byte;
    }
    close(fd);
    printf("%d %d\n", sum, extra());
    return sum % 100;
}
"#,
    ),
    ("where.c", "#include \"where.h\"\nlong where(int i) { return 90000 - i * 4096; }\n"),
    ("extra.c", "#include \"where.h\"\nint extra(void) { return 7; }\n"),
    ("where.h", "long where(int i);\nint extra(void);\n"),
    (
        "Makefile",
        "CFLAGS = -O1 -g -Wall -MMD\nprog: main.o extra.o libwhere.a\n\t$(CC) $(LDFLAGS) -o $@ main.o extra.o -L. -lwhere\n\
         libwhere.a: where.o\n\t$(AR) rcs $@ where.o\nclean:\n\trm -f *.o *.a *.d prog\n-include *.d\n",
    ),
    (
        "configure.ac",
        "AC_INIT([prog], [1])\nAC_CONFIG_AUX_DIR([aux])\nAM_INIT_AUTOMAKE([foreign subdir-objects])\nAC_PROG_CC\nAM_PROG_AR\n\
         LT_INIT([disable-static])\nAC_CHECK_HEADERS([fcntl.h])\nAC_CHECK_FUNCS([pread])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    ),
    // A library of its own, and one that is a part of the program.
    (
        "Makefile.am",
        "lib_LTLIBRARIES = libextra.la\nlibextra_la_SOURCES = extra.c where.h\nnoinst_LTLIBRARIES = libwhere.la\n\
         libwhere_la_SOURCES = where.c\nbin_PROGRAMS = prog\nprog_SOURCES = main.c\nprog_LDADD = libwhere.la libextra.la\n",
    ),
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.13)\nproject(prog C)\nadd_library(where STATIC where.c)\n\
         add_executable(prog main.c extra.c)\ntarget_link_libraries(prog where)\n",
    ),
    (
        "meson.build",
        "project('prog', 'c', default_options: ['warning_level=1'])\nlib = static_library('where', 'where.c')\n\
         executable('prog', 'main.c', 'extra.c', link_with: lib)\n",
    ),
];

/// The project in a folder of its own, and the compiler that builds it.
struct Project {
    folder: tempfile::TempDir,
    ours: bool,
}

impl Project {
    fn new(ours: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(folder.path().join("data"), vec![3; 100_000]).unwrap();
        Self { folder, ours }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        let foretell = env!("CARGO_BIN_EXE_foretell");
        let compiler = if self.ours { format!("{foretell} cc") } else { "cc".to_owned() };
        command.env("CC", &compiler).env("LC_ALL", "C");
        for name in ["MAKEFLAGS", "MFLAGS", "CFLAGS", "LDFLAGS", "FORETELL_CC"] {
            command.env_remove(name);
        }
        for (name, folder) in
            [("XDG_CACHE_HOME", "cache"), ("CCACHE_DIR", "ccache"), ("FORETELL_SLICE_TRACE", "trace")]
        {
            command.env(name, self.path(folder));
        }
        command.output().unwrap()
    }

    /// Builds by these commands, and gives what was said, without what says how we were called.
    fn build(&self, lines: &str) -> String {
        let output = self.run(lines);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{lines}: {}{said}", String::from_utf8_lossy(&output.stdout));
        said
    }

    /// The program gives what it gives in any case; how much has it predicted?
    fn predicts(&self, program: &str) -> usize {
        let _ = fs::remove_file(self.path("trace"));
        let output = self.run(program);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "60 7\n", "{output:?}");
        assert_eq!(output.status.code(), Some(60));
        let trace = fs::read_to_string(self.path("trace")).unwrap_or_default();
        trace.lines().filter(|line| line.starts_with('P')).count()
    }
}

/// Are the tools here? They are installed by `./x setup`.
fn has(test: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        println!("skipped: {test}: {tool} is not installed");
    }
    missing.is_none()
}

/// Builds with both compilers and compares what is said and what the programs do.
fn same(lines: &str, program: &str) {
    let [theirs, ours] = [false, true].map(|ours| {
        let project = Project::new(ours);
        let said = project.build(lines).replace(&*project.folder.path().to_string_lossy(), "");
        let predicted = project.predicts(program);
        (said, predicted)
    });
    assert_eq!(theirs.0, ours.0);
    assert_eq!((theirs.1, ours.1), (0, 20));
}

#[test]
fn make() {
    if has("make", &["make", "ar"]) {
        same("make -s -j2; touch where.h; make -s -j2; make -q prog", "./prog");
    }
}

#[test]
fn autotools_with_libtool() {
    if has("autotools_with_libtool", &["autoreconf", "automake", "libtoolize", "make"]) {
        let lines = "mkdir aux m4 2>/dev/null || true; autoreconf -i >/dev/null 2>&1; mkdir b; cd b; \
                     ../configure --silent --prefix=$PWD/inst; make -s -j2 V=0 >/dev/null; make -s install >/dev/null";
        // The installed one, which was linked anew to the installed library.
        same(lines, "b/inst/bin/prog");
    }
}

#[test]
fn cmake() {
    if has("cmake", &["cmake", "make"]) {
        same("cmake -S . -B b -DCMAKE_BUILD_TYPE=RelWithDebInfo; cmake --build b -j2", "b/prog");
    }
}

#[test]
fn meson_and_ninja() {
    if has("meson_and_ninja", &["meson", "ninja"]) {
        same("meson setup b; ninja -C b", "b/prog");
    }
}

/// The cache keeps our objects: a program of them is translated as well.
#[test]
fn ccache_before() {
    if !has("ccache_before", &["ccache", "make"]) {
        return;
    }
    let project = Project::new(true);
    let text = format!("#!/bin/sh\nexec {} cc \"$@\"\n", env!("CARGO_BIN_EXE_foretell"));
    make_program(&project.path("fcc"), &text);
    for round in 0..2 {
        assert_eq!(project.build("make -s clean; make -s CC=\"ccache $PWD/fcc\""), "");
        assert_eq!(project.predicts("./prog"), 20, "{round}");
    }
    assert!(hits(&project) >= 3);
}

/// The cache keeps the compiler's objects, and they stay what they are.
#[test]
fn ccache_behind() {
    if !has("ccache_behind", &["ccache", "make"]) {
        return;
    }
    for settings in ["", "CCACHE_HARDLINK=1 "] {
        let project = Project::new(true);
        for round in 0..2 {
            let line = format!("make -s clean; {settings}FORETELL_CC='ccache cc' make -s");
            assert_eq!(project.build(&line), "");
            assert_eq!(project.predicts("./prog"), 20, "{round}");
        }
        assert!(hits(&project) >= 3);
        project.build(&format!("make -s clean; {settings}make -s CC='ccache cc'"));
        let object = fs::read(project.path("where.o")).unwrap();
        assert!(!object.windows(16).any(|window| window == b"\x7fforetell object"), "{settings}");
    }
}

/// How many compilations the cache has spared.
fn hits(project: &Project) -> u64 {
    let said = project.run("ccache --print-stats").stdout;
    let said = String::from_utf8(said).unwrap();
    let count = |line: &str| {
        let (name, number) = line.split_once('\t')?;
        ["direct_cache_hit", "preprocessed_cache_hit"].contains(&name).then(|| number.parse::<u64>().unwrap())
    };
    said.lines().filter_map(count).sum()
}

fn make_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn gdb_stops_at_a_line_of_the_source() {
    if !has("gdb_stops_at_a_line_of_the_source", &["gdb", "make"]) {
        return;
    }
    let [theirs, ours] = [false, true].map(|ours| {
        let project = Project::new(ours);
        project.build("make -s CFLAGS='-O0 -g'");
        // As a user runs it: a trace has the slice begin at once, as a thread that gdb speaks of.
        let line = "unset FORETELL_SLICE_TRACE; gdb -nx -batch -ex 'break main.c:12' -ex run -ex 'print i' -ex 'info line' -ex 'break where' \
                    -ex 'delete 1' -ex continue -ex 'print i' -ex up -ex 'print sum' ./prog 2>/dev/null";
        let said = String::from_utf8(project.run(line).stdout).unwrap();
        let kept = |line: &&str| {
            ["Breakpoint 1,", "Breakpoint 2,", "$", "12\t", "2\t", "11\t"].iter().any(|begin| line.starts_with(begin))
        };
        said.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(theirs.len() >= 5, "{theirs:?}");
    assert_eq!(theirs, ours);
}

/// Also where there is no debug information, by the symbols alone.
#[test]
fn gdb_stops_first_in_the_programs_own_main() {
    if !has("gdb_stops_first_in_the_programs_own_main", &["gdb", "make"]) {
        return;
    }
    // The last one is compiled again in place of getting other names.
    for flags in ["-O0 -g", "-O2 -g", "-O1", "-O0 -g -flto"] {
        let [theirs, ours] = [false, true].map(|ours| {
            let project = Project::new(ours);
            project.build(&format!("make -s CFLAGS='{flags}' LDFLAGS='{flags}'"));
            let line = "unset FORETELL_SLICE_TRACE; gdb -nx -batch -ex 'break main' -ex run -ex backtrace \
                        -ex continue -ex 'info breakpoints' ./prog 2>/dev/null";
            let said = String::from_utf8(project.run(line).stdout).unwrap();
            let is_kept = |line: &&str| {
                ["Breakpoint 1,", "#", "\tbreakpoint already hit"].iter().any(|b| line.starts_with(b))
            };
            // Without debug information it begins with an address.
            let place = |line: &str| {
                let line = line.rsplit(" in ").next().unwrap_or(line);
                line.replace(&format!("{}/", project.folder.path().display()), "")
            };
            let stops: Vec<String> = said.lines().filter(is_kept).map(place).collect();
            (stops, project.predicts("./prog"))
        });
        // It stops, has one frame, and was there once.
        assert_eq!((theirs.0.len(), ours.1), (3, 20), "{flags}: {theirs:?}");
        assert_eq!(theirs.0, ours.0, "{flags}");
    }
}
