//! Memory that becomes short while we work for a job: then it gets ours.
//!
//! What is left is looked at a few times a second. A job that takes all of it between two looks is kept alive by the kernel's
//! choice of whom to end, which is us (`foretell_pagecache::go_first`); one that takes it slowly never comes so far, and what
//! was seen of it until then is not lost.
//!
//! Long before nothing is left a job can come to a standstill: where what its programs have mapped does not fit beside its other
//! memory, each page of a program that is used displaces another one. The kernel reads `read_ahead_kb` around each, so all of
//! the cache comes and goes many times a second. Jobs took 100 times as long that were 4 MiB away from it by themselves. It is
//! seen by two counts of the group: pages that come back soon after they went (`workingset_refault_file`), and faults that have
//! to read (`pgmajfault`). Where files are scanned again and again only the first one grows.

use std::time::{Duration, Instant};

use foretell_learn::memory::{self, Look};

/// With less free memory than this for page cache we give up: about as much as we give back.
const SHORT_BYTES: u64 = 8 << 20;
/// What a job takes at the same speed in this time is as good as taken: some take 300 MB a second, and to end takes us 20 ms.
const SOON: Duration = Duration::from_millis(100);
/// No more than this counts as taken soon, bytes: what a program takes at its start is no speed at which it goes on.
const SOON_BYTES: u64 = 16 << 20;
/// With more than this programs have room: what we take is no tenth of it.
const AMPLE_BYTES: u64 = 64 << 20;
/// With less than this when the job begins it may be in need soon.
const LITTLE_BYTES: u64 = 256 << 20;
/// With less than this a program that does nothing else has taken it all in the time between two looks: tail(1) takes 1 GB a second.
const SCARCE_BYTES: u64 = 32 << 20;
/// How often it is looked, when memory is ample, when it is not and when it is scarce: that takes some 0.1 ms.
const LOOK_EVERY: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(25), Duration::from_millis(10)];
/// Standstill: all of the cache comes back from the disk within this time.
const STANDSTILL: Duration = Duration::from_millis(500);
/// Standstill: at least so many faults in that time. On a disk of 100 MB/s, with 8 MiB around each fault, so many take 0.3 s.
const FAULTS: u64 = 4;

/// Looks whether memory is short.
#[derive(Debug)]
pub(crate) struct Shortage {
    next: Instant,
    every: Duration,
    /// What was seen the last time.
    last: Option<(Instant, Look)>,
    before: Option<(Instant, Look)>,
}

impl Shortage {
    /// From now on.
    pub(crate) fn watching() -> Shortage {
        let every = LOOK_EVERY[2];
        let last = memory::look().map(|look| (Instant::now(), look));
        if last.is_some_and(|(_, look)| look.free_bytes < LITTLE_BYTES) {
            foretell_pagecache::hold_program();
        }
        Shortage { next: Instant::now() + every, every, last, before: None }
    }

    /// After which time it is to be asked again, at the latest.
    pub(crate) fn patience(&self) -> Duration {
        self.every
    }

