//! How long steering may go on without a gain.
//!
//! What a job takes by itself is known. When a steered night has taken longer than that, and the job has not made as
//! many of its references as it should have by then, steering does more harm than good tonight, whatever the reason:
//! the device, another job, a list that is wrong. It ends, and the job goes on by itself. A job that has more to do
//! than on other nights has made its references by then.
//!
//! After a night on which the job was only watched it is known how far it comes by itself at each time, and it is asked
//! from the beginning. A night may begin quickly by itself, where the guesses were right, and go on slowly: so a job that is
//! behind is left steered as long as it would be over in time if it went on as it has done so far.
//!
//! On a disk with an arm nothing is fetched until the lists are told. What the job does until then says nothing of steering: it
//! is judged by how it goes on from there, and by what time there is left.

use std::time::Duration;

use foretell_learn::Pace;

use crate::guide::OPEN;

/// Times what the job takes by itself.
const SHARE: f64 = 1.1;
/// And so much more: a short job ends before it is worth to judge it.
const LEAST: Duration = Duration::from_secs(1);
/// A longer job is given this share of its time as well, as it may go through directories before it reads what is known of it;
/// in all no more than so long.
const LEAST_SHARE: f64 = 0.05;
const LEAST_AT_MOST: Duration = Duration::from_secs(3);
/// A disk with an arm waits for the lists for one part in so many of what the job takes by itself, at most: to find 4,000 files in 900
/// directories takes 1,000 movements, and what is fetched in between moves the arm away each time. `hashdeep -r` of them took 32.5 s
/// by itself, 22.7 where it was waited for a second, 21.1 for a quarter, and 16.8 for half of its time, of which 12 s were needed.
const LISTS_PART: u32 = 2;
/// And no longer than this, however long the job: 30,000 movements.
const LISTS_AT_MOST: Duration = Duration::from_mins(5);
/// It is asked no more often.
const BETWEEN: Duration = Duration::from_millis(500);

/// When to ask how far the job has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Patience {
    /// By then all references should have been made; `None` when it is not known what the job takes.
    all: Option<Duration>,
    /// How much of that is for the beginning.
    least: Duration,
    references: u64,
    /// How long a disk with an arm may wait for the lists.
    for_lists: Duration,
    /// How far the job comes by itself, if it is known.
    pace: Option<Pace>,
    /// From when on it is judged, and how many references had been made by then.
    from: (Duration, u64),
    next: Duration,
}

impl Patience {
    /// For a job that takes so many seconds by itself and makes so many references, from a disk with an arm or not.
    pub(super) fn new(
        by_itself_s: Option<f64>,
        references: u64,
        pace: Option<Pace>,
        has_arm: bool,
    ) -> Patience {
        let seconds = |share: f64| by_itself_s.and_then(|s| Duration::try_from_secs_f64(s * share).ok());
        let least = (LEAST + seconds(LEAST_SHARE).unwrap_or_default()).min(LEAST_AT_MOST);
        let all = seconds(SHARE).and_then(|all| all.checked_add(least));
        let next = if pace.is_some() { least + BETWEEN } else { all.unwrap_or(Duration::MAX) };
        let for_lists = seconds(1.0).filter(|_| has_arm).unwrap_or_default() / LISTS_PART;
        let for_lists = for_lists.clamp(OPEN, LISTS_AT_MOST);
        Patience { all, least, references, for_lists, pace, from: (Duration::ZERO, 0), next }
    }

    /// How long a disk with an arm may wait until all is known that the lists name.
    pub(super) fn for_lists(&self) -> Duration {
        self.for_lists
    }

    /// The lists are told only after `elapsed`, when so many references have been made.
    pub(super) fn lists_are_told(&mut self, elapsed: Duration, made: u64) {
        if self.for_lists > OPEN && elapsed > OPEN {
            (self.from, self.pace) = ((elapsed, made), None);
            self.next = elapsed + self.least + BETWEEN;
        }
    }

