//! Real programs under `foretell learn`, night after night, against the kernel with its readahead as it is and tuned.
//!
//! A *cell* is a program, a device and a share of what it reads that fits into memory. Its data are made anew, and read cold by
//! the kernel with three settings of its readahead, on a first night, of which nothing is known, a second one, and a third one
//! on which something is different: the query, the order, some of the files, or all of their names.

mod data;
mod nights;
mod programs;
mod summary;
mod wanted;

use std::collections::HashMap;

use anyhow::{Result, ensure};

use self::nights::{Cell, Stage};
use self::programs::PROGRAMS;
use self::wanted::Device;
pub(crate) use self::wanted::SuiteArguments;
use super::{Bench, Case};
use crate::machine;
use crate::outcome::{Measured, Outcome, Reference, Verdict};

/// The benchmark.
pub(crate) struct Suite<'b> {
    bench: &'b Bench,
    cells: Vec<Cell>,
    /// Programs that are not here, with their packages.
    missing: Vec<String>,
    /// What a program reads on a device, once it is known.
    read_bytes: HashMap<(&'static str, Device), u64>,
    /// How often each cell was run.
    rounds: Vec<usize>,
    /// What foretell said of a night of a cell, last.
    said: HashMap<(String, &'static str), String>,
    /// Cells that could not be run, and nights with another output.
    wrong: Vec<String>,
}

impl<'b> Suite<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let mut missing = Vec::new();
        let mut here = Vec::new();
        for program in PROGRAMS {
            match program.missing() {
                Some((command, package)) => {
                    let words = format!("{}: no {command} (apt-get install {package})", program.name);
                    eprintln!("not measured: {words}");
                    missing.push(words);
                }
                None => here.push(program),
            }
        }
        ensure!(!here.is_empty(), "none of the programs is installed");
        let SuiteArguments { devices, memory, .. } = &bench.suite;
        let mut cells = Vec::new();
        for device in devices.iter().copied() {
            for program in here.iter().copied() {
                cells.extend(memory.iter().map(|per_cent| Cell { program, device, per_cent: *per_cent }));
            }
        }
        let rounds = vec![0; cells.len()];
        let (read_bytes, said, wrong) = (HashMap::new(), HashMap::new(), Vec::new());
        Ok(Suite { bench, cells, missing, read_bytes, rounds, said, wrong })
    }

    fn cell(&mut self, arm: usize) -> Result<Measured> {
        let Cell { program, device, per_cent } = self.cells[arm];
        let mut stage = Stage::make(self.bench, program, device)?;
        let read_bytes = match self.read_bytes.get(&(program.name, device)) {
            Some(bytes) => *bytes,
            None => stage.read_bytes()?,
        };
        self.read_bytes.insert((program.name, device), read_bytes);
        let drops = machine::cache_drops();
        let limit_bytes = stage.limit_bytes(read_bytes, per_cent);
        // Another side comes first in each round.
        let nights_first = self.rounds[arm] % 2 == 1;
        self.rounds[arm] += 1;
        let nights = stage.nights(limit_bytes, program.change(self.bench.suite.changed), nights_first)?;
        let name = self.cells[arm].name();
        for (night, words) in nights.words() {
            self.said.insert((name.clone(), night), words.trim().to_owned());
        }
        let others = nights.with_another_output();
        self.wrong
            .extend(others.iter().map(|night| format!("{name}: {night}: another output than the kernel's")));
        let mut measured = nights.measured();
        measured.extend([
            ("read_mib", read_bytes as f64 / super::MIB as f64),
            ("limit_mib", limit_bytes as f64 / super::MIB as f64),
            ("other_outputs", others.len() as f64),
            ("load", machine::load()),
            ("cache_drops", (machine::cache_drops() - drops) as f64),
        ]);
        Ok(measured)
    }
}

impl Case for Suite<'_> {
    fn title(&self) -> String {
        "real programs: first, second and a changed night, and the kernel with read_ahead_kb 128, 1024, 4096"
            .to_owned()
    }

    fn arms(&self) -> Vec<String> {
        self.cells.iter().map(Cell::name).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        // One that cannot be run is no reason to lose what was measured of the others.
        self.cell(arm).or_else(|error| {
            self.wrong.push(format!("{}: {error:#}", self.cells[arm].name()));
            Ok(vec![("failed", 1.0)])
        })
    }

    fn references(&self) -> Vec<Reference> {
        let what = format!("programs of {} that are not installed, and were not measured", PROGRAMS.len());
        vec![Reference { what, value: self.missing.len() as f64 }]
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = summary::verdicts(&summary::rows(&self.cells, outcome));
        let wrong = self.wrong.len() as f64;
        verdicts.push(Verdict::at_most(
            "runs that failed or had another output than the kernel's",
            wrong,
            0.0,
        ));
        verdicts
    }

    fn table(&self, outcome: &Outcome) -> Option<String> {
        Some(summary::table(&summary::rows(&self.cells, outcome)))
    }

    fn notes(&self, outcome: &Outcome) -> Vec<String> {
        let missing = self.missing.iter().map(|words| format!("not measured: {words}"));
        let wrong = self.wrong.iter().map(|words| format!("wrong: {words}"));
        let rows = summary::rows(&self.cells, outcome);
        let slower = summary::slower(&rows).into_iter().map(|slower| {
            let name = slower.cell.name();
            let said = self.said.get(&(name.clone(), slower.run.name)).map_or("nothing", String::as_str);
            format!(
                "slower: {name}: {}: {:.3} of the kernel's time, {:.0} MiB read, by the plain kernel {:.0}; foretell said:\n{said}",
                slower.run.name, slower.share, slower.mib, slower.kernel_mib
            )
        });
        let means = summary::further_means(&rows).into_iter();
        means.chain(missing).chain(wrong).chain(slower).collect()
    }
}
