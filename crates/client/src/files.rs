//! Files by descriptor.
//!
//! A program names a file by the number of a descriptor; the service knows it by a handle that stands for the
//! file itself, (device, inode). The same number may mean another file a moment later, as a program that reads
//! many small files opens each of them under the number of the one before. So every call asks the kernel what
//! the number means (`fstat`, a tenth of a microsecond), but only once for all ranges of the call. And a
//! disclosure that does not begin at the start of the file takes it for the one that the same number meant in
//! the call just before, within the same tick of the clock: a program would have to close it, open another one
//! and begin to disclose in its middle, all within milliseconds, for one of its hints to go to the wrong one
//! of its files.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use foretell_protocol::Handle;
use rustix::fs::{FileType, OFlags};

use crate::error::Error;

/// Files known at a time: more than a program usually has open, in some 2 MiB.
pub(crate) const FILES: usize = 1 << 14;
/// Descriptor numbers with a place in the table; those of a higher number are looked up by file each time.
const NUMBERS: usize = 1 << 16;
/// Calls in a row for which a number is believed to mean the same file.
const BELIEVED_CALLS: u32 = 64;
/// Files looked at to find one that a hint may take the place of. A directive looks at all of them.
pub(crate) const CANDIDATES: usize = 64;

/// The descriptor of this number, for calls that say so if there is none.
#[allow(unsafe_code)]
pub(crate) fn borrow(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: a number here was that of a descriptor before, so it is not -1. That another thread may have
    // closed it since is expected: it is handed only to system calls that look (fstat, fcntl) or pass on what
    // was looked at (sendmsg), which fail on a closed one and do no harm with a reused one.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    device: u64,
    inode: u64,
}

/// A descriptor as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: Key,
    pub(crate) bytes: u64,
}

/// Looks at a descriptor: a regular file, or an error.
pub(crate) fn look(descriptor: BorrowedFd<'_>) -> Result<Seen, Error> {
    let stat = rustix::fs::fstat(descriptor).map_err(|error| Error::Descriptor(error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::NotAFile);
    }
    let key = Key { device: stat.st_dev, inode: stat.st_ino };
    Ok(Seen { key, bytes: stat.st_size.cast_unsigned() })
}

/// Is the descriptor open for reading?
pub(crate) fn check_readable(descriptor: BorrowedFd<'_>) -> Result<(), Error> {
    let flags = rustix::fs::fcntl_getfl(descriptor).map_err(|error| Error::Descriptor(error.into()))?;
    let readable = matches!(flags & OFlags::ACCMODE, OFlags::RDONLY | OFlags::RDWR);
    if readable && !flags.contains(OFlags::PATH) { Ok(()) } else { Err(Error::NotReadable) }
}

/// A file that was named in a call.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// The last number that meant it.
    pub(crate) number: RawFd,
    /// Its long-term priority, if one was ever set.
    pub(crate) priority: Option<i32>,
    /// The service knows its handle.
    pub(crate) known: bool,
    /// The service does not want it.
    pub(crate) refused: bool,
    /// The call that used it last.
    call: u64,
    /// The position in the ring behind the last entry that names it.
    pub(crate) position: u64,
}

impl Record {
    /// Is nothing lost when the service forgets this file? Not while it has a priority, and not while an entry
    /// that names it may be unread (the service has read up to `consumed`): the socket is read before the ring.
    pub(crate) fn may_go(&self, consumed: u64) -> bool {
        self.priority.is_none_or(|priority| priority == 0) && self.position <= consumed
    }
}

/// The number of a record in [`Files`].
pub(crate) type RecordId = usize;

/// What a descriptor number meant in a call.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The record's number plus 1, 0 for none.
    record: u32,
    call: u64,
}

/// What the kernel said of the descriptor that was named last.
#[derive(Debug, Clone, Copy)]
struct Look {
    number: RawFd,
    seen: Seen,
    /// The record of that file, if there was one.
    record: Option<RecordId>,
    call: u64,
    tick: Duration,
    /// Calls that have believed it.
    believed: u32,
}

/// All files that are known.
#[derive(Debug, Default)]
pub(crate) struct Files {
    places: Vec<Place>,
    by_key: HashMap<Key, RecordId>,
    records: Vec<Option<Record>>,
    free: Vec<RecordId>,
    /// Where the search for one to forget goes on.
    hand: usize,
    call: u64,
    tick: Duration,
    last: Option<Look>,
}

impl Files {
    /// A call begins, at a tick of the clock: descriptors are looked at again.
    pub(crate) fn begin_call(&mut self, tick: Duration) {
        self.call += 1;
        self.tick = tick;
    }

