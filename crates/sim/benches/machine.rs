//! Simulated references a second, by policy and by the number of disks.
//!
//! `cargo bench -p foretell-sim`; the column to look at is the number of items (references) a second, and the
//! ratio of 64 disks to one: an event should cost the same however many disks there are.

use divan::{Bencher, counter::ItemsCount};
use foretell_device::catalogue;
use foretell_policy::{PoolPolicy, Prefetch};
use foretell_sim::{Cell, Input, PolicyName, simulate};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// A skewed workload with 40% misses at this cache.
const WORKLOAD: &str = "zipf:references=300000,objects=50000,alpha=0.8";
const CACHE_BLOCKS: u32 = 10_000;

const POLICIES: [PolicyName; 4] = [
    PolicyName::Demand(PoolPolicy::Lru),
    PolicyName::Planner(Prefetch::Linux),
    PolicyName::Planner(Prefetch::FixedHorizon),
    PolicyName::Planner(Prefetch::Forestall),
];

fn main() {
    divan::main();
}

#[divan::bench(args = POLICIES, consts = [1, 4, 16, 64], sample_count = 5, sample_size = 1)]
fn disks<const DISKS: u16>(bencher: Bencher, policy: PolicyName) {
    let workload: Workload = WORKLOAD.parse().expect("a workload");
    let input = Input::read(workload.open(1), DEFAULT_BLOCK_BYTES).expect("references");
    let device = catalogue::find("hp97560").expect("the paper's drive");
    let cell = Cell::new(policy, DISKS, "hp97560", device, CACHE_BLOCKS);
    // The optimum is computed once for an input: not in the measured time.
    let _ = input.optimum(CACHE_BLOCKS);
    let references = input.references();
    bencher.counter(ItemsCount::new(references)).bench_local(|| simulate(&cell, &input).expect("a run"));
}
