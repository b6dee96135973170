//! Asking the service how it is again and again, without ever waiting for it: while it does not answer, keys
//! and the window still want to be looked at.
//!
//! The connection greets without a ring, asks for the status, and puts the parts of the answer together
//! (docs/protocol.md). Whoever has one polls its descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use foretell_protocol::frame::{Arrival, ReceiveError};
use foretell_protocol::{Outbox, PROTOCOL, Part, Parts, Reader, Reply, Request};
use foretelld::{Snapshot, StatusRequest};
use rustix::event::PollFlags;

/// Bytes that may wait to be sent: a greeting and a few short requests.
const OUTBOX_BYTES: usize = 16 << 10;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Trouble {
    /// Nobody listens.
    #[error("no service listens on {} ({reason})", path.display())]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// As many connections wait to be let in as may.
    #[error("the service on {} is too busy to let anybody in; try again", .0.display())]
    Busy(PathBuf),
    /// The service has closed the connection.
    #[error("the service has gone")]
    Gone,
    /// The service says no, in words.
    #[error("the service refuses: {0}")]
    Refused(String),
    /// What came is no answer.
    #[error("the service's answer was not understood ({0}); are it and this command of the same version?")]
    Nonsense(String),
    /// It takes too long.
    #[error("the service has not answered for {} s", .0.as_secs())]
    Silent(Duration),
}

/// A connection to the service.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    reader: Reader,
    outbox: Outbox,
    parts: Parts,
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// When nobody listens there, or nobody more can be let in at present.
    pub(crate) fn open(path: &Path) -> Result<Connection, Trouble> {
        let socket = foretell_protocol::socket::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Trouble::Busy(path.to_owned()),
            _ => Trouble::NoService { path: path.to_owned(), reason: reason(&error) },
        })?;
        let mut connection = Connection {
            socket,
            reader: Reader::new(),
            outbox: Outbox::new(OUTBOX_BYTES),
            parts: Parts::default(),
        };
        connection.push(&Request::Hello { protocol: PROTOCOL, ring_entries: None })?;
        Ok(connection)
    }

    /// Asks for the status. One question at a time: the answer comes by [`Connection::answer`].
    ///
    /// # Errors
    /// When the service does not take what it is told.
    pub(crate) fn ask(&mut self, request: StatusRequest) -> Result<(), Trouble> {
        let text = serde_json::to_string(&request).map_err(|e| Trouble::Nonsense(e.to_string()))?;
        for part in Part::cut(&text) {
            self.push(&Request::Status(part))?;
        }
        self.flush()
    }

    fn push(&mut self, request: &Request) -> Result<(), Trouble> {
        // As good as gone: it has taken nothing of many requests.
        self.outbox.push(request).map_err(|_| Trouble::Gone)
    }

    fn flush(&mut self) -> Result<(), Trouble> {
        // A service that refuses says why before it closes: that is still to be read.
        match self.outbox.flush(self.socket.as_fd()) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(_) => Err(Trouble::Gone),
        }
    }

    /// Sends and receives what can be without waiting; the answer when it is complete.
    ///
    /// # Errors
    /// When there will be none.
    pub(crate) fn answer(&mut self) -> Result<Option<Snapshot>, Trouble> {
        self.flush()?;
        loop {
            let arrival = self.reader.receive(self.socket.as_fd()).map_err(|error| match error {
                ReceiveError::Io(_) => Trouble::Gone,
                ReceiveError::Frame(error) => Trouble::Nonsense(error.to_string()),
            })?;
            match arrival {
                Arrival::Nothing => return Ok(None),
                Arrival::Closed => return Err(Trouble::Gone),
                Arrival::Bytes => {}
            }
            let nonsense = |error: &dyn std::fmt::Display| Trouble::Nonsense(error.to_string());
            while let Some(frame) = self.reader.next_frame::<Reply>().map_err(|e| nonsense(&e))? {
                match frame.message {
                    Reply::Status(part) => {
                        if let Some(text) = self.parts.add(&part).map_err(|e| nonsense(&e))? {
                            return serde_json::from_str(&text).map(Some).map_err(|e| nonsense(&e));
                        }
                    }
                    Reply::Error { text, .. } | Reply::Ended { text, .. } => {
                        return Err(Trouble::Refused(text));
                    }
                    // The greeting; what nobody asked for.
                    Reply::Welcome(_) | Reply::Stats(_) | Reply::Run(_) => {}
                }
            }
        }
    }

    /// What to poll for.
    #[must_use]
    pub(crate) fn interest(&self) -> PollFlags {
        if self.outbox.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The system's words without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + chars.as_str())
}
