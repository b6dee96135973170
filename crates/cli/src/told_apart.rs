//! Which signals are to be passed on to the job, and which ones it has heard itself.
//!
//! The keeper and the worker note what they hear (`foretell_pagecache::hearing`). What both have heard was sent to the process
//! group, or to each process of a control group: the job has heard it as well, or has left the group and would not hear it
//! without us either. What the keeper alone has heard was sent to the number that is known, and is passed on, once.
//!
//! Whether the worker has heard it is known from its note, or earlier: a signal that waits for it has reached it. Its note then
//! comes later, and is no note of another signal. Who signals one process after the other takes a while, so the worker has
//! [`WAIT_NS`] to hear it as well, more as long as it is busy with a note, and as long as the sender wants a processor: that may
//! have been interrupted between the two. The sender's next signal is a new one: each note stands for one signal, or for those
//! that the kernel has made one of. Those are what came between the first of them and its note, whoever has sent them.
//!
//! A signal to both of us and not to the job (`pkill -f foretell`) looks like one to the group. If it is one by which the job would
//! end, as it does nothing else on it, and the job is still there some time later, it has not heard it.
//!
//! Only what processes send is told apart here: of what is typed the caller knows who has heard it.

use foretell_pagecache::hearing::{Ear, Heard};

/// So much later the worker may hear what the keeper has heard.
pub(crate) const WAIT_NS: u64 = 20_000_000;
/// The same while the sender is busy.
const BUSY_NS: u64 = 200_000_000;
/// So often it is asked whether it is.
const LOOK_NS: u64 = 5_000_000;
/// So much later all is decided, and a job that has heard a signal has ended of it.
const ENDED_NS: u64 = 250_000_000;
/// What is no further apart is one signal at once; what is may be the next one, and is only when no other one comes.
const NEAR_NS: u64 = 2_000_000;
/// So long before the keeper the worker may have heard it, which may have to be loaded first; longer if it waits there.
const BEFORE_NS: u64 = 100_000_000;
/// A signal of the kind that the keeper has heard so long before or after one of the worker's may be the same one.
const SAME_NS: u64 = 1_000_000_000;
/// Notes that are owed for longer than this do not come any more.
const OWED_NS: u64 = 60_000_000_000;
/// Signals, and notes, that wait. Further signals are passed on at once, and further notes are lost.
const MOST: usize = 256;
/// The first of the real-time signals to the kernel, of which several of a kind may wait (signal(7)).
const FIRST_OF_QUEUED: i32 = 32;
/// Numbers of signals.
const SIGNALS: usize = 65;

/// What can be looked up when it matters.
pub(crate) trait Look {
    /// Which signals have reached one of the two processes, and wait there: bit `n - 1` for signal `n`.
    fn reached(&self, ear: Ear) -> u64;

    /// Has the worker begun to note something?
    fn is_being_noted(&self) -> bool;

    /// Does a process want a processor?
    fn is_busy(&self, pid: i32) -> bool;

    /// Is a process there that would end by a signal: it neither catches nor ignores nor blocks it?
    fn would_end(&self, pid: i32, signal: i32) -> bool;
}

/// What was heard and is not decided yet.
#[derive(Debug)]
pub(crate) struct Apart {
    /// Heard by the keeper.
    waiting: Vec<Heard>,
    /// Heard by the worker, and not known to be one that the keeper has heard.
    notes: Vec<Heard>,
    /// Known to have reached the worker, which has not noted it yet.
    owed: Vec<Heard>,
    /// Signals by which the job ends if it hears them, and when it must have.
    ends: Vec<(i32, u64)>,
    /// When the keeper has heard each kind last.
    last_ns: [u64; SIGNALS],
    /// From when to when the last note of each kind stands for what the keeper has heard of it.
    noted_ns: [(u64, u64); SIGNALS],
}

impl Apart {
    pub(crate) fn new() -> Apart {
        Apart {
            waiting: Vec::new(),
            notes: Vec::new(),
            owed: Vec::new(),
            ends: Vec::new(),
            last_ns: [0; SIGNALS],
            noted_ns: [(0, 0); SIGNALS],
        }
    }

    /// The keeper has heard this, and it needs no decision.
    pub(crate) fn knows(&mut self, heard: Heard) {
        if let Some(last) = usize::try_from(heard.signal).ok().and_then(|signal| self.last_ns.get_mut(signal))
        {
            *last = heard.at_ns;
        }
    }

