//! How a published number came out.

use serde::Serialize;

/// How a published number came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The figure is met.
    Met,
    /// The direction is, on a workload whose figures cannot be compared.
    Direction,
    /// Neither.
    Differs,
    /// It cannot be run.
    CannotRun,
}

/// One published number or sentence, and what the simulator says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Table, figure or section of the paper.
    pub source: String,
    /// What it is about.
    pub what: String,
    /// What the paper says.
    pub published: String,
    /// What the simulator gives.
    pub ours: String,
    /// How far apart they are.
    pub difference: String,
    /// How that is judged.
    pub verdict: Verdict,
    /// Why, where that needs a word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}
