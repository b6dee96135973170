//! What a whole device can do at most.

/// A rate of the whole device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// What it counts.
    pub kind: LimitKind,
    /// Operations or bytes in a ms.
    pub per_ms: f64,
    /// Operations or bytes at once.
    pub burst: f64,
}

/// What a [`Limit`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests.
    Operations,
    /// Bytes.
    Bytes,
}
