//! A compile database: what is understood are C files with flags; a command in one line comes apart into its words.

#![no_main]

use foretell_fuzz::{MemoryFile, one_line};
use foretell_slicer::read_database;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = MemoryFile::new(bytes);
    match read_database(file.path()) {
        Ok(inputs) => {
            assert!(inputs.iter().all(|input| input.path.extension().is_some_and(|e| e == "c")));
            let flags: usize = inputs.iter().flat_map(|input| &input.flags).map(|flag| flag.len()).sum();
            assert!(flags <= 8 * bytes.len() + 4096, "{flags} bytes of flags");
        }
        Err(e) => one_line(&e),
    }
});
