//! What an entry of the ring says.
//!
//! ```text
//! byte 0  operation      1  policy     2  zero (2 bytes)    4  priority (4, signed)
//!      8  handle (4)    12  zero (4)  16  first byte (8)   24  bytes (8)
//! ```
//!
//! A field that an operation does not use is zero; anything else is no entry.

pub use foretell_policy::PoolPolicy as Policy;

use super::layout::Words;
use crate::limits::FILE_BYTES;
use crate::message::Handle;

/// Bytes of a file: at least one, none behind the last that a file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    start: u64,
    length: u64,
}

impl Range {
    /// The bytes from `start`, `length` of them. `None` when that is none, or too many.
    #[must_use]
    pub fn new(start: u64, length: u64) -> Option<Range> {
        let end = start.checked_add(length)?;
        (length > 0 && end <= FILE_BYTES).then_some(Range { start, length })
    }

    /// The first byte.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// How many, never 0.
    #[must_use]
    pub fn length(self) -> u64 {
        self.length
    }

    /// The byte after the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.length
    }
}

/// One thing that a program says about its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The long-term priority of a file's blocks; 0 unless set.
    SetPriority {
        /// Which file.
        file: Handle,
        /// Blocks of lower priority are replaced first.
        priority: i32,
    },
    /// Which block of a priority level is replaced first.
    SetPolicy {
        /// Which level.
        priority: i32,
        /// In which way.
        policy: Policy,
    },
    /// The priority of those blocks of a range that are cached now, until each is referenced or replaced. A
    /// block belongs to the range when the range holds the block's last byte.
    SetTemporaryPriority {
        /// Which file.
        file: Handle,
        /// Which part.
        range: Range,
        /// What priority.
        priority: i32,
    },
    /// The blocks that hold a part of the range will be read, in ascending order, after all that was
    /// disclosed before.
    Disclose {
        /// Which file.
        file: Handle,
        /// Which part.
        range: Range,
    },
    /// The same for the whole file as it is when the service reads this.
    DiscloseFile {
        /// Which file.
        file: Handle,
    },
    /// The range will not be read again: its blocks are the first to be replaced, whatever their priority. A
    /// block belongs to the range when the range holds the block's last byte.
    DoneWith {
        /// Which file.
        file: Handle,
        /// Which part.
        range: Range,
    },
    /// What was disclosed and has not been read yet is withdrawn.
    Cancel,
}

/// Words that are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an entry of the ring that means nothing (operation {operation}, policy {policy})")]
pub struct EntryError {
    /// Its first byte.
    pub operation: u8,
    /// Its second byte: the number of a policy, 0 for operations that have none.
    pub policy: u8,
}

const SET_PRIORITY: u8 = 1;
const SET_POLICY: u8 = 2;
const SET_TEMPORARY_PRIORITY: u8 = 3;
const DISCLOSE: u8 = 4;
const DISCLOSE_FILE: u8 = 5;
const DONE_WITH: u8 = 6;
const CANCEL: u8 = 7;

impl Entry {
    /// The words of this entry, in the byte order of the machine.
    pub(super) fn to_words(self) -> Words {
        let head = |operation: u8, policy: u8, priority: i32| {
            u64::from(operation) | u64::from(policy) << 8 | u64::from(priority.cast_unsigned()) << 32
        };
        let at = |file: Handle| u64::from(file.number());
        match self {
            Entry::SetPriority { file, priority } => [head(SET_PRIORITY, 0, priority), at(file), 0, 0],
            Entry::SetPolicy { priority, policy } => [head(SET_POLICY, policy.number(), priority), 0, 0, 0],
            Entry::SetTemporaryPriority { file, range, priority } => {
                [head(SET_TEMPORARY_PRIORITY, 0, priority), at(file), range.start, range.length]
            }
            Entry::Disclose { file, range } => [head(DISCLOSE, 0, 0), at(file), range.start, range.length],
            Entry::DiscloseFile { file } => [head(DISCLOSE_FILE, 0, 0), at(file), 0, 0],
            Entry::DoneWith { file, range } => [head(DONE_WITH, 0, 0), at(file), range.start, range.length],
            Entry::Cancel => [head(CANCEL, 0, 0), 0, 0, 0],
        }
    }

