//! Workloads by name, generated: the same name and seed always give the same references.
//!
//! The ten traces of Kimbrel et al. (OSDI 1996, section 3.1, Table 3) are not public. Five of them are
//! cyclic scans that the text determines up to details ([`Workload::is_model`] is `false`); of the other
//! five only the numbers of Table 3 and a description of the application are known, so they are models:
//! an access pattern that fits the description, with exactly the published number of reads, distinct
//! blocks and compute time.
//!
//! One module an access pattern:
//!
//! ```text
//!  cyclic    synth, dinero, cscope1, loop, ReadN   one file, over and over
//!  cscope    cscope2, cscope3                      many small files, over and over
//!  glimpse   glimpse                               index first, then articles of some partitions
//!  ld        ld                                    object files: symbols, then contents
//!  postgres  postgres-join, postgres-select        index and scattered tuples
//!  xds       xds                                   oblique planes through a volume
//!  lirs      lirs-cs … lirs-multi3              loops, skew, temporal locality, mixtures (Jiang, Zhang 2002)
//!  zipf      zipf                                  independent draws
//!  compute   how long a process computes before each reference
//! ```

mod compute;
mod cscope;
mod cyclic;
mod glimpse;
mod ld;
mod lirs;
mod model;
mod name;
mod plan;
mod postgres;
mod random;
mod xds;
mod zipf;

use crate::blocks::DEFAULT_BLOCK_BYTES;
use crate::error::TraceError;
use crate::reference::{FileEntry, Reference, TraceMeta, TraceReader};

use compute::ComputeTimes;
pub use lirs::LirsTrace;
pub use name::WorkloadError;
use plan::{Plan, Visit};

/// A workload that can be generated. Parsed from its name, with parameters for the last three:
/// `zipf:references=N,objects=N,alpha=A`, `loop:blocks=N,passes=N`, `readn:n=N,blocks=N` (or `read300`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    /// 50 passes through a loop of 2000 blocks, exponential compute times with a mean of 1 ms.
    Synth,
    /// A cache simulator that reads one trace file nine times.
    Dinero,
    /// Eight symbol searches of cscope in its database of 18 MB of source.
    Cscope1,
    /// Four text searches of cscope through 18 MB of source.
    Cscope2,
    /// Four text searches of cscope through another source tree.
    Cscope3,
    /// Four searches of glimpse in 40 MB of news articles.
    Glimpse,
    /// The link of a kernel from 25 MB of object files.
    Ld,
    /// An indexed nested-loop join.
    PostgresJoin,
    /// An indexed selection of 2% of the tuples.
    PostgresSelect,
    /// 25 planes at random orientations through a volume of 64 MB.
    Xds,
    /// Independent references, the k-th most popular of `objects` blocks drawn in proportion to
    /// 1 / k^alpha.
    Zipf {
        /// How many references.
        references: u64,
        /// How many blocks there are.
        objects: u32,
        /// The skew, 0 (all alike) or more.
        alpha: f64,
    },
    /// `passes` passes through `blocks` blocks of one file.
    Loop {
        /// Blocks of the file.
        blocks: u32,
        /// How often the file is read.
        passes: u32,
    },
    /// ReadN of Cao, Felten and Li (OSDI 1994, section 6.1): the first `n` blocks of a file five times,
    /// then the next `n` five times, and so on to its end.
    ReadN {
        /// Blocks of a group.
        n: u32,
        /// Blocks of the file.
        blocks: u32,
    },
    /// One in the style of the traces of Jiang and Zhang (SIGMETRICS 2002).
    Lirs(LirsTrace),
}

/// What Table 3 of Kimbrel et al. (1996) says of a trace, and the cache that they used for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Published {
    /// Read references, each to one block of 8 KiB.
    pub reads: u64,
    /// Distinct blocks among them.
    pub distinct_blocks: u64,
    /// Compute time of the application in all.
    pub compute_ms: u64,
    /// Blocks of the cache in the paper's experiments (section 3.1: 1280, and 512 for the two traces
    /// with fewer distinct blocks than that).
    pub cache_blocks: u32,
}

