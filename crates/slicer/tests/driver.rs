//! `foretell cc` where it writes, and what it must not touch there. Its commands are given to the driver directly;
//! the command's own tests (crates/cli/tests/cc.rs) start it as a user does.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use foretell_slicer::driver::compile;

const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte = 0;
    int sum = 0, fd = open(argc > 1 ? argv[1] : "data", O_RDONLY);
    for (int i = 20; i > 0; i--)
        if (pread(fd, &byte, 1, i * 4096) == 1)
            sum += byte;
    close(fd);
    printf("%d\n", sum);
    return 0;
}
"#;

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What `foretell cc` has to say about a command that must succeed.
fn cc(arguments: &[&str], paths: &[&Path]) -> Option<String> {
    let paths = paths.iter().map(OsString::from);
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).chain(paths).collect();
    let compiled = compile(&arguments).unwrap();
    assert_eq!(compiled.exit_code, 0, "{:?}", compiled.diagnosis);
    compiled.diagnosis
}

fn is_translated(program: &Path) -> bool {
    let bytes = fs::read(program).unwrap();
    bytes.windows(14).any(|window| window == b"foretell-slice")
}

/// A null device: as root one of our own, so that a defect replaces that one.
fn null_device(folder: &Path) -> PathBuf {
    let own = folder.join("null");
    let made =
        Command::new("mknod").args([own.as_os_str(), "c".as_ref(), "1".as_ref(), "3".as_ref()]).output();
    let usable = made.is_ok_and(|made| made.status.success()) && fs::write(&own, "x").is_ok();
    if usable { own } else { PathBuf::from("/dev/null") }
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    let (source, null) = (folder.path().join("a.c"), null_device(folder.path()));
    assert_eq!(cc(&["-o"], &[&null, &source]), None);
    assert!(fs::metadata(&null).unwrap().file_type().is_char_device());
    assert_eq!(cc(&["-c", "-o"], &[&null, &source]), None);
    assert!(fs::metadata(&null).unwrap().file_type().is_char_device());
}

#[test]
fn no_other_file_is_touched() {
    let folder = folder_with(&[("a.c", PROGRAM)]);
    let (source, program) = (folder.path().join("a.c"), folder.path().join("prog"));
    let pid = std::process::id();
    let others =
        ["prog.orig".to_owned(), "prog.tmp".to_owned(), "prog.o".to_owned(), format!("prog.foretell-{pid}")];
    for other in &others {
        fs::write(folder.path().join(other), "mine").unwrap();
    }
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o100, 0o100);
    for other in &others {
        assert_eq!(fs::read_to_string(folder.path().join(other)).unwrap(), "mine", "{other}");
    }
    // The source, the program and the others: nothing is left behind.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2 + others.len());
}

#[test]
fn a_source_may_be_called_as_the_runtime_is() {
    let folder = folder_with(&[("runtime.c", PROGRAM)]);
    let (source, program) = (folder.path().join("runtime.c"), folder.path().join("prog"));
    assert_eq!(cc(&["-o"], &[&program, &source]), None);
    assert!(is_translated(&program));
}

#[test]
fn what_changes_rights_in_an_object_without_source_is_noticed() {
    let hidden = "#include <unistd.h>\nint nobody(void) { return setuid(getuid()); }\n";
    let calling = PROGRAM.replace("char byte", "extern int nobody(void);\n    nobody();\n    char byte");
    let folder = folder_with(&[("a.c", &calling), ("hidden.c", hidden)]);
    let path = |name: &str| folder.path().join(name);
    let real = Command::new("cc").arg("-c").arg(path("hidden.c")).arg("-o").arg(path("hidden.o")).status();
    assert!(real.unwrap().success());
    let said = cc(&["-o"], &[&path("prog"), &path("a.c"), &path("hidden.o")]).unwrap();
    assert!(
        said.contains("hidden.o, whose source is not known, changes what the program may do: setuid()"),
        "{said}"
    );
    assert!(!is_translated(&path("prog")));
}
