//! A pool whose bytes other processes of the user read, too: the side that has not got it.
//!
//! A call takes a connection that no other thread is using, or makes one, and is a request and its answer. It ends with
//! the pool's time-out, when its caller does not want to wait any more, and when the host is gone: the socket alone does
//! not tell that, as a child that the host forked has its other end as well.
//!
//! What is there is read from the pool's memory itself ([`crate::memory`]), without a call. One connection is made for that
//! alone, and as long as it is there the host knows that this process may be reading.

use std::io::{self, BufReader, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foretell_policy::PoolPolicy;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::PidfdFlags;

use crate::access::Access;
use crate::directive::Directive;
use crate::error::Error;
use crate::first::First;
use crate::guests::Address;
use crate::host::{DESCRIPTORS, GREETING};
use crate::memory::{Attached, Here, MOST_READ_PARTS, Reference, Tell};
use crate::options::{ASKED, Patience};
use crate::readers::{Reading, now_ns, tick_ns};
use crate::service;
use crate::source::{Entry, Stamp};
use crate::statistics::Statistics;
use crate::wire::{self, Hello, MOST_RANGES, MOST_TEXT, Parts, Request, VERSION, Words};

/// Connections that are kept for the next call.
const MOST_IDLE: usize = 16;
/// URLs whose states are asked for by one request: as many as the host asks the store for at a time.
const OPENED_AT_ONCE: usize = 64;
/// The host answers within the pool's time-out; so much later it counts as gone.
const GRACE: Duration = Duration::from_secs(5);
/// What an answer is read into before it is taken apart.
const GATHERED: usize = 16 << 10;

/// A pool of another process of the same user, which has shared it ([`crate::Pool::share`]).
pub struct Guest {
    address: Address,
    here: Here,
    /// All connections of this guest have this number.
    number: u64,
    access: Option<Access>,
    timeout: Duration,
    keep_waiting: Option<fn() -> bool>,
    /// Readable once the host has ended; `None` where its process cannot be named from here.
    host: Option<Arc<OwnedFd>>,
    /// `None` where the pool has it for no more processes.
    memory: Option<Memory>,
    idle: Mutex<Vec<Line>>,
    lost: AtomicBool,
}

/// The pool's memory, and what it takes to read there. In the order in which they go.
struct Memory {
    parts: Attached,
    bell: OwnedFd,
    _line: Line,
}

/// An object of a shared pool, in one state, as a guest knows it.
#[derive(Debug)]
pub struct Remote {
    url: Arc<str>,
    stamp: Stamp,
    /// Its serial number in the pool, when it was read last; 0 before. Numbers are not used again.
    serial: AtomicU64,
}

impl Remote {
    /// An object, and the state that it is known to have.
    ///
    /// # Errors
    /// When the URL is too long.
    pub fn new(url: &str, stamp: Stamp) -> Result<Remote, Error> {
        check(&[url])?;
        Ok(Remote { url: url.into(), stamp, serial: AtomicU64::new(0) })
    }

    /// Its URL, as it was opened.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The state that it was opened in.
    #[must_use]
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Guest {
    /// Attaches to a pool. `timeout` should be the pool's own, `keep_waiting` is as in [`crate::Options`].
    ///
    /// # Errors
    /// [`Error::Host`] when the address is none, when nobody is there, and when it is not a pool of this user and version.
    pub fn attach(
        address: &str,
        timeout: Duration,
        keep_waiting: Option<fn() -> bool>,
    ) -> Result<Guest, Error> {
        Guest::attach_with(address, None, timeout, keep_waiting)
    }

    /// Attaches to the pool that a service has for this user, whose door ([`crate::Door`]) is at `socket`. Its stores are spoken
    /// to with `access`, and with nothing that the service has.
    ///
    /// # Errors
    /// [`Error::Host`] when no service is there, or it has no pool for this user.
    pub fn of_service(
        socket: &Path,
        access: Access,
        timeout: Duration,
        keep_waiting: Option<fn() -> bool>,
    ) -> Result<Guest, Error> {
        access.check().map_err(|why| Error::Host { why })?;
        let attach = || {
            let address = service::ask(socket)?;
            Guest::attach_with(&address, Some(access.clone()), timeout, keep_waiting)
        };
        // One that nobody has used for long may end just then; the next one is another one.
        attach().or_else(|_| attach())
    }

    fn attach_with(
        address: &str,
        access: Option<Access>,
        timeout: Duration,
        keep_waiting: Option<fn() -> bool>,
    ) -> Result<Guest, Error> {
        let no_address = || Error::Host { why: "its address is none".to_owned() };
        let address = Address::parse(address).ok_or_else(no_address)?;
        let mut number = [0; 8];
        let random = rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty());
        random.map_err(|error| gone(&error.into()))?;
        let mut guest = Guest {
            address,
            here: Here::new(),
            number: u64::from_ne_bytes(number),
            access,
            timeout,
            keep_waiting,
            host: None,
            memory: None,
            idle: Mutex::default(),
            lost: AtomicBool::new(false),
        };
        let (line, host) = guest.connect()?;
        guest.host = host;
        guest.put_back(line);
        guest.memory = guest.map().ok();
        Ok(guest)
    }

    /// Maps the pool's memory.
    fn map(&self) -> Result<Memory, Error> {
        let (mut line, _) = self.connect()?;
        let asked = Words::default().request(&Request::Memory).send(&mut line.reader.get_mut().stream);
        let map = || -> io::Result<Result<Memory, Error>> {
            asked?;
            let granted = match line.answer(|parts| parts.granted())? {
                Ok(granted) => granted,
                Err(error) => return Ok(Err(error)),
            };
            line.reader.read_exact(&mut [0])?;
            let received = std::mem::take(&mut line.reader.get_mut().received);
            let [data, board, bell]: [OwnedFd; DESCRIPTORS] =
                received.try_into().map_err(|_| wire::damaged("no memory came"))?;
            let parts = Attached::new(granted, &data, &board)?;
            Ok(Ok(Memory { parts, bell, _line: line }))
        };
        map().map_err(|error| gone(&error))?
    }

    /// Where the pool is shared, for others to attach to; `None` of a service's, to which each process goes by itself, with
    /// what its stores are spoken to with.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        self.access.is_none().then(|| self.address.to_string())
    }

    /// The host cannot be connected to any more: no further call will do better.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The states of objects, asked of their stores; with `known`, of those that are open already the states that they
    /// were opened in.
    ///
    /// # Errors
    /// [`Error::Host`], [`Error::Forked`], [`Error::Interrupted`]; what is wrong with one of them stands in its place.
    pub fn open_all(&self, urls: &[&str], known: bool) -> Result<Vec<Result<Stamp, Error>>, Error> {
        self.open_first(urls, known, &First::Nothing)
    }

    /// The same, with what is read first of each: [`crate::Pool::open_first`].
    ///
    /// # Errors
    /// As there.
    pub fn open_first(
        &self,
        urls: &[&str],
        known: bool,
        first: &First,
    ) -> Result<Vec<Result<Stamp, Error>>, Error> {
        let mut all = Vec::with_capacity(urls.len());
        for some in urls.chunks(OPENED_AT_ONCE) {
            check(some)?;
            let urls = some.iter().map(|&url| url.to_owned()).collect();
            let mut words = Words::default();
            words.request(&Request::Open { known, urls, first: first.clone() });
            all.extend(self.ask(&words, |line| {
                line.answer(|parts| {
                    some.iter().map(|_| parts.outcome(Parts::stamp)).collect::<io::Result<Vec<_>>>()
                })
            })?);
        }
        Ok(all)
    }

    /// [`crate::Pool::list`].
    ///
    /// # Errors
    /// As there, and [`Error::Host`].
    pub fn list(&self, url: &str, deep: bool) -> Result<Vec<Entry>, Error> {
        check(&[url])?;
        let mut words = Words::default();
        words.request(&Request::List { url: url.to_owned(), deep });
        self.ask(&words, |line| {
            let mut all = Vec::new();
            loop {
                match line.answer(|parts| parts.entries())? {
                    Ok(some) if some.is_empty() => return Ok(Ok(all)),
                    Ok(some) => all.extend(some),
                    Err(error) => return Ok(Err(error)),
                }
            }
        })
    }

    /// Fills `buffer` with the bytes of an object from `offset` on.
    ///
    /// # Errors
    /// As [`crate::Object::read_at`], and [`Error::Host`].
    pub fn read_at(&self, object: &Remote, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        if self.read_now(object, buffer, offset)? {
            return Ok(());
        }
        let mut words = Words::default();
        let reading = self.reading(now_ns());
        words.read((&object.url, &object.stamp, offset, buffer.len() as u64), reading);
        let serial = self.ask(&words, |line| {
            let mut rest = &mut *buffer;
            loop {
                let count = wire::receive_length(&mut line.reader)?;
                if count == 0 {
                    break;
                }
                let (mine, others) = std::mem::take(&mut rest)
                    .split_at_mut_checked(count)
                    .ok_or_else(|| wire::damaged("more bytes than asked for"))?;
                line.reader.read_exact(mine)?;
                rest = others;
            }
            let done = line.answer(|parts| parts.number())?;
            if done.is_ok() && !rest.is_empty() {
                return Err(wire::damaged("less bytes than asked for"));
            }
            Ok(done)
        });
        Reading::end(self.number, now_ns());
        object.serial.store(serial?, Ordering::Relaxed);
        Ok(())
    }

    /// Fills `buffer` if that takes no message, as [`crate::Object::read_now`] does.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn read_now(&self, object: &Remote, buffer: &mut [u8], offset: u64) -> Result<bool, Error> {
        if !self.here.is_here() {
            return Err(Error::Forked);
        }
        Ok(self.read_mapped(object, buffer, offset).is_some())
    }

    /// This thread begins to read. Threads of several processes may have the same address.
    fn reading(&self, now_ns: u64) -> Reading {
        let reading = Reading::begin(self.number, now_ns);
        Reading { reader: reading.reader ^ self.number, ..reading }
    }

    /// Reads what is there from the pool's memory.
    fn read_mapped(&self, object: &Remote, buffer: &mut [u8], offset: u64) -> Option<()> {
        let memory = self.memory.as_ref()?;
        let serial = object.serial.load(Ordering::Relaxed);
        let end = offset.checked_add(buffer.len() as u64)?;
        if serial == 0 || buffer.is_empty() || end > object.stamp.length {
            return None;
        }
        let part_bytes = memory.parts.part_bytes();
        let first = u32::try_from(offset / part_bytes).ok()?;
        let parts = end.div_ceil(part_bytes) - u64::from(first);
        let parts = u32::try_from(parts).ok().filter(|&parts| parts <= MOST_READ_PARTS)?;
        let at_ns = tick_ns();
        let Reading { reader, compute_ns } = self.reading(at_ns);
        let reference = Reference { serial, first, parts, at_ns, compute_ns, reader };
        let tell = memory.parts.read(reference, (offset % part_bytes) as usize, buffer)?;
        if tell != Tell::Nothing {
            // When it is full of wishes, the host knows.
            let _ = rustix::net::send(&memory.bell, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        Reading::end(self.number, at_ns);
        Some(())
    }

    /// Says what this process will read, in this order, after all that it said before. Gives how many of the ranges were
    /// taken, as [`crate::Pool::disclose`].
    ///
    /// # Errors
    /// As there, and [`Error::Host`].
    pub fn disclose(&self, ranges: &[(&Remote, u64, u64)]) -> Result<usize, Error> {
        let mut all = 0;
        for some in ranges.chunks(MOST_RANGES) {
            let mut words = Words::default();
            words.disclose(some.iter().map(|(one, at, length)| (&*one.url, &one.stamp, *at, *length)));
            let taken = self.ask(&words, |line| line.answer(|parts| parts.number()))?;
            all += usize::try_from(taken).unwrap_or(usize::MAX).min(some.len());
            if taken < some.len() as u64 {
                break;
            }
        }
        Ok(all)
    }

    /// Withdraws what this process has disclosed and not read yet.
    ///
    /// # Errors
    /// [`Error::Host`], [`Error::Forked`].
    pub fn cancel(&self) -> Result<(), Error> {
        self.ask(Words::default().request(&Request::Cancel), |line| line.answer(|_| Ok(())))
    }

    /// [`crate::Object::direct`], of what this process reads.
    ///
    /// # Errors
    /// As there, and [`Error::Host`].
    pub fn direct(&self, object: &Remote, directive: Directive) -> Result<(), Error> {
        let (url, stamp) = (object.url.to_string(), object.stamp.clone());
        let request = Request::Direct { url, stamp, directive };
        self.ask(Words::default().request(&request), |line| line.answer(|_| Ok(())))
    }

    /// [`crate::Pool::set_policy`], of what this process reads.
    ///
    /// # Errors
    /// As there, and [`Error::Host`].
    pub fn set_policy(&self, priority: i32, policy: PoolPolicy) -> Result<(), Error> {
        let request = Request::Policy { priority, policy };
        self.ask(Words::default().request(&request), |line| line.answer(|_| Ok(())))
    }

    /// How the pool fares.
    ///
    /// # Errors
    /// [`Error::Host`], [`Error::Forked`].
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.ask(Words::default().request(&Request::Statistics), |line| {
            line.answer(|parts| parts.statistics())
        })
    }

    // ---- connections ----

    /// One request and its answer.
    fn ask<T>(
        &self,
        words: &Words,
        answer: impl FnOnce(&mut Line) -> io::Result<Result<T, Error>>,
    ) -> Result<T, Error> {
        if !self.here.is_here() {
            return Err(Error::Forked);
        }
        let idle = self.idle().pop();
        let mut line = match idle {
            Some(line) => line,
            None => self.connect_again()?,
        };
        line.reader.get_mut().begin(self.keep_waiting);
        let answered = words.send(&mut line.reader.get_mut().stream).and_then(|()| answer(&mut line));
        match answered {
            Ok(outcome) => {
                self.put_back(line);
                outcome
            }
            // What is left of the answer is of no use to the next call, and goes with the connection.
            Err(error) => match error.downcast::<Error>() {
                Ok(error) => Err(error),
                Err(error) => {
                    self.idle().clear();
                    // Whether it is gone for good.
                    let _ = self.connect_again();
                    Err(gone(&error))
                }
            },
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_back(&self, line: Line) {
        let mut idle = self.idle();
        if idle.len() < MOST_IDLE {
            idle.push(line);
        }
    }

    fn connect_again(&self) -> Result<Line, Error> {
        let connected = self.connect();
        if matches!(connected, Err(Error::Host { .. })) {
            self.lost.store(true, Ordering::Relaxed);
        }
        Ok(connected?.0)
    }

    /// A new connection, and the process at its other end.
    fn connect(&self) -> Result<(Line, Option<Arc<OwnedFd>>), Error> {
        let connect = || {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            let stream = UnixStream::from(socket);
            // Where nobody takes connections they queue, and at last they wait.
            stream.set_write_timeout(Some(GREETING))?;
            rustix::net::connect(
                &stream,
                &SocketAddrUnix::new_abstract_name(self.address.name().as_bytes())?,
            )?;
            let peer = rustix::net::sockopt::socket_peercred(&stream)?;
            if peer.uid != rustix::process::geteuid() {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied));
            }
            let host = match &self.host {
                Some(host) => Some(host.clone()),
                None => match rustix::process::pidfd_open(peer.pid, PidfdFlags::empty()) {
                    Ok(host) => Some(Arc::new(host)),
                    // A child of it, which has all that it had open, takes connections that nobody answers.
                    Err(Errno::SRCH) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    Err(_) => None,
                },
            };
            stream.set_read_timeout(Some(ASKED))?;
            stream.set_write_timeout(Some(self.timeout + GRACE))?;
            Ok((stream, host))
        };
        let (stream, host) = connect().map_err(|error| gone(&error))?;
        let patience = Patience::new(self.keep_waiting);
        let patient =
            Patient { stream, host: host.clone(), longest: GREETING, patience, received: Vec::new() };
        let mut line = Line { reader: BufReader::with_capacity(GATHERED, patient) };
        let (secret, access) = (self.address.secret, self.access.clone());
        let hello = Hello { version: VERSION, secret, guest: self.number, access };
        let greeted = Words::default()
            .hello(&hello)
            .send(&mut line.reader.get_mut().stream)
            .and_then(|()| line.answer(|_| Ok(())));
        greeted.map_err(|error| error.downcast::<Error>().unwrap_or_else(|error| gone(&error)))??;
        line.reader.get_mut().longest = self.timeout + GRACE;
        Ok((line, host))
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the address, which is a secret.
        f.debug_struct("Guest").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

fn gone(error: &io::Error) -> Error {
    Error::Host { why: format!("the process that has it does not answer ({error})") }
}

/// URLs are no longer than a host takes them.
fn check(urls: &[&str]) -> Result<(), Error> {
    match urls.iter().find(|url| url.len() > MOST_TEXT) {
        None => Ok(()),
        Some(&url) => {
            let why = format!("longer than {MOST_TEXT} bytes");
            Err(Error::NotAUrl { url: url.chars().take(100).collect(), why })
        }
    }
}

/// A connection.
struct Line {
    reader: BufReader<Patient>,
}

impl Line {
    /// The next frame, of an answer that went well or did not.
    fn answer<T>(
        &mut self,
        get: impl FnOnce(&mut Parts<'_>) -> io::Result<T>,
    ) -> io::Result<Result<T, Error>> {
        let frame = wire::receive(&mut self.reader)?;
        Parts(&frame).outcome(get)
    }
}

/// A socket whose reads end when nobody is at its other end, or wants to wait any more.
struct Patient {
    stream: UnixStream,
    host: Option<Arc<OwnedFd>>,
    longest: Duration,
    patience: Patience,
    /// Descriptors that came.
    received: Vec<OwnedFd>,
}

impl Patient {
    /// A call begins.
    fn begin(&mut self, keep_waiting: Option<fn() -> bool>) {
        self.patience = Patience::new(keep_waiting);
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let got = rustix::net::recvmsg(&self.stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.received = descriptors.collect();
            }
        }
        Ok(got.bytes)
    }

    fn host_has_ended(&self) -> bool {
        let Some(host) = &self.host else { return false };
        let mut polled = [PollFd::new(host, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default()))
            .is_ok_and(|ready| ready > 0)
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.receive(buffer) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                other => return other,
            }
            self.patience.ask().map_err(io::Error::other)?;
            if self.host_has_ended() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if began.elapsed() > self.longest {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
