//! A program under the plane of another run (`--join`) or of the service: we start it, say what it is and what
//! it will read, and ask for a report at its end. When the other side ends first, the program goes on
//! uncontrolled.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use foretell_pagecache::Report;
use foretelld::{RunHint, RunManager, RunReply, RunRequest};
use rustix::event::{PollFd, PollFlags, poll};

use crate::commands::run::{HintSource, Outcome, Refused, manager_name, wake_descriptor};
use crate::config::Controlled;
use crate::hints::Hint;
use crate::hints::check::Kind;
use crate::hints::feed::{self, Fed};
use crate::join::{Client, MAX_MESSAGE_BYTES};
use crate::partner::{Answer, Partner};
use crate::program::{NotRun, Program, exit_code};
use crate::service::Service;
use crate::signals;
use crate::size::human_bytes;
use crate::stats::Stats;
use crate::steer::FIRST_HINTS;
use crate::terminal::warn;

/// How long the other run may take to put a program under control.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to report: it counts what optimal replacement would have done.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of hints in one message; the rest of [`MAX_MESSAGE_BYTES`] is for what is around them.
const HINT_BYTES: usize = MAX_MESSAGE_BYTES / 4;
/// Bytes that a byte of a path takes at most (`\\u0001`), and a hint besides.
const BYTES_OF_A_BYTE: usize = 6;
const BYTES_OF_A_HINT: usize = 96;

/// A program that another run controls and that has not begun.
#[derive(Debug)]
pub(crate) struct Accompanied {
    client: Partner,
    program: Program,
    /// Who controls it, for messages.
    who: String,
}

/// Starts the program held back and has it taken under control by run `run_pid`.
pub(crate) fn join(
    run_pid: u32,
    controlled: &[Controlled],
    name: &OsString,
    arguments: &[OsString],
) -> Result<Accompanied, Refused> {
    let client = Client::connect_to_started(run_pid).map_err(|e| Refused::Wrong(e.context("--join")))?;
    let program = Program::start_held(name, arguments).map_err(not_started)?;
    let client = Partner::Run(client, program.pid());
    // Its rules were asked for before, with those of all others.
    accept(client, program, format!("run {run_pid}"), controlled, name).map(|started| started.0)
}

/// The same by the service; with a conflict of rules, in words.
pub(crate) fn serve(
    service: Service,
    controlled: &[Controlled],
    name: &OsString,
    arguments: &[OsString],
) -> Result<(Accompanied, Option<String>), Refused> {
    let program = Program::start_held(name, arguments).map_err(not_started)?;
    let root = program.pidfd().map_err(Refused::Wrong)?;
    let place = service.path().display().to_string();
    let client = Partner::Service(service, root);
    let (accompanied, conflict, budget_bytes) =
        accept(client, program, "the service".to_owned(), controlled, name)?;
    let budget = human_bytes(budget_bytes);
    warn(&format!("under the service at {place}, which shares its budget of {budget} among all"));
    Ok((accompanied, conflict))
}

fn not_started(error: anyhow::Error) -> Refused {
    Refused::Wrong(NotRun::failed(error).into())
}

/// Has it taken under control; with a conflict of rules, in words, and the budget.
fn accept(
    mut client: Partner,
    program: Program,
    who: String,
    controlled: &[Controlled],
    name: &OsString,
) -> Result<(Accompanied, Option<String>, u64), Refused> {
    let managers = controlled.iter().map(|c| RunManager {
        name: manager_name(c, name),
        process: c.process.clone(),
        rules: c.rules.iter().map(Into::into).collect(),
    });
    let request = RunRequest::Start { managers: managers.collect() };
    let answer = client.send(request).and_then(|()| client.wait_for_answer(JOIN_TIMEOUT));
    match answer {
        Ok(RunReply::Started { budget_bytes, conflict }) => {
            Ok((Accompanied { client, program, who }, conflict, budget_bytes))
        }
        Ok(other) => {
            Err(Refused::Wrong(anyhow!("{who} answered with {other:?}; is it of the same version?")))
        }
        Err(e) => Err(Refused::Wrong(e.context(format!("{who} refuses")))),
    }
}

/// Hints on their way to the other run, one message at a time.
struct Outgoing {
    streams: Vec<(usize, Option<Receiver<Fed>>)>,
    /// What the next messages of a manager are made of.
    hints: Vec<RunHint>,
    manager: usize,
    /// A message was sent and is not answered yet.
    under_way: bool,
    skipped: u64,
    skipped_there: u64,
    /// What the other run sent when it ended.
    farewell: Option<Stats>,
}

