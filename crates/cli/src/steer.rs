//! A program under a plane of our own, from its first instruction to its end.

use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Result;
use foretell_pagecache::watch::{Gather, Totals};
use foretell_pagecache::{Backlog, Plane, SessionId};

use crate::commands::run::{HintSource, Outcome, wake_descriptor};
use crate::guide::{FEED_TIME, FIRST_TIME, Guide};
use crate::hints::Hint;
use crate::hints::check::Kind;
use crate::hints::feed::{self, Fed};
use crate::input_log::InputLog;
use crate::join::Server;
use crate::program::{Program, exit_code};
use crate::signals;
use crate::stats::Stats;
use crate::terminal::warn;

/// The longest wait when nothing happens; whatever can happen wakes us earlier.
const IDLE: Duration = Duration::from_millis(500);
/// The wait when hints wait for room in the list or an answer for a slow reader: neither wakes us.
const PENDING: Duration = Duration::from_millis(10);
/// The longest that the program is held back for the first hints of a regular file. Reading them takes
/// milliseconds; a file system that hangs must not hold the program.
pub(crate) const FIRST_HINTS: Duration = Duration::from_secs(2);

/// A program that is under control and has not begun.
#[derive(Debug)]
pub(crate) struct Steered {
    /// The plane that controls it.
    pub(crate) plane: Plane,
    /// Its session there.
    pub(crate) session: SessionId,
    /// The program, held back.
    pub(crate) program: Program,
    /// Where other runs may join.
    pub(crate) server: Option<Server>,
    /// The recording of what it reads.
    pub(crate) gather: Option<Gather>,
    /// The log of what its policy is told.
    pub(crate) input_log: Option<InputLog>,
}

/// A list of hints on its way to the plane.
struct Stream {
    feed: Option<Receiver<Fed>>,
    backlog: Backlog,
    skipped: u64,
}

impl Steered {
    /// Lets the program begin and steers until it has ended. When our side fails, the program goes on
    /// uncontrolled, and is still waited for.
    pub(crate) fn run(self, sources: &[HintSource]) -> Result<Outcome> {
        let Steered { mut plane, session, mut program, mut server, mut gather, input_log } = self;
        let wake = wake_descriptor()?;
        let mut streams = Vec::new();
        // One recording says more than an order: who reads what.
        let sole = match sources {
            [HintSource { lists: Some(lists), manager, .. }] => Some((lists, *manager)),
            _ => None,
        };
        let mut guide = sole.map(|(lists, manager)| Guide::new(lists, session, manager, plane.options()));
        let sources = if guide.is_some() { &[] } else { sources };
        for source in sources {
            let feed = feed::start(source.file.clone(), source.kind, source.base.clone(), wake.clone())?;
            streams.push(Stream { feed: Some(feed), backlog: Backlog::new(source.manager), skipped: 0 });
        }
        // What a regular file says first is known to the plane before the program reads.
        for (stream, source) in streams.iter_mut().zip(sources) {
            if source.kind != Kind::Stream {
                stream.wait_for_first();
                stream.advance(&mut plane, session);
            }
        }
        if let Some(guide) = &mut guide {
            guide.feed(&mut plane, FIRST_TIME);
        }
        signals::pass_on(program.pidfd()?)?;
        if let Some(gather) = &mut gather {
            gather.begin();
        }
        plane.listen(gather);
        program.release();
        let started = Instant::now();
        let (status, failure) = loop {
            let mut descriptors = vec![program.ended(), wake.as_fd()];
            descriptors.extend(server.iter().flat_map(Server::descriptors));
            let idle = guide.as_ref().map_or(IDLE, |guide| guide.patience(IDLE));
            let pending = streams.iter().any(|s| !s.backlog.is_empty())
                || server.as_ref().is_some_and(Server::is_pending);
            let ready = match plane.step(&descriptors, if pending { PENDING } else { idle }) {
                Ok(ready) => ready,
                Err(e) => {
                    warn(&format!("control has ended ({e}); the program goes on uncontrolled"));
                    drop(server.take());
                    break (program.wait()?, Some(e.to_string()));
                }
            };
            if ready.contains(&1) {
                let _ = rustix::io::read(&wake, &mut [0; 8]);
            }
            streams.iter_mut().for_each(|stream| stream.advance(&mut plane, session));
            if let Some(guide) = &mut guide {
                guide.feed(&mut plane, FEED_TIME);
            }
            if let Some(server) = &mut server
                && (pending || ready.iter().any(|at| *at >= 2))
            {
                server.serve(&mut plane);
            }
            if let Some(status) = ended(&mut program, &ready)? {
                break (status, None);
            }
        };
        let elapsed = started.elapsed();
        let gather = plane.listen(None);
        plane.take_in_all();
        if let Some(server) = server.take() {
            server.farewell(&plane);
        }
        let report = plane.finish();
        if failure.is_some() && gather.is_some() {
            warn("--record: nothing is kept, as what the program read was not seen to its end");
        }
        if let Some(gather) = gather.filter(|_| failure.is_none()) {
            let totals = Totals {
                elapsed,
                wait_ns: (report.wait_s * 1e9) as u64,
                device_read_bytes: report.device_read_bytes,
                lost_events: report.lost_events,
                exit_code: Some(exit_code(status).into()),
            };
            if let Err(e) = gather.finish(totals) {
                warn(&format!("--record: {e}"));
            }
        }
        if let Some(log) = input_log {
            log.finish();
        }
        let mut stats = Stats::from(report);
        stats.elapsed_s = elapsed.as_secs_f64();
        let skipped: u64 = streams.iter().map(|s| s.skipped + s.backlog.skipped()).sum();
        stats.hints_skipped = skipped + guide.map_or(0, |guide| guide.failed());
        if let Some(failure) = failure {
            stats.controlled = false;
            stats.uncontrolled_because = Some(failure);
        }
        Ok(Outcome { code: exit_code(status), stats })
    }
}

fn ended(program: &mut Program, ready: &[usize]) -> Result<Option<ExitStatus>> {
    if ready.contains(&0) { program.try_wait() } else { Ok(None) }
}

impl Stream {
    /// Waits for the first batch, or for [`FIRST_HINTS`].
    fn wait_for_first(&mut self) {
        if let Some(feed) = &self.feed
            && let Ok(fed) = feed.recv_timeout(FIRST_HINTS)
        {
            self.take(fed);
        }
    }

    fn take(&mut self, fed: Fed) {
        match fed {
            Fed::Hints(hints) => self.backlog.extend(hints.iter().map(Hint::to_chunk)),
            Fed::Warning(text) => warn(&text),
            Fed::Skipped(lines) => self.skipped += lines,
            Fed::End { bad_lines, absent } => {
                self.skipped += bad_lines + absent;
                self.feed = None;
            }
        }
    }

    /// Passes on what has come, as far as the list has room.
    fn advance(&mut self, plane: &mut Plane, session: SessionId) {
        loop {
            self.backlog.offer(plane, session);
            if let Some(problem) = self.backlog.take_problem() {
                warn(&format!("a hint was skipped: {problem}"));
            }
            if !self.backlog.is_empty() {
                return;
            }
            let Some(feed) = &self.feed else { return };
            match feed.try_recv() {
                Ok(fed) => self.take(fed),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.feed = None,
            }
        }
    }
}
