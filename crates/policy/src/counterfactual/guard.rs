//! The guard: never much worse than the plain kernel.
//!
//! For every process there is a ledger: how much later it makes its references here than in the machine of the plain
//! kernel. That is what steering has lost. A process that has lost more than [`LOSS_SHARE`] of its time is *alarmed*, and
//! managers are *suspended* for it: they are treated as the plain kernel treats them. From then on both go on alike, so
//! the loss stays what it is while time goes by. When it has become a small enough share of the time, steering is tried
//! again. So each trial comes later than the one before, and what is lost in all is bounded.
//!
//! The machine beside errs. Where it can be known, it is set right: while everybody is suspended, a reference that meets the
//! same here and there waits for the same, and a difference is no loss. Where it cannot, as lists are followed, no more than
//! [`RETURNED_SHARE`] of the time is given back of what seems to have been gained. And as somebody may have to wait for all
//! that is on its way, no more is than may still be lost ([`Guard::affordable`]).
//!
//! A good list loses at first, too: a batch of prefetches is on its way before the first of them is used. So there is
//! something to lose at the beginning, less of it for a list that explains little of what happens, and less at each trial.
//!
//! Of several processes one may lose by its own lists, or by what its neighbours fetch ahead: their prefetches are in the
//! way of its reads, and where they wait less, they have the processor more. Which of the two it is cannot be seen, so
//! they are tried in turn: its own manager is suspended first if its lists explain little, all others if they explain
//! much, and everybody if the loss grows nevertheless. As all of them are treated by the plain kernel's rules then, nobody
//! can go on losing.

use super::Followed;
use crate::ids::{ManagerId, ProcessId};

/// Share of the plain kernel's time that may be lost before steering is suspended: of the 2% that are not to be exceeded,
/// the rest goes by until what is on its way has come, and until the cache is the plain kernel's again.
const LOSS_SHARE: f64 = 0.007;

/// Share of the time that may be given back of what was gained. The machine beside may be slow by a few per cent while
/// lists are followed, so that what is gained is less than it seems: all of it must not be given back.
const RETURNED_SHARE: f64 = 0.02;

/// The loss at which it is tried again, over what may be lost.
const TRIED_AGAIN: f64 = 0.7;

/// Fetches of a disk that a list may have under way before it has predicted anything; one more for each reference that it
/// has, and [`UNPREDICTED`] fewer for each that it has not. A list that is another job's has one batch on its way when the first reference is made, which may have to wait for
/// all of it: with 80 far seeks that takes as long as 2% of half a minute.
const FIRST_UNDER_WAY: f64 = 16.0;

/// What may be lost at the beginning, in mean waits of the plain kernel. With fewer, complete hints of
/// `cscope3` on one disk are suspended before the first batches have come, for 1.8% of the time.
const BEGINNING_WAITS: f64 = 96.0;

/// The same for a list that explains no more than [`DOUBTED`].
const BEGINNING_WAITS_DOUBTED: f64 = 8.0;

/// References before which nothing is judged: the first waits of the plain kernel are estimated before the disks have shown
/// anything.
const FIRST_REFERENCES: u64 = 8;

/// What may be lost at the beginning of a trial, over what was at the one before.
const TRIAL_SHARE: f64 = 0.7;

/// Share of the references that a list explains which is as good as complete: with 1% wrong, less by chance is rare.
const TRUSTED: f64 = 0.97;

/// A list that explains no more than this has nothing left that it may lose at the beginning but the least.
const DOUBTED: f64 = 0.80;

/// References over which the share is taken.
const REMEMBERED: f64 = 64.0;

/// What one of several processes may lose at the beginning, over what a single one may.
const BEGINNING_OF_SEVERAL: f64 = 0.3;

/// Predictions that a new list is taken to have made rightly.
const TRUST: f64 = 8.0;

/// What a reference that lists had not predicted takes from what they may have under way, over what one that they had
/// adds. With 0 a list that is half wrong has 40 far seeks a disk on its way when it is suspended, which somebody waits for.
const UNPREDICTED: f64 = 2.0;

