//! The run that listens. Nothing here waits: the loop that steers calls [`Server::serve`] in between.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, Result, bail};
use foretell_pagecache::{ManagerSpec, Plane, SessionId, SessionSpec};

use super::protocol::{
    Filled, Inbox, MAX_MANAGERS, MAX_MESSAGE_BYTES, MAX_REPLY_BYTES, Reply, Request, WireManager, encode,
    parse_rules,
};
use crate::backlog::Backlog;
use crate::hints::check::HintReader;
use crate::hints::lines::Line;
use crate::rule::{self, Rule};
use crate::stats::Stats;

/// Connections at a time, and so joined runs; further ones are told so and closed.
pub const MAX_CONNECTIONS: usize = 64;

/// The listening end of a run.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    connections: Vec<Connection>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    peer_pid: u32,
    inbox: Inbox,
    outbox: Vec<u8>,
    session: Option<Joined>,
    /// Nothing more is read; closed when the outbox is empty.
    closing: bool,
}

#[derive(Debug)]
struct Joined {
    id: SessionId,
    rules: Vec<Rule>,
    backlogs: Vec<Backlog>,
    /// The hints of this manager are not all taken, so their request is not answered yet.
    unanswered: Option<usize>,
    started: std::time::Instant,
}

impl Joined {
    /// What was done for the program that run `peer_pid` brought.
    fn part(&self, stats: Stats, peer_pid: u32) -> Stats {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        let mut part = stats.part(elapsed_s, |manager| part_of(manager, peer_pid));
        part.hints_skipped = self.backlogs.iter().map(Backlog::skipped).sum();
        part
    }
}

/// Name of the abstract socket of run `pid`.
pub(super) fn socket_name(pid: u32) -> String {
    format!("{}{pid}", super::client::SOCKET_PREFIX)
}

/// Does `manager` belong to the run that joined as `run_pid`? The names of its managers end so.
#[must_use]
pub fn part_of(manager: &str, run_pid: u32) -> bool {
    manager.rsplit_once('@').is_some_and(|(_, pid)| pid.parse() == Ok(run_pid))
}

impl Server {
    /// Listens for others. `rules` are this run's own.
    pub fn bind(rules: Vec<Rule>) -> Result<Server> {
        let name = socket_name(std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
            .context("cannot listen for runs that want to join")?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, connections: Vec::new(), rules })
    }

    /// What to wait on: [`Server::serve`] has something to do when one of these is readable.
    #[must_use]
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let connections = self.connections.iter().filter(|c| !c.closing).map(|c| c.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(connections).collect()
    }

    /// Is something unfinished that needs another call soon, whether or not a descriptor is readable?
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.connections.iter().any(|c| {
            !c.outbox.is_empty() || c.session.as_ref().is_some_and(|joined| joined.unanswered.is_some())
        })
    }

    /// Accepts, reads, answers. `plane` is where joined programs are controlled.
    pub fn serve(&mut self, plane: &mut Plane) {
        self.accept();
        let mut at = 0;
        while at < self.connections.len() {
            let joined = self.connections.iter().filter_map(|connection| connection.session.as_ref());
            let own: Vec<Rule> =
                self.rules.iter().chain(joined.flat_map(|joined| &joined.rules)).cloned().collect();
            let connection = &mut self.connections[at];
            if connection.serve(plane, &own).is_err() || connection.is_done() {
                let gone = self.connections.remove(at);
                if let Some(joined) = gone.session {
                    plane.end_session(joined.id);
                }
            } else {
                at += 1;
            }
        }
    }

    /// The run ends: every joined program's part of `stats` is sent to it unasked, and all connections are
    /// closed. A peer that does not read is not waited for.
    pub fn farewell(mut self, stats: &Stats) {
        for connection in &mut self.connections {
            if let Some(joined) = &connection.session {
                let part = joined.part(stats.clone(), connection.peer_pid);
                connection.answer(&Reply::Report(Box::new(part)));
                let _ = connection.flush();
            }
        }
    }

    fn accept(&mut self) {
        // Ends with WouldBlock, or with an error of a peer that has gone already.
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
            let mut connection = Connection {
                peer_pid: u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0),
                stream,
                inbox: Inbox::new(MAX_MESSAGE_BYTES),
                outbox: Vec::new(),
                session: None,
                closing: false,
            };
            if connection.stream.set_nonblocking(true).is_err() {
                continue;
            }
            if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
                connection.refuse("this run belongs to another user; only that user and root may talk to it");
            } else if self.connections.len() >= MAX_CONNECTIONS {
                connection.refuse(&format!(
                    "{MAX_CONNECTIONS} runs are connected already; wait until one of them has ended"
                ));
            } else {
                self.connections.push(connection);
            }
        }
    }
}

impl Connection {
    /// Says why not, at once or never: a peer that does not read is not waited for.
    fn refuse(&mut self, why: &str) {
        self.answer(&Reply::Error { message: why.to_owned() });
        let _ = self.flush();
    }

    fn is_done(&self) -> bool {
        self.closing && self.outbox.is_empty()
    }

