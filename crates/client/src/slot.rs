//! Where a client's state hangs, so that a forked child can leave its parent's alone.
//!
//! At the moment of a fork another thread of the parent may have held the lock of the state; in the child
//! nobody would ever release it. So the child does not touch its copy: it finds that the state is of another
//! epoch ([`crate::fork`]), hangs up a new one in its place, and leaks the old one, once a fork. Of the old
//! one it closes only the socket, so that the parent's connection ends with the parent.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Mutex, PoisonError};

use crate::fork;
use crate::link::State;
use crate::options::Options;
use crate::session::SocketNumber;

/// The state of a client in one process.
#[derive(Debug)]
struct Link {
    epoch: u32,
    /// Outside of the lock, for a child that wants to close its copy.
    socket: SocketNumber,
    options: Options,
    state: Mutex<State>,
}

impl Link {
    fn new(epoch: u32, options: Options) -> Box<Link> {
        let socket = SocketNumber::default();
        let state = Mutex::new(State::new(&options, socket.clone()));
        Box::new(Link { epoch, socket, options, state })
    }
}

/// The place of the state. Empty until the first call.
#[derive(Debug)]
pub(crate) struct Slot {
    link: AtomicPtr<Link>,
}

impl Slot {
    pub(crate) const fn new() -> Slot {
        Slot { link: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn with_options(options: Options) -> Slot {
        Slot { link: AtomicPtr::new(Box::into_raw(Link::new(fork::epoch(), options))) }
    }

    /// Does something with the state of this process, with everything due done before. What is given must
    /// not call back: the lock is held.
    pub(crate) fn call<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // What a panic left behind is of no use to anybody, but all of it is plain data.
        let mut state = self.link().state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tend();
        act(&mut state)
    }

    fn link(&self) -> &Link {
        let epoch = fork::epoch();
        let mut found = self.link.load(Acquire);
        loop {
            // SAFETY: a pointer in the slot is null or came from `Box::into_raw`; what it points to is freed
            // only when the slot is dropped, which nobody who borrows the slot lives to see. Of a link of
            // another epoch only the fields outside of the mutex are touched.
            let link = unsafe { found.as_ref() };
            let options = match link {
                Some(link) if link.epoch == epoch => return link,
                Some(parents) => parents.options.clone(),
                None => Options::from_environment(),
            };
            let new = Box::into_raw(Link::new(epoch, options));
            match self.link.compare_exchange(found, new, AcqRel, Acquire) {
                Ok(_) => {
                    if let Some(parents) = link {
                        parents.socket.close();
                    }
                    found = new;
                }
                Err(other) => {
                    // SAFETY: it has just been made here, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    found = other;
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let link = *self.link.get_mut();
        // SAFETY: as in `link`.
        let Some(found) = (unsafe { link.as_ref() }) else { return };
        if found.epoch == fork::epoch() {
            // SAFETY: it came from `Box::into_raw`, and there is nobody left who could refer to it.
            drop(unsafe { Box::from_raw(link) });
        } else {
            found.socket.close();
        }
    }
}
