//! Our own format: what is written is read back, and damage is reported.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use foretell_trace::{
    DEFAULT_BLOCK_BYTES, FileEntry, ReadOptions, Reference, StoreReader, StoreWriter, TraceMeta, TraceReader,
    Workload, convert, head, info, open,
};
use proptest::prelude::*;

fn reference() -> impl Strategy<Value = Reference> {
    let number = prop_oneof![0..10_000u64, any::<u64>()];
    (
        0..3u32,
        0..4u32,
        number.clone(),
        number.clone(),
        number.clone(),
        proptest::option::of(number),
        any::<bool>(),
    )
        .prop_map(|(process, file, offset, bytes, compute_ns, timestamp_ns, write)| Reference {
            process,
            file,
            offset,
            bytes,
            compute_ns,
            timestamp_ns,
            write,
        })
}

fn meta() -> TraceMeta {
    TraceMeta {
        source: "a test, \"quoted\" and\nbroken".to_owned(),
        block_bytes: Some(DEFAULT_BLOCK_BYTES),
        seed: Some(u64::MAX),
        files: (0..4).map(|n| FileEntry { name: format!("file {n} ü"), bytes: None }).collect(),
        processes: vec!["a".into(), "b".into(), "c".into()],
    }
}

fn store(path: &Path, references: &[Reference]) {
    let mut writer = StoreWriter::create(path).unwrap();
    references.iter().for_each(|reference| writer.push(reference).unwrap());
    writer.finish(&meta()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_stored_is_read_back(references in prop::collection::vec(reference(), 0..3000)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.parquet");
        store(&path, &references);
        let reader = StoreReader::open(&path).unwrap();
        let (mut expected, got_meta) = (meta(), reader.meta().clone());
        for (number, file) in (0..).zip(&mut expected.files) {
            let ends = references.iter().filter(|r| r.file == number).map(|r| r.offset.saturating_add(r.bytes));
            file.bytes = got_meta.files[number as usize].bytes.and(Some(ends.max().unwrap_or(0)));
        }
        prop_assert_eq!(got_meta, expected);
        prop_assert_eq!(reader.size_hint().1, Some(references.len()));
        let got: Vec<Reference> = reader.map(|r| r.unwrap()).collect();
        prop_assert_eq!(got, references);
    }
}

#[test]
fn a_workload_is_the_same_after_conversion() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cscope2");
    let converted = convert(&mut Workload::Cscope2.open(7), &path).unwrap();
    assert_eq!(converted.references, 20_206);
    assert_eq!(converted.file_bytes, std::fs::metadata(&path).unwrap().len());
    let mut stored = open(&path, &ReadOptions::default()).unwrap();
    let mut generated = Workload::Cscope2.open(7);
    assert_eq!(stored.meta(), generated.meta());
    let same =
        stored.by_ref().zip(generated.by_ref()).filter(|(a, b)| a.as_ref().unwrap() == b.as_ref().unwrap());
    assert_eq!(same.count(), 20_206);
    let of = |reader: &mut dyn TraceReader| info(reader, DEFAULT_BLOCK_BYTES).unwrap();
    let mut again = open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(of(&mut again), of(&mut Workload::Cscope2.open(7)));
    let rows = head(&mut open(&path, &ReadOptions::default()).unwrap(), 3).unwrap();
    assert_eq!((rows.references.len(), rows.references[0].file.as_str()), (3, "source/0000.c"));
    assert_eq!(rows.to_string().lines().count(), 4);
}

#[test]
fn row_groups_follow_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long");
    let workload: Workload = "loop:blocks=700000,passes=2".parse().unwrap();
    convert(&mut workload.open(0), &path).unwrap();
    let blocks = StoreReader::open(&path).unwrap().map(|r| r.unwrap().offset / 8192);
    assert!(blocks.eq((0..700_000).chain(0..700_000)));
}

#[test]
fn nothing_appears_until_everything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.parquet");
    let bad = directory.path().join("bad.lirs");
    std::fs::write(&bad, "1\n2\nthree\n").unwrap();
    let error = convert(&mut open(&bad, &ReadOptions::default()).unwrap(), &path).unwrap_err().to_string();
    assert!(error.contains("bad.lirs:3"), "{error}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["bad.lirs"]);
    let nowhere =
        convert(&mut Workload::Ld.open(0), &directory.path().join("none/trace")).unwrap_err().to_string();
    assert!(nowhere.contains("there is no directory"), "{nowhere}");
}

#[test]
fn a_reference_beyond_the_names_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.parquet");
    let mut writer = StoreWriter::create(&path).unwrap();
    let reference = Reference {
        process: 9,
        file: 0,
        offset: 0,
        bytes: 1,
        compute_ns: 0,
        timestamp_ns: None,
        write: false,
    };
    writer.push(&reference).unwrap();
    writer.finish(&meta()).unwrap();
    let error = StoreReader::open(&path).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("a reference of process 9 of 3"), "{error}");
}
