//! Jobs that nearly repeat: base sequences of one reader, and what changes from one run to the next.
//!
//! Every reference of a base has an *origin*, its number there; list and live run keep it through every perturbation,
//! so that a test knows which position a reference really is.

use std::collections::{BTreeMap, BTreeSet};

use foretell_policy::{Block, FileId};

/// The origin of a reference that the base does not have.
pub const FOREIGN: u32 = u32::MAX;

/// A reference, and which one of the base it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marked {
    /// What is referenced.
    pub block: Block,
    /// Its number in the base, or [`FOREIGN`].
    pub origin: u32,
}

/// A seeded sequence of numbers (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True in `rate` of all cases.
    pub fn chance(&mut self, rate: f64) -> bool {
        ((self.next() >> 11) as f64) < rate * (1u64 << 53) as f64
    }

    /// Puts in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i + 1));
        }
    }
}

/// What a reader does when nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// 20 files of 400 blocks, one after the other, three times.
    Scan,
    /// 500 files of 1 to 20 blocks, four times.
    SmallFiles,
    /// 2,000 samples of 8 to 16 blocks in one file, each once an epoch, three epochs in different orders.
    Samples,
    /// The same; the list lacks 0.5% of the references.
    SamplesThinned,
    /// 20,000 blocks of an index of 5,000, drawn by Zipf's law.
    Index,
    /// A file of two blocks that is read again before each of 400 others of 10 blocks, three times.
    Configuration,
    /// An index join: two blocks of an index, drawn by Zipf's law, then one of 10,000 scattered tuples, 5,000 times.
    Join,
}

/// All bases.
pub const BASES: [Base; 7] = [
    Base::Scan,
    Base::SmallFiles,
    Base::Samples,
    Base::SamplesThinned,
    Base::Index,
    Base::Configuration,
    Base::Join,
];

fn whole(file: usize, blocks: usize) -> impl Iterator<Item = Block> {
    (0..blocks).map(move |i| Block::new(FileId(file as u32), i as u32))
}

/// Draws ranks below `n` with probability in proportion to 1 / (rank + 1), each rank a random one of the `n` blocks.
fn zipf(n: usize, draws: usize, random: &mut Random) -> Vec<u32> {
    let mut sums = Vec::with_capacity(n);
    let mut sum = 0.0;
    for rank in 0..n {
        sum += 1.0 / (rank + 1) as f64;
        sums.push(sum);
    }
    let mut blocks: Vec<u32> = (0..n as u32).collect();
    random.shuffle(&mut blocks);
    let mut draw = || {
        let at = random.below(1 << 40) as f64 / (1u64 << 40) as f64 * sum;
        blocks[sums.partition_point(|&s| s <= at).min(n - 1)]
    };
    (0..draws).map(|_| draw()).collect()
}

impl Base {
    /// The list, and the live run when nothing changes.
    #[must_use]
    pub fn generate(self, seed: u64) -> (Vec<Marked>, Vec<Marked>) {
        let mut random = Random::new(seed);
        let blocks = self.blocks(&mut random);
        let live: Vec<Marked> = (0..).zip(blocks).map(|(origin, block)| Marked { block, origin }).collect();
        let mut list = live.clone();
        if self == Base::SamplesThinned {
            list.retain(|_| !random.chance(0.005));
        }
        (list, live)
    }

    fn blocks(self, random: &mut Random) -> Vec<Block> {
        match self {
            Base::Scan => (0..3).flat_map(|_| (0..20).flat_map(|file| whole(file, 400))).collect(),
            Base::SmallFiles => {
                let sizes: Vec<usize> = (0..500).map(|_| 1 + random.below(20)).collect();
                let pass = || sizes.iter().enumerate().flat_map(|(file, &blocks)| whole(file, blocks));
                (0..4).flat_map(|_| pass()).collect()
            }
            Base::Samples | Base::SamplesThinned => {
                let mut next = 0;
                let mut samples = Vec::new();
                for _ in 0..2000 {
                    let blocks = 8 + random.below(9) as u32;
                    samples.push(next..next + blocks);
                    next += blocks;
                }
                let mut all = Vec::new();
                for _ in 0..3 {
                    random.shuffle(&mut samples);
                    all.extend(samples.iter().cloned().flatten().map(|i| Block::new(FileId(0), i)));
                }
                all
            }
            Base::Index => zipf(5000, 20_000, random).into_iter().map(|i| Block::new(FileId(0), i)).collect(),
            Base::Configuration => {
                (0..3).flat_map(|_| (1..=400).flat_map(|file| whole(0, 2).chain(whole(file, 10)))).collect()
            }
            Base::Join => {
                let index = zipf(2000, 10_000, random);
                let tuples = |pair: &[u32]| {
                    let tuple = Block::new(FileId(1), random.below(10_000) as u32);
                    [Block::new(FileId(0), pair[0]), Block::new(FileId(0), pair[1]), tuple]
                };
                index.chunks_exact(2).flat_map(tuples).collect()
            }
        }
    }
}

