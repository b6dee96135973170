//! The best monotone alignment, with knowledge of the future.
//!
//! What an aligner that works as the references come could find at best without using a file's order twice: for each
//! file, as many references as possible are paired with positions of the list that name the same block, in ascending
//! order of both (a longest common subsequence). There is no window: an optimum with one finds less or the same.

use std::collections::BTreeMap;

use foretell_policy::{Block, FileId};

/// How many references of `live` the best monotone alignment, file by file, finds in `list`.
#[must_use]
pub fn best_alignment(list: &[Block], live: &[Block]) -> usize {
    let mut files: BTreeMap<FileId, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for block in list {
        files.entry(block.file).or_default().0.push(block.index);
    }
    for block in live {
        files.entry(block.file).or_default().1.push(block.index);
    }
    files.values().map(|(list, live)| common(list, live)).sum()
}

/// The length of the longest common subsequence (Hunt and Szymanski, Communications of the ACM 20(5), 1977):
/// `ends[k]` is the smallest position at which a common subsequence of `k + 1` references can end.
#[must_use]
pub fn common(list: &[u32], live: &[u32]) -> usize {
    let mut positions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (position, &index) in list.iter().enumerate() {
        positions.entry(index).or_default().push(position);
    }
    let mut ends: Vec<usize> = Vec::new();
    for index in live {
        // The last position first, so that a reference is not used twice.
        for &position in positions.get(index).into_iter().flatten().rev() {
            let length = ends.partition_point(|&end| end < position);
            match ends.get_mut(length) {
                Some(end) => *end = position,
                None => ends.push(position),
            }
        }
    }
    ends.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The textbook's table.
    fn by_table(list: &[u32], live: &[u32]) -> usize {
        let mut above = vec![0; list.len() + 1];
        for r in live {
            let mut row = vec![0; list.len() + 1];
            for (i, l) in list.iter().enumerate() {
                row[i + 1] = if l == r { above[i] + 1 } else { row[i].max(above[i + 1]) };
            }
            above = row;
        }
        above[list.len()]
    }

    proptest! {
        #![proptest_config(crate::seeded(500))]
        #[test]
        fn common_is_what_the_table_says(
            list in prop::collection::vec(0u32..8, 0..40),
            live in prop::collection::vec(0u32..8, 0..40),
        ) {
            prop_assert_eq!(common(&list, &live), by_table(&list, &live));
        }
    }

    #[test]
    fn files_are_aligned_apart() {
        let block = |file, index| Block::new(FileId(file), index);
        let list = [block(0, 0), block(0, 1), block(1, 0)];
        let live = [block(1, 0), block(0, 0), block(0, 1)];
        assert_eq!(best_alignment(&list, &live), 3);
    }
}
