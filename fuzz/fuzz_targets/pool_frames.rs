//! What the host of a pool and its guests say to each other, in both directions: what was understood is written and reads back the
//! same, and nothing else is taken for a frame.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| foretell_buffers::understand(bytes));
