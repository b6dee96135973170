//! The records of the ring as they lie in memory, and their translation into [`Observation`]s.
//!
//! The layout is described once, in `src/bpf/event.h`; the test here compares each of its `LAYOUT` and
//! `EVENT_` lines with what this file says.

use super::event::Observation;
use crate::file_key::FileKey;

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

/// `enum event_flag` of `event.h`.
const APPENDED: u32 = 256;

/// `enum verdict` of `event.h`.
pub(super) mod verdict {
    pub(crate) const MANAGED: u8 = 1;
    pub(crate) const IGNORED: u8 = 2;
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
            let (order, appended) = (argument as u8, argument & APPENDED != 0);
            Observation::Added { tgid, tid, file, first_page, order, appended, known, generation }
        }
        kind::REMOVED => Observation::Removed { tgid, tid, file, first_page, order: argument as u8 },
        kind::FORKED => Observation::Forked { parent: tgid, child: tid },
        kind::EXEC => Observation::Exec { tgid, comm: std::array::from_fn(|i| event[i]) },
        kind::EXITED => Observation::Exited { tgid, device_read_bytes: ino, wait_ns: first_page },
        kind::WAITED => Observation::Waited { tgid, tid, wait_ns: first_page },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::shared::ControlBlock;
    use super::*;
    use std::mem::offset_of;

    const HEADER: &str = include_str!("../bpf/event.h");

    /// The arguments of every line of `event.h` that begins with `name(`.
    fn lines(name: &str) -> Vec<Vec<&str>> {
        HEADER
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(");"))
            .map(|arguments| arguments.split(", ").collect())
            .collect()
    }

    #[test]
    fn the_control_block_is_the_one_of_the_header() {
        let offset = |field: &str| {
            let found = lines("LAYOUT").into_iter().find(|line| line[..2] == ["control", field]);
            found.unwrap()[2].parse::<usize>().unwrap()
        };
        assert_eq!(offset("wake_every"), offset_of!(ControlBlock, wake_every));
        assert_eq!(offset("btrfs"), offset_of!(ControlBlock, btrfs_root));
        assert_eq!(offset("wake_spacing_ns"), offset_of!(ControlBlock, wake_spacing_ns));
        assert_eq!(offset("woken_ns"), offset_of!(ControlBlock, woken_ns));
        assert_eq!(offset("wake_wanted"), offset_of!(ControlBlock, wake_wanted));
        assert_eq!(offset("lost_events"), offset_of!(ControlBlock, lost_events));
        assert_eq!(offset("accounts_overflow"), offset_of!(ControlBlock, accounts_overflow));
        assert_eq!(offset("waits_overflow"), offset_of!(ControlBlock, waits_overflow));
        assert_eq!(offset("device_read_bytes"), offset_of!(ControlBlock, device_read_bytes));
        assert_eq!(offset("wait_ns"), offset_of!(ControlBlock, wait_ns));
        let sizes = lines("LAYOUT_SIZE");
        let size =
            |name: &str| sizes.iter().find(|line| line[0] == name).unwrap()[1].parse::<usize>().unwrap();
        assert_eq!(size("control"), size_of::<ControlBlock>());
        assert_eq!(size("event"), EVENT_BYTES);
        assert_eq!(size("unknown_event"), UNKNOWN_EVENT_BYTES);
    }

    /// The value of an enumerator of `event.h`.
    fn enumerator(name: &str) -> u32 {
        let mut lines = HEADER.lines();
        let value =
            lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = ")?.strip_suffix(','));
        value.unwrap().parse().unwrap()
    }

    #[test]
    fn the_verdicts_are_those_of_the_header() {
        assert_eq!(u32::from(verdict::MANAGED), enumerator("VERDICT_MANAGED"));
        assert_eq!(u32::from(verdict::IGNORED), enumerator("VERDICT_IGNORED"));
    }

    /// A record with a distinct value in each field, laid out as the header says.
    fn record(kind_name: &str, argument: u32, bytes: usize) -> Vec<u8> {
        let kind = enumerator(kind_name);
        let mut record = vec![0; bytes];
        for line in lines("LAYOUT") {
            let at: usize = line[2].parse().unwrap();
            let mut put = |value: &[u8]| record[at..at + value.len()].copy_from_slice(value);
            match (line[0], line[1]) {
                ("event", "ino") => put(&11u64.to_ne_bytes()),
                ("event", "first_page") => put(&22u64.to_ne_bytes()),
                ("event", "dev") => put(&33u32.to_ne_bytes()),
                ("event", "tgid") => put(&44u32.to_ne_bytes()),
                ("event", "tid") => put(&55u32.to_ne_bytes()),
                ("event", "packed") => put(&(kind | argument << 8).to_ne_bytes()),
                ("unknown_event", "generation") if bytes > at => put(&66u32.to_ne_bytes()),
                _ => {}
            }
        }
        record
    }

    #[test]
    fn records_are_laid_out_as_the_header_says() {
        let file = FileKey { dev: 33, ino: 11 };
        let (tgid, tid, first_page) = (44, 55, 22);
        let known = |kind, argument| decode(&record(kind, argument, EVENT_BYTES)).unwrap();
        let unknown = |kind, argument| decode(&record(kind, argument, UNKNOWN_EVENT_BYTES)).unwrap();
        let read = |known, generation| Observation::Read {
            tgid,
            tid,
            file,
            first_page,
            last_page: 24,
            known,
            generation,
        };
        assert_eq!(known("EVENT_READ", 3), read(true, 0));
        assert_eq!(unknown("EVENT_READ", 3), read(false, 66));
        let fault = Observation::Fault { tgid, tid, file, page: 22, known: true, generation: 0 };
        assert_eq!(known("EVENT_FAULT", 1), fault);
        let last_page = 37;
        let map =
            Observation::MapPages { tgid, tid, file, first_page, last_page, known: true, generation: 0 };
        assert_eq!(known("EVENT_MAP_PAGES", 16), map);
        for appended in [false, true] {
            let argument = 9 | if appended { enumerator("EVENT_APPENDED") } else { 0 };
            let added = Observation::Added {
                tgid,
                tid,
                file,
                first_page,
                order: 9,
                appended,
                known: false,
                generation: 66,
            };
            assert_eq!(unknown("EVENT_ADDED", argument), added);
        }
        let removed = Observation::Removed { tgid, tid, file, first_page, order: 4 };
        assert_eq!(known("EVENT_REMOVED", 4), removed);
        assert_eq!(known("EVENT_FORKED", 0), Observation::Forked { parent: 44, child: 55 });
        let exited = Observation::Exited { tgid, device_read_bytes: 11, wait_ns: 22 };
        assert_eq!(known("EVENT_EXITED", 0), exited);
        assert_eq!(known("EVENT_WAITED", 0), Observation::Waited { tgid, tid, wait_ns: 22 });
        let mut exec = record("EVENT_EXEC", 0, EVENT_BYTES);
        exec[..16].copy_from_slice(b"a command name\0\0");
        assert_eq!(decode(&exec), Some(Observation::Exec { tgid, comm: *b"a command name\0\0" }));
    }

    #[test]
    fn what_is_no_record_is_none() {
        let no_kind = [0; EVENT_BYTES];
        for record in [&[][..], &[1; 31], &[1; 33], &no_kind] {
            assert_eq!(decode(record), None);
        }
    }
}