    /// Is there one? In words, with what is left.
    pub(crate) fn found(&mut self) -> Option<String> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        let look = memory::look()?;
        let found = self.take_in(now, look);
        self.next = now + self.every;
        found
    }

    fn take_in(&mut self, now: Instant, look: Look) -> Option<String> {
        let is_ample = look.free_bytes > AMPLE_BYTES;
        let is_scarce = look.free_bytes < SCARCE_BYTES;
        self.every = LOOK_EVERY[usize::from(!is_ample) + usize::from(is_scarce)];
        let mib = look.free_bytes >> 20;
        // What we have allocated meanwhile is not the job's haste: a list of 10,000 files takes several MiB.
        let soon_bytes = self.last.replace((now, look)).map_or(0, |(then, last)| {
            let ours_bytes = look.own_bytes.saturating_sub(last.own_bytes);
            let taken_bytes = last.free_bytes.saturating_sub(look.free_bytes.saturating_add(ours_bytes));
            let passed_s = now.duration_since(then).as_secs_f64().max(0.001);
            (taken_bytes as f64 / passed_s * SOON.as_secs_f64()) as u64
        });
        if look.free_bytes < SHORT_BYTES + soon_bytes.min(SOON_BYTES) {
            return Some(format!("only {mib} MiB of memory are left"));
        }
        if is_ample {
            self.before = None;
            return None;
        }
        let (since, before) = *self.before.get_or_insert((now, look));
        let came_back_bytes = look.refaulted_bytes.saturating_sub(before.refaulted_bytes);
        let faults = look.major_faults.saturating_sub(before.major_faults);
        if came_back_bytes >= look.free_bytes && faults >= FAULTS {
            return Some(format!("programs do not fit into the {mib} MiB of memory that are left"));
        }
        if now.duration_since(since) >= STANDSTILL {
            self.before = Some((now, look));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found after looks at these times, each with free MiB, MiB that came back in all, and faults in all.
    fn found(looks: &[(u64, u64, u64, u64)]) -> Option<String> {
        let start = Instant::now();
        let look = |&(_, free, came_back, major_faults): &(u64, u64, u64, u64)| Look {
            free_bytes: free << 20,
            refaulted_bytes: came_back << 20,
            major_faults,
            own_bytes: 0,
        };
        let last = looks.first().map(|first| (start, look(first)));
        let mut shortage = Shortage { last, ..Shortage::watching() };
        looks.iter().find_map(|seen| shortage.take_in(start + Duration::from_millis(seen.0), look(seen)))
    }

    #[test]
    fn what_we_have_taken_is_no_haste_of_the_jobs() {
        let look = |free: u64, own: u64| Look {
            free_bytes: free << 20,
            refaulted_bytes: 0,
            major_faults: 0,
            own_bytes: own << 20,
        };
        let start = Instant::now();
        let mut shortage = Shortage { last: Some((start, look(24, 2))), ..Shortage::watching() };
        let mut at = |ms, free, own| shortage.take_in(start + Duration::from_millis(ms), look(free, own));
        assert_eq!(at(25, 18, 8), None, "the 6 MiB are ours");
        assert!(at(50, 14, 8).is_some(), "these are not");
    }

    #[test]
    fn a_job_that_has_room_goes_on() {
        assert_eq!(found(&[(0, 20, 0, 0), (50, 20, 0, 100), (100, 17, 5, 200)]), None, "it begins");
        assert_eq!(found(&[(0, 30, 0, 3), (250, 30, 100, 4), (500, 30, 200, 5)]), None, "it scans files");
        assert_eq!(found(&[(0, 100, 0, 0), (200, 100, 1_000, 100)]), None, "it maps files");
    }

    #[test]
    fn less_than_we_take_is_short() {
        assert_eq!(found(&[(0, 7, 0, 0)]).unwrap(), "only 7 MiB of memory are left");
        let slowly: Vec<_> = (0..30).map(|at| (at * 25, 40 - at, 0, 0)).collect();
        assert_eq!(found(&slowly).unwrap(), "only 11 MiB of memory are left", "40 MB a second");
        let grows = [(0, 62, 0, 0), (25, 55, 0, 0), (50, 40, 0, 0), (75, 30, 0, 0), (100, 23, 0, 0)];
        assert_eq!(found(&grows).unwrap(), "only 23 MiB of memory are left", "280 MB a second");
        assert_eq!(found(&[(0, 60, 0, 0), (25, 25, 0, 0), (50, 23, 0, 0)]), None, "a program begins");
    }

    #[test]
    fn programs_that_displace_each_other_are_seen() {
        let why = "programs do not fit into the 11 MiB of memory that are left";
        assert_eq!(found(&[(0, 11, 0, 0), (50, 11, 40, 8)]).unwrap(), why);
        let slowly = |each_ms: u64| -> Vec<_> { (0..20).map(|at| (at * each_ms, 11, at * 8, at)).collect() };
        assert_eq!(found(&slowly(80)).unwrap(), why, "a disk with an arm");
        assert_eq!(found(&slowly(400)), None, "not at a standstill");
    }
}
