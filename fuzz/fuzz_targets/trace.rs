//! A trace in any format but our own. The first line of the input names the format, `auto` has it told from
//! the rest. Every reference is to names that are known, tables stay within their limits, and after an error
//! nothing follows.

#![no_main]

use foretell_fuzz::{MAX_REFERENCES, MemoryFile, SMALL_LIMITS, check_reference, named_format, one_line};
use foretell_trace::{Blocks, DEFAULT_BLOCK_BYTES, ReadOptions, TraceReader, open};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((format, trace)) = named_format(bytes) else { return };
    let file = MemoryFile::new(trace);
    let options = ReadOptions { format, limits: SMALL_LIMITS, ..ReadOptions::default() };
    let mut reader = match open(file.path(), &options) {
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
    let meta = reader.meta();
    assert!(meta.files.len() <= SMALL_LIMITS.files as usize);
    assert!(meta.processes.len() <= SMALL_LIMITS.processes as usize);

    let Ok(reader) = open(file.path(), &options) else { return };
    let mut blocks = Blocks::new(reader, DEFAULT_BLOCK_BYTES).take(MAX_REFERENCES);
    if let Some(Err(e)) = blocks.find(Result::is_err) {
        one_line(&e);
    }
});
