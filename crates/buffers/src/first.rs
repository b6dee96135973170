//! What of an object is read first.

use std::ops::Range;

/// What of an object will be read first, as whoever opens it knows or guesses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum First {
    /// Nothing that is known: its state alone is asked for.
    #[default]
    Nothing,
    /// All of it.
    All,
    /// These bytes, as far as it has them.
    Range(Range<u64>),
    /// So many bytes at its end.
    End(u64),
}

impl First {
    /// The same in whole parts, and no more than one request takes.
    pub(crate) fn in_parts(self, part_bytes: u64, most_bytes: u64) -> First {
        match self {
            First::Range(range) => {
                let start = range.start / part_bytes * part_bytes;
                let end = range.end.max(range.start).checked_next_multiple_of(part_bytes).unwrap_or(u64::MAX);
                let end = end.min(start.saturating_add(most_bytes));
                if start < end { First::Range(start..end) } else { First::Nothing }
            }
            First::End(0) => First::Nothing,
            // The part in which they begin is whole with one more.
            First::End(bytes) => First::End(bytes.saturating_add(part_bytes).min(most_bytes)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_first_is_asked_for_in_parts_and_within_one_request() {
        let in_parts = |first: First| first.in_parts(10, 50);
        assert_eq!(in_parts(First::Range(13..28)), First::Range(10..30));
        assert_eq!(in_parts(First::Range(0..1000)), First::Range(0..50));
        assert_eq!(in_parts(First::Range(u64::MAX - 1..u64::MAX)), First::Range(u64::MAX - 5..u64::MAX));
        for nothing in [First::Range(10..10), First::End(0), First::Nothing] {
            assert_eq!(in_parts(nothing), First::Nothing);
        }
        assert_eq!(in_parts(First::End(15)), First::End(25));
        assert_eq!(in_parts(First::End(1000)), First::End(50));
        assert_eq!(in_parts(First::All), First::All);
    }
}
