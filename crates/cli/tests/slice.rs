//! `foretell slice`, as a programmer meets it: exit codes, what is written and what is not.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const BACKWARDS: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char block[4096];
    unsigned sum = 0;
    int fd = open("data", O_RDONLY);
    for (int i = 9; i >= 0; i--) {
        if (pread(fd, block, sizeof block, i * 4096) > 0)
            sum = sum * 31 + (unsigned char)block[7];
    }
    printf("%u\n", sum);
    return 0;
}
"#;

/// The offsets come from a function that nobody knows.
const UNKNOWN: &str = r#"#include <fcntl.h>
#include <unistd.h>

int mystery(int);

int main(void)
{
    char byte = 0;
    int fd = open("data", O_RDONLY), at = 0;
    for (int i = 0; i < 10; i++) {
        at = mystery(at);
        pread(fd, &byte, 1, at);
    }
    return byte;
}
"#;

fn slice(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foretell"))
        .arg("slice")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// A folder with one source, or nothing where clang is missing.
fn folder_with(source: &str, test: &str) -> Option<tempfile::TempDir> {
    if Command::new("clang").arg("--version").output().is_err() {
        println!("skipped: {test}: clang is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.c"), source).unwrap();
    Some(folder)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_file_that_is_not_there_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = slice(folder.path(), &["no-such-file.c"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(said(&output).matches("No such file").count(), 1, "{}", said(&output));
}

#[test]
fn a_program_is_translated_and_still_says_the_same() {
    let Some(folder) = folder_with(BACKWARDS, "a_program_is_translated_and_still_says_the_same") else {
        return;
    };
    let path = folder.path();
    let output = slice(path, &["p.c", "-o", "p.foretell.c", "--runtime", "runtime", "--report"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("p.c:9: open(\"data\"): prefetched, site 1"), "{report}");
    let text = fs::read_to_string(path.join("p.foretell.c")).unwrap();
    let (_, made) = text.split_once("the slice of p.c").unwrap();
    assert!(made.contains("foretell_prefetch_pread(fd, sizeof block, i * 4096)"), "{made}");
    assert!(!made.contains("sum"), "the computation is no part of the slice: {made}");

    fs::write(path.join("data"), vec![9u8; 40960]).unwrap();
    let build = |sources: &[&str], program: &str| {
        let output = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-Iruntime", "-o", program])
            .args(sources)
            .arg("-lpthread")
            .current_dir(path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        Command::new(path.join(program)).current_dir(path).output().unwrap()
    };
    let before = build(&["p.c"], "before");
    let after = build(&["p.foretell.c", "runtime/foretell_slice.c"], "after");
    assert_eq!((before.stdout, before.status.code()), (after.stdout, after.status.code()));
}

#[test]
fn a_pipe_is_written_to_and_stays_one() {
    use std::os::unix::fs::FileTypeExt as _;
    let Some(folder) = folder_with(BACKWARDS, "a_pipe_is_written_to_and_stays_one") else { return };
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both, which waits for nobody: there is a reader before the command looks.
    let both = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    let output = slice(folder.path(), &["p.c", "-o", "pipe"]);
    // As the reader would wait for ever if the pipe had been replaced.
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    drop(both);
    assert!(reader.join().unwrap().contains("the slice of p.c"));
}

#[test]
fn what_is_refused_is_not_written() {
    let Some(folder) = folder_with(UNKNOWN, "what_is_refused_is_not_written") else { return };
    let output = slice(folder.path(), &["p.c", "-o", "p.foretell.c"]);
    assert_eq!(output.status.code(), Some(3));
    let said = said(&output);
    assert!(said.contains("p.c:11: mystery() is not known"), "{said}");
    assert!(said.contains("FORETELL_PURE"), "the remedy: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!folder.path().join("p.foretell.c").exists());
}

#[test]
fn a_model_of_ones_own_is_a_remedy() {
    let Some(folder) = folder_with(UNKNOWN, "a_model_of_ones_own_is_a_remedy") else { return };
    fs::write(folder.path().join("more.toml"), "mystery = { pure = true }\n").unwrap();
    let output = slice(folder.path(), &["p.c", "-o", "p.foretell.c", "--models", "more.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn why_names_the_steps_that_need_it() {
    let Some(folder) = folder_with(BACKWARDS, "why_names_the_steps_that_need_it") else { return };
    let output = slice(folder.path(), &["p.c", "--why", "10"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let why = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(why.contains("gives `i` to the next") && why.contains("is an access"), "{why}");
}

#[test]
fn bad_input_is_one_line_and_code_2() {
    let Some(folder) = folder_with("int main(void) { return x; }\n", "bad_input_is_one_line_and_code_2")
    else {
        return;
    };
    fs::write(folder.path().join("include.c"), "#include \"no-such.h\"\n").unwrap();
    fs::write(folder.path().join("p.cc"), "int main() {}\n").unwrap();
    let names = || fs::read_dir(folder.path()).unwrap().count();
    let before = names();
    for (arguments, wanted) in [
        (&["p.c"][..], "foretell: p.c:1:25: error: use of undeclared identifier 'x'"),
        (&["include.c"][..], "file not found; give the flags that the program is compiled with"),
        (&["p.cc"][..], "p.cc: no C, as its name does not end in .c"),
        (&["/dev/null"][..], "/dev/null: no C"),
        (&["p.c", "-o", "absent/x.c"][..], "-o absent/x.c: there is no directory absent"),
        (&["p.c", "-o", "p.c"][..], "-o p.c: is the source itself"),
        (&["p.c", "include.c", "-o", "p.cc"][..], "-o p.cc: is a file; a program of 2 files needs a folder"),
        (&["p.c", "include.c"][..], "a program of 2 files needs a folder"),
        (&["absent.c"][..], "absent.c"),
        (&["p.c", "--clang", "no-such-clang"][..], "install clang"),
        (&["-p", "absent.json"][..], "absent.json"),
    ] {
        let output = slice(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(wanted) && said(&output).lines().count() == 1, "{}", said(&output));
    }
    assert_eq!(names(), before, "nothing is written");
}

#[test]
fn a_runtime_that_cannot_be_written_leaves_no_translation_without_it() {
    let Some(folder) =
        folder_with(BACKWARDS, "a_runtime_that_cannot_be_written_leaves_no_translation_without_it")
    else {
        return;
    };
    let output = slice(folder.path(), &["p.c", "-o", "p.foretell.c", "--runtime", "p.c/runtime"]);
    assert_eq!((output.status.code(), said(&output).lines().count()), (Some(2), 1), "{}", said(&output));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
