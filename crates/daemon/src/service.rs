//! The loop: the plane's own, with all sockets on one epoll descriptor in it. It is the same for the service and for a
//! private host ([`crate::private`]).
//!
//! After each round of the plane's loop the clients have their turns. A client's ring is read up to where it
//! ended before its socket was looked at, so that the files that the entries name are known. How long a user's
//! turn takes, and all of them between two rounds of the plane, is measured and bounded ([`crate::shares`]). A ring
//! in which nothing comes is left alone until its client rings.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use foretell_door::Reception;
use foretell_pagecache::{Broker, Counters, Meter, Options, Plane, Report, Scope};
use foretell_protocol::ErrorCode;
use rustix::event::epoll;

use crate::confine::{self, ConfineError, Confinement};
use crate::connection::{Connection, End, Role};
use crate::descriptors;
use crate::limits::{HALF_MESSAGE, LOBBY, LOBBY_OF_RUN, Limits, SHOWING, STATUS_ROWS};
use crate::listener::{EVERYBODY, ListenError, Listener};
use crate::owners::Owners;
use crate::private::Own;
use crate::reception;
use crate::shares::{ROUND, Shares, Waiting};
use crate::stop::Stop;
use crate::unfinished::{Making, Telling};
use crate::watcher::{self, Watched, Watcher};

/// Longest wait while a ring is being watched: what comes there rings no bell.
const WATCH: Duration = Duration::from_millis(1);
/// Longest wait while hints of a run wait for room in the list.
const PENDING: Duration = Duration::from_millis(10);
/// Longest wait otherwise.
const IDLE: Duration = Duration::from_millis(500);
/// Time between two looks at what clients are to be shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// What an event of the kernel's is about: a number below, or twice a connection's number, plus one for its
/// pidfd.
const DOOR: u64 = 0;
const STOP: u64 = 1;
const WATCHER: u64 = 2;
const FIRST_CONNECTION: u64 = 8;

/// How a service is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Where it listens.
    pub socket: PathBuf,
    /// The page cache plane. What [`Limits`] says about lists and queues is used instead of what is here.
    pub options: Options,
    /// How much of everything.
    pub limits: Limits,
    /// What its process gives up.
    pub confinement: Confinement,
}

impl Configuration {
    /// That of a service with the usual limits, whose process gives up nothing.
    #[must_use]
    pub fn new(socket: PathBuf, options: Options) -> Configuration {
        Configuration { socket, options, limits: Limits::default(), confinement: Confinement::None }
    }
}

/// Why a service could not be started or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The page cache cannot be steered.
    #[error(transparent)]
    Plane(#[from] foretell_pagecache::OpenError),
    /// The loop cannot go on. Programs run on as on the plain kernel.
    #[error(transparent)]
    Step(#[from] foretell_pagecache::StepError),
    /// It keeps privileges that it ought to give up.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The process that has the rights of this one has ended. Whoever starts the service anew gets both.
    #[error(
        "the process that opens files for the service has ended (foretell-broker); start the service again"
    )]
    NoBroker,
    /// An epoll descriptor or the like is not to be had.
    #[error("cannot wait for clients: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for ServiceError {
    fn from(error: rustix::io::Errno) -> ServiceError {
        ServiceError::System(error.into())
    }
}

