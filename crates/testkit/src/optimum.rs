//! The shortest possible elapsed time in the unit-time model, by trying every schedule.
//!
//! The model (Cao et al. 1996, section 2.1.2; with several disks Kimbrel et al. 1996, section 2): the
//! program references one block a time unit and waits while the block is missing. A fetch takes F units;
//! each disk does one at a time. When a fetch starts, some block must go if the cache is full, and it is
//! unavailable from that moment. The search is breadth first over (references done, cached blocks, what
//! each disk is doing): the first time that all references are done is the shortest.

use std::collections::BTreeSet;

/// One instance of the model.
#[derive(Debug, Clone)]
pub struct UnitTime {
    /// The references in order; blocks are numbered from 0 to 31.
    pub references: Vec<u32>,
    /// Blocks that the cache holds, K.
    pub cache_blocks: u32,
    /// Units that a fetch takes, F.
    pub fetch_units: u32,
    /// Blocks that are cached at the start, at most K.
    pub cached: Vec<u32>,
    /// Number of disks; block b is on disk b modulo this.
    pub disks: u32,
}

impl UnitTime {
    /// An instance with an empty cache and one disk.
    #[must_use]
    pub fn new(references: &[u32], cache_blocks: u32, fetch_units: u32) -> UnitTime {
        UnitTime { references: references.to_vec(), cache_blocks, fetch_units, cached: vec![], disks: 1 }
    }

    /// The same with these blocks cached at the start.
    #[must_use]
    pub fn with_cached(mut self, cached: &[u32]) -> UnitTime {
        self.cached = cached.to_vec();
        self
    }

    /// The same with this number of disks.
    #[must_use]
    pub fn with_disks(mut self, disks: u32) -> UnitTime {
        self.disks = disks;
        self
    }
}

/// The state at the beginning of a time unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// References done.
    done: usize,
    /// Cached blocks, one bit each.
    cached: u32,
    /// The block that each disk fetches and the units that it still needs.
    fetching: Vec<Option<(u32, u32)>>,
}

/// The elapsed time of the best schedule, in units. Exponential: meant for a dozen references, at most
/// eight different blocks and a cache of a few.
///
/// # Panics
///
/// If the cache cannot hold a block, or a block's number is above 31.
#[must_use]
pub fn best_time(instance: &UnitTime) -> u32 {
    assert!(instance.cache_blocks > 0 && instance.references.iter().all(|&b| b < 32));
    let start = State {
        done: 0,
        cached: instance.cached.iter().fold(0, |set, b| set | 1 << b),
        fetching: vec![None; instance.disks as usize],
    };
    let mut now = BTreeSet::from([start]);
    let mut time = 0;
    while !now.iter().any(|state| state.done == instance.references.len()) {
        let mut next = BTreeSet::new();
        for state in now {
            start_fetches(instance, &state, 0, &mut next);
        }
        now = next;
        time += 1;
    }
    time
}

/// Tries everything that the disks from `disk` on can start, then lets the unit pass.
fn start_fetches(instance: &UnitTime, state: &State, disk: usize, next: &mut BTreeSet<State>) {
    if disk == state.fetching.len() {
        next.insert(after_one_unit(instance, state.clone()));
        return;
    }
    start_fetches(instance, state, disk + 1, next);
    if state.fetching[disk].is_some() {
        return;
    }
    let in_flight: u32 = state.fetching.iter().flatten().map(|(block, _)| 1 << block).sum();
    let frames = state.cached.count_ones() + in_flight.count_ones();
    let wanted = instance.references[state.done..].iter().fold(0u32, |set, b| set | 1 << b);
    for block in (0..32).filter(|b| b % instance.disks == disk as u32) {
        if wanted & !state.cached & !in_flight & (1 << block) == 0 {
            continue;
        }
        let mut started = state.clone();
        started.fetching[disk] = Some((block, instance.fetch_units));
        if frames < instance.cache_blocks {
            start_fetches(instance, &started, disk + 1, next);
            continue;
        }
        for victim in (0..32).filter(|v| state.cached & (1 << v) != 0) {
            started.cached = state.cached & !(1 << victim);
            start_fetches(instance, &started, disk + 1, next);
        }
    }
}

fn after_one_unit(instance: &UnitTime, mut state: State) -> State {
    if state.cached & (1 << instance.references[state.done]) != 0 {
        state.done += 1;
    }
    for fetch in &mut state.fetching {
        if let Some((block, left)) = fetch {
            *left -= 1;
            if *left == 0 {
                state.cached |= 1 << *block;
                *fetch = None;
            }
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 0;
    const B: u32 = 1;
    const C: u32 = 2;

    #[test]
    fn waiting_is_best_for_abca() {
        // Cao et al. 1996, figure 1: no schedule is better than fetching C when it is missed.
        let instance = UnitTime::new(&[A, B, C, A], 2, 4).with_cached(&[A, B]);
        assert_eq!(best_time(&instance), 8);
    }

    #[test]
    fn prefetching_is_best_for_abcb() {
        // C is fetched in place of A while B is referenced: three units of waiting instead of four.
        let instance = UnitTime::new(&[A, B, C, B], 2, 4).with_cached(&[A, B]);
        assert_eq!(best_time(&instance), 7);
    }

    #[test]
    fn two_disks_fetch_side_by_side() {
        assert_eq!(best_time(&UnitTime::new(&[0, 1], 2, 3)), 3 + 3 + 1);
        assert_eq!(best_time(&UnitTime::new(&[0, 1], 2, 3).with_disks(2)), 3 + 2);
    }
}
