//! A configuration file: an error says the line; what will be done is written as a file that says the same.

#![no_main]

use std::path::Path;

use foretell::config::{Effective, File, Flags, Surroundings, resolve};
use foretell_fuzz::{MemoryFile, one_line, one_line_about};
use libfuzzer_sys::fuzz_target;

fn effective(file: &File) -> Result<Effective, String> {
    let around = Surroundings {
        working_directory: Path::new("/nowhere"),
        file_directory: Path::new("/nowhere"),
        memory_bytes: 1 << 34,
    };
    resolve(&Flags::default(), file, around).map_err(|e| format!("{e:#}"))
}

fuzz_target!(|text: &str| {
    let file = match File::read(MemoryFile::new(text.as_bytes()).path()) {
        Ok(file) => file,
        Err(e) => return one_line(&e),
    };
    match effective(&file) {
        Ok(done) => {
            let written = done.to_toml();
            let again = File::read(MemoryFile::new(written.as_bytes()).path());
            let again = again.unwrap_or_else(|e| panic!("{e}\n{written}"));
            // What was chosen is printed as a number and a comment.
            assert_eq!(effective(&again), Ok(Effective { chosen: None, ..done }), "{written}");
        }
        // TOML strings may hold line breaks, and messages quote them.
        Err(message) => one_line_about(&message, if text.contains('\\') { "\n" } else { text }),
    }
});
