//! A program under control, from before its first instruction to its end: by a host of our own, by another run's
//! (`--join`) or by the service. When the host fails or ends first, the program goes on uncontrolled.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use foretell_learn::{Finder, How, Lists};
use foretell_pagecache::watch::{Gather, Totals};
use foretell_pagecache::{Casting, Report};
use foretelld::{RunHint, RunManager, RunReply, RunRequest, RunRule, Service};
use rustix::event::PollFlags;

use crate::attached::Job;
use crate::guide::{self, Guide};
use crate::hints::Hint;
use crate::hints::check::Kind;
use crate::hints::feed::{self, Fed};
use crate::host::Answer;
use crate::hosts::{self, Elsewhere};
use crate::input_log::InputLog;
use crate::kept::Line;
use crate::partner::{NotStarted, Partner, Started};
use crate::program::exit_code;
use crate::rule::Rule;
use crate::scan::{self, Allowance, Verdict};
use crate::shortage::Shortage;
use crate::stats::{Outcome, Stats};
use crate::terminal::{warn, with_causes};
use crate::uncontrolled::Refused;

/// How long a host may take to say that it leaves files alone.
const YIELD_PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to report: it goes through all files.
const REPORT_PATIENCE: Duration = Duration::from_secs(60);
/// The longest that the program is held back for the first hints of a regular file. Reading them takes
/// milliseconds; a file system that hangs must not hold the program.
const FIRST_HINTS: Duration = Duration::from_secs(2);
/// Bytes of hints in one message.
const HINT_BYTES: usize = 256 << 10;
/// Bytes that a byte of a path takes at most (`\\u0001`), and a hint besides.
const BYTES_OF_A_BYTE: usize = 6;
const BYTES_OF_A_HINT: usize = 96;

/// A list of hints, ready to be read while the program runs.
#[derive(Debug)]
pub(crate) struct HintSource {
    /// Whose: the manager's number in the session.
    pub(crate) manager: usize,
    /// The file, or `-`.
    pub(crate) file: PathBuf,
    /// Checked already, or a stream.
    pub(crate) kind: Kind,
    /// Where relative paths in it begin.
    pub(crate) base: PathBuf,
    /// What it names, a list for each reader, if it is a recording.
    pub(crate) lists: Option<Lists>,
}

/// A program that is under control and has not begun.
#[derive(Debug)]
pub(crate) struct Steered {
    partner: Partner,
    job: Job,
    /// The recording of what it reads.
    pub(crate) gather: Option<Gather>,
    /// The log of what its policy is told.
    pub(crate) input_log: Option<InputLog>,
}

impl Steered {
    /// Has a program that is held back, or a job that runs already, taken under control.
    pub(crate) fn begin(
        mut partner: Partner,
        mut job: Job,
        managers: Vec<RunManager>,
        casting: Option<Casting>,
    ) -> Result<(Steered, Started), Refused> {
        let started = partner.start(&job, managers, casting);
        let started = started.map_err(|why| match (job.ended_early(), why) {
            // By somebody else: no wonder that it cannot be controlled.
            (Some(early), _) => Refused::Wrong(early.into()),
            (None, NotStarted::Unable(text)) => Refused::Unable(anyhow!(text)),
            (None, NotStarted::Wrong(error)) => Refused::Wrong(error),
            (None, NotStarted::Ended(error)) => Refused::Ended(error),
        })?;
        let mut steered = Steered { partner, job, gather: None, input_log: None };
        steered.take_in_new();
        Ok((steered, started))
    }

    /// The host, if it is our own.
    pub(crate) fn own(&mut self) -> Option<&mut Service> {
        match &mut self.partner {
            Partner::Own(host, _) => Some(host),
            Partner::Other(..) => None,
        }
    }

    /// The process number of the job's first process.
    pub(crate) fn pid(&self) -> u32 {
        self.job.pid()
    }

    /// Takes in processes that belong to a job which we have not started.
    fn take_in_new(&mut self) {
        for pid in self.job.take_new() {
            if let Some(host) = self.own()
                && let Some(session) = host.own_session()
            {
                host.plane_mut().attach(session, pid);
            }
        }
    }

