//! Whoever controls a program that we start: another run, or the service. Both are told the same; only the
//! words differ.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foretelld::{RunHint, RunManager, RunReply, RunRequest, RunRule};
use rustix::event::{PollFd, PollFlags, poll};

use crate::hints::check::HintReader;
use crate::hints::lines::Line;
use crate::join::{Client, Reply, Request, WireManager};
use crate::rule::Rule;
use crate::service::Service;
use crate::size::human_bytes;
use crate::stats::Stats;
use crate::terminal::warn;

/// Who controls the program.
#[derive(Debug)]
pub(crate) enum Partner {
    /// Another `foretell run`.
    Run(Client),
    /// The service, and a handle on the program for it.
    Service(Service, OwnedFd),
}

impl Partner {
    /// Sends a request.
    pub(crate) fn send(&mut self, request: &Request) -> Result<()> {
        match self {
            Partner::Run(client) => client.send(request),
            Partner::Service(service, root) => service.ask(&translate(request)?, root.as_fd()),
        }
    }

    /// The next answer, if it has come. An error when the other side has ended.
    pub(crate) fn receive(&mut self) -> Result<Option<Reply>> {
        match self {
            Partner::Run(client) => client.receive(),
            Partner::Service(service, _) => Ok(service.answer()?.map(|reply| understand(service, reply))),
        }
    }

    /// Waits for an answer, at most `timeout`. What the other side refuses is an error.
    pub(crate) fn wait_for_answer(&mut self, timeout: Duration) -> Result<Reply> {
        if let Partner::Run(client) = self {
            return client.wait_for_answer(timeout);
        }
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(reply) = self.receive()? {
                return Ok(reply);
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
            Partner::Run(client) => client.descriptor(),
            Partner::Service(service, _) => service.descriptor(),
        }
    }
}

fn translate(request: &Request) -> Result<RunRequest> {
    Ok(match request {
        Request::Join { managers, .. } => {
            let managers = managers.iter().map(manager).collect::<Result<Vec<RunManager>>>()?;
            RunRequest::Start { managers }
        }
        Request::Hints { manager, hints } => {
            let mut reader = HintReader::new(Path::new("/"));
            let mut chunks = Vec::new();
            for line in hints {
                let Some((hint, _)) = reader.read(&Line::Whole(line.as_bytes()))? else { continue };
                chunks.push(RunHint {
                    path: hint.path.to_path_buf(),
                    offset: hint.range.map_or(0, |range| range.offset),
                    length: hint.range.map(|range| range.length),
                });
            }
            RunRequest::Hints { manager: *manager, hints: chunks }
        }
        Request::Report => RunRequest::Report,
        Request::Rules { .. } => bail!("the service is not asked for rules"),
    })
}

fn manager(manager: &WireManager) -> Result<RunManager> {
    let rule = |text: &String| -> Result<RunRule> {
        let Rule { glob, policy, priority } = Rule::parse(text)?;
        Ok(RunRule { glob, policy, priority })
    };
    let rules = manager.rules.iter().map(rule).collect::<Result<Vec<RunRule>>>();
    let rules = rules.context("a rule that does not read back")?;
    Ok(RunManager { name: manager.name.clone(), process: manager.process.clone(), rules })
}

fn understand(service: &Service, reply: RunReply) -> Reply {
    match reply {
        RunReply::Started { budget_bytes, conflict } => {
            let budget = human_bytes(budget_bytes);
            warn(&format!(
                "under the service at {}, which shares its budget of {budget} among all",
                service.path().display()
            ));
            Reply::Joined { conflict }
        }
        RunReply::Taken { skipped, problem } => Reply::Taken { skipped, problem },
        RunReply::Report { report, .. } => Reply::Report(Box::new(Stats::from(*report))),
    }
}
