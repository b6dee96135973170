//! Workloads in the style of the traces of Jiang and Zhang (SIGMETRICS 2002, section 4.1, after Choi et
//! al.), which are not ours to give: the same kinds of access pattern at about the same size. Only the kind
//! and the size are theirs; the rest is chosen here, so results on these show directions, not figures.
//!
//! ```text
//!  lirs-cs       loop: 1,409 blocks of source, searched 4.8 times
//!  lirs-cpp      skewed: each of many sources is read once, with headers that are popular or not
//!  lirs-sprite   temporal: a block is the likelier the fewer others were referenced since
//!  lirs-2-pools  an index page of 100 and a record page of 10,000 in turn
//!  lirs-multi1   cs and cpp at the same time
//!  lirs-multi2   cs, cpp and postgres-join
//!  lirs-multi3   cpp, a loop (a plotting program), glimpse and postgres-join
//! ```

use super::compute::Shape;
use super::random::Random;
use super::zipf::Zipf;
use super::{Plan, Visit, glimpse, postgres};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LirsTrace {
    /// A loop.
    Cs,
    /// Popular and unpopular headers.
    Cpp,
    /// Temporal locality.
    Sprite,
    /// Two pools of pages, each alike.
    TwoPools,
    /// A loop and headers.
    Multi1,
    /// A loop, headers and a join.
    Multi2,
    /// Headers, a loop, a search and a join.
    Multi3,
}

/// All, in the order of the table above.
pub(super) const ALL: [LirsTrace; 7] = [
    LirsTrace::Cs,
    LirsTrace::Cpp,
    LirsTrace::Sprite,
    LirsTrace::TwoPools,
    LirsTrace::Multi1,
    LirsTrace::Multi2,
    LirsTrace::Multi3,
];

/// References of the traces on their own.
const CS: u64 = 6781;
const CPP: u64 = 9047;
const SPRITE: u64 = 133_996;
const TWO_POOLS: u64 = 100_000;
const PLOT: u64 = 3000;
/// Those of Kimbrel et al. (1996), Table 3.
const GLIMPSE: u64 = 27_981;
const JOIN: u64 = 8896;

/// Blocks of the loops.
const CS_BLOCKS: u32 = 1409;
const PLOT_BLOCKS: u32 = 1000;

const SPRITE_BLOCKS: u32 = 7075;
/// How much likelier a reference to a block is that was referenced more recently: the block at depth d of
/// the stack is drawn in proportion to 1 / d^1.2.
const SPRITE_SKEW: f64 = 1.2;

/// Headers and their blocks, sources and theirs: about 1,200 blocks together.
const HEADERS: u32 = 200;
const HEADER_BLOCKS: u32 = 4;
const SOURCES: u32 = 400;
/// Headers that a source includes.
const INCLUDED: u32 = 6;

/// Pages of the two pools (O'Neil, O'Neil and Weikum, SIGMOD 1993, section 4.1).
const INDEX_PAGES: u32 = 100;
const RECORD_PAGES: u32 = 10_000;

/// References that a program makes at most before another one has its turn.
const LONGEST_TURN: u32 = 16;

impl LirsTrace {
    pub(super) fn name(self) -> &'static str {
        match self {
            LirsTrace::Cs => "lirs-cs",
            LirsTrace::Cpp => "lirs-cpp",
            LirsTrace::Sprite => "lirs-sprite",
            LirsTrace::TwoPools => "lirs-2-pools",
            LirsTrace::Multi1 => "lirs-multi1",
            LirsTrace::Multi2 => "lirs-multi2",
            LirsTrace::Multi3 => "lirs-multi3",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            LirsTrace::Cs => "model: a loop over 1,409 blocks (all lirs-*: Jiang and Zhang 2002)",
            LirsTrace::Cpp => "model: sources read once, headers by popularity",
            LirsTrace::Sprite => "model: temporal locality, 7,075 blocks",
            LirsTrace::TwoPools => "model: an index page of 100 and a record page of 10,000 in turn",
            LirsTrace::Multi1 => "model: lirs-cs and lirs-cpp at the same time",
            LirsTrace::Multi2 => "model: lirs-cs, lirs-cpp and postgres-join at the same time",
            LirsTrace::Multi3 => "model: lirs-cpp, a loop, glimpse and postgres-join at the same time",
        }
    }

    pub(super) fn references(self) -> u64 {
        match self {
            LirsTrace::Cs => CS,
            LirsTrace::Cpp => CPP,
            LirsTrace::Sprite => SPRITE,
            LirsTrace::TwoPools => TWO_POOLS,
            LirsTrace::Multi1 => CS + CPP,
            LirsTrace::Multi2 => CS + CPP + JOIN,
            LirsTrace::Multi3 => CPP + PLOT + GLIMPSE + JOIN,
        }
    }

    pub(super) fn plan(self, seed: u64) -> Plan {
        let cs = || (looped("cs", CS_BLOCKS), CS);
        let cpp = || (cpp(seed), CPP);
        let join = || (postgres::join(seed), JOIN);
        match self {
            LirsTrace::Cs => cs().0,
            LirsTrace::Cpp => cpp().0,
            LirsTrace::Sprite => sprite(seed),
            LirsTrace::TwoPools => two_pools(seed),
            LirsTrace::Multi1 => together(vec![cs(), cpp()], seed),
            LirsTrace::Multi2 => together(vec![cs(), cpp(), join()], seed),
            LirsTrace::Multi3 => {
                let plot = (looped("plot", PLOT_BLOCKS), PLOT);
                together(vec![cpp(), plot, (glimpse::glimpse(seed), GLIMPSE), join()], seed)
            }
        }
    }
}

