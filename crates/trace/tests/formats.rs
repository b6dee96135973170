//! A small hand-written trace of every format, read to the references that it stands for.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};

use foretell_trace::{
    DEFAULT_BLOCK_BYTES, Format, Limits, ReadOptions, Reference, TraceError, TraceMeta, TraceReader, open,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read_with(path: &Path, options: &ReadOptions) -> (Vec<Reference>, TraceMeta) {
    let mut reader = open(path, options).unwrap_or_else(|e| panic!("{e}"));
    let mut references = Vec::new();
    for reference in reader.by_ref() {
        references.push(reference.unwrap_or_else(|e| panic!("{e}")));
    }
    (references, reader.meta().clone())
}

fn read(name: &str) -> (Vec<Reference>, TraceMeta) {
    read_with(&fixture(name), &ReadOptions::default())
}

/// File name, offset, bytes, compute time in us, and whether it writes.
fn short((references, meta): (Vec<Reference>, TraceMeta)) -> Vec<(String, u64, u64, u64, bool)> {
    let name = |r: &Reference| meta.files[r.file as usize].name.clone();
    references.iter().map(|r| (name(r), r.offset, r.bytes, r.compute_ns / 1000, r.write)).collect()
}

fn rows(rows: &[(&str, u64, u64, u64, bool)]) -> Vec<(String, u64, u64, u64, bool)> {
    rows.iter().map(|&(file, o, b, c, w)| (file.to_owned(), o, b, c, w)).collect()
}

#[test]
fn lirs() {
    let expected = [4, 5, 4, 1 << 20].map(|block| ("blocks", block * 8192, 8192, 0, false));
    assert_eq!(short(read("loop.lirs")), rows(&expected));
}

#[test]
fn recordings() {
    let (references, meta) = read("sort.recording");
    let got: Vec<_> = references
        .iter()
        .map(|r| {
            let process = meta.processes[r.process as usize].as_str();
            let file = meta.files[r.file as usize].name.as_str();
            (process, file, r.offset, r.bytes, r.compute_ns, r.timestamp_ns, r.write)
        })
        .collect();
    let expected = [
        ("sort#1", "/a", 0, 16_384, 0, Some(10), false),
        // Mapped, and written to the recording before what came earlier.
        ("sh#0", "/lib.b", 28_672, 4096, 0, Some(15), false),
        // Waited 7 ns for.
        ("sort#1", "/a", 16_384, 16_384, 10, Some(20), false),
        ("sort#1", "/a", 0, 8192, 3, Some(30), true),
        ("sort#1", "/a", 0, 4096, 1, Some(31), false),
    ];
    assert_eq!(got, expected);
    assert_eq!(meta.files[0].bytes, Some(16_384));

    let directory = tempfile::tempdir().unwrap();
    let cut = directory.path().join("cut");
    let bytes = std::fs::read(fixture("sort.recording")).unwrap();
    std::fs::write(&cut, &bytes[..100]).unwrap();
    let error = last_error(&cut, &ReadOptions::default());
    assert!(error.ends_with("cut: cut short; copy it again or record the job again"), "{error}");
    let forced = ReadOptions { format: Some(Format::Recording), ..ReadOptions::default() };
    let error = last_error(&fixture("loop.lirs"), &forced);
    assert!(error.ends_with("loop.lirs: not a recording; name a file that foretell recorded"), "{error}");
}

#[test]
fn files_of_one_path_are_one_file_and_those_without_have_their_inode() {
    use foretell_recording::{Access, Event, FileNumber, FileRecord, Role, RoleId, Summary, Writer};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("night");
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&Event::Role(RoleId(0), Role { parent: None, name: "cp".into(), ordinal: 0 })).unwrap();
    for (n, (path, ino, size)) in [("/a", 1, 5), ("", 2, 6), ("/a", 3, 9), ("", 4, 7)].into_iter().enumerate()
    {
        let record = FileRecord { path: path.into(), dev: 8, ino, size, mtime_ns: 0 };
        let (role, file) = (RoleId(0), FileNumber(n as u32));
        writer.write(&Event::File(file, record)).unwrap();
        writer.write(&Event::Access(Access::read(role, file, 0, 1))).unwrap();
    }
    writer.finish(Summary::default()).unwrap();
    let (references, meta) = read_with(&path, &ReadOptions::default());
    assert_eq!(references.iter().map(|r| r.file).collect::<Vec<_>>(), [0, 1, 0, 2]);
    let files: Vec<_> = meta.files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
    let expected = [("/a", Some(9)), ("inode 2 on device 8", Some(6)), ("inode 4 on device 8", Some(7))];
    assert_eq!(files, expected);
    let limits = Limits { files: 2, ..Limits::default() };
    let error = last_error(&path, &ReadOptions { limits, ..ReadOptions::default() });
    assert!(error.contains("more than 2 files"), "{error}");
}

