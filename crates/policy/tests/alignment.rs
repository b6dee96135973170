//! Streams of predicted references: what they find when jobs nearly repeat, and what they hold.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use foretell_policy::alignment::{Class, Limits, Match, Moved, Readers, Reference, Stream};
use foretell_policy::{Block, FileId};
use foretell_testkit::perturb::{Base, FOREIGN, Marked, Perturbation, Random, interleave};
use foretell_testkit::{best_alignment, seeded};
use proptest::prelude::*;

/// Dense ids of blocks.
#[derive(Default)]
struct Ids(BTreeMap<Block, u32>);

impl Ids {
    fn reference(&mut self, block: Block) -> Reference {
        let next = self.0.len() as u32;
        Reference { block: *self.0.entry(block).or_insert(next), file: block.file.0, index: block.index }
    }
}

fn stream_of(ids: &mut Ids, list: &[Marked]) -> Stream {
    let listed: Vec<Reference> = list.iter().map(|m| ids.reference(m.block)).collect();
    let mut stream = Stream::new(Limits { window: (ids.0.len() / 4) as u32, ..Limits::default() });
    for r in listed {
        stream.append(r).unwrap();
    }
    stream
}

/// Matches, matches at the true position, and the best alignment's.
fn align(list: &[Marked], live: &[Marked]) -> (usize, usize, usize) {
    let mut ids = Ids::default();
    let mut stream = stream_of(&mut ids, list);
    let (mut matched, mut right) = (0, 0);
    for m in live {
        if let Match::At(p) = stream.reference(ids.reference(m.block)) {
            matched += 1;
            right += usize::from(list[p as usize].origin == m.origin);
        }
    }
    let blocks = |all: &[Marked]| all.iter().map(|m| m.block).collect::<Vec<_>>();
    (matched, right, best_alignment(&blocks(list), &blocks(live)))
}

fn assert_share(base: Base, perturbation: Perturbation, rate: f64, found: f64, true_ones: f64) {
    for seed in 0..2 {
        let (list, live) = base.generate(seed);
        let (list, live) = perturbation.apply(&list, &live, rate, seed);
        let (matched, right, best) = align(&list, &live);
        assert!(
            matched as f64 >= found * best as f64,
            "{base:?} {perturbation:?} {rate}: {matched} of {best}"
        );
        assert!(
            right as f64 >= true_ones * best as f64,
            "{base:?} {perturbation:?} {rate}: {right} right of {best}"
        );
    }
}

#[test]
fn random_samples_in_another_order_each_epoch_are_followed_to_the_end() {
    // What ended the cursor: 0.5% of the list's positions are missing.
    assert_share(Base::SamplesThinned, Perturbation::Dropped, 0.01, 0.999, 0.999);
    assert_share(Base::SamplesThinned, Perturbation::Unlisted, 0.20, 0.95, 0.95);
}

#[test]
fn dropped_references_are_passed_over() {
    for base in [Base::Scan, Base::SmallFiles, Base::Samples, Base::Index, Base::Configuration, Base::Join] {
        assert_share(base, Perturbation::Dropped, 0.20, 0.95, 0.95);
    }
}

#[test]
fn a_part_is_skipped_or_done_twice() {
    for base in [Base::Samples, Base::Index, Base::Join] {
        assert_share(base, Perturbation::Skipped, 0.5, 0.95, 0.95);
        assert_share(base, Perturbation::Repeated, 0.5, 0.95, 0.95);
    }
}

#[test]
fn files_that_come_go_grow_and_change_their_names_do_not_disturb_the_others() {
    for perturbation in [
        Perturbation::FilesAdded,
        Perturbation::FilesRemoved,
        Perturbation::FilesGrown,
        Perturbation::FilesRenamed,
    ] {
        for base in [Base::Scan, Base::SmallFiles, Base::Configuration] {
            assert_share(base, perturbation, 0.5, 0.95, 0.0);
        }
    }
}

#[test]
fn references_that_slip_in_take_nobody_along() {
    for base in [Base::Scan, Base::SmallFiles, Base::Configuration] {
        assert_share(base, Perturbation::Inserted, 0.20, 0.98, 0.75);
        assert_share(base, Perturbation::Inserted, 0.50, 0.95, 0.50);
    }
}

/// The frontier is not further than a window from where the reader is for longer than a window.
#[test]
fn a_wrong_place_lasts_at_most_a_window() {
    for base in [Base::Scan, Base::SmallFiles, Base::Samples] {
        for (perturbation, rate) in [(Perturbation::Inserted, 0.2), (Perturbation::Inserted, 0.5)] {
            let (list, live) = base.generate(1);
            let (list, live) = perturbation.apply(&list, &live, rate, 1);
            let mut ids = Ids::default();
            let mut stream = stream_of(&mut ids, &list);
            let window = ids.0.len() / 4;
            let (mut away, mut longest, mut place) = (0, 0, 0);
            for m in &live {
                stream.reference(ids.reference(m.block));
                if m.origin != FOREIGN {
                    place = m.origin as usize;
                }
                let off = place.abs_diff(stream.frontier() as usize);
                away = if off > window { away + 1 } else { 0 };
                longest = longest.max(away);
            }
            assert!(longest <= window, "{base:?} {perturbation:?} {rate}: {longest} of {window}");
        }
    }
}

