//! One connection: its socket, who is there, what it may still send, and what it has said so far.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use foretell_door::{Closer, ForeignFd};
use foretell_pagecache::{HeldFile, Rest, SessionId, Taking};
use foretell_protocol::frame::{Arrival, Frame, ReceiveError};
use foretell_protocol::{Bucket, Consumer, ErrorCode, Handle, Outbox, Reader, Reply, Request, Statistics};

use crate::limits::{Limits, OUTBOX_BYTES_OF_ROOT};
use crate::owners::Weight;
use crate::peer::Peer;
use crate::run::Run;
use crate::snapshot::StatusRequest;

/// A refusal of one kind is told once in so long; the others are counted only.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side has gone, or cannot be talked to.
    Gone,
    /// It is told why.
    Because(ErrorCode, String),
}

impl End {
    pub(crate) fn because(code: ErrorCode, text: impl std::fmt::Display) -> End {
        End::Because(code, text.to_string())
    }
}

/// A file that a handle names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) file: HeldFile,
    /// What it counts towards its user's limits.
    pub(crate) weight: Weight,
}

/// The part of a client that speaks for itself.
#[derive(Debug)]
pub(crate) struct Speech {
    pub(crate) session: SessionId,
    pub(crate) ring: Consumer,
    pub(crate) files: BTreeMap<Handle, Named>,
    pub(crate) taken: u64,
    pub(crate) refused: u64,
    /// What is left of the entry that was taken last: none is taken before it is done.
    pub(crate) rest: Option<(Handle, Rest)>,
    /// An answer to a request for statistics is due when the ring has been read up to here.
    pub(crate) answer_at: Option<u64>,
    /// What the client was shown last.
    pub(crate) shown: Statistics,
    /// Rounds in which nothing came.
    pub(crate) silent_rounds: u32,
}

/// What a connection is.
#[derive(Debug)]
pub(crate) enum Role {
    /// It has not said yet.
    Unknown,
    /// A client with a ring.
    Client(Box<Speech>),
    /// The command: it asks, and may bring a program under rules.
    Command(Option<Box<Run>>),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) role: Role,
    pub(crate) since: Instant,
    /// Why it ends in its next turn, if it does: its process has ended, say.
    pub(crate) ending: Option<End>,
    /// The epoll tells when there is room in the socket.
    pub(crate) watched_for_room: bool,
    /// Of a text that comes in parts.
    pub(crate) parts: foretell_protocol::Parts,
    /// Of its ring, as its user's share counts them.
    pub(crate) ring_bytes: u64,
    /// Since when descriptors wait for the rest of a frame, and how many its user's share counts.
    pub(crate) half_since: Option<Instant>,
    pub(crate) half_counted: u32,
    /// Bytes of its buffers, as its user's share counts them.
    pub(crate) waiting_counted: u64,
    /// It may hold anything that its peer has sent and nobody has received.
    socket: ForeignFd,
    reader: Reader<ForeignFd>,
    closer: Closer,
    outbox: Outbox,
    /// Messages that it may send.
    messages: Bucket,
    told: BTreeMap<ErrorCode, Instant>,
    /// A file that its client has named and that is being taken. What the client says besides waits.
    pub(crate) taking: Option<(Handle, Box<Taking>)>,
    /// A report that its client has asked for and that is not told yet. What it says besides waits.
    pub(crate) asked: Option<StatusRequest>,
}

