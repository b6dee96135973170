//! Programs that control their own caching through the service: one at a time, and several at once.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, READ_AHEAD_KB};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;
use crate::strategies::{Prepared, Strategy};
use crate::together::{Program, Ran, Service, Together};

/// Device blocks that a strategy may differ from its calculation.
const NEAR: f64 = 0.03;
/// What a program that does nothing may lose beside others that control themselves.
const OBLIVIOUS: f64 = 1.02;

/// How a group of programs is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The kernel alone, with this readahead.
    Kernel(u32),
    /// All control themselves. The kernel's readahead is left on for files that are read sequentially, so
    /// that whoever tunes it tunes it for both.
    Foretell(u32),
    /// All control themselves but the last, which is under control and asks for nothing.
    LastOblivious(u32),
}

impl Way {
    fn name(self) -> String {
        match self {
            Self::Kernel(kb) => format!("kernel, readahead {kb}"),
            Self::Foretell(kb) => format!("foretell, readahead {kb}"),
            Self::LastOblivious(kb) => format!("last oblivious, readahead {kb}"),
        }
    }

    fn read_ahead_kb(self) -> u32 {
        match self {
            Self::Kernel(kb) | Self::Foretell(kb) | Self::LastOblivious(kb) => kb,
        }
    }
}

/// Programs that run at the same time.
struct Group {
    name: String,
    members: Vec<usize>,
}

/// Groups of programs, each run in every way.
pub(crate) struct Strategies<'b> {
    bench: &'b Bench,
    title: &'static str,
    place: Place,
    prepared: Vec<Prepared>,
    groups: Vec<Group>,
    ways: Vec<Way>,
    /// What each program printed the first time: it must print that always.
    outputs: Vec<Option<Vec<u8>>>,
    /// Fetches by calculation, of the groups of one.
    expected: Vec<Option<u64>>,
}

impl<'b> Strategies<'b> {
    /// Each program alone.
    pub(crate) fn alone(bench: &'b Bench) -> Result<Self> {
        let groups = Strategy::ALL.iter().map(|strategy| vec![*strategy]).collect();
        let title = "the strategies of OSDI 1994, half of the data as budget; 1 ms x 8 channels";
        let mut alone = Self::prepare(bench, title, groups)?;
        for (group, expected) in alone.groups.iter().zip(&mut alone.expected) {
            let prepared = &alone.prepared[group.members[0]];
            *expected = Some(prepared.expected(prepared.data_blocks / 2)?);
        }
        Ok(alone)
    }

    /// Several at once.
    pub(crate) fn mixes(bench: &'b Bench) -> Result<Self> {
        use Strategy::{AccessOnce, CyclicScan, HotCold, MergeSort, SequentialOnce};
        let groups = vec![
            vec![CyclicScan, HotCold],
            vec![CyclicScan, AccessOnce],
            vec![MergeSort, SequentialOnce],
            vec![CyclicScan, AccessOnce, HotCold],
            vec![CyclicScan, AccessOnce, MergeSort, HotCold],
        ];
        let title = "several programs at once, half of their data as budget; 1 ms x 8 channels";
        let mut mixes = Self::prepare(bench, title, groups)?;
        if !bench.kernel_only {
            mixes.ways.extend(READ_AHEAD_KB.map(Way::LastOblivious));
        }
        Ok(mixes)
    }

    fn prepare(bench: &'b Bench, title: &'static str, groups: Vec<Vec<Strategy>>) -> Result<Self> {
        let mut strategies: Vec<Strategy> = Vec::new();
        for strategy in groups.iter().flatten() {
            if !strategies.contains(strategy) {
                strategies.push(*strategy);
            }
        }
        // What is sorted is on the device four times for a while: input, runs, merged runs, output. An
        // eighth more is for an index.
        let copies = strategies.iter().map(|one| if *one == Strategy::MergeSort { 4 } else { 1 });
        let data_blocks = copies.sum::<u64>() * u64::from(crate::strategies::DATA_BLOCKS) * 9 / 8;
        let place = bench.slow_device("disk", Timing::cloud_1ms(), data_blocks * BLOCK_BYTES)?;
        let scratch = bench.launcher.scratch();
        let prepared: Vec<Prepared> = strategies
            .iter()
            .map(|one| one.prepare(scratch, &place.directory, bench.shrink))
            .collect::<Result<_>>()?;
        let number = |wanted: &Strategy| strategies.iter().position(|one| one == wanted);
        let groups: Vec<Group> = groups
            .iter()
            .map(|members| Group {
                name: members.iter().map(|member| member.name()).collect::<Vec<_>>().join(" + "),
                members: members.iter().filter_map(number).collect(),
            })
            .collect();
        let mut ways: Vec<Way> = READ_AHEAD_KB.map(Way::Kernel).to_vec();
        if !bench.kernel_only {
            ways.extend(READ_AHEAD_KB.map(Way::Foretell));
        }
        let outputs = vec![None; prepared.len()];
        let expected = vec![None; groups.len()];
        Ok(Self { bench, title, place, prepared, groups, ways, outputs, expected })
    }

    fn budget_bytes(&self, group: &Group) -> u64 {
        group
            .members
            .iter()
            .map(|member| u64::from(self.prepared[*member].data_blocks / 2) * BLOCK_BYTES)
            .sum()
    }

