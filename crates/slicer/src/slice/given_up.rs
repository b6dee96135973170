//! The steps that the slice cannot follow and ends at, with the cause of each.

use std::collections::BTreeMap;

use crate::flow::Point;

/// The steps that a slice gives up at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenUp {
    steps: BTreeMap<Point, Cause>,
}

/// Why there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) text: String,
    /// Does the slice end whenever the program comes there, and not only if it needs the step?
    pub(crate) always: bool,
}

impl GivenUp {
    pub(crate) fn contains(&self, point: Point) -> bool {
        self.steps.contains_key(&point)
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = Point> {
        self.steps.keys().copied()
    }

    /// Those at which it ends whether it needs them or not.
    pub(crate) fn always(&self) -> impl Iterator<Item = Point> {
        self.steps.iter().filter(|(_, cause)| cause.always).map(|(point, _)| *point)
    }

    /// Steps and causes, in the order of the program.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Point, &str)> {
        self.steps.iter().map(|(point, cause)| (*point, cause.text.as_str()))
    }

    /// Takes in more of them.
    pub(crate) fn extend(&mut self, steps: Vec<(Point, Cause)>) {
        self.steps.extend(steps);
    }
}
