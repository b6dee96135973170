//! The run that connects to another one.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::protocol::{Filled, Inbox, MAX_REPLY_BYTES, Reply, Request, encode, read_rules};
use super::server::socket_name;
use crate::rule::Rule;
use crate::scan::{self, Allowance, Verdict};

/// Every run listens on an abstract socket of this name and its process number.
pub(super) const SOCKET_PREFIX: &str = "foretell-run-";

/// How long another run may take to say which rules it has. It answers between two rounds of its loop; one
/// that is stopped (Ctrl-Z) does not answer, and holds nobody up.
const RULES_TIMEOUT: Duration = Duration::from_secs(2);

/// So young a process may still be on its way to control its program: loading the BPF programs takes 50 ms on a
/// machine that does nothing else.
const STARTING: Duration = Duration::from_secs(10);
/// How often such a one is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// A connection to another run.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    inbox: Inbox,
    ended: bool,
}

impl Client {
    /// Connects to the run of foretell process `pid`.
    pub fn connect(pid: u32) -> Result<Client> {
        let address = SocketAddrUnix::new_abstract_name(socket_name(pid).as_bytes())?;
        // Anybody may listen under this name and let nobody in: who connects without waiting is refused then.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &address).map_err(|e| match e {
            Errno::CONNREFUSED => anyhow!(
                "process {pid} is no 'foretell run' that controls a program; \
                 give the number of one that does ('pgrep foretell' lists them)"
            ),
            Errno::AGAIN => anyhow!("cannot reach run {pid}: it lets nobody in"),
            _ => anyhow!("cannot reach run {pid}: {e}"),
        })?;
        let stream = UnixStream::from(socket);
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        let is_owner = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        if u32::try_from(peer.pid.as_raw_nonzero().get()) != Ok(pid) || !is_owner {
            bail!("run {pid} belongs to somebody else; only its own user and root may join it");
        }
        Ok(Client { stream, inbox: Inbox::new(MAX_REPLY_BYTES), ended: false })
    }

    /// The same to a run that may just have been started (`foretell run … & foretell run --join $! …`).
    pub fn connect_to_started(pid: u32) -> Result<Client> {
        loop {
            match Client::connect(pid) {
                Err(_) if age(pid).is_some_and(|age| age < STARTING) => std::thread::sleep(RETRY),
                result => return result,
            }
        }
    }

    /// Readable when an answer has come.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let line = encode(request)?;
        let mut rest = &line[..];
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                // It has closed: what it said before says why, and is still there to be received.
                Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    // Answers of the other side are read meanwhile by the kernel's buffer: no deadlock, as
                    // there is at most one request under way.
                    wait(&self.stream, PollFlags::OUT, None)?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The next answer, if it has come. An error when the other side has ended.
    pub fn receive(&mut self) -> Result<Option<Reply>> {
        if !self.ended && self.inbox.fill(&mut &self.stream)? == Filled::End {
            self.ended = true;
        }
        match self.inbox.next_line() {
            Some(line) => Ok(Some(serde_json::from_slice(&line).context("an answer that makes no sense")?)),
            None if self.ended || self.inbox.is_over_limit() => bail!("it has ended"),
            None => Ok(None),
        }
    }

    /// Waits for an answer, at most `timeout`. What the other side refuses is an error.
    pub fn wait_for_answer(&mut self, timeout: Duration) -> Result<Reply> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.receive()? {
                Some(Reply::Error { message }) => bail!("{message}"),
                Some(reply) => return Ok(reply),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {timeout:?}");
            }
            wait(&self.stream, PollFlags::IN, Some(left))?;
        }
    }
}

/// What holds in other runs.
#[derive(Debug, Default)]
pub struct Others {
    /// The rules of each of them.
    pub rules: Vec<Vec<Rule>>,
    /// The first file for which they say something else than ours, in words.
    pub conflict: Option<String>,
}

