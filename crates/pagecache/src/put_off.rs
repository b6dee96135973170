//! Evictions that the kernel does not do now and will do later.
//!
//! What a program has just written cannot be dropped before it is written back. That is started when it is to be
//! evicted ([`crate::workers`]), and takes its time. And what a program has just read it may still hold: a read holds up to
//! 15 folios (`filemap_get_pages`, mm/filemap.c) while it waits for the last of them, on a disk with an arm for a tenth of a
//! second.
//!
//! A policy that were told of each such refusal at once would name another block at once, most likely one that was used
//! as recently, and so on in a circle, until it comes to blocks that it wanted to keep: single ones in the middle of what
//! is cached, each of which costs a movement of the arm later. So the answer is put off: the folio is tried again after
//! [`Cause::waits`], and given back to the policy if the last try fails as well. Until then the policy's choice stands;
//! a reference takes it back, as it does for a block that waits for the rest of its folio.
//!
//! The blocks that are put off have no frame any more, so they are in the cache beyond the budget. When they
//! are more than a share of it, those that are due first are given back without a further try. How many are tried or given
//! back in a hundredth of a second is limited as well: it bounds what a program costs that does nothing but
//! write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use foretell_policy::FileId;

use crate::folios::Folio;

/// When what was not written back is tried again.
const UNWRITTEN_WAITS: &[Duration] = &[Duration::from_millis(100)];
/// When what a program held is: most reads are over with the first, those of a busy disk with the last.
const HELD_WAITS: &[Duration] =
    &[Duration::from_millis(10), Duration::from_millis(40), Duration::from_millis(160)];
/// Time between two looks at what is due.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Runs of folios tried or given back in one look.
const RUNS_A_LOOK: usize = 64;
/// Runs that wait; further ones are given back at once.
const RUNS: usize = 1 << 14;
/// The budget divided by this may wait; more is given back before its time, and what is twice as much at once.
const PUT_OFF_SHARE: u64 = 8;

/// Pages that may wait in a cache of some size.
pub(crate) fn limit_pages(cache_blocks: u32, pages_a_block: u64) -> u64 {
    u64::from(cache_blocks) / PUT_OFF_SHARE * pages_a_block
}

/// Why a folio stays for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is not written back.
    Unwritten,
    /// It is clean, and somebody uses it.
    Held,
}

impl Cause {
    /// The times between the tries.
    fn waits(self) -> &'static [Duration] {
        match self {
            Cause::Unwritten => UNWRITTEN_WAITS,
            Cause::Held => HELD_WAITS,
        }
    }
}

/// Which try at a folio comes next, after the quick ones ([`crate::acting`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Try {
    cause: Cause,
    /// How many have been put off before.
    number: u8,
}

impl Try {
    /// The first one for this cause.
    pub(crate) fn first(cause: Cause) -> Try {
        Try { cause, number: 0 }
    }

    /// The one after this has failed. What cannot be written back does not wait again.
    pub(crate) fn next(self) -> Try {
        Try { number: self.number.saturating_add(1), ..self }
    }

    /// How long until then; `None` when it has been tried often enough.
    fn wait(self) -> Option<Duration> {
        self.cause.waits().get(usize::from(self.number)).copied()
    }
}

/// Folios next to each other that were to be evicted.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    due: Instant,
    pub(crate) next: Try,
    pub(crate) id: FileId,
    /// Number of the file's registration.
    pub(crate) serial: u32,
    pub(crate) folios: Vec<Folio>,
    pages: u64,
}

/// All that is put off.
#[derive(Debug)]
pub(crate) struct PutOff {
    /// By the time when it is due, and a number that tells apart those of the same instant.
    runs: BTreeMap<(Instant, u64), Run>,
    added: u64,
    pages: u64,
    limit_pages: u64,
    next_look: Option<Instant>,
}

impl PutOff {
    /// One in which `limit_pages` may wait.
    pub(crate) fn new(limit_pages: u64) -> PutOff {
        PutOff { runs: BTreeMap::new(), added: 0, pages: 0, limit_pages, next_look: None }
    }

    /// How many may wait.
    pub(crate) fn limit_pages(&self) -> u64 {
        self.limit_pages
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// From now on `limit_pages` may wait.
    pub(crate) fn set_limit(&mut self, limit_pages: u64) {
        self.limit_pages = limit_pages;
    }

    /// Adds folios next to each other of a file; gives them back when there is no room, or they were tried often enough.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        next: Try,
        id: FileId,
        serial: u32,
        folios: Vec<Folio>,
    ) -> Result<(), Vec<Folio>> {
        let pages: u64 = folios.iter().map(|folio| folio.pages).sum();
        let room = self.runs.len() < RUNS && self.pages <= 2 * self.limit_pages;
        let Some(due) = next.wait().filter(|_| room).map(|wait| now + wait) else { return Err(folios) };
        self.pages += pages;
        self.added += 1;
        self.runs.insert((due, self.added), Run { due, next, id, serial, folios, pages });
        Ok(())
    }

