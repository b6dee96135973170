//! How a reference met its block.

/// How a reference met its block, as far as what lists name counts and not where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Touch {
    /// It is the first one since a list named the block, or since the block is known.
    pub(crate) is_first: bool,
    /// A list of the manager's names the block, at whatever place.
    pub(crate) is_named: bool,
    /// It does not go on with the file that was referenced last.
    pub(crate) begins: bool,
    /// A list names it about now. Said of what begins.
    pub(crate) is_in_order: bool,
    /// It was fetched ahead, by the order of a list.
    pub(crate) is_by_order: bool,
    /// It had to be waited for; or would have been, had it not been fetched without regard to the order.
    pub(crate) is_missed: bool,
}