    fn serve(&mut self, plane: &mut Plane, own: &[Rule]) -> io::Result<()> {
        if !self.closing && self.inbox.fill(&mut &self.stream)? == Filled::End {
            // Only the reading side may have been closed, but nobody who wants an answer does that.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !self.closing {
            let Some(line) = self.inbox.next_line() else { break };
            let reply = match serde_json::from_slice(&line) {
                Ok(request) => self.handle(request, plane, own),
                Err(e) => Err(anyhow::anyhow!("not a request: {e}")),
            };
            match reply {
                Ok(Some(reply)) => self.answer(&reply),
                Ok(None) => {}
                Err(e) => self.answer(&Reply::Error { message: format!("{e:#}") }),
            }
        }
        if self.inbox.is_over_limit() && !self.closing {
            self.answer(&Reply::Error {
                message: format!("a request has at most {MAX_MESSAGE_BYTES} bytes"),
            });
            self.closing = true;
        }
        self.offer_hints(plane);
        self.flush()
    }

    fn handle(&mut self, request: Request, plane: &mut Plane, own: &[Rule]) -> Result<Option<Reply>> {
        match request {
            Request::Rules { rules } => {
                let conflicts = plane.conflicts(&to_plane(&parse_rules(&rules)?))?;
                Ok(Some(Reply::Rules {
                    rules: own.iter().map(ToString::to_string).collect(),
                    conflict: conflicts.first().map(ToString::to_string),
                }))
            }
            Request::Join { root_pid, managers } => {
                if self.session.is_some() {
                    bail!("this connection has joined already; open another one for another program");
                }
                self.session = Some(self.join(root_pid, &managers, plane)?);
                // Asked for before it joined.
                Ok(Some(Reply::Joined { conflict: None }))
            }
            Request::Hints { manager, hints } => {
                let joined = self.session.as_mut().context("join first, then send hints")?;
                if joined.unanswered.is_some() {
                    bail!("the last hints are not all taken; wait for the answer before sending more");
                }
                let backlog = joined.backlogs.get_mut(manager).context("there is no such manager")?;
                let mut reader = HintReader::new(std::path::Path::new("/"));
                for line in &hints {
                    if let Some((hint, _)) = reader.read(&Line::Whole(line.as_bytes()))? {
                        backlog.extend([hint]);
                    }
                }
                joined.unanswered = Some(manager);
                Ok(None)
            }
            Request::Report => {
                let joined = self.session.as_ref().context("join first, then ask for a report")?;
                let part = joined.part(Stats::from(plane.report_so_far()), self.peer_pid);
                Ok(Some(Reply::Report(Box::new(part))))
            }
        }
    }

    fn join(&self, root_pid: u32, managers: &[WireManager], plane: &mut Plane) -> Result<Joined> {
        if managers.len() > MAX_MANAGERS {
            bail!("{} managers; use at most {MAX_MANAGERS}", managers.len());
        }
        // Who may connect may not bring the processes of others under control.
        if parent_of(root_pid) != Some(self.peer_pid) {
            bail!("process {root_pid} is not a child of process {}, which asks for it", self.peer_pid);
        }
        let mut specs = Vec::new();
        let mut rules = Vec::new();
        for manager in managers {
            let parsed = parse_rules(&manager.rules)?;
            rule::check(&parsed)?;
            specs.push(ManagerSpec {
                name: format!("{}@{}", manager.name, self.peer_pid),
                rules: to_plane(&parsed),
                process_names: manager.process.iter().cloned().collect(),
            });
            rules.extend(parsed);
        }
        let id = plane.add_session(SessionSpec::new(root_pid, specs))?;
        let backlogs = (0..managers.len()).map(Backlog::new).collect();
        Ok(Joined { id, rules, backlogs, unanswered: None, started: std::time::Instant::now() })
    }

    fn offer_hints(&mut self, plane: &mut Plane) {
        let Some(joined) = &mut self.session else { return };
        let Some(manager) = joined.unanswered else { return };
        let backlog = &mut joined.backlogs[manager];
        backlog.offer(plane, joined.id);
        if backlog.is_empty() {
            joined.unanswered = None;
            let reply = Reply::Taken { skipped: backlog.skipped(), problem: backlog.take_problem() };
            self.answer(&reply);
        }
    }

    fn answer(&mut self, reply: &Reply) {
        match encode(reply) {
            Ok(line) if self.outbox.len() + line.len() <= MAX_REPLY_BYTES => self.outbox.extend(line),
            // A peer that asks without reading the answers is let go.
            _ => {
                self.closing = true;
                self.outbox.clear();
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match (&self.stream).write(&self.outbox) {
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Rules as the plane takes them.
pub(crate) fn to_plane(rules: &[Rule]) -> Vec<foretell_pagecache::Rule> {
    let convert = |rule: &Rule| foretell_pagecache::Rule {
        glob: rule.glob.clone(),
        policy: rule.policy,
        priority: rule.priority,
    };
    rules.iter().map(convert).collect()
}

/// The parent of a process (proc_pid_stat(5): the fourth field, after the name in brackets).
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_of_a_joined_run_carry_its_number() {
        assert!(part_of("cscope@12", 12));
        assert!(!part_of("cscope@123", 12) && !part_of("cscope", 12));
        assert!(part_of("odd@name@12", 12));
    }

    #[test]
    fn the_parent_is_read() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert_eq!(parent_of(child.id()), Some(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