#[test]
fn libcachesim_csv() {
    let (references, meta) = read("web.libcachesim.csv");
    let got: Vec<_> = references.iter().map(|r| (r.offset, r.bytes, r.timestamp_ns)).collect();
    let s = 1_000_000_000;
    assert_eq!(got, [(0, 8192, Some(s)), (8192, 8192, Some(2 * s)), (0, 8192, Some(3 * s))]);
    assert_eq!(meta.block_bytes, Some(DEFAULT_BLOCK_BYTES));
}

#[test]
fn oracle_general() {
    let mut bytes = Vec::new();
    for (seconds, object) in [(1u32, 77u64), (1, 5), (4, 77)] {
        bytes.extend(seconds.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
    }
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("cdn.oracleGeneral.bin");
    std::fs::write(&plain, &bytes).unwrap();
    let packed = directory.path().join("cdn.oracleGeneral.zst");
    std::fs::write(&packed, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    let unnamed = directory.path().join("cdn");
    std::fs::write(&unnamed, &bytes).unwrap();
    for path in [&plain, &packed, &unnamed] {
        let (references, _) = read_with(path, &ReadOptions::default());
        let got: Vec<_> = references.iter().map(|r| (r.offset / 8192, r.timestamp_ns)).collect();
        assert_eq!(got, [(0, Some(1_000_000_000)), (1, Some(1_000_000_000)), (0, Some(4_000_000_000))]);
    }
    assert_eq!(open(&plain, &ReadOptions::default()).unwrap().size_hint(), (3, Some(3)));
    std::fs::write(&plain, &bytes[..50]).unwrap();
    let error = last_error(&plain, &ReadOptions::default());
    assert!(error.contains("the record of 24 bytes that begins at byte 48"), "{error}");
}

#[test]
fn msr() {
    // The second request comes 1.3320526 s after the first, which took 4.1286 ms; the third 1.000009 s
    // after the second, which took 0.1963 ms.
    let expected = rows(&[
        ("usr_0", 7_014_609_920, 24_576, 0, false),
        ("usr_0", 2_657_792, 4096, 1_327_924, true),
        ("usr_1", 8192, 512, 999_812, false),
    ]);
    assert_eq!(short(read("usr_0.msr.csv")), expected);
    assert_eq!(read("usr_0.msr.csv").0[0].timestamp_ns, Some(1_172_163_600_306_162_900));
}

#[test]
fn spc() {
    let expected = rows(&[
        ("asu0", 303_567 * 512, 3584, 0, true),
        ("asu1", 55_590 * 512, 3072, 26_214, false),
        ("asu0", 303_574 * 512, 512, 52_429, false),
    ]);
    assert_eq!(short(read("financial.spc")), expected);
}

#[test]
fn disksim() {
    let expected = rows(&[
        ("device0", 512_000, 8192, 0, false),
        ("device1", 16_384, 4096, 2500, true),
        ("device0", 520_192, 8192, 7500, false),
    ]);
    assert_eq!(short(read("small.disksim")), expected);
}

#[test]
fn blkparse() {
    let expected = rows(&[
        ("8,0", 223_488 * 512, 8192, 0, false),
        ("8,0", 223_504 * 512, 4096, 1000, false),
        ("8,16", 0, 4096, 0, true),
    ]);
    assert_eq!(short(read("sda.blkparse")), expected);
    let completed = ReadOptions { blkparse_action: b'C', ..ReadOptions::default() };
    let got = short(read_with(&fixture("sda.blkparse"), &completed));
    assert_eq!(got, rows(&[("8,0", 223_488 * 512, 8192, 0, false)]));
}

#[test]
fn fio_iologs() {
    let expected = rows(&[
        ("/data/a", 0, 8192, 0, false),
        ("/data/a", 8192, 4096, 4000, false),
        ("/data/a", 0, 4096, 2000, true),
    ]);
    assert_eq!(short(read("waits.iolog")), expected);
    let expected = rows(&[
        ("a.dat", 0, 8192, 0, false),
        ("a.dat", 40_960, 8192, 1123, false),
        ("a.dat", 49_152, 4096, 1048, true),
    ]);
    assert_eq!(short(read("timed.iolog")), expected);
}

#[test]
fn strace() {
    let (references, meta) = read("shell.strace");
    let got: Vec<_> = references
        .iter()
        .map(|r| {
            let process = meta.processes[r.process as usize].as_str();
            let file = meta.files[r.file as usize].name.as_str();
            (process, file, r.offset, r.bytes, r.compute_ns / 1000, r.write)
        })
        .collect();
    let expected = [
        ("100", "/data/a", 0, 4096, 0, false),
        ("100", "/data/a", 16_384, 100, 300, false),
        // The child appears before clone returns; its duplicate shares the parent's offset.
        ("101", "/data/a", 4096, 4096, 0, false),
        // Interrupted: it ended at .001800.
        ("100", "/data/a", 8192, 3, 400, false),
        ("101", "/projects/c", 1000, 1, 1600, true),
        ("101", "b \"quoted\"", 4096, 10_000, 100, false),
        ("100", "/data/a", 8195, 1, 1400, false),
        // The one before took 50 us.
        ("100", "/data/a", 8196, 1, 1000, false),
    ];
    assert_eq!(got, expected);
    assert_eq!(references[3].timestamp_ns, Some(1_000_000_800_000));
}

#[test]
fn paths_that_strace_prints_stand_for_descriptors_opened_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("attached.strace");
    let lines = "1.000000 read(9</data/log>, \"\", 512) = 512\n\
                 1.000100 read(9</data/log>, \"\", 512) = 512\n\
                 1.000200 read(0<pipe:[77]>, \"\", 512) = 512\n\
                 1.000300 openat(AT_FDCWD</srv>, \"x\", O_RDONLY) = 3</srv/x>\n\
                 1.000400 copy_file_range(3</srv/x>, NULL, 4</srv/y>, NULL, 9223372035781033984, 0) = 70\n\
                 1.000500 sendfile(1, 3, [100] => [130], 30) = 30\n";
    std::fs::write(&path, lines).unwrap();
    let got = short(read_with(&path, &ReadOptions::default()));
    let expected = [
        ("/data/log", 0, 512, 0, false),
        ("/data/log", 512, 512, 100, false),
        ("/srv/x", 0, 70, 300, false),
        ("/srv/x", 100, 30, 100, false),
    ];
    assert_eq!(got, rows(&expected));
}

/// The error that reading to the end, or opening, gives.
fn last_error(path: &Path, options: &ReadOptions) -> String {
    let error = |e: TraceError| e.to_string();
    match open(path, options) {
        Err(e) => error(e),
        Ok(mut reader) => {
            let failed = reader.find_map(Result::err).map(error);
            assert!(reader.next().is_none(), "after an error the trace is over");
            failed.unwrap_or_else(|| panic!("{} has no error", path.display()))
        }
    }
}

#[test]
fn compressed_text_is_the_same_text() {
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read(fixture("shell.strace")).unwrap();
    let zst = directory.path().join("shell.strace.zst");
    std::fs::write(&zst, zstd::encode_all(&text[..], 3).unwrap()).unwrap();
    let gz = directory.path().join("no-extension");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&text).unwrap();
    std::fs::write(&gz, encoder.finish().unwrap()).unwrap();
    for path in [&zst, &gz] {
        assert_eq!(read_with(path, &ReadOptions::default()).0, read("shell.strace").0);
        let whole = std::fs::read(path).unwrap();
        std::fs::write(path, &whole[..whole.len() - 20]).unwrap();
        let error = last_error(path, &ReadOptions { format: Some(Format::Strace), ..Default::default() });
        assert!(error.contains("ends in the middle of the compressed data"), "{error}");
    }
}

