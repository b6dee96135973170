//! Doors with real sockets: who knocks is let in at once, whatever others leave there.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use foretell_door::{
    Closer, Credentials, Descriptors, Keeping, Porter, Reception, Room, Visitor, take_descriptors,
};
use foretell_testkit::sockets::lingering;

/// For what takes microseconds on a machine that does nothing else.
const SOON: Duration = Duration::from_secs(10);

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> (Place, UnixListener) {
        let place = Place(tempfile::tempdir().unwrap());
        let listener = UnixListener::bind(place.0.path().join("s")).unwrap();
        listener.set_nonblocking(true).unwrap();
        (place, listener)
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        let stream = UnixStream::connect(self.0.path().join("s"))?;
        stream.set_read_timeout(Some(SOON))?;
        Ok(stream)
    }

    /// Leaves something that cannot be closed, if it is taken, and goes.
    fn leave(&self) -> (usize, TcpStream) {
        let stream = self.connect().unwrap();
        let (sender, receiver) = lingering();
        let left = foretell_protocol::socket::send(stream.as_fd(), b"x", &[sender.as_fd()]).unwrap();
        if left == 0 {
            // Here it takes as long.
            std::thread::spawn(move || drop(sender));
        }
        // Else this end goes first, so that whoever has taken the other one closes the last.
        (left, receiver)
    }
}

fn keeping(descriptors: Descriptors) -> (Keeping, Closer) {
    let closer = Closer::start().unwrap();
    (Keeping { name: "test", descriptors, closer: closer.clone(), goes_first: true }, closer)
}

fn open(
    listener: UnixListener,
    descriptors: Descriptors,
    account: impl FnMut(Credentials) -> Option<u32> + Send + 'static,
) -> (Porter, Receiver<Visitor>, Closer) {
    let (keeping, closer) = keeping(descriptors);
    let (come, comes) = channel();
    let welcome = move |visitor| drop(come.send(visitor));
    (Porter::start(keeping, listener.into(), account, welcome).unwrap(), comes, closer)
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_knocks_is_let_in_until_the_door_is_gone() {
    let (place, listener) = Place::new();
    let (porter, comes, _closer) = open(listener, Descriptors::Never, |peer| Some(peer.user + 5));
    let _knocks = place.connect().unwrap();
    let visitor = comes.recv_timeout(SOON).unwrap();
    let me = rustix::process::geteuid().as_raw();
    assert_eq!(visitor.credentials.unwrap().pid, std::process::id());
    assert_eq!(visitor.account, me + 5);
    drop(porter);
    assert_eq!(place.connect().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // The thread has gone, too.
    assert_eq!(comes.recv_timeout(SOON).unwrap_err(), RecvTimeoutError::Disconnected);
}

#[test]
fn who_is_turned_away_sees_it_at_once_and_what_it_left_keeps_nobody_waiting() {
    // As it is where the kernel cannot keep descriptors out, too.
    for descriptors in [Descriptors::Never, Descriptors::UnlessManyWait] {
        let (place, listener) = Place::new();
        let (goes, may_go) = channel();
        let mut turns_away = 2;
        let account = move |peer: Credentials| {
            let may = turns_away == 0;
            if !may {
                turns_away -= 1;
                may_go.recv().unwrap();
            }
            may.then_some(peer.user)
        };
        let (_porter, comes, _closer) = open(listener, descriptors, account);
        let mut away = place.connect().unwrap();
        goes.send(()).unwrap();
        assert_eq!(away.read(&mut [0]).unwrap(), 0);
        let (_, _receiver) = place.leave();
        goes.send(()).unwrap();
        let _may = place.connect().unwrap();
        comes.recv_timeout(SOON).unwrap();
    }
}

#[test]
fn nobody_can_send_descriptors_where_none_are_taken() {
    let (place, listener) = Place::new();
    let can = take_descriptors(listener.as_fd(), false).is_ok();
    take_descriptors(listener.as_fd(), true).ok();
    if !can {
        println!("skipped: nobody_can_send_descriptors_where_none_are_taken: before Linux 6.16");
        return;
    }
    let (_porter, comes, _closer) = open(listener, Descriptors::Never, |peer| Some(peer.user));
    let (left, _receiver) = place.leave();
    assert_eq!(left, 0);
    // Not later, either.
    let visits = place.connect().unwrap();
    let _ = comes.recv_timeout(SOON).unwrap();
    let _visitor = comes.recv_timeout(SOON).unwrap();
    let null = File::open("/dev/null").unwrap();
    assert_eq!(foretell_protocol::socket::send(visits.as_fd(), b"x", &[null.as_fd()]).unwrap(), 0);
}

#[test]
fn while_many_wait_to_be_closed_nobody_can_send_more_before_it_is_let_in() {
    let test = "while_many_wait_to_be_closed_nobody_can_send_more_before_it_is_let_in";
    let (place, listener) = Place::new();
    let probe = take_descriptors(listener.as_fd(), true);
    if probe.is_err() {
        println!("skipped: {test}: before Linux 6.16");
        return;
    }
    let (_porter, comes, closer) = open(listener, Descriptors::UnlessManyWait, |peer| Some(peer.user));
    let (left, receiver) = place.leave();
    assert_eq!(left, 1);
    drop(comes.recv_timeout(SOON).unwrap());
    let null = File::open("/dev/null").unwrap();
    let me = rustix::process::geteuid().as_raw();
    // Behind that one.
    for _ in 0..1100 {
        drop(closer.guard(me, null.as_fd().try_clone_to_owned().unwrap()));
    }
    let sends = || {
        let stream = place.connect().unwrap();
        drop(comes.recv_timeout(SOON).unwrap());
        foretell_protocol::socket::send(stream.as_fd(), b"x", &[null.as_fd()]).unwrap_or(1)
    };
    until("it takes none", || sends() == 0);
    drop(receiver);
    until("it takes some again", || sends() == 1);
}

#[test]
fn a_flood_leaves_room_for_others() {
    let (place, listener) = Place::new();
    let (keeping, _closer) = keeping(Descriptors::Never);
    // Each connection is another one's: ten of user 7, one of user 8, and one that is turned away.
    let mut number = 0;
    let account = move |_: Credentials| {
        number += 1;
        match number {
            1..=10 => Some(7),
            11 => Some(8),
            _ => None,
        }
    };
    let room = Room { most: 6, most_of_user: 4 };
    let reception = Reception::open(keeping, listener.into(), account, room).unwrap();
    let mut flood: Vec<UnixStream> = (0..10).map(|_| place.connect().unwrap()).collect();
    for oldest in &mut flood[..6] {
        assert_eq!(oldest.read(&mut [0]).unwrap(), 0, "hung up on");
    }
    let _honest = place.connect().unwrap();
    // Who is turned away after it sees that it has been let in.
    assert_eq!(place.connect().unwrap().read(&mut [0]).unwrap(), 0);
    assert_eq!(reception.wait().unwrap().account, 7);
    let mut accounts = Vec::new();
    until("all are served", || {
        accounts.extend(reception.next().map(|visitor| visitor.account));
        accounts.len() == 4
    });
    assert_eq!(accounts[..2].iter().filter(|user| **user == 8).count(), 1, "in turns: {accounts:?}");
    assert!(reception.next().is_none());
}
