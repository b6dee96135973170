//! Measurements of arms over rounds, and what they amount to.

/// One run: metrics by name, the unit at the end of the name.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// A number to compare with, from arithmetic and not from a run.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Reference {
    pub(crate) what: String,
    pub(crate) value: f64,
}

/// Whether a target was met.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) target: String,
    pub(crate) met: bool,
}

impl Verdict {
    /// `value` must be at most `limit`.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { what: what.into(), value, target: format!("at most {limit}"), met: value <= limit }
    }

    /// `value` must be at least `limit`.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { what: what.into(), value, target: format!("at least {limit}"), met: value >= limit }
    }

    /// `value` must be within `share` of `reference`, more or less.
    pub(crate) fn within(what: impl Into<String>, value: f64, reference: f64, share: f64) -> Self {
        let met = (value - reference).abs() <= share * reference;
        Self { what: what.into(), value, target: format!("{reference} +- {}%", share * 100.0), met }
    }
}

/// The values of one metric of one arm, round by round.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) metric: &'static str,
    pub(crate) values: Vec<f64>,
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => sorted[odd / 2],
            even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// All measurements of a benchmark.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) title: String,
    pub(crate) arms: Vec<(String, Vec<Series>)>,
    pub(crate) references: Vec<Reference>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Printed in place of the table of medians, if there is one.
    pub(crate) table: Option<String>,
    pub(crate) notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(title: String, arms: &[String]) -> Self {
        let arms = arms.iter().map(|arm| (arm.clone(), Vec::new())).collect();
        let (references, verdicts, notes) = (Vec::new(), Vec::new(), Vec::new());
        Self { title, arms, references, verdicts, table: None, notes }
    }

    pub(crate) fn record(&mut self, arm: usize, measured: Measured) {
        let series = &mut self.arms[arm].1;
        for (metric, value) in measured {
            match series.iter_mut().find(|known| known.metric == metric) {
                Some(known) => known.values.push(value),
                None => series.push(Series { metric, values: vec![value] }),
            }
        }
    }

    /// The median of a metric of an arm, if it was measured.
    pub(crate) fn median(&self, arm: &str, metric: &str) -> Option<f64> {
        let (_, series) = self.arms.iter().find(|(name, _)| name == arm)?;
        series.iter().find(|series| series.metric == metric).map(Series::median)
    }

    /// The least median of a metric among the arms that begin with `prefix`.
    pub(crate) fn best(&self, prefix: &str, metric: &str) -> Option<f64> {
        let arms = self.arms.iter().filter(|(name, _)| name.starts_with(prefix));
        arms.filter_map(|(name, _)| self.median(name, metric)).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_the_middle() {
        let series = |values: &[f64]| Series { metric: "x", values: values.to_vec() };
        assert!((series(&[3.0, 1.0, 2.0]).median() - 2.0).abs() < 1e-12);
        assert!((series(&[4.0, 1.0, 2.0, 3.0]).median() - 2.5).abs() < 1e-12);
        assert!(series(&[]).median().is_nan());
    }

    #[test]
    fn the_better_kernel_counts() {
        let arms = ["kernel 128".to_owned(), "kernel 4096".to_owned(), "foretell".to_owned()];
        let mut outcome = Outcome::new(String::new(), &arms);
        for (arm, elapsed) in [(0, 5.0), (1, 3.0), (2, 1.0)] {
            outcome.record(arm, vec![("elapsed_s", elapsed)]);
        }
        assert_eq!(outcome.best("kernel", "elapsed_s"), Some(3.0));
        assert_eq!(outcome.median("foretell", "elapsed_s"), Some(1.0));
        assert_eq!(outcome.median("foretell", "other"), None);
    }

    #[test]
    fn targets() {
        assert!(Verdict::at_most("", 0.75, 0.75).met);
        assert!(!Verdict::at_most("", 0.76, 0.75).met);
        assert!(Verdict::at_least("", 1.1, 1.1).met);
        assert!(!Verdict::at_least("", 1.09, 1.1).met);
        assert!(Verdict::within("", 101.0, 100.0, 0.01).met);
        assert!(!Verdict::within("", 98.0, 100.0, 0.01).met);
    }
}
