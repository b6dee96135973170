//! What the state wants done is begun: requests of stores, and reads and writes of the disk.

use std::collections::VecDeque;
use std::sync::Weak;

use foretell_policy::Block;

use crate::request;
use crate::shared::Shared;
use crate::state::{Read, State, Write};

impl Shared {
    /// Begins the requests that may begin.
    pub(crate) fn pump(&self, state: &mut State) {
        let Some(runtime) = &self.runtime else { return };
        while let Some(run) = state.next_run(self.now()) {
            runtime.spawn(request::serve(self.me.clone(), run));
        }
        while let Some(read) = state.next_read() {
            runtime.spawn(read.run(self.me.clone()));
        }
        while let Some(write) = state.next_write() {
            runtime.spawn(write.run(self.me.clone()));
        }
    }
}

impl Write {
    /// Writes the part.
    async fn run(self, shared: Weak<Shared>) {
        let place = self.disk.write(self.buffer.clone()).await;
        if let Some(shared) = shared.upgrade() {
            let mut state = shared.state();
            state.written(shared.now(), &self, place);
            shared.pump(&mut state);
        }
    }
}

impl Read {
    /// Reads the parts: all of them are begun before the first one is waited for.
    async fn run(self, shared: Weak<Shared>) {
        let begun: VecDeque<_> = match shared.upgrade() {
            None => return,
            Some(shared) => self
                .parts
                .into_iter()
                .map(|(place, pending)| (place.begin_read(&shared.arena), place, pending))
                .collect(),
        };
        for (index, (begun, place, pending)) in (self.first.index..).zip(begun) {
            let buffer = match begun {
                Ok(begun) => place.end_read(begun).await,
                Err(error) => Err(error),
            };
            drop(place);
            let Some(shared) = shared.upgrade() else { return };
            let came = buffer.as_ref().ok().cloned();
            let mut state = shared.state();
            state.was_kept(shared.now(), &self.fixed, Block::new(self.first.file, index), buffer);
            shared.pump(&mut state);
            drop(state);
            if let Some(buffer) = came {
                pending.settle(Ok(buffer));
            }
        }
        if let Some(shared) = shared.upgrade() {
            let mut state = shared.state();
            state.read_ended();
            shared.pump(&mut state);
        }
    }
}
