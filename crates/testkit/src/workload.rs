//! Reference strings: those of the papers, and random ones.

use proptest::prelude::*;

/// One reference: which process, and which block of its own file.
pub type Reference = (usize, u32);

/// `passes` times over the blocks `0..blocks`.
#[must_use]
pub fn cyclic(blocks: u32, passes: u32) -> Vec<u32> {
    (0..passes).flat_map(|_| 0..blocks).collect()
}

/// ReadN (Cao, Felten, Li 1994, section 6.1): the first `n` blocks of a file five times, then the next
/// `n` five times, and so on to the end of the file.
#[must_use]
pub fn read_n(n: u32, file_blocks: u32) -> Vec<u32> {
    let group = |first: u32| (0..5).flat_map(move |_| first..(first + n).min(file_blocks));
    (0..file_blocks).step_by(n as usize).flat_map(group).collect()
}

/// One reference of each process in turn, until all have ended.
#[must_use]
pub fn in_turn(processes: &[Vec<u32>]) -> Vec<Reference> {
    let longest = processes.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|i| processes.iter().enumerate().filter_map(move |(p, own)| own.get(i).map(|&b| (p, b))))
        .collect()
}

/// Random references of one process to `blocks` blocks, with what real ones have: runs, loops and hot
/// blocks beside pure chance.
pub fn references(blocks: u32, length: usize) -> impl Strategy<Value = Vec<u32>> {
    let run = (0..blocks, 1..=blocks).prop_map(move |(first, n)| (first..(first + n).min(blocks)).collect());
    let cycle = (2..=blocks, 2..4u32).prop_map(|(n, passes)| cyclic(n, passes));
    let chance = prop::collection::vec(0..blocks, 1..8);
    let hot = (0..blocks).prop_map(|b| vec![b]);
    let piece = prop_oneof![2 => run, 3 => cycle, 2 => chance, 1 => hot];
    prop::collection::vec(piece, 1..8).prop_map(move |pieces: Vec<Vec<u32>>| {
        let mut all = pieces.concat();
        all.truncate(length);
        all
    })
}

/// Random references of `processes` processes, each to `blocks` blocks of its own, at most `length` each,
/// randomly interleaved in bursts.
pub fn interleaved(processes: usize, blocks: u32, length: usize) -> impl Strategy<Value = Vec<Reference>> {
    let own = prop::collection::vec(references(blocks, length), processes);
    let turns = prop::collection::vec((0..processes, 1..6usize), 0..processes * length);
    (own, turns).prop_map(|(own, turns)| {
        let mut next = vec![0; own.len()];
        let mut all = Vec::new();
        // After the random turns, everybody's rest.
        let rest = (0..own.len()).map(|p| (p, usize::MAX));
        for (process, burst) in turns.into_iter().chain(rest) {
            let left = &own[process][next[process]..];
            let burst = burst.min(left.len());
            all.extend(left[..burst].iter().map(|&block| (process, block)));
            next[process] += burst;
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_n_repeats_each_part_five_times() {
        assert_eq!(read_n(2, 3), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn in_turn_goes_on_with_those_that_are_left() {
        assert_eq!(in_turn(&[vec![7, 8, 9], vec![1]]), [(0, 7), (1, 1), (0, 8), (0, 9)]);
    }
}