    /// Leaves to older rules what they say something else about, here and at other hosts. With the first file that is
    /// found to be one, in words.
    pub(crate) fn yield_to_older(
        &mut self,
        rules: &[Rule],
        started: &Started,
        allowance: &mut Allowance,
    ) -> Result<Option<String>> {
        if rules.is_empty() {
            return Ok(None);
        }
        let own: Vec<RunRule> = rules.iter().map(Into::into).collect();
        let mut round = hosts::ask_rules(&own, started.began_ns, self.partner.who());
        self.partner.wait_for(&mut round)?;
        let elsewhere = round.rules();
        let mut found = None;
        if let Partner::Other(..) = self.partner {
            let who = self.partner.who().to_owned();
            self.partner.send(RunRequest::Rules { rules: own, before_ns: started.began_ns })?;
            match self.partner.wait_for_answer(YIELD_PATIENCE)? {
                RunReply::Rules { rules: theirs, conflict } => {
                    let here = Elsewhere { who, rules: theirs, conflict };
                    found = in_words(rules, &here, allowance);
                }
                other => return Err(self.partner.unexpected(&other)),
            }
            found = found.or_else(|| started.conflict.clone());
        }
        for other in &elsewhere {
            found = found.or_else(|| in_words(rules, other, allowance));
        }
        let older: Vec<Vec<RunRule>> = elsewhere.into_iter().flat_map(|other| other.rules).collect();
        if !older.is_empty() {
            self.partner.send(RunRequest::YieldTo { rules: older })?;
            match self.partner.wait_for_answer(YIELD_PATIENCE)? {
                RunReply::Yielding => {}
                other => return Err(self.partner.unexpected(&other)),
            }
        }
        Ok(found)
    }

    /// Lets the program begin and stays with it until it has ended.
    pub(crate) fn run(mut self, sources: &[HintSource], line: &Line) -> Result<Outcome> {
        let wake = wake_descriptor()?;
        // One recording says more than an order: who reads what. Only our own host is told that.
        let own = self.own().and_then(|host| Some((host.own_session()?, host.plane().options().clone())));
        let mut guide = match (sources, own) {
            ([HintSource { lists: Some(lists), manager, .. }], Some((session, options))) => {
                let finder = Finder::start(Arc::clone(&lists.files));
                Some(Guide::new(lists, finder, session, *manager, &options, guide::OPEN))
            }
            _ => None,
        };
        let sources = if guide.is_some() { &[] } else { sources };
        let mut outgoing = Outgoing::default();
        for source in sources {
            let feed = feed::start(source.file.clone(), source.kind, source.base.clone(), wake.clone())?;
            outgoing.streams.push(Stream::new(source, feed));
        }
        // An error here comes again in the loop, where it is dealt with.
        let _ = outgoing.send_first(&mut self.partner);
        if let Job::Program(program) = &mut self.job {
            line.begun(program);
        }
        if let Some(mut gather) = self.gather.take()
            && let Some(host) = self.own()
        {
            gather.begin();
            host.plane_mut().listen(Some(gather));
        }
        self.job.release();
        let started = Instant::now();
        self.feed(&mut guide);
        let mut shortage = Shortage::watching();
        let ended = loop {
            if let (Some(why), Partner::Own(..)) = (shortage.found(), &self.partner) {
                line.leave(&why, How::Steered);
                break Err(anyhow!(why));
            }
            let others = std::iter::once(wake.as_fd()).chain(self.job.changed());
            let others: Vec<_> = others.map(|descriptor| (descriptor, PollFlags::IN)).collect();
            let longest = match self.partner {
                Partner::Own(..) => shortage.patience(),
                Partner::Other(..) => Duration::MAX,
            };
            let longest = guide.as_ref().map_or(longest, |guide| guide.patience(longest));
            let ready = match self.partner.wait(&others, Some(longest).filter(|&at| at < Duration::MAX)) {
                Ok(ready) => ready,
                Err(e) => break Err(e),
            };
            if ready.contains(&0) {
                let _ = rustix::io::read(&wake, &mut [0; 8]);
            }
            if ready.iter().any(|at| *at > 0) {
                if let Some(status) = self.job.try_wait()? {
                    break Ok(status);
                }
                self.take_in_new();
            }
            if let Err(e) = outgoing.advance(&mut self.partner) {
                break Err(e);
            }
            self.feed(&mut guide);
        };
        let skipped = guide.as_ref().map_or(0, Guide::failed);
        let (status, mut stats) = self.end(ended, &mut outgoing, started)?;
        stats.hints_skipped += skipped + outgoing.skipped;
        Ok(Outcome { code: exit_code(status), stats })
    }

