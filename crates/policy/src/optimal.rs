//! The best that replacement can do: Belady's rule.
//!
//! Replace the block whose next reference is furthest in the future; no policy that fetches on demand
//! needs fewer fetches (Belady 1966). Two passes over the recorded references: backwards for every
//! reference's next use, forwards with a set of the cached blocks' next uses.

use crate::knowledge::positions::PositionSet;
use crate::recency::NONE;

/// Fetches that optimal replacement makes on `references` with `cache_blocks` blocks, which start empty.
///
/// Blocks are dense numbers from 0. Takes 8 bytes a reference and 4 a block.
#[must_use]
pub fn belady_fetches(references: &[u32], cache_blocks: u32) -> u64 {
    let blocks = references.iter().max().map_or(0, |&b| b as usize + 1);
    let mut next_use = vec![NONE; references.len()];
    let mut seen = vec![NONE; blocks];
    for (i, &b) in references.iter().enumerate().rev() {
        next_use[i] = std::mem::replace(&mut seen[b as usize], i as u32);
    }
    // From here on: is the block cached? Its next use is then in `uses`, unless it has none.
    let mut cached = seen;
    cached.fill(0);
    let mut uses = PositionSet::default();
    uses.reserve(references.len() as u32);
    let (mut fetches, mut used) = (0, 0);
    for (i, &b) in references.iter().enumerate() {
        if cached[b as usize] == 0 {
            fetches += 1;
            if cache_blocks == 0 {
                continue;
            }
            if used == cache_blocks
                && let Some(furthest) = uses.last()
            {
                uses.remove(furthest);
                cached[references[furthest as usize] as usize] = 0;
                used -= 1;
            }
            cached[b as usize] = 1;
            used += 1;
        }
        uses.remove(i as u32);
        match next_use[i] {
            NONE => {
                cached[b as usize] = 0;
                used -= 1;
            }
            next => uses.insert(next),
        }
    }
    fetches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cyclic passes over n blocks with k cached: the first pass misses all, every other one n - k.
    #[test]
    fn cyclic_passes_by_arithmetic() {
        let references: Vec<u32> = (0..5).flat_map(|_| 0..100).collect();
        assert_eq!(belady_fetches(&references, 60), 100 + 4 * 40);
        assert_eq!(belady_fetches(&references, 100), 100);
        assert_eq!(belady_fetches(&references, 0), 500);
    }

    fn naive(references: &[u32], k: usize) -> u64 {
        let mut cache: Vec<u32> = Vec::new();
        let mut fetches = 0;
        for (i, &b) in references.iter().enumerate() {
            if cache.contains(&b) {
                continue;
            }
            fetches += 1;
            let next = |x: u32| references[i + 1..].iter().position(|&r| r == x).unwrap_or(usize::MAX);
            if cache.len() < k {
                cache.push(b);
            } else if let Some(v) = (0..cache.len()).max_by_key(|&v| next(cache[v])) {
                cache[v] = b;
            }
        }
        fetches
    }

    proptest! {
        #[test]
        fn equals_the_naive_rule(references in prop::collection::vec(0u32..12, 0..200), k in 0usize..10) {
            prop_assert_eq!(belady_fetches(&references, k as u32), naive(&references, k));
        }
    }
}
