//! The threads: what they ask the kernel for, and what they say of it.

use super::*;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::kernel::CacheStatus;
use crate::shown::Names;

pub(super) const BLOCK: u64 = 8192;

pub(super) fn fetch(disk: &Arc<Disk>, serial: u32, index: u32) -> Fetch {
    Fetch {
        serial,
        block: Block::new(FileId(serial), index),
        manager: ManagerId(0),
        file: Arc::new(File::open("/dev/null").unwrap()),
        disk: Arc::clone(disk),
        offset: u64::from(index) * BLOCK,
        length: BLOCK,
        place: (u64::from(serial) << 32) | u64::from(index),
    }
}

pub(super) fn fetches(disk: &Arc<Disk>, serial: u32, indexes: impl IntoIterator<Item = u32>) -> Vec<Fetch> {
    indexes.into_iter().map(|index| fetch(disk, serial, index)).collect()
}

/// A device that has been measured: requests of up to 1 MiB, several at a time.
pub(super) fn quick() -> Arc<Disk> {
    trained(1_000_000, 100_000)
}

/// A disk with an arm.
pub(super) fn slow() -> Arc<Disk> {
    trained(8_000_000, 8_000_000)
}

/// A device that takes so long for a small request alone, and so long for each of several.
fn trained(alone_ns: u64, beside_ns: u64) -> Arc<Disk> {
    let disk = Disk::new(64, 1 << 20);
    let mut now_ns = 0;
    // As many as go out alone at first.
    for _ in 0..16 {
        let bytes = disk.room().unwrap().bytes;
        let ticket = disk.begin(now_ns, bytes, true);
        now_ns += alone_ns + 5 * bytes;
        disk.end(now_ns, ticket, true);
    }
    let mut before = disk.begin(now_ns, 8192, true);
    for _ in 0..100 {
        let ticket = disk.begin(now_ns, 8192, true);
        now_ns += beside_ns + 5 * 8192;
        disk.end(now_ns, before, true);
        before = ticket;
    }
    disk.end(now_ns, before, true);
    Arc::new(disk)
}

/// A page cache that tells what it was asked for, in which what lies at or beyond `missing` cannot be had.
struct Told {
    asked: Mutex<Sender<(u64, u64)>>,
    missing: u64,
    /// Bytes at this offset are cached.
    cached: u64,
    dropped: Mutex<Vec<(u64, u64)>>,
}

impl PageCache for Told {
    fn start_read(&self, _: &File, offset: u64, length: u64) -> io::Result<()> {
        self.asked.lock().unwrap().send((offset, length)).unwrap();
        Ok(())
    }

    fn await_page(&self, _: &File, offset: u64) -> io::Result<bool> {
        Ok(offset < self.missing)
    }

    fn drop_range(&self, _: &File, offset: u64, length: u64) -> io::Result<()> {
        self.dropped.lock().unwrap().push((offset, length));
        Ok(())
    }

