//! Recordings through their file: what is written is read back, and nothing else is.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use foretell_recording::{
    Access, Event, Fact, FileNumber, FileRecord, OLDEST_VERSION, Recording, Role, RoleId, Summary, VERSION,
    Way, WriteError, Writer, is_recording, limits,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn write(path: &Path, recording: &Recording) {
    let mut writer = Writer::create(path).unwrap();
    for event in events(recording) {
        writer.write(&event).unwrap();
    }
    writer.finish(recording.summary).unwrap();
}

fn events(recording: &Recording) -> Vec<Event> {
    let Recording { roles, files, accesses, facts, .. } = recording;
    let roles = roles.iter().enumerate().map(|(n, role)| Event::Role(RoleId(n as u32), role.clone()));
    let files = files.iter().enumerate().map(|(n, file)| Event::File(FileNumber(n as u32), file.clone()));
    let accesses = accesses.iter().map(|access| Event::Access(*access));
    let facts = facts.iter().map(|fact| Event::Fact(*fact));
    roles.chain(files).chain(accesses).chain(facts).collect()
}

/// A shell, two programs, two files, everything there is of accesses and facts.
fn small() -> Recording {
    let role = |parent, name: &str, ordinal| Role { parent, name: name.to_owned(), ordinal };
    let file = |path: &str, ino| FileRecord {
        path: path.into(),
        dev: 2049,
        ino,
        size: 1 << 20,
        mtime_ns: 1_700_000_000_000_000_000,
    };
    let access = |role, file, first_page, pages, at_ns, way| Access {
        role: RoleId(role),
        file: FileNumber(file),
        first_page,
        pages,
        at_ns,
        waited_ns: 80_000 * u64::from(first_page == 0),
        way,
    };
    let mut accesses: Vec<Access> =
        (0..20).map(|n| access(1, 0, n * 4, 4, u64::from(n) * 1000, Way::Read)).collect();
    accesses.push(access(2, 1, 7, 1, 30_000, Way::Mapped));
    accesses.push(access(2, 0, 0, 2, 31_000, Way::Written));
    accesses.push(access(0, 1, u32::MAX - 1, 1, 29_000, Way::Read));
    Recording {
        roles: vec![role(None, "sh", 0), role(Some(RoleId(0)), "sort", 0), role(Some(RoleId(0)), "uniq", 1)],
        files: vec![file("/data/words", 12), file("/usr/lib/libc.so.6", 7)],
        accesses,
        facts: vec![
            Fact::Executed(FileNumber(1)),
            Fact::Written(FileNumber(0)),
            Fact::Truncated(FileNumber(0)),
            Fact::Deleted(FileNumber(0)),
            Fact::Ended { role: RoleId(1), at_ns: 29_500 },
        ],
        summary: Summary {
            elapsed_ns: 40_000,
            wait_ns: 160_000,
            device_read_bytes: 90 << 10,
            lost_events: 3,
            exit_code: Some(-1),
            left_out: 0,
        },
    }
}

#[test]
fn what_is_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("night");
    write(&path, &small());
    assert_eq!(Recording::read(&path).unwrap(), small());
    let bytes = std::fs::read(&path).unwrap();
    assert!(is_recording(&bytes) && !is_recording(&bytes[..10]) && !is_recording(b"PAR1"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_recording_that_is_not_finished_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("night");
    let mut writer = Writer::create(&path).unwrap();
    for event in events(&small()) {
        writer.write(&event).unwrap();
    }
    assert!(!path.exists());
    drop(writer);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // An older one stays as it is until the new one is whole.
    write(&path, &small());
    drop(Writer::create(&path).unwrap());
    assert_eq!(Recording::read(&path).unwrap(), small());
}

/// The one line of the error that these bytes give.
fn refusal(bytes: &[u8]) -> String {
    let error = Recording::read_from(Path::new("night"), bytes).unwrap_err().to_string();
    assert!(error.starts_with("night: ") && !error.contains('\n'), "{error}");
    error
}

#[test]
fn every_truncation_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("night");
    write(&path, &small());
    let bytes = std::fs::read(&path).unwrap();
    assert!(refusal(&[]).contains("not a recording"));
    for length in 1..bytes.len() {
        assert_eq!(refusal(&bytes[..length]), "night: cut short; copy it again or record the job again");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(refusal(&longer).contains("something follows its end"));
}

/// `kept` has what [`small`] is in each version.
#[test]
fn what_each_version_has_written_is_read() {
    for version in OLDEST_VERSION..=VERSION {
        let path = format!("{}/tests/kept/version-{version}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(std::fs::read(&path).unwrap()[19..21], version.to_le_bytes());
        assert_eq!(Recording::read(&path).unwrap(), small(), "{version}");
    }
}

#[test]
fn every_changed_byte_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("night");
    write(&path, &small());
    let mut bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            bytes[at] ^= change;
            refusal(&bytes);
            bytes[at] ^= change;
        }
    }
    bytes[19] = 9;
    assert_eq!(
        refusal(&bytes),
        "night: a recording of version 9, this program reads version 1; record the job again"
    );
    assert_eq!(refusal(b"\x7fELF"), "night: not a recording; name a file that foretell recorded");
}

