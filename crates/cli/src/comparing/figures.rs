//! Medians, spans and intervals of a few runs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Run, Side};

/// The middle, and how far the others lie from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Span {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Span {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Span> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Span { least, median, most })
    }
}

/// How many times as fast as the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Faster {
    /// The geometric mean over the rounds.
    pub(crate) times: f64,
    /// Where the true value lies with 95% confidence; of two rounds or more.
    pub(crate) interval: Option<(f64, f64)>,
}

impl Faster {
    /// From the kernel's time over ours in each round: Student's interval of the logarithms.
    pub(crate) fn of(ratios: &[f64]) -> Option<Faster> {
        let logs: Vec<f64> = ratios.iter().filter(|r| r.is_finite() && **r > 0.0).map(|r| r.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let interval = (logs.len() > 1).then(|| {
            let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let half = student(logs.len() - 1) * (variance / n).sqrt();
            ((mean - half).exp(), (mean + half).exp())
        });
        Some(Faster { times: mean.exp(), interval })
    }
}

/// Student's t for 95% on both sides, by degrees of freedom (any table of statistics).
fn student(degrees: usize) -> f64 {
    const T: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131,
    ];
    match degrees {
        0 => f64::INFINITY,
        // From above: the next smaller one that is in the table.
        1..=15 => T[degrees - 1],
        16..=30 => 2.120,
        _ => 2.042,
    }
}

/// One side of the comparison.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) side: Side,
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) elapsed_s: Span,
    /// Read from the devices while it ran, by whomever.
    pub(crate) read_bytes: Option<Span>,
    pub(crate) requests: Option<Span>,
    /// Most memory at a time, of job and foretell together.
    pub(crate) peak_bytes: Option<Span>,
    pub(crate) exit_codes: BTreeSet<u8>,
    /// `None` of the kernel itself.
    pub(crate) faster: Option<Faster>,
    /// What foretell did: of how many runs.
    pub(crate) steered: usize,
    pub(crate) runs: usize,
}

/// The figures of each side.
pub(super) fn of(sides: &[Side], runs: &[Run]) -> Vec<Figures> {
    let of_side = |side: Side| runs.iter().filter(move |run| run.side == side);
    let figures = |&side: &Side| {
        let known = |value: fn(&Run) -> Option<u64>| {
            let values: Option<Vec<f64>> = of_side(side).map(|run| value(run).map(|v| v as f64)).collect();
            Span::of(values?)
        };
        let ratios: Vec<f64> = of_side(side)
            .filter_map(|run| {
                let plain = of_side(Side::Kernel).find(|plain| plain.round == run.round)?;
                Some(plain.elapsed_s / run.elapsed_s)
            })
            .collect();
        Some(Figures {
            side,
            name: side.to_string(),
            elapsed_s: Span::of(of_side(side).map(|run| run.elapsed_s))?,
            read_bytes: known(|run| run.read_bytes),
            requests: known(|run| run.requests),
            peak_bytes: known(|run| run.peak_bytes),
            exit_codes: of_side(side).map(|run| run.exit_code).collect(),
            faster: Faster::of(&ratios).filter(|_| side != Side::Kernel),
            steered: of_side(side).filter(|run| run.how == Some(foretell_learn::How::Steered)).count(),
            runs: of_side(side).count(),
        })
    };
    sides.iter().filter_map(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert_eq!(Span::of([3.0, 1.0, 2.0]), Some(Span { least: 1.0, median: 2.0, most: 3.0 }));
        assert_eq!(Span::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Span::of([]), None);
    }

    #[test]
    fn the_interval_holds_the_mean_and_narrows_with_more_rounds() {
        let one = Faster::of(&[2.0]).unwrap();
        assert!((one.times - 2.0).abs() < 1e-9 && one.interval.is_none());
        // By hand: the logarithms are -h, 0 and h with h = ln 1.1, their deviation is h, t is 4.303.
        let three = Faster::of(&[2.0 / 1.1, 2.0, 2.0 * 1.1]).unwrap();
        let half = 4.303 * 1.1_f64.ln() / 3_f64.sqrt();
        let (low, high) = three.interval.unwrap();
        assert!((three.times - 2.0).abs() < 1e-9);
        assert!((low - 2.0 * (-half).exp()).abs() < 1e-9 && (high - 2.0 * half.exp()).abs() < 1e-9);
        assert_eq!(Faster::of(&[f64::NAN, 0.0]), None);
    }
}
