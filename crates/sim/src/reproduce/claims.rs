//! Sentences of the paper, made into comparisons of runs.

use foretell_policy::Prefetch;

use super::runs::{ARRAYS, Claim, Named, Run, Runs};
use super::{Finding, Verdict};
use crate::cell::Batch;
use crate::policy::PolicyName;

const OPTIMAL: PolicyName = PolicyName::Optimal;
const FIXED_HORIZON: PolicyName = PolicyName::Planner(Prefetch::FixedHorizon);
const AGGRESSIVE: PolicyName = PolicyName::Planner(Prefetch::Aggressive);
const REVERSE_AGGRESSIVE: PolicyName = PolicyName::Planner(Prefetch::ReverseAggressive);
const FORESTALL: PolicyName = PolicyName::Planner(Prefetch::Forestall);

/// The traces of Table 3.
const TRACES: [Named; 10] = [
    "synth",
    "dinero",
    "cscope1",
    "cscope2",
    "cscope3",
    "glimpse",
    "ld",
    "postgres-join",
    "postgres-select",
    "xds",
];

/// Forestall may be this much slower than the better of fixed horizon and aggressive (section 5.1).
const FORESTALL_WORSE_PERCENT: f64 = 2.0;

/// A wait in this share of the compute time is worth prefetching against.
const STALL_SHARE: f64 = 0.01;

pub(super) fn claims() -> Vec<Claim> {
    let mut claims: Vec<Claim> = TRACES.into_iter().map(forestall).collect();
    claims.extend(TRACES.into_iter().map(demand));
    claims.extend(crossovers());
    claims.extend([batch_sizes(), horizons(), faster_processor()]);
    claims
}

fn finding(source: &str, what: String, published: &str, ours: String, verdict: Verdict) -> Finding {
    Finding {
        source: source.to_owned(),
        what,
        published: published.to_owned(),
        ours,
        difference: String::new(),
        verdict,
        note: String::new(),
    }
}

fn judged(holds: bool, otherwise: Verdict) -> Verdict {
    if holds { otherwise } else { Verdict::Differs }
}

/// Section 5.1: forestall against the better of the other two, on every array.
fn forestall(workload: Named) -> Claim {
    let run = move |policy, disks| Run::new(workload, policy, disks);
    let policies = [FORESTALL, FIXED_HORIZON, AGGRESSIVE];
    Claim {
        runs: ARRAYS.into_iter().flat_map(|d| policies.map(|p| run(p, d))).collect(),
        judge: Box::new(move |runs| {
            let elapsed = |policy, disks| runs.get(run(policy, disks)).elapsed_s;
            let worse = ARRAYS.map(|d| {
                let better = elapsed(FIXED_HORIZON, d).min(elapsed(AGGRESSIVE, d));
                100.0 * (elapsed(FORESTALL, d) / better - 1.0)
            });
            let worst = worse.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let best = worse.into_iter().fold(f64::INFINITY, f64::min);
            finding(
                "section 5.1",
                format!(
                    "{workload}: forestall over the better of fixed horizon and aggressive, 1 to 16 disks"
                ),
                "-5.8% to +2%",
                format!("{best:+.1}% to {worst:+.1}%"),
                judged(worst <= FORESTALL_WORSE_PERCENT, Verdict::Met),
            )
        }),
    }
}

