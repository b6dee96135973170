//! What is known of a program when it is sliced, and where the slice ends.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::{Func, Program};
use crate::flow::control::Control;
use crate::flow::effects::{Call, Effects};
use crate::flow::reach::Reach;
use crate::flow::{Graph, Point};
use crate::memory::{Memory, Object};
use crate::models::{Act, Io, Model, Models};

use super::given_up::GivenUp;

/// What the analysis knows.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) program: &'a Program,
    pub(crate) models: &'a Models,
    pub(crate) memory: &'a Memory,
    pub(crate) graphs: &'a [Graph],
    pub(crate) effects: &'a Effects,
    pub(crate) control: &'a [Control],
    pub(crate) reach: &'a Reach<'a>,
    /// Functions that are called through pointers keep all their parameters.
    pub(crate) through_pointers: &'a [bool],
    /// Open calls for reading only, or for writing only.
    pub(crate) one_way: &'a BTreeSet<Id>,
    /// For each function, the steps that the slice ends with.
    pub(crate) ends: &'a [Vec<bool>],
    /// Of these the ones that it cannot follow.
    pub(crate) given_up: &'a GivenUp,
    /// Calls of unknown functions whose result the program can be asked for.
    pub(crate) asked: &'a BTreeSet<Point>,
}

impl<'a> Known<'a> {
    pub(crate) fn call(&self, point: Point) -> Option<&'a Call> {
        self.effects.of(point.0, point.1).call.as_ref()
    }

    /// The models of the library functions that a call may enter.
    pub(crate) fn models_of(&self, call: &Call) -> Vec<&'a Model> {
        call.externals.iter().filter_map(|name| self.models.get(name)).collect()
    }

    /// The kind of a call on an open file.
    pub(crate) fn io(&self, point: Point) -> Option<(Io, &'a Model)> {
        let call = self.call(point)?;
        self.models_of(call).into_iter().find_map(|m| m.io.map(|io| (io, m)))
    }

    /// Does the slice end with this step, with the program or by itself?
    pub(crate) fn ends(&self, point: Point) -> bool {
        self.ends[point.0.ix()][point.1.ix()]
    }

    /// Does the slice end with this step because it cannot follow it?
    pub(crate) fn gives_up(&self, point: Point) -> bool {
        self.given_up.contains(point)
    }

    /// May the call change who the program is or what it may do?
    pub(crate) fn confines(&self, point: Point) -> bool {
        self.call(point).is_some_and(|call| self.models_of(call).iter().any(|m| m.confines))
    }

    /// The step of a call.
    pub(crate) fn point_of(&self, call: Id) -> Option<Point> {
        let found = |(number, graph): (usize, &Graph)| {
            graph.step_of.get(&call).map(|step| (Func(number as u32), *step))
        };
        self.graphs.iter().enumerate().find_map(found)
    }

    /// Does the call write to a file that nobody reads, as far as it can write? The slice takes its success for granted.
    pub(crate) fn is_output(&self, point: Point) -> bool {
        self.io(point).is_some_and(|(io, _)| io.writes_file())
            && self.files(point).into_iter().all(|file| self.is_one_way(file))
    }

    /// Is it a file that is read or written, and not both? What is written to standard input is not: the program hands
    /// over what it reads there.
    pub(crate) fn is_one_way(&self, file: &Object) -> bool {
        match file {
            Object::Open(call) => self.one_way.contains(call),
            other => matches!(other, Object::Output | Object::Stdin),
        }
    }

    /// What the open file of a call may be.
    pub(crate) fn files(&self, point: Point) -> Vec<&'a Object> {
        let Some((io, model)) = self.io(point) else { return Vec::new() };
        let Some(call) = self.call(point) else { return Vec::new() };
        let targets = io.file(model).and_then(|n| call.argument_targets.get(n));
        targets.into_iter().flatten().map(|l| self.memory.what(*l)).collect()
    }

    /// Does the program tell the slice what this function does here?
    pub(crate) fn is_told(&self, point: Point, model: &Model) -> bool {
        let tree = &self.program.tree;
        let request = || tree.constant(*tree.arguments(self.graphs[point.0.ix()][point.1].ast).get(1)?);
        model.forward || !model.requests.is_empty() && request().is_some_and(|r| model.requests.contains(&r))
    }

    /// Must the program hand the result of this call to the slice?
    pub(crate) fn is_forwarded(&self, point: Point) -> bool {
        let Some(call) = self.call(point) else { return false };
        if self.models_of(call).iter().any(|m| self.is_told(point, m))
            || self.asked.contains(&point) && !self.ends(point)
        {
            return true;
        }
        let Some((io, _)) = self.io(point) else { return false };
        io.act() == Act::Reads && !self.files(point).iter().any(|f| matches!(f, Object::Open(_)))
    }
}
