//! A trace in our own format. The Parquet library is known to panic on damaged files and the reader makes
//! errors of that, so here a panic counts only if it gets out of the reader. The library also steps through
//! a list of booleans of whatever length the footer claims, up to 2^31, a second or more: such inputs are slow.

#![no_main]

use std::panic::{catch_unwind, set_hook};

use foretell_fuzz::{MAX_REFERENCES, MemoryFile, check_reference, one_line};
use foretell_trace::{StoreReader, TraceReader};
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    let file = MemoryFile::new(bytes);
    let mut reader = match StoreReader::open(file.path()) {
        Ok(reader) => reader,
        Err(e) => return one_line(&e),
    };
    for _ in 0..MAX_REFERENCES {
        match reader.next() {
            Some(Ok(reference)) => check_reference(&reference, reader.meta()),
            Some(Err(e)) => {
                one_line(&e);
                assert!(reader.next().is_none());
            }
            None => break,
        }
    }
}

fuzz_target!(
    // In place of the engine's own, which ends the process at every panic, caught or not.
    init: set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        if catch_unwind(|| read(bytes)).is_err() {
            eprintln!("a panic got out of the reader");
            std::process::abort();
        }
    }
);