/// What changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perturbation {
    /// References of the list do not happen.
    Dropped,
    /// References happen that the list lacks, though it may name their blocks elsewhere.
    Unlisted,
    /// Blocks that the list names elsewhere are referenced in between.
    Inserted,
    /// Blocks that the list does not name are referenced in between.
    InsertedForeign,
    /// Stretches of 1 to 16 references are moved to elsewhere in the job.
    Moved,
    /// Files are read that the list does not know.
    FilesAdded,
    /// Files are not read any more.
    FilesRemoved,
    /// Files have more blocks, read after those that they had.
    FilesGrown,
    /// Files have a name that the list does not know.
    FilesRenamed,
    /// Where in the job files are read is exchanged among them.
    FilesShuffled,
    /// Stretches of the job have their files in the opposite order.
    FilesReversed,
    /// A part of the job is done twice.
    Repeated,
    /// A part of the job is skipped.
    Skipped,
}

/// All perturbations.
pub const PERTURBATIONS: [Perturbation; 13] = [
    Perturbation::Dropped,
    Perturbation::Unlisted,
    Perturbation::Inserted,
    Perturbation::InsertedForeign,
    Perturbation::Moved,
    Perturbation::FilesAdded,
    Perturbation::FilesRemoved,
    Perturbation::FilesGrown,
    Perturbation::FilesRenamed,
    Perturbation::FilesShuffled,
    Perturbation::FilesReversed,
    Perturbation::Repeated,
    Perturbation::Skipped,
];

/// File numbers from here on are new ones.
const NEW_FILES: u32 = 1 << 20;

/// References of one file in a row.
fn visits(live: &[Marked]) -> Vec<Vec<Marked>> {
    live.chunk_by(|a, b| a.block.file == b.block.file).map(<[Marked]>::to_vec).collect()
}

/// `rate` of the files of a run.
fn some_files(live: &[Marked], rate: f64, random: &mut Random) -> BTreeSet<FileId> {
    let mut files: Vec<FileId> =
        live.iter().map(|m| m.block.file).collect::<BTreeSet<_>>().into_iter().collect();
    random.shuffle(&mut files);
    let count = (files.len() as f64 * rate).round() as usize;
    files.into_iter().take(count).collect()
}

/// A range of `rate` of `length`, anywhere.
fn part(length: usize, rate: f64, random: &mut Random) -> std::ops::Range<usize> {
    let taken = (length as f64 * rate) as usize;
    let start = random.below(length - taken + 1);
    start..start + taken
}

impl Perturbation {
    /// Changes list or live run at a rate between 0 and 1.
    #[must_use]
    pub fn apply(self, list: &[Marked], live: &[Marked], rate: f64, seed: u64) -> (Vec<Marked>, Vec<Marked>) {
        let random = &mut Random::new(seed ^ 0x5eed);
        let list = match self {
            Perturbation::Unlisted => list.iter().copied().filter(|_| !random.chance(rate)).collect(),
            _ => list.to_vec(),
        };
        let live = self.apply_to_live(live, rate, random);
        (list, live)
    }