/// A file around contents that no writer writes.
fn packed(contents: &[u8]) -> Vec<u8> {
    framed(&zstd::encode_all(contents, 1).unwrap())
}

fn framed(frame: &[u8]) -> Vec<u8> {
    let mut bytes = b"foretell-recording\0\x01\0".to_vec();
    bytes.extend_from_slice(frame);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn numbers_out_of_range_are_refused() {
    const ROLE: [u8; 5] = [0, 0, 1, b'a', 0];
    const FILE: [u8; 6] = [1, 0, 0, 0, 0, 0];
    const END: [u8; 7] = [4, 0, 0, 0, 0, 0, 0];
    const BIG: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let known = [&ROLE[..], &FILE].concat();
    assert!(Recording::read_from(Path::new("night"), &packed(&[&known[..], &END].concat())[..]).is_ok());
    for (more, expected) in [
        (&[][..], "it ends without a summary"),
        (&[5], "an event of no known kind"),
        (&[0x20], "an event of no known kind"),
        (&[0, 2, 1, b'b', 0], "a parent that is no earlier role"),
        (&[0, 1, 1, 0xff, 0], "a command name that is not UTF-8"),
        (&[0, 1, 16], "more than 15 bytes in a command name"),
        (&[1, 0, 0, 0, 0, 0xff, 0x7f], "more than 4096 bytes in a path"),
        (&[1, 0, 0, 0, 0, 1, 0], "a path with a zero in it"),
        // An access: of role 1, to file 1, to no page, to pages beyond, of way 3.
        (&[0xc2, 2, 1, 0, 0], "a role that is not known"),
        (&[0xa2, 2, 1, 0, 0], "a file that is not known"),
        (&[0xa2, 1, 1, 0, 0], "a number of more than 32 bits"),
        (&[0xe2, 0, 0, 0], "an access to pages that cannot be"),
        (&[&[0x62, 2][..], &BIG].concat(), "an access to pages that cannot be"),
        (&[0xfa, 1, 0, 0], "an access of no known kind"),
        (&[0xe2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "a number of more than 64 bits"),
        (&[3, 0, 1], "a fact of what is not known"),
        (&[3, 5, 0], "a fact of no known kind"),
        (&[3, 1, 0, 3, 1, 0], "a fact that was told before"),
        (&[3, 4, 0, 0, 3, 4, 0, 0], "a fact that was told before"),
        (&[4, 0, 0, 0, 0, 2], "an exit code that is neither there nor absent"),
        (&[4, 0, 0, 0, 0, 1, 0x80, 0x80, 0x80, 0x80, 0x10, 0], "an exit code of more than 32 bits"),
        (&[&END[..], &[0]].concat(), "something follows the summary"),
    ] {
        let error = refusal(&packed(&[&known[..], more].concat()));
        assert!(error.contains(expected), "{more:?}: {error}, not {expected}");
    }
}

#[test]
fn what_a_small_file_claims_is_limited() {
    // As many roles as a file of zeros makes: four bytes each.
    let zeros = packed(&vec![0; 1 << 24]);
    assert!(zeros.len() < 4096);
    assert!(refusal(&zeros).contains(&format!("more than {} roles", limits::ROLES)));
    let files = packed(&[1, 0, 0, 0, 0, 0].repeat(limits::FILES + 1));
    assert!(refusal(&files).contains(&format!("more than {} files", limits::FILES)));
    // A frame that asks for a window of 128 MB.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    std::io::Write::write_all(&mut encoder, &vec![0; 1 << 20]).unwrap();
    assert!(refusal(&framed(&encoder.finish().unwrap())).contains("the compressed stream is not one"));
}

#[test]
fn a_writer_refuses_what_a_reader_would() {
    let directory = tempfile::tempdir().unwrap();
    let Recording { roles, files, accesses, .. } = small();
    let access = accesses[0];
    let role = |n, role: &Role| Event::Role(RoleId(n), role.clone());
    let file = |n, file: &FileRecord| Event::File(FileNumber(n), file.clone());
    let begun = [role(0, &roles[0]), role(1, &roles[1]), file(0, &files[0])];
    for (event, expected) in [
        (role(3, &roles[1]), "roles come in the order of their numbers"),
        (role(1, &roles[1]), "roles come in the order of their numbers"),
        (role(2, &Role { parent: Some(RoleId(2)), ..roles[1].clone() }), "a parent is an earlier role"),
        (role(2, &Role { name: "a-long-name-of-a-command".to_owned(), ..roles[1].clone() }), "15 bytes"),
        (file(0, &files[0]), "files come in the order of their numbers"),
        (Event::Access(Access { role: RoleId(2), ..access }), "a role comes before"),
        (Event::Access(Access { file: FileNumber(1), ..access }), "a file comes before"),
        (Event::Access(Access { pages: 0, ..access }), "a page at least"),
        (Event::Access(Access { first_page: u32::MAX, pages: 1, ..access }), "32 bits"),
        (Event::Fact(Fact::Written(FileNumber(1))), "a file comes before"),
        (Event::Fact(Fact::Ended { role: RoleId(2), at_ns: 0 }), "a role comes before"),
        (Event::Summary(Summary::default()), "`finish`"),
    ] {
        let mut writer = Writer::create(directory.path().join("night")).unwrap();
        for event in &begun {
            writer.write(event).unwrap();
        }
        let error = writer.write(&event).unwrap_err();
        assert!(matches!(error, WriteError::NotAnEvent { .. }) && error.to_string().contains(expected));
    }
    assert!(Writer::create(directory.path().join("no/directory")).is_err());
}

#[test]
fn what_cannot_be_opened_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().join("none"), directory.path().to_owned()] {
        let error = Recording::read(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
        assert!(!error.contains('\n'));
    }
}

fn recordings() -> impl Strategy<Value = Recording> {
    let roles = vec((any::<Option<Index>>(), "\\PC{0,3}", any::<u32>()), 1..6);
    let files = vec(("[^\0]{0,20}", any::<u64>(), any::<u64>(), any::<u64>(), any::<i64>()), 1..6);
    let way = prop_oneof![Just(Way::Read), Just(Way::Mapped), Just(Way::Written)];
    let page = prop_oneof![0..100u32, any::<u32>()];
    let access = (any::<Index>(), any::<Index>(), page, 1..1000u32, any::<u64>(), any::<u64>(), way);
    let facts = vec((any::<Index>(), 0..5u8, any::<u64>()), 0..6);
    let summary = (any::<[u64; 5]>(), any::<Option<i32>>());
    (roles, files, vec(access, 0..60), facts, summary).prop_map(
        |(roles, files, accesses, facts, (numbers, exit_code))| {
            let mut recording = Recording::default();
            for (parent, name, ordinal) in roles {
                let known = recording.roles.len();
                let parent = parent.filter(|_| known > 0).map(|p| RoleId(p.index(known) as u32));
                recording.roles.push(Role { parent, name, ordinal });
            }
            for (path, dev, ino, size, mtime_ns) in files {
                recording.files.push(FileRecord { path: path.into(), dev, ino, size, mtime_ns });
            }
            for (role, file, first_page, pages, at_ns, waited_ns, way) in accesses {
                let role = RoleId(role.index(recording.roles.len()) as u32);
                let file = FileNumber(file.index(recording.files.len()) as u32);
                let first_page = first_page.min(u32::MAX - pages);
                recording.accesses.push(Access { role, file, first_page, pages, at_ns, waited_ns, way });
            }
            for (of, kind, at_ns) in facts {
                let role = RoleId(of.index(recording.roles.len()) as u32);
                let file = FileNumber(of.index(recording.files.len()) as u32);
                let fact = match kind {
                    0 => Fact::Written(file),
                    1 => Fact::Executed(file),
                    2 => Fact::Deleted(file),
                    3 => Fact::Truncated(file),
                    _ => Fact::Ended { role, at_ns },
                };
                let is_same = |known: &Fact| match (known, &fact) {
                    (Fact::Ended { role: known, .. }, Fact::Ended { role, .. }) => known == role,
                    (known, fact) => known == fact,
                };
                if !recording.facts.iter().any(is_same) {
                    recording.facts.push(fact);
                }
            }
            let [elapsed_ns, wait_ns, device_read_bytes, lost_events, left_out] = numbers;
            recording.summary =
                Summary { elapsed_ns, wait_ns, device_read_bytes, lost_events, exit_code, left_out };
            recording
        },
    )
}

proptest! {
    #[test]
    fn any_recording_is_read_as_it_was_written(recording in recordings()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("night");
        write(&path, &recording);
        prop_assert_eq!(Recording::read(&path).unwrap(), recording);
    }

    #[test]
    fn any_bytes_are_read_or_refused(contents in vec(prop_oneof![0..8u8, any::<u8>()], 0..200)) {
        if let Err(error) = Recording::read_from(Path::new("night"), &packed(&contents)[..]) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