/// A job with samples of its own: next to nothing fits, and the frontier stays within a window.
#[test]
fn a_job_of_another_kind_is_not_followed() {
    let (list, _) = Base::Samples.generate(1);
    let (_, mut other) = Base::Samples.generate(2);
    for m in &mut other {
        m.origin = FOREIGN;
    }
    Random::new(3).shuffle(&mut other);
    let mut ids = Ids::default();
    let mut stream = stream_of(&mut ids, &list);
    let matched =
        other.iter().filter(|m| matches!(stream.reference(ids.reference(m.block)), Match::At(_))).count();
    assert!(matched * 20 < other.len(), "{matched} of {}", other.len());
    assert!(stream.is_asleep());
    assert_eq!(stream.counts().jumps, 0);
}

#[test]
fn eight_readers_at_random_and_one_slower_find_their_streams() {
    let mut ids = Ids::default();
    let mut readers = Readers::new(Limits::default());
    let mut lives = Vec::new();
    for seed in 0..8u32 {
        let (mut list, _) = Base::Configuration.generate(u64::from(seed));
        for m in &mut list {
            m.block.file.0 += 1000 * seed;
        }
        let stream = readers.add_stream().unwrap();
        for m in &list {
            readers.stream_mut(stream).unwrap().append(ids.reference(m.block)).unwrap();
        }
        lives.push(list);
    }
    // Readers come in another order than their streams.
    lives.reverse();
    let all = interleave(&lives, &[1, 8, 8, 8, 8, 8, 8, 8], 5);
    let mut matched = 0;
    for (reader, m) in &all {
        let r = ids.reference(m.block);
        readers.reference(*reader as u32, r, |_, _, found| {
            matched += usize::from(matches!(found, Match::At(_)))
        });
    }
    assert!(matched * 100 >= all.len() * 99, "{matched} of {}", all.len());
    for reader in 0..8 {
        assert_eq!(readers.stream_of(reader), Some(7 - reader as usize));
    }
}

#[test]
fn a_reader_whose_one_run_begins_with_a_block_that_no_list_names_is_found() {
    let mut readers = Readers::new(Limits::default());
    let r = |block| Reference { block, file: 0, index: block };
    for (stream, first) in [(0, 1), (1, 5001)] {
        assert_eq!(readers.add_stream(), Some(stream));
        for block in first..first + 199 {
            readers.stream_mut(stream).unwrap().append(r(block)).unwrap();
        }
    }
    for block in 0..64 {
        readers.reference(7, r(block), |_, _, _| {});
    }
    assert_eq!(readers.stream_of(7), Some(0), "the list that names the next 199 blocks");
}

#[test]
fn wrong_isolated_entries_have_a_low_chance_and_runs_a_high_one() {
    let (mut list, live) = Base::Scan.generate(1);
    // In every tenth place an entry that will not happen.
    let blocks: Vec<Block> = live.iter().map(|m| m.block).collect();
    let mut random = Random::new(7);
    list = list
        .into_iter()
        .enumerate()
        .flat_map(|(i, m)| {
            let wrong = Block::new(foretell_policy::FileId(500), random.below(1 << 16) as u32);
            let wrong = (i % 10 == 0).then_some(Marked { block: wrong, origin: FOREIGN });
            wrong.into_iter().chain([m])
        })
        .collect();
    let mut ids = Ids::default();
    let mut stream = stream_of(&mut ids, &list);
    for &block in &blocks {
        stream.reference(ids.reference(block));
    }
    for ahead in [16, 64, 256] {
        let (run, _) = stream.chance(ahead, Class::Run).unwrap();
        let (isolated, _) = stream.chance(ahead, Class::Isolated).unwrap();
        assert!(run > 0.9, "{ahead}: {run}");
        assert!(isolated < 0.1, "{ahead}: {isolated}");
    }
}

/// 24 bytes a listed reference, with at least ten references of each file.
#[test]
fn memory_a_reference() {
    for (files, epochs) in [(1, 1), (1, 4), (1000, 1), (10_000, 1), (25_000, 4)] {
        let mut stream = Stream::new(Limits::default());
        let blocks = 100_000;
        let mut listed = 0;
        for _ in 0..epochs {
            for block in 0..blocks {
                stream.append(Reference { block, file: block / (blocks / files), index: block }).unwrap();
                listed += 1;
            }
        }
        for block in 0..blocks {
            stream.reference(Reference { block, file: block / (blocks / files), index: block });
        }
        assert!(
            stream.bytes() <= 24 * listed,
            "{files} files: {} bytes",
            stream.bytes() as f64 / listed as f64
        );
    }
}