    /// The entry that these words are, if they are one.
    pub(super) fn from_words(words: Words) -> Result<Entry, EntryError> {
        let [head, file, start, length] = words;
        let operation = head as u8;
        let entry = || {
            let policy = Policy::from_number((head >> 8) as u8)?;
            let priority = ((head >> 32) as u32).cast_signed();
            let file = || u32::try_from(file).ok().and_then(Handle::new);
            let range = || Range::new(start, length);
            Some(match operation {
                SET_PRIORITY => Entry::SetPriority { file: file()?, priority },
                SET_POLICY => Entry::SetPolicy { priority, policy },
                SET_TEMPORARY_PRIORITY => {
                    Entry::SetTemporaryPriority { file: file()?, range: range()?, priority }
                }
                DISCLOSE => Entry::Disclose { file: file()?, range: range()? },
                DISCLOSE_FILE => Entry::DiscloseFile { file: file()? },
                DONE_WITH => Entry::DoneWith { file: file()?, range: range()? },
                CANCEL => Entry::Cancel,
                _ => return None,
            })
        };
        // What is left over shows as a difference: a field that should be zero and is not.
        entry()
            .filter(|entry| entry.to_words() == words)
            .ok_or(EntryError { operation, policy: (head >> 8) as u8 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn handle() -> impl Strategy<Value = Handle> {
        any::<std::num::NonZeroU32>().prop_map(Handle)
    }

    fn range() -> impl Strategy<Value = Range> {
        (0..=FILE_BYTES, 1..=FILE_BYTES).prop_filter_map("past the end", |(s, l)| Range::new(s, l))
    }

    pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
        prop_oneof![
            (handle(), any::<i32>()).prop_map(|(file, priority)| Entry::SetPriority { file, priority }),
            (any::<i32>(), prop::sample::select(Policy::all()))
                .prop_map(|(priority, policy)| Entry::SetPolicy { priority, policy }),
            (handle(), range(), any::<i32>()).prop_map(|(file, range, priority)| {
                Entry::SetTemporaryPriority { file, range, priority }
            }),
            (handle(), range()).prop_map(|(file, range)| Entry::Disclose { file, range }),
            handle().prop_map(|file| Entry::DiscloseFile { file }),
            (handle(), range()).prop_map(|(file, range)| Entry::DoneWith { file, range }),
            Just(Entry::Cancel),
        ]
    }

    proptest! {
        #[test]
        fn an_entry_reads_back_as_it_was_written(entry in any_entry()) {
            prop_assert_eq!(Entry::from_words(entry.to_words()), Ok(entry));
        }

        #[test]
        fn words_that_are_an_entry_are_its_only_words(
            head in any::<u64>(), operation in 0u8..9, rest in any::<[u64; 3]>(), zero in any::<[bool; 4]>()
        ) {
            let head = if zero[0] { u64::from(operation) } else { head & !0xff | u64::from(operation) };
            let cut = |word: u64, zero: bool| if zero { word & 0xffff } else { word };
            let words = [head, cut(rest[0], zero[1]), cut(rest[1], zero[2]), cut(rest[2], zero[3])];
            if let Ok(entry) = Entry::from_words(words) {
                prop_assert_eq!(entry.to_words(), words);
            }
        }
    }

    #[test]
    fn what_means_nothing_is_no_entry() {
        let file = Handle::new(1).unwrap();
        let good = Entry::Disclose { file, range: Range::new(0, 8192).unwrap() }.to_words();
        assert!(Entry::from_words(good).is_ok());
        let wrong = [
            ("no operation", [0, 0, 0, 0]),
            ("an operation that does not exist", [8, 1, 0, 1]),
            ("no file", [good[0], 0, 0, 8192]),
            ("a handle of more than 32 bits", [good[0], 1 << 32 | 1, 0, 8192]),
            ("an empty range", [good[0], 1, 0, 0]),
            ("a range that wraps", [good[0], 1, u64::MAX, 2]),
            ("a range behind every file", [good[0], 1, FILE_BYTES, 1]),
            ("a policy that does not exist", [u64::from(SET_POLICY) | 0xff << 8, 0, 0, 0]),
            ("a priority where there is none", [good[0] | 1 << 32, 1, 0, 8192]),
            ("something in a reserved field", [good[0] | 1 << 16, 1, 0, 8192]),
        ];
        for (what, words) in wrong {
            assert!(Entry::from_words(words).is_err(), "{what}");
        }
    }
}