/// The service, or a private host: sessions on a plane.
pub struct Service {
    pub(crate) plane: Plane,
    /// Of a private host: the user whose it is. Only that user and root are let in.
    pub(crate) owner: Option<u32>,
    /// Of a private host: the program that its own process has started, and answers for it.
    pub(crate) own: Option<Own>,
    pub(crate) limits: Limits,
    pub(crate) owners: Owners,
    confinement: Confinement,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// Connections whose rings are being watched, or that have more to say than one turn.
    pub(crate) busy: Waiting,
    pub(crate) epoll: OwnedFd,
    pub(crate) started: Instant,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    pub(crate) runs: u32,
    /// The turn that is under way ends then, whatever there is left to do in it.
    pub(crate) turn_ends: Instant,
    /// How much of the loop's time each user has had.
    pub(crate) shares: Shares,
    /// Something could not be done in this round: the next one does not wait.
    pub(crate) unfinished: bool,
    /// None where a private host cannot listen. It ends before the socket's name does.
    pub(crate) reception: Option<Reception>,
    _listener: Option<Listener>,
    watched: Watched,
    /// A snapshot that is being made, and who waits for it.
    watching: Option<(Box<Making>, watcher::Waiting)>,
    /// Reports that are being made, one for a user: for which connection.
    pub(crate) tellings: BTreeMap<u32, (u64, Box<Telling>)>,
    stop: Stop,
    /// Readable when it is to end.
    _told: OwnedFd,
    stopping: bool,
    pub(crate) last_connection: u64,
    /// Who had the last turn.
    last_user: u32,
    pub(crate) greeting: BTreeSet<(Instant, u64)>,
    /// Connections that have sent descriptors with a message that is not complete.
    pub(crate) half: BTreeSet<u64>,
    /// Users of whom a descriptor cannot be closed: they are not let in.
    pub(crate) put_out: BTreeSet<u32>,
    shown_at: Instant,
    shown: Counters,
    /// Clients are being shown how they fare, from this connection on.
    pub(crate) showing: Option<u64>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Service {
    /// Listens, and opens the plane. Call it before the process starts other threads ([`Plane::open`]): this one, and
    /// those that it starts from now on, lose the capabilities that the service does not need.
    ///
    /// # Errors
    /// When another service listens there, or the page cache cannot be steered here.
    pub fn open(configuration: Configuration) -> Result<Service, ServiceError> {
        let Configuration { socket, mut options, mut limits, confinement } = configuration;
        let listener = Listener::bind(&socket, EVERYBODY)?;
        let descriptors = descriptors::raise_limit();
        if confinement != Confinement::None {
            confine::start_broker(listener.as_fd(), &options, confinement)?;
            confine::give_up_capabilities()?;
        }
        limits.sessions = limits.sessions.min(descriptors::sessions_within(descriptors)).max(1);
        descriptors::make_room(listener.as_fd(), descriptors, &options, limits.sessions);
        options.queue_limits = limits.queues;
        options.list_blocks = limits.list_blocks;
        options.list_blocks_in_all = limits.list_blocks_in_all;
        options.list_blocks_of_user = limits.list_blocks_of_user;
        // A service runs for months: it does not keep every reference, nor the names of all that has gone.
        options.compare_with_optimum = false;
        options.list_ended = false;
        let plane = Plane::open(options)?;
        if confinement != Confinement::None {
            plane.load_all();
        }
        Ok(Service { confinement, ..Service::on(plane, Some(listener), limits, None)? })
    }

    /// Serves on a plane.
    pub(crate) fn on(
        plane: Plane,
        listener: Option<Listener>,
        limits: Limits,
        owner: Option<u32>,
    ) -> Result<Service, ServiceError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watched = Watched::new()?;
        let (told, stop) = Stop::new()?;
        let room = if owner.is_some() { LOBBY_OF_RUN } else { LOBBY };
        let reception =
            listener.as_ref().map(|listener| reception::open(listener, &plane, room)).transpose()?;
        let listening = reception.as_ref().map(|reception| (reception.bell(), DOOR));
        let others = [(told.as_fd(), STOP), (watched.bell(), WATCHER)];
        for (descriptor, number) in others.into_iter().chain(listening) {
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        Ok(Service {
            plane,
            owner,
            own: None,
            limits,
            owners: Owners::default(),
            confinement: Confinement::None,
            connections: BTreeMap::new(),
            busy: Waiting::default(),
            epoll,
            started: Instant::now(),
            opened: 0,
            refused: 0,
            runs: 0,
            turn_ends: Instant::now(),
            shares: Shares::default(),
            unfinished: false,
            reception,
            _listener: listener,
            watched,
            watching: None,
            tellings: BTreeMap::new(),
            stop,
            _told: told,
            stopping: false,
            last_connection: FIRST_CONNECTION,
            last_user: 0,
            greeting: BTreeSet::new(),
            half: BTreeSet::new(),
            put_out: BTreeSet::new(),
            shown_at: Instant::now(),
            shown: Counters::default(),
            showing: None,
        })
    }

    /// Something to end it with.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Something for other threads to watch it with: the metrics.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        self.watched.watcher()
    }

    /// The limits in force: those of the configuration, as far as the system allows.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Has the whole process give up the system calls that the service does not make: what else there is to be done in
    /// it (metrics) has to be under way. After that it serves, or nothing does.
    ///
    /// # Errors
    /// When nothing can be given up.
    pub fn confine(&mut self) -> Result<(), ServiceError> {
        // Once: the filter that is there then refuses another one.
        Ok(confine::filter_calls(std::mem::replace(&mut self.confinement, Confinement::None))?)
    }

    /// Serves until it is stopped; [`Service::confine`] comes first where it has not been called.
    ///
    /// # Errors
    /// When the loop cannot go on, or nothing can be given up.
    pub fn run(mut self) -> Result<(), ServiceError> {
        self.confine()?;
        while !self.stopping {
            self.round(&[], IDLE)?;
        }
        let _report = self.finish();
        Ok(())
    }

