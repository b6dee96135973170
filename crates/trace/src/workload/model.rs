//! Pieces that several workloads are put together from.

use super::Visit;
use super::random::Random;

/// `reads` reads that go through `visits` in order, each visit read at least once; what is left over is
/// spread evenly as immediate repeats (an application that reads in pieces smaller than a block).
pub(super) fn repeated(visits: Vec<Visit>, reads: u64) -> Vec<Visit> {
    let (count, mut due) = (visits.len() as u64, 0);
    debug_assert!(count <= reads);
    let mut out = Vec::with_capacity(reads as usize);
    for visit in visits {
        due += reads;
        while due >= count {
            due -= count;
            out.push(visit);
        }
    }
    out
}

/// `total` blocks in `files` files of at least one block: sizes as those of real source trees, lognormal
/// (sigma 1: most files small, a few large).
pub(super) fn file_sizes(total: u32, files: u32, random: &mut Random) -> Vec<u32> {
    debug_assert!(files <= total);
    let weights: Vec<f64> = (0..files).map(|_| random.normal().exp()).collect();
    let sum: f64 = weights.iter().sum();
    let spare = f64::from(total - files);
    let (mut running, mut given) = (0.0, 0);
    let mut sizes: Vec<u32> = weights
        .iter()
        .map(|weight| {
            running += weight / sum * spare;
            let due = running.round() as u32;
            let size = 1 + due.saturating_sub(given);
            given = given.max(due);
            size
        })
        .collect();
    if let Some(last) = sizes.last_mut() {
        *last = last.saturating_add(total - files).saturating_sub(given);
    }
    sizes
}

/// `draws` random draws from `distinct` of the blocks 0..universe that touch each of these at least once.
pub(super) fn covering(universe: u32, distinct: u32, draws: u32, random: &mut Random) -> Vec<u32> {
    debug_assert!(distinct <= universe && distinct <= draws);
    let mut set: Vec<u32> = (0..universe).collect();
    random.shuffle(&mut set);
    set.truncate(distinct as usize);
    let mut out = set.clone();
    out.extend((distinct..draws).map(|_| set[random.below(distinct) as usize]));
    random.shuffle(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_immediate_and_even() {
        let got = repeated(vec![(0, 0), (0, 1), (0, 2)], 5);
        assert_eq!(got, [(0, 0), (0, 1), (0, 1), (0, 2), (0, 2)]);
    }

    #[test]
    fn file_sizes_add_up() {
        for seed in 0..50 {
            let sizes = file_sizes(2462, 900, &mut Random::new(seed, 2));
            assert_eq!(sizes.len(), 900);
            assert_eq!(sizes.iter().sum::<u32>(), 2462);
            assert!(sizes.iter().all(|&s| s >= 1));
        }
    }

    #[test]
    fn a_covering_draw_touches_exactly_the_distinct_blocks() {
        let draws = covering(100, 40, 75, &mut Random::new(1, 2));
        let mut seen = draws.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((draws.len(), seen.len()), (75, 40));
    }
}
