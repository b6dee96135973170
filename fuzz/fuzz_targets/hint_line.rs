//! One line of a hint file: what was understood is written as a line that reads back the same.

#![no_main]

use foretell::hints::line::{MAX_PATH_BYTES, parse, write};
use foretell_fuzz::one_line;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    match parse(line) {
        Ok(None) => {}
        Ok(Some(hint)) => {
            assert!((1..=MAX_PATH_BYTES).contains(&hint.path.len()) && !hint.path.contains(&0));
            assert!(hint.range.is_none_or(|range| range.length > 0 && range.end() > range.offset));
            let written = write(&hint.path, hint.range);
            assert!(!written.contains(&b'\n') && std::str::from_utf8(&written).is_ok());
            assert_eq!(parse(&written), Ok(Some(hint)));
        }
        Err(e) => one_line(&e),
    }
});
