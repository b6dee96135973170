//! The guard: never much worse than the plain kernel.
//!
//! For every process there is a ledger: how much later it makes its references here than in the machine of the plain
//! kernel. That is what steering has lost. A process that has lost more than [`LOSS_SHARE`] of its time is *alarmed*, and
//! managers are *suspended* for it: they are treated as the plain kernel treats them. From then on both go on alike, so
//! the loss stays what it is while time goes by. When it has become a small enough share of the time, steering is tried
//! again. So each trial comes later than the one before, and what is lost in all is bounded.
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
/// the rest goes by until what is on its way has come. 1.3% leaves as many cells slower and gains nothing.
const LOSS_SHARE: f64 = 0.010;

/// The share at which it is tried again.
const TRIED_AGAIN_SHARE: f64 = 0.008;

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

/// The same shares where there are several processes: what they have on their way when one of them is suspended is more.
/// With those of a single one 14 of 208 cells are slower instead of 8.
const LOSS_SHARE_OF_SEVERAL: f64 = 0.007;
const TRIED_AGAIN_SHARE_OF_SEVERAL: f64 = 0.005;

/// What one of several processes may lose at the beginning, over what a single one may.
const BEGINNING_OF_SEVERAL: f64 = 0.3;

/// Predictions that a new list is taken to have made rightly.
const TRUST: f64 = 8.0;

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
    /// What its references would have waited.
    would_wait: u64,
    would_waits: u64,
    /// Share of its last references that lists had predicted, and of how many it was taken.
    predicted: f64,
    seen: f64,
    /// What may be lost at the beginning, as a share of what may be lost at the very first.
    beginning: f64,
    alarm: Option<Alarm>,
    /// The loss when the alarm was given.
    loss_then: f64,
}

impl Ledger {
    fn new(manager: ManagerId) -> Ledger {
        Ledger {
            manager,
            references: 0,
            first: (0, 0),
            would_wait: 0,
            would_waits: 0,
            predicted: 1.0,
            seen: TRUST,
            beginning: 1.0,
            alarm: None,
            loss_then: 0.0,
        }
    }

    fn predicted(&mut self, predicted: bool) {
        self.seen = (self.seen + 1.0).min(REMEMBERED);
        self.predicted += (if predicted { 1.0 } else { 0.0 } - self.predicted) / self.seen;
    }

    /// The machine beside has come to a reference: gives an alarm, or takes it back; true if that changes.
    fn followed(&mut self, followed: &Followed, is_alone: bool) -> bool {
        if self.references == 0 {
            self.first = (followed.here, followed.there);
        }
        self.would_wait = self.would_wait.saturating_add(followed.waited);
        self.would_waits += u64::from(followed.waited > 0);
        let here = followed.here.saturating_sub(self.first.0) as f64;
        let time = followed.there.saturating_sub(self.first.1) as f64;
        let loss = here - time;
        let (share, again, beginning) = match is_alone {
            true => (LOSS_SHARE, TRIED_AGAIN_SHARE, self.beginning()),
            false => {
                (LOSS_SHARE_OF_SEVERAL, TRIED_AGAIN_SHARE_OF_SEVERAL, BEGINNING_OF_SEVERAL * self.beginning())
            }
        };
        let alarm = match self.alarm {
            Some(_) if loss <= again * time => None,
            Some(_) if is_alone => Some(Alarm::Own),
            Some(_) if loss > self.loss_then + GROWN_SHARE * time => Some(Alarm::Everybody),
            Some(alarm) => Some(alarm),
            None if self.references < FIRST_REFERENCES => None,
            None if loss <= beginning.max(share * time) => None,
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

    /// A list had predicted its last reference, or not.
    pub(crate) fn accessed(&mut self, process: ProcessId, predicted: bool) {
        if let Some(Some(ledger)) = self.ledgers.get_mut(process.0 as usize) {
            ledger.predicted(predicted);
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
            let followed =
                Followed { process: P, here: self.here, there: self.there, waited: self.waited * MS };
            if self.guard.followed(&followed) {
                settle(&mut self.guard);
            }
            self.guard.accessed(P, predicted);
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
    fn one_of_several_that_loses_has_first_others_suspended_then_everybody() {
        let mut guard = Guard::new();
        for process in 0..3 {
            guard.enter(ProcessId(process), ManagerId(process));
        }
        let mut time = 0;
        let mut read = |guard: &mut Guard, lost: u64, process: u32| {
            time += 10 * MS;
            let followed =
                Followed { process: ProcessId(process), here: time + lost, there: time, waited: 9 * MS };
            guard.followed(&followed);
            guard.accessed(ProcessId(process), true);
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
            let followed = Followed { process: P, here: 30 * i * MS, there: 10 * i * MS, waited: 9 * MS };
            guard.followed(&followed);
            guard.accessed(P, i % 2 == 0);
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
