//! Each discipline against a naive model, and shortest positioning time against a real disk.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_device::{
    Class, DemandFirst, Discipline, Mechanism, NoArm, Positioning, Request, Scheduler, catalogue,
};
use proptest::prelude::*;

/// The disciplines as a search through an unordered list.
struct Naive {
    discipline: Discipline,
    demand_first: DemandFirst,
    waiting: Vec<Waiting>,
    head: u64,
    downwards: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    sector: u64,
    order: u64,
    prefetch: bool,
}

impl Naive {
    fn pop(&mut self) -> Option<u64> {
        let classes = self.demand_first != DemandFirst::Never;
        let demanded = classes && self.waiting.iter().any(|w| !w.prefetch);
        let eligible = self.waiting.iter().filter(|w| !(demanded && w.prefetch));
        let eligible: Vec<(u64, u64)> = eligible.map(|w| (w.sector, w.order)).collect();
        let up = |h: u64| eligible.iter().copied().filter(move |w| w.0 >= h).min();
        let down = |h: u64| {
            let below = eligible.iter().copied().filter(move |w| w.0 <= h);
            below.max_by_key(|w| (w.0, std::cmp::Reverse(w.1)))
        };
        let head = self.head;
        let next = match self.discipline {
            Discipline::Fcfs | Discipline::Sptf => eligible.iter().copied().min_by_key(|w| w.1),
            Discipline::Cscan | Discipline::Clook => up(head).or_else(|| up(0)),
            Discipline::Scan => {
                let (onwards, back) =
                    if self.downwards { (down(head), up(head)) } else { (up(head), down(head)) };
                if onwards.is_none() {
                    self.downwards = !self.downwards;
                }
                onwards.or(back)
            }
            Discipline::Sstf => eligible.iter().copied().min_by_key(|w| (w.0.abs_diff(head), w.0, w.1)),
        }?;
        self.waiting.retain(|w| w.order != next.1);
        self.head = next.0;
        Some(next.1)
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Submit {
        sector: u64,
        prefetch: bool,
    },
    Take,
    /// Somebody comes to wait for this request.
    Promote(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40u64, any::<bool>()).prop_map(|(sector, prefetch)| Step::Submit { sector, prefetch }),
        4 => Just(Step::Take),
        1 => (0..100u64).prop_map(Step::Promote),
    ]
}

proptest! {
    #[test]
    fn the_order_is_the_naive_one(
        which in 0..6usize,
        demand_first in prop::sample::select(vec![DemandFirst::Never, DemandFirst::Overtake, DemandFirst::Promote]),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let discipline = Discipline::ALL[which];
        let mut queue = Scheduler::new(discipline, demand_first, usize::MAX);
        let mut naive = Naive { discipline, demand_first, waiting: Vec::new(), head: 0, downwards: false };
        let mut order = 0;
        for step in steps {
            match step {
                Step::Submit { sector, prefetch } => {
                    let class = if prefetch { Class::Prefetch } else { Class::Demand };
                    prop_assert!(queue.push(Request::read(order, sector, 1).of_class(class), 0));
                    naive.waiting.push(Waiting { sector, order, prefetch });
                    order += 1;
                }
                Step::Promote(id) => {
                    let waits = naive.waiting.iter_mut().find(|w| w.order == id && w.prefetch);
                    let expected = demand_first == DemandFirst::Promote && waits.is_some();
                    if let Some(waiting) = waits.filter(|_| expected) {
                        waiting.prefetch = false;
                    }
                    prop_assert_eq!(queue.promote(id), expected);
                }
                Step::Take => {
                    // An empty sweep turns round or not, as nobody can see.
                    if naive.waiting.is_empty() {
                        prop_assert!(queue.is_empty());
                        continue;
                    }
                    prop_assert_eq!(queue.pop(&NoArm).map(|q| q.request.id), naive.pop());
                }
            }
            prop_assert_eq!(queue.len(), naive.waiting.len());
        }
    }

    /// The pruned search finds the same as looking at every request, on a disk in the middle of its work.
    #[test]
    fn shortest_positioning_time_is_the_shortest_of_all(
        device in prop::sample::select(vec!["hp97560", "st34501w", "ibm0661"]),
        before in prop::collection::vec((0..39_000u64, 0..30_000_000u64), 0..6),
        waiting in prop::collection::vec((0..39_000u64, any::<bool>()), 1..60),
        pause_ns in 0..40_000_000u64,
    ) {
        let parameters = catalogue::find(device).unwrap();
        let mut disk = Mechanism::new(parameters.disk().unwrap());
        let mut now_ns = 0;
        for (block, pause_ns) in before {
            now_ns = disk.service(now_ns, &Request::read(0, block * 16, 16)).finished_ns + pause_ns;
        }
        now_ns += pause_ns;
        let mut queue = Scheduler::new(Discipline::Sptf, DemandFirst::Never, usize::MAX);
        for (i, (block, write)) in waiting.iter().enumerate() {
            let (id, sector) = (i as u64, block * 16);
            let request = if *write { Request::write(id, sector, 16) } else { Request::read(id, sector, 16) };
            prop_assert!(queue.push(request, 0));
        }
        let at = (&disk, now_ns);
        let best = queue.iter().min_by_key(|q| (at.positioning_ns(&q.request), q.order)).copied();
        prop_assert_eq!(queue.pop(&at), best);
    }
}

