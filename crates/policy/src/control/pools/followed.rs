//! Readers that follow each other through a file.
//!
//! Under MRU the block that was referenced last goes first. That is right for one reader, who comes back for it after all
//! others. Where a second reader is a little behind, it comes for it next: each reader would then fetch for itself what the
//! one before has just had. So a block is *followed* while a reader behind it is on its way there, and goes to the end of its
//! pool from which it is replaced last. The last reader takes it back to the other end by its own reference. Should it never
//! come, nothing is lost: for those that go round, a block that stays is worth as much as any other.
//!
//! Readers are found by where they read, not by who they are: threads of one process and descriptors of one
//! thread follow each other too. A reference to the block after the last one of a reader is that reader's. Readers with the
//! same position may be taken for each other, which changes nothing.

use crate::ids::{Block, FileId};

/// Readers that are remembered; of more, the one that has referenced nothing for longest is forgotten.
const READERS: usize = 16;
/// Blocks in a row that make a reader one that goes on. Who references here and there is followed by nobody.
const IN_A_ROW: u32 = 8;
/// A reader follows another one at a distance of the cache divided by this at most: as much of the cache is then kept for it,
/// and not for the next time round.
const DISTANCE_SHARE: u32 = 4;
/// References of all after which one that has made none is taken to have stopped: those of two reads of 1 MiB. Who goes round a
/// part of a file several times, and then on to the next part, leaves readers behind that are none.
const STOPPED: u64 = 256;

#[derive(Debug, Clone, Copy)]
struct Reader {
    file: FileId,
    /// The block that it references next.
    next: u32,
    in_a_row: u32,
    /// The number of its last reference among all.
    at: u64,
}

/// The readers of one manager's files.
#[derive(Debug, Default)]
pub(super) struct Followed {
    readers: Vec<Reader>,
    references: u64,
}

impl Followed {
    /// A block is referenced: is a reader behind on its way there?
    pub(super) fn reference(&mut self, block: Block, cache_blocks: u32) -> bool {
        self.references += 1;
        let mine = self.reader_at(block);
        let reader = self.readers[mine];
        if self.readers.len() == 1 || reader.in_a_row < IN_A_ROW {
            return false;
        }
        let (now, most) = (self.references, cache_blocks / DISTANCE_SHARE);
        self.readers.iter().enumerate().any(|(at, other)| {
            at != mine
                && other.file == block.file
                && other.in_a_row >= IN_A_ROW
                && block.index.checked_sub(other.next).is_some_and(|distance| distance < most)
                && now - other.at <= STOPPED.min(u64::from(most))
        })
    }

    /// The reader whose reference this is: where it stands in the table, moved on.
    fn reader_at(&mut self, block: Block) -> usize {
        let next = block.index.saturating_add(1);
        let is_at = |reader: &Reader, place| reader.file == block.file && reader.next == place;
        // Of several the one that is not about to stop. Small reads reference a block several times.
        let latest_at = |place| {
            let there = self.readers.iter().enumerate().filter(|(_, reader)| is_at(reader, place));
            there.max_by_key(|(_, reader)| reader.at).map(|(at, _)| at)
        };
        let known = latest_at(block.index).or_else(|| latest_at(next));
        let at = self.references;
        if let Some(mine) = known {
            let reader = &mut self.readers[mine];
            reader.in_a_row = reader.in_a_row.saturating_add(next - reader.next);
            (reader.next, reader.at) = (next, at);
            return mine;
        }
        let new = Reader { file: block.file, next, in_a_row: 1, at };
        if self.readers.len() < READERS {
            self.readers.push(new);
            return self.readers.len() - 1;
        }
        let oldest = (0..READERS).min_by_key(|&place| self.readers[place].at).unwrap_or(0);
        self.readers[oldest] = new;
        oldest
    }

    /// A file is not known any more.
    pub(super) fn forget_file(&mut self, file: FileId) {
        self.readers.retain(|reader| reader.file != file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: u32 = 64;

    fn block(index: u32) -> Block {
        Block::new(FileId(0), index)
    }

    /// References some blocks in a row; how many of them are followed.
    fn read(followed: &mut Followed, blocks: std::ops::Range<u32>) -> usize {
        blocks.filter(|&index| followed.reference(block(index), CACHE)).count()
    }

    #[test]
    fn a_reader_alone_is_followed_by_nobody_however_often_it_goes_round() {
        let mut followed = Followed::default();
        assert_eq!((0..5).map(|_| read(&mut followed, 0..100)).sum::<usize>(), 0);
    }

    #[test]
    fn who_is_ahead_is_followed_and_the_last_one_is_not() {
        let mut followed = Followed::default();
        read(&mut followed, 0..16);
        assert_eq!(read(&mut followed, 0..10), 0, "this one is the last");
        assert_eq!(read(&mut followed, 16..20), 4);
        assert_eq!(read(&mut followed, 10..16), 0);
        assert!(followed.reference(block(20), CACHE));
    }

    #[test]
    fn who_is_far_behind_follows_nobody_nor_who_has_stopped() {
        let mut followed = Followed::default();
        read(&mut followed, 0..16);
        read(&mut followed, 0..8);
        // A quarter of the cache behind, and from then on further.
        assert_eq!(read(&mut followed, 16..64), 8);
        // It is near again, and does not move.
        let mut followed = Followed::default();
        read(&mut followed, 0..40);
        read(&mut followed, 20..36);
        let again: usize = (0..50).filter(|_| followed.reference(block(40), CACHE)).count();
        assert_eq!(again, 16);
    }

    #[test]
    fn parts_that_are_read_several_times_follow_nobody() {
        let mut followed = Followed::default();
        let followers: usize = (0..4)
            .map(|part| (0..5).map(|_| read(&mut followed, part * 40..part * 40 + 40)).sum::<usize>())
            .sum();
        assert_eq!(followers, 0);
    }

    #[test]
    fn references_here_and_there_follow_nobody() {
        let mut followed = Followed::default();
        let mut index = 1_u32;
        for _ in 0..1000 {
            index = index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            assert!(!followed.reference(block(index >> 26), CACHE));
        }
        assert_eq!(followed.readers.len(), READERS, "and no more are remembered");
    }

    #[test]
    fn small_reads_and_several_threads_are_readers_too() {
        let mut followed = Followed::default();
        let twice = |followed: &mut Followed, index| {
            followed.reference(block(index), CACHE) | followed.reference(block(index), CACHE)
        };
        for index in (0..16).chain(0..10) {
            twice(&mut followed, index);
        }
        assert!(twice(&mut followed, 16));
        assert!(!twice(&mut followed, 10));
    }
}
