//! What becomes of the names that a file is written under.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use foretell_output::{Output, OutputError, write};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Skips a test that needs another user's files.
fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: {test}: needs root");
    }
    root
}

#[test]
fn a_file_appears_whole_and_keeps_its_permissions_and_its_old_links() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    write(&path, b"first").unwrap();
    let other = directory.path().join("plain");
    File::create(&other).unwrap();
    assert_eq!(mode_of(&path), mode_of(&other), "those of any new file");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let link = directory.path().join("hard");
    fs::hard_link(&path, &link).unwrap();
    let mut writing = Output::open(&path).unwrap().begin().unwrap();
    writing.write_all(b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first", "not before it is complete");
    assert_eq!(writing.finish().unwrap(), 6);
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(fs::read(&link).unwrap(), b"first");
    assert_eq!(mode_of(&path), 0o640);
    assert_eq!(names(directory.path()), ["hard", "out", "plain"]);
}

/// Who is killed while it writes leaves nothing: there is no name yet.
#[test]
fn what_is_not_whole_has_no_name() {
    let directory = tempfile::tempdir().unwrap();
    let nameless = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::TMPFILE;
    if rustix::fs::open(directory.path(), nameless, rustix::fs::Mode::RUSR).is_err() {
        println!("skipped: what_is_not_whole_has_no_name: this file system has no O_TMPFILE");
        return;
    }
    for mode in [None, Some(0o640)] {
        let path = directory.path().join("file");
        if let Some(mode) = mode {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = names(directory.path());
        let mut writing = Output::open(&path).unwrap().begin().unwrap();
        writing.write_all(b"half").unwrap();
        assert_eq!(names(directory.path()), before);
        writing.finish().unwrap();
        assert_eq!(names(directory.path()), ["file"]);
        assert_eq!(fs::read(&path).unwrap(), b"half");
        assert_eq!(mode_of(&path) & 0o777, mode.unwrap_or(mode_of(&path) & 0o777));
    }
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let mut writing = Output::open(&path).unwrap().begin().unwrap();
    writing.write_all(b"half").unwrap();
    drop(writing);
    drop(Output::open(&path).unwrap());
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    write(Path::new("/dev/null"), b"gone").unwrap();
    assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
    let error = write(Path::new("/dev/full"), b"too much").unwrap_err().to_string();
    assert!(error.starts_with("/dev/full: cannot write there: "), "{error}");
    if !is_root("a_device_is_written_to_and_stays_one") {
        return;
    }
    // One of our own, in a directory where it could be replaced: the numbers of /dev/null.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("null");
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3)).unwrap();
    let link = directory.path().join("link");
    symlink("null", &link).unwrap();
    for name in [&path, &link] {
        write(name, b"gone").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_char_device());
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(directory.path()), ["link", "null"]);
}

#[test]
fn disks_sockets_and_directories_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let says = |path: &Path| Output::open(path).unwrap_err().to_string();
    let at = directory.path().display();
    assert_eq!(says(directory.path()), format!("{at}: is a directory; name a file"));
    for name in ["/", "..", "x/", "."] {
        assert!(says(Path::new(name)).ends_with("is a directory; name a file"), "{name}");
    }
    assert!(says(Path::new("-")).contains("/dev/stdout"));
    let absent = directory.path().join("absent/x");
    assert_eq!(says(&absent), format!("{at}/absent/x: there is no directory {at}/absent; make it first"));
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(says(&socket).contains("is a socket"));
    if is_root("disks_sockets_and_directories_are_refused") {
        let disk = directory.path().join("disk");
        // A number that no driver has: it is refused before it is opened.
        mknodat(CWD, &disk, FileType::BlockDevice, Mode::from_raw_mode(0o600), makedev(240, 0)).unwrap();
        assert!(says(&disk).contains("is a disk"));
    }
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(Output::open(&file.join("y")), Err(OutputError::NoDirectory { .. })));
}

#[test]
fn a_pipe_is_written_to_when_somebody_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(matches!(Output::open(&path), Err(OutputError::NoReader { .. })));
    let flags = libc_nonblock();
    let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
    write(&path, b"through").unwrap();
    let mut got = [0; 7];
    reader.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"through");
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

fn libc_nonblock() -> i32 {
    rustix::fs::OFlags::NONBLOCK.bits().cast_signed()
}

#[test]
fn a_descriptor_is_written_to_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    fs::write(&path, "before, ").unwrap();
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    // As `--stats /dev/stdout >> out`.
    write(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), b"behind").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before, behind");
    let (mut reader, writer) = std::io::pipe().unwrap();
    write(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"pipe").unwrap();
    drop(writer);
    let mut got = String::new();
    reader.read_to_string(&mut got).unwrap();
    assert_eq!(got, "pipe");
}

#[test]
fn links_lead_to_the_file_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    symlink("elsewhere/file", at("first")).unwrap();
    symlink(at("first"), at("second")).unwrap();
    write(&at("second"), b"new").unwrap();
    write(&at("second"), b"again").unwrap();
    assert_eq!(fs::read(at("elsewhere/file")).unwrap(), b"again");
    assert!(fs::symlink_metadata(at("first")).unwrap().is_symlink());
    assert_eq!(names(&at("elsewhere")), ["file"]);
    symlink("circle", at("circle")).unwrap();
    assert!(matches!(Output::open(&at("circle")), Err(OutputError::Links { .. })));
}

#[test]
fn a_name_that_becomes_a_device_before_the_end_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let writing = Output::open(&path).unwrap().begin().unwrap();
    symlink("/dev/null", &path).unwrap();
    assert!(matches!(writing.finish(), Err(OutputError::NotWritten { .. })));
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(names(directory.path()), ["out"]);
}

#[test]
fn what_others_left_in_a_shared_directory_is_refused() {
    if !is_root("what_others_left_in_a_shared_directory_is_refused") {
        return;
    }
    const OTHER: u32 = 54_321;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let victim = at("victim");
    let shared = at("shared");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    symlink(&victim, shared.join("link")).unwrap();
    fs::write(shared.join("file"), "theirs").unwrap();
    mknodat(CWD, shared.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    for name in ["link", "file", "pipe"] {
        rustix::fs::chownat(
            CWD,
            shared.join(name),
            Some(rustix::fs::Uid::from_raw(OTHER)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        let error = write(&shared.join(name), b"mine").unwrap_err();
        assert!(matches!(error, OutputError::Foreign { .. }), "{name}: {error}");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(fs::read(shared.join("file")).unwrap(), b"theirs");
    // Without the sticky bit, and in a directory of their own, it is as everywhere: the owner is kept.
    fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
    chown(shared.join("file"), Some(OTHER), Some(OTHER)).unwrap();
    fs::set_permissions(shared.join("file"), Permissions::from_mode(0o4664)).unwrap();
    write(&shared.join("file"), b"mine").unwrap();
    let found = fs::metadata(shared.join("file")).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (OTHER, OTHER, 0o664));
    write(&shared.join("link"), b"through").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"through");
}

#[test]
fn a_private_file_is_its_owners_alone_unless_it_replaces_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let begin = || Output::open(&path).unwrap().begin_private().unwrap();
    begin().finish().unwrap();
    assert_eq!(mode_of(&path), 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    begin().finish().unwrap();
    assert_eq!(mode_of(&path), 0o644);
}