/// Looks at all other runs that may be talked to: which rules hold there, and is one of the files that `rules` match under
/// another policy? Runs that do not answer are let pass; of globs that match more files than can be looked at no conflict
/// is found.
#[must_use]
pub fn other_runs(rules: &[Rule], allowance: &mut Allowance) -> Others {
    let mut others = Others::default();
    if rules.is_empty() {
        return others;
    }
    for pid in numbers_of_runs() {
        let ask = || -> Result<Reply> {
            let mut client = Client::connect(pid)?;
            client.send(&Request::Rules { rules: rules.iter().map(Into::into).collect() })?;
            client.wait_for_answer(RULES_TIMEOUT)
        };
        let Ok(Reply::Rules { rules: theirs, conflict }) = ask() else { continue };
        let theirs = read_rules(theirs).unwrap_or_default();
        let advice = "use the same policy, or wait until that run has ended";
        if others.conflict.is_none() {
            others.conflict = match (conflict, scan::conflict(rules, &theirs, allowance)) {
                (Some(conflict), _) => Some(format!("conflict with run {pid}: {conflict}; {advice}")),
                (None, Verdict::Found((path, our, their))) => Some(format!(
                    "rule '{our}' conflicts with rule '{their}' of run {pid} on {}; {advice}",
                    path.display()
                )),
                (None, Verdict::Nothing | Verdict::Unknown) => None,
            };
        }
        others.rules.push(theirs);
    }
    others
}

/// How long ago a process was started, if it runs (proc_pid_stat(5): the third field is its state, the 22nd the time
/// of its start since boot in clock ticks; exec(2) changes none of them).
fn age(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let started_ticks: u64 = fields.nth(18)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age_s = uptime_s - started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    (state != "Z").then(|| Duration::from_secs_f64(age_s.max(0.0)))
}

/// The process numbers of all runs that listen (proc_net(5), `/proc/net/unix`: abstract names begin with '@').
fn numbers_of_runs() -> BTreeSet<u32> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    runs_in(&sockets).filter(|pid| *pid != std::process::id()).collect()
}

fn runs_in(sockets: &str) -> impl Iterator<Item = u32> {
    sockets
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(SOCKET_PREFIX))
        .filter_map(|pid| pid.parse().ok())
}

fn wait(stream: &UnixStream, flags: PollFlags, timeout: Option<Duration>) -> Result<()> {
    let timeout = timeout.map(rustix::event::Timespec::try_from).transpose()?;
    match poll(&mut [PollFd::new(stream, flags)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_their_sockets() {
        let sockets = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 2 0 10000 0001 01 9 @foretell-run-12\n\
            0: 3 0 0 0001 03 10 @foretell-run-12\n\
            0: 2 0 10000 0001 01 11 /run/x\n\
            0: 2 0 10000 0001 01 12 @foretell-run-x\n\
            0: 2 0 10000 0001 01 13\n";
        assert_eq!(runs_in(sockets).collect::<BTreeSet<_>>(), BTreeSet::from([12]));
    }

    #[test]
    fn a_process_has_an_age_until_it_ends() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(age(child.id()).unwrap() <= age(std::process::id()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(age(child.id()), None);
    }

    #[test]
    fn a_socket_that_lets_nobody_in_is_not_waited_for() {
        // No process has this number.
        const NOBODY: u32 = u32::MAX;
        let address = SocketAddrUnix::new_abstract_name(socket_name(NOBODY).as_bytes()).unwrap();
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = socket();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let waiting: Vec<_> = std::iter::repeat_with(|| (socket(), ()))
            .take_while(|(socket, ())| rustix::net::connect(socket, &address).is_ok())
            .collect();
        assert!(!waiting.is_empty());
        let error = Client::connect(NOBODY).unwrap_err().to_string();
        assert!(error.ends_with("it lets nobody in"), "{error}");
        assert!(numbers_of_runs().contains(&NOBODY), "every run with a rule asks it");
        let others = other_runs(&[Rule::parse("/nowhere/**=mru").unwrap()], &mut Allowance::default());
        assert_eq!(others.conflict, None);
    }

    #[test]
    fn a_process_that_is_no_run_is_named() {
        let error = Client::connect(1).unwrap_err().to_string();
        assert!(error.starts_with("process 1 is no 'foretell run'"), "{error}");
    }
}