    /// The keeper has heard this just now, of which the job ends if it hears it, or not. Returns it if there is no room for it: it is
    /// passed on.
    pub(crate) fn heard(&mut self, heard: Heard, would_end: bool) -> Option<i32> {
        self.knows(heard);
        if would_end && self.ends.len() < MOST {
            self.ends.push((heard.signal, heard.at_ns.saturating_add(ENDED_NS)));
        }
        if self.waiting.len() >= MOST {
            return Some(heard.signal);
        }
        self.waiting.push(heard);
        None
    }

    /// What has been heard of these signals and is not decided yet has no meaning any more, as the kernel has it: who goes on
    /// does not stop again of what came before, and who stops does not go on.
    pub(crate) fn forget(&mut self, signals: &[i32]) {
        self.waiting.retain(|heard| !signals.contains(&heard.signal));
    }

    /// The worker has heard this.
    pub(crate) fn noted(&mut self, note: Heard) {
        let is_queued = note.signal >= FIRST_OF_QUEUED;
        let is_of_it = |owed: &Heard| owed.signal == note.signal && owed.at_ns <= note.at_ns;
        if let Some(place) = self.owed.iter().position(is_of_it) {
            self.stands_for(note.signal, self.owed[place].at_ns, note.at_ns);
            // The kernel makes one of those of a kind that wait.
            if is_queued {
                self.owed.remove(place);
            } else {
                self.owed.retain(|owed| !is_of_it(owed));
            }
        } else if self.notes.len() < MOST {
            self.notes.push(note);
        }
    }

    /// Which signals are passed on now. `job` is its process, or zero when that is not known yet.
    pub(crate) fn decide(&mut self, now_ns: u64, job: i32, look: &impl Look) -> Vec<i32> {
        let mut passed_on = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        let mut waiting: Vec<Heard> = waiting
            .into_iter()
            .filter(|heard| !self.is_noted(heard, NEAR_NS, NEAR_NS) && !self.is_made_one(heard))
            .collect();
        let at_worker = if waiting.is_empty() { 0 } else { look.reached(Ear::Worker) };
        let bit = |signal: i32| 1_u64 << (signal - 1).clamp(0, 63);
        self.owed.extend(waiting.extract_if(.., |heard| at_worker & bit(heard.signal) != 0));
        self.owed.retain(|owed| now_ns.saturating_sub(owed.at_ns) < OWED_NS);
        self.owed.truncate(MOST);
        for heard in waiting {
            let age_ns = now_ns.saturating_sub(heard.at_ns);
            if age_ns < WAIT_NS {
                self.waiting.push(heard);
            } else if self.is_noted(&heard, SAME_NS, u64::MAX) || self.is_made_one(&heard) {
                // It was slow in coming.
            } else if (age_ns < BUSY_NS && look.is_busy(heard.sender))
                || (age_ns < SAME_NS && look.is_being_noted())
            {
                self.waiting.push(heard);
            } else {
                passed_on.push(heard.signal);
            }
        }
        let is_old = |note: &Heard| now_ns.saturating_sub(note.at_ns) >= BEFORE_NS;
        let here = if self.notes.iter().any(is_old) { look.reached(Ear::Keeper) } else { 0 };
        // It may be of one that the keeper has heard just now.
        let waiting = &self.waiting;
        let is_awaited = |note: &Heard| waiting.iter().any(|heard| heard.signal == note.signal);
        let is_decided = |note: &mut Heard| is_old(note) && here & bit(note.signal) == 0 && !is_awaited(note);
        let alone = self.notes.extract_if(.., is_decided);
        let last_ns = &self.last_ns;
        let is_other = |note: &Heard| {
            let last = usize::try_from(note.signal).ok().and_then(|signal| last_ns.get(signal).copied());
            last.is_none_or(|last| last.saturating_add(SAME_NS) < note.at_ns)
        };
        // Sent to the worker alone: for a process that the job signals by the name of its parent nobody here stands.
        let alone = alone.filter(|note| note.sender != job && is_other(note));
        passed_on.extend(alone.map(|note| note.signal));
        let lives_on = self.ends.extract_if(.., |(_, due_ns)| *due_ns <= now_ns && job != 0);
        passed_on.extend(lives_on.map(|(signal, _)| signal).filter(|signal| look.would_end(job, *signal)));
        passed_on
    }

