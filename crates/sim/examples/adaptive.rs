//! Fetches of every replacement policy on every workload: `./x bench adaptive`.
//!
//! Each workload is generated, with caches of 5, 10, 25, 50 and 75% of its distinct blocks. The table is
//! that of docs/results/adaptive.md; below it stand the summary and the cases where the adaptive policy fetches
//! more than the better one of LRU and MRU. Arguments: workloads, all of them unless some are named.

use std::error::Error;

use foretell_device::DeviceParameters;
use foretell_policy::PoolPolicy;
use foretell_sim::{Cell, Input, NO_DEVICE, PolicyName, replace_only};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

/// Caches, in per cent of the distinct blocks.
const CACHES_PERCENT: [u32; 5] = [5, 10, 25, 50, 75];

const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let workloads = match named.is_empty() {
        true => Workload::all().to_vec(),
        false => named.iter().map(|name| name.parse()).collect::<Result<Vec<Workload>, _>>()?,
    };
    let policies: Vec<PolicyName> = PolicyName::all().filter(|p| p.fetches_on_demand()).collect();
    let names: Vec<String> =
        policies.iter().map(|p| p.to_string().trim_start_matches("demand-").to_owned()).collect();
    println!("| workload | cache blocks | {} | adaptive / better of lru, mru |", names.join(" | "));
    println!("| --- |{}", " ---: |".repeat(policies.len() + 2));
    let mut ratios = Vec::new();
    for workload in workloads {
        let input = Input::read(workload.open(SEED), DEFAULT_BLOCK_BYTES)?;
        let distinct = input.optimum(1).distinct_blocks;
        for percent in CACHES_PERCENT {
            let cache_blocks = ((distinct * u64::from(percent) / 100) as u32).max(1);
            let mut fetches = Vec::new();
            for &policy in &policies {
                let none = DeviceParameters::uniform(0.0, u64::MAX);
                let cell = Cell::new(policy, 1, NO_DEVICE, none, cache_blocks);
                fetches.push(replace_only(&cell, &input)?.fetches);
            }
            let of = |wanted| policies.iter().position(|p| *p == wanted).map_or(0, |at| fetches[at]);
            let better = of(PolicyName::Demand(PoolPolicy::Lru)).min(of(PolicyName::Demand(PoolPolicy::Mru)));
            let ratio = of(PolicyName::Demand(PoolPolicy::Adaptive)) as f64 / better as f64;
            let counts: Vec<String> = fetches.iter().map(u64::to_string).collect();
            println!("| {workload} | {cache_blocks} ({percent}%) | {} | {ratio:.3} |", counts.join(" | "));
            ratios.push((ratio, format!("{workload}, {percent}%")));
        }
    }
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mean = (ratios.iter().map(|r| r.0.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let worse: Vec<String> =
        ratios.iter().filter(|r| r.0 > 1.0005).map(|r| format!("{} ({:.3})", r.1, r.0)).collect();
    let within = ratios.iter().filter(|r| r.0 <= 1.03).count();
    println!(
        "\nGeometric mean of the last column: {mean:.3}; at most 1.03 in {within} of {} cases.",
        ratios.len()
    );
    println!("Above 1: {}.", if worse.is_empty() { "none".to_owned() } else { worse.join("; ") });
    Ok(())
}