impl Accompanied {
    /// Lets the program begin and stays with it until it has ended.
    pub(crate) fn accompany(self, sources: &[HintSource]) -> Result<Outcome> {
        let Accompanied { mut client, mut program, who } = self;
        let wake = wake_descriptor()?;
        let mut streams = Vec::new();
        for source in sources {
            let feed = feed::start(source.file.clone(), source.kind, source.base.clone(), wake.clone())?;
            streams.push((source.manager, Some(feed)));
        }
        let mut outgoing = Outgoing {
            streams,
            hints: Vec::new(),
            manager: 0,
            under_way: false,
            skipped: 0,
            skipped_there: 0,
            farewell: None,
        };
        if sources.iter().any(|source| source.kind != Kind::Stream) {
            // An error here comes again in the loop, where it is dealt with.
            let _ = outgoing.send_first(&mut client, wake.as_fd());
        }
        signals::pass_on(program.pidfd()?)?;
        program.release();
        let started = Instant::now();
        let ended = loop {
            {
                let program = program.ended();
                let mut ready = [
                    PollFd::new(&program, PollFlags::IN),
                    PollFd::from_borrowed_fd(client.descriptor(), PollFlags::IN),
                    PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN),
                ];
                match poll(&mut ready, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => break Err(e.into()),
                }
            }
            let _ = rustix::io::read(&wake, &mut [0; 8]);
            if let Some(status) = program.try_wait()? {
                break Ok(status);
            }
            if let Err(e) = outgoing.advance(&mut client) {
                break Err(e);
            }
        };
        let (status, report) = match ended {
            Ok(status) => (status, last_report(&mut client, outgoing.under_way)),
            Err(e) => {
                warn(&format!("{who} no longer controls this program ({e:#}); it goes on uncontrolled"));
                let stats = outgoing.farewell.take().map(|stats| Stats {
                    controlled: false,
                    uncontrolled_because: Some(format!("{who}, which controlled it, ended first")),
                    ..stats
                });
                (program.wait()?, stats.ok_or(e))
            }
        };
        let mut stats = report.unwrap_or_else(|e| {
            Stats::uncontrolled(&format!("{who}, which controlled it, gave no report ({e:#})"))
        });
        stats.elapsed_s = started.elapsed().as_secs_f64();
        stats.hints_skipped = outgoing.skipped + outgoing.skipped_there;
        Ok(Outcome { code: exit_code(status), stats })
    }
}

fn last_report(client: &mut Partner, mut under_way: bool) -> Result<Stats> {
    client.send(RunRequest::Report)?;
    loop {
        match client.wait_for_answer(REPORT_TIMEOUT)? {
            RunReply::Report { report, .. } => return Ok(stats(client, *report)),
            RunReply::Taken { .. } if under_way => under_way = false,
            other @ (RunReply::Taken { .. } | RunReply::Started { .. }) => {
                return Err(anyhow!("an unexpected answer: {other:?}"));
            }
        }
    }
}

/// What was done for the program, as far as it is its own.
fn stats(client: &Partner, report: Report) -> Stats {
    let mut stats = Stats::from(report);
    if matches!(client, Partner::Run(..)) {
        stats.belady_missing = Some("the budget is shared with another run, whose report has it".to_owned());
    }
    stats
}

impl Outgoing {
    /// Has the first hints taken before the program reads; waits at most [`FIRST_HINTS`] for each side.
    fn send_first(&mut self, client: &mut Partner, wake: BorrowedFd<'_>) -> Result<()> {
        let timeout = rustix::event::Timespec::try_from(FIRST_HINTS)?;
        poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&timeout))?;
        self.advance(client)?;
        if self.under_way {
            let answer = PollFd::from_borrowed_fd(client.descriptor(), PollFlags::IN);
            poll(&mut [answer], Some(&timeout))?;
        }
        Ok(())
    }

    /// Reads answers, and sends the next message when the last one was answered.
    fn advance(&mut self, client: &mut Partner) -> Result<()> {
        while let Some(reply) = client.receive()? {
            match reply {
                Answer::Reply(RunReply::Taken { skipped, problem }) => {
                    self.under_way = false;
                    self.skipped_there = skipped;
                    if let Some(problem) = problem {
                        warn(&format!("a hint was skipped: {problem}"));
                    }
                }
                Answer::Reply(RunReply::Report { report, .. }) => {
                    self.farewell = Some(stats(client, *report));
                }
                // What was refused is lost, nothing else.
                Answer::Refused(why) => {
                    self.under_way = false;
                    self.skipped += 1;
                    warn(&format!("hints were refused: {why}"));
                }
                Answer::Reply(RunReply::Started { .. }) => {}
            }
        }
        if self.under_way {
            return Ok(());
        }
        if self.hints.is_empty() {
            self.collect();
        }
        if !self.hints.is_empty() {
            let mut bytes = 0;
            let fit = self.hints.iter().take_while(|hint| {
                bytes += hint.path.as_os_str().len() * BYTES_OF_A_BYTE + BYTES_OF_A_HINT;
                bytes <= HINT_BYTES
            });
            // One hint alone is always shorter than a message.
            let fit = fit.count().max(1);
            let hints = self.hints.drain(..fit).collect();
            client.send(RunRequest::Hints { manager: self.manager, hints }).context("sending hints")?;
            self.under_way = true;
        }
        Ok(())
    }

    /// Takes one batch from the first reader that has one.
    fn collect(&mut self) {
        for (manager, stream) in &mut self.streams {
            while let Some(feed) = stream {
                match feed.try_recv() {
                    Ok(Fed::Hints(hints)) if !hints.is_empty() => {
                        self.manager = *manager;
                        self.hints = hints.iter().map(Hint::to_run).collect();
                        return;
                    }
                    Ok(Fed::Hints(_)) => {}
                    Ok(Fed::Warning(text)) => warn(&text),
                    Ok(Fed::Skipped(lines)) => self.skipped += lines,
                    Ok(Fed::End { bad_lines, absent }) => {
                        self.skipped += bad_lines + absent;
                        *stream = None;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => *stream = None,
                }
            }
        }
    }
}
