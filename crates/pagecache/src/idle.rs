//! Memory is given back when nobody is served: a service may have nothing to do for days.

use std::time::{Duration, Instant};

use crate::kernel;
use crate::plane::Plane;
use crate::reach::Broker;

/// No session for so long: what is left of the last one has gone.
const RELEASE_AFTER: Duration = Duration::from_secs(2);

impl Plane {
    /// Gives memory back when there is no session any more.
    pub(crate) fn release_memory(&mut self) {
        if self.steering.sessions.len() == 0 {
            self.steering.engine.release_memory();
            self.outcomes.shrink_to_fit();
            self.steering.release_queues();
            self.steering.files.release_memory();
            if let Some(broker) = Broker::of_process() {
                broker.release_memory();
            }
            kernel::return_free_memory();
        }
    }

    /// The same some time after the last session has ended: lists, and what other threads had, go by and by.
    pub(crate) fn release_when_idle(&mut self) {
        if self.steering.sessions.len() > 0 {
            self.idle_since = None;
            return;
        }
        let (since, was_released) = self.idle_since.get_or_insert((Instant::now(), false));
        if !*was_released && since.elapsed() >= RELEASE_AFTER {
            *was_released = true;
            self.release_memory();
        }
    }
}
