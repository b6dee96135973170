//! What a service was told and did not get done before it went away.
//!
//! The old ring still holds the newest entries, and its statistics say how many disclosed blocks had not been
//! read at the end: the newest entries that make up as many, back to the last withdrawal, are what is undone.
//! What is disclosed while there is no service is added, for a while: a list that the program has been reading
//! along for longer is of no use to anybody.

use std::collections::VecDeque;
use std::time::Duration;

use foretell_protocol::Entry;
use foretell_protocol::limits::RING_ENTRIES;

use crate::files::{Files, RecordId, record_of};
use crate::session::Session;

/// Time for which what is undone is kept: what a service manager needs to restart a service, and a bit.
const KEEP: Duration = Duration::from_secs(10);

/// Disclosures to be told again, the oldest first; at most as many as a ring holds, the newest.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    entries: VecDeque<(RecordId, Entry)>,
    until: Option<Duration>,
}

impl Undone {
    /// What a session that ended at `now` leaves.
    pub(crate) fn of(session: &Session, files: &Files, now: Duration) -> Undone {
        let mut undone = Undone { entries: VecDeque::new(), until: Some(now + KEEP) };
        let mut unread = session.position() - session.consumed();
        // Nobody who has not been welcomed was told how long a block is.
        let block_bytes = session.welcome().map_or(1, |limits| u64::from(limits.block_bytes));
        let mut ahead = session.statistics().map_or(0, |statistics| statistics.disclosed_ahead);
        for entry in session.newest_first() {
            let was_read = unread == 0;
            unread = unread.saturating_sub(1);
            if entry == Entry::Cancel || was_read && ahead == 0 {
                break;
            }
            let (file, blocks) = match entry {
                Entry::Disclose { file, range } => {
                    (file, range.end().div_ceil(block_bytes) - range.start() / block_bytes)
                }
                Entry::DiscloseFile { file } => {
                    let bytes = files.descriptor(record_of(file)).map_or(1, |(_, seen)| seen.bytes);
                    (file, bytes.div_ceil(block_bytes))
                }
                _ => continue,
            };
            if was_read {
                ahead = ahead.saturating_sub(blocks);
            }
            undone.entries.push_front((record_of(file), entry));
        }
        undone
    }

    /// Is what is disclosed now, without a service, to be added?
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Adds a disclosure; the oldest goes when there are too many. Other hints are about the moment.
    pub(crate) fn add(&mut self, id: RecordId, entry: &Entry) {
        if !matches!(entry, Entry::Disclose { .. } | Entry::DiscloseFile { .. }) || self.until.is_none() {
            return;
        }
        if self.entries.len() >= RING_ENTRIES as usize {
            self.entries.pop_front();
        }
        self.entries.push_back((id, *entry));
    }

    /// What is still of use, the oldest first.
    pub(crate) fn take(self, now: Duration) -> VecDeque<(RecordId, Entry)> {
        if self.is_open(now) { self.entries } else { VecDeque::new() }
    }
}
