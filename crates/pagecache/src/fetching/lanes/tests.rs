//! The queue of prefetches against a naive one, and its order by hand.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use foretell_policy::ManagerId;
use proptest::prelude::*;

use super::*;
use crate::fetching::tests::{BLOCK, fetch, fetches, quick, slow};

/// Blocks so far apart that nobody reads what lies between: 8 MiB.
const FAR: u32 = 1024;

/// Takes requests and has them end at once.
fn take_train(lanes: &mut Lanes) -> Option<Vec<Request>> {
    let train = lanes.take(1)?;
    // Not counted: the estimate stays what it is.
    train.disk.end(1, train.ticket, false);
    Some(train.requests)
}

/// Takes a request that no other one follows.
fn take(lanes: &mut Lanes) -> Option<Request> {
    let mut requests = take_train(lanes)?;
    assert_eq!(requests.len(), 1);
    requests.pop()
}

fn taken(lanes: &mut Lanes) -> Vec<(u32, Range<u32>)> {
    let runs = |request: Request| request.runs.into_iter().map(move |run| (request.serial, run.blocks));
    std::iter::from_fn(|| take(lanes)).flat_map(runs).collect()
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
    assert_eq!(blocks_in(&lanes), 0);
}

#[test]
fn a_request_is_no_larger_than_worth_making_and_a_short_block_ends_it() {
    let disk = quick();
    assert_eq!(disk.room().unwrap(), Room { bytes: 1 << 20, has_arm: false, gap_bytes: 0, passed_bytes: 0 });
    let mut lanes = Lanes::default();
    let mut all = fetches(&disk, 1, 0..300);
    all[299].length = 100;
    lanes.push(all);
    let requests: Vec<Request> = std::iter::from_fn(|| take(&mut lanes)).collect();
    let blocks: Vec<Range<u32>> = requests.iter().map(|request| request.runs[0].blocks.clone()).collect();
    assert_eq!(blocks, [0..128, 128..256, 256..300]);
    assert_eq!(requests[2].runs[0].length, 43 * BLOCK + 100);
    assert_eq!(requests[2].block_bytes, BLOCK);
}

#[test]
fn without_an_arm_the_policys_order_holds_and_with_one_the_sweeps() {
    let far = |indexes: [u32; 5]| indexes.map(|index| FAR * index);
    for (disk, wanted) in [(quick(), far([50, 10, 90, 70, 30])), (slow(), far([10, 30, 50, 70, 90]))] {
        let mut lanes = Lanes::default();
        lanes.push(fetches(&disk, 1, far([50, 10, 90, 70, 30])));
        let order: Vec<u32> = taken(&mut lanes).into_iter().map(|(_, blocks)| blocks.start).collect();
        assert_eq!(order, wanted);
    }
    // What comes in behind the sweep waits for the next one.
    let disk = slow();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [50, 70, 90].map(|index| FAR * index)));
    assert_eq!(take(&mut lanes).unwrap().runs[0].blocks.start, FAR * 50);
    lanes.push(fetches(&disk, 1, [20, 49, 60].map(|index| FAR * index)));
    let order: Vec<u32> = taken(&mut lanes).into_iter().map(|(_, blocks)| blocks.start).collect();
    assert_eq!(order, far([60, 70, 90, 20, 49]));
}

#[test]
fn whatever_comes_in_ahead_nothing_waits_for_more_than_three_sweeps() {
    let disk = slow();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [1000 * FAR]));
    take(&mut lanes).unwrap();
    lanes.push(fetches(&disk, 1, [5 * FAR]));
    let mut ahead = 2000;
    let mut requests = 0;
    loop {
        // There is always one further ahead, or just behind where the next sweep begins.
        ahead += 2;
        lanes.push(fetches(&disk, 1, [ahead * FAR, ahead % 4 * FAR]));
        let request = take(&mut lanes).unwrap();
        requests += 1;
        if request.runs[0].blocks.contains(&(5 * FAR)) {
            break;
        }
        assert!(requests <= 3 * SWEEP_REQUESTS, "never");
    }
}

fn blocks_in(lanes: &Lanes) -> usize {
    lanes.lanes.iter().map(|lane| lane.waiting.len()).sum()
}

