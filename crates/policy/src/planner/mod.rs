//! Planners: what to fetch before it is referenced. One file an algorithm.
//!
//! A planner is asked after every reference, when a fetch has ended and when a list has grown. It looks at the
//! [`Desk`](crate::books::Desk) and asks for one block after the other; the books make room for each at once, by the allocation's
//! rules, and hand the batch to the plane in the configured [`crate::Order`]. All that a planner remembers is its
//! own. A new one is a file here, its name in the table of [`crate::prefetch`], and the line below that the compiler
//! then asks for.

mod aggressive;
mod along;
mod controlled_aggressive;
mod fixed_horizon;
mod forestall;
mod history;
mod informed;
mod interface;
mod nearest;
mod nothing;
mod one_block;
mod reverse_aggressive;
mod sequential;
mod unordered;

pub(crate) use interface::{Occasion, Planner};
pub use sequential::KernelReadahead;
pub(crate) use sequential::Sequential as Windows;

use crate::config::Config;
use crate::prefetch::Prefetch;

/// The planner of that name, with nothing remembered yet.
pub(crate) fn planner(prefetch: Prefetch, config: &Config) -> Box<dyn Planner> {
    match prefetch {
        Prefetch::None => Box::new(nothing::Nothing::new(config)),
        Prefetch::OneBlock => Box::new(one_block::OneBlock::new(config)),
        Prefetch::ControlledAggressive => Box::new(controlled_aggressive::ControlledAggressive::new(config)),
        Prefetch::Bsd => Box::new(sequential::Sequential::bsd(config)),
        Prefetch::Linux => Box::new(sequential::Sequential::linux(config)),
        Prefetch::FixedHorizon => Box::new(fixed_horizon::FixedHorizon::new(config)),
        Prefetch::Aggressive => Box::new(aggressive::Aggressive::new(config)),
        Prefetch::Forestall => Box::new(forestall::Forestall::new(config)),
        Prefetch::Informed => Box::new(informed::Informed::new(config)),
        Prefetch::ReverseAggressive => Box::new(reverse_aggressive::ReverseAggressive::new(config)),
    }
}