impl Connection {
    pub(crate) fn new(socket: ForeignFd, peer: Peer, limits: &Limits, closer: Closer) -> Connection {
        let now = Instant::now();
        let most = if peer.user == 0 { OUTBOX_BYTES_OF_ROOT } else { limits.outbox_bytes };
        Connection {
            peer,
            role: Role::Unknown,
            since: now,
            ending: None,
            watched_for_room: false,
            parts: foretell_protocol::Parts::default(),
            ring_bytes: 0,
            half_since: None,
            half_counted: 0,
            waiting_counted: 0,
            socket,
            reader: Reader::default(),
            closer,
            outbox: Outbox::new(most),
            messages: Bucket::new(limits.messages_per_s, limits.messages_burst),
            told: BTreeMap::new(),
            taking: None,
            asked: None,
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The session of the plane that it stands for.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match &self.role {
            Role::Client(speech) => Some(speech.session),
            Role::Command(Some(run)) => Some(run.session()),
            Role::Unknown | Role::Command(None) => None,
        }
    }

    /// The next message that has come, without waiting; `None` when there is none at present.
    pub(crate) fn receive(&mut self) -> Result<Option<Frame<Request, ForeignFd>>, End> {
        loop {
            let frame =
                self.reader.next_frame::<Request>().map_err(|e| End::because(ErrorCode::Malformed, e))?;
            if frame.is_some() {
                return Ok(frame);
            }
            let (closer, user) = (&self.closer, self.peer.account);
            match self.reader.receive_as(self.socket.as_fd(), |descriptor| closer.guard(user, descriptor)) {
                Ok(Arrival::Bytes) => {}
                Ok(Arrival::Nothing) => return Ok(None),
                Ok(Arrival::Closed) | Err(ReceiveError::Io(_)) => return Err(End::Gone),
                Err(ReceiveError::Frame(e)) => return Err(End::because(ErrorCode::Malformed, e)),
            }
        }
    }

    /// Descriptors that wait for the rest of a frame.
    pub(crate) fn half_descriptors(&self) -> u32 {
        self.reader.waiting_descriptors() as u32
    }

    /// Bytes that have come and are no whole message yet, and bytes that it has not taken.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        (self.reader.waiting_bytes() + self.outbox.waiting_bytes()) as u64
    }

    /// Ends it. The other side sees that at once, also when closing takes long.
    pub(crate) fn shut(self) {
        self.socket.hang_up();
    }

    /// Counts messages; ends the connection when there were too many.
    pub(crate) fn spend(&mut self, cost: u32, limits: &Limits) -> Result<(), End> {
        if self.messages.take(cost, self.since.elapsed()) {
            return Ok(());
        }
        let text = format!("more than {} messages a second", limits.messages_per_s);
        Err(End::Because(ErrorCode::Rate, text))
    }

    /// Sends a reply, or keeps it until the client takes it.
    pub(crate) fn reply(&mut self, reply: &Reply) -> Result<(), End> {
        if self.outbox.push(reply).is_err() {
            return Err(End::because(ErrorCode::SlowClient, "the replies are not being taken"));
        }
        Ok(())
    }

    /// Says that something was refused.
    pub(crate) fn refuse(
        &mut self,
        code: ErrorCode,
        handle: Option<Handle>,
        text: String,
    ) -> Result<(), End> {
        self.reply(&Reply::Error { code, handle, text })
    }

    /// Says that an entry was refused, if that was not said just now: entries come fast.
    pub(crate) fn refuse_entry(
        &mut self,
        code: ErrorCode,
        handle: Option<Handle>,
        text: String,
    ) -> Result<(), End> {
        let now = Instant::now();
        if self.told.get(&code).is_some_and(|at| now.saturating_duration_since(*at) < TELL_EVERY) {
            return Ok(());
        }
        self.told.insert(code, now);
        self.refuse(code, handle, text)
    }

    /// Sends what waits as far as the client takes it. Says whether something is left.
    pub(crate) fn flush(&mut self) -> Result<bool, End> {
        self.outbox.flush(self.socket.as_fd()).map(|empty| !empty).map_err(|_| End::Gone)
    }

    /// Says a last word, if it fits into the socket.
    pub(crate) fn farewell(&mut self, code: ErrorCode, text: String) {
        if self.outbox.push(&Reply::Ended { code, text }).is_ok() {
            let _ = self.flush();
        }
    }
}
