//! Memory is given back when those have gone for whom it was had: a service may have little to do for days.
//!
//! What was freed in small pieces lies between what is in use, in a heap as large as it was at its height, and tables keep the
//! room that they had. To give that back takes some milliseconds, so it is not done whenever somebody goes, but when half of
//! all sessions have gone since there were most: then what the others pay is little of what was done for those.

use std::time::{Duration, Instant};

use crate::kernel;
use crate::plane::Plane;
use crate::reach::Broker;

/// How long there have been no more than half of the sessions: lists, and what other threads had, go by and by. Threads that
/// are not needed any more end when memory is given back, so there is more of it the next time.
const RELEASE_AFTER: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(20)];
/// And so long after that: what is cached of files that nobody names any more keeps the table of blocks as long as it is, and
/// goes when others read.
const AGAIN_AFTER: Duration = Duration::from_mins(10);

/// The flood of sessions, and its ebb.
#[derive(Debug)]
pub(crate) struct Ebb {
    /// Most sessions at a time since the last one.
    most: usize,
    since: Option<Instant>,
    /// How often memory was given back since.
    released: usize,
    /// When that was the last time.
    last: Option<Instant>,
}

impl Ebb {
    /// Before the first session what was needed to begin is given back.
    pub(crate) fn new() -> Ebb {
        Ebb { most: 1, since: None, released: 0, last: None }
    }

    /// Whether memory is to be given back now that there are so many sessions.
    fn is_due(&mut self, sessions: usize, now: Instant) -> bool {
        let is_due = self.is_ebb(sessions, now)
            || self.last.is_some_and(|last| now.saturating_duration_since(last) >= AGAIN_AFTER);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    fn is_ebb(&mut self, sessions: usize, now: Instant) -> bool {
        self.most = self.most.max(sessions);
        if self.most == 0 || sessions > self.most / 2 {
            (self.since, self.released) = (None, 0);
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < RELEASE_AFTER[self.released] {
            return false;
        }
        self.released += 1;
        if self.released == RELEASE_AFTER.len() {
            (self.most, self.since, self.released) = (sessions, None, 0);
        }
        true
    }
}

impl Plane {
    /// Gives memory back when there is no session any more.
    pub(crate) fn release_memory(&mut self) {
        if self.steering.sessions.len() == 0 {
            self.steering.engine.release_memory();
            self.release_queues();
            if let Some(broker) = Broker::of_process() {
                broker.release_memory();
            }
            kernel::return_free_memory();
        }
    }

    /// The same some time after most sessions have ended.
    pub(crate) fn release_at_ebb(&mut self) {
        let sessions = self.steering.sessions.len();
        if !self.ebb.is_due(sessions, Instant::now()) {
            return;
        }
        self.steering.workers.end_idle_threads();
        kernel::empty_own_cache();
        if sessions == 0 {
            self.release_memory();
        } else {
            // The policy's tables stay: lists bear the numbers of blocks that are gone until they are passed.
            self.release_queues();
            kernel::return_free_memory();
        }
        self.timing.lap("memory given back");
    }

    fn release_queues(&mut self) {
        self.outcomes.shrink_to_fit();
        self.steering.release_queues();
        self.steering.files.release_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When memory is given back, in seconds, with so many sessions from so many seconds on.
    fn releases(sessions: &[(u64, usize)]) -> Vec<u64> {
        let (mut ebb, start) = (Ebb::new(), Instant::now());
        let at = |second: u64| sessions.iter().rfind(|(from, _)| *from <= second).map_or(0, |(_, n)| *n);
        (0..1000).filter(|&second| ebb.is_due(at(second), start + Duration::from_secs(second))).collect()
    }

    #[test]
    fn memory_is_given_back_when_half_of_all_have_gone() {
        assert_eq!(releases(&[]), [2, 4, 20, 620], "what was needed to begin");
        assert_eq!(releases(&[(0, 1)]), [] as [u64; 0]);
        assert_eq!(releases(&[(0, 1000), (50, 501)]), [] as [u64; 0]);
        assert_eq!(releases(&[(0, 1000), (50, 500)]), [52, 54, 70, 670], "although some are left");
        let twice = releases(&[(0, 1000), (50, 400), (60, 1), (100, 0)]);
        assert_eq!(twice, [52, 54, 70, 102, 104, 120, 720]);
        assert_eq!(releases(&[(0, 1000), (50, 1), (51, 600)]), [] as [u64; 0], "they came again");
    }
}
