//! Bytes that are kept back because only when all of an answer is there it is known whether they are right: all of them, or the
//! last ones.
//!
//! The pool has counted them already, with the parts that they are for; no part takes memory before it is shown its bytes.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use crate::faults::fault;
use crate::source::{Fault, Sink};

/// An answer of object_store.
pub(crate) type Chunks = BoxStream<'static, object_store::Result<Bytes>>;

/// What is kept back.
pub(crate) type Held = VecDeque<Bytes>;

/// Keeps `length` bytes back until they are all there, and adds them up. The pool has room for them; `None` if they are not wanted
/// any more.
pub(crate) async fn hold(
    mut chunks: Chunks,
    length: u64,
    add: &mut (dyn FnMut(&[u8]) + Send),
    sink: &mut Sink<'_>,
) -> Result<Option<Held>, Fault> {
    let (mut held, mut left) = (Held::new(), length);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(fault)?;
        let chunk = chunk.slice(..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        left -= chunk.len() as u64;
        add(&chunk);
        held.push_back(chunk);
        if !sink(&[]) {
            return Ok(None);
        }
        if left == 0 {
            return Ok(Some(held));
        }
    }
    // An empty object.
    if length == 0 {
        return Ok(Some(held));
    }
    Err(too_early(left))
}

/// Shows all of `length` bytes as they come but the last ones, which are kept back, and adds them up. `None` if they are not wanted any
/// more.
pub(crate) async fn pass(
    mut chunks: Chunks,
    length: u64,
    add: &mut (dyn FnMut(&[u8]) + Send),
    sink: &mut Sink<'_>,
) -> Result<Option<Held>, Fault> {
    let mut left = length;
    while left > 0 {
        let Some(chunk) = chunks.next().await else { return Err(too_early(left)) };
        let chunk = chunk.map_err(fault)?;
        let chunk = chunk.slice(..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        left -= chunk.len() as u64;
        add(&chunk);
        if left == 0 {
            return Ok(Some(Held::from([chunk])));
        }
        if !sink(&chunk) {
            return Ok(None);
        }
    }
    // An empty object.
    Ok(Some(Held::new()))
}

fn too_early(left: u64) -> Fault {
    Fault::Failed(format!("its answer ended {left} bytes too early"))
}

/// Shows some of what was kept back, and lets go of it.
pub(crate) fn show(held: Held, mut wanted: Range<usize>, sink: &mut Sink<'_>) {
    for chunk in held {
        let bytes = &chunk[wanted.start.min(chunk.len())..wanted.end.min(chunk.len())];
        if !bytes.is_empty() && !sink(bytes) {
            return;
        }
        wanted = wanted.start.saturating_sub(chunk.len())..wanted.end.saturating_sub(chunk.len());
    }
}