#[test]
fn mistakes_are_reported_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("a.lirs", "1\n2\nx3\n", "a.lirs:3: expected a block number"),
        ("b.spc", "0,1,512,r,0.5\n0,1,512,q,0.5\n", "b.spc:2: expected ASU,LBA,size,r|w,timestamp"),
        ("c.disksim", "0.5 0 1 8 1\n0.5 0 1 8", "c.disksim: ends in the middle of line 2"),
        (
            "d.iolog",
            "fio version 1 iolog\n",
            "not a fio trace: expected the first line `fio version 2 iolog`",
        ),
        (
            "e.strace",
            "1 1.5 read(3, \"\", 1) = 1\n10:11:12 read(3)\n",
            "e.strace:2: expected a process, a time",
        ),
        ("f.msr", "1,usr,0,Read,0,512,1\n1,usr,0,Read,0,512\n", "f.msr:2: expected Timestamp,Hostname"),
        ("g.blkparse", "  8,0 3 1 0.5 697 Q R 1 - 8 [x]\n", "g.blkparse:1: expected `sector + sectors`"),
        (
            "h.txt",
            "hello\n",
            "format not recognised (it begins with `hello`); name it, one of foretell, recording, lirs",
        ),
        ("i.txt", "", "format not recognised (it begins with nothing)"),
        ("j.csv", "1,2,3\nx,2,3\n", "j.csv:2: expected comma-separated time"),
        ("k.parquet", "PAR1 and no more", "its footer is missing or damaged"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = last_error(&path, &ReadOptions::default());
        assert!(error.contains(expected), "{name}: {error}");
    }
    let forced = ReadOptions { format: Some(Format::Foretell), ..ReadOptions::default() };
    let error = last_error(&directory.path().join("a.lirs"), &forced);
    assert!(error.contains("not a foretell trace: expected `PAR1`"), "{error}");
    let missing = last_error(&directory.path().join("none"), &ReadOptions::default());
    assert!(missing.contains("No such file"), "{missing}");
    let unreadable = last_error(directory.path(), &ReadOptions::default());
    assert!(unreadable.contains("is a directory"), "{unreadable}");
}