    /// Is steering to end after `elapsed`, when `made` says how many references the job has made? It is asked seldom.
    pub(super) fn is_over(&mut self, elapsed: Duration, made: impl FnOnce() -> u64) -> bool {
        let Some(all) = self.all.filter(|_| elapsed >= self.next) else { return false };
        let (from, made_before) = self.from;
        let at_s = elapsed.saturating_sub(from).as_secs_f64();
        let all_s = all.saturating_sub(from).as_secs_f64();
        let share = match &self.pace {
            Some(pace) if elapsed < all => {
                self.next = elapsed + BETWEEN.max(all / 40);
                let least_s = self.least.as_secs_f64();
                pace.made_by((at_s - least_s) / (all_s - least_s))
            }
            _ => {
                self.next = elapsed + all / 10;
                at_s / all_s
            }
        };
        let made = made().saturating_sub(made_before) as f64;
        let references = self.references.saturating_sub(made_before) as f64;
        made < references * share && made * all_s < references * at_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{Access, FileNumber, Recording, RoleId, Summary};

    const SECOND: Duration = Duration::from_secs(1);

    /// A night of a hundred seconds, by when its references were made.
    fn night(at_s: impl Iterator<Item = u64>) -> Recording {
        let access = |at_s: u64| Access {
            at_ns: at_s * 1_000_000_000,
            ..Access::read(RoleId(0), FileNumber(0), 0, 1)
        };
        Recording {
            accesses: at_s.map(access).collect(),
            summary: Summary { elapsed_ns: 100_000_000_000, ..Summary::default() },
            ..Recording::default()
        }
    }

    #[test]
    fn steering_ends_when_the_job_has_not_come_as_far_as_by_itself() {
        let mut patience = Patience::new(Some(10.0), 1000, None, false);
        assert!(!patience.is_over(11 * SECOND, || unreachable!("too early to ask")));
        let mut slow = patience.clone();
        assert!(slow.is_over(13 * SECOND, || 999));
        // It has more to do tonight, and is quick: a thousand references in less than the usual time.
        assert!(!patience.is_over(13 * SECOND, || 3000));
        assert!(!patience.is_over(14 * SECOND, || unreachable!("asked a moment ago")));
        assert!(!patience.is_over(24 * SECOND, || 3000));
        assert!(patience.is_over(48 * SECOND, || 3100));
    }

    #[test]
    fn a_job_that_falls_behind_its_own_pace_is_told_early() {
        let recording = night(0..100);
        let mut patience = Patience::new(Some(100.0), 1000, Pace::of(&recording, |_| true), false);
        assert!(!patience.is_over(SECOND, || unreachable!("too early to ask")));
        // By itself it has made 200 of its references after 20 s. It may take a tenth more, and three seconds.
        let mut slow = patience.clone();
        assert!(!patience.is_over(25 * SECOND, || 200));
        assert!(slow.is_over(25 * SECOND, || 180));
        assert!(!patience.is_over(25 * SECOND + BETWEEN, || unreachable!("asked a moment ago")));
        assert!(!patience.is_over(110 * SECOND, || 1000));
        assert!(patience.is_over(222 * SECOND, || 1500), "and then as without a pace");
    }

    #[test]
    fn who_begins_slower_and_will_be_over_in_time_stays_steered() {
        // By itself it makes two of three references in its first ten seconds of a hundred.
        let recording = night((0..200).map(|at| at / 20).chain(0..100));
        let mut patience = Patience::new(Some(100.0), 1000, Pace::of(&recording, |_| true), false);
        let mut slow = patience.clone();
        assert!(!patience.is_over(15 * SECOND, || 300), "in 50 seconds at this rate");
        assert!(slow.is_over(15 * SECOND, || 100), "in 150");
    }

    #[test]
    fn who_looks_at_names_before_it_reads_is_waited_for() {
        // By itself it has read a fortieth after half a second of twenty; tonight it is still at the names.
        let recording = night(0..100);
        let mut patience = Patience::new(Some(20.0), 1000, Pace::of(&recording, |_| true), false);
        assert!(!patience.is_over(2 * SECOND, || unreachable!("too early to ask")));
        assert!(!patience.is_over(2 * SECOND + BETWEEN, || 20));
        assert!(patience.is_over(4 * SECOND, || 20));
    }

    #[test]
    fn what_came_before_the_lists_were_told_does_not_count() {
        // It has made 100 of 1,000 references in 25 s, and has 88 s for the others.
        let mut patience = Patience::new(Some(100.0), 1000, Pace::of(&night(0..100), |_| true), true);
        assert_eq!(patience.for_lists(), 50 * SECOND);
        patience.lists_are_told(25 * SECOND, 100);
        assert!(!patience.is_over(28 * SECOND, || unreachable!("a moment ago")));
        let mut slow = patience.clone();
        assert!(!patience.is_over(35 * SECOND, || 210));
        assert!(slow.is_over(35 * SECOND, || 190));
        // Lists that are told at once change nothing.
        let unchanged = |has_arm, told: Duration| {
            let mut patience = Patience::new(Some(100.0), 1000, None, has_arm);
            patience.lists_are_told(told, 10);
            patience == Patience::new(Some(100.0), 1000, None, has_arm)
        };
        assert!(unchanged(true, OPEN));
        // Nor do any where there is no arm, as nothing waits for them.
        assert!(unchanged(false, 10 * SECOND) && !unchanged(true, 10 * SECOND));
        assert_eq!(Patience::new(Some(100.0), 1000, None, false).for_lists(), OPEN);
        assert_eq!(Patience::new(Some(1e6), 1000, None, true).for_lists(), LISTS_AT_MOST);
    }

    #[test]
    fn of_a_job_that_was_never_by_itself_nothing_is_said() {
        assert!(!Patience::new(None, 1000, None, false).is_over(3600 * SECOND, || 0));
    }
}
