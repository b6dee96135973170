//! Ending a service from elsewhere: another thread, a handler of a signal.

use std::io;
use std::os::fd::OwnedFd;

/// Ends a running service: its loop ends after the round that it is in.
#[derive(Debug, Clone)]
pub struct Stop(std::sync::Arc<OwnedFd>);

impl Stop {
    /// One, and what becomes readable when it is used.
    pub(crate) fn new() -> io::Result<(OwnedFd, Stop)> {
        let flags = rustix::pipe::PipeFlags::NONBLOCK | rustix::pipe::PipeFlags::CLOEXEC;
        let (told, stop) = rustix::pipe::pipe_with(flags)?;
        Ok((told, Stop(std::sync::Arc::new(stop))))
    }

    /// Ends the service. May be called any number of times, from any thread.
    pub fn stop(&self) {
        // A pipe that is full has been told.
        let _ = rustix::io::write(&self.0, b"x");
    }

    /// Ends the service when this process is told to end (`SIGTERM`, `SIGINT`).
    ///
    /// # Errors
    /// When no handler can be set.
    pub fn on_signals(&self) -> io::Result<()> {
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::low_level::pipe::register(signal, self.0.try_clone()?)?;
        }
        Ok(())
    }
}
