//! Steps: places that lie equally far from each other.
//!
//! A program that steps by so many bytes comes to pages whose distances differ by one, as each place is rounded down to the
//! beginning of its page: steps of 100,000 bytes are 24, 24, 25, 24 pages. From the first place to the one after `n` steps it
//! is `n` times the step to within a page, so each place says between which bounds the step lies, and the bounds draw
//! together. As long as all distances are the same, the step is taken to be just that.

use std::ops::Range;

/// Pages of a step that may be no whole number of pages. Shorter ones would fit whatever is read near by.
const ROUNDED_PAGES: i64 = 8;

/// Places that lie equally far from each other.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    first: i64,
    /// Steps that were made, two at least.
    made: u32,
    /// The step is longer than this, pages,
    least: f64,
    /// and shorter than this.
    most: f64,
    /// The step, as long as all were equal.
    equal: Option<i64>,
}

impl Steps {
    /// The steps between three places, if they may be equal.
    pub(crate) fn through(places: [u32; 3]) -> Option<Steps> {
        let [first, second, third] = places.map(i64::from);
        let step = second - first;
        if step == 0 {
            return None;
        }
        let mut steps = Steps { first, made: 0, least: f64::MIN, most: f64::MAX, equal: Some(step) };
        [second, third].into_iter().all(|place| steps.go_on(place)).then_some(steps)
    }

    /// Steps that were made.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// Makes one more step, to this page. Returns whether it can be one; if not, nothing changes.
    pub(crate) fn step_to(&mut self, page: u32) -> bool {
        self.go_on(i64::from(page))
    }

    fn go_on(&mut self, place: i64) -> bool {
        let made = self.made.saturating_add(1);
        let distance = place - self.first;
        let is_equal = self.equal.is_some_and(|step| distance == step * i64::from(made));
        let bounds = |distance: i64| distance as f64 / f64::from(made);
        let (least, most) = (self.least.max(bounds(distance - 1)), self.most.min(bounds(distance + 1)));
        let is_long = distance.abs() >= ROUNDED_PAGES * i64::from(made);
        if !is_equal && (least >= most || !is_long) {
            return false;
        }
        if !is_equal {
            self.equal = None;
        }
        (self.made, self.least, self.most) = (made, least, most);
        true
    }

    /// The pages at one of which the step begins that comes so many steps from now.
    pub(crate) fn coming(&self, ahead: u32) -> Range<i64> {
        let number = i64::from(self.made) + i64::from(ahead);
        if let Some(step) = self.equal {
            let place = self.first + step * number;
            return place..place + 1;
        }
        let place = |step: f64| step * number as f64;
        self.first + place(self.least).floor() as i64..self.first + place(self.most).ceil() as i64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{prop_assert, proptest};

    #[test]
    fn equal_steps_are_known_to_the_page() {
        let mut steps = Steps::through([7, 10, 13]).unwrap();
        assert!(!steps.step_to(17), "short ones are all equal");
        assert!(steps.step_to(16));
        assert_eq!((steps.made(), steps.coming(1), steps.coming(4)), (3, 19..20, 28..29));
        let back = Steps::through([90, 60, 30]).unwrap();
        assert_eq!((back.coming(1), back.coming(2)), (0..1, -30..-29));
        assert!(Steps::through([5, 5, 5]).is_none());
        assert!(Steps::through([0, 100, 203]).is_none());
    }

    proptest! {
        /// Steps of any number of bytes: each place lies where it was foreseen, and that in few pages. If all steps up to now
        /// were equal it may lie beside.
        #[test]
        fn steps_of_bytes_are_foreseen(from in 0_i64..1 << 40, step in 9.0_f64 * 4096.0..1e7, back: bool) {
            let (step, from) = (step as i64 * if back { -1 } else { 1 }, from + (1 << 31));
            let page = |n: i64| u32::try_from((from + n * step) / 4096).unwrap();
            let mut steps = Steps::through([page(0), page(1), page(2)]).unwrap();
            for n in 3..40 {
                prop_assert!(steps.step_to(page(n)));
                for ahead in 1..=n {
                    let coming = steps.coming(ahead as u32);
                    let beside = if steps.equal.is_some() { 2 } else { 0 };
                    let place = i64::from(page(n + ahead));
                    prop_assert!((coming.start - beside..coming.end + beside).contains(&place), "{:?} {}", coming, place);
                    prop_assert!(coming.end - coming.start <= 6, "{:?}", coming);
                }
            }
        }
    }
}
