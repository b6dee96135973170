//! No prefetching: every fetch is on demand.

use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::ManagerId;

#[derive(Debug)]
pub(super) struct Nothing;

impl Nothing {
    pub(super) fn new(_: &Config) -> Nothing {
        Nothing
    }
}

impl Planner for Nothing {
    fn plan(&mut self, _: &mut Desk<'_>, _: ManagerId, _: Occasion) {}
}