    /// When something is to be decided even if nothing is heard.
    pub(crate) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let soon_ns = now_ns.saturating_add(LOOK_NS);
        let waiting = self.waiting.iter().map(|heard| heard.at_ns.saturating_add(WAIT_NS).max(soon_ns));
        let notes = self.notes.iter().map(|note| note.at_ns.saturating_add(BEFORE_NS));
        // What waits here rings when it is heard.
        let ends = self.ends.iter().map(|(_, due_ns)| (*due_ns).max(soon_ns));
        waiting.chain(notes.filter(|due| *due > now_ns)).chain(ends).min()
    }

    /// Has the worker heard it as well, at most so much before or after? Then its note is used up.
    fn is_noted(&mut self, heard: &Heard, before_ns: u64, after_ns: u64) -> bool {
        let apart = |note: &Heard| {
            let (before, after) =
                (heard.at_ns.saturating_sub(note.at_ns), note.at_ns.saturating_sub(heard.at_ns));
            let is_same = (note.signal, note.code, note.sender) == (heard.signal, heard.code, heard.sender);
            (is_same && before <= before_ns && after <= after_ns).then_some(before.max(after))
        };
        let places = self.notes.iter().enumerate();
        let nearest = places.filter_map(|(place, note)| Some((apart(note)?, place))).min();
        nearest.is_some_and(|(_, place)| {
            let note = self.notes.remove(place);
            self.stands_for(note.signal, heard.at_ns, note.at_ns);
            true
        })
    }

    /// A note of the worker's stands for what the keeper has heard of a kind in this time: of those that wait the kernel makes one.
    fn stands_for(&mut self, signal: i32, from_ns: u64, to_ns: u64) {
        let place = usize::try_from(signal).ok().filter(|_| signal < FIRST_OF_QUEUED);
        if let Some(noted) = place.and_then(|signal| self.noted_ns.get_mut(signal)) {
            *noted = (from_ns, to_ns);
        }
    }

    /// Did it wait for the worker together with another one, when that was noted?
    fn is_made_one(&self, heard: &Heard) -> bool {
        let noted = usize::try_from(heard.signal).ok().and_then(|signal| self.noted_ns.get(signal));
        noted.is_some_and(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&heard.at_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: i32 = 15;
    const INT: i32 = 2;
    const REALTIME: i32 = 40;
    const MS: u64 = 1_000_000;
    const JOB: i32 = 7;
    const NONE: [i32; 0] = [];

    fn from(sender: i32, signal: i32, at_ms: u64) -> Heard {
        Heard { signal, code: 0, sender, at_ns: SAME_NS * 10 + at_ms * MS }
    }

    #[derive(Default)]
    struct Known {
        at_worker: u64,
        at_keeper: u64,
        is_being_noted: bool,
        busy: Option<i32>,
        would_end: bool,
    }

    impl Look for Known {
        fn reached(&self, ear: Ear) -> u64 {
            if ear == Ear::Worker { self.at_worker } else { self.at_keeper }
        }

        fn is_being_noted(&self) -> bool {
            self.is_being_noted
        }

        fn is_busy(&self, pid: i32) -> bool {
            self.busy == Some(pid)
        }

        fn would_end(&self, pid: i32, _: i32) -> bool {
            pid == JOB && self.would_end
        }
    }

    /// What is passed on at a time when this has reached the worker.
    fn at(apart: &mut Apart, at_ms: u64, reached: u64) -> Vec<i32> {
        apart.decide(from(0, 0, at_ms).at_ns, JOB, &Known { at_worker: reached, ..Known::default() })
    }

    #[test]
    fn what_both_have_heard_is_not_passed_on_whoever_has_heard_it_first() {
        for (keeper, worker) in [(0, 0), (0, 1), (1, 0), (0, 15), (50, 0)] {
            let mut apart = Apart::new();
            assert_eq!(apart.heard(from(1, TERM, keeper), false), None);
            assert_eq!(at(&mut apart, keeper, 0), NONE);
            apart.noted(from(1, TERM, worker));
            assert_eq!(at(&mut apart, keeper + 30, 0), NONE, "{keeper} {worker}");
            assert_eq!(at(&mut apart, 5_000, 0), NONE);
            assert_eq!(apart.due_ns(0), None);
        }
    }

    /// A keeper that has to wait for a processor, or for its own pages.
    #[test]
    fn what_waits_for_the_keeper_is_not_the_workers_alone() {
        let mut apart = Apart::new();
        apart.noted(from(1, TERM, 0));
        let waits = Known { at_keeper: 1 << (TERM - 1), ..Known::default() };
        assert_eq!(apart.decide(from(0, 0, 300).at_ns, JOB, &waits), NONE);
        apart.heard(from(1, TERM, 400), false);
        assert_eq!(at(&mut apart, 400, 0), NONE);
        assert_eq!(at(&mut apart, 430, 0), NONE);
        assert_eq!(at(&mut apart, 5_000, 0), NONE);
    }

    #[test]
    fn a_sender_that_was_interrupted_between_the_two_is_waited_for() {
        let mut apart = Apart::new();
        let busy = Known { busy: Some(1), ..Known::default() };
        apart.heard(from(1, TERM, 0), false);
        assert_eq!(apart.decide(from(0, 0, 100).at_ns, JOB, &busy), NONE);
        apart.noted(from(1, TERM, 120));
        assert_eq!(apart.decide(from(0, 0, 120).at_ns, JOB, &busy), NONE);
        assert_eq!(at(&mut apart, 5_000, 0), NONE);
        // Not for ever.
        apart.heard(from(1, TERM, 6_000), false);
        assert_eq!(apart.decide(from(0, 0, 6_100).at_ns, JOB, &busy), NONE);
        assert_eq!(apart.decide(from(0, 0, 6_200).at_ns, JOB, &busy), [TERM]);
    }

    #[test]
    fn a_note_that_was_begun_is_waited_for() {
        let mut apart = Apart::new();
        let begun = Known { is_being_noted: true, ..Known::default() };
        apart.heard(from(1, TERM, 0), false);
        assert_eq!(apart.decide(from(0, 0, 500).at_ns, JOB, &begun), NONE);
        apart.noted(from(1, TERM, 520));
        assert_eq!(apart.decide(from(0, 0, 520).at_ns, JOB, &begun), NONE);
        // Not for ever, and it may be of another one.
        apart.heard(from(1, TERM, 6_000), false);
        assert_eq!(apart.decide(from(0, 0, 6_500).at_ns, JOB, &begun), NONE);
        assert_eq!(apart.decide(from(0, 0, 7_000).at_ns, JOB, &begun), [TERM]);
    }

    #[test]
    fn what_the_keeper_alone_has_heard_is_passed_on_once() {
        let mut apart = Apart::new();
        apart.noted(from(2, TERM, 0));
        apart.noted(from(1, INT, 0));
        apart.heard(from(1, TERM, 1), false);
        assert_eq!(at(&mut apart, 1, 0), NONE);
        assert!(apart.due_ns(0).is_some());
        assert_eq!(at(&mut apart, 30, 0), [TERM], "another sender's, and another signal, are not it");
        assert_eq!(at(&mut apart, 40, 0), NONE);
    }

    #[test]
    fn the_second_signal_does_not_meet_the_note_of_the_first() {
        let mut apart = Apart::new();
        apart.heard(from(1, TERM, 0), false);
        apart.noted(from(1, TERM, 0));
        assert_eq!(at(&mut apart, 0, 0), NONE);
        apart.heard(from(1, TERM, 1), false);
        assert_eq!(at(&mut apart, 1, 0), NONE);
        assert_eq!(at(&mut apart, 30, 0), [TERM]);
        // To the number that is known, and right after that to the group.
        apart.heard(from(1, TERM, 100), false);
        apart.noted(from(1, TERM, 105));
        assert_eq!(at(&mut apart, 105, 0), NONE);
        apart.heard(from(1, TERM, 105), false);
        assert_eq!(at(&mut apart, 106, 0), NONE);
        assert_eq!(at(&mut apart, 130, 0), [TERM]);
        assert_eq!(at(&mut apart, 5_000, 0), NONE);
    }

    #[test]
    fn what_waits_for_the_worker_has_reached_it_and_its_note_comes_later() {
        let mut apart = Apart::new();
        let waits = 1 << (TERM - 1);
        apart.heard(from(1, TERM, 0), false);
        apart.heard(from(2, TERM, 1), false);
        assert_eq!(at(&mut apart, 1, waits), NONE);
        assert_eq!(at(&mut apart, 500, waits), NONE);
        // The kernel has made one of two.
        apart.noted(from(1, TERM, 1_500));
        apart.heard(from(1, TERM, 1_501), false);
        assert_eq!(at(&mut apart, 1_501, 0), NONE);
        assert_eq!(at(&mut apart, 1_530, 0), [TERM], "the note was of the first ones");
    }

    /// A worker that had no processor when the second one came.
    #[test]
    fn of_what_came_before_the_note_of_the_first_the_kernel_has_made_one() {
        for note_ms in [2, 5, 60] {
            let mut apart = Apart::new();
            apart.heard(from(1, TERM, 0), false);
            apart.heard(from(2, TERM, 1), false);
            apart.noted(from(1, TERM, note_ms));
            assert_eq!(at(&mut apart, note_ms + 1, 0), NONE);
            // This one is new.
            apart.heard(from(2, TERM, note_ms + 2), false);
            assert_eq!(at(&mut apart, note_ms + 30, 0), [TERM], "{note_ms}");
            assert_eq!(at(&mut apart, 5_000, 0), NONE);
        }
        // It was known to wait there before the second one came.
        let mut apart = Apart::new();
        apart.heard(from(1, TERM, 0), false);
        assert_eq!(at(&mut apart, 0, 1 << (TERM - 1)), NONE);
        apart.noted(from(1, TERM, 5));
        apart.heard(from(2, TERM, 1), false);
        assert_eq!(at(&mut apart, 30, 0), NONE);
    }

    #[test]
    fn real_time_signals_are_not_made_one() {
        let mut apart = Apart::new();
        let waits = 1 << (REALTIME - 1);
        for ms in 0..3 {
            apart.heard(from(1, REALTIME, ms), false);
        }
        assert_eq!(at(&mut apart, 3, waits), NONE);
        for _ in 0..3 {
            apart.noted(from(1, REALTIME, 10));
        }
        apart.heard(from(1, REALTIME, 11), false);
        assert_eq!(at(&mut apart, 40, 0), [REALTIME]);
    }

    #[test]
    fn what_the_worker_alone_has_heard_is_passed_on_unless_it_may_be_the_same_or_the_jobs() {
        let mut apart = Apart::new();
        apart.noted(from(1, TERM, 0));
        apart.noted(from(JOB, INT, 0));
        assert_eq!(at(&mut apart, 30, 0), NONE);
        assert_eq!(at(&mut apart, 200, 0), [TERM]);
        assert_eq!(at(&mut apart, 400, 0), NONE);
        // Two to the group, which were one to the keeper.
        apart.heard(from(1, TERM, 2_000), false);
        apart.noted(from(1, TERM, 2_000));
        apart.noted(from(1, TERM, 2_001));
        assert_eq!(at(&mut apart, 2_500, 0), NONE);
    }

    #[test]
    fn a_job_that_would_have_ended_has_not_heard_it() {
        let is_there = Known { would_end: true, ..Known::default() };
        for (would_end, look, passed_on) in
            [(true, &is_there, vec![TERM]), (true, &Known::default(), vec![]), (false, &is_there, vec![])]
        {
            let mut apart = Apart::new();
            apart.heard(from(1, TERM, 0), would_end);
            apart.noted(from(1, TERM, 0));
            assert_eq!(apart.decide(from(0, 0, 240).at_ns, JOB, look), NONE);
            assert_eq!(apart.decide(from(0, 0, 250).at_ns, JOB, look), passed_on);
            assert_eq!(apart.decide(from(0, 0, 500).at_ns, JOB, look), NONE);
            assert_eq!(apart.due_ns(0), None);
        }
    }

    /// It has begun, and nobody has said yet who it is.
    #[test]
    fn what_a_job_would_have_ended_of_waits_until_it_is_known() {
        let is_there = Known { would_end: true, ..Known::default() };
        let mut apart = Apart::new();
        apart.heard(from(1, TERM, 0), true);
        apart.noted(from(1, TERM, 0));
        let late = from(0, 0, 300).at_ns;
        assert_eq!(apart.decide(late, 0, &is_there), NONE);
        assert_eq!(apart.due_ns(late), Some(late + LOOK_NS));
        assert_eq!(apart.decide(late, JOB, &is_there), [TERM]);
    }

    #[test]
    fn what_is_forgotten_is_not_passed_on() {
        let mut apart = Apart::new();
        apart.heard(from(1, TERM, 0), false);
        apart.heard(from(1, INT, 0), false);
        apart.forget(&[TERM]);
        assert_eq!(at(&mut apart, 30, 0), [INT]);
    }

    #[test]
    fn what_is_too_much_to_wait_is_passed_on_at_once() {
        let mut apart = Apart::new();
        for _ in 0..MOST {
            assert_eq!(apart.heard(from(1, REALTIME, 0), false), None);
            apart.noted(from(2, REALTIME, 0));
        }
        assert_eq!(apart.heard(from(1, REALTIME, 0), false), Some(REALTIME));
        apart.noted(from(1, REALTIME, 0));
        assert_eq!(at(&mut apart, 30, 0).len(), MOST);
    }
}
