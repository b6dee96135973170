//! The benchmarks: what each prepares, runs and compares.

mod bench;
mod files;
mod first_night;
mod foolish;
mod hits;
mod kills;
mod model;
mod names;
mod neighbour;
mod nights;
mod reads;
mod scan;
mod slice;
mod strategies;
mod suite;
mod trees;
mod walks;
mod watch;

pub(crate) use model::calibrate;
pub(crate) use suite::SuiteArguments;

use anyhow::Result;

pub(crate) use bench::{Bench, Case, MIB, Place, READ_AHEAD_KB, budget, common_metrics, rule};

use crate::arguments::Name;

/// Makes the benchmark of this name ready to run.
pub(crate) fn prepare<'b>(name: Name, bench: &'b Bench) -> Result<Box<dyn Case + 'b>> {
    use scan::{Kind, Scan};
    Ok(match name {
        Name::Cyclic => Box::new(Scan::prepare(bench, Kind::Cyclic, true)?),
        Name::Random => Box::new(Scan::prepare(bench, Kind::Random, true)?),
        Name::Sequential => Box::new(Scan::prepare(bench, Kind::Sequential, true)?),
        Name::CyclicDisk => Box::new(Scan::prepare(bench, Kind::Cyclic, false)?),
        Name::RandomDisk => Box::new(Scan::prepare(bench, Kind::Random, false)?),
        Name::SequentialDisk => Box::new(Scan::prepare(bench, Kind::Sequential, false)?),
        Name::Hits => Box::new(hits::Hits::prepare(bench)?),
        Name::Neighbour => Box::new(neighbour::Neighbour::prepare(bench)?),
        Name::Nights => Box::new(nights::Nights::prepare(bench, false)?),
        Name::NightsDisk => Box::new(nights::Nights::prepare(bench, true)?),
        Name::Reads => Box::new(reads::Reads::prepare(bench)?),
        Name::Walks => Box::new(walks::Walks::prepare(bench)?),
        Name::Names => Box::new(names::Names::prepare(bench)?),
        Name::Trees => Box::new(trees::Trees::prepare(bench)?),
        Name::Kills => Box::new(kills::Kills::prepare(bench)?),
        Name::Foolish => Box::new(foolish::Foolish::prepare(bench)?),
        Name::Strategies => Box::new(strategies::Strategies::alone(bench)?),
        Name::Mixes => Box::new(strategies::Strategies::mixes(bench)?),
        Name::ModelReality => Box::new(model::Reality::prepare(bench)?),
        Name::ModelAdvice => Box::new(model::Sweep::prepare(bench)?),
        Name::ModelCalibration => Box::new(model::Repeated::prepare(bench)?),
        Name::Suite => Box::new(suite::Suite::prepare(bench)?),
        Name::Watch => Box::new(watch::Watch::prepare(bench)?),
        Name::Slice => Box::new(slice::Slices::prepare(bench)?),
    })
}
