//! Which block of a pool goes first.

/// Which block of a pool is replaced first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolPolicy {
    /// The least recently used one.
    #[default]
    Lru,
    /// The most recently used one: right for cyclic scans of more than fits.
    Mru,
}
