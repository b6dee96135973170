//! The workloads have the totals of Kimbrel et al. (OSDI 1996), Table 3, and are the same for a seed.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashMap, HashSet};

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
        // Those in the style of the LIRS traces are loops in part.
        if !matches!(workload, Workload::Lirs(_)) {
            assert_eq!(take(1) != take(2), shape_is_random, "{workload}");
        }
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

/// The blocks of a workload, numbered from 0 over all its files, and for each reference when its block
/// is referenced next.
fn blocks(workload: Workload) -> (Vec<u32>, Vec<usize>) {
    let mut numbers = HashMap::new();
    let number = |block: foretell_trace::BlockReference| {
        let next = numbers.len() as u32;
        *numbers.entry((block.file, block.block)).or_insert(next)
    };
    let reader = Blocks::new(workload.open(0), DEFAULT_BLOCK_BYTES);
    let blocks: Vec<u32> = reader.map(|b| b.unwrap()).map(number).collect();
    let mut next_use = vec![usize::MAX; blocks.len()];
    let mut last = HashMap::new();
    for (at, block) in blocks.iter().enumerate().rev() {
        next_use[at] = last.insert(*block, at).unwrap_or(usize::MAX);
    }
    (blocks, next_use)
}

/// Misses of Belady's algorithm, by the book: evict the block whose next reference is farthest.
fn optimal_fetches(workload: Workload, cache_blocks: usize) -> u64 {
    let (blocks, next_use) = blocks(workload);
    let (mut cache, mut fetches) = (BTreeSet::new(), 0);
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

/// Misses of LRU, by the book.
fn lru_fetches(workload: Workload, cache_blocks: usize) -> u64 {
    let (blocks, _) = blocks(workload);
    let (mut by_age, mut age, mut fetches) = (BTreeSet::new(), HashMap::new(), 0);
    for (at, block) in blocks.iter().enumerate() {
        match age.insert(*block, at) {
            Some(before) => drop(by_age.remove(&(before, *block))),
            None => fetches += 1,
        }
        by_age.insert((at, *block));
        if by_age.len() > cache_blocks
            && let Some((_, oldest)) = by_age.pop_first()
        {
            age.remove(&oldest);
        }
    }
    fetches
}

/// Fetches of fixed horizon when fetches take no time: what is referenced within the horizon is fetched
/// unless it would replace a block that is needed sooner.
fn fixed_horizon_fetches(workload: Workload, cache_blocks: usize, horizon: usize) -> u64 {
    let (blocks, next_use) = blocks(workload);
    // Blocks in the cache by their next reference.
    let (mut cache, mut cached, mut fetches) = (BTreeSet::new(), HashMap::new(), 0);
    for now in 0..blocks.len() {
        let first = if now == 0 { 0 } else { now + horizon };
        let last = (now + horizon + 1).min(blocks.len());
        for (at, &block) in (first..last).zip(blocks.get(first..last).unwrap_or_default()) {
            if cached.contains_key(&block) {
                continue;
            }
            if cache.len() == cache_blocks {
                let farthest: (usize, u32) = *cache.last().unwrap();
                if farthest.0 <= at {
                    continue;
                }
                cache.remove(&farthest);
                cached.remove(&farthest.1);
            }
            fetches += 1;
            cache.insert((at, block));
            cached.insert(block, at);
        }
        let used = cached.insert(blocks[now], next_use[now]).unwrap();
        cache.remove(&(used, blocks[now]));
        cache.insert((next_use[now], blocks[now]));
    }
    fetches
}

#[test]
fn fixed_horizon_fetches_of_the_rebuilt_traces_are_the_published_ones() {
    // Kimbrel et al. 1996, section 4.2 (synth) and section 4.4 (cscope1, H = 64).
    assert_eq!(fixed_horizon_fetches(Workload::Synth, 1280, 62), 38_000);
    assert_eq!(fixed_horizon_fetches(Workload::Cscope1, 512, 64), 4959);
}

#[test]
fn models_cost_lru_about_the_block_ios_that_were_published() {
    // Cao, Felten, Li 1994, Table 6, original kernel, 6.4 MB (819 blocks) and 16 MB (2048 blocks).
    for (workload, cache_blocks, published) in [
        (Workload::Ld, 819, 5395),
        (Workload::Ld, 2048, 5390),
        (Workload::Glimpse, 819, 10_435),
        (Workload::Glimpse, 2048, 7508),
        (Workload::PostgresJoin, 819, 7166),
        (Workload::PostgresJoin, 2048, 5257),
    ] {
        let ours = lru_fetches(workload, cache_blocks);
        let off = (ours as f64 / f64::from(published) - 1.0).abs();
        assert!(off < 0.1, "{workload}, {cache_blocks} blocks: {ours} fetches, published {published}");
    }
}

#[test]
fn read300_misses_once_a_block_and_its_models_are_named() {
    let read300: Workload = "read300".parse().unwrap();
    let (reads, distinct, _) = totals(read300, 0);
    assert_eq!((reads, distinct), (1310 * 5, 1310));
    let models: Vec<&str> = Workload::all().iter().filter(|w| w.is_model()).map(|w| w.name()).collect();
    let (published, lirs) = models.split_at(5);
    assert_eq!(published, ["glimpse", "ld", "postgres-join", "postgres-select", "xds"]);
    assert!(lirs.len() == 7 && lirs.iter().all(|name| name.starts_with("lirs-")), "{lirs:?}");
    assert!(Workload::all().iter().all(|w| w.is_model() == w.description().starts_with("model:")));
}
