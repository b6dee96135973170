//! The adaptive policy is about as good as the better one of LRU and MRU, and better than both on mixtures:
//! a cut of the table in docs/results/adaptive.md.

#![allow(clippy::unwrap_used)]

use foretell_device::DeviceParameters;
use foretell_policy::PoolPolicy;
use foretell_sim::{Cell, Input, NO_DEVICE, PolicyName, replace_only};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// Fetches under the adaptive policy over those under the better one of LRU and MRU, for caches of 10, 25,
/// 50 and 75% of the distinct blocks.
fn ratios(workload: &str, seed: u64) -> Vec<f64> {
    let input = Input::read(workload.parse::<Workload>().unwrap().open(seed), DEFAULT_BLOCK_BYTES).unwrap();
    let distinct = input.optimum(1).distinct_blocks;
    let fetches = |policy, cache_blocks| {
        let none = DeviceParameters::uniform(0.0, u64::MAX);
        replace_only(&Cell::new(policy, 1, NO_DEVICE, none, cache_blocks), &input).unwrap().fetches
    };
    let ratio = |percent: u64| {
        let cache_blocks = (distinct * percent / 100) as u32;
        let of = |policy| fetches(policy, cache_blocks) as f64;
        of(PolicyName::Demand(PoolPolicy::Adaptive))
            / of(PolicyName::Demand(PoolPolicy::Lru)).min(of(PolicyName::Demand(PoolPolicy::Mru)))
    };
    [10, 25, 50, 75].map(ratio).to_vec()
}

#[test]
fn it_is_within_three_per_cent_of_the_better_one() {
    let workloads = [
        "dinero",
        "cscope1",
        "cscope2",
        "ld",
        "postgres-join",
        "postgres-select",
        "xds",
        "readn",
        "loop:blocks=700,passes=20",
        "zipf:references=100000,objects=10000,alpha=0.9",
        "lirs-cpp",
    ];
    for workload in workloads {
        for seed in [1, 2] {
            let ratios = ratios(workload, seed);
            assert!(ratios.iter().all(|ratio| *ratio <= 1.03), "{workload}, seed {seed}: {ratios:?}");
        }
    }
}

/// With three quarters of the blocks cached, little is left to gain.
#[test]
fn mixtures_are_better_than_under_either() {
    for workload in ["lirs-multi1", "lirs-multi2", "lirs-multi3"] {
        let ratios = ratios(workload, 2);
        assert!(ratios[..3].iter().all(|ratio| *ratio < 0.97) && ratios[3] <= 1.0, "{workload}: {ratios:?}");
    }
}

/// Where it loses most: few passes, of which the last ends early. What LRU has left in the cache when the
/// loop is found is not what comes first in the last pass.
#[test]
fn a_short_loop_that_ends_early_costs_an_eighth_at_most() {
    let ratios = ratios("lirs-cs", 1);
    assert!(ratios.iter().all(|ratio| *ratio <= 1.125), "{ratios:?}");
}