    fn feed(&mut self, guide: &mut Option<Guide<'_>>) {
        if let (Some(guide), Some(host)) = (guide, self.own()) {
            guide.feed(host.plane_mut());
        }
    }

    /// The end of the program, or of its control: waits for it then.
    fn end(
        self,
        ended: Result<ExitStatus>,
        outgoing: &mut Outgoing,
        started: Instant,
    ) -> Result<(ExitStatus, Stats)> {
        let Steered { mut partner, mut job, input_log, .. } = self;
        let who = partner.who().to_owned();
        let failure = ended.as_ref().err().map(with_causes);
        if let Some(why) = &failure {
            warn(&format!("{who} no longer controls this program ({why}); it goes on uncontrolled"));
        }
        let mut elapsed = started.elapsed();
        let report = match partner {
            // What was changed is undone now, not when the program has ended.
            Partner::Own(host, _) => Ok(own_report(*host)),
            Partner::Other(..) if failure.is_some() => {
                outgoing.farewell.take().map(|report| (report, None)).context("it ended without a word")
            }
            Partner::Other(..) => last_report(&mut partner, outgoing).map(|report| (report, None)),
        };
        let status = match ended {
            Ok(status) => status,
            Err(_) => {
                foretell_pagecache::give_memory_back();
                let status = job.wait()?;
                elapsed = started.elapsed();
                status
            }
        };
        let mut stats = match report {
            Ok(((report, skipped), gather)) => {
                match gather {
                    Some(gather) if failure.is_none() => {
                        record(gather, &report, elapsed, job.exit_code(exit_code(status)))
                    }
                    Some(_) => {
                        warn("--record: nothing is kept, as what the program read was not seen to its end");
                    }
                    None => {}
                }
                Stats { hints_skipped: skipped, ..Stats::from(*report) }
            }
            Err(e) => Stats::uncontrolled(&format!(
                "{who}, which controlled it, gave no report ({})",
                with_causes(&e)
            )),
        };
        if let Some(log) = input_log {
            log.finish();
        }
        if let (Some(why), true) = (failure, stats.controlled) {
            stats.controlled = false;
            stats.uncontrolled_because = Some(format!("{who}, which controlled it, ended first ({why})"));
        }
        stats.elapsed_s = elapsed.as_secs_f64();
        Ok((status, stats))
    }
}

/// What was done, and how many hints could not be followed.
type LastReport = (Box<Report>, u64);

/// Ends our own host. With the recording.
fn own_report(mut host: Service) -> (LastReport, Option<Gather>) {
    let gather = host.plane_mut().listen(None);
    let skipped = host.own_skipped();
    ((Box::new(host.finish()), skipped), gather)
}

fn record(gather: Gather, report: &Report, elapsed: Duration, exit_code: Option<i32>) {
    let totals = Totals {
        elapsed,
        wait_ns: (report.wait_s * 1e9) as u64,
        device_read_bytes: report.device_read_bytes,
        lost_events: report.lost_events,
        exit_code,
    };
    if let Err(e) = gather.finish(totals) {
        warn(&format!("--record: {e}"));
    }
}

