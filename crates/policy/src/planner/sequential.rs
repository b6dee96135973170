//! Readahead without hints: what file systems do by themselves when a file is read in order.
//!
//! - `Bsd`: 4.4BSD's clusters. While a file is read sequentially, each time the process reaches the end
//!   of what was fetched ahead the next cluster is fetched, twice as large as the last one, up to 64 KiB
//!   (Shriver, Small, Smith 1999, section 2).
//! - `Linux`: a window with a marker. The first sequential miss fetches an initial window; when the
//!   process reaches the marker (the first block of the window's asynchronous part), the next window is
//!   fetched behind it, four times as large while small and then twice, up to the maximum
//!   (mm/readahead.c: `get_init_ra_size`, `get_next_ra_size`, `page_cache_async_ra`).
//!
//! One stream a file is followed, as the kernel does for one open file.

use super::{Occasion, Planner};
use crate::blocks::State;
use crate::books::Desk;
use crate::config::Config;
use crate::ids::{Block, ManagerId};

/// Largest cluster of 4.4BSD, in 8 KiB blocks (64 KiB).
const BSD_CLUSTER_BLOCKS: u32 = 8;

/// How a file is being read.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// The block that would continue the stream.
    next: u32,
    /// One past the last block fetched ahead.
    ahead_to: u32,
    /// Blocks of the last window.
    window: u32,
    /// Reaching this block fetches the next window.
    marker: Option<u32>,
}

/// Which system's rule.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Bsd,
    Linux,
}

#[derive(Debug)]
pub(crate) struct Sequential {
    rule: Rule,
    /// How each file is being read. Files are dense numbers, as many as [`crate::Limits::files`].
    streams: Vec<Stream>,
}

impl Planner for Sequential {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, occasion: Occasion) {
        let Occasion::Reference(block) = occasion else { return };
        let _ = self.follow(desk, manager, block, true);
    }
}

impl Sequential {
    pub(super) fn bsd(_: &Config) -> Sequential {
        Sequential { rule: Rule::Bsd, streams: Vec::new() }
    }

    pub(crate) fn linux(_: &Config) -> Sequential {
        Sequential { rule: Rule::Linux, streams: Vec::new() }
    }

    /// Follows how a file is being read, and reads ahead if `fetch` says so. Says whether a window was left out.
    pub(super) fn follow(
        &mut self,
        desk: &mut Desk<'_>,
        manager: ManagerId,
        block: Block,
        fetch: bool,
    ) -> bool {
        let ahead = match self.rule {
            Rule::Bsd => self.bsd_ahead(block),
            Rule::Linux => self.linux_ahead(block, desk.config().readahead_blocks.max(1)),
        };
        let Some((from, to)) = ahead else { return false };
        if fetch {
            fetch_run(desk, manager, block, from, to);
        }
        !fetch
    }

    /// Fetches what is left of a file's window at this reference: its beginning was left out.
    pub(super) fn catch_up(&self, desk: &mut Desk<'_>, manager: ManagerId, block: Block) {
        fetch_run(desk, manager, block, block.index.saturating_add(1), self.stream(block).ahead_to);
    }

    /// What 4.4BSD reads ahead at this reference, if anything: from one block up to another one.
    fn bsd_ahead(&mut self, block: Block) -> Option<(u32, u32)> {
        let s = self.stream(block);
        if block.index.saturating_add(1) == s.next {
            return None;
        }
        let mut ahead = None;
        let mut next = Stream { next: block.index.saturating_add(1), ..s };
        if block.index != s.next {
            next = Stream {
                next: block.index.saturating_add(1),
                ahead_to: block.index.saturating_add(1),
                window: 0,
                marker: None,
            };
        } else if block.index.saturating_add(1) >= s.ahead_to {
            next.window = (s.window.saturating_mul(2)).clamp(1, BSD_CLUSTER_BLOCKS);
            next.ahead_to = block.index.saturating_add(1).saturating_add(next.window);
            ahead = Some((block.index.saturating_add(1), next.ahead_to));
        }
        self.set_stream(block, next);
        ahead
    }

    /// What Linux reads ahead at this reference, with windows of at most `max` blocks.
    pub(crate) fn linux_ahead(&mut self, block: Block, max: u32) -> Option<(u32, u32)> {
        let s = self.stream(block);
        if block.index.saturating_add(1) == s.next {
            return None;
        }
        let mut ahead = None;
        let mut next = Stream { next: block.index.saturating_add(1), ..s };
        let sequential = block.index == s.next;
        if s.marker == Some(block.index) {
            next.window = if s.window < max / 16 {
                s.window.saturating_mul(4)
            } else {
                s.window.saturating_mul(2).min(max)
            };
            next.ahead_to = s.ahead_to.saturating_add(next.window);
            next.marker = Some(s.ahead_to);
            ahead = Some((s.ahead_to, next.ahead_to));
        } else if block.index >= s.ahead_to || !sequential {
            if sequential || block.index == 0 {
                let first = if max >= 32 {
                    4
                } else if max >= 4 {
                    2
                } else {
                    max
                };
                next.window = first;
                next.ahead_to = block.index.saturating_add(first);
                // The first block is the demand fetch; the marker follows it.
                next.marker = (first > 1).then_some(block.index.saturating_add(1));
                ahead = Some((block.index.saturating_add(1), next.ahead_to));
            } else {
                next = Stream {
                    next: block.index.saturating_add(1),
                    ahead_to: block.index.saturating_add(1),
                    window: 0,
                    marker: None,
                };
            }
        }
        self.set_stream(block, next);
        ahead
    }

    fn stream(&self, block: Block) -> Stream {
        self.streams.get(block.file.0 as usize).copied().unwrap_or_default()
    }

    fn set_stream(&mut self, block: Block, stream: Stream) {
        let file = block.file.0 as usize;
        if self.streams.len() <= file {
            self.streams.resize(file + 1, Stream::default());
        }
        self.streams[file] = stream;
    }
}

/// Linux's readahead by itself, for planes that play the kernel.
#[derive(Debug)]
pub struct KernelReadahead(Sequential);

impl Default for KernelReadahead {
    fn default() -> KernelReadahead {
        KernelReadahead(Sequential { rule: Rule::Linux, streams: Vec::new() })
    }
}

impl KernelReadahead {
    /// What is read ahead when this block is referenced: blocks of its file, none of them if the range is empty, with
    /// windows of at most `most` blocks. It may reach beyond the file's end.
    pub fn ahead(&mut self, block: Block, most: u32) -> std::ops::Range<u32> {
        let (from, to) = self.0.linux_ahead(block, most.max(1)).unwrap_or_default();
        from..to
    }
}

/// Fetches the absent ones of a file's blocks `from..to`. What is left there of a list that says nothing at present is
/// scattered, and would be replaced just before the reader comes to it: it is kept as what is fetched is.
fn fetch_run(desk: &mut Desk<'_>, manager: ManagerId, at: Block, from: u32, to: u32) {
    let keeps = desk.is_suspended(manager);
    for index in from..to {
        let Some(b) = desk.find_or_add(Block::new(at.file, index)) else { return };
        if keeps && desk.state(b) == State::Cached {
            desk.touch(b);
        } else if desk.is_fetchable(b) && !desk.prefetch(manager, b) {
            return;
        }
    }
}
