//! How much of what the best alignment finds the streams find, when jobs nearly repeat.
//!
//! `cargo run --release -p foretell-policy --example alignment` prints the smallest share over bases and seeds, for each
//! perturbation and rate; `-- --bases` prints every base; `-- --readers` has 2, 4 and 8 readers that take turns at random,
//! each with another base: as processes of their own, which are not known and must find their streams, and as threads of
//! one process, whose recording is interleaved in another way than the live run.

use foretell_policy::alignment::{Limits, Match, Readers, Reference, Stream};
use foretell_policy::{Block, FileId};
use foretell_testkit::best_alignment;
use foretell_testkit::perturb::{
    BASES, Base, FOREIGN, Marked, PERTURBATIONS, Perturbation, Random, interleave,
};
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

/// The files of each reader are its own: file numbers from here on times the reader's number.
const FILES_OF_A_READER: u32 = 1 << 22;

/// Lists and live runs of some readers, each with a base of its own.
fn several(readers: usize, perturbation: Perturbation, rate: f64, seed: u64) -> Vec<[Vec<Marked>; 2]> {
    let reader = |reader: usize| {
        let seed = seed + 10 * reader as u64;
        let (list, live) = BASES[reader % BASES.len()].generate(seed);
        let (list, live) = perturbation.apply(&list, &live, rate, seed + 100);
        let of_reader = |all: Vec<Marked>| -> Vec<Marked> {
            let file = |m: &Marked| FileId(m.block.file.0 + FILES_OF_A_READER * reader as u32);
            all.iter().map(|m| Marked { block: Block::new(file(m), m.block.index), ..*m }).collect()
        };
        [of_reader(list), of_reader(live)]
    };
    (0..readers).map(reader).collect()
}

/// Matches of 2 to 8 readers over those of the best alignments, as processes of their own and as threads of one.
fn several_found(readers: usize, perturbation: Perturbation, rate: f64, seed: u64) -> [f64; 2] {
    let runs = several(readers, perturbation, rate, seed);
    let lists: Vec<Vec<Marked>> = runs.iter().map(|[list, _]| list.clone()).collect();
    let lives: Vec<Vec<Marked>> = runs.iter().map(|[_, live]| live.clone()).collect();
    let weights = vec![1; readers];
    let (list, live) = (interleave(&lists, &weights, seed), interleave(&lives, &weights, seed + 1));
    let blocks = |all: &[(usize, Marked)]| all.iter().map(|(_, m)| m.block).collect::<Vec<_>>();
    let best = best_alignment(&blocks(&list), &blocks(&live)).max(1) as f64;
    let mut ids = Ids::default();
    let listed: Vec<(usize, Reference)> = list.iter().map(|(r, m)| (*r, ids.reference(m.block))).collect();
    let window = (ids.0.len() / 4) as u32;
    let mut found = [0.0; 2];
    for (way, found) in found.iter_mut().enumerate() {
        let mut all = Readers::new(Limits { window, ..Limits::default() });
        for stream in 0..if way == 0 { readers } else { 1 } {
            all.add_stream();
            let of_stream = listed.iter().filter(|(reader, _)| way == 1 || *reader == stream);
            if let Some(stream) = all.stream_mut(stream) {
                for (_, r) in of_stream {
                    stream.append(*r);
                }
            }
        }
        let mut matched = 0;
        for (reader, m) in &live {
            let reader = if way == 0 { 1000 + *reader as u32 } else { 0 };
            if way == 1 {
                all.assign(reader, 0);
            }
            all.reference(reader, ids.reference(m.block), |_, _, how| {
                matched += u32::from(matches!(how, Match::At(_)));
            });
            for stream in 0..readers {
                while all.stream_mut(stream).and_then(Stream::take_moved).is_some() {}
            }
        }
        *found = f64::from(matched) / best;
    }
    found
}

fn print_several() {
    println!("found: matches over those of the best alignment, in per cent, one seed.\n");
    let mut tables = [String::new(), String::new()];
    for perturbation in PERTURBATIONS {
        for table in &mut tables {
            *table += &format!("| {perturbation:?} |");
        }
        for readers in [2, 4, 8] {
            for rate in RATES {
                let found = several_found(readers, perturbation, rate, 1);
                for (table, found) in tables.iter_mut().zip(found) {
                    *table += &format!(" {:.1} |", 100.0 * found.min(9.99));
                }
            }
        }
        for table in &mut tables {
            *table += "\n";
        }
    }
    for (name, table) in ["processes of their own", "threads of one process"].iter().zip(tables) {
        println!("| {name} | 2: 1% | 5% | 20% | 50% | 4: 1% | 5% | 20% | 50% | 8: 1% | 5% | 20% | 50% |");
        println!("| --- |{}\n{table}", " ---: |".repeat(12));
    }
}

fn main() {
    if std::env::args().any(|a| a == "--readers") {
        return print_several();
    }
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
