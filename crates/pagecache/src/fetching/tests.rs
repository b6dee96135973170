//! The queue of prefetches against a naive one, and its order by hand.

use super::*;
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use proptest::prelude::*;

use crate::kernel::CacheStatus;
use crate::mappings::Names;

const BLOCK: u64 = 8192;

fn fetch(disk: &Arc<Disk>, serial: u32, index: u32) -> Fetch {
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

fn fetches(disk: &Arc<Disk>, serial: u32, indexes: impl IntoIterator<Item = u32>) -> Vec<Fetch> {
    indexes.into_iter().map(|index| fetch(disk, serial, index)).collect()
}

/// A device that has been measured: requests of up to 1 MiB, several at a time.
fn quick() -> Arc<Disk> {
    trained(1_000_000, 100_000)
}

/// A disk with an arm.
fn slow() -> Arc<Disk> {
    trained(8_000_000, 8_000_000)
}

/// A device that takes so long for a small request alone, and so long for each of several.
fn trained(alone_ns: u64, beside_ns: u64) -> Arc<Disk> {
    let disk = Disk::new(64, 1 << 20);
    let mut now_ns = 0;
    for _ in 0..4 {
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

/// Takes a request and has it end at once.
fn take(lanes: &mut Lanes) -> Option<Request> {
    let request = lanes.take(1)?;
    // Not counted: the estimate stays what it is.
    request.disk.end(1, request.ticket, false);
    Some(request)
}

fn taken(lanes: &mut Lanes) -> Vec<(u32, Range<u32>)> {
    std::iter::from_fn(|| take(lanes)).map(|request| (request.serial, request.blocks)).collect()
}

#[test]
fn neighbours_anywhere_in_the_queue_become_one_request() {
    let disk = quick();
    let mut lanes = Lanes::default();
    let mut all = fetches(&disk, 1, [7, 100, 5, 200]);
    all.extend(fetches(&disk, 2, [6, 8]));
    all.extend(fetches(&disk, 1, [8, 6, 101]));
    assert!(lanes.push(all).is_empty());
    assert_eq!(taken(&mut lanes), [(1, 5..9), (1, 100..102), (1, 200..201), (2, 6..7), (2, 8..9)]);
    assert_eq!(lanes.waiting, 0);
}

#[test]
fn a_request_is_no_larger_than_worth_making_and_a_short_block_ends_it() {
    let disk = quick();
    assert_eq!(disk.room().unwrap(), Room { bytes: 1 << 20, has_arm: false });
    let mut lanes = Lanes::default();
    let mut all = fetches(&disk, 1, 0..300);
    all[299].length = 100;
    lanes.push(all);
    let requests: Vec<Request> = std::iter::from_fn(|| take(&mut lanes)).collect();
    let blocks: Vec<Range<u32>> = requests.iter().map(|request| request.blocks.clone()).collect();
    assert_eq!(blocks, [0..128, 128..256, 256..300]);
    assert_eq!(requests[2].length, 43 * BLOCK + 100);
    assert_eq!(requests[2].block_bytes, BLOCK);
}

#[test]
fn without_an_arm_the_policys_order_holds_and_with_one_the_sweeps() {
    for (disk, wanted) in [(quick(), [50, 10, 90, 70, 30]), (slow(), [10, 30, 50, 70, 90])] {
        let mut lanes = Lanes::default();
        lanes.push(fetches(&disk, 1, [50, 10, 90, 70, 30]));
        let order: Vec<u32> = taken(&mut lanes).into_iter().map(|(_, blocks)| blocks.start).collect();
        assert_eq!(order, wanted);
    }
    // What comes in behind the sweep waits for the next one.
    let disk = slow();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [50, 70, 90]));
    assert_eq!(take(&mut lanes).unwrap().blocks, 50..51);
    lanes.push(fetches(&disk, 1, [20, 49, 60]));
    let order: Vec<u32> = taken(&mut lanes).into_iter().map(|(_, blocks)| blocks.start).collect();
    assert_eq!(order, [60, 70, 90, 20, 49]);
}

#[test]
fn whatever_comes_in_ahead_nothing_waits_for_more_than_three_sweeps() {
    let disk = slow();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [1000]));
    take(&mut lanes).unwrap();
    lanes.push(fetches(&disk, 1, [5]));
    let mut ahead = 2000;
    let mut requests = 0;
    loop {
        // There is always one further ahead, or just behind where the next sweep begins.
        ahead += 2;
        lanes.push(fetches(&disk, 1, [ahead, ahead % 4]));
        let request = take(&mut lanes).unwrap();
        requests += 1;
        if request.blocks.contains(&5) {
            break;
        }
        assert!(requests <= 3 * SWEEP_REQUESTS, "never");
    }
}

