//! Entries of a ring: what each asks of the plane.

use foretell_pagecache::{ByteRange, ControlError, HeldFile, Plane};
use foretell_protocol::{Entry, ErrorCode, Handle, Range};

use crate::connection::Speech;

/// An entry was refused: why, for which file, in words.
pub(crate) type Refusal = (ErrorCode, Option<Handle>, String);

impl Speech {
    /// Does what an entry asks, or begins with it: then something is left in `rest`.
    ///
    /// # Errors
    /// When it has no effect.
    pub(crate) fn apply(&mut self, plane: &mut Plane, entry: Entry) -> Result<(), Refusal> {
        let session = self.session;
        let handle = handle_of(&entry);
        let of = |named: &Speech, handle| named.file(handle);
        let done = match entry {
            Entry::SetPriority { file, priority } => plane.set_priority(session, of(self, file)?, priority),
            Entry::SetPolicy { priority, policy } => plane.set_policy(session, priority, policy),
            Entry::SetTemporaryPriority { file, range, priority } => {
                plane.set_temporary_priority(session, of(self, file)?, bytes(range), priority).map(|rest| {
                    self.rest = rest.map(|rest| (file, rest));
                })
            }
            Entry::Disclose { file, range } => {
                plane.disclose_held(session, of(self, file)?, Some(bytes(range)))
            }
            Entry::DiscloseFile { file } => plane.disclose_held(session, of(self, file)?, None),
            Entry::DoneWith { file, range } => {
                plane.done_with(session, of(self, file)?, bytes(range)).map(|rest| {
                    self.rest = rest.map(|rest| (file, rest));
                })
            }
            Entry::Cancel => plane.cancel(session),
        };
        done.map_err(|error| (code_of(&error), handle, error.to_string()))
    }

    /// Goes on with what is left of the last entry, a part of it.
    ///
    /// # Errors
    /// When it cannot be done; nothing is left then.
    pub(crate) fn go_on(&mut self, plane: &mut Plane) -> Result<(), Refusal> {
        let Some((handle, rest)) = self.rest.take() else { return Ok(()) };
        let left = plane.go_on(self.session, rest);
        let left = left.map_err(|error| (code_of(&error), Some(handle), error.to_string()))?;
        self.rest = left.map(|rest| (handle, rest));
        Ok(())
    }

    fn file(&self, handle: Handle) -> Result<HeldFile, Refusal> {
        let unknown = || {
            let text = format!("no file was sent for handle {}", handle.number());
            (ErrorCode::UnknownHandle, Some(handle), text)
        };
        self.files.get(&handle).map(|named| named.file).ok_or_else(unknown)
    }
}

/// What an entry makes the loop do.
pub(crate) fn work_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::SetPriority { .. } => "priorities",
        Entry::SetPolicy { .. } => "policies",
        Entry::SetTemporaryPriority { .. } => "temporary priorities",
        Entry::Disclose { .. } | Entry::DiscloseFile { .. } => "disclosures",
        Entry::DoneWith { .. } => "done with",
        Entry::Cancel => "cancels",
    }
}

fn handle_of(entry: &Entry) -> Option<Handle> {
    match *entry {
        Entry::SetPriority { file, .. }
        | Entry::SetTemporaryPriority { file, .. }
        | Entry::Disclose { file, .. }
        | Entry::DiscloseFile { file }
        | Entry::DoneWith { file, .. } => Some(file),
        Entry::SetPolicy { .. } | Entry::Cancel => None,
    }
}

fn bytes(range: Range) -> ByteRange {
    ByteRange { offset: range.start(), length: range.length() }
}

fn code_of(error: &ControlError) -> ErrorCode {
    match error {
        ControlError::NoFile => ErrorCode::UnknownHandle,
        ControlError::TooMany { .. } => ErrorCode::Levels,
        ControlError::Queue { .. } => ErrorCode::Disclosed,
        ControlError::QueueInAll { .. } => ErrorCode::DisclosedInAll,
        _ => ErrorCode::Internal,
    }
}
