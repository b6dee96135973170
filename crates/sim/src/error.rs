//! Why something cannot be simulated.

use foretell_device::SubmitError;
use foretell_policy::LimitReached;
use foretell_trace::TraceError;
use thiserror::Error;

use crate::policy::PolicyName;

/// Why a cell cannot be simulated.
#[derive(Debug, Error)]
pub enum SimError {
    /// The input has more files than the policy's tables.
    #[error("too many files: {0}")]
    Files(#[from] LimitReached),
    /// The blocks do not fit the disks.
    #[error(
        "{blocks} blocks of {block_bytes} bytes do not fit {disks} disk(s) of {capacity_blocks} blocks each; \
         use more disks or a larger device"
    )]
    DoesNotFit {
        /// Blocks of all files.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u32,
        /// Disks.
        disks: u16,
        /// Blocks of one disk.
        capacity_blocks: u64,
    },
    /// A block is not a whole number of sectors.
    #[error("a block of {block_bytes} bytes is not a whole number of sectors of {sector_bytes} bytes")]
    Sectors {
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// A cache of no blocks holds nothing to reference.
    #[error("a cache of 0 blocks cannot hold the block being referenced; use at least 1")]
    NoCache,
    /// A policy that needs the future cannot run on a stream.
    #[error("{policy} needs all references beforehand and cannot read them as a stream")]
    NotOnline {
        /// Which.
        policy: PolicyName,
    },
    /// A policy that prefetches has nothing to fetch from.
    #[error(
        "{policy} needs a device; without one only policies that fetch on demand (demand-…) can be counted"
    )]
    NeedsDevice {
        /// Which.
        policy: PolicyName,
    },
    /// The trace could not be read to its end.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A device refused a request.
    #[error(transparent)]
    Device(SubmitError),
    /// The plane does not come to rest: a defect of the policy or of the plane.
    #[error("internal: the plane does not come to rest")]
    Restless,
    /// A process waits for a block that nobody fetches: a defect of the policy.
    #[error("internal: a process waits for a block that nothing fetches")]
    Stuck,
}
