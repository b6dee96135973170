//! Which of the kernel's mechanisms work here, found out by trying each one.
//!
//! Everything is tried on a temporary file of our own, on a child of our own or on the calling process, and
//! is taken back before [`examine`] returns. The file lies on a file system with a device behind it, because
//! files in memory can neither be evicted nor read ahead.

mod cache;
mod machine;
mod mechanism;
mod observation;

use crate::observe::{Observer, ObserverConfig};

pub use mechanism::Mechanism;
use mechanism::remedy;

/// Tries everything. Takes some tenths of a second; what is tried last depends on nothing tried first.
#[must_use]
pub fn examine() -> Vec<Mechanism> {
    let mut mechanisms = observation::examine();
    mechanisms.extend(cache::examine());
    mechanisms.extend(machine::examine());
    mechanisms
}

/// What keeps `foretell run` from controlling a program here, in one line; `None` if nothing does.
#[must_use]
pub fn missing_for_run() -> Option<String> {
    let smallest =
        ObserverConfig { wake_every: 0, ..ObserverConfig::with_ring(crate::observe::load::page_bytes()) };
    match Observer::open(smallest) {
        Ok(_) => cache::missing_for_run(),
        Err(lacking) => Some(lacking.to_string()),
    }
}
