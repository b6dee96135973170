//! What the state wants done is begun: requests of stores, and reads and writes of the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use foretell_policy::Block;

use crate::disk::Place;
use crate::memory::{Arena, Buffer};
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
            let me = self.me.clone();
            runtime.spawn_blocking(move || read.run(&me));
        }
        while let Some(write) = state.next_write() {
            let me = self.me.clone();
            runtime.spawn_blocking(move || write.run(&me));
        }
    }
}

impl Write {
    /// Writes the part, in a thread that may wait.
    pub(crate) fn run(self, shared: &Weak<Shared>) {
        let place = self.disk.write(&self.buffer);
        if let Some(shared) = shared.upgrade() {
            let mut state = shared.state();
            state.written(shared.now(), &self, place);
            shared.pump(&mut state);
        }
    }
}

impl Read {
    /// Reads the parts, in a thread that may wait.
    pub(crate) fn run(self, shared: &Weak<Shared>) {
        let mut parts: VecDeque<_> = self.parts.into();
        for index in self.first.index.. {
            let (Some((place, pending)), Some(shared)) = (parts.pop_front(), shared.upgrade()) else { break };
            let buffer = read(&place, &shared.arena);
            drop(place);
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

fn read(place: &Place, arena: &Arc<Arena>) -> io::Result<Buffer> {
    let mut filling = arena.take(place.length() as u32).ok_or(io::ErrorKind::OutOfMemory)?;
    place.read(|bytes| _ = filling.fill(bytes))?;
    filling.finish().map_err(|_| io::ErrorKind::UnexpectedEof.into())
}
