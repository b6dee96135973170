//! One request: its bytes go into the parts as they come, and each part to its readers as soon as it is full.

use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use foretell_policy::Nanos;
use futures_util::future::{Either, select};

use crate::error::Error;
use crate::memory::{Buffer, Filling};
use crate::object::{Fixed, Run};
use crate::shared::Shared;
use crate::source::Fault;

/// A request of which nothing has come for so long is silent ([`crate::silent`]).
const SILENT: Duration = Duration::from_secs(1);

/// Which of two requests for the same bytes is listened to.
const NOBODY: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;

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
    /// Pieces that came, of whatever length.
    pieces: u64,
    /// Nothing has come for some time.
    is_silent: bool,
    /// Its place is lent to another request.
    is_lent: bool,
}

impl Filler {
    fn asked(&self) -> Range<u64> {
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
        self.pieces += 1;
        self.is_heard(&shared);
        self.bytes += chunk.len() as u64;
        if let Some(pieces) = &mut self.run.pieces {
            pieces.add(chunk);
        }
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

    /// Has something come since so many pieces had? If not, the request is silent. Gives how many have come.
    fn listen(&mut self, pieces: u64) -> u64 {
        if self.pieces == pieces
            && !self.is_silent
            && let Some(shared) = self.shared.upgrade()
        {
            let mut state = shared.state();
            self.is_silent = true;
            self.is_lent = state.is_silent(&self.run, self.got);
            shared.pump(&mut state);
        }
        self.pieces
    }

    fn is_heard(&mut self, shared: &Shared) {
        if std::mem::take(&mut self.is_silent) {
            shared.state().is_heard(&self.run, std::mem::take(&mut self.is_lent));
        }
    }

    fn deliver(&mut self, shared: &Arc<Shared>, buffer: Buffer) -> bool {
        let index = self.run.first + self.got as u32;
        let is_last = self.got + 1 == self.run.parts;
        let pieces = if is_last { self.run.pieces.take() } else { None };
        let is_open = {
            let mut state = shared.state();
            if let Some(pieces) = pieces
                && let Err(error) = state.summed(shared.now(), &self.run, pieces)
            {
                self.error = Some(error);
                return false;
            }
            self.got += 1;
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
            self.is_heard(&shared);
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
        pieces: 0,
        is_silent: false,
        is_lent: false,
    };
    let asked = filler.asked();
    let outcome = match tokio::time::timeout(options.timeout, ask(&mut filler, &fixed, asked.clone())).await {
        Ok(outcome) => outcome.map_err(|fault| match fault {
            // Gone since it was opened: that is a change, too.
            Fault::NotFound | Fault::Changed => Error::Changed { url: fixed.url.to_string() },
            fault => fault.of(&fixed.url),
        }),
        Err(_) => Err(Error::TimedOut { url: fixed.url.to_string(), after: options.timeout }),
    };
    let short =
        || Error::Short { url: fixed.url.to_string(), sent: filler.bytes, asked: asked.end - asked.start };
    if filler.error.is_none() {
        filler.error = Some(outcome.err().unwrap_or_else(short));
    }
}

/// Asks the store, and lets others go first as long as it is silent.
async fn ask(filler: &mut Filler, fixed: &Fixed, range: Range<u64>) -> Result<(), Fault> {
    let shared = filler.shared.clone();
    let filler = Mutex::new(filler);
    let listening = async {
        let mut pieces = 0;
        loop {
            tokio::time::sleep(SILENT).await;
            pieces = filler.lock().unwrap_or_else(PoisonError::into_inner).listen(pieces);
        }
    };
    match select(pin!(ask_twice(&shared, &filler, fixed, range)), pin!(listening)).await {
        Either::Left((outcome, _)) => outcome,
        // It never ends.
        Either::Right((never, _)) => never,
    }
}

/// Asks the store, and once more when it keeps the first byte back for longer than is usual. Who sends it first is listened
/// to, the other one let go.
async fn ask_twice(
    shared: &Weak<Shared>,
    filler: &Mutex<&mut Filler>,
    fixed: &Fixed,
    range: Range<u64>,
) -> Result<(), Fault> {
    let begun = filler.lock().unwrap_or_else(PoisonError::into_inner).run.begun.take();
    if let Some(begun) = begun {
        let mut sink = |chunk: &[u8]| filler.lock().unwrap_or_else(PoisonError::into_inner).take(chunk);
        let outcome = begun.show(range.clone(), &mut sink).await;
        // Its connection may be closed by now.
        if outcome.is_ok() || filler.lock().unwrap_or_else(PoisonError::into_inner).bytes > 0 {
            return outcome;
        }
    }
    let slow_after = shared.upgrade().and_then(|shared| shared.state().slow_after());
    let heard = AtomicUsize::new(NOBODY);
    let request = |number: usize| {
        let (heard, range) = (&heard, range.clone());
        async move {
            let mut sink = |chunk: &[u8]| {
                let first = heard.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed);
                let is_heard = first.is_ok() || first == Err(number);
                is_heard && filler.lock().unwrap_or_else(PoisonError::into_inner).take(chunk)
            };
            fixed.source.get(&fixed.path, &fixed.stamp, range, &mut sink).await
        }
    };
    let first = pin!(request(FIRST));
    let Some(slow_after) = slow_after else { return first.await };
    let first = match select(first, pin!(tokio::time::sleep(slow_after))).await {
        Either::Left((outcome, _)) => return outcome,
        Either::Right(((), first)) => first,
    };
    let may_hedge = || shared.upgrade().is_some_and(|shared| shared.state().may_hedge());
    if heard.load(Ordering::Relaxed) != NOBODY || !may_hedge() {
        return first.await;
    }
    let second = pin!(request(SECOND));
    let (number, outcome, other) = match select(first, second).await {
        Either::Left((outcome, second)) => (FIRST, outcome, Either::Left(second)),
        Either::Right((outcome, first)) => (SECOND, outcome, Either::Right(first)),
    };
    // Who ends without having been listened to is not the one whose end counts.
    let outcome = if heard.load(Ordering::Relaxed) == number { outcome } else { other.await };
    if heard.load(Ordering::Relaxed) == SECOND
        && let Some(shared) = shared.upgrade()
    {
        shared.state().hedge_won();
    }
    outcome
}
