//! What a planner is asked, and when.

use crate::blocks::BlockId;
use crate::books::Desk;
use crate::ids::{Block, ManagerId};
use crate::input::Input;

/// What made the engine ask what to prefetch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Occasion {
    /// A process referenced this block.
    Reference(Block),
    /// A fetch ended, or a list grew.
    Opportunity,
}

/// An algorithm that decides what to fetch ahead of its use.
pub(crate) trait Planner: std::fmt::Debug + Send {
    /// Fetches for `manager` what should be fetched now.
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, occasion: Occasion);

    /// Takes note of times, of managers that come and go, and of what is said to planners alone.
    fn note(&mut self, desk: &mut Desk<'_>, input: &Input<'_>) {
        let _ = (desk, input);
    }

    /// The share of what `manager` references for the first time that its lists name, at whatever place; `None` as long as
    /// too little was seen, or where a planner does not ask.
    fn known_share(&self, manager: ManagerId) -> Option<f64> {
        let _ = manager;
        None
    }

    /// A process of `manager` waits for a block that is not on its way: room may be made for it as planned.
    fn before_demand(&mut self, desk: &mut Desk<'_>, manager: ManagerId, b: BlockId) {
        let _ = (desk, manager, b);
    }
}