/// What a position that was passed over says against its list, over what a reference says that it had not predicted. Such a
/// position costs a fetch, the other one a wait. With 1 lists of which a third is in vain lose what they gain in the end
/// (half inserted 0.74 instead of 0.66 on four workloads), with 0 they lose up to 11% where that comes too late.
const PASSED_OVER: f64 = 0.25;

/// Share of the time by which the loss must have grown since an alarm until the alarm is for everybody.
const GROWN_SHARE: f64 = 0.002;

/// Who is suspended for a process that loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alarm {
    /// Its own manager.
    Own,
    /// All others.
    Others,
    Everybody,
}

/// What one process has lost. Times are in ns.
#[derive(Debug, Clone, Copy)]
struct Ledger {
    manager: ManagerId,
    references: u64,
    /// When its first reference was made, here and there.
    first: (u64, u64),
    /// When its last one was.
    last: (u64, u64),
    /// How much later than here it was there where both did the same: so much the machine beside is slow.
    error: f64,
    /// What its references would have waited.
    would_wait: u64,
    would_waits: u64,
    /// Share of its last references that lists had predicted, less for positions that were passed over, and of how many it
    /// was taken.
    predicted: f64,
    seen: f64,
    /// What may be lost at the beginning, as a share of what may be lost at the very first.
    beginning: f64,
    alarm: Option<Alarm>,
    /// The least loss so far: what was gained at most, below 0.
    best: f64,
    /// Fetches of a disk that may be under way by what lists have predicted.
    shown: f64,
    /// How many mean waits may be lost until there is an alarm, or as many as the lists have shown to be worth.
    affordable: f64,
    /// The loss when the alarm was given.
    loss_then: f64,
}

impl Ledger {
    fn new(manager: ManagerId) -> Ledger {
        Ledger {
            manager,
            references: 0,
            first: (0, 0),
            last: (0, 0),
            error: 0.0,
            would_wait: 0,
            would_waits: 0,
            predicted: 1.0,
            seen: TRUST,
            beginning: 1.0,
            alarm: None,
            best: 0.0,
            shown: FIRST_UNDER_WAY,
            affordable: FIRST_UNDER_WAY,
            loss_then: 0.0,
        }
    }

    /// A list had predicted a reference, or not, and so many of its positions were passed over.
    fn predicted(&mut self, predicted: bool, passed_over: u32) {
        for _ in 0..passed_over.min(REMEMBERED as u32) {
            self.seen = (self.seen + 1.0).min(REMEMBERED);
            self.predicted -= PASSED_OVER * self.predicted / self.seen;
        }
        self.shown = (self.shown + if predicted { 1.0 } else { -UNPREDICTED }).max(1.0);
        self.seen = (self.seen + 1.0).min(REMEMBERED);
        self.predicted += (if predicted { 1.0 } else { 0.0 } - self.predicted) / self.seen;
    }

    /// The machine beside has come to a reference: gives an alarm, or takes it back; true if that changes.
    fn followed(&mut self, followed: &Followed, is_alone: bool) -> bool {
        if self.references == 0 {
            self.first = (followed.here, followed.there);
            self.last = self.first;
        }
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        if followed.alike {
            self.error += since(followed.there, self.last.1) - since(followed.here, self.last.0);
        }
        self.last = (followed.here, followed.there);
        self.would_wait = self.would_wait.saturating_add(followed.waited);
        self.would_waits += u64::from(followed.waited > 0);
        let here = since(followed.here, self.first.0);
        let time = since(followed.there, self.first.1) - self.error;
        let loss = here - time;
        self.best = self.best.min(loss);
        let beginning = if is_alone { 1.0 } else { BEGINNING_OF_SEVERAL } * self.beginning();
        let allowed =
            (LOSS_SHARE * time).max(beginning).min(self.best + (RETURNED_SHARE * time).max(beginning));
        let again = TRIED_AGAIN * (LOSS_SHARE * time).min(self.best / TRIED_AGAIN + RETURNED_SHARE * time);
        let wait = self.would_wait as f64 / self.would_waits.max(1) as f64;
        self.affordable = if wait > 0.0 { self.shown.min((allowed - loss) / wait) } else { self.shown };
        let alarm = match self.alarm {
            Some(_) if loss <= again => None,
            Some(_) if is_alone => Some(Alarm::Own),
            Some(_) if loss > self.loss_then + GROWN_SHARE * time => Some(Alarm::Everybody),
            Some(alarm) => Some(alarm),
            None if self.references < FIRST_REFERENCES => None,
            None if loss <= allowed => None,
            None => {
                self.beginning *= TRIAL_SHARE;
                self.loss_then = loss;
                let doubted = is_alone || self.predicted < TRUSTED;
                Some(if doubted { Alarm::Own } else { Alarm::Others })
            }
        };
        self.references += 1;
        std::mem::replace(&mut self.alarm, alarm) != alarm
    }

