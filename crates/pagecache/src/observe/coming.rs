//! An observer on its way: the kernel checks its programs for 10 to 30 ms, in which others have something else to do.

use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

use super::{ObserveError, Observer, ObserverConfig};
use crate::kernel;

/// An observer that a thread loads. Where there is no thread to be had it is loaded by who waits for it.
#[derive(Debug)]
pub(crate) struct Coming {
    config: ObserverConfig,
    loader: Option<JoinHandle<Result<Observer, ObserveError>>>,
}

impl Coming {
    /// Begins to load.
    pub(crate) fn begin(config: ObserverConfig) -> Coming {
        let loader = load(move || Observer::open(config)).ok();
        Coming { config, loader }
    }

    /// Waits for it.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub(crate) fn wait(self) -> Result<Observer, ObserveError> {
        match self.loader.map(JoinHandle::join) {
            Some(Ok(loaded)) => loaded,
            Some(Err(defect)) => resume_unwind(defect),
            None => Observer::open(self.config),
        }
    }
}

/// Has a thread of its own load something.
///
/// # Errors
/// None can be had.
pub(crate) fn load<T: Send + 'static>(how: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    kernel::adjust_allocator();
    kernel::use_one_heap();
    Builder::new().name("load".into()).spawn(how)
}
