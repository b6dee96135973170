//! The pool and its objects, as programs see them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use foretell_policy::{Block, FileId};

use crate::access::Access;
use crate::error::Error;
use crate::memory::{Buffer, Lease, MOST_READ_PARTS, Reference, Tell};
use crate::object::{Fixed, Got, Held, Sequence};
use crate::options::{ASKED, MOST_LISTED, Options, Patience};
use crate::part::{Pending, View};
use crate::readers::{Reading, now_ns, tick_ns};
use crate::shared::Shared;
use crate::source::{Begun, Entry, Fault, Source, Stamp};
use crate::state::best_fetches;
use crate::statistics::Statistics;
use crate::who::{By, Who};

/// Parts of a disclosure that the engine takes at once: about half a millisecond.
const DISCLOSED_AT_ONCE: usize = 4096;

/// A pool of buffers. See the crate's documentation. Clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    /// What a guest's stores are spoken to with, as which this is used.
    access: Option<Arc<Access>>,
}

impl Pool {
    /// A pool with nothing in it.
    ///
    /// # Errors
    /// When an option is outside of what is possible, or threads cannot be started.
    pub fn new(options: Options) -> Result<Pool, Error> {
        Ok(Pool { shared: Shared::new(options)?, access: None })
    }

    /// Opens an object by its URL: asks the store for its length and state, which are pinned.
    ///
    /// # Errors
    /// When the URL, an option or the store is wrong, and when there is no such object.
    pub fn open(&self, url: &str) -> Result<Object, Error> {
        let one = self.open_all(&[url])?.into_iter().next();
        one.unwrap_or_else(|| Err(Error::NotFound { url: url.to_owned() }))
    }

    pub(crate) fn of(shared: Arc<Shared>, access: Option<Arc<Access>>) -> Pool {
        Pool { shared, access }
    }

    pub(crate) fn store(&self, url: &str) -> Result<(usize, Arc<dyn Source>, String), Error> {
        self.shared.store(self.access.as_ref(), url)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Opens an object whose state is known from [`Pool::list`], without asking the store.
    ///
    /// # Errors
    /// When the URL or an option is wrong, or too many are open.
    pub fn open_listed(&self, url: &str, stamp: Stamp) -> Result<Object, Error> {
        self.shared.is_ours()?;
        let (number, source, path) = self.store(url)?;
        self.open_stamped(number, &source, url, &path, stamp)
    }

    /// Opens an object of a source that no URL leads to. `name` stands for the source.
    ///
    /// # Errors
    /// When there is no such object, or too many are open.
    pub fn open_in(&self, name: &str, source: &Arc<dyn Source>, path: &str) -> Result<Object, Error> {
        self.shared.is_ours()?;
        let number = self.shared.store_named(name, source)?;
        let url = format!("{name}/{path}");
        let things = vec![(source.clone(), path.to_owned())];
        let stamps = self.shared.ask(things, |(source, path): (Arc<dyn Source>, String)| async move {
            source.head(&path).await
        })?;
        let stamp = stamps.into_iter().next().unwrap_or(Err(Fault::NotFound)).map_err(|f| f.of(&url))?;
        self.open_stamped(number, source, &url, path, stamp)
    }

    pub(crate) fn open_stamped(
        &self,
        store: usize,
        source: &Arc<dyn Source>,
        url: &str,
        path: &str,
        stamp: Stamp,
    ) -> Result<Object, Error> {
        let (file, fixed) = self.shared.state().open(store, source, url, path, stamp)?;
        Ok(Object { handle: Arc::new(Handle { shared: self.shared.clone(), store, file, fixed }) })
    }

    /// What lies directly under a URL, or at any depth, as URLs of the same store. Entries without a stamp are folders.
    ///
    /// # Errors
    /// When the URL or an option is wrong, when the store refuses or cannot list, and beyond 1,048,576 entries.
    pub fn list(&self, url: &str, deep: bool) -> Result<Vec<Entry>, Error> {
        self.shared.is_ours()?;
        let (store, source, path) = self.store(url)?;
        let listed = self.shared.ask(vec![(source, path)], move |(source, path)| async move {
            source.list(&path, deep, MOST_LISTED).await
        })?;
        let entries = listed.into_iter().next().unwrap_or(Ok(Vec::new())).map_err(|fault| fault.of(url))?;
        let entries = not_too_many(entries)?;
        self.shared.state().list(store, &entries);
        Ok(entries)
    }

    /// Says what will be read, in this order, after all that was said before: object, offset, length. Gives how many of the
    /// ranges were taken: fewer than all when 4,194,304 parts are disclosed and not read yet.
    ///
    /// # Errors
    /// When a range reaches behind the end of its object, or the object belongs to another pool; then nothing is taken.
    pub fn disclose(&self, ranges: &[(&Object, u64, u64)]) -> Result<usize, Error> {
        self.disclose_as(ranges, None)
    }

    pub(crate) fn disclose_as(
        &self,
        ranges: &[(&Object, u64, u64)],
        who: Option<Who>,
    ) -> Result<usize, Error> {
        self.shared.is_ours()?;
        for (object, offset, length) in ranges {
            object.check(*offset, *length)?;
            if !Arc::ptr_eq(&object.handle.shared, &self.shared) {
                return Err(Error::OtherPool { url: object.url().to_owned() });
            }
        }
        let _in_order = self.shared.begin_disclosure();
        let mut room = self.shared.state().room_ahead(who);
        let mut blocks = Vec::new();
        let mut taken = 0;
        for (object, offset, length) in ranges {
            let parts = object.parts_of(*offset, *length);
            if parts.len() > room {
                break;
            }
            room -= parts.len();
            blocks.extend(parts.map(|part| Block::new(object.handle.file, part)));
            taken += 1;
        }
        // In pieces, so that readers do not wait for all of it.
        for piece in blocks.chunks(DISCLOSED_AT_ONCE) {
            let mut state = self.shared.state();
            state.disclose(self.shared.now(), piece, who);
            self.shared.pump(&mut state);
        }
        Ok(taken)
    }

    /// Withdraws what was disclosed and not read yet.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn cancel(&self) -> Result<(), Error> {
        self.cancel_as(None)
    }