    fn together(&self, group: &Group, way: Way, foretell: Option<&Path>) -> Result<Together> {
        let scratch = self.bench.launcher.scratch();
        let mut programs = Vec::new();
        for (position, member) in group.members.iter().enumerate() {
            let prepared = &self.prepared[*member];
            let is_last = position + 1 == group.members.len();
            let oblivious = matches!(way, Way::LastOblivious(_)) && is_last;
            let mut command = prepared.command(!matches!(way, Way::Kernel(_)) && !oblivious)?;
            if oblivious {
                let foretell = foretell.context("this run needs the foretell command")?;
                let mut rule = self.place.directory.join(prepared.strategy.name()).into_os_string();
                rule.push("/**=lru");
                let run = [foretell.as_os_str(), "run".as_ref(), "--strict".as_ref(), "--quiet".as_ref()];
                let of_rule = ["--rule".as_ref(), rule.as_os_str(), "--".as_ref()];
                command = run.into_iter().chain(of_rule).map(OsString::from).chain(command).collect();
            }
            let name = prepared.strategy.name();
            programs.push(Program { output: scratch.join(format!("{name}.output")), name, command });
        }
        let service = match way {
            Way::Kernel(_) => None,
            Way::Foretell(_) | Way::LastOblivious(_) => Some(Service {
                foretell: foretell.context("this run needs the foretell command")?.to_owned(),
                socket: scratch.join("service"),
                arguments: vec!["--budget".to_owned(), format!("{}K", self.budget_bytes(group) / 1024)],
            }),
        };
        Ok(Together { service, programs, report: scratch.join("together.report") })
    }

    /// Programs print the same, whoever looks after their cache.
    fn check_outputs(&mut self, group: usize, together: &Together) -> Result<()> {
        for (member, program) in self.groups[group].members.iter().zip(&together.programs) {
            let output = std::fs::read(&program.output)
                .with_context(|| format!("cannot read {}", program.output.display()))?;
            let known = self.outputs[*member].get_or_insert_with(|| output.clone());
            ensure!(*known == output, "{} printed something else than before", program.name);
        }
        Ok(())
    }

    fn arm_name(&self, group: usize, way: Way) -> String {
        format!("{}, {}", self.groups[group].name, way.name())
    }
}

impl Case for Strategies<'_> {
    fn title(&self) -> String {
        self.title.to_owned()
    }

    fn arms(&self) -> Vec<String> {
        let groups = 0..self.groups.len();
        groups.flat_map(|group| self.ways.iter().map(move |way| self.arm_name(group, *way))).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (group, way) = (arm / self.ways.len(), self.ways[arm % self.ways.len()]);
        let (bench, launcher) = (self.bench, &self.bench.launcher);
        self.place.device.set_read_ahead_kb(&bench.janitor, way.read_ahead_kb())?;
        for member in &self.groups[group].members {
            self.prepared[*member].chill()?;
        }
        let together = self.together(&self.groups[group], way, launcher.foretell())?;
        let description = launcher.scratch().join("together.json");
        std::fs::write(&description, serde_json::to_string(&together)?)
            .with_context(|| format!("cannot write {}", description.display()))?;
        let job = Job {
            name: "together".to_owned(),
            command: vec![launcher.own_program().into(), "together".into(), description.into()],
            steering: Steering::Kernel,
            limit_bytes: self.budget_bytes(&self.groups[group]) + bench.headroom_bytes,
            report: None,
        };
        let before = self.place.read_blocks()?;
        let finished = launcher.run(&bench.janitor, job)?;
        let device_blocks = self.place.read_blocks()? - before;
        self.check_outputs(group, &together)?;
        let ran: Ran = serde_json::from_slice(&std::fs::read(&together.report)?)?;
        let mut measured = vec![("device_blocks", device_blocks), ("elapsed_s", ran.elapsed_s)];
        measured.push(("sum_of_elapsed_s", ran.programs_s.iter().sum()));
        if let Some(last_s) = ran.programs_s.last() {
            measured.push(("last_elapsed_s", *last_s));
        }
        if let Some(last_blocks) = ran.programs_blocks.last() {
            measured.push(("last_device_blocks", *last_blocks));
        }
        measured.push(("service_cpu_s", ran.service_cpu_s));
        for metric in ["foreign_evictions", "evictions_refused", "lost_events"] {
            let value = ran.status.get(metric).or_else(|| ran.status.get("counts")?.get(metric));
            if let Some(value) = value.and_then(serde_json::Value::as_f64) {
                measured.push((metric, value));
            }
        }
        if let Some(peak_bytes) = finished.peak_bytes {
            measured.push(("peak_mib", peak_bytes as f64 / MIB as f64));
        }
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        let groups = self.groups.iter().zip(&self.expected);
        groups
            .filter_map(|(group, expected)| {
                let what = format!("{}: blocks that the strategy fetches by calculation", group.name);
                Some(Reference { what, value: (*expected)? as f64 })
            })
            .collect()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (group, expected) in self.groups.iter().zip(&self.expected) {
            let best = |who: &str, metric: &str| outcome.best(&format!("{}, {who}", group.name), metric);
            let mut compare = |who: &str, metric: &str, what: &str, limit: f64| {
                if let (Some(ours), Some(kernel)) = (best(who, metric), best("kernel", metric)) {
                    let what = format!("{}: {what}, of the kernel's better", group.name);
                    verdicts.push(Verdict::at_most(what, ours / kernel, limit));
                }
            };
            compare("foretell", "elapsed_s", "elapsed", 1.02);
            compare("foretell", "device_blocks", "device blocks", 1.02);
            compare("last oblivious", "last_elapsed_s", "the last, oblivious: elapsed", OBLIVIOUS);
            if let (Some(expected), Some(blocks)) = (expected, best("foretell", "device_blocks")) {
                let what = format!("{}: device blocks", group.name);
                verdicts.push(Verdict::within(what, blocks, *expected as f64, NEAR));
            }
        }
        verdicts
    }
}