    fn apply_to_live(self, live: &[Marked], rate: f64, random: &mut Random) -> Vec<Marked> {
        match self {
            Perturbation::Unlisted => live.to_vec(),
            Perturbation::Dropped => live.iter().copied().filter(|_| !random.chance(rate)).collect(),
            Perturbation::Inserted | Perturbation::InsertedForeign => {
                let mut all = Vec::new();
                for &m in live {
                    if random.chance(rate) {
                        let other = live[random.below(live.len())].block;
                        let block = if self == Perturbation::Inserted {
                            other
                        } else {
                            Block::new(FileId(NEW_FILES), random.below(1 << 20) as u32)
                        };
                        all.push(Marked { block, origin: FOREIGN });
                    }
                    all.push(m);
                }
                all
            }
            Perturbation::Moved => moved(live, rate, random),
            Perturbation::FilesAdded => {
                let mut all = Vec::new();
                for (number, visit) in (0..).zip(visits(live)) {
                    if random.chance(rate) {
                        let file = FileId(NEW_FILES + number);
                        let new = (0..visit.len() as u32).map(|i| Block::new(file, i));
                        all.extend(new.map(|block| Marked { block, origin: FOREIGN }));
                    }
                    all.extend(visit);
                }
                all
            }
            Perturbation::FilesRemoved => {
                let gone = some_files(live, rate, random);
                live.iter().copied().filter(|m| !gone.contains(&m.block.file)).collect()
            }
            Perturbation::FilesGrown => {
                let grown = some_files(live, rate, random);
                let mut sizes = BTreeMap::new();
                for m in live {
                    let size = sizes.entry(m.block.file).or_insert(0);
                    *size = m.block.index.max(*size);
                }
                let mut all = Vec::new();
                for visit in visits(live) {
                    let last = visit[visit.len() - 1].block;
                    all.extend(visit);
                    if grown.contains(&last.file) && last.index == sizes[&last.file] {
                        let new = last.index + 1..=last.index + 1 + last.index / 4;
                        let new = new.map(|i| Block::new(last.file, i));
                        all.extend(new.map(|block| Marked { block, origin: FOREIGN }));
                    }
                }
                all
            }
            Perturbation::FilesRenamed => {
                let renamed = some_files(live, rate, random);
                let rename = |m: &Marked| match renamed.contains(&m.block.file) {
                    true => Marked {
                        block: Block::new(FileId(NEW_FILES + m.block.file.0), m.block.index),
                        origin: FOREIGN,
                    },
                    false => *m,
                };
                live.iter().map(rename).collect()
            }
            Perturbation::FilesShuffled => {
                let mut visits = visits(live);
                let mut chosen: Vec<usize> = (0..visits.len()).filter(|_| random.chance(rate)).collect();
                let places = chosen.clone();
                random.shuffle(&mut chosen);
                let taken: Vec<Vec<Marked>> = chosen.iter().map(|&i| visits[i].clone()).collect();
                for (place, visit) in places.into_iter().zip(taken) {
                    visits[place] = visit;
                }
                visits.concat()
            }
            Perturbation::FilesReversed => {
                let mut visits = visits(live);
                let part = part(visits.len(), rate, random);
                visits[part].reverse();
                visits.concat()
            }
            Perturbation::Repeated => {
                let part = part(live.len(), rate, random);
                [&live[..part.end], &live[part.clone()], &live[part.end..]].concat()
            }
            Perturbation::Skipped => {
                let part = part(live.len(), rate, random);
                [&live[..part.start], &live[part.end..]].concat()
            }
        }
    }
}

/// Cuts the run into stretches and exchanges the places of some.
fn moved(live: &[Marked], rate: f64, random: &mut Random) -> Vec<Marked> {
    let mut stretches: Vec<&[Marked]> = Vec::new();
    let mut rest = live;
    while !rest.is_empty() {
        let (stretch, after) = rest.split_at((1 + random.below(16)).min(rest.len()));
        stretches.push(stretch);
        rest = after;
    }
    let chosen: Vec<usize> = (0..stretches.len()).filter(|_| random.chance(rate)).collect();
    let mut order = chosen.clone();
    random.shuffle(&mut order);
    let taken: Vec<&[Marked]> = order.iter().map(|&i| stretches[i]).collect();
    for (place, stretch) in chosen.into_iter().zip(taken) {
        stretches[place] = stretch;
    }
    stretches.concat()
}

/// Interleaves readers at random in bursts of 1 to 8 references; `weights` say how often each has its turn.
#[must_use]
pub fn interleave(readers: &[Vec<Marked>], weights: &[usize], seed: u64) -> Vec<(usize, Marked)> {
    let mut random = Random::new(seed);
    let mut next = vec![0; readers.len()];
    let mut all = Vec::new();
    loop {
        let left: Vec<usize> = (0..readers.len()).filter(|&r| next[r] < readers[r].len()).collect();
        let turns: usize = left.iter().map(|&r| weights[r]).sum();
        if turns == 0 {
            return all;
        }
        let mut turn = random.below(turns);
        for reader in left {
            if turn < weights[reader] {
                let end = (next[reader] + 1 + random.below(8)).min(readers[reader].len());
                all.extend(readers[reader][next[reader]..end].iter().map(|&m| (reader, m)));
                next[reader] = end;
                break;
            }
            turn -= weights[reader];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_at_rate_zero() {
        for base in BASES {
            let (list, live) = base.generate(1);
            for perturbation in PERTURBATIONS {
                let (list_then, live_then) = perturbation.apply(&list, &live, 0.0, 2);
                assert_eq!(list, list_then, "{base:?} {perturbation:?}");
                assert_eq!(live, live_then, "{base:?} {perturbation:?}");
            }
        }
    }

    #[test]
    fn a_fifth_is_dropped() {
        let (list, live) = Base::Scan.generate(1);
        let (_, live_then) = Perturbation::Dropped.apply(&list, &live, 0.2, 2);
        let share = live_then.len() as f64 / live.len() as f64;
        assert!((0.78..0.82).contains(&share), "{share}");
    }

    #[test]
    fn interleaving_keeps_each_readers_order() {
        let (_, one) = Base::Configuration.generate(1);
        let (_, two) = Base::SmallFiles.generate(1);
        let both = interleave(&[one.clone(), two.clone()], &[1, 5], 3);
        for (reader, own) in [(0, one), (1, two)] {
            let then: Vec<Marked> = both.iter().filter(|(r, _)| *r == reader).map(|(_, m)| *m).collect();
            assert_eq!(then, own);
        }
    }
}
