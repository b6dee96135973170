//! Which processes a job has, before the observer is there.
//!
//! To load the observer takes 10 to 30 ms, and a job that is only watched need not wait for it. But roles
//! depend on which child of its parent a process is, so no fork may be missed. The kernel tells of every fork, exec and
//! exit on the machine through the *process connector* (`drivers/connector/cn_proc.c`), which costs nothing to open.
//! [`Kin`] listens to it until the observer has taken over.
//!
//! ```text
//!   message:  nlmsghdr 16 │ cn_msg 20 │ what u32, cpu u32, timestamp_ns u64 (monotonic) │ fork: parent pid, tgid, child pid, tgid
//!                                                                                       │ exec, exit: pid, tgid, …
//! ```
//!
//! What takes over is told twice for a moment: a process is tracked from the time at which [`Kin::taken_over`] is
//! called for it, and what it does later is the observer's to tell. The two overlap by some microseconds, in which a
//! fork may be missed or counted twice: a child more or less, as in a job that differs by one.
//!
//! Needs `CAP_NET_ADMIN` (before Linux 6.6) and the initial user and pid namespaces. Where it is not to be had, as in a
//! container's pid namespace, the job is held until it can be watched.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, send, socket_with, sockopt,
};
use rustix::time::{ClockId, clock_gettime};

use crate::observe::Observation;

