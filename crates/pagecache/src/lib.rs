//! The plane that steers the Linux page cache for programs that nobody changed: observe, evict, prefetch.

pub mod observe;

pub use observe::{FileKey, Observation, ObserveError, ObserverConfig, ReadHook};