fn looped(name: &str, blocks: u32) -> Plan {
    let visits = (0..).flat_map(move |_: u64| (0..blocks).map(|block| (0, block)));
    Plan { files: vec![(name.to_owned(), blocks)], visits: Box::new(visits), shape: Shape::Constant }
}

/// Each source is read, and the headers that it includes from beginning to end; file 0 is all headers,
/// file 1 all sources. When the last source has been read, the first is next.
fn cpp(seed: u64) -> Plan {
    let (popularity, mut random) = (Zipf::new(HEADERS, 1.0), Random::new(seed, 11));
    let visits = (0..).flat_map(move |source: u32| {
        let mut of_source: Vec<Visit> = vec![(1, source % SOURCES)];
        for _ in 0..INCLUDED {
            let header = popularity.draw(&mut random) - 1;
            // Headers of one to seven blocks, four in the mean.
            let blocks = 1 + header * 5 % (2 * HEADER_BLOCKS - 1);
            of_source.extend((0..blocks).map(|block| (0, header * 2 * HEADER_BLOCKS + block)));
        }
        of_source
    });
    let files = vec![("headers".to_owned(), HEADERS * 2 * HEADER_BLOCKS), ("sources".to_owned(), SOURCES)];
    Plan { files, visits: Box::new(visits), shape: Shape::Constant }
}

/// An LRU stack: a block that was not referenced before comes now and then, so that all have come at the
/// end; else the depth of the next block is drawn.
fn sprite(seed: u64) -> Plan {
    let (depths, mut random) = (Zipf::new(SPRITE_BLOCKS, SPRITE_SKEW), Random::new(seed, 12));
    // The most recent at the end.
    let mut stack: Vec<u32> = Vec::new();
    let fresh_in = SPRITE / u64::from(SPRITE_BLOCKS);
    let visits = (0..SPRITE).map(move |at| {
        let depth = depths.draw(&mut random) as usize;
        let fresh = stack.len() as u32;
        let is_fresh = at % fresh_in == 0 && fresh < SPRITE_BLOCKS;
        let block = if is_fresh { fresh } else { stack.remove(stack.len() - 1 - (depth - 1) % stack.len()) };
        stack.push(block);
        (0, block)
    });
    Plan {
        files: vec![("sprite".to_owned(), SPRITE_BLOCKS)],
        visits: Box::new(visits),
        shape: Shape::Constant,
    }
}

fn two_pools(seed: u64) -> Plan {
    let mut random = Random::new(seed, 13);
    let visits = (0..).map(move |at: u64| match at % 2 {
        0 => (0, random.below(INDEX_PAGES)),
        _ => (1, random.below(RECORD_PAGES)),
    });
    let files = vec![("index".to_owned(), INDEX_PAGES), ("records".to_owned(), RECORD_PAGES)];
    Plan { files, visits: Box::new(visits), shape: Shape::Constant }
}

/// Several programs at the same time, each with files of its own: they have turns of random length, as
/// often as they have references left, so that all end at about the same time.
fn together(programs: Vec<(Plan, u64)>, seed: u64) -> Plan {
    let mut random = Random::new(seed, 14);
    let mut files = Vec::new();
    let mut running = Vec::new();
    for (plan, references) in programs {
        running.push((files.len() as u32, plan.visits, references));
        files.extend(plan.files);
    }
    let mut turn = (0, 0);
    let visits = std::iter::from_fn(move || {
        if turn.1 == 0 || running[turn.0].2 == 0 {
            let left: u64 = running.iter().map(|program| program.2).sum();
            let mut at = (random.unit() * left as f64) as u64;
            let next = running.iter().position(|program| {
                let here = at < program.2;
                at = at.saturating_sub(program.2);
                here
            })?;
            turn = (next, 1 + random.below(LONGEST_TURN));
        }
        turn.1 -= 1;
        let (first_file, visits, left) = &mut running[turn.0];
        *left -= 1;
        visits.next().map(|(file, block)| (*first_file + file, block))
    });
    Plan { files, visits: Box::new(visits), shape: Shape::Constant }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn they_are_as_long_and_as_wide_as_said() {
        let about = [1409, 1200, 7075, 10_100, 2600, 6400, 11_000];
        for (trace, about) in ALL.into_iter().zip(about) {
            let plan = trace.plan(1);
            let visits: Vec<Visit> = plan.visits.take(trace.references() as usize).collect();
            assert_eq!(visits.len() as u64, trace.references(), "{}", trace.name());
            assert!(visits.iter().all(|(file, block)| *block < plan.files[*file as usize].1));
            let distinct = visits.iter().collect::<BTreeSet<_>>().len();
            assert!(distinct.abs_diff(about) < about / 6, "{}: {distinct} blocks", trace.name());
        }
    }
}
