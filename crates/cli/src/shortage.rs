//! Memory that becomes short while we work for a job: then it gets ours.
//!
//! What is left is looked at a few times a second. A job that takes all of it between two looks is kept alive by the kernel's
//! choice of whom to end, which is us (`foretell_pagecache::go_first`); one that takes it slowly never comes so far, and what
//! was seen of it until then is not lost.

use std::time::{Duration, Instant};

use foretell_learn::memory;

/// With less free memory than this for page cache we give up: about as much as we give back.
const SHORT_BYTES: u64 = 8 << 20;
/// How often it is looked: that takes some 0.1 ms.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks whether memory is short.
#[derive(Debug)]
pub(crate) struct Shortage {
    next: Instant,
}

impl Shortage {
    /// From now on.
    pub(crate) fn watching() -> Shortage {
        Shortage { next: Instant::now() + LOOK_EVERY }
    }

    /// Is there one? In words, with what is left.
    pub(crate) fn found(&mut self) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + LOOK_EVERY;
        let free = memory::free_bytes().filter(|free| *free < SHORT_BYTES)?;
        Some(format!("only {} MiB of memory are left", free >> 20))
    }
}
