//! One request: its bytes go into the parts as they come, and each part to its readers as soon as it is full.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use foretell_policy::Nanos;

use crate::error::Error;
use crate::memory::{Buffer, Filling};
use crate::object::Run;
use crate::shared::Shared;
use crate::source::Fault;

/// Fills the parts of a run. Dropped, it says of those that did not come that they will not.
struct Filler {
    shared: Weak<Shared>,
    run: Run,
    part_bytes: u64,
    /// Parts that came.
    got: usize,
    bytes: u64,
    first: Option<Nanos>,
    buffer: Option<Filling>,
    error: Option<Error>,
}

impl Filler {
    fn asked(&self) -> std::ops::Range<u64> {
        let start = u64::from(self.run.first) * self.part_bytes;
        let end = start + self.run.parts as u64 * self.part_bytes;
        start..end.min(self.run.fixed.stamp.length)
    }

    /// Takes bytes; `false` when all have come, or nobody wants them any more.
    fn take(&mut self, mut chunk: &[u8]) -> bool {
        if self.run.fixed.closed.load(Ordering::Relaxed) {
            return false;
        }
        let Some(shared) = self.shared.upgrade() else { return false };
        self.first.get_or_insert_with(|| shared.now());
        self.bytes += chunk.len() as u64;
        let asked = self.asked();
        while !chunk.is_empty() && self.got < self.run.parts {
            let start = asked.start + self.got as u64 * self.part_bytes;
            let length = self.part_bytes.min(asked.end - start) as u32;
            let Some(mut filling) = self.buffer.take().or_else(|| shared.arena.take(length)) else {
                self.error = Some(Error::NoMemory { why: "readers hold all that there is".to_owned() });
                return false;
            };
            chunk = filling.fill(chunk);
            match filling.finish() {
                Ok(buffer) => {
                    if !self.deliver(&shared, buffer) {
                        return false;
                    }
                }
                Err(rest) => self.buffer = Some(rest),
            }
        }
        self.got < self.run.parts
    }

    fn deliver(&mut self, shared: &Arc<Shared>, buffer: Buffer) -> bool {
        let index = self.run.first + self.got as u32;
        self.got += 1;
        let is_open = {
            let mut state = shared.state();
            let is_open = state.arrived(shared.now(), &self.run, index, buffer.clone());
            shared.pump(&mut state);
            is_open
        };
        // Kept here no longer than its readers need it.
        if let Some(pending) = self.run.pending.pop_front() {
            pending.settle(Ok(buffer));
        }
        is_open
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.buffer = None;
        let missing = self.got < self.run.parts && !self.run.fixed.closed.load(Ordering::Relaxed);
        let error = missing.then(|| {
            let url = self.run.fixed.url.to_string();
            let cut_off = || Error::Failed { url, why: "its request was cut off".to_owned() };
            self.error.take().unwrap_or_else(cut_off)
        });
        if let Some(shared) = self.shared.upgrade() {
            let mut state = shared.state();
            let now = shared.now();
            state.ended(now, &self.run, self.first, self.got, self.bytes, error.as_ref());
            shared.pump(&mut state);
        }
        if let Some(error) = error {
            for pending in &self.run.pending {
                pending.settle(Err(error.clone()));
            }
        }
    }
}

/// Makes the request.
pub(crate) async fn serve(shared: Weak<Shared>, run: Run) {
    let Some(options) = shared.upgrade().map(|shared| shared.options.clone()) else { return };
    let fixed = run.fixed.clone();
    let mut filler = Filler {
        shared,
        run,
        part_bytes: options.part_bytes.into(),
        got: 0,
        bytes: 0,
        first: None,
        buffer: None,
        error: None,
    };
    let asked = filler.asked();
    let mut sink = |chunk: &[u8]| filler.take(chunk);
    let get = fixed.source.get(&fixed.path, &fixed.stamp, asked.clone(), &mut sink);
    let outcome = tokio::time::timeout(options.timeout, get).await;
    let url = || fixed.url.to_string();
    if filler.error.is_some() {
        return;
    }
    filler.error = Some(match outcome {
        Ok(Ok(())) => Error::Short { url: url(), sent: filler.bytes, asked: asked.end - asked.start },
        // Gone since it was opened: that is a change, too.
        Ok(Err(Fault::NotFound | Fault::Changed)) => Error::Changed { url: url() },
        Ok(Err(fault)) => fault.of(&fixed.url),
        Err(_) => Error::TimedOut { url: url(), after: options.timeout },
    });
}
