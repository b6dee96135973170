//! What an evaluation of the model takes and gives.

/// What limits a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Each request waits for the one before.
    Latency,
    /// The device is busy all the time.
    Device,
    /// Operations a second.
    Operations,
    /// Bytes a second.
    Bytes,
    /// The computation; reads are hidden behind it.
    Computation,
}

/// The causes that are switched on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Causes {
    pub(crate) device_readahead: bool,
    pub(crate) overhead: bool,
    pub(crate) positioning: bool,
    pub(crate) parallel: bool,
    pub(crate) overlap: bool,
}

pub(crate) struct Evaluation {
    pub(crate) time_ms: f64,
    pub(crate) device_reads: u64,
    pub(crate) bound: Bound,
}
