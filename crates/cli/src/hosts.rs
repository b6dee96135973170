//! All hosts at once: the service and the private ones of other runs.
//!
//! They are asked at the same time and waited for together, so that one that does not answer (a run that is stopped, say)
//! takes no more than its share of the patience.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use foretell_protocol::socket;
use foretelld::{
    Place, RunReply, RunRequest, RunRule, Snapshot, StatusRequest, own_places, place_of, places,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::host::{self, Answer, Host, Trouble};

/// How long others may take to say which rules they have. One that does not is not yielded to.
pub const RULES_PATIENCE: Duration = Duration::from_secs(2);
/// How long private hosts may take to say how they are.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// So young a process may still be on its way to control its program: loading the BPF programs takes 50 ms on a
/// machine that does nothing else.
const STARTING: Duration = Duration::from_secs(10);
/// How often such a one is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Connects to the private host of a process, which may just have been started (`foretell run … & foretell run --join
/// $! …`).
///
/// # Errors
/// It has none, or cannot be reached.
pub fn join(pid: u32) -> Result<Host> {
    loop {
        match place_of(pid).map(|place| Host::private(&place)) {
            // It has no socket yet, or does not listen on it yet.
            None | Some(Err(Trouble::Gone(_))) if age(pid).is_some_and(|age| age < STARTING) => {
                std::thread::sleep(RETRY);
            }
            Some(host) => return Ok(host?),
            None => bail!(
                "process {pid} is no 'foretell run' of this user that controls a program; \
                 give the number of one that does ('foretell status' lists them)"
            ),
        }
    }
}

/// How long ago a process was started, if it runs (proc_pid_stat(5): the third field is its state, the 22nd the time
/// of its start since boot in clock ticks; exec(2) changes none of them).
fn age(pid: u32) -> Option<Duration> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[behind..]).ok()?.split_whitespace();
    let state = fields.next()?;
    let started_ticks: u64 = fields.nth(18)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age_s = uptime_s - started_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    (state != "Z").then(|| Duration::from_secs_f64(age_s.max(0.0)))
}

/// A question to several hosts.
#[derive(Debug)]
pub struct Round {
    asked: Vec<Asked>,
    deadline: Instant,
}

#[derive(Debug)]
struct Asked {
    host: Host,
    answer: Option<Answer>,
    /// It will say nothing more.
    over: bool,
}

impl Round {
    /// Asks those who can be asked. Who cannot has ended, or means harm.
    pub fn ask(
        hosts: impl Iterator<Item = Result<Host, Trouble>>,
        ask: impl Fn(&mut Host) -> Result<(), Trouble>,
        patience: Duration,
    ) -> Round {
        let asked = hosts.filter_map(|host| {
            let mut host = host.ok()?;
            ask(&mut host).ok()?;
            Some(Asked { host, answer: None, over: false })
        });
        Round { asked: asked.collect(), deadline: Instant::now() + patience }
    }

    /// Nobody is asked.
    #[must_use]
    pub fn of_nobody() -> Round {
        Round { asked: Vec::new(), deadline: Instant::now() }
    }

    /// Waits for all; has anybody answered?
    #[must_use]
    pub fn wait_for_any(mut self) -> bool {
        self.wait();
        self.asked.iter().any(|asked| asked.answer.is_some())
    }

    /// Takes in what has come; `true` when nothing more is waited for, as when the time is over.
    pub fn advance(&mut self) -> bool {
        for asked in self.asked.iter_mut().filter(|asked| !asked.over) {
            loop {
                match asked.host.answer() {
                    Ok(None) => break,
                    Ok(Some(Answer::Welcome)) => {}
                    Ok(Some(answer @ (Answer::Status(_) | Answer::Run(_)))) => {
                        (asked.answer, asked.over) = (Some(answer), true);
                        break;
                    }
                    Ok(Some(Answer::Refused(_))) | Err(_) => {
                        asked.over = true;
                        break;
                    }
                }
            }
        }
        if Instant::now() >= self.deadline {
            self.asked.iter_mut().for_each(|asked| asked.over = true);
        }
        self.until().is_none()
    }

    /// Until when is waited; `None` when nobody is waited for.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.asked.iter().any(|asked| !asked.over).then_some(self.deadline)
    }

    /// What to poll meanwhile.
    pub fn waiting(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let waiting = self.asked.iter().filter(|asked| !asked.over);
        waiting.map(|asked| (asked.host.as_fd(), asked.host.interest()))
    }

    /// Waits for all.
    pub fn wait(&mut self) {
        while !self.advance() {
            let mut watched: Vec<_> =
                self.waiting().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            // Interrupted or not: what has come shows itself in the next round.
            let _ = poll(&mut watched, timeout.as_ref());
        }
    }

    /// Who has said what.
    fn answers(self) -> impl Iterator<Item = (String, Answer)> {
        self.asked.into_iter().filter_map(|asked| Some((asked.host.who().to_owned(), asked.answer?)))
    }

    /// The snapshots among the answers, and how many hosts gave none.
    #[must_use]
    pub fn snapshots(self) -> (Vec<Snapshot>, usize) {
        let all = self.asked.len();
        let snapshots = self.answers().filter_map(|(_, answer)| match answer {
            Answer::Status(snapshot) => Some(*snapshot),
            _ => None,
        });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let silent = all - snapshots.len();
        (snapshots, silent)
    }

    /// The rules among the answers.
    #[must_use]
    pub fn rules(self) -> Vec<Elsewhere> {
        let rules = self.answers().filter_map(|(who, answer)| match answer {
            Answer::Run(RunReply::Rules { rules, conflict }) => Some(Elsewhere { who, rules, conflict }),
            _ => None,
        });
        rules.collect()
    }
}

/// What holds at another host.
#[derive(Debug)]
pub struct Elsewhere {
    /// What it is called.
    pub who: String,
    /// Its rules, a list for each manager.
    pub rules: Vec<Vec<RunRule>>,
    /// A file that it manages and for which ours say something else, in words.
    pub conflict: Option<String>,
}

/// Asks the private hosts how they are.
#[must_use]
pub fn ask_private(request: StatusRequest) -> Round {
    let hosts = places();
    Round::ask(hosts.iter().map(Host::private), |host| host.ask_status(request), STATUS_PATIENCE)
}

/// Asks the other hosts of this user which rules were there before `before_ns`. Not asked is the one that is called
/// `except`; and the service only where this user's rules could be there: it takes them from root alone.
#[must_use]
pub fn ask_rules(rules: &[RunRule], before_ns: u64, except: &str) -> Round {
    let user = rustix::process::geteuid();
    let request = RunRequest::Rules { rules: rules.to_vec(), before_ns };
    let others = |place: &Place| host::name_of(place) != except;
    let private: Vec<Place> = own_places().into_iter().filter(others).collect();
    let service = (user.is_root() && except != host::SERVICE).then(|| Host::service(&socket::path()));
    let others = private.iter().map(Host::private).chain(service);
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(this) => Round::ask(others, |host| host.ask_run(&request, this.as_fd()), RULES_PATIENCE),
        Err(_) => Round::of_nobody(),
    }
}