    fn page_out(&self, _: u32, _: &Names, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn status(&self, _: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
        let cached = u64::from((offset..offset + length).contains(&self.cached));
        Ok(CacheStatus { cached, ..CacheStatus::default() })
    }
}

fn told(missing: u64, threads: usize) -> (Arc<Fetching>, Receiver<(u64, u64)>, Receiver<Fetched>) {
    let (_, fetching, asked, outcomes) = told_by(missing, threads, u64::MAX);
    (fetching, asked, outcomes)
}

/// The cache, the queue, what was asked for, and what became of it.
type Scene = (Arc<Told>, Arc<Fetching>, Receiver<(u64, u64)>, Receiver<Fetched>);

fn told_by(missing: u64, threads: usize, cached: u64) -> Scene {
    let (asked, was_asked) = channel();
    let (post, outcomes) = channel();
    let post = Mutex::new(post);
    let cache = Arc::new(Told { asked: Mutex::new(asked), missing, cached, dropped: Mutex::default() });
    let kernel: Arc<dyn PageCache> = Arc::clone(&cache) as _;
    let fetching =
        Fetching::start(kernel, threads, move |fetched| post.lock().unwrap().send(fetched).unwrap());
    (cache, fetching.unwrap(), was_asked, outcomes)
}

/// Queues them, whoever looks at the queue.
fn push(fetching: &Fetching, mut fetches: Vec<Fetch>) {
    while !fetches.is_empty() {
        fetches = fetching.push(fetches).unwrap_or_else(|fetches| fetches);
    }
}

fn next<T>(of: &Receiver<T>) -> T {
    of.recv_timeout(Duration::from_secs(30)).unwrap()
}

#[test]
fn a_request_beyond_the_kernels_window_is_asked_for_in_parts_and_told_as_one() {
    let disk = Arc::new(Disk::new(64, 128 << 10));
    let (fetching, asked, outcomes) = told(200 << 10, 4);
    // The first one, to be measured, is small.
    push(&fetching, fetches(&disk, 1, 0..40));
    assert_eq!(next(&asked), (0, 64 << 10));
    let first = next(&outcomes);
    assert_eq!(first.runs, [(0..8, 8)]);
    assert_eq!(next(&asked), (64 << 10, 128 << 10));
    assert_eq!(next(&asked), (192 << 10, 128 << 10));
    let second = next(&outcomes);
    // The last byte of the second part is beyond what can be had.
    assert_eq!((second.serial, second.runs), (1, vec![(8..40, 16)]));
    fetching.close();
}

#[test]
fn threads_are_started_for_work_and_end_with_the_queue() {
    let disk = quick();
    let (fetching, _asked, outcomes) = told(u64::MAX, 8);
    assert_eq!(fetching.state().threads.len(), 1);
    push(&fetching, fetches(&disk, 1, (0..1000).map(|at| 2 * at)));
    let blocks: HashSet<u32> = (0..1000).map(|_| next(&outcomes).runs[0].0.start).collect();
    assert_eq!(blocks.len(), 1000);
    assert!((1..=8).contains(&fetching.state().threads.len()));
    assert!(!fetching.is_dead());
    fetching.close();
    assert!(fetching.state().threads.is_empty());
    assert!(outcomes.try_recv().is_err());
}

#[test]
fn threads_that_wait_are_ended_and_started_again_for_work() {
    let disk = quick();
    let (fetching, _asked, outcomes) = told(u64::MAX, 8);
    for _ in 0..20 {
        push(&fetching, fetches(&disk, 1, (0..1000).map(|at| 2 * at)));
        let blocks: HashSet<u32> = (0..1000).map(|_| next(&outcomes).runs[0].0.start).collect();
        assert_eq!(blocks.len(), 1000);
        let start = Instant::now();
        while fetching.state().threads.len() > 1 {
            assert!(start.elapsed() < Duration::from_secs(30), "they do not end");
            fetching.end_idle_threads();
            std::thread::yield_now();
        }
        assert!(!fetching.is_dead());
    }
    fetching.close();
}

#[test]
fn gaps_are_read_and_dropped_unless_something_of_them_is_cached() {
    // Of the gap between blocks 20 and 30 block 25 is cached.
    let (cache, fetching, asked, outcomes) = told_by(u64::MAX, 1, 25 * BLOCK);
    push(&fetching, fetches(&slow(), 1, [0, 10, 20, 30]));
    assert_eq!(next(&asked), (0, 21 * BLOCK));
    assert_eq!(next(&asked), (30 * BLOCK, BLOCK));
    let fetched = next(&outcomes);
    assert_eq!(fetched.runs, [(0..1, 1), (10..11, 1), (20..21, 1), (30..31, 1)]);
    assert_eq!(fetched.gaps, [1..10, 11..20]);
    assert_eq!(*cache.dropped.lock().unwrap(), [(BLOCK, 9 * BLOCK), (11 * BLOCK, 9 * BLOCK)]);
    let in_gap = |serial| (0..32).filter(|&index| fetching.is_in_gap(serial, index)).collect::<Vec<_>>();
    assert_eq!(in_gap(1), (1..10).chain(11..20).collect::<Vec<_>>());
    assert!(in_gap(0).is_empty() && in_gap(2).is_empty());
    fetching.take_in(&fetched);
    assert!(in_gap(1).is_empty());
    fetching.close();
}

#[test]
fn gaps_are_kept_while_there_is_room_for_all() {
    let (cache, fetching, asked, outcomes) = told_by(u64::MAX, 1, u64::MAX);
    fetching.keep_gaps(true);
    push(&fetching, fetches(&slow(), 1, [0, 10]));
    assert_eq!(next(&asked), (0, 11 * BLOCK));
    assert_eq!(next(&outcomes).gaps, []);
    assert!(!fetching.is_in_gap(1, 5));
    fetching.keep_gaps(false);
    push(&fetching, fetches(&slow(), 1, [20, 30]));
    assert_eq!(next(&asked), (20 * BLOCK, 11 * BLOCK));
    let gap = 21..30;
    assert_eq!(next(&outcomes).gaps, [gap]);
    assert_eq!(*cache.dropped.lock().unwrap(), [(21 * BLOCK, 9 * BLOCK)]);
    fetching.close();
}

#[test]
fn of_a_request_with_gaps_each_run_is_there_as_far_as_it_came() {
    let (_, fetching, _asked, outcomes) = told_by(12 * BLOCK, 1, u64::MAX);
    let disk = slow();
    push(&fetching, fetches(&disk, 1, [0, 1, 10, 11, 12, 20]));
    let there = next(&outcomes).runs;
    // The kernel's window is a MiB here: all of it is one call, whose last byte did not come.
    assert_eq!(there, [(0..2, 0), (10..13, 0), (20..21, 0)]);
    fetching.close();
}

#[test]
fn the_loop_does_not_wait_for_a_thread_that_looks_at_the_queue() {
    let (fetching, asked, outcomes) = told(u64::MAX, 1);
    // Nothing is taken from a disk that has as much to do as it may have: the thread leaves what is queued alone.
    let disk = Arc::new(Disk::new(64, 1 << 20));
    let tickets: Vec<_> = std::iter::from_fn(|| disk.room().map(|_| disk.begin(0, BLOCK, true))).collect();
    let mine = fetches(&disk, 1, [0, 10, 20]);
    let mut others = fetches(&disk, 1, [30]);
    others[0].manager = ManagerId(1);
    push(&fetching, mine.into_iter().chain(others).collect());
    let busy = fetching.state();
    // What would be waited for by this very thread.
    fetching.overtaken(1, 0);
    fetching.cancel(ManagerId(0));
    assert!(fetching.settle().is_none());
    let refused = fetching.push(fetches(&disk, 1, [40])).map_err(|all| all.len());
    assert_eq!(refused.err(), Some(1), "nothing passes what was left to be done");
    assert!(!fetching.is_dead());
    drop(busy);
    let dropped = std::iter::repeat_with(|| fetching.settle()).flatten().next().unwrap();
    let indexes: Vec<u32> = dropped.iter().map(|fetch| fetch.block.index).collect();
    assert_eq!(indexes, [10, 20], "block 0 the program has asked for itself, block 30 is another manager's");
    assert_eq!(fetching.settle().map(|dropped| dropped.len()), Some(0));
    for ticket in tickets {
        disk.end(1, ticket, false);
    }
    push(&fetching, fetches(&disk, 1, [40]));
    let asked: HashSet<u64> = (0..2).map(|_| next(&asked).0).collect();
    assert_eq!(asked, HashSet::from([30 * BLOCK, 40 * BLOCK]));
    (0..2).for_each(|_| assert_eq!(next(&outcomes).serial, 1));
    fetching.close();
}

#[test]
fn of_what_is_left_to_be_done_to_the_queue_there_is_a_limit() {
    let (fetching, _asked, _outcomes) = told(u64::MAX, 1);
    (0..LEFT as u32).for_each(|index| fetching.overtaken(1, index));
    for _ in 0..2 * LEFT {
        fetching.cancel(ManagerId(7));
    }
    assert_eq!(fetching.left().cancelled.len(), 1, "one a manager");
    // Waited for, as there are so many.
    assert_eq!(fetching.settle().map(|dropped| dropped.len()), Some(0));
    assert!(fetching.left().is_empty());
    fetching.close();
}
