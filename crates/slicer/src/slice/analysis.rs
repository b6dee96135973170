//! The parts that a slice is made from.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::{Func, Program};
use crate::flow::control::Control;
use crate::flow::effects::Effects;
use crate::flow::reach::{Kept, Reach};
use crate::flow::{Callee, Graph, Point};
use crate::memory::Memory;
use crate::memory::points::{Points, Slot};
use crate::models::Models;

use super::given_up::GivenUp;
use super::known::Known;

/// The parts that the slice is made from, for those who own them.
pub(crate) struct Analysis<'a> {
    pub(crate) program: &'a Program,
    pub(crate) models: &'a Models,
    pub(crate) memory: Memory,
    pub(crate) points: Points,
    pub(crate) marks: Vec<Slot>,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) effects: Effects,
    pub(crate) control: Vec<Control>,
    pub(crate) through_pointers: Vec<bool>,
    pub(crate) one_way: BTreeSet<Id>,
    pub(crate) ends: Vec<Vec<bool>>,
    pub(crate) asked: BTreeSet<Point>,
    /// Where values come from, as far as it was asked for.
    pub(crate) kept: Kept,
}

impl Analysis<'_> {
    /// What is known of the program if the slice also ends at these steps.
    pub(super) fn ending<R>(&self, given_up: &GivenUp, then: impl FnOnce(Known<'_>) -> R) -> R {
        let mut ends = self.ends.clone();
        for (func, step) in given_up.points() {
            ends[func.ix()][step.ix()] = true;
        }
        let reach = Reach::new(&self.effects, &self.memory, &self.kept, &ends);
        then(Known {
            program: self.program,
            models: self.models,
            memory: &self.memory,
            graphs: &self.graphs,
            effects: &self.effects,
            control: &self.control,
            reach: &reach,
            through_pointers: &self.through_pointers,
            one_way: &self.one_way,
            ends: &ends,
            given_up,
            asked: &self.asked,
        })
    }
}

/// Functions that are called through pointers, or by the library.
pub(crate) fn through_pointers(graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut found = vec![false; graphs.len()];
    for (number, graph) in graphs.iter().enumerate() {
        let func = Func(number as u32);
        for (step, call) in effects.calls(func) {
            let direct = graph[step].call.as_ref().is_some_and(|c| matches!(c.callee, Callee::Function(_)));
            if !direct {
                for target in &call.targets {
                    found[target.ix()] = true;
                }
            }
        }
    }
    found
}
