//! Kills at random moments of what runs a job: the job runs once and as without, and nothing is left.
//!
//! Each round runs one job of 50 to 300 ms in one of the ways, and sends one signal to one of the processes that are there at
//! a moment that comes from the seed. `round.rs` says what must be true of it then, `left.rs` what is looked for at the end.

mod left;
mod processes;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::left::Before;
use self::round::{Round, Signal, Victim};
use super::{Bench, Case};
use crate::killed_job;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::random::Random;

/// What the jobs read.
const DATA_BYTES: usize = 2 << 20;
/// The service is there after this time, or will not be.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
/// What was wrong is said of so many rounds.
const SAID: usize = 20;

/// Ways to run a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Watched,
    Rule,
    List,
    Recorded,
    Recording,
    Served,
    FirstNight,
    AloneNight,
    WatchedNight,
    SteeredNight,
}

const WAYS: [(Way, &str); 10] = [
    (Way::Watched, "run: watched"),
    (Way::Rule, "run: rule"),
    (Way::List, "run: list"),
    (Way::Recorded, "run: recording as list"),
    (Way::Recording, "run: --record"),
    (Way::Served, "run: the service"),
    (Way::FirstNight, "learn: first night"),
    (Way::AloneNight, "learn: alone"),
    (Way::WatchedNight, "learn: watched"),
    (Way::SteeredNight, "learn: steered"),
];

/// What all rounds share: files, and copies of the programs, by which what is left of them is known.
#[derive(Debug)]
pub(super) struct Stage {
    directory: PathBuf,
    sum: u64,
}

