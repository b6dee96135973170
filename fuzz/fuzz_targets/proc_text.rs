//! What `/proc` says: the first byte says of what, the rest is the file. Nothing that a program or whoever mounts a file
//! system may write into it is more than bytes, and what is found lies within what was asked for.

#![no_main]

use foretell_pagecache::FileKey;
use foretell_pagecache::proc_text::{
    Credentials, mapped, mount_points, name, own_memory, share_of_memory, state,
};
use libfuzzer_sys::fuzz_target;

const KEY: FileKey = FileKey { dev: (8 << 20) | 1, ino: 1234 };

fuzz_target!(|bytes: &[u8]| {
    let Some((which, text)) = bytes.split_first() else { return };
    match which % 7 {
        0 => {
            let lines = text.split(|&byte| byte == b'\n').count();
            assert!(mount_points(text, KEY.dev).count() <= lines);
        }
        1 => {
            for (range, whole) in mapped(text, KEY, 4096..1 << 20).expect("bytes in memory can be read") {
                assert!(range.start < range.end && range.len() <= (1 << 20) - 4096);
                assert!(whole.start <= range.start as u64 && range.end as u64 <= whole.end);
            }
        }
        2 => {
            if let Some(credentials) = Credentials::read(text)
                && !credentials.are_foreign(7)
            {
                assert_eq!((credentials.users, credentials.has_capabilities), ([7; 4], false));
            }
        }
        3 => assert!(own_memory(text).is_none_or(|memory| memory.private_bytes % 1024 == 0)),
        4 => assert!(share_of_memory(text).is_none_or(|bytes| bytes % 1024 == 0)),
        5 => assert!(state(text).is_none_or(|state| text.contains(&state))),
        _ => assert!(name(text).chars().count() <= text.len()),
    }
});