impl Workload {
    /// The figures of Table 3, for the ten traces of the paper.
    #[must_use]
    pub fn published(&self) -> Option<Published> {
        let (reads, distinct_blocks, compute_ms, cache_blocks) = match self {
            Workload::Synth => (100_000, 2000, 99_900, 1280),
            Workload::Dinero => (8867, 986, 103_500, 512),
            Workload::Cscope1 => (8673, 1073, 24_900, 512),
            Workload::Cscope2 => (20_206, 2462, 37_100, 1280),
            Workload::Cscope3 => (30_200, 3910, 74_100, 1280),
            Workload::Glimpse => (27_981, 5247, 38_700, 1280),
            Workload::Ld => (5881, 2882, 8200, 1280),
            Workload::PostgresJoin => (8896, 3793, 11_500, 1280),
            Workload::PostgresSelect => (5044, 3085, 79_200, 1280),
            Workload::Xds => (10_435, 5392, 30_800, 1280),
            Workload::Zipf { .. } | Workload::Loop { .. } | Workload::ReadN { .. } | Workload::Lirs(_) => {
                return None;
            }
        };
        Some(Published { reads, distinct_blocks, compute_ms, cache_blocks })
    }

    /// How many references the workload makes.
    #[must_use]
    pub fn references(&self) -> u64 {
        match *self {
            Workload::Zipf { references, .. } => references,
            Workload::Loop { blocks, passes } => u64::from(blocks) * u64::from(passes),
            Workload::ReadN { blocks, .. } => u64::from(blocks) * cyclic::READN_PASSES,
            Workload::Lirs(trace) => trace.references(),
            _ => self.published().map_or(0, |p| p.reads),
        }
    }

    /// Only the totals are the published ones; the order of the references is a guess from the
    /// description of the application. Results on such a workload show directions, not figures.
    #[must_use]
    pub fn is_model(&self) -> bool {
        matches!(
            self,
            Workload::Glimpse
                | Workload::Ld
                | Workload::PostgresJoin
                | Workload::PostgresSelect
                | Workload::Xds
                | Workload::Lirs(_)
        )
    }

    /// The references of the workload. Seeds change compute times, and the order in models and zipf.
    #[must_use]
    pub fn open(&self, seed: u64) -> Generator {
        let plan = match *self {
            Workload::Synth => cyclic::synth(),
            Workload::Dinero => cyclic::dinero(),
            Workload::Cscope1 => cyclic::cscope1(),
            Workload::Cscope2 => cscope::cscope2(seed),
            Workload::Cscope3 => cscope::cscope3(seed),
            Workload::Glimpse => glimpse::glimpse(seed),
            Workload::Ld => ld::ld(seed),
            Workload::PostgresJoin => postgres::join(seed),
            Workload::PostgresSelect => postgres::select(seed),
            Workload::Xds => xds::xds(seed),
            Workload::Zipf { references, objects, alpha } => zipf::zipf(references, objects, alpha, seed),
            Workload::Loop { blocks, passes } => cyclic::passes(blocks, passes),
            Workload::ReadN { n, blocks } => cyclic::readn(n, blocks),
            Workload::Lirs(trace) => trace.plan(seed),
        };
        let references = self.references();
        let compute_ns = match self.published() {
            Some(published) => published.compute_ms * 1_000_000,
            None => references.saturating_mul(compute::DEFAULT_COMPUTE_NS),
        };
        let block_bytes = u64::from(DEFAULT_BLOCK_BYTES.get());
        let file =
            |(name, blocks): (String, u32)| FileEntry { name, bytes: Some(u64::from(blocks) * block_bytes) };
        Generator {
            meta: TraceMeta {
                source: self.to_string(),
                block_bytes: Some(DEFAULT_BLOCK_BYTES),
                seed: Some(seed),
                files: plan.files.into_iter().map(file).collect(),
                processes: vec![self.name().to_owned()],
            },
            visits: plan.visits,
            compute: ComputeTimes::new(plan.shape, references, compute_ns, seed),
            left: references,
        }
    }
}

/// The references of a [`Workload`], each to one block of 8 KiB. Never yields an error.
pub struct Generator {
    meta: TraceMeta,
    visits: Box<dyn Iterator<Item = Visit> + Send>,
    compute: ComputeTimes,
    left: u64,
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator")
            .field("meta", &self.meta)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Iterator for Generator {
    type Item = Result<Reference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let (file, block) = self.visits.next()?;
        self.left -= 1;
        let block_bytes = u64::from(DEFAULT_BLOCK_BYTES.get());
        Some(Ok(Reference {
            process: 0,
            file,
            offset: u64::from(block) * block_bytes,
            bytes: block_bytes,
            compute_ns: self.compute.next_ns(),
            timestamp_ns: None,
            write: false,
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.left) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

impl TraceReader for Generator {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }
}
