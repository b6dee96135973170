//! One round: one job, one signal.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal as Number;

use super::{Stage, Way, processes};
use crate::killed_job::{BEGIN, END, SIGNAL};
use crate::random::Random;

/// A job takes at least so long, milliseconds, and less than so much longer.
const JOB_MS: (u64, u64) = (50, 250);
/// A signal may come so long after the job's end.
const AFTER: Duration = Duration::from_millis(60);
/// Half of the signals come within the last of these, as many in each tenfold time.
const EARLY_US: (f64, f64) = (300.0, 50_000.0);
/// Steps of the exponent.
const STEPS: u64 = 1 << 20;
/// Who is stopped goes on after at most this.
const STOPPED_MS: u64 = 60;
/// What has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Kill,
    Terminate,
    Interrupt,
    HangUp,
    StopAndGo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    /// The process that was started as foretell, and tells the exit code.
    First,
    /// All of its process group.
    Group,
    /// Another one of ours: who does the work of a night, a guard; the service or one of its helpers.
    Helper,
}

/// What is done.
#[derive(Debug, Clone)]
pub(super) struct Round {
    way: Way,
    pub(super) victim: Victim,
    pub(super) signal: Signal,
    at: Duration,
    job_ms: u64,
    code: u8,
    hears: bool,
    stopped_ms: u64,
    /// Which of the helpers.
    choice: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Somebody was there to be met.
    pub(super) met: bool,
    pub(super) began: bool,
    /// A signal to the group reached the job by itself and by way of us.
    pub(super) twice_heard: bool,
    pub(super) wrong: Option<String>,
}

impl Signal {
    fn number(self) -> Number {
        match self {
            Signal::Kill => Number::KILL,
            Signal::Terminate => Number::TERM,
            Signal::Interrupt => Number::INT,
            Signal::HangUp => Number::HUP,
            Signal::StopAndGo => Number::STOP,
        }
    }
}

impl Round {
    pub(super) fn random(way: Way, random: &mut Random) -> Round {
        let signal = match random.below(8) {
            0..=3 => Signal::Kill,
            4 => Signal::Terminate,
            5 => Signal::Interrupt,
            6 => Signal::HangUp,
            _ => Signal::StopAndGo,
        };
        let victim = match random.below(5) {
            0 | 1 => Victim::First,
            2 => Victim::Group,
            _ => Victim::Helper,
        };
        let job_ms = JOB_MS.0 + random.below(JOB_MS.1);
        let at = if random.below(2) == 0 {
            let share = random.below(STEPS) as f64 / STEPS as f64;
            Duration::from_secs_f64(EARLY_US.0 * (EARLY_US.1 / EARLY_US.0).powf(share) / 1e6)
        } else {
            let latest = Duration::from_millis(job_ms) + AFTER;
            latest.mul_f64(random.below(STEPS) as f64 / STEPS as f64)
        };
        Round {
            way,
            victim,
            signal,
            at,
            job_ms,
            code: random.below(100) as u8,
            hears: random.below(2) == 0,
            stopped_ms: random.below(STOPPED_MS),
            choice: random.next(),
        }
    }

    /// Plays it; with the service, if the job is to run under it.
    pub(super) fn play(&self, stage: &Stage, service: Option<u32>) -> Result<Fate> {
        let [notes, output, said] = ["out/round", "out/output", "out/words"].map(|name| stage.path(name));
        let _ = fs::remove_file(&notes);
        let socket = stage.path(if service.is_some() { "out/s.sock" } else { "out/nowhere" });
        let mut command = stage.foretell(&socket);
        command.args(stage.arguments(self.way)).arg("--");
        command.args(stage.job(&notes, self.job_ms, self.code, self.hears)).process_group(0);
        let mut child = command.stdout(File::create(&output)?).stderr(File::create(&said)?).spawn()?;
        std::thread::sleep(self.at);
        let mut fate = Fate { met: self.send(child.id(), service), ..Fate::default() };
        let status = wait(&mut child)?;
        let left = wait_for_the_others(stage);
        let notes = fs::read_to_string(&notes).unwrap_or_default();
        let count = |begin: &str| notes.lines().filter(|line| line.starts_with(begin)).count();
        fate.began = count(BEGIN) > 0;
        fate.twice_heard = self.victim == Victim::Group && count(SIGNAL) > 1;
        let seen = Seen {
            status,
            begun: count(BEGIN),
            ended: count(END),
            heard: count(SIGNAL),
            is_right: fs::read_to_string(&output)? == stage.right_output(),
        };
        let wrong = left.or_else(|| self.wrong(&seen, fate.met).map(|why| format!("{why}; {seen:?}")));
        fate.wrong = wrong.map(|why| format!("{why}; {:?}", fs::read_to_string(&said).unwrap_or_default()));
        Ok(fate)
    }

