//! Where private hosts listen, so that others find them.
//!
//! Each user has one directory for them that nobody else can look into or write to: root `/run/foretell-hosts`, another
//! user `foretell` in `/run/user/UID` or else in `$XDG_RUNTIME_DIR`; `$FORETELL_HOSTS` names another one. A host listens
//! there on `PID.sock`, with a lock file beside it as the service has one ([`crate::listener`]). Nobody else can make
//! such a name, and who connects looks whether that very process of that user listens, or a child of it: where two
//! processes are one run, the number is that of the one that was started ([`be_known_as`]).
//!
//! What was left behind by a host that was killed is removed by the next one who looks: its lock is free then.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use foretell_protocol::socket;

use crate::listener::{ListenError, Listener, OWNER, remove_dead};
use crate::peer::parent_of;

/// The environment variable that names the directory.
const VARIABLE: &str = "FORETELL_HOSTS";
/// The directory of root's hosts.
const OF_ROOT: &str = "/run/foretell-hosts";
/// Where the directories of users lie that pam_systemd(8) makes.
const OF_USERS: &str = "/run/user";
/// What a user's directory is called in there.
const NAME: &str = "foretell";

/// Entries of a directory looked at; the directory of another user may be full of anything.
const ENTRIES: usize = 4096;
/// Hosts found at most in this user's directory, and in those of all others together; those with the lowest numbers.
const HOSTS: usize = 1024;
/// Tries at a name whose lock somebody has for the moment that it takes to remove what was left behind.
const TRIES: u32 = 20;
const TRY_EVERY: Duration = Duration::from_millis(1);

/// The number under which this process is found, if it is not its own; else zero.
static KNOWN_AS: AtomicU32 = AtomicU32::new(0);

/// From now on the host of this process is found under the number of its parent.
pub fn be_known_as(parent: u32) {
    KNOWN_AS.store(parent, Relaxed);
}

/// The number under which this process is found.
pub(crate) fn known_as() -> u32 {
    match KNOWN_AS.load(Relaxed) {
        0 => std::process::id(),
        parent => parent,
    }
}

/// Where a private host listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its process, or the parent of that.
    pub pid: u32,
    /// The user whose it is.
    pub user: u32,
    /// Its socket.
    pub socket: PathBuf,
}

impl Place {
    /// Connects without waiting, if that process of that user listens there, or a child of it.
    ///
    /// # Errors
    /// Nobody listens, as many wait as may ([`io::ErrorKind::WouldBlock`]), or it is somebody else
    /// ([`io::ErrorKind::PermissionDenied`]).
    pub fn connect(&self) -> io::Result<OwnedFd> {
        let is_meant = |pid| pid == self.pid || parent_of(pid) == Some(self.pid);
        socket::connect_to_process(&self.socket, is_meant, self.user)
    }
}

/// Why a private host cannot be found by others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unlisted {
    /// There is no directory for it.
    #[error("neither {OF_USERS}/{user} nor $XDG_RUNTIME_DIR is a directory of user {user} alone")]
    NoDirectory {
        /// The user.
        user: u32,
    },
    /// The directory is not only this user's.
    #[error("{} is not a directory of user {user} alone (mode 0700)", path.display())]
    NotAlone {
        /// The directory.
        path: PathBuf,
        /// The user.
        user: u32,
    },
    /// The directory cannot be made.
    #[error("cannot make {}: {source}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Is this a directory that only one user can look into or write to?
fn is_alone(directory: &Path, user: u32) -> bool {
    let metadata = fs::symlink_metadata(directory);
    metadata.is_ok_and(|of| of.is_dir() && of.uid() == user && of.mode() & 0o077 == 0)
}

