//! How a client fares.

use foretell_protocol::Statistics;

/// How a client fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// There is a connection to a service at present.
    pub connected: bool,
    /// Directives and hints sent to services so far.
    pub sent: u64,
    /// Hints dropped so far because the service did not keep up.
    pub dropped: u64,
    /// What the service counts for this session, as it last said; all 0 without a service.
    pub statistics: Statistics,
}
