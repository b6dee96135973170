//! Signals that ask for the end: noted, so that everything is undone on the way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::signals::ignored_signals;

/// A signal asked for the end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; everything is as it was before")]
pub(crate) struct Interrupted(pub(crate) u8);

impl Interrupted {
    /// The exit code that shells have for it.
    pub(crate) fn code(&self) -> u8 {
        128 + self.0
    }
}

/// Which signal has come, if one has.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Notes signals from now on; those that were ignored when we were started stay so.
    pub(crate) fn note() -> Result<Signals> {
        let came = Arc::new(AtomicUsize::new(0));
        let ignored = ignored_signals();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register_usize(signal, Arc::clone(&came), signal as usize)
                    .context("cannot handle signals")?;
            }
        }
        Ok(Signals(came))
    }

    /// An error once a signal has come.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        match u8::try_from(self.0.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(signal) => Err(Interrupted(signal)),
        }
    }
}
