//! Whoever controls a program that we start: another run, or the service. Both are asked the same; only the way there
//! differs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use foretelld::{RunReply, RunRequest};
use rustix::event::{PollFd, PollFlags, poll};

use crate::join::{Client, Reply, Request};
use crate::service::Service;

/// Who controls the program.
#[derive(Debug)]
pub(crate) enum Partner {
    /// Another `foretell run`, and the program's process for it.
    Run(Client, u32),
    /// The service, and a handle on the program for it.
    Service(Service, OwnedFd),
}

/// What comes back.
#[derive(Debug)]
pub(crate) enum Answer {
    /// What was asked for.
    Reply(RunReply),
    /// A request was refused, and nothing was changed.
    Refused(String),
}

impl Partner {
    /// Sends a request.
    pub(crate) fn send(&mut self, request: RunRequest) -> Result<()> {
        match self {
            Partner::Run(client, root_pid) => client.send(&Request::Run { root_pid: *root_pid, request }),
            Partner::Service(service, root) => service.ask(&request, root.as_fd()),
        }
    }

    /// The next answer, if it has come. An error when the other side has ended.
    pub(crate) fn receive(&mut self) -> Result<Option<Answer>> {
        match self {
            Partner::Run(client, _) => match client.receive()? {
                Some(Reply::Run { reply }) => Ok(Some(Answer::Reply(reply))),
                Some(Reply::Error { message }) => Ok(Some(Answer::Refused(message))),
                Some(Reply::Rules { .. }) | None => Ok(None),
            },
            Partner::Service(service, _) => Ok(service.answer()?.map(Answer::Reply)),
        }
    }

    /// Waits for an answer, at most `timeout`. What the other side refuses is an error.
    pub(crate) fn wait_for_answer(&mut self, timeout: Duration) -> Result<RunReply> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.receive()? {
                Some(Answer::Reply(reply)) => return Ok(reply),
                Some(Answer::Refused(why)) => bail!("{why}"),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no answer within {timeout:?}");
            }
            let left = rustix::event::Timespec::try_from(left)?;
            match poll(&mut [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Readable when an answer has come.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Partner::Run(client, _) => client.descriptor(),
            Partner::Service(service, _) => service.descriptor(),
        }
    }
}