    /// What may be lost at the beginning, in ns.
    fn beginning(&self) -> f64 {
        let trust = ((self.predicted - DOUBTED) / (TRUSTED - DOUBTED)).clamp(0.0, 1.0);
        let waits = BEGINNING_WAITS_DOUBTED + trust * (BEGINNING_WAITS - BEGINNING_WAITS_DOUBTED);
        self.beginning * waits * self.would_wait as f64 / self.would_waits.max(1) as f64
    }
}

/// The ledgers of all processes. Processes and managers are dense numbers, as many as [`crate::Limits`] says.
///
/// What may change who is suspended says so: that an alarm is given or taken back, and that somebody comes or goes while
/// there is one. Then [`Guard::change`] is to be asked.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    ledgers: Vec<Option<Ledger>>,
    /// Processes that have a ledger.
    processes: usize,
    /// Those of them that are alarmed.
    alarmed: usize,
    suspended: Vec<bool>,
}

impl Guard {
    pub(crate) fn new() -> Guard {
        Guard::default()
    }

    /// A manager begins: nothing is known of it. True if that may change who is suspended.
    pub(crate) fn open(&mut self, manager: ManagerId) -> bool {
        let changes = self.alarmed > 0;
        let of = |ledger: &Option<Ledger>| ledger.is_some_and(|ledger| ledger.manager == manager);
        for slot in (0..self.ledgers.len()).filter(|&slot| of(&self.ledgers[slot])).collect::<Vec<_>>() {
            self.close(slot);
        }
        if let Some(suspended) = self.suspended.get_mut(manager.0 as usize) {
            *suspended = false;
        }
        changes
    }

    /// A process ended. True if that may change who is suspended.
    pub(crate) fn exited(&mut self, process: ProcessId) -> bool {
        let changes = self.alarmed > 0;
        self.close(process.0 as usize) && changes
    }

    /// A process of a manager makes references. True if that may change who is suspended.
    pub(crate) fn enter(&mut self, process: ProcessId, manager: ManagerId) -> bool {
        let slot = process.0 as usize;
        if self.ledgers.len() <= slot {
            self.ledgers.resize(slot + 1, None);
        }
        if self.ledgers[slot].is_some() {
            return false;
        }
        self.ledgers[slot] = Some(Ledger::new(manager));
        self.processes += 1;
        self.alarmed > 0
    }

    /// A ledger goes, if there is one.
    fn close(&mut self, slot: usize) -> bool {
        let Some(ledger) = self.ledgers.get_mut(slot).and_then(Option::take) else { return false };
        self.processes -= 1;
        self.alarmed -= usize::from(ledger.alarm.is_some());
        true
    }

    /// A list had predicted its last reference, or not, and so many positions were passed over with it.
    pub(crate) fn accessed(&mut self, process: ProcessId, predicted: bool, passed_over: u32) {
        if let Some(Some(ledger)) = self.ledgers.get_mut(process.0 as usize) {
            ledger.predicted(predicted, passed_over);
        }
    }

    /// The machine beside has come to a reference. True if an alarm was given or taken back: that may change who is
    /// suspended.
    pub(crate) fn followed(&mut self, followed: &Followed) -> bool {
        let is_alone = self.processes == 1;
        let ledger = self.ledgers.get_mut(followed.process.0 as usize).and_then(Option::as_mut);
        let Some(ledger) = ledger else { return false };
        let before = ledger.alarm.is_some();
        let changes = ledger.followed(followed, is_alone);
        match (before, ledger.alarm.is_some()) {
            (false, true) => self.alarmed += 1,
            (true, false) => self.alarmed -= 1,
            _ => {}
        }
        changes
    }