/// What another host has done for the program.
fn last_report(partner: &mut Partner, outgoing: &mut Outgoing) -> Result<LastReport> {
    partner.send(RunRequest::Report)?;
    loop {
        match partner.wait_for_any_answer(REPORT_PATIENCE)? {
            Answer::Run(RunReply::Report { report, skipped }) => return Ok((report, skipped)),
            // To hints that were under way. Of more than those it is the report that is refused.
            Answer::Refused(why) if !outgoing.is_under_way() => bail!("{} refuses: {why}", partner.who()),
            answer @ (Answer::Run(RunReply::Taken { .. }) | Answer::Refused(_)) => outgoing.hear(answer),
            Answer::Run(other) => return Err(partner.unexpected(&other)),
            Answer::Welcome | Answer::Status(_) => {}
        }
    }
}

/// The first file for which rules elsewhere say something else than ours, in words.
fn in_words(rules: &[Rule], elsewhere: &Elsewhere, allowance: &mut Allowance) -> Option<String> {
    let advice = "use the same policy, or wait until that run has ended";
    let who = &elsewhere.who;
    if let Some(conflict) = &elsewhere.conflict {
        return Some(format!("conflict with {who}: {conflict}; {advice}"));
    }
    elsewhere.rules.iter().find_map(|theirs| {
        let theirs: Vec<Rule> = theirs.iter().filter_map(|rule| Rule::try_from(rule.clone()).ok()).collect();
        match scan::conflict(rules, &theirs, allowance) {
            Verdict::Found((path, our, their)) => Some(format!(
                "rule '{our}' conflicts with rule '{their}' of {who} on {}; {advice}",
                path.display()
            )),
            Verdict::Nothing | Verdict::Unknown => None,
        }
    })
}

/// Hints on their way to the host, one message for each list at a time.
#[derive(Debug, Default)]
struct Outgoing {
    streams: Vec<Stream>,
    /// How many of the messages under way were refused. Of which list they are is not said, and known when all others
    /// have been answered.
    refused: usize,
    skipped: u64,
    /// What the host sent when it ended.
    farewell: Option<LastReport>,
}

/// A list of hints.
#[derive(Debug)]
struct Stream {
    manager: usize,
    kind: Kind,
    feed: Option<Receiver<Fed>>,
    /// What the next messages are made of.
    hints: VecDeque<RunHint>,
    /// A message was sent and is not answered yet.
    under_way: bool,
}

impl Stream {
    fn new(source: &HintSource, feed: Receiver<Fed>) -> Stream {
        let (manager, kind) = (source.manager, source.kind);
        Stream { manager, kind, feed: Some(feed), hints: VecDeque::new(), under_way: false }
    }

    /// Takes what the reader of the list has; how many hints that cannot be followed were among it.
    fn take(&mut self, fed: Fed) -> u64 {
        match fed {
            Fed::Hints(hints) => self.hints.extend(hints.iter().map(Hint::to_run)),
            Fed::Warning(text) => warn(&text),
            Fed::Skipped(lines) => return lines,
            Fed::End { bad_lines, absent } => {
                self.feed = None;
                return bad_lines + absent;
            }
        }
        0
    }

    /// The next message.
    fn message(&mut self) -> Vec<RunHint> {
        let mut bytes = 0;
        let fit = self.hints.iter().take_while(|hint| {
            bytes += hint.path.as_os_str().len() * BYTES_OF_A_BYTE + BYTES_OF_A_HINT;
            bytes <= HINT_BYTES
        });
        // One hint alone is always shorter than a message.
        let fit = fit.count().max(1).min(self.hints.len());
        self.hints.drain(..fit).collect()
    }
}

impl Outgoing {
    /// What a file says first is known to the host before the program reads; waits at most [`FIRST_HINTS`] for each
    /// side.
    fn send_first(&mut self, partner: &mut Partner) -> Result<()> {
        let mut first = false;
        for stream in self.streams.iter_mut().filter(|stream| stream.kind != Kind::Stream) {
            first = true;
            if let Some(feed) = &stream.feed
                && let Ok(fed) = feed.recv_timeout(FIRST_HINTS)
            {
                self.skipped += stream.take(fed);
            }
        }
        if !first {
            return Ok(());
        }
        self.advance(partner)?;
        // Our own takes at once what there is room for.
        let under_way = self.streams.iter().any(|stream| stream.under_way);
        if under_way && matches!(partner, Partner::Other(..)) {
            partner.wait(&[], Some(FIRST_HINTS))?;
        }
        Ok(())
    }

