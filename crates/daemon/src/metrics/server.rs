//! Who serves the metrics: one thread, which never waits for a scraper.
//!
//! The thread polls its listener and a few connections. Whoever does not send its request, or does not take
//! the answer, within [`PATIENCE`] is cut off, and a newcomer beyond [`CONNECTIONS`] takes the place of the
//! one that has been there longest. The thread that steers the cache is asked for a snapshot once a second
//! at most, however often and by however many the metrics are asked for.
//!
//! Of HTTP there is what a scraper needs: `GET /metrics` and one answer a connection.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};

use super::address::MetricsAddress;
use super::exposition::{Detail, exposition};
use crate::snapshot::Snapshot;

/// Scrapers at a time.
pub const CONNECTIONS: usize = 16;

/// Bytes of a request at most: its line and headers.
pub const REQUEST_BYTES: usize = 8 << 10;

/// How long one connection may take in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// For so long an exposition is given again: no scraper asks more often for good reason, and making it goes
/// through all tables of the thread that steers.
const FRESH: Duration = Duration::from_secs(1);

/// Connections that may wait to be let in.
const BACKLOG: i32 = 64;

/// How long the thread rests when connections cannot be let in (no descriptors are left).
const REST: Duration = Duration::from_millis(100);

/// What the exposition is: OpenMetrics 1.0, section "Content-Type".
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why the metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The socket's name is in use.
    #[error("{} is in use; give another place for the metrics", .0.display())]
    InUse(PathBuf),
    /// The system refuses.
    #[error("cannot serve metrics at {at}: {source}")]
    System {
        /// Where.
        at: MetricsAddress,
        /// Why not.
        source: io::Error,
    },
}

/// Serves metrics until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    local: MetricsAddress,
    /// Device and inode of the socket's name: only what is ours is removed.
    identity: Option<(u64, u64)>,
}

impl MetricsServer {
    /// Begins to serve what `snapshot` gives; when that is `None`, scrapers are told that the service does
    /// not answer. A loopback address gives the sums alone, a socket (mode 0600) everything.
    ///
    /// # Errors
    /// The address is in use or not permitted.
    pub fn start(
        at: &MetricsAddress,
        snapshot: impl FnMut() -> Option<Snapshot> + Send + 'static,
    ) -> Result<MetricsServer, MetricsError> {
        let system = |source: io::Error| MetricsError::System { at: at.clone(), source };
        let (listener, local, detail) = match at {
            MetricsAddress::Loopback(address) => {
                let (listener, local) = listen_loopback(*address).map_err(system)?;
                (listener, MetricsAddress::Loopback(local), Detail::Sums)
            }
            MetricsAddress::Socket(path) => {
                clear(path)?;
                (listen_socket(path).map_err(system)?, at.clone(), Detail::Rows)
            }
        };
        let identity = match &local {
            MetricsAddress::Loopback(_) => None,
            MetricsAddress::Socket(path) => Some(identity(path).map_err(system)?),
        };
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| system(e.into()))?;
        let stop = Arc::new(stop);
        let mut server = Server {
            listener,
            stop: Arc::clone(&stop),
            connections: Vec::new(),
            source: Box::new(snapshot),
            detail,
            kept: None,
        };
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || server.serve()).map_err(system)?;
        Ok(MetricsServer { stop, thread: Some(thread), local, identity })
    }

    /// Where: the port, if any was asked for by 0, is the one that was given.
    #[must_use]
    pub fn address(&self) -> &MetricsAddress {
        &self.local
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let (MetricsAddress::Socket(path), Some(ours)) = (&self.local, self.identity)
            && identity(path).is_ok_and(|found| found == ours)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

fn listen_loopback(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    Ok((listener.into(), local))
}

/// Removes a socket that nobody listens on any more.
fn clear(path: &Path) -> Result<(), MetricsError> {
    let left = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type().is_socket() && UnixStream::connect(path).is_err(),
        Err(_) => return Ok(()),
    };
    if left && fs::remove_file(path).is_ok() { Ok(()) } else { Err(MetricsError::InUse(path.to_owned())) }
}