    /// One round of the loop: waits until something happens, at most `timeout`, and acts on it. Which of `others`
    /// (positions in the slice) are readable or hung up.
    ///
    /// # Errors
    /// When the loop cannot go on.
    pub fn round(
        &mut self,
        others: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<Vec<usize>, ServiceError> {
        let descriptors: Vec<_> = others.iter().copied().chain([self.epoll.as_fd()]).collect();
        let mut ready = self.plane.step(&descriptors, self.longest_wait().min(timeout))?;
        self.unfinished = false;
        if ready.pop_if(|at| *at == others.len()).is_some() {
            self.take_events()?;
        }
        self.take_turns();
        self.look_for_watchers();
        self.keep_time()?;
        self.plane.timing().lap("by the clock");
        Ok(ready)
    }

    /// Ends all sessions, tells those who have runs what was done for them, and undoes what was changed in open files.
    pub fn finish(mut self) -> Report {
        self.plane.take_in_all();
        let why =
            if self.owner.is_none() { "the service is being stopped" } else { "its own program has ended" };
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            self.tell_report(id);
            self.end(id, End::because(ErrorCode::Stopping, why));
        }
        self.plane.finish()
    }

    fn longest_wait(&self) -> Duration {
        if self.unfinished {
            return Duration::ZERO;
        }
        let mut longest = if self.busy.is_empty() { IDLE } else { WATCH };
        let own = self.own.as_ref().is_some_and(Own::is_waiting);
        if own || self.runs > 0 && self.connections.values().any(Connection::has_pending_hints) {
            longest = longest.min(PENDING);
        }
        let deadline = self.greeting.first().map(|(at, _)| *at + self.limits.greeting());
        let half = self.half.iter().filter_map(|id| self.connections.get(id)?.half_since);
        let half = half.map(|since| since + HALF_MESSAGE).min();
        for at in deadline.into_iter().chain(half) {
            longest = longest.min(at.saturating_duration_since(Instant::now()) + WATCH);
        }
        longest
    }

