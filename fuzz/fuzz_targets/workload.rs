//! A workload of the model, as text: what is understood can be checked and asked for its numbers, which are some.

#![no_main]

use foretell::workload::parse;
use foretell_fuzz::{one_line, one_line_about};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let workload = match parse(text, 1 << 30) {
        Ok(workload) => workload,
        Err(e) => return one_line_about(&e, text),
    };
    match workload.check(1 << 40) {
        Ok(()) => assert!(workload.reads() > 0),
        Err(e) => one_line(&e),
    }
});