#[test]
fn a_device_that_is_busy_holds_up_no_other() {
    let (busy, free) = (slow(), quick());
    let mut lanes = Lanes::default();
    lanes.push(fetches(&busy, 1, (0..400).map(|at| FAR * at)));
    let under_way: Vec<Train> = std::iter::from_fn(|| lanes.take(1)).collect();
    assert!(!under_way.is_empty() && under_way.len() <= 3);
    assert!(!lanes.has_more());
    lanes.push(fetches(&free, 2, [0, 2]));
    assert!(lanes.has_more());
    assert_eq!(lanes.take(1).unwrap().requests[0].serial, 2);
    assert_eq!(lanes.take(1).unwrap().requests[0].serial, 2);
    assert!(lanes.take(1).is_none());
}

#[test]
fn the_queue_takes_so_much_and_no_block_twice_and_lanes_without_work_are_given_up() {
    let disk = quick();
    let mut lanes = Lanes::default();
    assert!(lanes.push(fetches(&disk, 1, [1, 1, 1])).is_empty());
    assert_eq!(blocks_in(&lanes), 1);
    let other = quick();
    let mut many = fetches(&disk, 2, 0..PREFETCH_QUEUE_BLOCKS as u32);
    many.extend(fetches(&other, 3, 0..2));
    let refused = lanes.push(many);
    assert_eq!(refused.len(), 1, "a full lane keeps nobody else out");
    assert_eq!(refused[0].block.index, PREFETCH_QUEUE_BLOCKS as u32 - 1);
    assert_eq!(lanes.cancel(|_| true).len(), PREFETCH_QUEUE_BLOCKS + 2);
    for _ in 0..2 * IDLE_LANES {
        lanes.push(fetches(&Arc::new(Disk::new(1, 1)), 1, [1]));
        lanes.cancel(|_| true);
    }
    assert!(lanes.lanes.len() <= IDLE_LANES);
}

#[test]
fn what_the_program_fetches_itself_is_not_fetched_again() {
    let disk = quick();
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, [3, 10, 11, 20]));
    [3, 10, 11, 99].into_iter().for_each(|index| lanes.overtaken(1, index));
    lanes.overtaken(2, 20);
    assert_eq!(blocks_in(&lanes), 1);
    let left: Vec<u32> = lanes.cancel(|_| true).into_iter().map(|fetch| fetch.block.index).collect();
    assert_eq!(left, [20]);
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
        3 => proptest::collection::vec((0..3_usize, 0..2_u32, prop_oneof![4 => 0..40_u32, 1 => 0..400_u32]), 0..20).prop_map(Step::Push),
        4 => Just(Step::Take),
        3 => any::<usize>().prop_map(Step::End),
        1 => (0..2_u32).prop_map(Step::Cancel),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Against a plain set of what waits: everything comes out exactly once or is cancelled, in requests that are
    /// no larger than allowed and contiguous, but for gaps on the disk with an arm; there each begins where the sweep says.
    #[test]
    fn what_goes_in_comes_out_once(steps in steps()) {
        let disks = [quick(), slow(), Arc::new(Disk::new(8, 128 << 10))];
        let mut lanes = Lanes::default();
        let mut waiting: HashSet<(u32, u32)> = HashSet::new();
        let mut order: HashMap<usize, Vec<(u32, u32)>> = HashMap::new();
        let mut under_way: Vec<Train> = Vec::new();
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
                    let Some(train) = lanes.take(1) else { continue };
                    let at = disks.iter().position(|disk| Arc::ptr_eq(disk, &train.disk)).unwrap();
                    let request = &train.requests[0];
                    prop_assert_eq!(train.requests.len(), 1, "no file adjoins another");
                    let (serial, runs) = (request.serial, &request.runs);
                    let (begin, end) = (runs[0].blocks.start, runs[runs.len() - 1].blocks.end);
                    prop_assert!(u64::from(end - begin) * BLOCK <= 4 << 20);
                    for run in runs {
                        prop_assert_eq!(run.length, BLOCK * run.blocks.len() as u64);
                        prop_assert_eq!(run.offset, BLOCK * u64::from(run.blocks.start));
                    }
                    for (first, second) in request.gaps() {
                        prop_assert!(first.blocks.end < second.blocks.start && at == 1);
                        let gap = u64::from(second.blocks.start - first.blocks.end) * BLOCK;
                        prop_assert!(gap <= 6_000_000 / 5, "longer than three quarters of 8 ms at 5 ns a byte");
                        let wanted = |index| waiting.contains(&(serial, index));
                        prop_assert!(!(first.blocks.end..second.blocks.start).any(wanted));
                    }
                    let is_taken = |index: u32| runs.iter().any(|run| run.blocks.contains(&index));
                    let order = order.get_mut(&at).unwrap();
                    if at == 1 {
                        let place = |s: u32, i: u32| (u64::from(s) << 32) | u64::from(i);
                        let mut places: Vec<u64> = order.iter().map(|&(s, i)| place(s, i)).collect();
                        places.sort_unstable();
                        let ahead = places.iter().find(|&&place| place >= heads[1]).or(places.first());
                        let (oldest, first) = (place(order[0].0, order[0].1), place(serial, begin));
                        prop_assert!(Some(&first) == ahead || first == oldest);
                    } else {
                        prop_assert!(order[0].0 == serial && is_taken(order[0].1));
                    }
                    for index in (begin..end).filter(|&index| is_taken(index)) {
                        prop_assert!(waiting.remove(&(serial, index)), "twice, or never asked for");
                    }
                    order.retain(|&(s, i)| s != serial || !is_taken(i));
                    under_way.push(train);
                }
                Step::End(which) => {
                    if !under_way.is_empty() {
                        let train = under_way.swap_remove(which % under_way.len());
                        train.disk.end(1, train.ticket, false);
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
            prop_assert_eq!(blocks_in(&lanes), waiting.len());
        }
        for train in under_way {
            train.disk.end(1, train.ticket, false);
        }
        while let Some(request) = take(&mut lanes) {
            for index in request.runs.iter().flat_map(|run| run.blocks.clone()) {
                prop_assert!(waiting.remove(&(request.serial, index)));
            }
        }
        prop_assert!(waiting.is_empty());
    }
}