#[test]
fn many_unfinished_calls_are_no_more_work_each() {
    use std::fmt::Write;
    const CALLS: u32 = 100_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("forks.strace");
    let mut text = String::new();
    // Each process that appears is looked for among the calls that may have created it.
    for pid in 0..CALLS {
        let creates = if pid % 2 == 0 { "clone(flags=SIGCHLD" } else { "read(3, " };
        writeln!(text, "{}  1000.000001 {creates} <unfinished ...>", 100 + pid).unwrap();
    }
    for pid in 0..CALLS {
        writeln!(text, "{}  1000.000002 getpid() = 1", 1_000_000 + pid).unwrap();
    }
    std::fs::write(&path, text).unwrap();
    assert_eq!(read_with(&path, &ReadOptions::default()).0, []);
}

#[test]
fn limits_stop_a_reader() {
    let limited = |limits| ReadOptions { limits, ..ReadOptions::default() };
    let limits = Limits::default();
    for (name, limits, expected) in [
        ("usr_0.msr.csv", Limits { files: 1, ..limits }, "usr_0.msr.csv:3: more than 1 files"),
        ("shell.strace", Limits { processes: 1, ..limits }, "more than 1 processes"),
        ("shell.strace", Limits { descriptors: 3, ..limits }, "more than 3 open descriptors"),
        ("shell.strace", Limits { unfinished_bytes: 40, ..limits }, "more than 40 bytes of unfinished calls"),
        ("shell.strace", Limits { line_bytes: 40, ..limits }, "shell.strace:1: more than 40 bytes in a line"),
        (
            "web.libcachesim.csv",
            Limits { objects: 1, ..limits },
            "web.libcachesim.csv:3: more than 1 objects",
        ),
        ("timed.iolog", Limits { name_bytes: 4, ..limits }, "timed.iolog:4: more than 4 bytes of names"),
    ] {
        let error = last_error(&fixture(name), &limited(limits));
        assert!(error.contains(expected), "{error}");
    }
}