    /// Sends the signal; says whether somebody was there.
    fn send(&self, first: u32, service: Option<u32>) -> bool {
        let (victim, send): (u32, fn(u32, Number) -> bool) = match self.victim {
            Victim::First => (first, processes::signal),
            Victim::Group => (first, processes::signal_group),
            Victim::Helper => {
                let helpers = helpers(first, service);
                let Some(count) = u64::try_from(helpers.len()).ok().filter(|count| *count > 0) else {
                    return false;
                };
                (helpers[(self.choice % count) as usize], processes::signal)
            }
        };
        let met = send(victim, self.signal.number());
        if met && self.signal == Signal::StopAndGo {
            std::thread::sleep(Duration::from_millis(self.stopped_ms));
            send(victim, Number::CONT);
        }
        met
    }

    /// What is wrong with what was seen.
    fn wrong(&self, seen: &Seen, met: bool) -> Option<&'static str> {
        let number = self.signal.number().as_raw();
        let is_whole = seen.begun == 1 && seen.ended == 1 && seen.is_right;
        let said = |code: i32| seen.status.code() == Some(code);
        let ended_us = seen.status.signal() == Some(number);
        if seen.begun > 1 {
            return Some("the job ran more than once");
        }
        if seen.heard > if self.victim == Victim::Group { 2 } else { 1 } {
            return Some("the job has heard the signal too often");
        }
        let is_ours = !met || self.victim == Victim::Helper || self.signal == Signal::StopAndGo;
        if is_ours {
            return match (is_whole, said(self.code.into())) {
                (false, _) => Some("the job did not run as without"),
                (_, false) => Some("the exit code is lost"),
                _ => None,
            };
        }
        if self.signal == Signal::Kill {
            let fair = seen.begun == 0 || is_whole || self.victim == Victim::Group;
            return (!fair).then_some("the job did not run to its end");
        }
        if ended_us || said(128 + number) {
            // Before it listens it is ended as any program, and we as it is; before it has begun we are.
            let fair = if self.hears && seen.heard > 0 { is_whole && !ended_us } else { seen.ended == 0 };
            return (!fair).then_some("the job ran on");
        }
        // It came too late.
        (!(is_whole && said(self.code.into()))).then_some("the exit code is wrong")
    }
}

/// What was seen of a job.
#[derive(Debug)]
struct Seen {
    status: ExitStatus,
    begun: usize,
    ended: usize,
    heard: usize,
    is_right: bool,
}

/// The processes of ours beside the first one: none that is, or becomes, the job.
fn helpers(first: u32, service: Option<u32>) -> Vec<u32> {
    if let Some(service) = service {
        let all = std::iter::once(service).chain(processes::children(service));
        return all.collect();
    }
    let is_learning = fs::read(format!("/proc/{first}/cmdline"))
        .is_ok_and(|words| words.split(|byte| *byte == 0).nth(1) == Some(b"learn"));
    let children = processes::children(first);
    let guards = |of: &[u32]| -> Vec<u32> {
        of.iter().copied().filter(|pid| processes::name(*pid) == "foretell-guard").collect()
    };
    let mut helpers = guards(&children);
    if is_learning
        && let Some(worker) = children.into_iter().find(|pid| processes::name(*pid) == "foretel-worker")
    {
        helpers.push(worker);
        helpers.extend(guards(&processes::children(worker)));
    }
    helpers
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > PATIENCE {
            processes::signal(child.id(), Number::KILL);
            return Ok(child.wait()?);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits for the job, and for what else is left of us; says what does not end.
fn wait_for_the_others(stage: &Stage) -> Option<String> {
    let began = Instant::now();
    loop {
        // Together: one becomes the other.
        let running = processes::running(&["bin/job", "bin/foretell"].map(|name| stage.path(name)));
        if running.is_empty() {
            return None;
        }
        if began.elapsed() > PATIENCE {
            let named = running.iter().map(|pid| format!("{} ({pid})", processes::name(*pid)));
            let named = named.collect::<Vec<_>>().join(", ");
            for pid in running {
                processes::signal(pid, Number::KILL);
            }
            return Some(format!("left running: {named}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
