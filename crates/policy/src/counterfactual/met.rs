//! What a reference meets here, beside the machine that is followed.

/// What a reference meets in our own cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// Somebody is steered, or what lists have fetched is on its way, or is what it meets.
    Steered,
    /// Nobody is: a block that is absent, or one that is cached or on its way.
    Absent,
    Present,
}