/// A socket that only its owner may connect to.
fn listen_socket(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before it has a name: a name may lead elsewhere a moment later.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The state of the thread.
struct Server {
    listener: OwnedFd,
    stop: Arc<OwnedFd>,
    connections: Vec<Connection>,
    source: Box<dyn FnMut() -> Option<Snapshot> + Send>,
    detail: Detail,
    /// The last exposition and when it was made.
    kept: Option<(Instant, Arc<str>)>,
}

/// A scraper.
struct Connection {
    socket: OwnedFd,
    until: Instant,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

/// What a connection is waiting for.
#[derive(PartialEq, Eq)]
enum Phase {
    Asking,
    Answering,
    /// All is sent. Closing now would tear down what the scraper has not read yet if it has sent more than
    /// we took; so what it still sends is thrown away until it closes.
    Parting,
}

impl Connection {
    fn phase(&self) -> Phase {
        if self.answer.is_empty() {
            Phase::Asking
        } else if self.sent < self.answer.len() {
            Phase::Answering
        } else {
            Phase::Parting
        }
    }
}

impl Server {
    fn serve(&mut self) {
        loop {
            let now = Instant::now();
            self.connections.retain(|connection| connection.until > now);
            let ready = match self.wait(now) {
                Ok(ready) => ready,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            let Some(ready) = ready else { return };
            let mut over = Vec::new();
            for (index, _) in ready.iter().enumerate().skip(1).filter(|(_, ready)| **ready) {
                if !self.advance(index - 1) {
                    over.push(index - 1);
                }
            }
            for index in over.into_iter().rev() {
                self.connections.remove(index);
            }
            if ready.first() == Some(&true) {
                self.accept();
            }
        }
    }

    /// Waits until something can be done: the listener first, then each connection. `None`: stop.
    fn wait(&self, now: Instant) -> Result<Option<Vec<bool>>, Errno> {
        let mut watched =
            vec![PollFd::new(&*self.stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        for connection in &self.connections {
            let flags = if connection.phase() == Phase::Answering { PollFlags::OUT } else { PollFlags::IN };
            watched.push(PollFd::new(&connection.socket, flags));
        }
        let first = self.connections.iter().map(|connection| connection.until).min();
        let timeout = first.map(|until| until.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut watched, timeout.as_ref())?;
        let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok(if ready[0] { None } else { Some(ready[1..].to_vec()) })
    }

    /// Lets in who waits, a round's worth; the one that has been there longest goes when there are too many.
    fn accept(&mut self) {
        for _ in 0..CONNECTIONS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => {
                    if self.connections.len() >= CONNECTIONS {
                        self.connections.remove(0);
                    }
                    let until = Instant::now() + PATIENCE;
                    let (request, answer) = (Vec::new(), Vec::new());
                    self.connections.push(Connection { socket, until, request, answer, sent: 0 });
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // No descriptors are left: the knocking goes on, and would keep this thread busy.
                Err(_) => return std::thread::sleep(REST),
            }
        }
    }

    /// Goes on with one connection; `false` when it is over.
    fn advance(&mut self, index: usize) -> bool {
        match self.connections[index].phase() {
            Phase::Asking => self.read(index),
            Phase::Answering => self.write(index),
            Phase::Parting => {
                let mut bytes = [0; 1024];
                match rustix::io::read(&self.connections[index].socket, &mut bytes) {
                    Ok(read) => read > 0,
                    Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
                }
            }
        }
    }

    fn read(&mut self, index: usize) -> bool {
        let mut bytes = [0; 1024];
        let connection = &mut self.connections[index];
        match rustix::io::read(&connection.socket, &mut bytes) {
            Ok(0) => return false,
            Ok(read) => connection.request.extend_from_slice(&bytes[..read]),
            Err(error) => return matches!(error, Errno::AGAIN | Errno::INTR),
        }
        let asked = match head(&connection.request) {
            Some(head) => Some(asked(head)),
            None if connection.request.len() >= REQUEST_BYTES => Some(Asked::TooLong),
            None => None,
        };
        let Some(asked) = asked else { return true };
        let answer = self.answer(asked);
        self.connections[index].answer = answer;
        self.write(index)
    }

    fn write(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        while connection.sent < connection.answer.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&connection.socket, &connection.answer[connection.sent..], flags) {
                Ok(sent) => connection.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        rustix::net::shutdown(&connection.socket, Shutdown::Write).is_ok()
    }

    fn answer(&mut self, asked: Asked) -> Vec<u8> {
        let (status, kind, body): (&str, &str, Arc<str>) = match asked {
            Asked::Metrics { .. } => match self.text() {
                Some(text) => ("200 OK", OPEN_METRICS, text),
                None => ("503 Service Unavailable", PLAIN, "the service does not answer\n".into()),
            },
            Asked::Else => ("404 Not Found", PLAIN, "the metrics are at /metrics\n".into()),
            Asked::Method => ("405 Method Not Allowed", PLAIN, "only GET and HEAD are understood\n".into()),
            Asked::TooLong => ("431 Request Header Fields Too Large", PLAIN, "too long a request\n".into()),
            Asked::Nonsense => ("400 Bad Request", PLAIN, "not a request of HTTP/1\n".into()),
        };
        let allow = if asked == Asked::Method { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        let body = if asked == (Asked::Metrics { only_head: true }) { "" } else { &body };
        [head.as_bytes(), body.as_bytes()].concat()
    }

    /// The exposition, made anew when it is no longer fresh.
    fn text(&mut self) -> Option<Arc<str>> {
        if let Some((made, text)) = &self.kept
            && made.elapsed() < FRESH
        {
            return Some(Arc::clone(text));
        }
        self.kept = None;
        let text: Arc<str> = exposition((self.source)()?, self.detail).into();
        self.kept = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Metrics { only_head: bool },
    Else,
    Method,
    TooLong,
    Nonsense,
}

/// The request up to the empty line, when that has arrived.
fn head(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some(&request[..end])
}

/// Reads the request line; headers do not matter.
fn asked(head: &[u8]) -> Asked {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Asked::Nonsense };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Asked::Nonsense;
    };
    if !version.starts_with("HTTP/1.") {
        return Asked::Nonsense;
    }
    match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => Asked::Metrics { only_head: method == "HEAD" },
        ("GET" | "HEAD", _) => Asked::Else,
        _ => Asked::Method,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let get = Asked::Metrics { only_head: false };
        assert_eq!(asked(b"GET /metrics HTTP/1.1\r\nHost: x"), get);
        assert_eq!(asked(b"GET /metrics?name=a HTTP/1.0"), get);
        assert_eq!(asked(b"HEAD /metrics HTTP/1.1"), Asked::Metrics { only_head: true });
        assert_eq!(asked(b"GET / HTTP/1.1"), Asked::Else);
        assert_eq!(asked(b"POST /metrics HTTP/1.1"), Asked::Method);
        for nonsense in [&b""[..], b"GET", b"GET /metrics", b"GET /metrics HTTP/2", b"\xff x y", b"a b c d"] {
            assert_eq!(asked(nonsense), Asked::Nonsense, "{nonsense:?}");
        }
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\nrest"), Some(&b"GET / HTTP/1.1"[..]));
        assert_eq!(head(b"GET / HTTP/1.1\r\n"), None);
    }
}