#[test]
fn on_a_disk_with_an_arm_what_lies_between_is_read_if_that_takes_less_than_to_move() {
    let disk = slow();
    let Room { bytes, gap_bytes, .. } = disk.room().unwrap();
    // 8 ms at 5 ns a byte are 1.6 MB; three quarters of it.
    assert!((1_100_000..1_300_000).contains(&gap_bytes), "{gap_bytes}");
    let gap_blocks = (gap_bytes / BLOCK) as u32;
    let mut lanes = Lanes::default();
    // Two together, one behind a small gap, one behind the longest gap, one behind a longer one.
    let third = 10 + 1 + gap_blocks;
    lanes.push(fetches(&disk, 1, [0, 1, 10, third, third + gap_blocks + 2]));
    let first = take(&mut lanes).unwrap();
    let blocks: Vec<Range<u32>> = first.runs.iter().map(|run| run.blocks.clone()).collect();
    assert_eq!(blocks, [0..2, 10..11, third..third + 1]);
    assert_eq!((first.wanted(), blocks_in(&lanes)), (4, 1));
    // No more than a request may hold in all.
    let mut lanes = Lanes::default();
    lanes.push(fetches(&disk, 1, (0..1000).map(|at| 3 * at)));
    let first = take(&mut lanes).unwrap();
    let last = &first.runs[first.runs.len() - 1];
    assert!(last.end() <= bytes && last.end() > bytes - 3 * BLOCK, "{} of {bytes}", last.end());
    // Near in the file and far on the disk.
    let mut lanes = Lanes::default();
    let mut two = fetches(&disk, 1, [0, 10]);
    two[1].place = 1 << 40;
    lanes.push(two);
    assert_eq!(take(&mut lanes).unwrap().wanted(), 1);
}

/// Small files that lie one behind the other are served without a movement, and tell nothing of the arm: it stays known.
#[test]
fn a_file_that_begins_where_the_last_one_ended_goes_on() {
    for (apart, has_arm) in [(0, true), (FAR, false)] {
        let disk = slow();
        let mut lanes = Lanes::default();
        let page_bytes = crate::kernel::page_bytes();
        let mut place = 0;
        for serial in 0..200 {
            let file = fetch(&disk, serial, 0);
            // Each begins at the page after the last one's end.
            lanes.push(vec![Fetch { length: page_bytes - 1, place, ..file }]);
            place += page_bytes + u64::from(apart) * BLOCK;
        }
        let mut now_ns = 1 << 40;
        // As many at a time as may be; each ends 0.1 ms after the one before.
        let mut under_way = std::collections::VecDeque::new();
        loop {
            under_way.extend(std::iter::from_fn(|| lanes.take(now_ns)));
            let Some(train) = under_way.pop_front() else { break };
            now_ns += 100_000;
            disk.end(now_ns, train.ticket, true);
        }
        assert_eq!(disk.has_arm(), has_arm, "{apart} blocks apart");
    }
}

