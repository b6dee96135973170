//! Means over the last times, of accesses and between references.

use std::collections::VecDeque;

/// Times that a mean is taken over (the history length of Kimbrel et al. 1996, section 5).
const HISTORY: usize = 100;

/// A sum over the last [`HISTORY`] values, and over all.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    values: VecDeque<u64>,
    sum: u128,
    all_sum: u128,
    all: u64,
    /// The means: they are asked for more often than they change.
    mean: f64,
    mean_of_all: f64,
}

impl History {
    pub(crate) fn push(&mut self, value: u64) {
        if self.values.len() == HISTORY
            && let Some(oldest) = self.values.pop_front()
        {
            self.sum -= u128::from(oldest);
        }
        self.values.push_back(value);
        self.sum += u128::from(value);
        self.all_sum += u128::from(value);
        self.all += 1;
        self.mean = self.sum as f64 / self.values.len() as f64;
        self.mean_of_all = self.all_sum as f64 / self.all as f64;
    }

    /// The mean of the last values, 0 of none.
    #[inline]
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The mean of all values, 0 of none.
    #[inline]
    pub(crate) fn mean_of_all(&self) -> f64 {
        self.mean_of_all
    }
}
