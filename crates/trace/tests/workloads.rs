//! The workloads have the totals of Kimbrel et al. (OSDI 1996), Table 3, and are the same for a seed.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use foretell_trace::{Blocks, DEFAULT_BLOCK_BYTES, TraceReader, Workload};

fn totals(workload: Workload, seed: u64) -> (u64, u64, u64) {
    let (mut reads, mut compute_ns, mut seen) = (0, 0, HashSet::new());
    for block in Blocks::new(workload.open(seed), DEFAULT_BLOCK_BYTES) {
        let block = block.expect("generators do not fail");
        reads += 1;
        compute_ns += block.compute_ns;
        seen.insert((block.file, block.block));
    }
    (reads, seen.len() as u64, compute_ns)
}

#[test]
fn table_3_holds_for_every_workload_of_the_paper_and_several_seeds() {
    let mut checked = 0;
    for workload in Workload::all() {
        let Some(published) = workload.published() else { continue };
        for seed in [0, 1, 42] {
            let expected = (published.reads, published.distinct_blocks, published.compute_ms * 1_000_000);
            assert_eq!(totals(*workload, seed), expected, "{workload} seed {seed}");
        }
        checked += 1;
    }
    assert_eq!(checked, 10);
}

#[test]
fn a_seed_gives_the_same_references_and_another_seed_others() {
    for workload in Workload::all() {
        let take = |seed| workload.open(seed).take(5000).map(|r| r.unwrap()).collect::<Vec<_>>();
        assert_eq!(take(1), take(1), "{workload}");
        let shape_is_random = !matches!(workload, Workload::Loop { .. } | Workload::ReadN { .. });
        assert_eq!(take(1) != take(2), shape_is_random, "{workload}");
    }
}

#[test]
fn every_reference_lies_inside_its_file() {
    for workload in Workload::all() {
        let mut generator = workload.open(3);
        let (hint, _) = generator.size_hint();
        assert_eq!(hint as u64, workload.references());
        while let Some(reference) = generator.next() {
            let reference = reference.unwrap();
            let file = &generator.meta().files[reference.file as usize];
            assert!(reference.offset + reference.bytes <= file.bytes.unwrap(), "{workload}: {reference:?}");
        }
    }
}

#[test]
fn synth_with_1280_blocks_costs_optimal_demand_fetching_37280_fetches() {
    // 2000 in the first pass, then 720 in each of 49 (Kimbrel et al. 1996, section 4.2).
    assert_eq!(optimal_fetches(Workload::Synth, 1280), 37_280);
}

/// Misses of Belady's algorithm, by the book: evict the block whose next reference is farthest.
fn optimal_fetches(workload: Workload, cache_blocks: usize) -> u64 {
    let blocks: Vec<u32> = Blocks::new(workload.open(0), DEFAULT_BLOCK_BYTES)
        .map(|b| b.expect("generators do not fail").block)
        .collect();
    let mut next_use = vec![usize::MAX; blocks.len()];
    let mut last = std::collections::HashMap::new();
    for (at, block) in blocks.iter().enumerate().rev() {
        next_use[at] = last.insert(*block, at).unwrap_or(usize::MAX);
    }
    let mut cache = std::collections::BTreeSet::new();
    let mut fetches = 0;
    for (at, block) in blocks.iter().enumerate() {
        if !cache.remove(&(at, *block)) {
            fetches += 1;
            if cache.len() == cache_blocks {
                cache.pop_last();
            }
        }
        cache.insert((next_use[at], *block));
    }
    fetches
}

#[test]
fn read300_misses_once_a_block_and_its_models_are_named() {
    let read300: Workload = "read300".parse().unwrap();
    let (reads, distinct, _) = totals(read300, 0);
    assert_eq!((reads, distinct), (1310 * 5, 1310));
    let models: Vec<&str> = Workload::all().iter().filter(|w| w.is_model()).map(|w| w.name()).collect();
    assert_eq!(models, ["glimpse", "ld", "postgres-join", "postgres-select", "xds"]);
    assert!(Workload::all().iter().all(|w| w.is_model() == w.description().starts_with("model:")));
}