#[test]
fn files_that_lie_one_behind_the_other_are_asked_for_at_once() {
    let disk = slow();
    let most_bytes = disk.room().unwrap().bytes;
    let (mut lanes, page_bytes) = (Lanes::default(), crate::kernel::page_bytes());
    // Of every tenth nothing is wanted.
    for serial in (0..400).filter(|serial| serial % 10 != 9) {
        let place = u64::from(serial) * 2 * BLOCK;
        let mut blocks = vec![fetch(&disk, serial, 0), fetch(&disk, serial, 1)];
        (blocks[0].place, blocks[1].place) = (place, place + BLOCK);
        blocks[1].length = BLOCK - page_bytes / 2;
        assert!(lanes.push(blocks).is_empty());
    }
    let trains: Vec<Vec<u32>> = std::iter::from_fn(|| take_train(&mut lanes))
        .map(|requests| requests.iter().map(|request| request.serial).collect())
        .collect();
    assert!(most_bytes >= 18 * BLOCK, "{most_bytes}");
    assert_eq!(trains.len(), 40);
    assert!(
        trains.iter().zip(0..).all(|(train, n)| train.iter().copied().eq(10 * n..10 * n + 9)),
        "{trains:?}"
    );
}

#[test]
fn files_are_asked_for_at_once_with_what_lies_between_them_where_that_can_be_read() {
    for can_pass in [true, false] {
        let disk = slow();
        let disk =
            if can_pass { Arc::new(Arc::into_inner(disk).unwrap().with_node("/dev/null")) } else { disk };
        let Room { bytes, passed_bytes, .. } = disk.room().unwrap();
        assert_eq!(passed_bytes, if can_pass { crate::disk::GAP_BYTES } else { 0 });
        let mut lanes = Lanes::default();
        // A file of a block each: with nothing between, with a little, with the most, and with more than that.
        let mut place = 0;
        for (serial, between) in
            [0, 0, 5 * BLOCK, crate::disk::GAP_BYTES, crate::disk::GAP_BYTES + BLOCK].into_iter().enumerate()
        {
            place += between;
            lanes.push(vec![Fetch { place, ..fetch(&disk, serial as u32, 0) }]);
            place += BLOCK;
        }
        let trains: Vec<Vec<(u32, Range<u64>)>> = std::iter::from_fn(|| take_train(&mut lanes))
            .map(|train| train.into_iter().map(|request| (request.serial, request.passed)).collect())
            .collect();
        let none = 0..0;
        assert!(bytes > 2 * crate::disk::GAP_BYTES, "{bytes}");
        if can_pass {
            let first = [
                (0, none.clone()),
                (1, BLOCK..BLOCK),
                (2, 2 * BLOCK..7 * BLOCK),
                (3, 8 * BLOCK..8 * BLOCK + crate::disk::GAP_BYTES),
            ];
            assert_eq!(trains, [first.to_vec(), vec![(4, none)]]);
        } else {
            let serials: Vec<Vec<u32>> =
                trains.iter().map(|train| train.iter().map(|(serial, _)| *serial).collect()).collect();
            assert_eq!(serials, [vec![0, 1], vec![2], vec![3], vec![4]]);
        }
    }
}

#[test]
fn a_train_is_no_larger_than_a_request_may_be() {
    let disk = slow();
    let most_bytes = disk.room().unwrap().bytes;
    let (mut lanes, page_bytes) = (Lanes::default(), crate::kernel::page_bytes());
    for serial in 0..2000 {
        let file = fetch(&disk, serial, 0);
        let length = if serial < 1000 { page_bytes } else { BLOCK };
        let place = u64::from(serial.min(1000)) * page_bytes + u64::from(serial.saturating_sub(1000)) * BLOCK;
        lanes.push(vec![Fetch { length, place, ..file }]);
    }
    let mut count = 0;
    while let Some(requests) = take_train(&mut lanes) {
        let bytes: u64 = requests.iter().flat_map(|request| &request.runs).map(|run| run.length).sum();
        assert!(bytes <= most_bytes && requests.len() <= TRAIN_REQUESTS, "{bytes}, {}", requests.len());
        count += requests.len();
    }
    assert_eq!(count, 2000);
}
