//! A client as simple as can be: it says what the test wants it to say, right or wrong.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use foretell_protocol::frame::Arrival;
use foretell_protocol::message::Message;
use foretell_protocol::{
    Entry, ErrorCode, Handle, PROTOCOL, Part, Parts, Producer, Range, Reader, Reply, Request, Statistics,
    Welcome, socket,
};
use foretelld::Snapshot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Far longer than anything takes: only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection, with a ring or without.
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) ring: Option<Producer>,
    pub(crate) welcome: Option<Welcome>,
    reader: Reader,
}

impl Client {
    /// Connects and says nothing. Whose the service is does not matter here, unlike to a program's library.
    pub(crate) fn silent(path: &Path) -> Client {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Client { socket: socket.into(), ring: None, welcome: None, reader: Reader::new() }
    }

    /// A client with a ring of 64 entries.
    pub(crate) fn connect(path: &Path) -> Client {
        let mut client = Client::silent(path);
        client.greet();
        client
    }

    /// The command: without a ring.
    pub(crate) fn command(path: &Path) -> Client {
        let mut client = Client::silent(path);
        client.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None });
        client.welcomed();
        client
    }

    pub(crate) fn greet(&mut self) {
        self.hello();
        self.welcomed();
    }

    /// Greets, without waiting for the answer.
    pub(crate) fn hello(&mut self) {
        self.hello_with(64);
    }

    /// The same with a ring of so many entries.
    pub(crate) fn hello_with(&mut self, entries: u32) {
        let (ring, memory) = Producer::create(entries).unwrap();
        let hello = Request::Hello { protocol: PROTOCOL, ring_entries: Some(entries) };
        self.send_with(&hello, &[memory.as_fd()]);
        self.ring = Some(ring);
    }

    fn welcomed(&mut self) {
        match self.reply() {
            Some(Reply::Welcome(welcome)) => self.welcome = Some(welcome),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.send_with(request, &[]);
    }

    pub(crate) fn send_with(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.send_bytes(&bytes, descriptors);
    }

    /// Sends bytes; a service that has closed is not minded.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut rest = bytes;
        let mut descriptors = descriptors;
        let start = Instant::now();
        while !rest.is_empty() {
            match socket::send(self.socket.as_fd(), rest, descriptors) {
                Ok(0) => {
                    assert!(start.elapsed() < PATIENCE, "the service does not read");
                    self.wait(PollFlags::OUT);
                }
                Ok(sent) => (rest, descriptors) = (&rest[sent..], &[]),
                Err(_) => return,
            }
        }
    }

    fn wait(&self, flags: PollFlags) {
        let mut fds = [PollFd::new(&self.socket, flags)];
        let soon = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut fds, Some(&soon)).unwrap();
    }

    /// The next reply; `None` when the service has closed.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let start = Instant::now();
        loop {
            if let Some(frame) = self.reader.next_frame::<Reply>().unwrap() {
                return Some(frame.message);
            }
            match self.reader.receive(self.socket.as_fd()) {
                Ok(Arrival::Bytes) => {}
                Ok(Arrival::Nothing) => {
                    assert!(start.elapsed() < PATIENCE, "no reply");
                    self.wait(PollFlags::IN);
                }
                Ok(Arrival::Closed) | Err(_) => return None,
            }
        }
    }

    /// A reply that is there already.
    pub(crate) fn reply_at_once(&mut self) -> Option<Reply> {
        let _ = self.reader.receive(self.socket.as_fd());
        self.reader.next_frame::<Reply>().unwrap().map(|frame| frame.message)
    }

    /// The next reply, which refuses something.
    pub(crate) fn error(&mut self) -> (ErrorCode, Option<Handle>) {
        match self.reply() {
            Some(Reply::Error { code, handle, text }) => {
                assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
                (code, handle)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The service's last word; it closes behind it.
    pub(crate) fn ended(&mut self) -> ErrorCode {
        let code = loop {
            match self.reply() {
                Some(Reply::Ended { code, text }) => {
                    assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
                    break code;
                }
                Some(Reply::Error { .. } | Reply::Welcome(_)) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(self.reply().is_none(), "closed");
        code
    }

    pub(crate) fn name(&mut self, number: u32, descriptor: impl AsFd) -> Handle {
        let handle = Handle::new(number).unwrap();
        let file = Request::File { handle, number: descriptor.as_fd().as_raw_fd().cast_unsigned() };
        self.send_with(&file, &[descriptor.as_fd()]);
        handle
    }

    pub(crate) fn name_path(&mut self, number: u32, path: &Path) -> Handle {
        self.name(number, File::open(path).unwrap())
    }

    /// Puts an entry into the ring and wakes the service if it sleeps.
    pub(crate) fn push(&mut self, entry: Entry) {
        let start = Instant::now();
        while !self.ring.as_mut().unwrap().push(&entry, 0) {
            assert!(start.elapsed() < PATIENCE, "the service does not read the ring");
            std::thread::yield_now();
        }
        if self.ring.as_mut().unwrap().publish() {
            self.send(&Request::Wake);
        }
    }

    /// What the service says of this session, once it has read all of the ring.
    pub(crate) fn statistics(&mut self) -> Statistics {
        self.send(&Request::Stats);
        loop {
            match self.reply() {
                Some(Reply::Stats(statistics)) => return statistics,
                Some(Reply::Error { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Asks until the statistics are as wanted.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
        let start = Instant::now();
        loop {
            let statistics = self.statistics();
            if is_so(&statistics) {
                return statistics;
            }
            assert!(start.elapsed() < PATIENCE, "never: {what}: {statistics:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn status(&mut self, request: &str) -> Snapshot {
        self.send(&Request::Status(Part { more: false, text: request.to_owned() }));
        let mut parts = Parts::default();
        loop {
            match self.reply() {
                Some(Reply::Status(part)) => {
                    if let Some(text) = parts.add(&part).unwrap() {
                        return serde_json::from_str(&text).unwrap();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn range(start: u64, length: u64) -> Range {
    Range::new(start, length).unwrap()
}
