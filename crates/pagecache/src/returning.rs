//! Evictions that the kernel has refused go back to the policy, some of them in a round of the loop.
//!
//! With each block that comes back the policy may choose another one, which may stay as well: where a program does
//! nothing but write there is no end to it. A look at what was put off ([`crate::put_off`]) brings back up to 64 runs of 256 folios,
//! 60 ms of work. So what comes back waits here, for as long as it is neither used nor gone, and is told for a part of
//! each round. While much waits nothing more is brought ([`Returning::is_full`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use foretell_policy::{Block, FileId, Input};

use crate::folios::Folio;
use crate::steering::Steering;

/// What a round may take for it.
const RETURNING: Duration = Duration::from_millis(1);
/// Folios between two looks at the clock.
const FOLIOS_A_LOOK: usize = 4;
/// While so many wait no further evictions are judged or tried again.
const MOST_FOLIOS: usize = 1 << 13;

/// Folios that stay, of which the policy has not been told yet, with the number of their file's registration.
#[derive(Debug, Default)]
pub(crate) struct Returning(VecDeque<(FileId, u32, Folio)>);

impl Returning {
    /// Do so many wait that no more are to come?
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST_FOLIOS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Steering {
    /// Folios that were to be evicted stay: the policy gets their blocks back, by and by.
    pub(crate) fn give_back(&mut self, id: FileId, serial: u32, folios: Vec<Folio>) {
        let Some(managed) = self.files.get_serial(id, serial) else { return };
        folios.iter().for_each(|folio| managed.folios.put_off(*folio));
        self.returning.0.extend(folios.into_iter().map(|folio| (id, serial, folio)));
    }

    /// Tells the policy of what stays, as much as a round may.
    pub(crate) fn go_on_giving_back(&mut self) {
        let ends = Instant::now() + RETURNING;
        while !self.returning.is_empty() {
            for _ in 0..FOLIOS_A_LOOK {
                let Some((id, serial, folio)) = self.returning.0.pop_front() else { break };
                // A reference may have taken the choice back, and the kernel may have dropped it by itself.
                let managed = self.files.get_serial(id, serial);
                if managed.is_some_and(|managed| managed.folios.is_put_off(folio)) {
                    self.refuse(id, folio);
                }
            }
            if Instant::now() >= ends {
                break;
            }
        }
        self.stirred |= !self.returning.is_empty();
    }

    /// Gives back what the queues have room for beyond what waits in them.
    pub(crate) fn release_queues(&mut self) {
        self.in_flight.shrink_to_fit();
        self.fetches.shrink_to_fit();
        self.deferred.shrink_to_fit();
        self.backlog.shrink_to_fit();
        self.mapped_backlog.shrink_to_fit();
        self.retries.shrink_to_fit();
        self.returning.0.shrink_to_fit();
    }

    /// A folio stays: the policy gets its blocks back.
    fn refuse(&mut self, id: FileId, folio: Folio) {
        let blocks = self.blocks(&folio.range());
        let Some(managed) = self.files.get_mut(id) else { return };
        managed.folios.refuse(folio);
        for index in blocks {
            let pages = self.pages(index);
            if self.files.get(id).is_some_and(|managed| managed.folios.any_cached(pages)) {
                let block = Block::new(id, index);
                self.tell(Input::EvictRefused { block });
                self.answer_if_kept(block);
            }
        }
        self.act();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetching::Fetched;
    use crate::workers::Outcome;

    #[test]
    fn while_much_goes_back_no_further_evictions_are_judged() {
        let mut steering = Steering::idle();
        let folio = Folio { head: 0, pages: 1 };
        let fetched = Fetched { serial: 1, id: FileId(1), runs: Vec::new(), gaps: Vec::new(), access_ns: 0 };
        let mut outcomes = VecDeque::from([Outcome::Fetched(fetched)]);
        // Of a file that is not known any more: there is nothing to tell of it.
        steering.returning.0.extend(std::iter::repeat_n((FileId(1), 1, folio), MOST_FOLIOS));
        steering.judge(&mut outcomes);
        assert_eq!((outcomes.len(), steering.returning.is_full()), (1, true));
        while !steering.returning.is_empty() {
            steering.stirred = false;
            steering.go_on_giving_back();
            assert_eq!(steering.stirred, !steering.returning.is_empty(), "the next round does not wait");
        }
        steering.judge(&mut outcomes);
        assert!(outcomes.is_empty());
    }
}
