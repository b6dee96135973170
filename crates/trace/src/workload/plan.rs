//! What a module makes of a workload.

use super::compute;

/// A reference to one block: file and block number.
pub(super) type Visit = (u32, u32);

/// What a module makes of a workload.
pub(super) struct Plan {
    /// Name and blocks of each file.
    pub(super) files: Vec<(String, u32)>,
    /// The references, at least as many as [`super::Workload::references`] says.
    pub(super) visits: Box<dyn Iterator<Item = Visit> + Send>,
    /// How compute times are distributed.
    pub(super) shape: compute::Shape,
}