#[test]
fn cscan_goes_up_and_starts_again_below() {
    let mut queue = Scheduler::new(Discipline::Cscan, DemandFirst::Never, 10);
    for (id, sector) in [(0, 50), (1, 10), (2, 90), (3, 50)] {
        assert!(queue.push(Request::read(id, sector, 1), 0));
    }
    let mut next = || queue.pop(&NoArm).map(|q| q.request.id);
    assert_eq!([next(), next(), next(), next()], [Some(1), Some(0), Some(3), Some(2)]);
    assert!(queue.push(Request::read(4, 80, 1), 0) && queue.push(Request::read(5, 95, 1), 0));
    let mut next = || queue.pop(&NoArm).map(|q| q.request.id);
    assert_eq!([next(), next(), next()], [Some(5), Some(4), None]);
}

/// The sweep goes on from wherever a demand has taken the head.
#[test]
fn a_demand_overtakes_prefetches() {
    let mut queue = Scheduler::new(Discipline::Cscan, DemandFirst::Promote, 10);
    for (id, sector) in [(0, 10), (1, 50), (2, 90)] {
        assert!(queue.push(Request::read(id, sector, 1).of_class(Class::Prefetch), 0));
    }
    assert_eq!(queue.pop(&NoArm).map(|q| q.request.id), Some(0));
    assert!(queue.push(Request::read(3, 70, 1), 0));
    assert!(queue.push(Request::read(4, 5, 1).of_class(Class::Prefetch), 0));
    assert_eq!(queue.pop(&NoArm).map(|q| q.request.id), Some(3));
    // Somebody waits for 1, which lies behind the head now; 2 would be next.
    assert!(queue.promote(1) && !queue.promote(1));
    let mut next = || queue.pop(&NoArm).map(|q| q.request.id);
    assert_eq!([next(), next(), next(), next()], [Some(1), Some(2), Some(4), None]);
}

#[test]
fn a_full_queue_takes_nothing_and_a_cancelled_request_makes_room() {
    let mut queue = Scheduler::new(Discipline::Cscan, DemandFirst::Overtake, 2);
    assert!(queue.push(Request::read(1, 5, 1), 0) && queue.push(Request::read(2, 9, 1), 0));
    assert!(!queue.push(Request::read(3, 7, 1), 0));
    assert_eq!(queue.cancel(1).map(|q| q.request.id), Some(1));
    assert!(queue.cancel(1).is_none());
    assert!(queue.push(Request::read(3, 7, 1), 0));
    assert_eq!(queue.iter().map(|q| q.request.id).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn names_are_read_and_wrong_ones_explained() {
    for discipline in Discipline::ALL {
        assert_eq!(discipline.name().parse(), Ok(discipline));
    }
    assert_eq!("CSCAN".parse(), Ok(Discipline::Cscan));
    let error = "elevator".parse::<Discipline>().unwrap_err();
    assert!(error.to_string().contains("\"elevator\"") && error.to_string().contains("cscan"));
}
