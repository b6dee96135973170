//! A pool a user: where clients ask for it, and the process that has it.
//!
//! A program that serves all users of a machine must not read for them: it would have everybody's credentials. So there is
//! a *door*, which reads nothing from anybody and knows nobody's secrets, and a *host* for each user, a process of that
//! user's with a pool ([`crate::Pool::share`]):
//!
//! ```text
//!  a client ──► door: who is it, by the kernel's word? ──► starts that user's host, or knows it
//!           ◄── the host's address
//!           ──► host: the same user, and the secret in the address ──► reads with the client's own credentials
//! ```
//!
//! The kernel tells the door who has connected, and the host again. Users have nothing in common but the door's queue.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foretell_door::{Closer, Credentials, Descriptors, ForeignFd, Keeping, Reception, Room, Visitor};
use rustix::net::SendFlags;

use crate::error::Error;

/// The variable that says where the door is.
pub const SOCKET_VARIABLE: &str = "FORETELL_BUFFERS";
/// Where root's door is.
const SYSTEM_SOCKET: &str = "/run/foretell/buffers.sock";
/// A host has its address, or says why not, by then; a client waits somewhat longer.
const BEGUN: Duration = Duration::from_secs(10);
/// Clients of one user that wait at the door at a time; those beyond are hung up on.
const MOST_WAITING: usize = 32;
/// Clients at the door whom nobody has looked at yet; beyond, the oldest of whoever has most is hung up on.
const ROOM: Room = Room { most: 1024, most_of_user: 256 };
/// Bytes of an answer at most.
const MOST_ANSWER: u64 = 1024;
/// Users with a host at a time.
pub const MOST_USERS: usize = 256;
/// Group of hosts that root starts: what a user may read by a group the program that connected may have got by being
/// set-group-ID, and its other programs not.
const NO_GROUP: u32 = 65_534;

/// Where the door is: what the variable says, root's if it is there, or the user's own.
#[must_use]
pub fn usual_socket() -> PathBuf {
    if let Some(path) = std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()) {
        return path.into();
    }
    let own = || Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("foretell/buffers.sock"));
    let system = PathBuf::from(SYSTEM_SOCKET);
    if system.exists() || rustix::process::geteuid().is_root() { system } else { own().unwrap_or(system) }
}

/// Asks a door for the address of this user's pool.
pub(crate) fn ask(socket: &Path) -> Result<String, Error> {
    let wrong = |why: String| Error::Host { why: format!("{}: {why}", socket.display()) };
    let asked = || -> io::Result<String> {
        let stream = UnixStream::connect(socket)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"));
        }
        stream.set_read_timeout(Some(BEGUN * 2))?;
        let mut answer = String::new();
        stream.take(MOST_ANSWER).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = asked().map_err(|error| wrong(format!("no service answers there ({error})")))?;
    match answer.trim_end().split_once(' ') {
        Some(("address", address)) => Ok(address.to_owned()),
        Some(("error", why)) => Err(wrong(why.to_owned())),
        _ => Err(wrong("what is there is no service of buffers".to_owned())),
    }
}

/// A host that was started.
struct Host {
    process: Child,
    address: String,
}

/// The door: see the module's documentation.
pub struct Door {
    reception: Reception,
    socket: PathBuf,
    hosts: Arc<Hosts>,
}

struct Hosts {
    /// Makes the command of a host.
    command: Box<dyn Fn() -> Command + Send + Sync>,
    users: usize,
    /// Whose is being begun or there, by user.
    by_user: Mutex<HashMap<u32, Arc<Mutex<Option<Host>>>>>,
    /// Clients that wait, by user.
    waiting: Mutex<HashMap<u32, usize>>,
}

impl Door {
    /// Listens at a path. `command` makes the command of a user's host, whose first line is its address ([`announce`]) and
    /// which ends when its standard input does; `users` is how many may have one.
    ///
    /// # Errors
    /// When somebody listens there already, or nobody can.
    pub fn open(
        socket: &Path,
        users: usize,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> io::Result<Door> {
        if UnixStream::connect(socket).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another service listens there"));
        }
        if std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(socket)?;
        }
        let listener = UnixListener::bind(socket)?;
        // Who connects is looked at; a user's own door lets in the user alone, and root's everybody.
        let mode = if rustix::process::geteuid().is_root() { 0o666 } else { 0o600 };
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        let keeping = Keeping {
            name: "foretell-door",
            // Clients say nothing at all.
            descriptors: Descriptors::Never,
            closer: Closer::start()?,
            goes_first: true,
        };
        let account = |peer: Credentials| Some(peer.user);
        let reception = Reception::open(keeping, listener.into(), account, ROOM)?;
        let hosts = Hosts {
            command: Box::new(command),
            users: users.min(MOST_USERS),
            by_user: Mutex::default(),
            waiting: Mutex::default(),
        };
        Ok(Door { reception, socket: socket.to_owned(), hosts: Arc::new(hosts) })
    }

    /// Lets clients in, until the process ends.
    ///
    /// # Errors
    /// When nobody can connect any more.
    pub fn serve(&self) -> io::Result<()> {
        loop {
            let Visitor { socket, credentials, account: user } = self.reception.wait()?;
            // Of whom nothing is known nothing is done for.
            if credentials.is_none() || !self.hosts.waits(user) {
                socket.hang_up();
                continue;
            }
            let hosts = self.hosts.clone();
            // Who has not got a thread is hung up on, too.
            let begun = std::thread::Builder::new().name("foretell door".to_owned()).spawn(move || {
                hosts.answer(&socket, user);
                socket.hang_up();
                hosts.waits_no_more(user);
            });
            if begun.is_err() {
                self.hosts.waits_no_more(user);
            }
        }
    }

    /// Ends all hosts, and takes the socket away.
    pub fn close(&self) {
        let _ = std::fs::remove_file(&self.socket);
        let hosts = std::mem::take(&mut *self.hosts.by_user());
        for host in hosts.into_values() {
            if let Some(mut host) = host.lock().unwrap_or_else(PoisonError::into_inner).take() {
                host.end();
            }
        }
    }
}

