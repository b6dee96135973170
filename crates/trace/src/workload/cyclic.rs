//! Files that are read from beginning to end, over and over.

use super::compute::Shape;
use super::{Plan, Visit};

/// How often ReadN reads a group of blocks before the next group (Cao, Felten, Li 1994, section 6.1).
pub(super) const READN_PASSES: u64 = 5;

fn one_file(
    name: &str,
    blocks: u32,
    shape: Shape,
    visits: impl Iterator<Item = Visit> + Send + 'static,
) -> Plan {
    Plan { files: vec![(name.to_owned(), blocks)], visits: Box::new(visits), shape }
}

fn cycle(blocks: u32, passes: u32) -> impl Iterator<Item = Visit> + Send {
    (0..passes).flat_map(move |_| (0..blocks).map(|block| (0, block)))
}

/// Synth: 50 passes through 2000 sequential blocks (section 3.1).
pub(super) fn synth() -> Plan {
    one_file("synth", 2000, Shape::Exponential, cycle(2000, 50))
}

/// Dinero reads one trace file ("cc", about 8 MB) once for every cache that it simulates. 8867 reads
/// of 986 blocks are 9 passes, the last of them cut short by 7 blocks.
pub(super) fn dinero() -> Plan {
    one_file("cc.trace", 986, Shape::Even, cycle(986, 9))
}

/// Blocks of the database file, which every symbol search reads in full.
const CSCOPE_OUT_BLOCKS: u32 = 1066;
/// Blocks read after the first pass and never again: 1073 distinct blocks are 7 more than a pass.
const CSCOPE_ONCE_BLOCKS: u32 = 7;
/// Symbol searches.
const CSCOPE_PASSES: u32 = 8;
/// Reads of Table 3 beyond the passes: 8673 - 1073 - 7 x 1066.
const CSCOPE_REPEATS: u32 = 138;

/// Cscope1: eight symbol searches, each of which reads the 9 MB database from beginning to end. The 138
/// reads beyond that are taken to be immediate repeats at the beginning of each pass, where cscope
/// reads the header; with them fixed horizon (H = 64) makes the 4959 fetches that the paper prints.
pub(super) fn cscope1() -> Plan {
    let visits = (0..CSCOPE_PASSES).flat_map(|pass| {
        let even = CSCOPE_REPEATS / CSCOPE_PASSES;
        let repeats = even + u32::from(pass < CSCOPE_REPEATS % CSCOPE_PASSES);
        let once = if pass == 0 { CSCOPE_ONCE_BLOCKS } else { 0 };
        let database = (0..CSCOPE_OUT_BLOCKS)
            .flat_map(move |block| std::iter::repeat_n((0, block), 1 + usize::from(block < repeats)));
        database.chain((0..once).map(|block| (1, block)))
    });
    Plan {
        files: vec![
            ("cscope.out".to_owned(), CSCOPE_OUT_BLOCKS),
            ("cscope.files".to_owned(), CSCOPE_ONCE_BLOCKS),
        ],
        visits: Box::new(visits),
        shape: Shape::Even,
    }
}

/// Any number of passes through any number of blocks.
pub(super) fn passes(blocks: u32, passes: u32) -> Plan {
    one_file("loop", blocks, Shape::Constant, cycle(blocks, passes))
}

/// ReadN: groups of `n` blocks, each five times; the last group is what is left of the file.
pub(super) fn readn(n: u32, blocks: u32) -> Plan {
    let groups = (0..blocks).step_by(n.max(1) as usize).flat_map(move |first| {
        let end = first.saturating_add(n).min(blocks);
        (0..READN_PASSES).flat_map(move |_| (first..end).map(|block| (0, block)))
    });
    one_file("data", blocks, Shape::Constant, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readn_reads_each_group_five_times() {
        let blocks: Vec<u32> = readn(2, 5).visits.map(|(_, block)| block).collect();
        let expected = [[0, 1].repeat(5), [2, 3].repeat(5), [4].repeat(5)].concat();
        assert_eq!(blocks, expected);
    }

    #[test]
    fn cscope1_is_eight_passes_and_their_repeats() {
        let visits: Vec<Visit> = cscope1().visits.collect();
        assert_eq!(visits[..4], [(0, 0), (0, 0), (0, 1), (0, 1)]);
        assert_eq!(visits.iter().filter(|v| **v == (1, 3)).count(), 1);
        assert_eq!(visits.iter().filter(|v| **v == (0, 1065)).count(), 8);
    }
}