#[test]
fn a_device_that_is_busy_holds_up_no_other() {
    let (busy, free) = (slow(), quick());
    let mut lanes = Lanes::default();
    lanes.push(fetches(&busy, 1, (0..400).map(|at| 2 * at)));
    let under_way: Vec<Request> = std::iter::from_fn(|| lanes.take(1)).collect();
    assert!(!under_way.is_empty() && under_way.len() <= 2);
    assert!(!lanes.has_more());
    lanes.push(fetches(&free, 2, [0, 2]));
    assert!(lanes.has_more());
    assert_eq!(lanes.take(1).unwrap().serial, 2);
    assert_eq!(lanes.take(1).unwrap().serial, 2);
    assert!(lanes.take(1).is_none());
}

#[test]
fn the_queue_takes_so_much_and_no_block_twice_and_lanes_without_work_are_given_up() {
    let disk = quick();
    let mut lanes = Lanes::default();
    assert!(lanes.push(fetches(&disk, 1, [1, 1, 1])).is_empty());
    assert_eq!(lanes.waiting, 1);
    let refused = lanes.push(fetches(&disk, 2, 0..PREFETCH_QUEUE_BLOCKS as u32));
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].block.index, PREFETCH_QUEUE_BLOCKS as u32 - 1);
    assert_eq!(lanes.cancel(|_| true).len(), PREFETCH_QUEUE_BLOCKS);
    for _ in 0..2 * IDLE_LANES {
        lanes.push(fetches(&Arc::new(Disk::new(1, 1)), 1, [1]));
        lanes.cancel(|_| true);
    }
    assert!(lanes.lanes.len() <= IDLE_LANES);
}

#[test]
fn what_the_program_fetches_itself_is_not_fetched_again_unless_it_is_part_of_a_run() {
    let disk = quick();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [3, 10, 11, 20]));
    [3, 10, 11, 99].into_iter().for_each(|index| lanes.overtaken(1, index));
    lanes.overtaken(2, 20);
    assert_eq!(lanes.waiting, 2);
    let left: Vec<u32> = lanes.cancel(|_| true).into_iter().map(|fetch| fetch.block.index).collect();
    assert_eq!(left, [10, 20]);
}

#[derive(Debug, Clone)]
enum Step {
    Push(Vec<(usize, u32, u32)>),
    Take,
    End(usize),
    Cancel(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => proptest::collection::vec((0..3_usize, 0..2_u32, 0..40_u32), 0..20).prop_map(Step::Push),
        4 => Just(Step::Take),
        3 => any::<usize>().prop_map(Step::End),
        1 => (0..2_u32).prop_map(Step::Cancel),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Against a plain set of what waits: everything comes out exactly once or is cancelled, in requests that are
    /// contiguous and no larger than allowed; with an arm each begins where the sweep says.
    #[test]
    fn what_goes_in_comes_out_once(steps in steps()) {
        let disks = [quick(), slow(), Arc::new(Disk::new(8, 128 << 10))];
        let mut lanes = Lanes::default();
        let mut waiting: HashSet<(u32, u32)> = HashSet::new();
        let mut order: HashMap<usize, Vec<(u32, u32)>> = HashMap::new();
        let mut under_way: Vec<Request> = Vec::new();
        for step in steps {
            match step {
                Step::Push(blocks) => {
                    let all = blocks.iter().map(|&(disk, file, index)| {
                        // A file is on one device.
                        let serial = 2 * disk as u32 + file;
                        if waiting.insert((serial, index)) {
                            order.entry(disk).or_default().push((serial, index));
                        }
                        Fetch { manager: ManagerId(index % 2), ..fetch(&disks[disk], serial, index) }
                    });
                    prop_assert!(lanes.push(all.collect()).is_empty());
                }
                Step::Take => {
                    let heads: Vec<u64> = disks.iter().map(|disk| {
                        lanes.lanes.iter().find(|lane| Arc::ptr_eq(&lane.disk, disk)).map_or(0, |l| l.head)
                    }).collect();
                    let Some(request) = lanes.take(1) else { continue };
                    let at = disks.iter().position(|disk| Arc::ptr_eq(disk, &request.disk)).unwrap();
                    prop_assert!(request.length <= 2 << 20);
                    prop_assert_eq!(request.length, BLOCK * request.blocks.len() as u64);
                    prop_assert_eq!(request.offset, BLOCK * u64::from(request.blocks.start));
                    let order = order.get_mut(&at).unwrap();
                    let serial = request.serial;
                    let first = (serial, request.blocks.start);
                    if at == 1 {
                        let mut places: Vec<u64> = order.iter().map(|&(s, i)| (u64::from(s) << 32) | u64::from(i)).collect();
                        places.sort_unstable();
                        let ahead = places.iter().find(|&&place| place >= heads[1]).or(places.first());
                        let oldest = (u64::from(order[0].0) << 32) | u64::from(order[0].1);
                        let place = (u64::from(first.0) << 32) | u64::from(first.1);
                        prop_assert!(Some(&place) == ahead || place == oldest);
                    } else {
                        prop_assert!(order[0].0 == serial && request.blocks.contains(&order[0].1));
                    }
                    for index in request.blocks.clone() {
                        prop_assert!(waiting.remove(&(serial, index)), "twice, or never asked for");
                    }
                    order.retain(|&(s, i)| s != serial || !request.blocks.contains(&i));
                    under_way.push(request);
                }
                Step::End(which) => {
                    if !under_way.is_empty() {
                        let request = under_way.swap_remove(which % under_way.len());
                        request.disk.end(1, request.ticket, false);
                    }
                }
                Step::Cancel(manager) => {
                    for fetch in lanes.cancel(|fetch| fetch.manager.0 == manager) {
                        prop_assert!(waiting.remove(&(fetch.serial, fetch.block.index)));
                    }
                    for order in order.values_mut() {
                        order.retain(|&(_, index)| index % 2 != manager);
                    }
                }
            }
            prop_assert_eq!(lanes.waiting, waiting.len());
        }
        for request in under_way {
            request.disk.end(1, request.ticket, false);
        }
        while let Some(request) = take(&mut lanes) {
            for index in request.blocks {
                prop_assert!(waiting.remove(&(request.serial, index)));
            }
        }
        prop_assert!(waiting.is_empty());
    }
}

/// A page cache that tells what it was asked for, in which what lies at or beyond `missing` cannot be had.
struct Told {
    asked: Mutex<Sender<(u64, u64)>>,
    missing: u64,
}

impl PageCache for Told {
    fn start_read(&self, _: &File, offset: u64, length: u64) -> io::Result<()> {
        self.asked.lock().unwrap().send((offset, length)).unwrap();
        Ok(())
    }

