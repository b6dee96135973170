//! A connection to a host: the service (`foretelld`), or the private one of a `foretell run` or `foretell learn`.
//!
//! It greets without a ring, asks, and puts the parts of the answers together (docs/protocol.md). Nothing in it waits
//! longer than a moment but [`Host::wait`], which says for how long: whoever listens may be stopped, or mean harm. A host
//! that lets nobody in refuses at once.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foretell_protocol::frame::{Arrival, ReceiveError};
use foretell_protocol::limits::TEXT_BYTES;
use foretell_protocol::message::Message;
use foretell_protocol::{ErrorCode, PROTOCOL, Part, Parts, Reader, Reply, Request, socket};
use foretelld::{Place, RunReply, RunRequest, Snapshot, StatusRequest};
use rustix::event::{PollFd, PollFlags, poll};

/// How long a host may take to answer: it does so between two rounds of its loop.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that may wait to be sent: the longest text, and the headers of its parts.
const UNSENT_BYTES: usize = TEXT_BYTES + (64 << 10);

/// Until a message is tried again that is not taken though there is room for it.
const RETRY: Duration = Duration::from_millis(1);

/// What the service is called in messages.
pub const SERVICE: &str = "the service";

/// What a private host is called in messages.
#[must_use]
pub fn name_of(place: &Place) -> String {
    format!("run {}", place.pid)
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// Nobody listens.
    #[error("no service listens on {} ({reason})", path.display())]
    NoService {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// It cannot be talked to.
    #[error("cannot reach {who}: {reason}")]
    Unreachable {
        /// The host.
        who: String,
        /// What the system says.
        reason: String,
    },
    /// As many connections wait to be let in as may.
    #[error("{0} is too busy to let anybody in; try again")]
    Busy(String),
    /// It has closed the connection, or a private one does not listen.
    #[error("{0} has gone")]
    Gone(String),
    /// It has closed the connection, and said why.
    #[error("{who} has closed: {why}")]
    Closed {
        /// The host.
        who: String,
        /// Its reason.
        code: ErrorCode,
        /// Its words.
        why: String,
    },
    /// It says no, in words.
    #[error("{who} refuses: {why}")]
    Refused {
        /// The host.
        who: String,
        /// Its words.
        why: String,
    },
    /// What came is no answer.
    #[error("{who}'s answer was not understood ({reason}); are it and this command of the same version?")]
    Nonsense {
        /// The host.
        who: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It takes too long.
    #[error("{who} has not answered for {} s", patience.as_secs())]
    Silent {
        /// The host.
        who: String,
        /// How long it was waited for.
        patience: Duration,
    },
}

impl Trouble {
    /// Has the host ended, or is it about to, or stopped? Then it does not say no to what was asked.
    #[must_use]
    pub fn is_the_end(&self) -> bool {
        match self {
            Trouble::Gone(_) | Trouble::Silent { .. } => true,
            Trouble::Closed { code, .. } => *code == ErrorCode::Stopping,
            _ => false,
        }
    }
}

/// What a host says.
#[derive(Debug)]
pub enum Answer {
    /// To the greeting.
    Welcome,
    /// What is going on there.
    Status(Box<Snapshot>),
    /// About a program under rules.
    Run(RunReply),
    /// A request was refused, and nothing was changed.
    Refused(String),
}

/// Where the service is looked for: what the command line, else the environment says, else the usual place.
#[must_use]
pub fn socket_path(given: Option<&Path>) -> PathBuf {
    given.map_or_else(socket::path, Path::to_owned)
}

/// A connection to a host.
#[derive(Debug)]
pub struct Host {
    socket: OwnedFd,
    who: String,
    reader: Reader,
    unsent: VecDeque<Unsent>,
    parts: Parts,
}

/// A message on its way. A descriptor goes with its first byte.
#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
    descriptor: Option<OwnedFd>,
}

impl Host {
    /// Connects to the service.
    ///
    /// # Errors
    /// When nobody listens there, or nobody more can be let in at present.
    pub fn service(path: &Path) -> Result<Host, Trouble> {
        let who = SERVICE.to_owned();
        match socket::connect(path) {
            Ok(socket) => Host::greet(socket, who),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(Trouble::Busy(format!("{who} on {}", path.display())))
            }
            Err(error) if is_absent(&error) => {
                Err(Trouble::NoService { path: path.to_owned(), reason: reason(&error) })
            }
            Err(error) => {
                let who = format!("{who} at {}", path.display());
                Err(Trouble::Unreachable { who, reason: reason(&error) })
            }
        }
    }

    /// Connects to a private host.
    ///
    /// # Errors
    /// As for the service.
    pub fn private(place: &Place) -> Result<Host, Trouble> {
        let who = name_of(place);
        match place.connect() {
            Ok(socket) => Host::greet(socket, who),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Trouble::Busy(who)),
            Err(error) if is_absent(&error) => Err(Trouble::Gone(who)),
            Err(error) => Err(Trouble::Unreachable { who, reason: reason(&error) }),
        }
    }

    fn greet(socket: OwnedFd, who: String) -> Result<Host, Trouble> {
        let (reader, unsent, parts) = (Reader::new(), VecDeque::new(), Parts::default());
        let mut host = Host { socket, who, reader, unsent, parts };
        host.push(&Request::Hello { protocol: PROTOCOL, ring_entries: None })?;
        host.flush()?;
        Ok(host)
    }

    /// Whoever is at the other end.
    #[cfg(test)]
    pub(crate) fn of(socket: OwnedFd) -> Host {
        Host::greet(socket, "somebody".to_owned()).unwrap()
    }

    /// The service, once it has let us in; `None` when there is none.
    ///
    /// # Errors
    /// When somebody listens and refuses.
    pub fn find_service(path: &Path) -> Result<Option<Host>, Trouble> {
        let mut host = match Host::service(path) {
            Err(Trouble::NoService { .. }) => return Ok(None),
            other => other?,
        };
        match host.wait_for_next(PATIENCE)? {
            Answer::Welcome => Ok(Some(host)),
            Answer::Refused(why) => Err(Trouble::Refused { who: host.who, why }),
            other => Err(host.nonsense(&format!("{other:?}"))),
        }
    }

    /// What it is called in messages.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Asks for the status.
    ///
    /// # Errors
    /// When it does not take what it is told.
    pub fn ask_status(&mut self, request: StatusRequest) -> Result<(), Trouble> {
        let text = serde_json::to_string(&request).map_err(|e| self.nonsense(&e))?;
        Part::cut(&text).into_iter().try_for_each(|part| self.push(&Request::Status(part)))?;
        self.flush()
    }

    /// Asks something about a program under rules. A pidfd of `about` goes along: of the program, or of this process
    /// where no program is meant.
    ///
    /// # Errors
    /// As [`Host::ask_status`].
    pub fn ask_run(&mut self, request: &RunRequest, about: BorrowedFd<'_>) -> Result<(), Trouble> {
        let text = serde_json::to_string(request).map_err(|e| self.nonsense(&e))?;
        for part in Part::cut(&text) {
            let about = Some(about).filter(|_| !part.more).map(|about| about.try_clone_to_owned());
            let about = about.transpose().map_err(|e| self.nonsense(&e))?;
            self.push_with(&Request::Run(part), about)?;
        }
        self.flush()
    }

    fn push(&mut self, request: &Request) -> Result<(), Trouble> {
        self.push_with(request, None)
    }

    fn push_with(&mut self, request: &Request, descriptor: Option<OwnedFd>) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let waiting: usize = self.unsent.iter().map(|unsent| unsent.bytes.len()).sum();
        if waiting + bytes.len() > UNSENT_BYTES {
            // As good as gone: it has taken nothing of many requests.
            return Err(Trouble::Gone(self.who.clone()));
        }
        self.unsent.push_back(Unsent { bytes, sent: 0, descriptor });
        Ok(())
    }

    /// Sends what it takes without waiting.
    fn flush(&mut self) -> Result<(), Trouble> {
        while let Some(first) = self.unsent.front_mut() {
            let descriptor: Vec<_> = first.descriptor.iter().map(AsFd::as_fd).collect();
            match socket::send(self.socket.as_fd(), &first.bytes[first.sent..], &descriptor) {
                Ok(0) => {
                    self.pause_unless_full();
                    return Ok(());
                }
                Ok(sent) => (first.sent, first.descriptor) = (first.sent + sent, None),
                // A host that refuses says why before it closes: that is still to be read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.unsent.clear();
                    return Ok(());
                }
                Err(_) => return Err(Trouble::Gone(self.who.clone())),
            }
            if first.sent == first.bytes.len() {
                self.unsent.pop_front();
            }
        }
        Ok(())
    }

    /// What is not taken though there is room for it (more descriptors of this user are on their way than may be, or the
    /// host takes none at present) no poll would wait for: a moment passes here.
    fn pause_unless_full(&self) {
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&at_once)) == Ok(1) {
            std::thread::sleep(RETRY);
        }
    }

    /// Sends and receives what can be without waiting; the next answer when it is complete.
    ///
    /// # Errors
    /// When there will be none.
    pub fn answer(&mut self) -> Result<Option<Answer>, Trouble> {
        self.flush()?;
        loop {
            while let Some(frame) = self.reader.next_frame::<Reply>().map_err(|e| self.nonsense(&e))? {
                match frame.message {
                    Reply::Welcome(_) => return Ok(Some(Answer::Welcome)),
                    Reply::Status(part) => {
                        if let Some(snapshot) = self.whole(&part)? {
                            return Ok(Some(Answer::Status(without_us(snapshot))));
                        }
                    }
                    Reply::Run(part) => {
                        if let Some(reply) = self.whole(&part)? {
                            return Ok(Some(Answer::Run(reply)));
                        }
                    }
                    Reply::Error { text, .. } => return Ok(Some(Answer::Refused(text))),
                    Reply::Ended { code, text } => {
                        return Err(Trouble::Closed { who: self.who.clone(), code, why: text });
                    }
                    // Nobody asked for it.
                    Reply::Stats(_) => {}
                }
            }
            match self.reader.receive(self.socket.as_fd()) {
                Ok(Arrival::Bytes) => {}
                Ok(Arrival::Nothing) => return Ok(None),
                Ok(Arrival::Closed) | Err(ReceiveError::Io(_)) => {
                    return Err(Trouble::Gone(self.who.clone()));
                }
                Err(ReceiveError::Frame(error)) => return Err(self.nonsense(&error)),
            }
        }
    }

    /// What a text says, when all parts of it are there.
    fn whole<T: serde::de::DeserializeOwned>(&mut self, part: &Part) -> Result<Option<T>, Trouble> {
        let text = self.parts.add(part).map_err(|e| self.nonsense(&e))?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|e| self.nonsense(&e))
    }

    fn nonsense(&self, reason: &dyn std::fmt::Display) -> Trouble {
        Trouble::Nonsense { who: self.who.clone(), reason: reason.to_string() }
    }

    /// Waits for an answer to what was asked. What is refused is an error.
    ///
    /// # Errors
    /// When there is none, or it takes too long.
    pub fn wait(&mut self, patience: Duration) -> Result<Answer, Trouble> {
        loop {
            match self.wait_for_next(patience)? {
                Answer::Welcome => {}
                Answer::Refused(why) => return Err(Trouble::Refused { who: self.who.clone(), why }),
                other => return Ok(other),
            }
        }
    }

    fn wait_for_next(&mut self, patience: Duration) -> Result<Answer, Trouble> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(answer) = self.answer()? {
                return Ok(answer);
            }
            self.poll(self.interest(), deadline, patience)?;
        }
    }

    fn poll(&self, flags: PollFlags, deadline: Instant, patience: Duration) -> Result<(), Trouble> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::event::Timespec::try_from(left).ok().filter(|_| !left.is_zero());
        let Some(timeout) = timeout else {
            return Err(Trouble::Silent { who: self.who.clone(), patience });
        };
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(Trouble::Gone(self.who.clone())),
        }
    }

    /// What to poll for.
    #[must_use]
    pub fn interest(&self) -> PollFlags {
        if self.unsent.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }
}

impl AsFd for Host {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The system's words without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().collect::<String>() + chars.as_str())
}

/// How a host is, without the connection that has asked: who is told of all sessions is told of that one as well.
fn without_us(mut snapshot: Box<Snapshot>) -> Box<Snapshot> {
    if snapshot.sessions_opened > 0 {
        snapshot.sessions_open = snapshot.sessions_open.saturating_sub(1);
        snapshot.sessions_opened -= 1;
    }
    snapshot
}
