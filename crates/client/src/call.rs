//! What the calls of the interface do to the state, under its lock.

use std::ops;
use std::os::fd::{AsFd, BorrowedFd};

use foretell_protocol::limits::{DESCRIPTORS, FILE_BYTES};
use foretell_protocol::{Entry, Policy, Range};

use crate::error::Error;
use crate::fallback::{ReadAhead, drop_range};
use crate::files::{CANDIDATES, FILES, Found, RecordId, handle, look};
use crate::link::State;
use crate::options::Fallback;
use crate::stats::Stats;

/// Disclosures handled under one lock, and files told in one message.
pub(crate) const BATCH: usize = DESCRIPTORS;

/// A range of a file, or all of it.
pub(crate) type Chunk<F> = (F, Option<ops::Range<u64>>);

/// The bytes of a range; `None` when it is empty.
fn checked(range: &ops::Range<u64>) -> Result<Option<Range>, Error> {
    let (start, end) = (range.start, range.end);
    if start > end || end > FILE_BYTES {
        return Err(Error::Range { start, end });
    }
    Ok(Range::new(start, end - start))
}

/// Does a disclosure begin behind the start of its file?
fn is_midway(range: Option<Option<Range>>) -> bool {
    range.flatten().is_some_and(|range| range.start() > 0)
}

impl State {
    pub(crate) fn is_connected(&mut self) -> bool {
        self.check();
        self.session.is_some()
    }

    pub(crate) fn set_priority(&mut self, file: BorrowedFd<'_>, priority: i32) -> Result<(), Error> {
        let id = self.record(file, FILES, false)?.ok_or(Error::Files(FILES))?;
        let Some((record, file)) = self.files.get_mut(id).zip(handle(id)) else { return Ok(()) };
        record.priority = Some(priority);
        if record.refused {
            return Ok(());
        }
        let told =
            self.introduce(id) && self.push_directive(Some(id), &Entry::SetPriority { file, priority });
        self.told(told);
        Ok(())
    }

    /// The end of a directive.
    fn told(&mut self, told: bool) {
        if !told {
            self.tell_later();
        }
        self.publish();
    }

    pub(crate) fn priority(&mut self, file: BorrowedFd<'_>) -> Result<i32, Error> {
        let record = match self.files.find(file, false)? {
            Found::Known(id) => self.files.get(id),
            Found::Unknown(_) => None,
        };
        Ok(record.and_then(|record| record.priority).unwrap_or(0))
    }

    pub(crate) fn set_policy(&mut self, priority: i32, policy: Policy) -> Result<(), Error> {
        self.levels.set(priority, policy)?;
        let told = self.push_directive(None, &Entry::SetPolicy { priority, policy });
        self.told(told);
        Ok(())
    }

    pub(crate) fn policy(&self, priority: i32) -> Policy {
        self.levels.get(priority)
    }

    pub(crate) fn set_temporary_priority(
        &mut self,
        file: BorrowedFd<'_>,
        range: ops::Range<u64>,
        priority: i32,
    ) -> Result<(), Error> {
        self.hint(file, &range, |file, range| Entry::SetTemporaryPriority { file, range, priority })
    }

    pub(crate) fn done_with(&mut self, file: BorrowedFd<'_>, range: ops::Range<u64>) -> Result<(), Error> {
        self.hint(file, &range, |file, range| Entry::DoneWith { file, range })?;
        if self.fallback() == Fallback::Fadvise
            && let Some(range) = checked(&range)?
        {
            drop_range(file, range);
        }
        Ok(())
    }

    /// A hint about a range of one file, dropped when there is no room.
    fn hint(
        &mut self,
        file: BorrowedFd<'_>,
        range: &ops::Range<u64>,
        entry: impl FnOnce(foretell_protocol::Handle, Range) -> Entry,
    ) -> Result<(), Error> {
        let range = checked(range)?;
        if self.session.is_none() {
            return self.files.find(file, false).map(drop);
        }
        let id = self.record(file, CANDIDATES, false)?;
        let Some(range) = range else { return Ok(()) };
        if !self.send_hint(id, |file| entry(file, range)) {
            self.count_dropped();
        }
        self.publish();
        Ok(())
    }