    fn await_page(&self, _: &File, offset: u64) -> io::Result<bool> {
        Ok(offset < self.missing)
    }

    fn drop_range(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn page_out(&self, _: u32, _: &Names, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn status(&self, _: &File, _: u64, _: u64) -> io::Result<CacheStatus> {
        Ok(CacheStatus::default())
    }
}

fn told(missing: u64, threads: usize) -> (Arc<Fetching>, Receiver<(u64, u64)>, Receiver<Fetched>) {
    let (asked, was_asked) = channel();
    let (post, outcomes) = channel();
    let post = Mutex::new(post);
    let cache = Arc::new(Told { asked: Mutex::new(asked), missing });
    let fetching =
        Fetching::start(cache, threads, move |fetched| post.lock().unwrap().send(fetched).unwrap());
    (fetching.unwrap(), was_asked, outcomes)
}

fn next<T>(of: &Receiver<T>) -> T {
    of.recv_timeout(Duration::from_secs(30)).unwrap()
}

#[test]
fn a_request_beyond_the_kernels_window_is_asked_for_in_parts_and_told_as_one() {
    let disk = Arc::new(Disk::new(64, 128 << 10));
    let (fetching, asked, outcomes) = told(200 << 10, 4);
    // The first one, to be measured, is small.
    fetching.push(fetches(&disk, 1, 0..40));
    assert_eq!(next(&asked), (0, 64 << 10));
    let first = next(&outcomes);
    assert_eq!((first.blocks.clone(), first.there), (0..8, 8));
    assert_eq!(next(&asked), (64 << 10, 128 << 10));
    assert_eq!(next(&asked), (192 << 10, 128 << 10));
    let second = next(&outcomes);
    // The last byte of the second part is beyond what can be had.
    assert_eq!((second.serial, second.blocks.clone(), second.there), (1, 8..40, 16));
    fetching.close();
}

#[test]
fn threads_are_started_for_work_and_end_with_the_queue() {
    let disk = quick();
    let (fetching, _asked, outcomes) = told(u64::MAX, 8);
    assert_eq!(fetching.state().threads.len(), 1);
    fetching.push(fetches(&disk, 1, (0..1000).map(|at| 2 * at)));
    let blocks: HashSet<u32> = (0..1000).map(|_| next(&outcomes).blocks.start).collect();
    assert_eq!(blocks.len(), 1000);
    assert!((1..=8).contains(&fetching.state().threads.len()));
    assert!(!fetching.is_dead());
    fetching.close();
    assert!(fetching.state().threads.is_empty());
    assert!(outcomes.try_recv().is_err());
}
