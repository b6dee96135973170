//! One connection to a service: the socket, the ring, and what the service has said.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use foretell_protocol::frame::Arrival;
use foretell_protocol::limits::{self, RING_ENTRIES};
use foretell_protocol::message::Message;
use foretell_protocol::{
    Bucket, Entry, ErrorCode, Handle, Outbox, PROTOCOL, Producer, Reader, Reply, Request, RingError,
    Statistics, Welcome, socket,
};
use rustix::io::Errno;

/// Slots of the ring that hints leave free for directives.
const SPARE: u32 = 64;
/// Bytes that may wait because the socket took only the first part of a frame.
const WAITING_BYTES: usize = 64 << 10;
/// Looks at the socket in one check; a service that talks more than that is listened to in the next.
const LOOKS: usize = 16;
/// Refusals remembered between two checks.
const REFUSALS: usize = 1024;

/// The number of the socket of a client, -1 while it has none.
#[derive(Debug, Clone)]
pub(crate) struct SocketNumber(Arc<AtomicI32>);

impl Default for SocketNumber {
    fn default() -> SocketNumber {
        SocketNumber(Arc::new(AtomicI32::new(-1)))
    }
}

impl SocketNumber {
    fn set(&self, number: RawFd) {
        self.0.store(number, Relaxed);
    }

    /// Closes the socket, in a forked child that will never use its parent's session. Once.
    pub(crate) fn close(&self) {
        let number = self.0.swap(-1, Relaxed);
        if number >= 0 {
            // SAFETY: in this process the number belongs to the session of the parent, which nobody in here
            // can reach any longer: its owner was leaked or is never touched again.
            unsafe { rustix::io::close(number) };
        }
    }
}

/// A connection that stood when it was last looked at.
#[derive(Debug)]
pub(crate) struct Session {
    socket: OwnedFd,
    number: SocketNumber,
    producer: Producer,
    reader: Reader,
    outbox: Outbox,
    /// The greeting and the ring's memory, until they could be sent.
    greeting: Option<(Vec<u8>, OwnedFd)>,
    /// Messages that may be sent: a service ends the session of who sends too many.
    messages: Bucket,
    /// The time, as last told.
    now: Duration,
    welcome: Option<Welcome>,
    /// Files that the service knows.
    files: usize,
    /// Files that the service does not take.
    refused: Vec<Handle>,
    lost: bool,
}

impl Session {
    /// Connects and greets, without waiting for the answer.
    pub(crate) fn open(path: &Path, number: &SocketNumber, now: Duration) -> io::Result<Session> {
        let socket = socket::connect(path)?;
        let (producer, memory) = Producer::create(RING_ENTRIES).map_err(|error| match error {
            RingError::System(error) => error,
            other => io::Error::other(other),
        })?;
        let mut hello = Vec::new();
        Request::Hello { protocol: PROTOCOL, ring_entries: Some(RING_ENTRIES) }.encode(&mut hello);
        number.set(socket.as_raw_fd());
        let mut session = Session {
            socket,
            number: number.clone(),
            producer,
            reader: Reader::new(),
            outbox: Outbox::new(WAITING_BYTES),
            greeting: Some((hello, memory)),
            messages: Bucket::new(limits::MESSAGES_PER_S, limits::MESSAGES_BURST),
            now,
            welcome: None,
            files: 0,
            refused: Vec::new(),
            lost: false,
        };
        session.greet()?;
        Ok(session)
    }

    /// Sends the greeting, if that has not been done; says whether it has. A service that takes descriptors only from
    /// those whom it has let in hears it later.
    fn greet(&mut self) -> io::Result<bool> {
        let Some((hello, memory)) = &self.greeting else { return Ok(true) };
        match socket::send(self.socket.as_fd(), hello, &[memory.as_fd()])? {
            0 => return Ok(false),
            sent if sent < hello.len() => return Err(io::ErrorKind::WouldBlock.into()),
            _ => self.greeting = None,
        }
        Ok(true)
    }

    /// The connection has ended, as far as known.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// What the service allows, once it has said so.
    pub(crate) fn welcome(&self) -> Option<&Welcome> {
        self.welcome.as_ref()
    }

    /// Time has passed: there is more that may be said.
    pub(crate) fn pass_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// Hears what the service has said, and finds out whether it is still there.
    pub(crate) fn check(&mut self) {
        for _ in 0..LOOKS {
            match self.reader.receive(self.socket.as_fd()) {
                Ok(Arrival::Nothing) => break,
                Ok(Arrival::Closed) | Err(_) => self.lost = true,
                Ok(Arrival::Bytes) => self.hear(),
            }
            if self.lost {
                return;
            }
        }
        if self.greet().is_err() || self.outbox.flush(self.socket.as_fd()).is_err() {
            self.lost = true;
        }
    }