    fn take_events(&mut self) -> Result<(), ServiceError> {
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&at_once)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        self.unfinished |= count == EVENTS;
        for event in &events[..count] {
            let (number, flags) = (event.data.u64(), event.flags);
            match number {
                DOOR => {
                    self.accept();
                    self.plane.timing().lap("new connections");
                }
                STOP => self.stopping = true,
                // Who asks while a snapshot is being made waits for the next one.
                WATCHER if self.watching.is_some() => {}
                WATCHER => {
                    let waiting = self.watched.waiting();
                    if !waiting.is_empty() {
                        let scope = Scope { user: None, rows: STATUS_ROWS };
                        self.watching = Some((Box::new(Making::new(scope)), waiting));
                    }
                }
                _ if number % 2 == 1 => {
                    self.end_in_turn(number / 2, || End::Gone);
                }
                _ => {
                    let id = number / 2;
                    if flags.contains(epoll::EventFlags::OUT) {
                        self.flush(id);
                    }
                    if flags
                        .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
                    {
                        self.want_turn(id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes on with a snapshot for the metrics.
    fn look_for_watchers(&mut self) {
        let Some((mut making, waiting)) = self.watching.take() else { return };
        let start = Instant::now();
        let mut done = false;
        while !done && start.elapsed() < SHOWING {
            done = self.make_on(&mut making);
        }
        if done {
            waiting.answer(&self.made(*making));
        } else {
            self.watching = Some((making, waiting));
            self.unfinished = true;
        }
        self.plane.timing().lap("snapshots");
    }

    /// Ends a connection in its user's turn: to forget what it had may take long.
    pub(crate) fn end_in_turn(&mut self, id: u64, why: impl FnOnce() -> End) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.ending.get_or_insert_with(why);
            self.want_turn(id);
        }
    }

    /// A connection may have something to say.
    pub(crate) fn want_turn(&mut self, id: u64) {
        if let Some(connection) = self.connections.get(&id) {
            self.busy.insert(connection.peer.account, id);
        }
    }

    /// Gives the users turns, as long as the round lasts; see [`crate::shares`].
    fn take_turns(&mut self) {
        self.shares.pay();
        self.plane.take_spent().into_iter().for_each(|(user, time)| self.shares.charge(user, time));
        let order = self.shares.order(self.busy.users(), self.last_user);
        let mut meter = Meter::start();
        let round_ends = meter.now() + ROUND;
        for user in order {
            let left = self.shares.left(user);
            if left.is_zero() || meter.now() >= round_ends {
                self.unfinished = true;
                continue;
            }
            self.last_user = user;
            self.turn_ends = round_ends.min(meter.now() + left);
            for id in self.busy.of_user(user) {
                if meter.now() >= self.turn_ends {
                    self.unfinished = true;
                    break;
                }
                self.busy.note(user, id);
                match self.turn(id) {
                    Ok(true) => self.flush(id),
                    Ok(false) => {
                        self.busy.remove(user, id);
                        self.flush(id);
                    }
                    Err(end) => {
                        self.end(id, end);
                        self.plane.timing().lap("ended connections");
                    }
                }
                self.plane.timing().lap("rest of a turn");
                self.shares.charge(user, meter.lap());
            }
        }
    }

    /// Has the turn that is under way lasted as long as it may?
    pub(crate) fn turn_is_over(&self) -> bool {
        Instant::now() >= self.turn_ends
    }

    /// What is due by the clock.
    fn keep_time(&mut self) -> Result<(), ServiceError> {
        let now = Instant::now();
        while let Some(&(since, id)) = self.greeting.first() {
            let greeted = self.connections.get(&id).is_none_or(|c| !matches!(c.role, Role::Unknown));
            if !greeted && since + self.limits.greeting() > now {
                break;
            }
            self.greeting.pop_first();
            if !greeted {
                self.end(id, End::because(ErrorCode::OutOfTurn, "no greeting came"));
            }
        }
        if now.saturating_duration_since(self.shown_at) >= SHOW_EVERY {
            self.shown_at = now;
            if Broker::of_process().is_some_and(Broker::is_gone) {
                return Err(ServiceError::NoBroker);
            }
            let counts = self.plane.counts();
            if counts != self.shown {
                self.shown = counts;
                self.showing.get_or_insert(0);
            }
        }
        self.show_on(now + SHOWING);
        self.end_half_messages(now);
        self.put_out_stuck();
        if let Some(own) = &mut self.own {
            own.offer(&mut self.plane);
        }
        if self.runs > 0 {
            self.offer_hints();
        }
        Ok(())
    }

    /// Ends connections whose messages came with descriptors and are not completed.
    fn end_half_messages(&mut self, now: Instant) {
        let half: Vec<u64> = self.half.iter().copied().collect();
        for id in half {
            match self.connections.get(&id).and_then(|connection| connection.half_since) {
                None => drop(self.half.remove(&id)),
                Some(since) if now.saturating_duration_since(since) >= HALF_MESSAGE => {
                    let why = "a message with descriptors has no end";
                    self.end_in_turn(id, || End::because(ErrorCode::Malformed, why));
                }
                Some(_) => {}
            }
        }
    }

    /// Sends what waits for a client, and watches for room when it does not take all.
    pub(crate) fn flush(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let flushed = connection.flush().and_then(|left| {
            let (before, now) = (connection.waiting_counted, connection.waiting_bytes());
            if before != now {
                let counted = self.owners.count_waiting(connection.peer.account, (before, now), &self.limits);
                counted.map_err(|(code, text)| End::Because(code, text))?;
                connection.waiting_counted = now;
            }
            Ok(left)
        });
        match flushed {
            Ok(left) => {
                let mut flags = epoll::EventFlags::IN;
                flags.set(epoll::EventFlags::OUT, left);
                if connection.watched_for_room != left {
                    connection.watched_for_room = left;
                    let data = epoll::EventData::new_u64(2 * id);
                    let _ = epoll::modify(&self.epoll, connection.socket(), data, flags);
                }
            }
            Err(end) => self.end(id, end),
        }
    }

    /// Ends a connection and, with the last one of its process, its session.
    pub(crate) fn end(&mut self, id: u64, why: End) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.busy.remove(connection.peer.account, id);
        if self.tellings.get(&connection.peer.account).is_some_and(|(of, _)| *of == id) {
            self.tellings.remove(&connection.peer.account);
        }
        self.greeting.remove(&(connection.since, id));
        self.half.remove(&id);
        // Giving back cannot reach a limit.
        let _ = self.owners.count_half(connection.peer.account, connection.half_counted, 0);
        let waiting = (connection.waiting_counted, 0);
        let _ = self.owners.count_waiting(connection.peer.account, waiting, &self.limits);
        self.owners.remove_ring(connection.peer.account, connection.ring_bytes);
        self.owners.leave(connection.peer.account);
        match std::mem::replace(&mut connection.role, Role::Unknown) {
            Role::Client(speech) => self.silence(id, &connection.peer, &speech),
            Role::Command(Some(run)) => {
                self.runs -= 1;
                self.plane.end_session(run.session());
            }
            Role::Unknown | Role::Command(None) => {}
        }
        if let End::Because(code, text) = why {
            self.refused += u64::from(code != ErrorCode::Stopping);
            connection.farewell(code, text);
        }
        // Closing the pidfd takes it off the epoll's list: nobody else has a copy. The socket is closed elsewhere,
        // in its own time.
        let _ = epoll::delete(&self.epoll, connection.socket());
        connection.shut();
    }
}