impl Host {
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }
}

impl Hosts {
    fn by_user(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Arc<Mutex<Option<Host>>>>> {
        self.by_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more of this user, if so many may wait.
    fn waits(&self, user: u32) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let its = waiting.entry(user).or_default();
        let may = *its < MOST_WAITING;
        *its += usize::from(may);
        may
    }

    fn waits_no_more(&self, user: u32) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(its) = waiting.get_mut(&user) {
            *its -= 1;
            if *its == 0 {
                waiting.remove(&user);
            }
        }
    }

    fn answer(&self, socket: &ForeignFd, user: u32) {
        let answer = match self.address_of(user) {
            Ok(address) => format!("address {address}\n"),
            Err(why) => format!("error {}\n", why.replace('\n', " ")),
        };
        // Nothing was sent before, so there is room for it.
        let _ = rustix::net::send(socket, answer.as_bytes(), SendFlags::NOSIGNAL);
    }

    fn address_of(&self, user: u32) -> Result<String, String> {
        let own = rustix::process::geteuid();
        if !own.is_root() && own.as_raw() != user {
            return Err("this service is another user's".to_owned());
        }
        let place = {
            let mut by_user = self.by_user();
            if !by_user.contains_key(&user) {
                // Those that have ended make room.
                by_user.retain(|_, host| {
                    host.try_lock().map_or(true, |mut host| {
                        if host.as_mut().is_some_and(Host::has_ended) {
                            *host = None;
                        }
                        host.is_some()
                    })
                });
                if by_user.len() >= self.users {
                    return Err(format!("{} users have a pool here, and no more may", self.users));
                }
            }
            by_user.entry(user).or_default().clone()
        };
        // Others of this user wait here until it is there.
        let mut host = place.lock().unwrap_or_else(PoisonError::into_inner);
        if host.as_mut().is_none_or(Host::has_ended) {
            *host = None;
            *host = Some(self.begin(user)?);
        }
        host.as_ref().map(|host| host.address.clone()).ok_or_else(|| "the pool has ended".to_owned())
    }

    /// Starts a user's host, without anything of this process's environment.
    fn begin(&self, user: u32) -> Result<Host, String> {
        let mut command = (self.command)();
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if rustix::process::geteuid().is_root() && user != 0 {
            // Of supplementary groups none is left.
            command.gid(NO_GROUP).uid(user);
        }
        let cannot = |error: io::Error| format!("a pool cannot be started ({error})");
        let mut process = command.spawn().map_err(cannot)?;
        let said = process.stdout.take();
        let (came, comes) = std::sync::mpsc::channel();
        let reader = std::thread::Builder::new().spawn(move || {
            let mut line = String::new();
            if let Some(said) = said {
                let _ = BufReader::new(said.take(MOST_ANSWER)).read_line(&mut line);
            }
            let _ = came.send(line);
        });
        let line = reader.ok().and_then(|_| comes.recv_timeout(BEGUN).ok()).unwrap_or_default();
        let mut host = Host { process, address: String::new() };
        match line.trim_end().split_once(' ') {
            Some(("address", address)) => {
                address.clone_into(&mut host.address);
                Ok(host)
            }
            Some(("error", why)) => {
                host.end();
                Err(why.to_owned())
            }
            _ => {
                host.end();
                Err("a pool did not begin".to_owned())
            }
        }
    }
}

/// In a host: says where its pool is shared, or why it is not there, to the door that started it, and then waits. Comes back
/// when the door is gone, or when nobody has been connected for so long.
///
/// # Errors
/// What kept the pool from being made.
pub fn announce(pool: Result<crate::Pool, Error>, idle: Duration) -> Result<(), Error> {
    let shared = pool.and_then(|pool| Ok((pool.share()?, pool)));
    let (line, pool) = match shared {
        Ok((address, pool)) => (format!("address {address}"), Ok(pool)),
        Err(error) => {
            let why = if let Error::Host { why } = &error { why.clone() } else { error.to_string() };
            (format!("error {why}"), Err(error))
        }
    };
    let _ = writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush());
    let pool = pool?;
    let (gone, is_gone) = std::sync::mpsc::channel::<()>();
    let waits = std::thread::Builder::new().spawn(move || {
        // Ends with the door.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(gone);
    });
    waits.map_err(|error| Error::NoThreads { why: error.to_string() })?;
    let look = (idle / 4).clamp(Duration::from_millis(20), Duration::from_secs(5));
    let mut used = std::time::Instant::now();
    let mut clients = 0;
    while is_gone.recv_timeout(look) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        let (now, begun) = pool.guests();
        if now > 0 || begun != clients {
            (used, clients) = (std::time::Instant::now(), begun);
        }
        if used.elapsed() > idle {
            break;
        }
    }
    Ok(())
}
