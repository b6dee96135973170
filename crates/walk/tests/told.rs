//! Who asks how good the guesses were is told of all that was said before.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::path::Path;
use std::sync::Arc;

use foretell_walk::{Found, Means, Piece, Walker};

/// Pages of a file that is read as a whole after some waits.
const PAGES: u32 = 2048;

/// All pages once, in no order that could be foretold: a generator of full period modulo a power of two (Hull, Dobell 1962).
fn in_no_order() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(7), |page| Some((page * 1_229 + 331) % PAGES)).take(PAGES as usize)
}

#[test]
fn what_was_told_is_followed_before_it_is_said_how_good_the_guesses_were() {
    let walker = Walker::start(Means {
        fetch: |_, _| Found::Absent,
        blocks_read: || 0,
        readers: |_| 1,
        has_arm: |_| false,
        beginning: |_, _| None,
        fetch_together: |_| Vec::new(),
        beside: |_| None,
        along_bytes: 0,
        budget_bytes: 64 << 20,
        whole_bytes: 64 << 20,
    })
    .unwrap();
    let path: Arc<Path> = Path::new("/records").into();
    for (n, page) in in_no_order().enumerate() {
        // Ten waits are more than it takes to read 8 MiB; all that comes after them is there.
        let waited_ns = if n < 10 { 50_000_000 } else { 0 };
        let path = Arc::clone(&path);
        walker.read(Piece { process: 1, file: 1, path, pages: page..page + 1, of: PAGES, waited_ns });
    }
    let streams = walker.guesses().streams;
    assert!(streams.asked_pages > 2_000 && streams.used_pages > 1_900, "{streams:?}");
}