    pub(crate) fn cancel_as(&self, who: Option<Who>) -> Result<(), Error> {
        self.shared.is_ours()?;
        let mut state = self.shared.state();
        state.cancel(self.shared.now(), who);
        self.shared.pump(&mut state);
        Ok(())
    }

    pub(crate) fn begin_manager(&self) -> Result<Who, Error> {
        self.shared.state().begin_manager()
    }

    pub(crate) fn end_manager(&self, who: Who) {
        let mut state = self.shared.state();
        state.end_manager(self.shared.now(), who);
        self.shared.pump(&mut state);
    }

    /// How the pool fares.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.shared.is_ours()?;
        let (counts, recorded) = {
            let state = self.shared.state();
            (state.statistics(), state.recorded())
        };
        Ok(Statistics { best_fetches: best_fetches(recorded), ..counts })
    }

    /// What there is to say of the pool, in one line: that local files are read by threads, and why. `None` as a rule.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let why = self.shared.rings.refused()?;
        Some(format!("io_uring: {why}; local files are read and written by threads"))
    }

    /// How it was made.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }
}

/// A listing, unless it was cut off.
fn not_too_many(entries: Vec<Entry>) -> Result<Vec<Entry>, Error> {
    let too_many = Error::Limit { what: "entries of a listing", limit: MOST_LISTED as u64 };
    if entries.len() > MOST_LISTED { Err(too_many) } else { Ok(entries) }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("options", self.options()).finish_non_exhaustive()
    }
}

struct Handle {
    shared: Arc<Shared>,
    store: usize,
    file: FileId,
    fixed: Arc<Fixed>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.is_ours().is_ok() {
            let mut state = self.shared.state();
            state.close(self.store, self.file);
            self.shared.pump(&mut state);
        }
    }
}

/// An open object. Clones are the same one; what the pool has of an object goes when the last handle of it is dropped.
#[derive(Clone)]
pub struct Object {
    handle: Arc<Handle>,
}

