//! Names of workloads: parsing, printing, describing.

use std::fmt;
use std::str::FromStr;

use super::{Workload, lirs};

/// The names, with defaults where there are parameters.
const NAMED: [Workload; 20] = [
    Workload::Synth,
    Workload::Dinero,
    Workload::Cscope1,
    Workload::Cscope2,
    Workload::Cscope3,
    Workload::Glimpse,
    Workload::Ld,
    Workload::PostgresJoin,
    Workload::PostgresSelect,
    Workload::Xds,
    Workload::Zipf { references: 1_000_000, objects: 100_000, alpha: 1.0 },
    Workload::Loop { blocks: 2000, passes: 50 },
    Workload::ReadN { n: 300, blocks: READ300_BLOCKS },
    Workload::Lirs(lirs::ALL[0]),
    Workload::Lirs(lirs::ALL[1]),
    Workload::Lirs(lirs::ALL[2]),
    Workload::Lirs(lirs::ALL[3]),
    Workload::Lirs(lirs::ALL[4]),
    Workload::Lirs(lirs::ALL[5]),
    Workload::Lirs(lirs::ALL[6]),
];

/// Compulsory misses of Read300 (Cao, Felten, Li 1994, Tables 3 and 4: "about 1310").
const READ300_BLOCKS: u32 = 1310;
/// Compulsory misses of Read390, Read400 and Read490 (the same, Table 1: 1170 to 1181).
const OTHER_READN_BLOCKS: u32 = 1170;

/// A workload that does not exist, or a parameter that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("unknown workload `{name}`{}; one of {}", nearest_hint(name), all_names())]
    Unknown {
        /// What was given.
        name: String,
    },
    /// A parameter is not one of the workload's, or not a number, or out of range.
    #[error("workload `{workload}`: parameter `{parameter}`: expected {expected}")]
    Parameter {
        /// The workload.
        workload: &'static str,
        /// What was given.
        parameter: String,
        /// What would do.
        expected: &'static str,
    },
}

fn all_names() -> String {
    NAMED.iter().map(Workload::name).collect::<Vec<_>>().join(", ")
}

fn nearest_hint(name: &str) -> String {
    foretell_nearest::nearest(name, NAMED.iter().map(Workload::name))
        .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

impl Workload {
    /// Every workload, those with parameters at their defaults.
    #[must_use]
    pub fn all() -> &'static [Workload] {
        &NAMED
    }

    /// The name without parameters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Synth => "synth",
            Workload::Dinero => "dinero",
            Workload::Cscope1 => "cscope1",
            Workload::Cscope2 => "cscope2",
            Workload::Cscope3 => "cscope3",
            Workload::Glimpse => "glimpse",
            Workload::Ld => "ld",
            Workload::PostgresJoin => "postgres-join",
            Workload::PostgresSelect => "postgres-select",
            Workload::Xds => "xds",
            Workload::Zipf { .. } => "zipf",
            Workload::Loop { .. } => "loop",
            Workload::ReadN { .. } => "readn",
            Workload::Lirs(trace) => trace.name(),
        }
    }

    /// One line on what it is and how well it is known.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match self {
            Workload::Synth => {
                "50 passes through 2000 blocks, exponential compute times (Kimbrel et al. 1996)"
            }
            Workload::Dinero => "cache simulator, 9 passes over one file; rebuilt from the published numbers",
            Workload::Cscope1 => {
                "8 symbol searches through a database file; rebuilt from the published numbers"
            }
            Workload::Cscope2 => {
                "4 text searches through about 900 small files; rebuilt, file boundaries assumed, runs of \
                 compute times fitted"
            }
            Workload::Cscope3 => {
                "4 text searches, compute times in runs near 1 and 7 ms; rebuilt, file boundaries and run \
                 lengths assumed"
            }
            Workload::Glimpse => {
                "model: index first, then articles of the partitions it names, 4 searches; runs of compute times \
                 fitted"
            }
            Workload::Ld => "model: symbols, then contents of 25 MB of object files",
            Workload::PostgresJoin => "model: sequential outer relation, index probes, scattered tuples",
            Workload::PostgresSelect => "model: an index range and the scattered tuples that it names",
            Workload::Xds => "model: 25 planes at random orientations through a 64 MB volume",
            Workload::Zipf { .. } => {
                "independent references, popularity of rank k in proportion to 1/k^alpha"
            }
            Workload::Loop { .. } => "passes through the blocks of one file",
            Workload::ReadN { .. } => {
                "n blocks five times, then the next n, to the end of the file (Cao, Felten, Li 1994)"
            }
            Workload::Lirs(trace) => trace.description(),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Zipf { references, objects, alpha } => {
                write!(f, "zipf:references={references},objects={objects},alpha={alpha}")
            }
            Workload::Loop { blocks, passes } => write!(f, "loop:blocks={blocks},passes={passes}"),
            Workload::ReadN { n, blocks } => write!(f, "readn:n={n},blocks={blocks}"),
            _ => f.write_str(self.name()),
        }
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Workload, WorkloadError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        if let Some(n) = name.strip_prefix("read").and_then(|digits| digits.parse::<u32>().ok()) {
            let blocks = if n == 300 { READ300_BLOCKS } else { OTHER_READN_BLOCKS };
            return Workload::ReadN { n, blocks }.with(parameters);
        }
        match NAMED.iter().find(|workload| workload.name() == name) {
            Some(workload) => workload.with(parameters),
            None => Err(WorkloadError::Unknown { name: name.to_owned() }),
        }
    }
}

