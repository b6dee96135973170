//! Floods at the door: processes of one user that connect as fast as they can.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use foretell_protocol::message::Message;
use foretell_protocol::{PROTOCOL, Request, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{attack, stage_for_attackers};
use crate::stage::Running;

/// Processes of the attacker, and connections that each of them keeps.
const PROCESSES: usize = 8;
const KEPT: usize = 200;
/// Tries of the honest client.
const TRIES: u32 = 98;
/// Of those so many may be refused: none to three are, and others want the processors, too.
const REFUSED: u32 = 12;

/// Connects in a loop, and closes what it has had longest.
pub(super) fn connect(to: &Path) {
    println!("\nbegun: yes");
    let mut kept: std::collections::VecDeque<OwnedFd> = std::collections::VecDeque::new();
    loop {
        if let Ok(connection) = socket::connect(to) {
            kept.push_back(connection);
        }
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// Connects and greets as a program's library does, without waiting to be let in. Was it answered?
fn is_answered(service: &Running) -> bool {
    let Ok(client) = socket::connect(&service.socket) else { return false };
    let mut hello = Vec::new();
    Request::Hello { protocol: PROTOCOL, ring_entries: None }.encode(&mut hello);
    if !socket::send(std::os::fd::AsFd::as_fd(&client), &hello, &[]).is_ok_and(|sent| sent == hello.len()) {
        return false;
    }
    let long = Timespec { tv_sec: 10, tv_nsec: 0 };
    let answered = poll(&mut [PollFd::new(&client, PollFlags::IN)], Some(&long)).unwrap();
    answered == 1 && rustix::io::read(&client, &mut [0; 1]).is_ok_and(|read| read == 1)
}

/// Ends with this, also when the test fails.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flood_of_connections_keeps_no_other_user_out() {
    let Some(stage) = stage_for_attackers("a_flood_of_connections_keeps_no_other_user_out") else { return };
    let service = stage.service(64);
    let attackers = (0..PROCESSES).map(|_| Attacker(attack(&service, "flooding", &[])));
    let attackers: Vec<Attacker> = attackers.collect();
    service.until("the flood has begun", |snapshot| snapshot.sessions_open > 50);
    let mut refused = 0;
    let mut longest = Duration::ZERO;
    for _ in 0..TRIES {
        std::thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        refused += u32::from(!is_answered(&service));
        longest = longest.max(began.elapsed());
    }
    println!("refused: {refused} of {TRIES}, the longest took {longest:?}");
    drop(attackers);
    assert!(refused <= REFUSED, "{refused} of {TRIES}");
    service.until("the flood has gone", |snapshot| snapshot.sessions_open <= 1);
    service.end();
}