impl Object {
    /// Its URL, as it was opened.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.handle.fixed.url
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.handle.fixed.stamp.length
    }

    /// The state that it was opened in.
    #[must_use]
    pub fn stamp(&self) -> &Stamp {
        &self.handle.fixed.stamp
    }

    /// How many parts it has.
    #[must_use]
    pub fn parts(&self) -> u32 {
        self.parts_of(0, self.length()).end
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the object is too short, has changed since it was opened, or its store fails. What is in `buffer` then has no
    /// meaning.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        if self.read_now(buffer, offset)? {
            return Ok(());
        }
        let length = buffer.len() as u64;
        let mut rest = &mut *buffer;
        self.read_to(offset, length, self.by(), &mut |bytes| {
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            mine.copy_from_slice(bytes);
            rest = others;
            true
        })
    }

    /// Fills `buffer` as [`Object::read_at`] does, but only if that takes no wait: `false` if some of it is not in memory, or
    /// more parts are touched than are read without the pool's lock. Then nothing was asked for.
    ///
    /// # Errors
    /// When the object is too short, and after a fork.
    pub fn read_now(&self, buffer: &mut [u8], offset: u64) -> Result<bool, Error> {
        let length = buffer.len() as u64;
        self.check(offset, length)?;
        self.handle.shared.is_ours()?;
        let Some(reference) = self.reference(self.parts_of(offset, length)) else { return Ok(false) };
        let within = (offset - u64::from(reference.first) * self.part_bytes()) as usize;
        let read = self.handle.shared.arena.read(reference, within, buffer);
        if let Some(tell) = read {
            self.was_read(reference, tell);
        }
        Ok(read.is_some())
    }

    /// What is left for a read that is answered without the lock; `None` if it is none of those.
    #[inline]
    fn reference(&self, parts: std::ops::Range<u32>) -> Option<Reference> {
        let at_ns = tick_ns();
        let Reading { reader, compute_ns } = Reading::begin(self.handle.shared.number, at_ns);
        let (serial, first, parts) = (self.handle.fixed.serial, parts.start, parts.len() as u32);
        let reference = Reference { serial, first, parts, at_ns, compute_ns, reader };
        (1..=MOST_READ_PARTS).contains(&parts).then_some(reference)
    }

    /// A read was answered without the lock.
    #[inline]
    fn was_read(&self, reference: Reference, tell: Tell) {
        let shared = &self.handle.shared;
        match tell {
            Tell::Nothing => {}
            Tell::Soon => shared.catch_up_soon(),
            Tell::Now => shared.catch_up(),
        }
        Reading::end(shared.number, reference.at_ns);
    }

    /// This thread, as who reads.
    fn by(&self) -> By {
        By { who: None, reading: Reading::begin(self.handle.shared.number, now_ns()) }
    }

    /// Its serial number in the pool.
    pub(crate) fn serial(&self) -> u64 {
        self.handle.fixed.serial
    }

    /// Shows the bytes of a range in order, piece by piece and none of them empty, until `show` does not want more.
    pub(crate) fn read_to(
        &self,
        offset: u64,
        length: u64,
        by: By,
        show: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        self.check(offset, length)?;
        let part_bytes = self.part_bytes();
        let (mut at, end) = (offset, offset + length);
        self.visit(offset, length, by, |bytes| {
            let within = (at % part_bytes) as usize;
            let count = ((end - at) as usize).min(bytes.len().saturating_sub(within));
            at += count as u64;
            show(&bytes[within..within + count])
        })
    }

    /// What is read first of it comes from an answer that has begun.
    pub(crate) fn begin(&self, begun: Box<dyn Begun>) {
        let given_up = self.handle.shared.state().begin(self.handle.file, &self.handle.fixed, begun);
        // Without the lock.
        drop(given_up);
    }

    /// The number of its store in the pool.
    pub(crate) fn store(&self) -> usize {
        self.handle.store
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Its number to the engine.
    pub(crate) fn file(&self) -> FileId {
        self.handle.file
    }

    /// To be kept open without a handle, until it is released.
    pub(crate) fn held(&self) -> Held {
        self.handle.shared.state().hold(self.handle.file);
        Held { store: self.handle.store, file: self.handle.file }
    }

    pub(crate) fn is(&self, held: &Held) -> bool {
        *held == Held { store: self.handle.store, file: self.handle.file }
    }

    /// Closes what was held of the same pool.
    pub(crate) fn release(&self, held: Vec<Held>) {
        if !held.is_empty() {
            let mut state = self.handle.shared.state();
            for one in held {
                state.close(one.store, one.file);
            }
            self.handle.shared.pump(&mut state);
        }
    }

    /// A part of the object, without a copy. It stays in memory as long as it is held.
    ///
    /// # Errors
    /// As [`Object::read_at`]; and when as many bytes are held in views as the budget has.
    #[inline]
    pub fn view(&self, part: u32) -> Result<View, Error> {
        let part_bytes = self.part_bytes();
        let offset = u64::from(part) * part_bytes;
        let length = self.length().saturating_sub(offset).clamp(1, part_bytes);
        self.check(offset, length)?;
        let shared = &self.handle.shared;
        shared.is_ours()?;
        if let Some(reference) = self.reference(part..part.saturating_add(1))
            && let Some((lease, tell)) = shared.arena.lease(reference)
        {
            self.was_read(reference, tell);
            return self.leased(Some(lease));
        }
        self.view_later(offset, length)
    }

    /// The same of a part that is not there, or not found without the lock.
    #[cold]
    fn view_later(&self, offset: u64, length: u64) -> Result<View, Error> {
        let mut found = None;
        self.visit(offset, length, self.by(), |bytes| {
            found = Some(bytes.lease());
            true
        })?;
        self.leased(found)
    }

    #[inline]
    fn leased(&self, found: Option<Lease>) -> Result<View, Error> {
        let budget_bytes = self.handle.shared.options.budget_bytes;
        match found.and_then(|lease| View::new(lease, budget_bytes)) {
            Some(view) => Ok(view),
            None => Err(Error::Limit { what: "bytes in views, the budget; drop some", limit: budget_bytes }),
        }
    }

    /// References the parts of a range, some of them before it has waited for the first, and shows each in order, until
    /// `show` does not want more.
    fn visit(
        &self,
        offset: u64,
        length: u64,
        by: By,
        mut show: impl FnMut(&Buffer) -> bool,
    ) -> Result<(), Error> {
        let shared = &self.handle.shared;
        shared.is_ours()?;
        let mut parts = self.parts_of(offset, length);
        let at_a_time = shared.options.read_parts();
        let mut ahead: VecDeque<Got> = VecDeque::new();
        let mut compute = None;
        let mut first = true;
        let mut patience = Patience::new(shared.options.keep_waiting);
        while !parts.is_empty() || !ahead.is_empty() {
            // Half of them at a time, so that neighbours become one request.
            if ahead.len() <= at_a_time / 2 && !parts.is_empty() {
                let mut state = shared.state();
                let now = shared.now();
                let mut order = Sequence::InOrder;
                if std::mem::take(&mut first) {
                    compute = state.begin_read(by.reading, parts.len() as u32);
                    order = state.sequence(self.handle.file, &parts, by.who);
                }
                let end = parts.end.min(parts.start.saturating_add((at_a_time - ahead.len()) as u32));
                let some = std::mem::replace(&mut parts.start, end)..end;
                let got = state.references(now, self.handle.file, some, order, compute, by.who);
                shared.pump(&mut state);
                ahead.extend(got?);
            }
            let goes_on = match ahead.pop_front() {
                Some(Got::Ready(buffer)) => show(&buffer),
                Some(Got::Wait(pending)) => {
                    let buffer = self.wait(&pending, &mut patience)?;
                    patience.ask()?;
                    show(&buffer)
                }
                None => true,
            };
            if !goes_on {
                break;
            }
        }
        Reading::end(shared.number, now_ns());
        Ok(())
    }

    fn wait(&self, pending: &Pending, patience: &mut Patience) -> Result<Buffer, Error> {
        let after = self.handle.shared.options.timeout;
        let until = Instant::now() + after;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(outcome) = pending.wait(left.min(ASKED)) {
                return outcome;
            }
            if left.is_zero() {
                return Err(Error::TimedOut { url: self.url().to_owned(), after });
            }
            patience.ask()?;
        }
    }

    /// Bytes of a part of its pool.
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        self.handle.shared.options.part_bytes.into()
    }

    /// The parts that a range touches.
    fn parts_of(&self, offset: u64, length: u64) -> std::ops::Range<u32> {
        let part_bytes = self.part_bytes();
        let (first, within) = (offset / part_bytes, offset % part_bytes);
        let parts = match within + length {
            _ if length == 0 => 0,
            to if to <= part_bytes => 1,
            to => to.div_ceil(part_bytes),
        };
        // No object has more parts than that.
        first as u32..(first + parts) as u32
    }

    #[inline]
    pub(crate) fn check(&self, offset: u64, length: u64) -> Result<(), Error> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length() => Ok(()),
            _ => Err(self.past_end(offset, length)),
        }
    }

    #[cold]
    fn past_end(&self, offset: u64, length: u64) -> Error {
        Error::PastEnd { url: self.url().to_owned(), offset, length, object_bytes: self.length() }
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("url", &self.url())
            .field("stamp", self.stamp())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_that_was_cut_off_is_an_error() {
        let entry = Entry { path: String::new(), stamp: None };
        assert!(not_too_many(vec![entry.clone(); MOST_LISTED]).is_ok());
        let error = not_too_many(vec![entry; MOST_LISTED + 1]).unwrap_err();
        assert_eq!(error.to_string(), "no more than 1048576 entries of a listing");
    }
}
