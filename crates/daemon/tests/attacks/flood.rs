//! Floods at the door: processes of one user that connect as fast as they can.

use std::os::fd::{AsFd, OwnedFd};
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
const REFUSED: usize = 12;

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

/// Connects and greets as a program's library does, without waiting to be let in.
///
/// # Errors
/// What did not go well.
fn greet(service: &Running) -> Result<(), &'static str> {
    let client = socket::connect(&service.socket).map_err(|_| "not let in")?;
    let mut hello = Vec::new();
    Request::Hello { protocol: PROTOCOL, ring_entries: None }.encode(&mut hello);
    let sent = socket::send(client.as_fd(), &hello, &[]);
    sent.ok().filter(|sent| *sent == hello.len()).ok_or("hung up on")?;
    let long = Timespec { tv_sec: 10, tv_nsec: 0 };
    let answered = poll(&mut [PollFd::new(&client, PollFlags::IN)], Some(&long)).unwrap();
    match rustix::io::read(&client, &mut [0; 1]) {
        Ok(1) => Ok(()),
        _ if answered == 0 => Err("not answered"),
        _ => Err("hung up on"),
    }
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
    let mut refused = Vec::new();
    let mut longest = Duration::ZERO;
    for _ in 0..TRIES {
        std::thread::sleep(Duration::from_millis(10));
        let began = Instant::now();
        refused.extend(greet(&service).err());
        longest = longest.max(began.elapsed());
    }
    println!("refused: {} of {TRIES}, the longest took {longest:?}; {refused:?}", refused.len());
    drop(attackers);
    assert!(refused.len() <= REFUSED, "{refused:?} of {TRIES}");
    service.until("the flood has gone", |snapshot| snapshot.sessions_open <= 1);
    service.end();
}
