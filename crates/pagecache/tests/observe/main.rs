//! Observation of real processes that read real files.
#![allow(clippy::unwrap_used)]

mod files;
mod limits;
mod processes;
mod reader;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use foretell_pagecache::observe::{Observation, ObserveError, Observer, ObserverConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Far longer than anything here takes: only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// An observer, or a line that says why there is none.
fn observer(test: &str) -> Option<Observer> {
    observer_with(test, ObserverConfig::default())
}

fn observer_with(test: &str, config: ObserverConfig) -> Option<Observer> {
    match Observer::open(config) {
        Ok(observer) => Some(observer),
        Err(
            why @ (ObserveError::NotPermitted { .. }
            | ObserveError::Filtered
            | ObserveError::BtfAbsent { .. }
            | ObserveError::PlaceAbsent { .. }
            | ObserveError::PidNamespace),
        ) => {
            println!("skipped: {test}: {why}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// All that is in the ring now.
fn drain(observer: &mut Observer) -> Vec<Observation> {
    let mut observations = Vec::new();
    observer.drain(usize::MAX, |observation| observations.push(observation));
    observations
}

/// What comes until `last` does, which must come.
fn drain_until(observer: &mut Observer, last: impl Fn(&Observation) -> bool) -> Vec<Observation> {
    let deadline = Instant::now() + PATIENCE;
    let mut observations = Vec::new();
    while !observations.iter().any(&last) {
        assert!(Instant::now() < deadline, "only came: {observations:?}");
        observations.extend(drain(observer));
        is_woken(observer, Duration::from_millis(10));
    }
    observations
}

/// Whether the observer's descriptor is or becomes readable.
fn is_woken(observer: &Observer, within: Duration) -> bool {
    let fd = observer.fd();
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    poll(&mut fds, Some(&within)).unwrap() == 1
}
