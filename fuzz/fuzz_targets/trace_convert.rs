//! A trace that reads to its end is stored in our own format and gives the same references and names again.
//! The input is that of the target `trace`.

#![no_main]

use std::path::Path;

use foretell_fuzz::{MAX_REFERENCES, MemoryFile, SMALL_LIMITS, named_format};
use foretell_trace::{ReadOptions, Reference, StoreReader, TraceReader, convert, open};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((format, trace)) = named_format(bytes) else { return };
    let file = MemoryFile::new(trace);
    let options = ReadOptions { format, limits: SMALL_LIMITS, ..ReadOptions::default() };
    let Ok(mut reader) = open(file.path(), &options) else { return };
    let Ok(references) = reader.by_ref().take(MAX_REFERENCES).collect::<Result<Vec<Reference>, _>>() else {
        return;
    };
    if references.len() == MAX_REFERENCES {
        return;
    }

    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let stored = directory.path().join("trace.parquet");
    let mut again = open(file.path(), &options).expect("it could be opened before");
    let converted = convert(&mut again, &stored).expect("it could be read before");
    assert_eq!(converted.references, references.len() as u64);
    let mut back = StoreReader::open(Path::new(&stored)).expect("what was stored can be opened");
    let same: Vec<Reference> = back.by_ref().map(|r| r.expect("what was stored can be read")).collect();
    assert_eq!(same, references);
    let names = |reader: &dyn TraceReader| -> Vec<String> {
        let meta = reader.meta();
        meta.files.iter().map(|file| file.name.clone()).chain(meta.processes.clone()).collect()
    };
    assert_eq!(names(&back), names(&reader));
});