    fn hear(&mut self) {
        loop {
            match self.reader.next_frame::<Reply>() {
                Ok(None) => return,
                Ok(Some(frame)) => match frame.message {
                    Reply::Welcome(welcome) => self.welcome = Some(welcome),
                    Reply::Error { code, handle: Some(handle), .. }
                        if refuses_file(code) && self.refused.len() < REFUSALS =>
                    {
                        self.refused.push(handle);
                    }
                    Reply::Ended { .. } => self.lost = true,
                    // What was refused shows in the statistics; the rest answers what is never asked.
                    Reply::Error { .. } | Reply::Stats(_) | Reply::Status(_) | Reply::Run(_) => {}
                },
                Err(_) => {
                    self.lost = true;
                    return;
                }
            }
        }
    }

    /// The files that the service has refused since the last time.
    pub(crate) fn take_refused(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.refused)
    }

    /// Tells the service about files, at most as many as one message may carry. Returns whether it could be
    /// sent.
    pub(crate) fn send_files(&mut self, files: &[(Handle, BorrowedFd<'_>)]) -> bool {
        if files.is_empty() {
            return true;
        }
        let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
        if !self.messages.holds(count, self.now) {
            return false;
        }
        let mut frames = Vec::new();
        let mut descriptors = Vec::with_capacity(files.len());
        for (handle, descriptor) in files {
            // An open descriptor has a number that is not negative.
            let number = descriptor.as_raw_fd().cast_unsigned();
            Request::File { handle: *handle, number }.encode(&mut frames);
            descriptors.push(*descriptor);
        }
        let sent = self.send(&frames, &descriptors);
        if sent {
            self.files += files.len();
            self.messages.take(count, self.now);
        }
        sent
    }

    /// Files that the service knows.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// Tells the service that a handle is free again. Returns whether it could be sent.
    pub(crate) fn forget(&mut self, handle: Handle) -> bool {
        // Nothing is forgotten but for another file, which needs a message, too.
        if !self.messages.holds(2, self.now) {
            return false;
        }
        let mut frame = Vec::new();
        Request::Forget { handle }.encode(&mut frame);
        let sent = self.send(&frame, &[]);
        if sent {
            self.files -= 1;
            self.messages.take(1, self.now);
        }
        sent
    }

    /// Sends all of it, if not at once then before anything else. Returns whether that is so.
    fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        match self.greet() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => {
                self.lost = true;
                return false;
            }
        }
        match self.outbox.flush(self.socket.as_fd()) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => {
                self.lost = true;
                return false;
            }
        }
        match socket::send(self.socket.as_fd(), bytes, descriptors) {
            Ok(0) => false,
            Ok(sent) => {
                // Less than what may wait, so there is room.
                self.lost |= self.outbox.push_bytes(&bytes[sent..]).is_err();
                true
            }
            Err(error) => {
                // A descriptor that another thread has closed meanwhile says nothing about the connection.
                self.lost |= error.raw_os_error() != Some(Errno::BADF.raw_os_error());
                false
            }
        }
    }

    /// Writes a hint, to be seen by the service after [`Session::publish`]. Returns whether there was room.
    pub(crate) fn push_hint(&mut self, entry: &Entry) -> bool {
        self.producer.push(entry, SPARE)
    }

    /// The same for a directive, which may use the last slots.
    pub(crate) fn push_directive(&mut self, entry: &Entry) -> bool {
        self.producer.push(entry, 0)
    }

    /// Counts a hint that found no room.
    pub(crate) fn count_dropped(&self, entries: u64) {
        self.producer.count_dropped(entries);
    }

    /// Shows the service what was written, and wakes it if it sleeps.
    pub(crate) fn publish(&mut self) {
        if self.producer.publish() {
            let mut frame = Vec::new();
            Request::Wake.encode(&mut frame);
            // A service with a full socket has reason enough to look.
            self.send(&frame, &[]);
        }
    }

    /// The number of entries written so far.
    pub(crate) fn position(&self) -> u64 {
        self.producer.position()
    }

    /// The number of entries that the service has read.
    pub(crate) fn consumed(&self) -> u64 {
        self.producer.consumed()
    }

    /// How the session fares, as the service last said.
    pub(crate) fn statistics(&self) -> Option<Statistics> {
        self.producer.statistics()
    }

    /// The entries still in the ring, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = Entry> + '_ {
        self.producer.newest_first()
    }
}

/// Does the service not take the file for the rest of the session?
fn refuses_file(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::Files | E::NotAFile | E::NotReadable | E::HandleInUse | E::NotSteerable | E::FileRefused
    )
}

impl Drop for Session {
    fn drop(&mut self) {
        // Before the number is free for another descriptor.
        self.number.set(-1);
    }
}
