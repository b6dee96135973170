//! When is a disclosed list wrong too often? (Cao et al. 1996, section 2.1.3)
//!
//! The share of unpredicted references, as an exponentially decaying mean over a window; no judgement
//! before a window has been seen.

use crate::config::Distrust;

/// How well one list predicted so far.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    share: f64,
    seen: u32,
}

impl Trust {
    /// Counts a reference; true if the list should be discarded.
    pub(crate) fn judge(&mut self, rule: &Distrust, predicted: bool) -> bool {
        let weight = 1.0 / f64::from(rule.window.max(1));
        self.share += weight * (f64::from(u8::from(!predicted)) - self.share);
        self.seen = self.seen.saturating_add(1);
        self.seen >= rule.window && self.share > rule.discard_above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bogus_list_goes_after_one_window_and_a_fair_one_stays() {
        let rule = Distrust { window: 100, discard_above: 0.5 };
        let mut bogus = Trust::default();
        assert_eq!((1..1000).find(|_| bogus.judge(&rule, false)), Some(100));
        let mut fair = Trust::default();
        assert!((1..1000).all(|i| !fair.judge(&rule, i % 3 != 0)));
    }
}