impl Workload {
    /// The workload with `parameters` (`key=value,…`) changed.
    fn with(mut self, parameters: &str) -> Result<Workload, WorkloadError> {
        for parameter in parameters.split(',').filter(|p| !p.is_empty()) {
            self.set(parameter)?;
        }
        match self {
            Workload::ReadN { n: 0, .. } => Err(self.wrong("n=0", "at least 1 block")),
            Workload::Zipf { objects: 0, .. } => Err(self.wrong("objects=0", "at least 1 object")),
            _ => Ok(self),
        }
    }

    fn set(&mut self, parameter: &str) -> Result<(), WorkloadError> {
        let workload = *self;
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let number = |expected| value.parse().map_err(|_| workload.wrong(parameter, expected));
        let count = |target: &mut u32| number("a number of blocks below 2^32").map(|n| *target = n);
        match (self, key) {
            (Workload::Zipf { references, .. }, "references") => {
                *references =
                    value.parse().map_err(|_| workload.wrong(parameter, "a number of references"))?;
            }
            (Workload::Zipf { objects, .. }, "objects") => count(objects)?,
            (Workload::Zipf { alpha, .. }, "alpha") => {
                *alpha = value
                    .parse()
                    .ok()
                    .filter(|a: &f64| (0.0..=10.0).contains(a))
                    .ok_or_else(|| workload.wrong(parameter, "a number from 0 to 10"))?;
            }
            (Workload::Loop { blocks, .. } | Workload::ReadN { blocks, .. }, "blocks") => count(blocks)?,
            (Workload::Loop { passes, .. }, "passes") => count(passes)?,
            (Workload::ReadN { n, .. }, "n") => count(n)?,
            (Workload::Zipf { .. }, _) => {
                return Err(workload.wrong(parameter, "references=N, objects=N or alpha=A"));
            }
            (Workload::Loop { .. }, _) => return Err(workload.wrong(parameter, "blocks=N or passes=N")),
            (Workload::ReadN { .. }, _) => return Err(workload.wrong(parameter, "n=N or blocks=N")),
            _ => return Err(workload.wrong(parameter, "no parameter, this workload has none")),
        }
        Ok(())
    }

    fn wrong(&self, parameter: &str, expected: &'static str) -> WorkloadError {
        WorkloadError::Parameter { workload: self.name(), parameter: parameter.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for workload in Workload::all() {
            assert_eq!(workload.to_string().parse::<Workload>().as_ref(), Ok(workload));
        }
        assert_eq!("read390".parse(), Ok(Workload::ReadN { n: 390, blocks: 1170 }));
        let zipf = "zipf:alpha=0.8,references=7,objects=3".parse();
        assert_eq!(zipf, Ok(Workload::Zipf { references: 7, objects: 3, alpha: 0.8 }));
    }

    #[test]
    fn mistakes_get_a_hint() {
        let error = "cscop1".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("did you mean `cscope1`?"), "{error}");
        for wrong in ["loop:blocks=x", "loop:n=3", "synth:n=3", "zipf:alpha=-1", "read0", "zipf:objects=0"] {
            let error = wrong.parse::<Workload>().unwrap_err().to_string();
            assert!(error.contains("expected"), "{wrong}: {error}");
        }
    }
}