    /// A manager that is to be treated otherwise from now on, and whether it is suspended; to be asked until there is
    /// none.
    pub(crate) fn change(&mut self) -> Option<(ManagerId, bool)> {
        let ledgers = || self.ledgers.iter().flatten();
        let managers = ledgers().map(|l| l.manager.0 as usize + 1).max().unwrap_or(0);
        let managers = managers.max(self.suspended.len());
        let mut suspended = vec![false; managers];
        for ledger in ledgers() {
            let Some(alarm) = ledger.alarm else { continue };
            // Where all processes are one manager's, there are no others to suspend.
            let has_others = ledgers().any(|other| other.manager != ledger.manager);
            for (manager, suspended) in suspended.iter_mut().enumerate() {
                let own = manager == ledger.manager.0 as usize;
                *suspended |= match alarm {
                    Alarm::Own => own,
                    Alarm::Others if has_others => !own,
                    Alarm::Others => own,
                    Alarm::Everybody => true,
                };
            }
        }
        self.suspended.resize(managers, false);
        let changed = (0..managers).find(|&manager| suspended[manager] != self.suspended[manager])?;
        self.suspended[changed] = suspended[changed];
        Some((ManagerId(changed as u32), suspended[changed]))
    }

    /// How many fetches of a disk lists may have under way: somebody may have to wait for all of them, and that must not be
    /// more than may still be lost. At least one. Several processes are not limited: small sweeps are slow for all of them.
    pub(crate) fn affordable(&self) -> u32 {
        let mut ledgers = self.ledgers.iter().flatten();
        match (ledgers.next(), ledgers.next()) {
            (None, _) => FIRST_UNDER_WAY as u32,
            (Some(ledger), None) => ledger.affordable.max(1.0) as u32,
            _ => u32::MAX,
        }
    }

    /// Are all managers that have a process treated as the plain kernel treats them?
    pub(crate) fn all_suspended(&self) -> bool {
        self.alarmed > 0 && self.ledgers.iter().flatten().all(|ledger| self.is_suspended(ledger.manager))
    }