/// `CN_IDX_PROC`, `CN_VAL_PROC` (`include/uapi/linux/connector.h`): both 1. The group has the same number.
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN` and `_IGNORE` (`include/uapi/linux/cn_proc.h`).
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// `PROC_EVENT_FORK`, `_EXEC`, `_EXIT`.
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;
/// Bytes of `struct nlmsghdr` and `struct cn_msg`.
const NETLINK_BYTES: usize = 16;
const CONNECTOR_BYTES: usize = 20;
/// `NLMSG_DONE`.
const DONE: u16 = 3;
/// Bytes of the socket's queue: a thousand messages, which come in some milliseconds on a busy machine. What does not
/// fit is lost, and roles are shifted by it.
const QUEUE_BYTES: usize = 1 << 20;
/// Processes that can be taken over: those of the first tenth of a second. What one more does in the moment in which both
/// tell of it counts twice.
const PROCESSES_TAKEN: usize = 4096;

/// Listens to the process connector.
#[derive(Debug)]
pub(super) struct Kin {
    socket: OwnedFd,
    /// Since when a process is tracked, monotonic ns.
    tracked: HashMap<u32, u64>,
}

impl Kin {
    /// Listens from now on.
    ///
    /// # Errors
    /// The kernel has no connector or does not let us use it; or this is a pid namespace of its own, of which the connector
    /// tells nothing (`cn_proc_mcast_ctl`, drivers/connector/cn_proc.c).
    pub(super) fn open() -> io::Result<Kin> {
        if crate::observe::privileges::pid_namespace() != Some(0) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
        // Refused without privileges that we need anyway: then the queue is shorter.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, QUEUE_BYTES);
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES))?;
        let kin = Kin { socket, tracked: HashMap::new() };
        kin.say(LISTEN)?;
        Ok(kin)
    }

    fn say(&self, what: u32) -> io::Result<()> {
        let payload = what.to_ne_bytes();
        let mut message = Vec::with_capacity(NETLINK_BYTES + CONNECTOR_BYTES + payload.len());
        let length = (NETLINK_BYTES + CONNECTOR_BYTES + payload.len()) as u32;
        message.extend(length.to_ne_bytes());
        message.extend(DONE.to_ne_bytes());
        // Flags, sequence and port: none.
        message.extend([0; 10]);
        message.extend(PROCESSES.to_ne_bytes());
        message.extend(PROCESSES.to_ne_bytes());
        // Sequence and acknowledgement: none.
        message.extend([0; 8]);
        message.extend((payload.len() as u16).to_ne_bytes());
        message.extend([0; 2]);
        message.extend(payload);
        send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }

    /// Readable when there is something to tell.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The observer tells of `tgid` from now on.
    pub(super) fn taken_over(&mut self, tgid: u32) {
        self.is_tracked_since(tgid, now_ns());
    }

    fn is_tracked_since(&mut self, tgid: u32, since_ns: u64) {
        if self.tracked.len() < PROCESSES_TAKEN {
            self.tracked.entry(tgid).or_insert(since_ns);
        }
    }

    /// Hands what has happened to `take`, oldest first: forks, execs with the name that the process has now, exits.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&Observation)) {
        let mut message = [0; 256];
        loop {
            match recvfrom(&self.socket, &mut message[..], RecvFlags::empty()) {
                // Only the kernel is believed (port 0).
                Ok((length, _, Some(from))) => {
                    let from = SocketAddrNetlink::try_from(from);
                    let told = message.get(..length).and_then(decode);
                    if let (Ok(0), Some(told)) = (from.map(|from| from.pid()), told)
                        && let Some(observation) = self.own(&told)
                    {
                        take(&observation);
                    }
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Messages were lost; those that are left are told.
                Err(rustix::io::Errno::NOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    /// What is not the observer's to tell.
    fn own(&mut self, told: &Told) -> Option<Observation> {
        let (Event::Forked { tgid, .. } | Event::Exec { tgid } | Event::Exited { tgid }) = told.event;
        if self.tracked.get(&tgid).is_some_and(|&since_ns| told.at_ns >= since_ns) {
            // The observer tracks the children of those that it tracks by itself.
            if let Event::Forked { child, .. } = told.event {
                self.is_tracked_since(child, told.at_ns);
            }
            return None;
        }
        match told.event {
            Event::Forked { tgid, child } => Some(Observation::Forked { parent: tgid, child }),
            Event::Exec { tgid } => {
                // Gone already: then its name does not matter any more.
                let name = std::fs::read(format!("/proc/{tgid}/comm")).ok()?;
                let mut comm = [0; 16];
                let name = name.strip_suffix(b"\n").unwrap_or(&name);
                let length = name.len().min(comm.len() - 1);
                comm[..length].copy_from_slice(&name[..length]);
                Some(Observation::Exec { tgid, comm })
            }
            Event::Exited { tgid } => Some(Observation::Exited { tgid, device_read_bytes: 0, wait_ns: 0 }),
        }
    }
}

impl Drop for Kin {
    /// Until Linux 6.6 the kernel counts listeners by what they say, and goes on telling nobody otherwise.
    fn drop(&mut self) {
        // The socket closes in any case.
        let _ = self.say(IGNORE);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Told {
    at_ns: u64,
    event: Event,
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Forked { tgid: u32, child: u32 },
    Exec { tgid: u32 },
    Exited { tgid: u32 },
}

/// One message; `None` of what is about threads, or about something else.
fn decode(message: &[u8]) -> Option<Told> {
    let body = message.get(NETLINK_BYTES + CONNECTOR_BYTES..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(4 * at..4 * at + 4)?.try_into().ok()?));
    let at_ns = u64::from_ne_bytes(body.get(8..16)?.try_into().ok()?);
    let (pid, tgid) = (word(4)?, word(5)?);
    let event = match word(0)? {
        FORK => {
            let (thread, child) = (word(6)?, word(7)?);
            if thread != child {
                return None;
            }
            Event::Forked { tgid, child }
        }
        EXEC => Event::Exec { tgid },
        EXIT if pid == tgid => Event::Exited { tgid },
        _ => return None,
    };
    Some(Told { at_ns, event })
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it.
    fn message(what: u32, at_ns: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; NETLINK_BYTES + CONNECTOR_BYTES];
        bytes.extend(what.to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes());
        bytes.extend(at_ns.to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn processes_are_told_and_threads_are_not() {
        let told = |event| Some(Told { at_ns: 9, event });
        let forked = Event::Forked { tgid: 10, child: 12 };
        assert_eq!(decode(&message(FORK, 9, &[11, 10, 12, 12])), told(forked));
        assert_eq!(decode(&message(FORK, 9, &[10, 10, 13, 10])), None);
        assert_eq!(decode(&message(EXEC, 9, &[12, 12])), told(Event::Exec { tgid: 12 }));
        assert_eq!(decode(&message(EXIT, 9, &[12, 12, 0, 17])), told(Event::Exited { tgid: 12 }));
        assert_eq!(decode(&message(EXIT, 9, &[13, 12, 0, 17])), None);
        // An acknowledgement, one of another kind, one cut short.
        assert_eq!(decode(&message(0, 9, &[0, 0])), None);
        assert_eq!(decode(&message(4, 9, &[12, 12, 1, 1])), None);
        let whole = message(FORK, 9, &[11, 10, 12, 12]);
        (0..whole.len()).for_each(|length| assert_eq!(decode(&whole[..length]), None));
    }

    #[test]
    fn what_a_process_does_once_it_is_tracked_is_the_observers_to_tell() {
        let Ok(mut kin) = Kin::open() else {
            println!(
                "skipped: what_a_process_does_once_it_is_tracked_is_the_observers_to_tell: no process connector"
            );
            return;
        };
        let earlier = Told { at_ns: now_ns(), event: Event::Forked { tgid: 7, child: 8 } };
        kin.taken_over(7);
        let later = Told { at_ns: now_ns() + 1_000_000, event: Event::Forked { tgid: 7, child: 9 } };
        let of = |tgid| Told { at_ns: now_ns() + 2_000_000, event: Event::Exited { tgid } };
        assert_eq!(kin.own(&earlier), Some(Observation::Forked { parent: 7, child: 8 }));
        assert_eq!(kin.own(&later), None);
        // Forked before, it is not tracked; forked after, it is.
        assert!(kin.own(&of(8)).is_some());
        assert!(kin.own(&of(9)).is_none());
    }

    #[test]
    fn children_are_told_in_the_order_of_their_forks() {
        let Ok(mut kin) = Kin::open() else {
            println!("skipped: children_are_told_in_the_order_of_their_forks: no process connector");
            return;
        };
        let own = std::process::id();
        let children: Vec<u32> = (0..5)
            .map(|_| {
                let mut child = std::process::Command::new("true").spawn().unwrap();
                child.wait().unwrap();
                child.id()
            })
            .collect();
        let mut forked = Vec::new();
        kin.drain(|seen| {
            if let Observation::Forked { parent, child } = *seen
                && parent == own
                && children.contains(&child)
            {
                forked.push(child);
            }
        });
        assert_eq!(forked, children);
    }
}