impl Stage {
    fn new(bench: &Bench) -> Result<Stage> {
        let directory = bench.launcher.scratch().join("kills");
        for name in ["", "bin", "hosts", "tmp", "out"] {
            std::fs::create_dir(directory.join(name))?;
        }
        std::fs::set_permissions(
            directory.join("hosts"),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )?;
        let foretell = bench.launcher.foretell().context("without foretell there is nothing to be killed")?;
        let tools = foretell.with_file_name("foretell-tools");
        for (from, name) in [(foretell, "foretell"), (&tools, "foretell-tools")] {
            std::fs::copy(from, directory.join("bin").join(name))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        std::fs::copy(std::env::current_exe()?, directory.join("bin/job"))?;
        let data: Vec<u8> = (0..DATA_BYTES).map(|at| (at % 251) as u8).collect();
        std::fs::write(directory.join("data"), &data)?;
        std::fs::write(directory.join("list"), format!("{}\n", directory.join("data").display()))?;
        Ok(Stage { sum: killed_job::sum(&data, 0), directory })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// What the job says, all of it.
    pub(super) fn right_output(&self) -> String {
        format!("{:x}\n{}\n", self.sum, killed_job::WHOLE)
    }

    /// `foretell` with these arguments; other hosts are those of this stage.
    pub(super) fn foretell(&self, socket: &Path) -> Command {
        let mut command = Command::new(self.path("bin/foretell"));
        command.env("FORETELL_HOSTS", self.path("hosts")).env("FORETELL_SOCKET", socket);
        command.env("TMPDIR", self.path("tmp")).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    /// What comes before the job.
    pub(super) fn arguments(&self, way: Way) -> Vec<String> {
        let night = |state: &str, how: &[&str]| {
            let mut words = vec!["learn", "--quiet", "--name", "job", "--state"];
            let state = self.text(state);
            words.push(&state);
            words.iter().chain(how).map(|word| (*word).to_owned()).collect()
        };
        let run =
            |words: &[&str]| ["run", "--quiet"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        let rule = self.text("data") + "=mru";
        match way {
            Way::Watched => run(&[]),
            Way::Rule => run(&["--no-service", "--budget", "1M", "--rule", &rule]),
            Way::List => run(&["--no-service", "--budget", "1M", "--hints", &self.text("list")]),
            Way::Recorded => run(&["--no-service", "--budget", "1M", "--hints", &self.text("recording")]),
            Way::Recording => run(&["--record", &self.text("out/recording")]),
            Way::Served => run(&["--rule", &rule]),
            Way::FirstNight => night("fresh", &[]),
            Way::AloneNight => night("state", &["--as", "alone"]),
            Way::WatchedNight => night("state", &["--as", "watch"]),
            Way::SteeredNight => night("state", &["--as", "steer"]),
        }
    }

    pub(super) fn job(&self, notes: &Path, job_ms: u64, code: u8, hears: bool) -> Vec<String> {
        let mut words = vec![self.text("bin/job"), "killed-job".to_owned(), notes.display().to_string()];
        words.extend([self.text("data"), job_ms.to_string(), code.to_string()]);
        words.extend(hears.then(|| "--hears".to_owned()));
        words
    }
}

/// The service, started anew when it was killed.
#[derive(Debug, Default)]
struct Served(Option<Child>);

impl Served {
    fn running(&mut self, stage: &Stage) -> Result<&Child> {
        if let Some(child) = &mut self.0
            && child.try_wait()?.is_some()
        {
            self.0 = None;
        }
        if self.0.is_none() {
            let socket = stage.path("out/s.sock");
            let mut command = stage.foretell(&socket);
            command.args(["daemon", "--budget", "8M", "--socket"]).arg(&socket);
            let said = std::fs::File::create(stage.path("out/said"))?;
            let mut child = command.stdout(Stdio::null()).stderr(said).spawn()?;
            let began = Instant::now();
            while !std::fs::read_to_string(stage.path("out/said"))?.contains("serving on") {
                let over = child.try_wait()?.is_some() || began.elapsed() > SERVES_WITHIN;
                ensure!(!over, "no service: {}", std::fs::read_to_string(stage.path("out/said"))?);
                std::thread::sleep(Duration::from_millis(2));
            }
            self.0 = Some(child);
        }
        self.0.as_ref().context("there is no service")
    }

    fn end(&mut self) -> Result<()> {
        if let Some(mut child) = self.0.take() {
            processes::signal(child.id(), rustix::process::Signal::TERM);
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The benchmark.
pub(crate) struct Kills {
    stage: Stage,
    random: Random,
    kills: u64,
    rounds: u64,
    served: Served,
    before: Before,
    counts: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    left: BTreeSet<String>,
}

impl Kills {
    pub(crate) fn prepare(bench: &Bench) -> Result<Kills> {
        let before = Before::look();
        let stage = Stage::new(bench)?;
        // What the later ways take is learnt first.
        let nowhere = stage.path("out/nowhere");
        let prepared = [
            (stage.arguments(Way::WatchedNight), "a night"),
            (vec!["run".into(), "--quiet".into(), "--record".into(), stage.text("recording")], "a recording"),
        ];
        for (arguments, what) in prepared {
            let job = stage.job(&stage.path("out/notes"), 50, 0, false);
            let status = stage
                .foretell(&nowhere)
                .args(arguments)
                .arg("--")
                .args(job)
                .stdout(Stdio::null())
                .status()?;
            ensure!(status.success(), "cannot make {what}: {status}");
        }
        ensure!(
            stage.path("recording").exists(),
            "programs cannot be watched here: 'foretell doctor' says why"
        );
        Ok(Kills {
            stage,
            random: Random::new(bench.seed),
            kills: bench.kills,
            rounds: bench.rounds,
            served: Served::default(),
            before,
            counts: BTreeMap::new(),
            wrong: Vec::new(),
            left: BTreeSet::new(),
        })
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    fn one(&mut self, way: Way, name: &str) -> Result<()> {
        let service = match way {
            Way::Served => Some(self.served.running(&self.stage)?.id()),
            _ => None,
        };
        if way == Way::FirstNight && self.stage.path("fresh").exists() {
            std::fs::remove_dir_all(self.stage.path("fresh"))?;
        }
        let round = Round::random(way, &mut self.random);
        let fate = round.play(&self.stage, service)?;
        self.count(match round.signal {
            Signal::Kill => "SIGKILL",
            Signal::Terminate => "SIGTERM",
            Signal::Interrupt => "SIGINT",
            Signal::HangUp => "SIGHUP",
            Signal::StopAndGo => "SIGSTOP, SIGCONT",
        });
        self.count(match (round.victim, fate.met) {
            (_, false) => "met nobody",
            (Victim::First, _) => "met foretell",
            (Victim::Group, _) => "met its process group",
            (Victim::Helper, _) => "met a helper or the service",
        });
        self.count(if fate.began { "jobs ran" } else { "jobs ended before they began" });
        if fate.twice_heard {
            self.count("signals to a group heard twice");
        }
        if let Some(wrong) = fate.wrong {
            self.wrong.push(format!("{name}: {round:?}: {wrong}"));
        }
        Ok(())
    }

    /// What is left when all is over; ends the service.
    fn look_for_what_is_left(&mut self) -> Result<Vec<String>> {
        self.served.running(&self.stage)?;
        self.served.end()?;
        // Who looks next removes what the killed have left: a host, and a night.
        let nowhere = self.stage.path("out/nowhere");
        for way in [Way::Rule, Way::AloneNight] {
            let job = self.stage.job(&self.stage.path("out/notes"), 1, 0, false);
            let mut last = self.stage.foretell(&nowhere);
            let output = last.args(self.stage.arguments(way)).arg("--").args(job).output()?;
            if !output.status.success() || !output.stderr.is_empty() {
                self.wrong.push(format!("the last one: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok(self.before.left(&self.stage.directory))
    }
}

impl Case for Kills {
    fn title(&self) -> String {
        format!("{} kills at random moments of what runs a job", self.kills)
    }

    fn arms(&self) -> Vec<String> {
        WAYS.iter().map(|(_, name)| (*name).to_owned()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (way, name) = WAYS[arm];
        let (wrong, batches) = (self.wrong.len(), self.rounds * WAYS.len() as u64);
        let kills = self.kills.div_ceil(batches);
        for _ in 0..kills {
            self.one(way, name)?;
        }
        for left in self.look_for_what_is_left()? {
            if !self.left.contains(&left) {
                eprintln!("left behind: {left}");
                self.left.insert(left);
            }
        }
        for wrong in self.wrong.iter().skip(wrong).take(SAID) {
            eprintln!("{wrong}");
        }
        if self.wrong.len() > 10 * SAID {
            bail!("too much is wrong");
        }
        Ok(vec![("kills", kills as f64), ("wrong", (self.wrong.len() - wrong) as f64)])
    }

    fn references(&self) -> Vec<Reference> {
        let reference =
            |(what, count): (&&str, &u64)| Reference { what: (*what).to_owned(), value: *count as f64 };
        self.counts.iter().map(reference).collect()
    }

    fn verdicts(&self, _outcome: &Outcome) -> Vec<Verdict> {
        let ran = self.counted("jobs ran") + self.counted("jobs ended before they began");
        let mut verdicts = vec![Verdict::at_most(
            format!("rounds of {ran} in which something was wrong"),
            self.wrong.len() as f64,
            0.0,
        )];
        verdicts.push(Verdict::at_most("things left behind", self.left.len() as f64, 0.0));
        verdicts
    }
}