    /// Sends a hint about a file. Returns whether it was taken, or is not wanted.
    fn send_hint(
        &mut self,
        id: Option<RecordId>,
        entry: impl FnOnce(foretell_protocol::Handle) -> Entry,
    ) -> bool {
        let Some((id, file)) = id.and_then(|id| Some((id, handle(id)?))) else { return false };
        if self.files.get(id).is_some_and(|record| record.refused) {
            return true;
        }
        (self.session.is_none() || self.introduce(id)) && self.push_hint(id, &entry(file))
    }

    /// Discloses a batch of at most [`BATCH`] ranges, or whole files where there is no range. Returns how many
    /// were taken before the first that was not, and what was wrong with that one if it was a mistake.
    pub(crate) fn disclose<F: AsFd>(
        &mut self,
        batch: &[Chunk<F>],
        ahead: &mut ReadAhead,
    ) -> (usize, Result<(), Error>) {
        let matters = self.hints_matter();
        let mut taken = 0;
        let mut result = Ok(());
        for at in 0..batch.len() {
            let done =
                if matters { self.disclose_chunk(&batch[at..]) } else { self.read_ahead(&batch[at], ahead) };
            match done {
                Ok(true) => taken += 1,
                Ok(false) => {
                    self.count_dropped();
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.publish();
        (taken, result)
    }

    /// Discloses the first chunk of the rest of a batch. Returns whether it was taken.
    fn disclose_chunk<F: AsFd>(&mut self, rest: &[Chunk<F>]) -> Result<bool, Error> {
        let Some((file, range)) = rest.first() else { return Ok(true) };
        let range = range.as_ref().map(checked).transpose()?;
        let id = self.record(file.as_fd(), CANDIDATES, is_midway(range))?;
        if id.and_then(|id| self.files.get(id)).is_some_and(|record| !record.known && !record.refused) {
            self.introduce_all(rest);
        }
        Ok(match range {
            Some(None) => true,
            Some(Some(range)) => self.send_hint(id, |file| Entry::Disclose { file, range }),
            None => self.send_hint(id, |file| Entry::DiscloseFile { file }),
        })
    }

    /// Tells the service all files of the rest of a batch in one message: the socket of a service that is
    /// behind takes some hundred messages, of whatever length.
    fn introduce_all<F: AsFd>(&mut self, rest: &[Chunk<F>]) {
        let mut ids = Vec::new();
        let mut files = Vec::new();
        for (file, _) in rest {
            // What is wrong with it is found again when it is its turn.
            let Ok(Some(id)) = self.record(file.as_fd(), CANDIDATES, false) else { continue };
            if self.files.get(id).is_some_and(|record| record.known || record.refused) {
                continue;
            }
            if !self.make_room(files.len()) {
                break;
            }
            if let (Some(record), Some(handle)) = (self.files.get_mut(id), handle(id)) {
                record.known = true;
                ids.push(id);
                files.push((handle, file.as_fd()));
            }
        }
        let sent = self.session.as_mut().is_some_and(|session| session.send_files(&files));
        for id in ids {
            if let Some(record) = self.files.get_mut(id) {
                record.known = sent;
            }
        }
    }

    /// What a disclosure does without a service.
    fn read_ahead<F: AsFd>(
        &mut self,
        (file, range): &Chunk<F>,
        ahead: &mut ReadAhead,
    ) -> Result<bool, Error> {
        let file = file.as_fd();
        let range = range.as_ref().map(checked).transpose()?;
        self.files.find(file, is_midway(range))?;
        if self.fallback() == Fallback::Fadvise {
            match range {
                Some(None) => {}
                Some(Some(range)) => ahead.range(file, range),
                None => ahead.file(file, look(file)?.bytes),
            }
        }
        Ok(true)
    }

    pub(crate) fn stats(&mut self) -> Stats {
        self.check();
        let statistics = self.session.as_ref().and_then(|session| session.statistics());
        Stats {
            connected: self.session.is_some(),
            sent: self.sent(),
            dropped: self.dropped,
            statistics: statistics.unwrap_or_default(),
        }
    }
}