/// Section 4.1: optimal demand fetching is beaten by all wherever it stalls.
fn demand(workload: Named) -> Claim {
    let run = move |policy, disks| Run::new(workload, policy, disks);
    let policies = [OPTIMAL, FIXED_HORIZON, AGGRESSIVE, REVERSE_AGGRESSIVE, FORESTALL];
    const SOME_ARRAYS: [u16; 3] = [1, 2, 4];
    Claim {
        runs: SOME_ARRAYS.into_iter().flat_map(|d| policies.map(|p| run(p, d))).collect(),
        judge: Box::new(move |runs| {
            let mut gain_percent: f64 = f64::INFINITY;
            let mut beaten = true;
            for disks in SOME_ARRAYS {
                let demand = runs.get(run(OPTIMAL, disks));
                for policy in &policies[1..] {
                    let gain = 100.0 * (demand.elapsed_s / runs.get(run(*policy, disks)).elapsed_s - 1.0);
                    if demand.stall_s > STALL_SHARE * demand.compute_s {
                        beaten &= gain > 0.0;
                        gain_percent = gain_percent.min(gain);
                    }
                }
            }
            finding(
                "section 4.1",
                format!("{workload}: the four against optimal demand fetching, 1, 2 and 4 disks"),
                "all are faster",
                format!("demand fetching takes at least {gain_percent:.0}% longer"),
                judged(beaten, Verdict::Met),
            )
        }),
    }
}

