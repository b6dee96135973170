//! The records of the ring as they lie in memory, and their translation into [`Observation`]s.
//!
//! The layout is described once, in `src/bpf/event.h`; the test here compares each of its `LAYOUT` and
//! `EVENT_` lines with what this file says.

use super::event::{FileKey, Observation};

/// `enum event_kind` of `event.h`.
pub(super) mod kind {
    pub(crate) const READ: u32 = 1;
    pub(crate) const FAULT: u32 = 2;
    pub(crate) const MAP_PAGES: u32 = 3;
    pub(crate) const ADDED: u32 = 4;
    pub(crate) const REMOVED: u32 = 5;
    pub(crate) const FORKED: u32 = 6;
    pub(crate) const EXEC: u32 = 7;
    pub(crate) const EXITED: u32 = 8;
    pub(crate) const WAITED: u32 = 9;
}

/// Bytes of a record of a managed file, or of no file.
pub(super) const EVENT_BYTES: usize = 32;

/// Bytes of a record of an unknown file: the same, the inode's generation, four bytes unused.
pub(super) const UNKNOWN_EVENT_BYTES: usize = EVENT_BYTES + 8;

/// The observation in `record`, `None` if it is of a length or kind that does not exist.
#[inline]
pub(super) fn decode(record: &[u8]) -> Option<Observation> {
    let (event, generation) = match record.len() {
        EVENT_BYTES => (record.first_chunk::<EVENT_BYTES>()?, None),
        UNKNOWN_EVENT_BYTES => {
            let generation = *record.get(EVENT_BYTES..)?.first_chunk::<4>()?;
            (record.first_chunk::<EVENT_BYTES>()?, Some(u32::from_ne_bytes(generation)))
        }
        _ => return None,
    };
    let word = |at: usize| -> u64 { u64::from_ne_bytes(std::array::from_fn(|i| event[at + i])) };
    let half = |at: usize| -> u32 { u32::from_ne_bytes(std::array::from_fn(|i| event[at + i])) };
    let (ino, first_page) = (word(0), word(8));
    let (dev, tgid, tid, packed) = (half(16), half(20), half(24), half(28));
    let file = FileKey { dev: u64::from(dev), ino };
    let argument = packed >> 8;
    let last_page = first_page + u64::from(argument.max(1)) - 1;
    let known = generation.is_none();
    let generation = generation.unwrap_or(0);
    Some(match packed & 0xff {
        kind::READ => Observation::Read { tgid, tid, file, first_page, last_page, known, generation },
        kind::FAULT => Observation::Fault { tgid, tid, file, page: first_page, known, generation },
        kind::MAP_PAGES => {
            Observation::MapPages { tgid, tid, file, first_page, last_page, known, generation }
        }
        kind::ADDED => {
            Observation::Added { tgid, tid, file, first_page, order: argument as u8, known, generation }
        }
        kind::REMOVED => Observation::Removed { tgid, tid, file, first_page, order: argument as u8 },
        kind::FORKED => Observation::Forked { parent: tgid, child: tid },
        kind::EXEC => Observation::Exec { tgid, comm: std::array::from_fn(|i| event[i]) },
        kind::EXITED => Observation::Exited { tgid, device_read_bytes: ino, wait_ns: first_page },
        kind::WAITED => Observation::Waited { tgid, tid, wait_ns: first_page },
        _ => return None,
    })
}
