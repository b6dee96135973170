//! Sets of locations, sorted.

use crate::memory::Loc;

/// Those of `more` that are not in `set`; both are sorted.
pub(super) fn difference(more: &[Loc], set: &[Loc]) -> Vec<Loc> {
    let mut missing = Vec::new();
    let mut rest = set;
    for location in more {
        // Few new ones in a large set: search; else step.
        let at = rest.partition_point(|known| known < location);
        rest = &rest[at..];
        if rest.first() != Some(location) {
            missing.push(*location);
        }
    }
    missing
}

/// Up to so many elements are put into a set one by one, which moves what is behind them and compares little.
const FEW: usize = 8;

/// Adds sorted elements to a sorted set; those that are there already once.
pub(super) fn unite_sets(set: &mut Vec<Loc>, more: &[Loc]) {
    if set.last().is_none_or(|last| more.first().is_none_or(|first| last < first)) {
        set.extend_from_slice(more);
        return;
    }
    if more.len() <= FEW {
        for location in more {
            if let Err(at) = set.binary_search(location) {
                set.insert(at, *location);
            }
        }
        return;
    }
    let old = std::mem::take(set);
    set.reserve_exact(old.len() + more.len());
    let (mut left, mut right) = (old.as_slice(), more);
    while let (Some(one), Some(other)) = (left.first(), right.first()) {
        set.push(*one.min(other));
        left = &left[usize::from(one <= other)..];
        right = &right[usize::from(other <= one)..];
    }
    set.extend_from_slice(left);
    set.extend_from_slice(right);
}