    /// Reads answers, and sends the next messages of lists whose last one was answered, as long as that goes on.
    fn advance(&mut self, partner: &mut Partner) -> Result<()> {
        loop {
            while let Some(answer) = partner.receive()? {
                self.hear(answer);
            }
            let mut sent = false;
            for stream in self.streams.iter_mut().filter(|stream| !stream.under_way) {
                while stream.hints.is_empty()
                    && let Some(feed) = &stream.feed
                {
                    match feed.try_recv() {
                        Ok(fed) => self.skipped += stream.take(fed),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => stream.feed = None,
                    }
                }
                if !stream.hints.is_empty() {
                    let request = RunRequest::Hints { manager: stream.manager, hints: stream.message() };
                    partner.send(request).context("sending hints")?;
                    (stream.under_way, sent) = (true, true);
                }
            }
            if !sent {
                return Ok(());
            }
        }
    }

    /// Is a message not answered yet?
    fn is_under_way(&self) -> bool {
        self.streams.iter().filter(|stream| stream.under_way).count() > self.refused
    }

    /// When the messages under way are as many as were refused, it is these.
    fn settle(&mut self) {
        if !self.is_under_way() {
            self.streams.iter_mut().for_each(|stream| stream.under_way = false);
            self.refused = 0;
        }
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Run(RunReply::Taken { manager, problem, .. }) => {
                let streams = self.streams.iter_mut().filter(|stream| stream.manager == manager);
                streams.for_each(|stream| stream.under_way = false);
                self.settle();
                if let Some(problem) = problem {
                    warn(&format!("a hint was skipped: {problem}"));
                }
            }
            Answer::Run(RunReply::Report { report, skipped }) => self.farewell = Some((report, skipped)),
            // What was refused is lost, nothing else.
            Answer::Refused(why) => {
                self.refused += 1;
                self.settle();
                self.skipped += 1;
                warn(&format!("hints were refused: {why}"));
            }
            Answer::Run(RunReply::Started { .. } | RunReply::Yielding | RunReply::Rules { .. })
            | Answer::Welcome
            | Answer::Status(_) => {}
        }
    }
}

/// An eventfd that readers of hints make readable when they have something.
fn wake_descriptor() -> Result<Arc<OwnedFd>> {
    use rustix::event::{EventfdFlags, eventfd};
    let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    Ok(Arc::new(descriptor.context("cannot make an eventfd")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_of_one_message_and_the_others_are_still_under_way() {
        let stream = |manager| Stream {
            manager,
            kind: Kind::Stream,
            feed: None,
            hints: VecDeque::new(),
            under_way: true,
        };
        let mut outgoing = Outgoing { streams: (0..3).map(stream).collect(), ..Outgoing::default() };
        let under_way = |outgoing: &Outgoing| -> Vec<usize> {
            outgoing.streams.iter().filter(|stream| stream.under_way).map(|stream| stream.manager).collect()
        };
        let taken = |manager| Answer::Run(RunReply::Taken { manager, skipped: 0, problem: None });
        outgoing.hear(Answer::Refused("no".to_owned()));
        assert_eq!((under_way(&outgoing), outgoing.is_under_way()), (vec![0, 1, 2], true));
        outgoing.hear(taken(1));
        assert_eq!(under_way(&outgoing), [0, 2]);
        // Either of the two may be the one that was refused, until the other one is taken.
        outgoing.hear(taken(0));
        assert_eq!((under_way(&outgoing), outgoing.is_under_way()), (vec![], false));
        assert_eq!(outgoing.skipped, 1);
        outgoing.streams[1].under_way = true;
        assert!(outgoing.is_under_way(), "the refusal is settled");
    }
}