/// Section 4.3: from how many disks on fixed horizon is at least as fast as aggressive.
fn crossovers() -> Vec<Claim> {
    let at_least_six = |d: u16| d > 5;
    let at_most_five = |d: u16| d <= 5;
    let about_ten = |d: u16| (8..=12).contains(&d);
    type Holds = fn(u16) -> bool;
    let table: [(Named, u32, &'static str, Holds); 8] = [
        ("postgres-select", 689, "above 5 disks", at_least_six),
        ("glimpse", 100, "above 5 disks", at_least_six),
        ("cscope2", 100, "above 5 disks", at_least_six),
        ("postgres-join", 15, "below 5 disks", at_most_five),
        ("dinero", 100, "below 5 disks", at_most_five),
        ("cscope1", 100, "below 5 disks", at_most_five),
        ("xds", 100, "below 5 disks", at_most_five),
        ("ld", 100, "at 10 disks", about_ten),
    ];
    let claim = |(workload, cpu_percent, published, holds): (Named, u32, &'static str, Holds)| {
        let run = move |policy, disks| Run { cpu_percent, ..Run::new(workload, policy, disks) };
        Claim {
            runs: ARRAYS.into_iter().flat_map(|d| [run(FIXED_HORIZON, d), run(AGGRESSIVE, d)]).collect(),
            judge: Box::new(move |runs| {
                let from = crossover(runs, run);
                let mut found = finding(
                    "section 4.3",
                    format!("{workload}: fixed horizon as fast as aggressive from"),
                    published,
                    from.map_or("nowhere".to_owned(), |d| format!("{d} disk(s)")),
                    judged(from.is_some_and(holds), Verdict::Direction),
                );
                if cpu_percent != 100 {
                    found.note = "with the compute times of the two postgres traces exchanged".to_owned();
                } else if found.verdict == Verdict::Differs {
                    found.note = "depends on bursts of compute time, which are not published".to_owned();
                }
                found
            }),
        }
    };
    table.into_iter().map(claim).collect()
}

/// The smallest array on which, and on all larger ones, fixed horizon is at least as fast.
fn crossover(runs: &Runs, run: impl Fn(PolicyName, u16) -> Run) -> Option<u16> {
    let wins =
        |d: u16| runs.get(run(FIXED_HORIZON, d)).elapsed_s <= 1.001 * runs.get(run(AGGRESSIVE, d)).elapsed_s;
    ARRAYS.into_iter().rev().take_while(|&d| wins(d)).last()
}

/// Section 4.4, Figure 6: the batch size of aggressive on cscope2.
fn batch_sizes() -> Claim {
    const SIZES: [u32; 6] = [4, 16, 40, 80, 160, 1280];
    let run = |size: u32, disks| Run { batch: Batch::Fixed(size), ..Run::new("cscope2", AGGRESSIVE, disks) };
    Claim {
        runs: SIZES.into_iter().flat_map(|s| [1, 3, 5].map(|d| run(s, d))).collect(),
        judge: Box::new(move |runs| {
            let best = |disks| {
                let elapsed = |s: &u32| runs.get(run(*s, disks)).elapsed_ns;
                SIZES.into_iter().min_by_key(elapsed).unwrap_or(0)
            };
            let (one, three, five) = (best(1), best(3), best(5));
            let rises_and_falls = one > SIZES[0] && one < SIZES[5];
            finding(
                "Figure 6",
                "cscope2: best batch of aggressive on 1, 3 and 5 disks".to_owned(),
                "first better, then worse with size; smaller with more disks",
                format!("{one}, {three} and {five}"),
                judged(rises_and_falls && one >= three && three >= five, Verdict::Direction),
            )
        }),
    }
}

/// Section 4.4, Figure 7: the horizon on cscope1 and cscope2.
fn horizons() -> Claim {
    const HORIZONS: [u32; 6] = [16, 32, 64, 256, 1024, 2048];
    let run = |workload, h: u32| Run { horizon: Some(h), ..Run::new(workload, FIXED_HORIZON, 1) };
    Claim {
        runs: HORIZONS.into_iter().flat_map(|h| ["cscope1", "cscope2"].map(|w| run(w, h))).collect(),
        judge: Box::new(move |runs| {
            let best = |workload| {
                let elapsed = |h: &u32| runs.get(run(workload, *h)).elapsed_ns;
                HORIZONS.into_iter().min_by_key(elapsed).unwrap_or(0)
            };
            let (one, two) = (best("cscope1"), best("cscope2"));
            finding(
                "Figure 7",
                "best horizon on 1 disk, cscope1 and cscope2".to_owned(),
                "about 64; far larger, but not the largest",
                format!("{one}; {two}"),
                judged((32..=256).contains(&one) && two > one && two < 2048, Verdict::Direction),
            )
        }),
    }
}

/// Section 4.4: a processor twice as fast (H = 124) moves the crossover to more disks.
fn faster_processor() -> Claim {
    const WORKLOADS: [Named; 6] = ["synth", "cscope1", "cscope2", "glimpse", "ld", "xds"];
    let run = |workload, fast: bool| {
        move |policy, disks| Run {
            cpu_percent: if fast { 200 } else { 100 },
            horizon: (fast && policy == FIXED_HORIZON).then_some(124),
            ..Run::new(workload, policy, disks)
        }
    };
    let runs_of = move |workload| {
        ARRAYS.into_iter().flat_map(move |d| {
            [false, true].into_iter().flat_map(move |fast| {
                [FIXED_HORIZON, AGGRESSIVE].map(|policy| run(workload, fast)(policy, d))
            })
        })
    };
    Claim {
        runs: WORKLOADS.into_iter().flat_map(runs_of).collect(),
        judge: Box::new(move |runs| {
            let mut all = true;
            let shifts: Vec<String> = WORKLOADS
                .into_iter()
                .map(|w| {
                    let place = |fast| crossover(runs, run(w, fast)).unwrap_or(17);
                    let (before, after) = (place(false), place(true));
                    all &= after >= before;
                    format!("{w} {before} to {after}")
                })
                .collect();
            finding(
                "section 4.4",
                "processor twice as fast: fixed horizon as fast as aggressive from, disks".to_owned(),
                "more disks, consistently",
                shifts.join(", "),
                judged(all, Verdict::Direction),
            )
        }),
    }
}

/// Not of the paper: every run must add up.
pub(super) fn sums(runs: &Runs) -> Finding {
    let (mut all, mut exact) = (0, 0);
    for o in runs.all() {
        all += 1;
        exact += u64::from(o.elapsed_ns == o.compute_ns + o.driver_ns + o.stall_ns);
    }
    finding(
        "every run",
        "elapsed = compute + driver + stall, to the nanosecond".to_owned(),
        "always",
        format!("{exact} of {all} runs"),
        judged(exact == all, Verdict::Met),
    )
}
