//! A size: above zero, at most all of the memory, printed so that it reads back the same.

#![no_main]

use foretell::size::{Size, human_bytes};
use foretell_fuzz::one_line_about;
use libfuzzer_sys::fuzz_target;

const MEMORY_BYTES: u64 = 16 << 30;

fuzz_target!(|text: &str| {
    match Size::parse(text) {
        Ok(size) => {
            assert_eq!(Size::parse(&size.to_string()), Ok(size));
            match size {
                Size::Bytes(bytes) => assert!(bytes > 0 && !human_bytes(bytes).is_empty()),
                Size::Percent(_) => assert!(size.bytes(MEMORY_BYTES) <= MEMORY_BYTES),
            }
        }
        Err(e) => one_line_about(&e, text),
    }
});