#[test]
fn limits_are_kept() {
    let limits = Limits { window: 4, positions: 3, behind: 3, ids: 10, streams: 1, readers: 1 };
    let r = |block| Reference { block, file: 0, index: block };
    let mut readers = Readers::new(limits);
    assert_eq!(readers.add_stream(), Some(0));
    assert_eq!(readers.add_stream(), None);
    let stream = readers.stream_mut(0).unwrap();
    assert_eq!(stream.append(r(10)), None);
    assert_eq!([0, 1, 2, 3].map(|b| stream.append(r(b))), [Some(0), Some(1), Some(2), None]);
    assert!(readers.assign(1, 0));
    assert!(!readers.assign(2, 0));
    readers.end(1);
    assert!(readers.assign(2, 0));
}

proptest! {
    #![proptest_config(seeded(300))]

    /// Readers come, go and are assigned in any order; ids are beyond all limits.
    #[test]
    fn any_readers_are_fine(
        listed in prop::collection::vec((0usize..3, any::<u32>(), 0u32..3), 0..100),
        calls in prop::collection::vec((0u32..6, 0u32..12, any::<u32>(), 0u32..4), 0..300),
    ) {
        let limits = Limits { window: 8, positions: 64, behind: 16, ids: 1 << 12, streams: 2, readers: 4 };
        let mut readers = Readers::new(limits);
        readers.add_stream();
        readers.add_stream();
        for (stream, block, file) in listed {
            if let Some(stream) = readers.stream_mut(stream) {
                stream.append(Reference { block: block >> 22, file, index: block });
            }
        }
        for (reader, what, block, file) in calls {
            match what {
                0 => readers.end(reader),
                1 => { readers.assign(reader, file as usize); }
                _ => {
                    let r = Reference { block: block >> 22, file, index: block };
                    readers.reference(reader, r, |stream, r, found| {
                        if let Match::At(p) = found {
                            assert!(p < 64 && stream < 2 && r.block < 1 << 10);
                        }
                    });
                }
            }
            prop_assert!(readers.stream_of(reader).is_none_or(|s| s < 2));
        }
    }

    /// Any calls in any order: every position is used at most once between two resumptions, what is said to be live
    /// is, and the caller who believes `take_moved` knows every live position.
    #[test]
    fn any_calls_are_fine(
        listed in prop::collection::vec((0u32..40, 0u32..3), 0..200),
        live in prop::collection::vec((0u32..44, 0u32..4), 0..400),
        window in 0u32..64,
    ) {
        let mut stream = Stream::new(Limits { window, ..Limits::default() });
        let r = |(block, file): (u32, u32)| Reference { block: block * 4 + file, file, index: block };
        for &l in &listed {
            stream.append(r(l));
        }
        let mut known: Vec<bool> = vec![true; listed.len()];
        for &l in &live {
            let found = stream.reference(r(l));
            if let Match::At(p) = found {
                prop_assert_eq!(stream.block_at(p), Some(r(l).block));
                prop_assert!(!stream.is_live(p));
            }
            while let Some(moved) = stream.take_moved() {
                match moved {
                    Moved::GivenUp(range) => for p in range { if let Some(k) = known.get_mut(p as usize) { *k = false; } },
                    Moved::Resumed(range) => for p in range {
                        if let Some(k) = known.get_mut(p as usize) { *k = stream.is_live(p); }
                    },
                }
            }
            if let Match::At(p) = found {
                known[p as usize] = false;
            }
            for (p, &k) in known.iter().enumerate() {
                prop_assert_eq!(k, stream.is_live(p as u32), "position {}", p);
            }
            if let Some(p) = stream.next_use(r(l).block) {
                prop_assert!(stream.is_live(p));
            }
        }
    }
}

/// Of each reader's first references some are of files that the lists do not know.
#[test]
fn readers_that_begin_with_something_new_find_their_streams() {
    for new in [1, 30, 100, 5000] {
        let mut ids = Ids::default();
        let mut readers = Readers::new(Limits::default());
        let mut lives = Vec::new();
        for seed in 0..4u32 {
            let (mut list, _) = Base::Scan.generate(u64::from(seed));
            for m in &mut list {
                m.block.file.0 += 1000 * seed;
            }
            let stream = readers.add_stream().unwrap();
            for m in &list {
                readers.stream_mut(stream).unwrap().append(ids.reference(m.block)).unwrap();
            }
            let foreign = (0..new)
                .map(|i| Marked { block: Block::new(FileId(900_000 + seed), 7 * i), origin: FOREIGN });
            let at = 20.min(list.len());
            list.splice(at..at, foreign);
            lives.push(list);
        }
        for (reader, m) in &interleave(&lives, &[1; 4], 5) {
            readers.reference(*reader as u32, ids.reference(m.block), |_, _, _| {});
        }
        for reader in 0..4 {
            assert_eq!(readers.stream_of(reader), Some(reader as usize), "{new} new ones");
        }
    }
}
