//! Reaching definitions, on demand.
//!
//! Which steps may have written what a step reads is asked only for what a slice needs, so it is answered by
//! walking the plain graph backwards from the reading step: a step that writes the location is an answer,
//! one that surely overwrites all of it also ends this way, and whoever comes to the entry asks the caller.
//! Nothing comes through a step that the program ends with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::effects::Effects;
use super::{ENTRY, Graph, Step};
use crate::ast::program::Func;
use crate::memory::{Loc, Memory};

/// Where a value may come from.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) steps: Vec<Step>,
    /// It may also be what it was when the function was entered.
    pub(crate) entry: bool,
}

/// The question of one program, with its answers so far.
pub(crate) struct Reach<'a> {
    graphs: &'a [Graph],
    effects: &'a Effects,
    memory: &'a Memory,
    /// For each function, the steps that the program ends with.
    ends: &'a [Vec<bool>],
    before: Vec<Vec<Vec<Step>>>,
    answers: RefCell<HashMap<(Func, Step, Loc), Rc<Sources>>>,
}

impl<'a> Reach<'a> {
    pub(crate) fn new(
        graphs: &'a [Graph],
        effects: &'a Effects,
        memory: &'a Memory,
        ends: &'a [Vec<bool>],
    ) -> Self {
        let before = graphs.iter().map(predecessors).collect();
        Self { graphs, effects, memory, ends, before, answers: RefCell::default() }
    }

    /// The steps that may have written `location` when `step` begins.
    pub(crate) fn sources(&self, func: Func, step: Step, location: Loc) -> Rc<Sources> {
        let key = (func, step, location);
        if let Some(known) = self.answers.borrow().get(&key) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.search(func, step, location));
        self.answers.borrow_mut().insert(key, Rc::clone(&found));
        found
    }

    fn search(&self, func: Func, step: Step, location: Loc) -> Sources {
        let before = &self.before[func.ix()];
        let mut seen = vec![false; self.graphs[func.ix()].nodes.len()];
        let mut open: Vec<Step> = before[step.ix()].clone();
        let mut found = Sources::default();
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at.ix()], true) || self.ends[func.ix()][at.ix()] {
                continue;
            }
            if at == ENTRY {
                found.entry = true;
                continue;
            }
            let (writes, overwrites) = self.writes(func, at, location);
            if writes {
                found.steps.push(at);
            }
            if !overwrites {
                open.extend(&before[at.ix()]);
            }
        }
        found.steps.sort_unstable();
        found
    }

    /// Does the step write to `location`, and does it surely overwrite all of it?
    fn writes(&self, func: Func, step: Step, location: Loc) -> (bool, bool) {
        let effect = self.effects.of(func, step);
        let mut writes = false;
        for (written, surely) in &effect.writes {
            if self.memory.overlap(*written, location) {
                writes = true;
                if *surely && self.memory.covers(*written, location) {
                    return (true, true);
                }
            }
        }
        if let Some(call) = &effect.call
            && !writes
        {
            let object = self.memory.object_of(location);
            writes = call.targets.iter().any(|target| {
                let changed = self.effects.changes(*target, object);
                changed.iter().any(|written| self.memory.overlap(*written, location))
            });
        }
        (writes, false)
    }
}

fn predecessors(graph: &Graph) -> Vec<Vec<Step>> {
    let mut before = vec![Vec::new(); graph.nodes.len()];
    for step in graph.steps() {
        for next in &graph[step].next {
            before[next.ix()].push(step);
        }
    }
    before
}
