//! Evictions of what is not written back yet.
//!
//! What a program has just written cannot be dropped before it is written back. That is started when it is to be
//! evicted ([`crate::workers`]), and takes its time. A policy that were told of each such refusal at once would name
//! another block at once, most likely one that was written as recently, and so on in a circle, until it comes
//! to blocks that it wanted to keep. So the answer is put off: a folio that is not written back is tried again
//! a tenth of a second later, and given back to the policy if that fails as well. Until then the policy's
//! choice stands; a reference takes it back, as it does for a block that waits for the rest of its folio.
//!
//! The blocks that are put off have no frame any more, so they are in the cache beyond the budget. When they
//! are more than a share of it, the oldest are given back without a second try. How many are tried or given
//! back in a hundredth of a second is limited as well: it bounds what a program costs that does nothing but
//! write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_policy::FileId;

use crate::acting::{BACKLOG_RUNS, CALL_PAGES};
use crate::eviction::merge;
use crate::folios::Folio;
use crate::steering::Steering;
use crate::workers::Eviction;

/// Time between the two tries.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Time between two looks at what is due.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Runs of folios tried or given back in one look.
const RUNS_A_LOOK: usize = 64;
/// Runs that wait; further ones are given back at once.
const RUNS: usize = 1 << 14;
/// The budget divided by this may wait; more is given back before its time.
pub(crate) const UNWRITTEN_SHARE: u64 = 8;

/// Folios next to each other that were not written back when they were to be evicted.
#[derive(Debug, PartialEq)]
struct Run {
    due: Instant,
    id: FileId,
    /// Number of the file's registration.
    serial: u32,
    folios: Vec<Folio>,
    pages: u64,
}

/// All that waits to be written back, the oldest first.
#[derive(Debug)]
pub(crate) struct Unwritten {
    runs: VecDeque<Run>,
    pages: u64,
    limit_pages: u64,
    next_look: Option<Instant>,
}

impl Unwritten {
    /// One in which `limit_pages` may wait.
    pub(crate) fn new(limit_pages: u64) -> Unwritten {
        Unwritten { runs: VecDeque::new(), pages: 0, limit_pages, next_look: None }
    }

    /// Adds folios next to each other of a file; gives them back when there is no room.
    fn add(&mut self, now: Instant, id: FileId, serial: u32, folios: Vec<Folio>) -> Result<(), Vec<Folio>> {
        if self.runs.len() >= RUNS {
            return Err(folios);
        }
        let pages = folios.iter().map(|folio| folio.pages).sum();
        self.pages += pages;
        self.runs.push_back(Run { due: now + AGAIN_AFTER, id, serial, folios, pages });
        Ok(())
    }

    /// What is to be seen to now, and whether it is to be tried again (else: given back).
    fn take(&mut self, now: Instant) -> Vec<(Run, bool)> {
        let mut taken = Vec::new();
        if self.runs.is_empty() || self.next_look.is_some_and(|at| at > now) {
            return taken;
        }
        self.next_look = Some(now + LOOK_EVERY);
        while taken.len() < RUNS_A_LOOK
            && let Some(run) = self.runs.pop_front_if(|run| run.due <= now || self.pages > self.limit_pages)
        {
            self.pages -= run.pages;
            let is_due = run.due <= now;
            taken.push((run, is_due));
        }
        taken
    }
}

impl Steering {
    /// Folios that were to be evicted are not written back.
    pub(crate) fn put_off(&mut self, id: FileId, serial: u32, folios: Vec<Folio>) {
        let now = Instant::now();
        for run in merge(folios, CALL_PAGES) {
            let Some(managed) = self.files.get_mut(id) else { return };
            run.iter().for_each(|folio| managed.folios.put_off(*folio));
            for folio in self.unwritten.add(now, id, serial, run).err().into_iter().flatten() {
                self.refuse(id, folio, false);
            }
        }
    }

