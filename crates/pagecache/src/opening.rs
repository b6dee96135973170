//! Opening a plane, in two steps.
//!
//! A small process is forked that undoes what was changed in other programs' open files, should this one be killed. That
//! comes before there are threads. Then a thread has the kernel check and load what observes, which takes it 10 ms and
//! more: whoever has something else to do meanwhile keeps no job waiting for both.

use std::sync::Arc;

use crate::check;
use crate::error::OpenError;
use crate::guard::Guard;
use crate::observe::{Coming, ObserverConfig};
use crate::options::Options;
use crate::page_cache::{Linux, PageCache};
use crate::plane::Plane;
use crate::reach::Broker;

/// A plane that is being opened. Other processes and threads may be started from now on. Dropped, nothing of it is left
/// once its thread has ended.
#[derive(Debug)]
pub struct Opening {
    options: Options,
    guard: Guard,
    observer: Coming,
}

impl Opening {
    /// Checks the options, forks the process that cleans up and begins to load the observer.
    ///
    /// # Errors
    /// When an option is out of range, or no process can be forked.
    pub fn begin(options: Options) -> Result<Opening, OpenError> {
        check::options(&options)?;
        let guard = match Broker::of_process().and_then(Broker::take_guard) {
            Some(guard) => guard,
            None => Guard::start().map_err(|source| OpenError::System {
                what: "fork the process that cleans up after a crash",
                source,
            })?,
        };
        let observer = Coming::begin(ObserverConfig::for_steering(options.ring_bytes, options.files));
        Ok(Opening { options, guard, observer })
    }

    /// Waits for the observer, and starts the threads that prefetch and evict.
    ///
    /// # Errors
    /// When a mechanism that cannot be done without is missing.
    pub fn wait(self) -> Result<Plane, OpenError> {
        self.wait_on(&(Arc::new(Linux) as Arc<dyn PageCache>))
    }

    /// The same, on something that stands between the plane and the kernel's page cache.
    fn wait_on(self, cache: &Arc<dyn PageCache>) -> Result<Plane, OpenError> {
        let observer = self.observer.wait().map_err(|e| OpenError::Observe(Box::new(e)))?;
        Plane::start(self.options, cache, self.guard, observer)
    }
}

impl Plane {
    /// Checks the options, loads the observer, starts the threads that prefetch and evict.
    ///
    /// # Errors
    /// When an option is out of range, or a mechanism that cannot be done without is missing.
    pub fn open(options: Options) -> Result<Plane, OpenError> {
        Opening::begin(options)?.wait()
    }

    /// The same, on something that stands between the plane and the kernel's page cache.
    #[cfg(test)]
    pub(crate) fn open_with(options: Options, cache: Arc<dyn PageCache>) -> Result<Plane, OpenError> {
        Opening::begin(options)?.wait_on(&cache)
    }
}
