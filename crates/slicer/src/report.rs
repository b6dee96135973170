//! What became of each open site, how much of the program is kept, and why something is.

use std::fmt;

use crate::flow::{Point, What};
use crate::slice::Slice;
use crate::slice::judge::{Refusal, Verdict, excerpt, link};
use crate::slice::sites::{call_name, path_text};

/// What became of an open site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its accesses are predicted and prefetched.
    Prefetched {
        /// The number that the runtime and its trace know the site by.
        number: u32,
    },
    /// Its accesses are not prefetched, but its bytes decide on others, so the slice reads it, too.
    ReadBySlice,
    /// It is written, or never read.
    NotRead,
    /// Other sites are marked with FORETELL_PREFETCH, this one is not.
    NotMarked,
    /// Something is in the way.
    Refused(Refusal),
}

/// An open site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteReport {
    /// `file:line` of the open call.
    pub place: String,
    /// The function that is called.
    pub call: String,
    /// The path argument, as written.
    pub path: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// A report on a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// All open sites of the program.
    pub sites: Vec<SiteReport>,
    /// Effects (assignments, calls, decisions, jumps) of the functions that `main` can come to.
    pub effects: usize,
    /// How many of them the slice keeps.
    pub kept: usize,
    /// Calls whose results the program hands to the slice.
    pub forwarded: Vec<String>,
    /// Steps that the slice cannot follow and ends at, each with its place and the cause.
    pub given_up: Vec<String>,
}

impl Report {
    pub(crate) fn new(slice: &Slice<'_>) -> Self {
        let known = slice.known;
        let sites = slice
            .sites
            .iter()
            .map(|(site, verdict)| SiteReport {
                place: known.program.describe(site.call),
                call: call_name(known, site.point),
                path: path_text(known, site),
                outcome: match verdict {
                    Verdict::Sliced(number) => Outcome::Prefetched { number: *number },
                    Verdict::ReadBySlice => Outcome::ReadBySlice,
                    Verdict::NotRead => Outcome::NotRead,
                    Verdict::NotMarked => Outcome::NotMarked,
                    Verdict::Refused(refusal) => Outcome::Refused(refusal.clone()),
                },
            })
            .collect();
        let mut effects = 0;
        for (number, graph) in known.graphs.iter().enumerate() {
            if known.effects.reachable[number] {
                effects += graph.nodes.iter().filter(|n| is_effect(&n.what)).count();
            }
        }
        let points = slice.closure.points();
        let kept = points.iter().filter(|(f, s)| is_effect(&known.graphs[f.ix()][*s].what)).count();
        let forwarded = points
            .iter()
            .filter(|p| known.is_forwarded(**p))
            .map(|p| {
                let ast = known.graphs[p.0.ix()][p.1].ast;
                format!("{}: {}", known.program.describe(ast), excerpt(known, ast))
            })
            .collect();
        let given_up = known
            .given_up
            .causes()
            .filter(|(point, _)| slice.closure.keeps(*point))
            .map(|(p, cause)| {
                let ast = known.graphs[p.0.ix()][p.1].ast;
                format!("{}: {}: {cause}", known.program.describe(ast), excerpt(known, ast))
            })
            .collect();
        Self { sites, effects, kept, forwarded, given_up }
    }

    pub(crate) fn refuse_all(&mut self, refusal: &Refusal) {
        for site in &mut self.sites {
            if matches!(site.outcome, Outcome::Prefetched { .. }) {
                site.outcome = Outcome::Refused(refusal.clone());
            }
        }
        self.kept = 0;
    }

    /// How much of the program the slice keeps, in percent of its effects.
    pub fn kept_percent(&self) -> f64 {
        if self.effects == 0 { 0.0 } else { 100.0 * self.kept as f64 / self.effects as f64 }
    }

    /// More than half: the slice computes almost what the program does, and will hardly get ahead of it.
    pub fn is_unpromising(&self) -> bool {
        self.kept * 2 > self.effects && self.kept > 0
    }
}

fn is_effect(what: &What) -> bool {
    !matches!(what, What::Entry | What::Exit | What::Pin | What::Join)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for site in &self.sites {
            let SiteReport { place, call, path, outcome } = site;
            match outcome {
                Outcome::Prefetched { number } => {
                    writeln!(f, "{place}: {call}({path}): prefetched, site {number}")?;
                }
                Outcome::ReadBySlice => {
                    writeln!(f, "{place}: {call}({path}): read by the slice for itself")?;
                }
                Outcome::NotRead => writeln!(f, "{place}: {call}({path}): not read")?,
                Outcome::NotMarked => writeln!(f, "{place}: {call}({path}): not marked FORETELL_PREFETCH")?,
                Outcome::Refused(refusal) => writeln!(f, "{place}: {call}({path}): refused: {refusal}")?,
            }
        }
        for call in &self.forwarded {
            writeln!(f, "{call}: its result is handed to the slice")?;
        }
        for step in &self.given_up {
            writeln!(f, "{step}; the slice ends there, if the program comes to it")?;
        }
        writeln!(f, "kept: {} of {} effects ({:.0}%)", self.kept, self.effects, self.kept_percent())
    }
}

impl fmt::Display for Refusal {
    /// One line: `file:line: cause; needed by …; remedy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)?;
        if !self.chain.is_empty() {
            write!(f, "; chain: {}", self.chain.join(" <- "))?;
        }
        write!(f, "; remedy: {}", self.remedy)
    }
}

/// Why the slice keeps what is in a function, or on a line.
pub(crate) fn why(slice: &Slice<'_>, what: &str) -> Vec<String> {
    let known = slice.known;
    let program = known.program;
    let is_asked = |point: &Point| {
        let ast = known.graphs[point.0.ix()][point.1].ast;
        let place = program.describe(ast);
        let line = place.rsplit(':').next().unwrap_or_default();
        program.func(point.0).name == what
            || line == what
            || place == what
            || place.ends_with(&format!("/{what}"))
    };
    let mut lines = Vec::new();
    for point in slice.closure.points().into_iter().filter(is_asked) {
        let node = &known.graphs[point.0.ix()][point.1];
        if !is_effect(&node.what) {
            continue;
        }
        for (depth, (point, reason)) in slice.closure.chain(point).into_iter().enumerate() {
            lines.push(format!("{:indent$}{}", "", link(known, point, reason), indent = 2 * depth));
        }
    }
    if lines.is_empty() {
        lines.push(format!("{what}: nothing of it is in the slice"));
    }
    lines
}
