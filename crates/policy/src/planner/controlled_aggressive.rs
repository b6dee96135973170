//! Controlled-aggressive (Cao et al. 1996, sections 2.1.2 and 4.3).
//!
//! Whenever nothing that the manager asked for is on its way, fetch the next missing blocks of its list,
//! as long as doing so does no harm. The four rules:
//!
//! 1. optimal prefetching: fetch the next hole;
//! 2. optimal replacement: replace the block whose next reference is furthest in the future (that is
//!    the allocation asking the manager: blocks that the list does not name first, then the
//!    furthest);
//! 3. do no harm: never replace a block that will be referenced before the fetched one, which holds as
//!    long as *free blocks* are left: cached blocks whose next use is after the hole;
//! 4. first opportunity: do it as soon as that is so.
//!
//! Elapsed time is then at most 1 + F/K times the optimum (fetch time F in references, K cached blocks).
//! For disk scheduling up to B fetches are issued together, and the next batch waits until all of them
//! have completed; a margin of free blocks absorbs what other processes take in the meantime.
//!
//! A horizon, if set, leaves holes alone that are further ahead: with a fast device the rules alone fill
//! the cache with the near future and replace blocks early, which costs fetches without saving time.

use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::ManagerId;

#[derive(Debug)]
pub(super) struct ControlledAggressive;

impl ControlledAggressive {
    pub(super) fn new(_: &Config) -> ControlledAggressive {
        ControlledAggressive
    }
}

impl Planner for ControlledAggressive {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, _: Occasion) {
        if desk.in_flight_for(manager) > 0 {
            return;
        }
        let (batch, horizon, margin) =
            (desk.config().batch.max(1), desk.config().horizon, desk.config().free_margin);
        for list in 0..desk.list_count(manager) {
            for _ in 0..batch {
                let Some(l) = desk.list(manager, list) else { break };
                let cursor = l.cursor();
                let Some(hole) = l.next_hole(cursor) else { break };
                if horizon.is_some_and(|h| hole - cursor >= h) {
                    break;
                }
                let Some(b) = desk.block_at(manager, list, hole) else { break };
                if !desk.free_blocks_exceed(manager, list, hole, margin) || !desk.prefetch(manager, b) {
                    break;
                }
            }
        }
    }
}
