//! Whatever a file contains, reading it ends in references or in an error, never in a panic.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use foretell_trace::{Format, Limits, ReadOptions, Workload, convert, open};
use proptest::prelude::*;

const FORMATS: [Format; 11] = [
    Format::Foretell,
    Format::Recording,
    Format::Lirs,
    Format::OracleGeneral,
    Format::LibCacheSimCsv,
    Format::Msr,
    Format::Spc,
    Format::DiskSim,
    Format::Blkparse,
    Format::FioIolog,
    Format::Strace,
];

fn fixtures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Reads everything; gives the references before the end or the error.
fn read(path: &Path, format: Option<Format>) -> usize {
    let limits = Limits { line_bytes: 4096, ..Limits::default() };
    match open(path, &ReadOptions { format, limits, ..ReadOptions::default() }) {
        Ok(reader) => reader.take_while(Result::is_ok).count(),
        Err(e) => {
            assert!(!e.to_string().contains('\n'), "{e}");
            0
        }
    }
}

/// Cuts, overwrites, repeats and inserts.
fn mutate(bytes: &mut Vec<u8>, changes: &[(u8, prop::sample::Index, u8)]) {
    for (kind, at, value) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match kind % 5 {
            0 => bytes.truncate(at),
            1 => bytes[at] = *value,
            2 => bytes.insert(at, *value),
            3 => drop(bytes.remove(at)),
            _ => bytes.extend_from_within(at..(at + usize::from(*value)).min(bytes.len())),
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(u8, prop::sample::Index, u8)>(), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_are_survived_in_every_format(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("garbage");
        std::fs::write(&path, &bytes).unwrap();
        read(&path, None);
        for format in FORMATS {
            read(&path, Some(format));
        }
    }

    #[test]
    fn random_words_are_survived_in_every_format(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "read(", "3", ", ", "\"", "\\", ")", " = ", "\n", "1.5", "7", "<", ">", "openat(", "AT_FDCWD",
                "<unfinished ...>", "<... ", " resumed>", "clone(", "mmap(", "8,0", "Q", "R", "+", ",", " ", "*",
                "fio version 3 iolog", "wait", "[pid ", "]", "-1", "18446744073709551615", "0x", "e", ".", "#",
            ]),
            0..80,
        )
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        std::fs::write(&path, words.concat()).unwrap();
        for format in FORMATS {
            read(&path, Some(format));
        }
    }

    #[test]
    fn damaged_fixtures_are_survived(which in any::<prop::sample::Index>(), changes in changes()) {
        let fixtures = fixtures();
        let original = which.get(&fixtures);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(original.file_name().unwrap());
        let mut bytes = std::fs::read(original).unwrap();
        mutate(&mut bytes, &changes);
        std::fs::write(&path, &bytes).unwrap();
        read(&path, None);
    }

    #[test]
    fn damaged_stored_traces_are_survived(changes in changes()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.parquet");
        let workload: Workload = "zipf:references=2000,objects=500".parse().unwrap();
        convert(&mut workload.open(1), &path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        mutate(&mut bytes, &changes);
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(read(&path, Some(Format::Foretell)) <= 2000);
    }
}

#[test]
fn every_fixture_is_whole() {
    let whole = fixtures();
    assert_eq!(whole.len(), 10);
    for path in whole {
        let name = path.display();
        let reader = open(&path, &ReadOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let references: Result<Vec<_>, _> = reader.collect();
        assert!(references.unwrap_or_else(|e| panic!("{name}: {e}")).len() >= 3, "{name}");
    }
}
