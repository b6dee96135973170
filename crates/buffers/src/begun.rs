//! Answers that have begun: one request gives the state of an object and what is read first of it.
//!
//! Who opens an object mostly reads it at once, and often it is known what: all of it, its beginning, its end. So that is asked for
//! in place of the state alone, which comes before the bytes. The bytes stay on their way until a request for some of them is due,
//! and are its answer then. An object that is read elsewhere costs no more than what its sender had under way.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::StreamExt;

use crate::checksum::Promise;
use crate::faults::fault;
use crate::held::{Chunks, pass, show};
use crate::source::{Answer, Begun, Fault, Sink, Stamp};

/// Bytes before a range that are passed over rather than asked for it anew.
const MOST_SKIPPED: u64 = 256 << 10;
/// Nobody keeps a connection longer for who does not read.
const KEPT: Duration = Duration::from_secs(5);

/// An answer of object_store that has begun.
pub(crate) struct Coming {
    stamp: Stamp,
    range: Range<u64>,
    promise: Option<Promise>,
    chunks: Chunks,
    at: Instant,
}

impl Coming {
    pub(crate) fn new(stamp: Stamp, range: Range<u64>, promise: Option<Promise>, chunks: Chunks) -> Coming {
        let promise = promise.filter(|promise| promise.of_whole().is_some() && range == (0..stamp.length));
        Coming { stamp, range, promise, chunks, at: Instant::now() }
    }

    async fn show_range(mut self, range: Range<u64>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let length = range.end - range.start;
        if let Some(promise) = self.promise.filter(|_| range == self.range) {
            let mut sum = promise.begin();
            let held = pass(self.chunks, length, &mut |bytes| sum.add(bytes), sink).await?;
            let Some(held) = held else { return Ok(()) };
            promise.check(sum, &range).map_err(Fault::Damaged)?;
            show(held, 0..usize::MAX, sink);
            return Ok(());
        }
        let (mut before, mut left) = (range.start - self.range.start, length);
        while left > 0 {
            let Some(chunk) = self.chunks.next().await else { break };
            let chunk = chunk.map_err(fault)?;
            let skipped = before.min(chunk.len() as u64);
            before -= skipped;
            let bytes = &chunk[skipped as usize..];
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= bytes.len() as u64;
            if !bytes.is_empty() && !sink(bytes) {
                break;
            }
        }
        Ok(())
    }
}

impl Begun for Coming {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn is_old(&self) -> bool {
        self.at.elapsed() > KEPT
    }

    fn has_from(&self, start: u64) -> u64 {
        let is_near = start.checked_sub(self.range.start).is_some_and(|before| before <= MOST_SKIPPED);
        if is_near { self.range.end.saturating_sub(start) } else { 0 }
    }

    fn show<'a>(self: Box<Self>, range: Range<u64>, sink: &'a mut Sink<'_>) -> Answer<'a, ()> {
        Box::pin(self.show_range(range, sink))
    }
}
