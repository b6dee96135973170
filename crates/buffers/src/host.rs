//! A pool whose bytes other processes of the user read, too: the side that has it.
//!
//! The host listens on a socket without a file (an abstract address, gone with the process). Who connects must be of the
//! same user and know the secret, which with the address is what [`crate::Pool::share`] gives. Others are turned away by a
//! thread that does nothing else ([`foretell_door`]), and cannot send it anything that hurts. Each connection has a thread
//! here, which reads from the pool as any other thread of the process does; so a guest that dies leaves nothing behind.
//!
//! References of guests count as the host's own, so that what the host disclosed is found where a child of it reads. A
//! guest that discloses something itself becomes a manager of its own to the engine, and ends with its last connection.
//!
//! Guests map the pool's memory as well ([`crate::memory`]), and come here for what they do not find there.

use std::cell::Cell;
use std::io::{self, BufWriter, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::sync::{Arc, Weak};
use std::time::Duration;

use foretell_door::{Closer, Credentials, Descriptors, Keeping, Porter, Visitor};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::access::Access;
use crate::error::Error;
use crate::guests::{Address, Host};
use crate::pool::{Object, Pool};
use crate::shared::Shared;
use crate::source::Entry;
use crate::who::{By, Who};
use crate::wire::{self, Hello, MOST_RANGES, Parts, Request, VERSION, Words};

/// Connections of guests at a time; each has a thread.
const MOST_CONNECTIONS: usize = 1024;
/// Objects that are held open for guests; beyond, the half that was used longest ago is closed.
const MOST_HELD: usize = 1 << 17;
/// Who connects must greet by then, and is greeted by then.
pub(crate) const GREETING: Duration = Duration::from_secs(10);
/// Descriptors of the pool's memory: data, board, bell.
pub(crate) const DESCRIPTORS: usize = 3;
/// What an answer is gathered in before it is sent.
const GATHERED: usize = 64 << 10;

impl Pool {
    /// What other processes of this user attach to ([`crate::Guest::attach`]), as long as this one has the pool. It is a
    /// secret: who knows it reads with this process's credentials.
    ///
    /// # Errors
    /// When nothing can be connected to.
    pub fn share(&self) -> Result<String, Error> {
        self.shared().is_ours()?;
        Ok(self.shared().host(begin)?.address.to_string())
    }

    /// Connections of other processes that there are, and how many there ever were.
    pub(crate) fn guests(&self) -> (usize, u64) {
        let Ok(host) = self.shared().host(begin) else { return (0, 0) };
        let guests = host.guests();
        (guests.streams.len(), guests.begun)
    }
}

/// Listens for guests as long as the pool is there.
fn begin(shared: &Arc<Shared>) -> Result<Arc<Host>, Error> {
    let refused = |error: io::Error| Error::Host { why: format!("no guest can connect ({error})") };
    let address = Address::new().map_err(refused)?;
    let listener =
        SocketAddr::from_abstract_name(address.name()).and_then(|name| UnixListener::bind_addr(&name));
    let listener = listener.map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let (bell, heard) = UnixDatagram::pair().map_err(refused)?;
    heard.set_nonblocking(true).map_err(refused)?;
    let host = Arc::new(Host::new(address, bell));
    shared.spawn(hear(heard, Arc::downgrade(shared)))?;
    let porter = open_door(listener, Arc::downgrade(shared), Arc::downgrade(&host)).map_err(refused)?;
    host.keep(porter);
    Ok(host)
}

impl Host {
    /// Keeps an object open, so that its bytes stay between two reads of a guest.
    fn hold(&self, object: &Object) {
        let mut guests = self.guests();
        guests.uses += 1;
        let now = guests.uses;
        let key = (object.store(), object.url().to_owned());
        if let Some((held, used)) = guests.held.get_mut(&key)
            && object.is(held)
        {
            *used = now;
            return;
        }
        let mut closed = Vec::new();
        if guests.held.len() >= MOST_HELD {
            let mut uses: Vec<u64> = guests.held.values().map(|(_, used)| *used).collect();
            let (_, middle, _) = uses.select_nth_unstable(MOST_HELD / 2);
            let middle = *middle;
            let old = guests.held.extract_if(|_, (_, used)| *used < middle);
            closed.extend(old.map(|(_, (held, _))| held));
        }
        let other = guests.held.insert(key, (object.held(), now));
        closed.extend(other.map(|(held, _)| held));
        drop(guests);
        object.release(closed);
    }
}

/// Tells the engine what guests have read without asking.
async fn hear(bell: UnixDatagram, shared: Weak<Shared>) {
    let Ok(bell) = tokio::net::UnixDatagram::from_std(bell) else { return };
    while bell.recv(&mut [0]).await.is_ok() {
        let Some(shared) = shared.upgrade() else { return };
        let mut state = shared.state();
        shared.pump(&mut state);
    }
}

/// Lets guests in as long as the pool is there: who is of another user is turned away.
fn open_door(listener: UnixListener, shared: Weak<Shared>, host: Weak<Host>) -> io::Result<Porter> {
    let keeping = Keeping {
        name: "foretell door",
        // Guests send none; strangers would send those that hurt whoever closes them.
        descriptors: Descriptors::Never,
        closer: Closer::start()?,
        goes_first: false,
    };
    let mine = rustix::process::geteuid().as_raw();
    let account = move |peer: Credentials| (peer.user == mine).then_some(mine);
    let connected = Arc::new(());
    let welcome = move |visitor: Visitor| {
        let stream = UnixStream::from(visitor.socket.into_inner());
        // This one has a copy, too.
        if Arc::strong_count(&connected) > MOST_CONNECTIONS || stream.set_nonblocking(false).is_err() {
            return;
        }
        let (shared, host, connected) = (shared.clone(), host.clone(), Arc::clone(&connected));
        // Without a thread the stream is dropped, and the guest told so by that.
        let _ = std::thread::Builder::new().name("foretell guest".to_owned()).spawn(move || {
            Connection::serve(stream, &shared, &host);
            drop(connected);
        });
    };
    Porter::start(keeping, listener.into(), account, welcome)
}

/// A connection of a guest, of which its thread is the reader.
struct Connection {
    host: Weak<Host>,
    shared: Weak<Shared>,
    number: u64,
    guest: u64,
    stream: UnixStream,
    /// What its stores are spoken to with.
    access: Option<Arc<Access>>,
    /// The first of the lanes that this connection asked for.
    lanes: Cell<Option<u32>>,
}

impl Connection {
    fn serve(mut stream: UnixStream, shared: &Weak<Shared>, host: &Weak<Host>) {
        if let Ok(hello) = greet(&mut stream, host)
            && let Some(connection) = Connection::new(stream, hello, shared, host)
        {
            // Its end is the guest's, or what a guest of ours does not say.
            let _ = connection.answer_all();
        }
    }

    fn new(stream: UnixStream, hello: Hello, shared: &Weak<Shared>, host: &Weak<Host>) -> Option<Connection> {
        let Hello { guest, access, .. } = hello;
        let upgraded = host.upgrade()?;
        // Who does not take what was asked for keeps memory from others.
        stream.set_write_timeout(Some(shared.upgrade()?.options.timeout)).ok()?;
        let mut guests = upgraded.guests();
        if guests.streams.len() >= MOST_CONNECTIONS {
            return None;
        }
        guests.begun += 1;
        let number = guests.begun;
        guests.streams.insert(number, stream.try_clone().ok()?);
        guests.by_number.entry(guest).or_default().connections += 1;
        Some(Connection {
            host: host.clone(),
            shared: shared.clone(),
            number,
            guest,
            stream,
            access: access.map(Arc::new),
            lanes: Cell::default(),
        })
    }

    fn answer_all(&self) -> io::Result<()> {
        loop {
            let frame = wire::receive(&mut &self.stream)?;
            let request = Parts(&frame).request()?;
            let (Some(shared), Some(host)) = (self.shared.upgrade(), self.host.upgrade()) else {
                return Ok(());
            };
            let mut to = BufWriter::with_capacity(GATHERED, &self.stream);
            let with_memory = request == Request::Memory;
            self.answer(request, &Pool::of(shared.clone(), self.access.clone()), &host, &mut to)?;
            to.flush()?;
            if with_memory && let Some(first) = self.lanes.get() {
                let (_, [data, board]) = shared.arena.granted(first);
                send_descriptors(&self.stream, &[data, board, host.bell.as_fd()])?;
            }
        }
    }

    fn answer(&self, request: Request, pool: &Pool, host: &Host, to: &mut impl Write) -> io::Result<()> {
        let mut words = Words::default();
        match request {
            Request::Open { known, urls, first } => {
                let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                match pool.open_some(&urls, known, &first) {
                    Err(error) => _ = words.byte(0).error(&error),
                    Ok(objects) => {
                        words.byte(1);
                        for object in objects {
                            match object {
                                Err(error) => _ = words.byte(0).error(&error),
                                Ok(object) => {
                                    host.hold(&object);
                                    words.byte(1).stamp(object.stamp());
                                }
                            }
                        }
                    }
                }
                words.send(to)
            }
            Request::List { url, deep } => match pool.list(&url, deep) {
                Err(error) => words.byte(0).error(&error).send(to),
                Ok(entries) => send_entries(&entries, to),
            },
            Request::Read { url, stamp, offset, length, reading } => {
                let by = By { who: self.who(host), reading };
                let mut serial = 0;
                let mut failed = None;
                let outcome = pool.open_listed(&url, stamp).and_then(|object| {
                    host.hold(&object);
                    serial = object.serial();
                    object.read_to(offset, length, by, &mut |bytes| {
                        let length = (bytes.len() as u32).to_le_bytes();
                        let sent = to.write_all(&length).and_then(|()| to.write_all(bytes));
                        sent.map_err(|error| failed = Some(error)).is_ok()
                    })
                });
                if let Some(failed) = failed {
                    return Err(failed);
                }
                to.write_all(&0_u32.to_le_bytes())?;
                match outcome {
                    Ok(()) => words.byte(1).number(serial),
                    Err(error) => words.byte(0).error(&error),
                }
                .send(to)
            }
            Request::Memory => match self.lanes(host, pool) {
                Some(first) => words.byte(1).granted(pool.shared().arena.granted(first).0),
                None => {
                    words.byte(0).error(&Error::Host { why: "as many processes as may map it".to_owned() })
                }
            }
            .send(to),
            Request::Disclose(ranges) => {
                let taken = self.own(host, pool).and_then(|who| {
                    let objects: Result<Vec<_>, Error> = ranges
                        .into_iter()
                        .map(|(url, stamp, offset, length)| {
                            let object = pool.open_listed(&url, stamp)?;
                            host.hold(&object);
                            Ok((object, offset, length))
                        })
                        .collect();
                    let objects = objects?;
                    let ranges: Vec<_> =
                        objects.iter().map(|(object, at, length)| (object, *at, *length)).collect();
                    pool.disclose_as(&ranges, who)
                });
                match taken {
                    Ok(taken) => words.byte(1).number(taken as u64),
                    Err(error) => words.byte(0).error(&error),
                }
                .send(to)
            }
            Request::Cancel => {
                let outcome = match self.who(host) {
                    Some(who) => pool.cancel_as(Some(who)),
                    // It has disclosed nothing.
                    None => Ok(()),
                };
                done(&mut words, outcome).send(to)
            }
            Request::Direct { url, stamp, directive } => {
                let outcome = self.own(host, pool).and_then(|who| {
                    let object = pool.open_listed(&url, stamp)?;
                    host.hold(&object);
                    object.direct_as(directive, who)
                });
                done(&mut words, outcome).send(to)
            }
            Request::Policy { priority, policy } => {
                let outcome = self.own(host, pool).and_then(|who| pool.set_policy_as(priority, policy, who));
                done(&mut words, outcome).send(to)
            }
            Request::Statistics => match pool.statistics() {
                Ok(counts) => words.byte(1).statistics(&counts),
                Err(error) => words.byte(0).error(&error),
            }
            .send(to),
        }
    }

    fn who(&self, host: &Host) -> Option<Who> {
        host.guests().by_number.get(&self.guest)?.who
    }

    /// The guest as a manager of its own.
    fn own(&self, host: &Host, pool: &Pool) -> Result<Option<Who>, Error> {
        let mut guests = host.guests();
        let Some(guest) = guests.by_number.get_mut(&self.guest) else { return Ok(None) };
        if guest.who.is_none() {
            let who = pool.begin_manager()?;
            guest.who = Some(who);
            if let Some(first) = guest.lanes {
                pool.shared().state().set_lanes_of(first, who);
            }
        }
        Ok(guest.who)
    }

    /// The lanes of the guest, once.
    fn lanes(&self, host: &Host, pool: &Pool) -> Option<u32> {
        let mut guests = host.guests();
        let guest = guests.by_number.get_mut(&self.guest).filter(|guest| guest.lanes.is_none())?;
        guest.lanes = pool.shared().state().grant_lanes(guest.who);
        self.lanes.set(guest.lanes);
        guest.lanes
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (Some(shared), Some(host)) = (self.shared.upgrade(), self.host.upgrade()) else { return };
        let mut guests = host.guests();
        guests.streams.remove(&self.number);
        let Some(guest) = guests.by_number.get_mut(&self.guest) else { return };
        guest.connections -= 1;
        if let Some(first) = self.lanes.get() {
            guest.lanes = None;
            shared.state().release_lanes(first);
        }
        if guest.connections == 0 {
            let who = guest.who;
            guests.by_number.remove(&self.guest);
            drop(guests);
            if let Some(who) = who {
                Pool::of(shared, None).end_manager(who);
            }
        }
    }
}

/// Who it is that connected; everything else is told why not, or nothing.
fn greet(stream: &mut UnixStream, host: &Weak<Host>) -> io::Result<Hello> {
    stream.set_read_timeout(Some(GREETING))?;
    let hello = Parts(&wire::receive(stream)?).hello()?;
    let host = host.upgrade().ok_or(io::ErrorKind::NotConnected)?;
    let mut words = Words::default();
    if hello.version != VERSION {
        let why = format!("the pool's process speaks version {VERSION} of this, and not {}", hello.version);
        words.byte(0).error(&Error::Host { why }).send(stream)?;
        return Err(io::ErrorKind::Unsupported.into());
    }
    if hello.secret != host.address.secret {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    words.byte(1).send(stream)?;
    stream.set_read_timeout(None)?;
    Ok(hello)
}

/// Sends a byte that has descriptors with it.
fn send_descriptors<const N: usize>(to: &UnixStream, descriptors: &[BorrowedFd<'_>; N]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::net::sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A call that gives nothing but its end.
fn done(words: &mut Words, outcome: Result<(), Error>) -> &mut Words {
    match outcome {
        Ok(()) => words.byte(1),
        Err(error) => words.byte(0).error(&error),
    }
}

/// Frames of entries, the last one empty.
fn send_entries(entries: &[Entry], to: &mut impl Write) -> io::Result<()> {
    for some in entries.chunks(MOST_RANGES).chain([&[][..]]) {
        Words::default().byte(1).entries(some).send(to)?;
    }
    Ok(())
}