    /// What is to be seen to now, and whether it is to be tried again (else: given back).
    pub(crate) fn take(&mut self, now: Instant) -> Vec<(Run, bool)> {
        let mut taken = Vec::new();
        if self.runs.is_empty() || self.next_look.is_some_and(|at| at > now) {
            return taken;
        }
        self.next_look = Some(now + LOOK_EVERY);
        while taken.len() < RUNS_A_LOOK
            && let Some(run) = self.runs.first_entry()
            && (run.get().due <= now || self.pages > self.limit_pages)
        {
            let run = run.remove();
            self.pages -= run.pages;
            let is_due = run.due <= now;
            taken.push((run, is_due));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNWRITTEN: Try = Try { cause: Cause::Unwritten, number: 0 };

    fn folio(head: u64) -> Folio {
        Folio { head, pages: 2 }
    }

    fn heads(taken: &[(Run, bool)]) -> Vec<(u64, bool)> {
        taken.iter().map(|(run, is_due)| (run.folios[0].head, *is_due)).collect()
    }

    #[test]
    fn what_waits_is_tried_again_after_its_time() {
        let start = Instant::now();
        let mut put_off = PutOff::new(100);
        put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(0), folio(2)]).unwrap();
        assert_eq!(put_off.take(start), []);
        put_off.add(start + UNWRITTEN_WAITS[0] / 2, UNWRITTEN, FileId(1), 1, vec![folio(8)]).unwrap();
        assert_eq!(heads(&put_off.take(start + UNWRITTEN_WAITS[0])), [(0, true)]);
        assert_eq!(put_off.take(start + 2 * UNWRITTEN_WAITS[0]).len(), 1);
        assert_eq!((put_off.pages, put_off.runs.len()), (0, 0));
    }

    #[test]
    fn beyond_the_share_of_the_budget_the_oldest_is_given_back() {
        let start = Instant::now();
        let mut put_off = PutOff::new(4);
        for head in [0, 2, 4] {
            put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(head)]).unwrap();
        }
        assert_eq!(heads(&put_off.take(start)), [(0, false)]);
        assert_eq!(put_off.take(start + LOOK_EVERY), [], "within the share");
        for head in [6, 8, 10] {
            put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(head)]).unwrap();
        }
        assert!(put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(12)]).is_err(), "twice as much");
    }

    #[test]
    fn in_one_look_no_more_is_seen_to_than_may_be() {
        let start = Instant::now();
        let mut put_off = PutOff::new(1 << 20);
        for head in 0..RUNS_A_LOOK as u64 + 1 {
            put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(2 * head)]).unwrap();
        }
        let later = start + UNWRITTEN_WAITS[0];
        assert_eq!(put_off.take(later).len(), RUNS_A_LOOK);
        assert_eq!(put_off.take(later + LOOK_EVERY / 2), [], "too early for another look");
        assert_eq!(put_off.take(later + LOOK_EVERY).len(), 1);
    }

    #[test]
    fn what_finds_no_room_comes_back() {
        let start = Instant::now();
        let mut put_off = PutOff::new(1 << 20);
        for _ in 0..RUNS {
            put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(0)]).unwrap();
        }
        assert_eq!(put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(2)]), Err(vec![folio(2)]));
    }

    #[test]
    fn what_is_held_is_tried_after_ever_longer_times() {
        let (start, mut next) = (Instant::now(), Try::first(Cause::Held));
        let mut put_off = PutOff::new(100);
        // It waits beside what is not written back, and is not kept waiting by that.
        put_off.add(start, UNWRITTEN, FileId(1), 1, vec![folio(8)]).unwrap();
        let mut now = start;
        for wait in &HELD_WAITS[..2] {
            put_off.add(now, next, FileId(1), 1, vec![folio(0)]).unwrap();
            assert_eq!(put_off.take(now + *wait / 2), [], "{wait:?}");
            now += *wait;
            put_off.next_look = None;
            let taken = put_off.take(now);
            assert_eq!(heads(&taken), [(0, true)], "{wait:?}");
            next = taken[0].0.next.next();
        }
        put_off.add(now, next, FileId(1), 1, vec![folio(0)]).unwrap();
        assert_eq!(
            put_off.add(now, next.next(), FileId(1), 1, vec![folio(0)]),
            Err(vec![folio(0)]),
            "no more"
        );
    }
}
