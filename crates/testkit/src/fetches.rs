//! Fetches that one replacement policy makes on a string of references, without anybody else around.
//!
//! All take the references in order and the number of blocks that the cache holds, start with an empty
//! cache, and count the references that do not find their block.

/// Least recently used goes first.
#[must_use]
pub fn lru<T: PartialEq + Copy>(references: &[T], cache_blocks: usize) -> u64 {
    count(references, cache_blocks, |_, _| 0)
}

/// Most recently used goes first.
#[must_use]
pub fn mru<T: PartialEq + Copy>(references: &[T], cache_blocks: usize) -> u64 {
    count(references, cache_blocks, |cached, _| cached.len() - 1)
}

/// The block whose next reference is furthest in the future goes first (Belady): no replacement makes
/// fewer demand fetches.
#[must_use]
pub fn belady<T: PartialEq + Copy>(references: &[T], cache_blocks: usize) -> u64 {
    count(references, cache_blocks, |cached, future| {
        let next_use = |b: &T| future.iter().position(|f| f == b).unwrap_or(usize::MAX);
        (0..cached.len()).max_by_key(|&i| next_use(&cached[i])).unwrap_or(0)
    })
}

/// Keeps the cache as a vector, least recently used first; `victim` gives the place of the block that
/// goes, from the cached blocks and the references after the present one.
fn count<T: PartialEq + Copy>(
    references: &[T],
    cache_blocks: usize,
    victim: impl Fn(&[T], &[T]) -> usize,
) -> u64 {
    let mut cached: Vec<T> = Vec::new();
    let mut fetches = 0;
    for (now, &block) in references.iter().enumerate() {
        if let Some(at) = cached.iter().position(|&b| b == block) {
            cached.remove(at);
        } else {
            fetches += 1;
            if cached.len() == cache_blocks {
                cached.remove(victim(&cached, &references[now + 1..]));
            }
        }
        cached.push(block);
    }
    fetches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_passes_over_four_blocks_with_room_for_three() {
        let references = [0, 1, 2, 3, 0, 1, 2, 3];
        assert_eq!(lru(&references, 3), 8);
        // MRU gives up 2 for 3, finds 0 and 1, gives up 1 for 2, and finds 3.
        assert_eq!(mru(&references, 3), 5);
        assert_eq!(belady(&references, 3), 5);
    }

    #[test]
    fn everything_fits() {
        let references = [5, 6, 5, 7, 6];
        for policy in [lru, mru, belady] {
            assert_eq!(policy(&references, 3), 3);
        }
    }
}