/// The directory that a variable names, if it does.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The directory of this user's hosts, which need not be there yet.
fn own_directory(user: u32) -> Result<PathBuf, Unlisted> {
    if let Some(directory) = named(VARIABLE) {
        return Ok(directory);
    }
    if user == 0 {
        return Ok(OF_ROOT.into());
    }
    let usual = Path::new(OF_USERS).join(user.to_string());
    let mut around = std::iter::once(usual).chain(named("XDG_RUNTIME_DIR"));
    let around = around.find(|directory| is_alone(directory, user));
    Ok(around.ok_or(Unlisted::NoDirectory { user })?.join(NAME))
}

/// Listens for this process, in the directory of its user.
pub(crate) fn listen() -> Result<Listener, Unlisted> {
    let user = rustix::process::geteuid().as_raw();
    listen_in(&own_directory(user)?, user)
}

fn listen_in(directory: &Path, user: u32) -> Result<Listener, Unlisted> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Unlisted::Make { path: directory.to_owned(), source });
        }
        _ => {}
    }
    if !is_alone(directory, user) {
        return Err(Unlisted::NotAlone { path: directory.to_owned(), user });
    }
    let path = socket_in(directory, known_as());
    for _ in 1..TRIES {
        match Listener::bind(&path, OWNER) {
            // Somebody is about to remove what a process of the same number has left behind.
            Err(ListenError::InUse { .. }) => std::thread::sleep(TRY_EVERY),
            other => return Ok(other?),
        }
    }
    Ok(Listener::bind(&path, OWNER)?)
}

fn socket_in(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// The private hosts of this user but for that of this process, in the order of their numbers; what was left behind by those
/// that were killed is removed.
#[must_use]
pub fn own_places() -> Vec<Place> {
    let user = rustix::process::geteuid().as_raw();
    let Some(directory) = own_directory(user).ok().filter(|directory| is_alone(directory, user)) else {
        return Vec::new();
    };
    remove_left_behind(&directory);
    let mut places = list(&directory, user);
    places.retain(|place| place.pid != known_as());
    places
}

/// The private hosts of this user, as [`own_places`]; for root, after them, also those of all others.
#[must_use]
pub fn places() -> Vec<Place> {
    let mut places = own_places();
    if rustix::process::geteuid().is_root() && named(VARIABLE).is_none() {
        places.extend(in_turns(places_in(Path::new(OF_USERS))));
    }
    places
}

/// The private hosts of each user who has a directory in this one.
fn places_in(of_users: &Path) -> Vec<Vec<Place>> {
    let users = fs::read_dir(of_users).into_iter().flatten().flatten().take(ENTRIES);
    let users = users.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let directories = users.map(|user: u32| (of_users.join(user.to_string()).join(NAME), user));
    directories
        .filter(|(directory, user)| is_alone(directory, *user))
        .map(|(directory, user)| list(&directory, user))
        .collect()
}

/// The first of each user, then the second ones, and so on: however many names one of them has made, those of the others
/// are among the first.
fn in_turns(users: Vec<Vec<Place>>) -> Vec<Place> {
    let mut turns: Vec<(usize, Place)> =
        users.into_iter().flat_map(|of| of.into_iter().enumerate()).collect();
    turns.sort_by_key(|(turn, place)| (*turn, place.pid));
    turns.into_iter().map(|(_, place)| place).take(HOSTS).collect()
}

/// The private host of a process, if it can be found: of this user, and for root also of another one.
#[must_use]
pub fn place_of(pid: u32) -> Option<Place> {
    let user = rustix::process::geteuid().as_raw();
    let own = own_directory(user).ok().map(|directory| (directory, user));
    let others = if user == 0 && named(VARIABLE).is_none() {
        // Its directory in /proc is that user's.
        let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
        owner.map(|owner| (Path::new(OF_USERS).join(owner.to_string()).join(NAME), owner))
    } else {
        None
    };
    let mut places = own.into_iter().chain(others).filter(|(directory, user)| is_alone(directory, *user));
    places.find_map(|(directory, user)| {
        let socket = socket_in(&directory, pid);
        socket.symlink_metadata().is_ok().then_some(Place { pid, user, socket })
    })
}

/// The processes that have a name with this ending.
fn numbers(directory: &Path, ending: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES);
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(ending)?.parse().ok()).collect()
}

