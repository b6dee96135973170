//! Published numbers, run again.
//!
//! ```text
//! validation/expected/*.csv ──► figures ──┐
//! sentences of the paper ─────► claims  ──┴─► runs, each once, in parallel ──► findings
//! ```
//!
//! Source of everything here: Kimbrel et al., "A Trace-Driven Comparison of Algorithms for Parallel
//! Prefetching and Caching" (OSDI 1996). Their traces are not public. Synth, dinero, cscope1 and cscope2
//! are determined by the text up to details, and figures on them are compared as figures; on modelled
//! workloads only directions are (who wins, and where that changes). [`cannot_run`] lists what is left out.

mod claims;
mod figures;
mod finding;
mod runs;

use crate::error::SimError;
pub use finding::{Finding, Verdict};
use runs::{Claim, Runs};

/// Runs every published number that can be run, on `jobs` threads, and lists the others. `begun` hears how
/// many runs there are, `done` when one has ended.
///
/// # Errors
/// [`SimError`] of a run, which would be a defect: all of them fit their machines.
pub fn kimbrel96(
    jobs: usize,
    begun: impl FnOnce(usize),
    done: impl Fn() + Sync,
) -> Result<Vec<Finding>, SimError> {
    let claims: Vec<Claim> = figures::claims().into_iter().chain(claims::claims()).collect();
    let runs = Runs::of(&claims, jobs, begun, done)?;
    let mut findings: Vec<Finding> = claims.iter().map(|claim| (claim.judge)(&runs)).collect();
    findings.push(claims::sums(&runs));
    findings.extend(cannot_run());
    Ok(findings)
}

/// What the paper prints and nobody outside can run again, and why.
#[must_use]
pub fn cannot_run() -> Vec<Finding> {
    let rows = [
        (
            "Table 2, CMU columns",
            "xds and synth on the CMU simulator",
            "another simulator (RaidSim) of another drive (IBM 0661), of which seek curve and track skew are \
             not published in full",
        ),
        (
            "Figures 2 to 5, 8 to 10",
            "bars of elapsed time",
            "printed without numbers; the full data are in a technical report that is not available",
        ),
        (
            "sections 4.3 and 5",
            "figures on glimpse, ld, postgres-join, postgres-select and xds",
            "the traces are not public; only reads, distinct blocks and compute time of each are printed, so \
             the order of their references is modelled",
        ),
        (
            "section 5",
            "forestall with fixed F' of 1 to 60",
            "percentages over all traces, of which five are modelled",
        ),
    ];
    rows.map(|(source, what, note)| Finding {
        source: source.to_owned(),
        what: what.to_owned(),
        published: String::new(),
        ours: String::new(),
        difference: String::new(),
        verdict: Verdict::CannotRun,
        note: note.to_owned(),
    })
    .to_vec()
}