    /// The file behind a descriptor, if it is known, or what the kernel says. `midway` says of a disclosure that
    /// it does not begin at the start of the file (see the module).
    pub(crate) fn find(&mut self, descriptor: BorrowedFd<'_>, midway: bool) -> Result<Found, Error> {
        let number = descriptor.as_raw_fd();
        if let Some(last) = self.last.filter(|last| last.number == number)
            && (last.call == self.call || midway && self.believe(&last))
        {
            let same = |id: &RecordId| self.get(*id).is_some_and(|record| record.key == last.seen.key);
            if let Some(id) = last.record.filter(same) {
                return Ok(self.found(number, id));
            }
            if last.record.is_none() && !self.by_key.contains_key(&last.seen.key) {
                return Ok(Found::Unknown(last.seen));
            }
        }
        let place =
            usize::try_from(number).ok().and_then(|at| self.places.get(at)).copied().unwrap_or_default();
        let held = (place.record as usize).checked_sub(1);
        if let Some(id) = held.filter(|_| place.call == self.call) {
            return Ok(Found::Known(id));
        }
        let seen = look(descriptor)?;
        let same = |id: &RecordId| self.get(*id).is_some_and(|record| record.key == seen.key);
        let record = held.filter(same).or_else(|| self.by_key.get(&seen.key).copied());
        if record.is_none() {
            check_readable(descriptor)?;
        }
        self.last = Some(Look { number, seen, record, call: self.call, tick: self.tick, believed: 0 });
        Ok(match record {
            Some(id) => self.found(number, id),
            None => Found::Unknown(seen),
        })
    }

    /// Is what was seen in the call before still good?
    fn believe(&mut self, last: &Look) -> bool {
        let believed = last.call + 1 == self.call && last.tick == self.tick && last.believed < BELIEVED_CALLS;
        if believed {
            self.last = Some(Look { call: self.call, believed: last.believed + 1, ..*last });
        }
        believed
    }

    fn found(&mut self, number: RawFd, id: RecordId) -> Found {
        self.seat(number, id);
        Found::Known(id)
    }

    /// A file, among `candidates` of them, that this call has not used and of which `may_go`.
    pub(crate) fn victim(&mut self, candidates: usize, may_go: impl Fn(&Record) -> bool) -> Option<RecordId> {
        (0..self.records.len().min(candidates)).find_map(|_| {
            self.hand = (self.hand + 1) % self.records.len();
            let record = self.records[self.hand].as_ref()?;
            (record.call != self.call && may_go(record)).then_some(self.hand)
        })
    }

    /// Are there as many files as may be?
    pub(crate) fn is_full(&self) -> bool {
        self.by_key.len() >= FILES
    }

    /// Forgets a file.
    pub(crate) fn remove(&mut self, id: RecordId) {
        if let Some(record) = self.records.get_mut(id).and_then(Option::take) {
            self.by_key.remove(&record.key);
            self.free.push(id);
        }
    }

    /// Adds a file that [`Files::find`] did not know, when they are not full.
    pub(crate) fn add(&mut self, descriptor: BorrowedFd<'_>, seen: Seen) -> RecordId {
        let number = descriptor.as_raw_fd();
        let (key, call) = (seen.key, self.call);
        let (priority, known, refused, position) = (None, false, false, 0);
        let record = Record { key, number, priority, known, refused, call, position };
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id] = Some(record);
                id
            }
            None => {
                self.records.push(Some(record));
                self.records.len() - 1
            }
        };
        self.by_key.insert(key, id);
        self.seat(number, id);
        if let Some(last) = self.last.as_mut().filter(|last| last.number == number) {
            last.record = Some(id);
        }
        id
    }

    /// Remembers what a number means in this call.
    fn seat(&mut self, number: RawFd, id: RecordId) {
        if let Some(record) = self.records[id].as_mut() {
            (record.number, record.call) = (number, self.call);
        }
        let Ok(at) = usize::try_from(number) else { return };
        if at < NUMBERS {
            if self.places.len() <= at {
                self.places.resize(at + 1, Place::default());
            }
            self.places[at] = Place { record: id as u32 + 1, call: self.call };
        }
    }

    pub(crate) fn get(&self, id: RecordId) -> Option<&Record> {
        self.records.get(id)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: RecordId) -> Option<&mut Record> {
        self.records.get_mut(id)?.as_mut()
    }

    /// The descriptor that a file was last named by, if it still means this file.
    pub(crate) fn descriptor(&self, id: RecordId) -> Option<(BorrowedFd<'static>, Seen)> {
        let record = self.get(id)?;
        let descriptor = borrow(record.number);
        let seen = look(descriptor).ok().filter(|seen| seen.key == record.key)?;
        Some((descriptor, seen))
    }

    /// Ids that exist are below this.
    pub(crate) fn ids(&self) -> usize {
        self.records.len()
    }

    /// Another session: the service knows nothing of our files.
    pub(crate) fn begin_session(&mut self) {
        for record in self.records.iter_mut().flatten() {
            (record.known, record.refused, record.position) = (false, false, 0);
        }
    }
}

/// What [`Files::find`] found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A file that was named before.
    Known(RecordId),
    /// Another one, open for reading.
    Unknown(Seen),
}

/// The handle of a record on the wire.
pub(crate) fn handle(id: RecordId) -> Option<Handle> {
    Handle::new(u32::try_from(id).ok()?.checked_add(1)?)
}

/// The record of a handle.
pub(crate) fn record_of(handle: Handle) -> RecordId {
    handle.number() as usize - 1
}
