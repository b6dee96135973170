//! How much of what the best alignment finds the streams find, when jobs nearly repeat.
//!
//! `cargo run --release -p foretell-policy --example alignment` prints the smallest share over bases and seeds, for each
//! perturbation and rate; `-- --bases` prints every base.

use foretell_policy::Block;
use foretell_policy::alignment::{Limits, Match, Reference, Stream};
use foretell_testkit::best_alignment;
use foretell_testkit::perturb::{BASES, Base, FOREIGN, Marked, PERTURBATIONS, Perturbation, Random};
use std::collections::BTreeMap;

const RATES: [f64; 4] = [0.01, 0.05, 0.20, 0.50];
const SEEDS: u64 = 3;

/// Dense ids of blocks.
#[derive(Default)]
struct Ids(BTreeMap<Block, u32>);

impl Ids {
    fn reference(&mut self, block: Block) -> Reference {
        let next = self.0.len() as u32;
        let id = *self.0.entry(block).or_insert(next);
        Reference { block: id, file: block.file.0, index: block.index }
    }
}

/// What one run found.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Matches, over those of the best alignment.
    found: f64,
    /// The same with references of positions that were used up already.
    explained: f64,
    /// Matches at the true position, over the references that have one.
    right: f64,
    /// Matches, over all references.
    matched: f64,
    jumps: u64,
}

fn run(list: &[Marked], live: &[Marked]) -> Figures {
    let mut ids = Ids::default();
    let listed: Vec<Reference> = list.iter().map(|m| ids.reference(m.block)).collect();
    let window = (ids.0.len() / 4) as u32;
    let mut stream = Stream::new(Limits { window, ..Limits::default() });
    for &r in &listed {
        stream.append(r);
    }
    let (mut matched, mut right) = (0, 0);
    for m in live {
        if let Match::At(p) = stream.reference(ids.reference(m.block)) {
            matched += 1;
            right += usize::from(list[p as usize].origin == m.origin);
        }
        while stream.take_moved().is_some() {}
    }
    let blocks = |all: &[Marked]| all.iter().map(|m| m.block).collect::<Vec<_>>();
    let best = best_alignment(&blocks(list), &blocks(live));
    let origins: std::collections::BTreeSet<u32> = list.iter().map(|m| m.origin).collect();
    let true_ones = live.iter().filter(|m| m.origin != FOREIGN && origins.contains(&m.origin)).count();
    let share = |part: usize, of: usize| if of == 0 { 1.0 } else { part as f64 / of as f64 };
    Figures {
        found: share(matched, best),
        explained: share(matched + stream.counts().again as usize, best),
        right: share(right, true_ones),
        matched: matched as f64 / live.len().max(1) as f64,
        jumps: stream.counts().jumps,
    }
}

fn cell(base: Base, perturbation: Perturbation, rate: f64) -> Figures {
    let mut worst = Figures { found: f64::MAX, explained: f64::MAX, right: f64::MAX, matched: 0.0, jumps: 0 };
    for seed in 0..SEEDS {
        let (list, live) = base.generate(seed);
        let (list, live) = perturbation.apply(&list, &live, rate, seed + 100);
        let figures = run(&list, &live);
        worst.found = worst.found.min(figures.found);
        worst.explained = worst.explained.min(figures.explained);
        worst.right = worst.right.min(figures.right);
        worst.matched = worst.matched.max(figures.matched);
        worst.jumps = worst.jumps.max(figures.jumps);
    }
    worst
}

fn main() {
    let every_base = std::env::args().any(|a| a == "--bases");
    println!(
        "found: matches over those of the best alignment; explained: the same with references of positions that"
    );
    println!(
        "were used up already; right: matches at the true position, over those that have one. In per cent, the"
    );
    println!("smallest over bases and {SEEDS} seeds.\n");
    println!("{:<18} {:>27} {:>30} {:>30}", "", "found", "explained", "right");
    print!("{:<18}", "");
    for _ in 0..3 {
        print!(" {:>6} {:>6} {:>6} {:>6}   ", "1%", "5%", "20%", "50%");
    }
    println!();
    for perturbation in PERTURBATIONS {
        let cells: Vec<Vec<Figures>> =
            BASES.iter().map(|&base| RATES.map(|rate| cell(base, perturbation, rate)).to_vec()).collect();
        let print = |name: &str, figures: &[Figures]| {
            print!("{name:<18}");
            for f in figures {
                print!(" {:>6.1}", 100.0 * f.found.min(9.99));
            }
            print!("   ");
            for f in figures {
                print!(" {:>6.1}", 100.0 * f.explained);
            }
            print!("   ");
            for f in figures {
                print!(" {:>6.1}", 100.0 * f.right);
            }
            if every_base {
                print!("   jumps");
                for f in figures {
                    print!(" {:>4}", f.jumps);
                }
            }
            println!();
        };
        let least: Vec<Figures> = (0..RATES.len())
            .map(|i| {
                let column = || cells.iter().map(|c| c[i]);
                Figures {
                    found: column().map(|f| f.found).fold(f64::MAX, f64::min),
                    explained: column().map(|f| f.explained).fold(f64::MAX, f64::min),
                    right: column().map(|f| f.right).fold(f64::MAX, f64::min),
                    matched: 0.0,
                    jumps: column().map(|f| f.jumps).max().unwrap_or(0),
                }
            })
            .collect();
        print(&format!("{perturbation:?}"), &least);
        if every_base {
            for (base, figures) in BASES.iter().zip(&cells) {
                print(&format!("  {base:?}"), figures);
            }
        }
    }
    println!("\nanother job (matched of all references, jumps):");
    for base in [Base::Scan, Base::SmallFiles, Base::Samples, Base::Index] {
        let (list, live) = base.generate(1);
        let mut shuffled = live.clone();
        Random::new(5).shuffle(&mut shuffled);
        for m in &mut shuffled {
            m.origin = FOREIGN;
        }
        let figures = run(&list, &shuffled);
        println!(
            "  {base:?}, its blocks in a random order: {:.1}%, {} jumps",
            100.0 * figures.matched,
            figures.jumps
        );
        let (_, other) = base.generate(77);
        let figures = run(&list, &other);
        println!("  {base:?}, another seed: {:.1}%, {} jumps", 100.0 * figures.matched, figures.jumps);
    }
}
