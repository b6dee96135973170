//! Talking to the service (`foretelld`) as the command does: without a ring, waiting for each answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use foretell_protocol::frame::Arrival;
use foretell_protocol::message::Message;
use foretell_protocol::{PROTOCOL, Part, Parts, Reader, Reply, Request, socket};
use foretelld::{RunReply, RunRequest, Snapshot, StatusRequest};
use rustix::event::{PollFd, PollFlags, poll};

/// How long the service may take to answer: it does so between two rounds of its loop.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the service.
#[derive(Debug)]
pub struct Service {
    socket: OwnedFd,
    path: PathBuf,
    reader: Reader,
    parts: Parts,
}

/// Where the service is looked for: what the command line, else the environment says, else the usual place.
#[must_use]
pub fn socket_path(given: Option<&Path>) -> PathBuf {
    given.map_or_else(socket::path, Path::to_owned)
}

impl Service {
    /// Connects and greets; `None` when nobody listens there.
    ///
    /// # Errors
    /// When somebody listens and refuses.
    pub fn find(path: &Path) -> Result<Option<Service>> {
        let socket = match socket::connect(path) {
            Ok(socket) => socket,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(e) => return Err(anyhow!("cannot reach the service at {}: {e}", path.display())),
        };
        let mut service =
            Service { socket, path: path.to_owned(), reader: Reader::new(), parts: Parts::default() };
        service.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None }, &[])?;
        match service.wait()? {
            Reply::Welcome(_) => Ok(Some(service)),
            other => bail!("the service at {} answered with {other:?}", path.display()),
        }
    }

    /// The same for a command that is of no use without the service.
    ///
    /// # Errors
    /// When nobody listens there, with what to do.
    pub fn connect(path: &Path) -> Result<Service> {
        Service::find(path)?.ok_or_else(|| {
            anyhow!(
                "no service listens on {}; start one with 'foretell daemon', or say where with --socket",
                path.display()
            )
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is going on there, as far as this user may see it.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn status(&mut self, request: &StatusRequest) -> Result<Snapshot> {
        let text = serde_json::to_string(request)?;
        self.send(&Request::Status(Part { more: false, text }), &[])?;
        loop {
            if let Reply::Status(part) = self.wait()?
                && let Some(text) = self.parts.add(&part)?
            {
                return serde_json::from_str(&text).context("an answer of another version of the service");
            }
        }
    }

    /// Asks something about a program under rules; `root` is a pidfd of it.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn ask(&mut self, request: &RunRequest, root: BorrowedFd<'_>) -> Result<()> {
        let text = serde_json::to_string(request)?;
        for part in Part::cut(&text) {
            let root = if part.more { &[][..] } else { &[root][..] };
            self.send(&Request::Run(part), root)?;
        }
        Ok(())
    }

    /// The next answer about the program, if it has come.
    ///
    /// # Errors
    /// When the service refuses something, or the connection is over.
    pub fn answer(&mut self) -> Result<Option<RunReply>> {
        while let Some(reply) = self.receive()? {
            if let Reply::Run(part) = reply
                && let Some(text) = self.parts.add(&part)?
            {
                let reply = serde_json::from_str(&text);
                return Ok(Some(reply.context("an answer of another version of the service")?));
            }
        }
        Ok(None)
    }

    /// Readable when an answer has come.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let (mut rest, mut descriptors) = (&bytes[..], descriptors);
        let deadline = Instant::now() + PATIENCE;
        while !rest.is_empty() {
            match socket::send(self.socket.as_fd(), rest, descriptors) {
                Ok(0) => self.wait_for(PollFlags::OUT, deadline)?,
                Ok(sent) => (rest, descriptors) = (&rest[sent..], &[]),
                // It has closed; what it said before says why, and is still there to be received.
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// The next reply, without waiting.
    fn receive(&mut self) -> Result<Option<Reply>> {
        loop {
            if let Some(frame) = self.reader.next_frame::<Reply>()? {
                match frame.message {
                    Reply::Error { text, .. } => bail!("the service refuses: {text}"),
                    Reply::Ended { text, .. } => bail!("the service has closed: {text}"),
                    reply => return Ok(Some(reply)),
                }
            }
            match self.reader.receive(self.socket.as_fd()) {
                Ok(Arrival::Bytes) => {}
                Ok(Arrival::Nothing) => return Ok(None),
                Ok(Arrival::Closed) => bail!("the service has ended"),
                Err(e) => bail!("the service has ended ({e})"),
            }
        }
    }

    fn wait(&mut self) -> Result<Reply> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(reply) = self.receive()? {
                return Ok(reply);
            }
            self.wait_for(PollFlags::IN, deadline)?;
        }
    }

    fn wait_for(&self, flags: PollFlags, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the service at {} does not answer within {PATIENCE:?}", self.path.display());
        }
        let timeout = rustix::event::Timespec::try_from(left)?;
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