/// The hosts that have names in a directory, in the order of their numbers.
fn list(directory: &Path, user: u32) -> Vec<Place> {
    let place = |pid| Place { pid, user, socket: socket_in(directory, pid) };
    numbers(directory, ".sock").into_iter().take(HOSTS).map(place).collect()
}

fn remove_left_behind(directory: &Path) {
    for pid in numbers(directory, ".sock.lock") {
        let path = socket_in(directory, pid);
        let lock = directory.join(format!("{pid}.sock.lock"));
        // Gone meanwhile, or not to be removed: then it stays, and connecting fails at once.
        let _ = remove_dead(&path, &lock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_host_is_found_while_it_listens_and_by_nobody_else() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("hosts");
        let listener = listen_in(&directory, user()).unwrap();
        let socket = directory.join(format!("{}.sock", std::process::id()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&socket)), (0o700, 0o600));
        remove_left_behind(&directory);
        let found = list(&directory, user());
        assert_eq!(found, [Place { pid: std::process::id(), user: user(), socket }]);
        let connected = found[0].connect().unwrap();
        let parent = Place { pid: std::os::unix::process::parent_id(), ..found[0].clone() };
        parent.connect().unwrap();
        for (pid, user) in [(u32::MAX, user()), (std::process::id(), user() + 1)] {
            let other = Place { pid, user, ..found[0].clone() };
            assert_eq!(other.connect().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        drop((connected, listener));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_host_left_behind_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("hosts");
        let alive = listen_in(&directory, user()).unwrap();
        drop(UnixListener::bind(directory.join("7.sock")).unwrap());
        for name in ["7.sock.lock", "8.sock.lock", "9.sock", "9.sock.lock", "precious"] {
            fs::write(directory.join(name), "x").unwrap();
        }
        remove_left_behind(&directory);
        let left: BTreeSet<String> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let own = format!("{}.sock", std::process::id());
        let lock = format!("{own}.lock");
        assert_eq!(left, BTreeSet::from(["9.sock".to_owned(), "precious".to_owned(), own, lock]));
        drop(alive);
    }

    #[test]
    fn many_names_of_one_user_hide_no_host_of_another() {
        let parent = tempfile::tempdir().unwrap();
        let place = |user: u32, pid: u32| Place { pid, user, socket: PathBuf::new() };
        let many: Vec<Place> = (1..=2000).map(|pid| place(1, pid)).collect();
        let found = in_turns(vec![many, vec![place(2, 50_000)]]);
        assert_eq!((found.len(), &found[..2]), (HOSTS, &[place(1, 1), place(2, 50_000)][..]));
        // In a directory those with the lowest numbers are found.
        for pid in 0..2000 {
            fs::write(socket_in(parent.path(), pid), "").unwrap();
        }
        let found = list(parent.path(), user());
        assert_eq!((found.len(), found[HOSTS - 1].pid), (HOSTS, HOSTS as u32 - 1));
    }

    #[test]
    fn a_directory_of_others_or_open_to_them_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(listen_in(&open, user()), Err(Unlisted::NotAlone { .. })));
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(matches!(listen_in(&link, user()), Err(Unlisted::NotAlone { .. })));
        assert!(matches!(listen_in(&parent.path().join("a/b"), user()), Err(Unlisted::Make { .. })));
        assert!(matches!(listen_in(parent.path(), user() + 1), Err(Unlisted::NotAlone { .. })));
    }

    #[test]
    fn hosts_that_let_nobody_in_are_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("1.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let place = Place { pid: std::process::id(), user: user(), socket };
        let waiting: Vec<_> = std::iter::repeat_with(|| place.connect()).take_while(Result::is_ok).collect();
        assert!(!waiting.is_empty());
        assert_eq!(place.connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