    /// Sees to what has waited long enough.
    pub(crate) fn try_unwritten_again(&mut self) {
        for (Run { id, serial, folios, .. }, is_due) in self.unwritten.take(Instant::now()) {
            let Some(managed) = self.files.get_serial(id, serial) else { continue };
            // A reference may have taken the choice back, and the kernel may have dropped it by itself.
            let waiting = folios.into_iter().filter(|folio| managed.folios.is_put_off(*folio));
            let waiting: Vec<Folio> = waiting.collect();
            let (names, mapped_by) = (managed.names(), managed.mapped_by.clone());
            let room = self.backlog.len().max(self.mapped_backlog.len()) < BACKLOG_RUNS;
            let wanted = is_due && !waiting.is_empty() && room;
            let Some(file) = wanted.then(|| self.files.descriptor(id)).flatten() else {
                waiting.into_iter().for_each(|folio| self.refuse(id, folio, false));
                continue;
            };
            // What lay in between may have gone.
            for run in merge(waiting, CALL_PAGES) {
                let Some(managed) = self.files.get_mut(id) else { break };
                run.iter().for_each(|folio| managed.folios.issue(*folio));
                let (file, mapped_by) = (Arc::clone(&file), mapped_by.clone());
                let backlog = if mapped_by.is_empty() { &mut self.backlog } else { &mut self.mapped_backlog };
                backlog.push_back(Eviction { serial, id, names, file, folios: run, mapped_by, again: true });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folio(head: u64) -> Folio {
        Folio { head, pages: 2 }
    }

    fn heads(taken: &[(Run, bool)]) -> Vec<(u64, bool)> {
        taken.iter().map(|(run, is_due)| (run.folios[0].head, *is_due)).collect()
    }

    #[test]
    fn what_waits_is_tried_again_after_its_time() {
        let start = Instant::now();
        let mut unwritten = Unwritten::new(100);
        unwritten.add(start, FileId(1), 1, vec![folio(0), folio(2)]).unwrap();
        assert_eq!(unwritten.take(start), []);
        unwritten.add(start + AGAIN_AFTER / 2, FileId(1), 1, vec![folio(8)]).unwrap();
        assert_eq!(heads(&unwritten.take(start + AGAIN_AFTER)), [(0, true)]);
        assert_eq!(unwritten.take(start + 2 * AGAIN_AFTER).len(), 1);
        assert_eq!((unwritten.pages, unwritten.runs.len()), (0, 0));
    }

    #[test]
    fn beyond_the_share_of_the_budget_the_oldest_is_given_back() {
        let start = Instant::now();
        let mut unwritten = Unwritten::new(4);
        for head in [0, 2, 4] {
            unwritten.add(start, FileId(1), 1, vec![folio(head)]).unwrap();
        }
        assert_eq!(heads(&unwritten.take(start)), [(0, false)]);
        assert_eq!(unwritten.take(start + LOOK_EVERY), [], "within the share");
    }

    #[test]
    fn in_one_look_no_more_is_seen_to_than_may_be() {
        let start = Instant::now();
        let mut unwritten = Unwritten::new(1 << 20);
        for head in 0..RUNS_A_LOOK as u64 + 1 {
            unwritten.add(start, FileId(1), 1, vec![folio(2 * head)]).unwrap();
        }
        let later = start + AGAIN_AFTER;
        assert_eq!(unwritten.take(later).len(), RUNS_A_LOOK);
        assert_eq!(unwritten.take(later + LOOK_EVERY / 2), [], "too early for another look");
        assert_eq!(unwritten.take(later + LOOK_EVERY).len(), 1);
    }

    #[test]
    fn what_finds_no_room_comes_back() {
        let start = Instant::now();
        let mut unwritten = Unwritten::new(1 << 20);
        for _ in 0..RUNS {
            unwritten.add(start, FileId(1), 1, vec![folio(0)]).unwrap();
        }
        assert_eq!(unwritten.add(start, FileId(1), 1, vec![folio(2)]), Err(vec![folio(2)]));
    }
}