    /// Is the manager treated as the plain kernel treats it?
    pub(crate) fn is_suspended(&self, manager: ManagerId) -> bool {
        self.suspended.get(manager.0 as usize).is_some_and(|&suspended| suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: ManagerId = ManagerId(0);
    const P: ProcessId = ProcessId(0);
    const MS: u64 = 1_000_000;

    /// A guard, the time here and there, and references that each compute for 1 ms and wait for `here` and `there`, in ms.
    struct Run {
        guard: Guard,
        here: u64,
        there: u64,
        waited: u64,
    }

    impl Run {
        fn new() -> Run {
            Run { guard: Guard::new(), here: 0, there: 0, waited: 0 }
        }

        fn read(&mut self, here: u64, there: u64, predicted: bool) -> bool {
            self.here += MS;
            self.there += MS;
            self.guard.enter(P, M);
            let followed = Followed {
                process: P,
                here: self.here,
                there: self.there,
                waited: self.waited * MS,
                alike: false,
            };
            if self.guard.followed(&followed) {
                settle(&mut self.guard);
            }
            self.guard.accessed(P, predicted, 0);
            self.here += here * MS;
            self.there += there * MS;
            self.waited = there;
            self.guard.is_suspended(M)
        }
    }

    /// Takes all changes; gives them.
    fn settle(guard: &mut Guard) -> Vec<(ManagerId, bool)> {
        std::iter::from_fn(|| guard.change()).collect()
    }

    #[test]
    fn what_loses_is_suspended_and_tried_again_later_each_time() {
        let mut run = Run::new();
        // 20 ms lost by each reference while it is steered, none while it is not.
        let mut changes = vec![0];
        let (mut suspended, mut here) = (false, 0);
        for i in 0..200_000u64 {
            here += 10 + if suspended { 0 } else { 20 };
            let now = run.read(if suspended { 10 } else { 30 }, 10, true);
            if now != suspended {
                changes.push(i);
            }
            suspended = now;
        }
        // 96 waits of 10 ms are lost after 48 references, and noted with the next one.
        assert_eq!(changes[1], 49);
        // Trials, each later than the one before.
        let trials: Vec<u64> = changes[2..].chunks_exact(2).map(|pair| pair[0]).collect();
        assert!(trials.len() > 5 && trials.windows(2).all(|two| two[1] * 5 > two[0] * 6), "{trials:?}");
        assert!(here - 2_000_000 < 2_200_000 / 50, "{here} ms waited, of them lost less than 2% of the time");
    }

    #[test]
    fn a_list_that_explains_little_has_less_to_lose() {
        let mut run = Run::new();
        assert_eq!((0..).position(|i| run.read(30, 10, i % 2 == 0)), Some(8));
    }

    #[test]
    fn a_beginning_that_is_made_up_for_is_let_be() {
        let mut run = Run::new();
        assert!((0..30).all(|_| !run.read(30, 10, true)));
        assert!((0..10_000).all(|_| !run.read(0, 10, true)));
    }

    #[test]
    fn what_was_gained_is_not_given_back() {
        let mut run = Run::new();
        // 9 ms gained by each reference, then 10 ms lost: 1 s of the first 11 s, of which 2% of the time may go.
        assert!((0..1000).all(|_| !run.read(1, 10, true)));
        let lost = (0..2000).position(|_| run.read(20, 10, true));
        assert!(lost.is_some_and(|lost| (20..120).contains(&lost)), "{lost:?} of 900 that were gained");
    }

    #[test]
    fn what_the_machine_beside_is_wrong_by_is_no_gain() {
        for alike in [false, true] {
            let mut guard = Guard::new();
            guard.enter(P, M);
            let mut told = |here: u64, there: u64, alike: bool| {
                guard.followed(&Followed {
                    process: P,
                    here: here * MS,
                    there: there * MS,
                    waited: 9 * MS,
                    alike,
                });
                settle(&mut guard);
                guard.is_suspended(M)
            };
            for i in 0..10 {
                told(200 * i, 10 * i, false);
            }
            // Suspended with 1.7 s lost. From then on each reference takes 10 ms here, and is thought to take 20 there.
            let mut tried_again = false;
            for i in 1..1000 {
                tried_again |= !told(1800 + 10 * i, 90 + 20 * i, alike);
            }
            assert_eq!(tried_again, !alike, "alike: {alike}");
        }
    }

    #[test]
    fn no_more_is_under_way_than_may_be_lost() {
        let mut run = Run::new();
        assert_eq!(run.guard.affordable(), 16, "nothing is known");
        run.read(10, 10, true);
        assert_eq!(run.guard.affordable(), 16);
        (0..200).for_each(|_| assert!(!run.read(10, 10, true)));
        // 96 waits of 10 ms at the beginning, of which none is lost.
        assert_eq!(run.guard.affordable(), 96);
        (0..10).for_each(|_| assert!(!run.read(50, 10, true)));
        // 40 ms lost by each of nine that have been followed.
        assert_eq!(run.guard.affordable(), 60);
        // Another process: sweeps that are small are slow for both.
        run.guard.enter(ProcessId(1), M);
        assert_eq!(run.guard.affordable(), u32::MAX);
    }

    #[test]
    fn one_of_several_that_loses_has_first_others_suspended_then_everybody() {
        let mut guard = Guard::new();
        for process in 0..3 {
            guard.enter(ProcessId(process), ManagerId(process));
        }
        let mut time = 0;
        let mut read = |guard: &mut Guard, lost: u64, process: u32| {
            time += 10 * MS;
            let followed = Followed {
                process: ProcessId(process),
                here: time + lost,
                there: time,
                waited: 9 * MS,
                alike: false,
            };
            guard.followed(&followed);
            guard.accessed(ProcessId(process), true, 0);
            settle(guard)
        };
        for _ in 0..100 {
            assert!(read(&mut guard, 0, 1).is_empty());
        }
        // 28.8 waits of 9 ms may be lost.
        assert!(read(&mut guard, 250 * MS, 1).is_empty());
        let all_but = |m: u32| (0..3).filter(move |&other| other != m).map(|other| (ManagerId(other), true));
        assert_eq!(read(&mut guard, 270 * MS, 1), all_but(1).collect::<Vec<_>>(), "it is believed");
        assert!(read(&mut guard, 271 * MS, 1).is_empty());
        assert_eq!(read(&mut guard, 280 * MS, 1), [(ManagerId(1), true)]);
        // A neighbour that ends changes nothing; the one that lost does.
        guard.exited(ProcessId(0));
        assert!(settle(&mut guard).is_empty());
        assert!(guard.exited(ProcessId(1)));
        assert_eq!(settle(&mut guard).len(), 3);
        assert!((0..3).all(|m| !guard.is_suspended(ManagerId(m))));
    }

    #[test]
    fn one_of_several_whose_list_explains_little_is_suspended_itself() {
        let mut guard = Guard::new();
        for process in 0..2 {
            guard.enter(ProcessId(process), ManagerId(process));
        }
        let mut changes = Vec::new();
        for i in 1..100 {
            let followed =
                Followed { process: P, here: 30 * i * MS, there: 10 * i * MS, waited: 9 * MS, alike: false };
            guard.followed(&followed);
            guard.accessed(P, i % 2 == 0, 0);
            changes.extend(settle(&mut guard));
        }
        assert_eq!(changes, [(ManagerId(0), true), (ManagerId(1), true)]);
    }

    #[test]
    fn a_new_manager_in_the_same_place_begins_anew() {
        let mut run = Run::new();
        assert!((0..100).any(|_| run.read(30, 10, true)));
        run.guard.open(M);
        assert!(!run.guard.is_suspended(M) && !run.guard.is_suspended(ManagerId(7)));
    }

    /// Gives an alarm for a process that is believed and loses much, among others.
    fn alarm(guard: &mut Guard, process: u32) -> Vec<(ManagerId, bool)> {
        for i in 1..100 {
            let followed = Followed {
                process: ProcessId(process),
                here: 30 * i * MS,
                there: 10 * i * MS,
                waited: 9 * MS,
                alike: false,
            };
            if guard.followed(&followed) {
                return settle(guard);
            }
        }
        panic!("no alarm");
    }

    #[test]
    fn who_comes_while_another_one_loses_is_suspended_too() {
        let mut guard = Guard::new();
        for process in 0..2 {
            assert!(!guard.enter(ProcessId(process), ManagerId(process)), "there is no alarm");
        }
        assert_eq!(alarm(&mut guard, 0), [(ManagerId(1), true)]);
        assert!(guard.enter(ProcessId(2), ManagerId(2)));
        assert_eq!(settle(&mut guard), [(ManagerId(2), true)]);
        assert!(!guard.enter(ProcessId(2), ManagerId(2)), "it is there");
        // Another manager in the place of one that was suspended is, too.
        assert!(guard.open(ManagerId(1)));
        assert_eq!(settle(&mut guard), [(ManagerId(1), true)]);
    }

    #[test]
    fn who_was_suspended_for_a_manager_that_is_gone_is_so_no_longer() {
        let mut guard = Guard::new();
        for process in 0..2 {
            guard.enter(ProcessId(process), ManagerId(process));
        }
        assert_eq!(alarm(&mut guard, 0), [(ManagerId(1), true)]);
        // Its number is given to another manager.
        assert!(guard.open(ManagerId(0)));
        assert_eq!(settle(&mut guard), [(ManagerId(1), false)]);
    }

    #[test]
    fn processes_of_one_manager_that_lose_have_it_suspended() {
        let mut guard = Guard::new();
        for process in 0..2 {
            guard.enter(ProcessId(process), M);
        }
        assert_eq!(alarm(&mut guard, 0), [(M, true)]);
        // Another one comes, which is suspended instead.
        assert!(guard.enter(ProcessId(2), ManagerId(1)));
        assert_eq!(settle(&mut guard), [(M, false), (ManagerId(1), true)]);
        assert!(guard.exited(ProcessId(2)));
        assert_eq!(settle(&mut guard), [(M, true), (ManagerId(1), false)]);
    }
}
