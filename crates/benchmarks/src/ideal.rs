//! What the best possible cache and the best possible use of the device would need.

use std::collections::{BTreeSet, HashMap};

use foretell_slowdisk::Timing;

/// Fetches of `passes` passes over `blocks` blocks with a cache of `cache_blocks` under MRU replacement,
/// which is optimal there: the first pass fetches all, each later one what the cache does not hold.
pub(crate) fn cyclic_fetches(blocks: u64, cache_blocks: u64, passes: u64) -> u64 {
    blocks + passes.saturating_sub(1) * blocks.saturating_sub(cache_blocks)
}

/// Fetches of optimal replacement (Belady 1966): replaced is the block whose next use is furthest.
pub(crate) fn belady_fetches(references: &[u64], cache_blocks: usize) -> u64 {
    const NEVER: usize = usize::MAX;
    let mut next_use = vec![NEVER; references.len()];
    let mut last_seen = HashMap::new();
    for (position, block) in references.iter().enumerate().rev() {
        next_use[position] = last_seen.insert(*block, position).unwrap_or(NEVER);
    }
    // The cache by next use; a block's next use is the position of its next reference, thus unique unless
    // it has none.
    let mut cached: BTreeSet<(usize, u64)> = BTreeSet::new();
    let mut fetches = 0;
    for (position, block) in references.iter().enumerate() {
        if !cached.remove(&(position, *block)) {
            fetches += 1;
            if cached.len() >= cache_blocks.max(1) {
                cached.pop_last();
            }
        }
        cached.insert((next_use[position], *block));
    }
    fetches
}

/// Shortest time, in seconds, in which a device can read `fetches` blocks in `runs` unbroken stretches,
/// all of its channels busy and nothing read in vain.
pub(crate) fn device_s(timing: &Timing, fetches: u64, runs: u64, block_bytes: u64) -> f64 {
    let bytes = (fetches * block_bytes) as f64;
    // Requests of one stretch may be merged up to the largest request.
    let requests = runs.max((fetches * block_bytes).div_ceil(MAX_REQUEST_BYTES));
    let seeks_ns = runs * timing.seek_ns + requests * timing.latency_ns;
    let busy_s = seeks_ns as f64 / 1e9 + bytes / timing.channel_bytes_per_s as f64;
    let spread_s = busy_s / f64::from(timing.channels);
    match timing.total_bytes_per_s {
        Some(rate) => spread_s.max(bytes / rate as f64),
        None => spread_s,
    }
}

/// Largest request of the slow device.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_passes_over_128_mib_with_60_mib_need_51_200_fetches() {
        assert_eq!(cyclic_fetches(16_384, 7_680, 5), 51_200);
        assert_eq!(cyclic_fetches(100, 200, 5), 100);
    }

    #[test]
    fn belady_on_a_sequence_worked_by_hand() {
        // a b c a b d a with two blocks: a, b; c replaces b (next use 4, a's 3) or stays out of the way:
        // a b fetched; c fetched for b; a hit; b fetched for c; d fetched for b; a hit.
        let references = [0, 1, 2, 0, 1, 3, 0];
        assert_eq!(belady_fetches(&references, 2), 5);
        assert_eq!(belady_fetches(&references, 4), 4);
    }

    #[test]
    fn the_devices_least_times() {
        // 51,200 blocks of 8 KiB at 100 MB/s in five stretches: 4.194 s and five seeks.
        let disk = device_s(&Timing::disk_8ms(), 51_200, 5, 8192);
        assert!((disk - 4.234).abs() < 0.001, "{disk}");
        // 57,344 single blocks on eight channels at 1.041 ms each.
        let cloud = device_s(&Timing::cloud_1ms(), 57_344, 57_344, 8192);
        assert!((cloud - 7.462).abs() < 0.001, "{cloud}");
    }

    /// Optimal fetches by trying every replacement.
    fn brute_force(references: &[u64], cache: &[u64], size: usize) -> u64 {
        let Some((block, rest)) = references.split_first() else { return 0 };
        if cache.contains(block) {
            return brute_force(rest, cache, size);
        }
        if cache.len() < size {
            return 1 + brute_force(rest, &[cache, &[*block]].concat(), size);
        }
        let replacing = (0..cache.len()).map(|victim| {
            let mut cache = cache.to_vec();
            cache[victim] = *block;
            1 + brute_force(rest, &cache, size)
        });
        replacing.min().unwrap_or(1)
    }

    proptest! {
        #[test]
        fn belady_is_what_trying_everything_finds(
            references in proptest::collection::vec(0u64..5, 0..10),
            size in 1usize..4,
        ) {
            prop_assert_eq!(belady_fetches(&references, size), brute_force(&references, &[], size));
        }

        #[test]
        fn belady_agrees_with_the_arithmetic_of_cycles(blocks in 1u64..40, cache in 1u64..50, passes in 1u64..6) {
            let references: Vec<u64> = (0..passes).flat_map(|_| 0..blocks).collect();
            let fetches = belady_fetches(&references, cache as usize);
            // With demand fetching one cached block a pass makes room for the stretch in between.
            let arithmetic = cyclic_fetches(blocks, cache, passes);
            prop_assert!(fetches >= arithmetic && fetches <= arithmetic + passes);
        }
    }
}
