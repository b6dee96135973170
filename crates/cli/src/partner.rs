//! Whoever controls a program that we start: a host of our own, or another one, be it the service or another run's.
//! Both are told and asked the same; what differs is that ours does its work while we wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foretell_pagecache::Casting;
use foretelld::{RunManager, RunRefused, RunReply, RunRequest, Service};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attached::Job;
use crate::host::{Answer, Host, Trouble};
use crate::hosts::Round;

/// How long another host may take to put a program under control.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait when nothing happens; whatever can happen wakes us earlier.
const IDLE: Duration = Duration::from_millis(500);

/// Who controls the program.
#[derive(Debug)]
pub(crate) enum Partner {
    /// A host of our own, and what it has refused.
    Own(Box<Service>, VecDeque<String>),
    /// Another one, and a pidfd of the program once it has begun there.
    Other(Box<Host>, Option<OwnedFd>),
}

/// A program under control, which has not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) budget_bytes: u64,
    /// When its session began, by `CLOCK_MONOTONIC`.
    pub(crate) began_ns: u64,
    /// A file that is under another rule already, in words.
    pub(crate) conflict: Option<String>,
}

/// Why a program could not be put under control.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// Something is missing here.
    Unable(String),
    /// What was asked for is wrong.
    Wrong(anyhow::Error),
    /// The other host has ended meanwhile.
    Ended(anyhow::Error),
}

impl NotStarted {
    fn by(error: anyhow::Error) -> NotStarted {
        match error.downcast_ref::<Trouble>() {
            Some(trouble) if trouble.is_the_end() => NotStarted::Ended(error),
            _ => NotStarted::Wrong(error),
        }
    }
}

impl Partner {
    pub(crate) fn own(host: Service) -> Partner {
        Partner::Own(Box::new(host), VecDeque::new())
    }

    pub(crate) fn other(host: Host) -> Partner {
        Partner::Other(Box::new(host), None)
    }

    /// What it is called in messages.
    pub(crate) fn who(&self) -> &str {
        match self {
            Partner::Own(..) => "this run",
            Partner::Other(host, _) => host.who(),
        }
    }

    /// Has a program taken under control.
    pub(crate) fn start(
        &mut self,
        job: &Job,
        managers: Vec<RunManager>,
        casting: Option<Casting>,
    ) -> Result<Started, NotStarted> {
        use foretell_protocol::ErrorCode;
        let reply = match self {
            Partner::Own(host, _) => {
                host.begin(job.pid(), managers, casting).map_err(|(code, text)| match code {
                    ErrorCode::Internal => NotStarted::Unable(text),
                    // One that is held is there, whatever could be found out about it.
                    ErrorCode::Process if matches!(job, Job::Program(_)) => NotStarted::Unable(text),
                    _ => NotStarted::Wrong(anyhow::anyhow!(text)),
                })?
            }
            Partner::Other(_, root) => {
                *root = Some(job.pidfd().map_err(NotStarted::Wrong)?);
                self.send(RunRequest::Start { managers }).map_err(NotStarted::by)?;
                self.wait_for_answer(START_PATIENCE).map_err(NotStarted::by)?
            }
        };
        match reply {
            RunReply::Started { budget_bytes, began_ns, conflict } => {
                Ok(Started { budget_bytes, began_ns, conflict })
            }
            other => Err(NotStarted::Wrong(self.unexpected(&other))),
        }
    }

    pub(crate) fn unexpected(&self, reply: &RunReply) -> anyhow::Error {
        anyhow::anyhow!("{} answered with {reply:?}; is it of the same version?", self.who())
    }

    /// Says something about the program.
    pub(crate) fn send(&mut self, request: RunRequest) -> Result<()> {
        match self {
            Partner::Own(host, refused) => {
                if let Err((_, text)) = host.ask(request) as Result<(), RunRefused> {
                    refused.push_back(text);
                }
                Ok(())
            }
            Partner::Other(host, root) => {
                let root = root.as_ref().context("no program has been started there")?;
                Ok(host.ask_run(&request, root.as_fd())?)
            }
        }
    }

    /// The next answer, if it has come. An error when the other side has ended.
    pub(crate) fn receive(&mut self) -> Result<Option<Answer>> {
        match self {
            Partner::Own(host, refused) => {
                let refused = refused.pop_front().map(Answer::Refused);
                Ok(refused.or_else(|| host.reply().map(Answer::Run)))
            }
            Partner::Other(host, _) => Ok(host.answer()?),
        }
    }

    /// Waits for an answer, at most `patience`. What the other side refuses is an error.
    pub(crate) fn wait_for_answer(&mut self, patience: Duration) -> Result<RunReply> {
        loop {
            match self.wait_for_any_answer(patience)? {
                Answer::Run(reply) => return Ok(reply),
                Answer::Refused(why) => bail!("{} refuses: {why}", self.who()),
                Answer::Welcome | Answer::Status(_) => {}
            }
        }
    }

    /// The same for any answer, also a refusal.
    pub(crate) fn wait_for_any_answer(&mut self, patience: Duration) -> Result<Answer> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(answer) = self.receive()? {
                return Ok(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Silent { who: self.who().to_owned(), patience }.into());
            }
            self.wait(&[], Some(left))?;
        }
    }

    /// Waits for what other hosts answer. A host of our own answers those who ask it meanwhile: they may wait for us as we
    /// do for them. Another one is left alone: what it says now, or that it has ended, is for later.
    pub(crate) fn wait_for(&mut self, round: &mut Round) -> Result<()> {
        if let Partner::Other(..) = self {
            round.wait();
            return Ok(());
        }
        while !round.advance() {
            let left = round.until().map(|until| until.saturating_duration_since(Instant::now()));
            let waiting: Vec<_> = round.waiting().collect();
            self.wait(&waiting, left)?;
        }
        Ok(())
    }

    /// Waits until one of `others` is readable or an answer may have come, or for about as long as `longest` says.
    /// A host of our own does its work meanwhile. Which of `others` are ready.
    pub(crate) fn wait(
        &mut self,
        others: &[(BorrowedFd<'_>, PollFlags)],
        longest: Option<Duration>,
    ) -> Result<Vec<usize>> {
        match self {
            Partner::Own(host, _) => {
                let others: Vec<_> = others.iter().map(|(descriptor, _)| *descriptor).collect();
                Ok(host.round(&others, longest.unwrap_or(IDLE).min(IDLE))?)
            }
            Partner::Other(host, _) => {
                let all = others.iter().copied().chain([(host.as_fd(), host.interest())]);
                let mut watched: Vec<_> =
                    all.map(|(descriptor, flags)| PollFd::from_borrowed_fd(descriptor, flags)).collect();
                let timeout = longest.map(Timespec::try_from).transpose()?;
                match poll(&mut watched, timeout.as_ref()) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
                let ready = watched[..others.len()].iter().enumerate();
                Ok(ready.filter(|(_, fd)| !fd.revents().is_empty()).map(|(at, _)| at).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn waiting_for_others_takes_no_time_when_the_host_has_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut partner = Partner::other(Host::of(ours.into()));
        drop(theirs);
        let (ours, _silent) = UnixStream::pair().unwrap();
        let patience = Duration::from_secs(1);
        let silent = std::iter::once(Ok(Host::of(ours.into())));
        let mut round = Round::ask(silent, |_| Ok(()), patience);
        let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let before = used();
        partner.wait_for(&mut round).unwrap();
        assert!(used() - before < patience / 4, "{:?}", used() - before);
        assert!(partner.wait_for_answer(patience).unwrap_err().to_string().contains("has gone"));
    }
}
