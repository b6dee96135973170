//! How far a job had come at what time.
//!
//! A job rarely reads evenly. To tell early that it is slower tonight, what it has read so far is compared with what it had
//! read by that time.

use foretell_recording::{Access, Recording};

use crate::lists::BLOCK_PAGES;

/// Times at which it is known.
const STEPS: usize = 64;

/// Which share of its references a recorded job had made, by time.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// Behind each of [`STEPS`] equal parts of its time.
    shares: Vec<f64>,
}

impl Pace {
    /// That of those accesses of a recording that `counts` says, in blocks of the policy; `None` if the recording does not
    /// tell how long it took, or there are none.
    #[must_use]
    pub fn of(recording: &Recording, counts: impl Fn(&Access) -> bool) -> Option<Pace> {
        let elapsed_ns = recording.summary.elapsed_ns;
        let read = || recording.accesses.iter().filter(|access| counts(access));
        let blocks = |access: &Access| u64::from(access.pages).div_ceil(BLOCK_PAGES);
        let all: u64 = read().map(blocks).sum();
        if elapsed_ns == 0 || all == 0 {
            return None;
        }
        let mut shares = vec![0.0; STEPS];
        for access in read() {
            let step = (u128::from(access.at_ns) * STEPS as u128 / u128::from(elapsed_ns)) as usize;
            shares[step.min(STEPS - 1)] += blocks(access) as f64 / all as f64;
        }
        let mut made = 0.0;
        for share in &mut shares {
            made += *share;
            *share = made;
        }
        Some(Pace { shares })
    }

    /// The share of the references that had been made when this share of the time had passed, 0 to 1. In between the last
    /// time that is known counts.
    #[must_use]
    pub fn made_by(&self, time: f64) -> f64 {
        let steps = (time * STEPS as f64).floor();
        if steps < 1.0 { 0.0 } else { self.shares[(steps as usize).min(STEPS) - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{FileNumber, RoleId, Summary};

    #[test]
    fn a_job_that_reads_first_and_computes_then_has_made_all_of_it_early() {
        let access = |at_ns, pages| Access { at_ns, ..Access::read(RoleId(0), FileNumber(0), 0, pages) };
        let mut recording =
            Recording { accesses: vec![access(0, 30), access(100, 70)], ..Recording::default() };
        assert_eq!(Pace::of(&recording, |_| true), None, "of a time that is not known");
        recording.summary = Summary { elapsed_ns: 640, ..Summary::default() };
        let pace = Pace::of(&recording, |_| true).unwrap();
        let made = |tenths: u32| (100.0 * pace.made_by(f64::from(tenths) / 64.0)).round() as u32;
        assert_eq!([0, 1, 10, 11, 64, 100].map(made), [0, 30, 30, 100, 100, 100]);
        // What is read first is no part of the list.
        let late = Pace::of(&recording, |access| access.at_ns > 0).unwrap();
        assert_eq!([late.made_by(0.1), late.made_by(1.0)], [0.0, 1.0]);
        assert_eq!(Pace::of(&recording, |_| false), None);
    }
}
