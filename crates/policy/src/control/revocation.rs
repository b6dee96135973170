//! Judging a manager: how many of its decisions do placeholders prove wrong?
//!
//! The share is an exponentially decaying mean: each of its replacements multiplies it by 1 - 1/w, each
//! decision proved wrong adds 1/w. Above the upper threshold the manager's choices are no longer asked
//! for; its blocks are then replaced in global order, which counts as right, so the share decays and
//! below the lower threshold the manager gets another chance. The gap between the two keeps it from
//! flapping. Cao, Felten, Li 1994, section 6.2, propose this and leave it open.

use crate::config::Revocation;

/// The least share that is told from none: without it a long time without a mistake leads to subnormal numbers, which
/// processors take a hundred times as long to reckon with.
const NO_SHARE: f64 = 1e-100;

/// What is held against one manager.
#[derive(Debug, Default)]
pub(super) struct Record {
    share: f64,
    replacements: u32,
    revoked: bool,
}

/// A change of a manager's standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Revoked,
    Reinstated,
}

impl Record {
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// A block of the manager was replaced.
    pub(crate) fn replaced(&mut self, rule: &Revocation) -> Option<Verdict> {
        self.share = (self.share * (1.0 - 1.0 / f64::from(rule.window.max(1)))).max(NO_SHARE);
        self.replacements = self.replacements.saturating_add(1);
        if self.revoked && self.share < rule.reinstate_below {
            self.revoked = false;
            return Some(Verdict::Reinstated);
        }
        None
    }

    /// One of its decisions was proved wrong.
    pub(crate) fn mistaken(&mut self, rule: &Revocation) -> Option<Verdict> {
        self.share += 1.0 / f64::from(rule.window.max(1));
        // Few decisions prove nothing: the mean starts at 0 and needs a window to become one.
        if !self.revoked && self.replacements >= rule.window && self.share > rule.revoke_above {
            self.revoked = true;
            return Some(Verdict::Revoked);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thresholds_keep_it_from_flapping() {
        let rule = Revocation { window: 10, revoke_above: 0.5, reinstate_below: 0.1 };
        let mut record = Record::default();
        for _ in 0..100 {
            record.replaced(&rule);
        }
        let mistakes = (1..100).find(|_| record.mistaken(&rule).is_some());
        assert_eq!(mistakes, Some(6), "six wrong ones of about ten are more than a half");
        let until = (1..100).find(|_| record.replaced(&rule).is_some());
        // 0.6 * 0.9^n < 0.1 first for n = 18.
        assert_eq!(until, Some(18));
        assert!(!record.is_revoked());
    }

    #[test]
    fn a_new_manager_is_not_judged_by_its_first_mistakes() {
        let rule = Revocation { window: 100, revoke_above: 0.0, reinstate_below: 0.0 };
        let mut record = Record::default();
        for _ in 0..99 {
            record.replaced(&rule);
            assert_eq!(record.mistaken(&rule), None);
        }
    }
}
