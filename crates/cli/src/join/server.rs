//! The run that listens. Nothing here waits: the loop that steers calls [`Server::serve`] in between.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, Result, anyhow, bail};
use foretell_pagecache::Plane;
use foretelld::{Run, RunManager, RunRefused, RunReply, RunRequest};

use super::protocol::{
    Filled, Inbox, MAX_MANAGERS, MAX_MESSAGE_BYTES, MAX_REPLY_BYTES, Reply, Request, encode, read_rules,
};
use crate::rule::{self, Rule};

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

/// A program that another run has brought.
#[derive(Debug)]
struct Joined {
    run: Run,
    rules: Vec<Rule>,
}

/// Name of the abstract socket of run `pid`.
pub(super) fn socket_name(pid: u32) -> String {
    format!("{}{pid}", super::client::SOCKET_PREFIX)
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
        self.connections
            .iter()
            .any(|c| !c.outbox.is_empty() || c.session.as_ref().is_some_and(|joined| joined.run.is_waiting()))
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
                    plane.end_session(joined.run.session());
                }
            } else {
                at += 1;
            }
        }
    }

    /// The run ends: what was done for each joined program is sent to it unasked, and all connections are closed. A peer
    /// that does not read is not waited for.
    pub fn farewell(mut self, plane: &Plane) {
        for connection in &mut self.connections {
            if let Some(joined) = &connection.session {
                let reply = joined.run.report(plane);
                connection.answer(&Reply::Run { reply });
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
                let rules: Vec<_> = read_rules(rules)?.iter().map(Into::into).collect();
                let conflicts = plane.conflicts(&rules)?;
                Ok(Some(Reply::Rules {
                    rules: own.iter().map(Into::into).collect(),
                    conflict: conflicts.first().map(ToString::to_string),
                }))
            }
            Request::Run { root_pid, request } => {
                Ok(self.run(root_pid, request, plane)?.map(|reply| Reply::Run { reply }))
            }
        }
    }

    fn run(&mut self, root_pid: u32, request: RunRequest, plane: &mut Plane) -> Result<Option<RunReply>> {
        let refused = |(_, text): RunRefused| anyhow!(text);
        match (request, &mut self.session) {
            (RunRequest::Start { .. }, Some(_)) => {
                bail!("this connection has joined already; open another one for another program")
            }
            (RunRequest::Start { managers }, None) => self.join(root_pid, managers, plane).map(Some),
            (_, None) => bail!("join first"),
            (RunRequest::Hints { manager, hints }, Some(joined)) => {
                joined.run.hint(manager, hints).map_err(refused)?;
                Ok(None)
            }
            (RunRequest::Report, Some(joined)) => {
                // What the program read before it ended may still be in the ring.
                plane.take_in_all();
                Ok(Some(joined.run.report(plane)))
            }
        }
    }

    fn join(&mut self, root_pid: u32, managers: Vec<RunManager>, plane: &mut Plane) -> Result<RunReply> {
        if managers.len() > MAX_MANAGERS {
            bail!("{} managers; use at most {MAX_MANAGERS}", managers.len());
        }
        // Who may connect may not bring the processes of others under control.
        if parent_of(root_pid) != Some(self.peer_pid) {
            bail!("process {root_pid} is not a child of process {}, which asks for it", self.peer_pid);
        }
        let mut rules = Vec::new();
        for manager in &managers {
            let own = read_rules(manager.rules.clone())?;
            rule::check(&own)?;
            rules.extend(own);
        }
        let named = managers.into_iter().map(|manager| {
            let name = format!("{}@{}", manager.name, self.peer_pid);
            RunManager { name, ..manager }
        });
        let (run, reply) = Run::start(plane, root_pid, named.collect()).map_err(|(_, text)| anyhow!(text))?;
        self.session = Some(Joined { run, rules });
        Ok(reply)
    }

    fn offer_hints(&mut self, plane: &mut Plane) {
        let Some(joined) = &mut self.session else { return };
        if let Some(reply) = joined.run.offer(plane) {
            self.answer(&Reply::Run { reply });
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

/// The parent of a process (proc_pid_stat(5): the fourth field, after the name in brackets).
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert_eq!(parent_of(child.id()), Some(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
