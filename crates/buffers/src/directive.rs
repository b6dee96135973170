//! What a program may say of an object beside what it will read.

use std::ops::RangeInclusive;

/// What a program says of an object: the directives that files have as well (Cao, Felten, Li 1994, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directive {
    /// Its parts have this priority, 0 unless said; parts of lower priorities are replaced first. As long as it is open.
    Priority(i32),
    /// Its parts of this range that are in memory have this priority until each is read again or replaced.
    TemporaryPriority {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// The priority.
        priority: i32,
    },
    /// This range will not be read again: its parts are given up at once, but for what is disclosed and not read yet.
    DoneWith {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Directive {
    /// The range that it is about, if it is not about the whole object.
    pub(crate) fn range(self) -> Option<(u64, u64)> {
        match self {
            Directive::Priority(_) => None,
            Directive::TemporaryPriority { offset, length, .. } | Directive::DoneWith { offset, length } => {
                Some((offset, length))
            }
        }
    }
}

/// The parts of a range within an object: those whose last byte is in it. So who gives up what it has read in pieces of any
/// size gives up each part once, and only when all of it has been read.
pub(crate) fn parts_ended(
    offset: u64,
    length: u64,
    object_bytes: u64,
    part_bytes: u64,
) -> Option<RangeInclusive<u32>> {
    let end = offset + length;
    let first = offset / part_bytes;
    // The last part of an object ends with it.
    let beyond = if end >= object_bytes { object_bytes.div_ceil(part_bytes) } else { end / part_bytes };
    // No object has more parts than have numbers.
    (length > 0 && first < beyond).then(|| first as u32..=(beyond - 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_end_each_part_once() {
        for (object_bytes, piece) in [(100, 7), (100, 10), (95, 13), (10, 10), (9, 4), (40, 100)] {
            let mut ended = Vec::new();
            for offset in (0..object_bytes).step_by(piece as usize) {
                let length = piece.min(object_bytes - offset);
                // As it is defined: by the last byte of each part.
                let last_byte = |part: u64| (part * 10 + 9).min(object_bytes - 1);
                let naive = (0..object_bytes.div_ceil(10))
                    .filter(|&part| (offset..offset + length).contains(&last_byte(part)));
                let parts: Vec<u32> =
                    parts_ended(offset, length, object_bytes, 10).into_iter().flatten().collect();
                assert_eq!(parts, naive.map(|part| part as u32).collect::<Vec<_>>());
                ended.extend(parts);
            }
            assert_eq!(ended, (0..object_bytes.div_ceil(10) as u32).collect::<Vec<_>>());
        }
        assert_eq!(parts_ended(5, 0, 100, 10), None);
        assert_eq!(parts_ended(0, 0, 0, 10), None);
    }
}
