//! Order: how the fetches of one batch follow each other.

use crate::blocks::{BlockId, Blocks};
use crate::config::Order;

/// Puts a batch, given in the order in which it will be referenced, into the order in which it is asked for.
pub(crate) fn arrange(batch: &mut [BlockId], blocks: &Blocks, order: Order) {
    if order == Order::Ascending {
        batch.sort_by_key(|&b| blocks.locate(b));
    }
}
