//! Reaching definitions, on demand.
//!
//! Which steps may have written what a step reads is asked only for what a slice needs, so it is answered by
//! walking the plain graph backwards from the reading step: a step that writes the location is an answer,
//! one that surely overwrites all of it also ends this way, and whoever comes to the entry asks the caller.
//! Nothing comes through a step that the program ends with.

use std::cell::RefCell;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt as _};

use super::effects::Effects;
use super::{ENTRY, Graph, Step};
use crate::ast::program::Func;
use crate::memory::{Loc, Memory, Obj};

/// Where a value may come from.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) steps: Vec<Step>,
    /// It may also be what it was when the function was entered.
    pub(crate) entry: bool,
}

/// The answers of one function, as long as the program ends with the same steps of it.
#[derive(Debug, Default)]
struct Answers {
    ends: Vec<bool>,
    found: HashMap<(Step, Loc), Rc<Sources>>,
}

/// What can be kept from one question to the next.
#[derive(Debug)]
pub(crate) struct Kept {
    before: Vec<Vec<Vec<Step>>>,
    /// For each function and object, the steps that may write to it.
    writers: Vec<HashMap<Obj, Vec<Step>>>,
    answers: RefCell<Vec<Answers>>,
}

impl Kept {
    pub(crate) fn new(graphs: &[Graph], effects: &Effects, memory: &Memory) -> Self {
        let functions = (0..graphs.len() as u32).map(Func);
        Self {
            before: graphs.iter().map(predecessors).collect(),
            writers: functions.map(|func| writers(func, &graphs[func.ix()], effects, memory)).collect(),
            answers: RefCell::new(graphs.iter().map(|_| Answers::default()).collect()),
        }
    }
}

/// The question of one program, with its answers so far.
pub(crate) struct Reach<'a> {
    effects: &'a Effects,
    memory: &'a Memory,
    kept: &'a Kept,
    /// For each function, the steps that the program ends with.
    ends: &'a [Vec<bool>],
}

impl<'a> Reach<'a> {
    pub(crate) fn new(
        effects: &'a Effects,
        memory: &'a Memory,
        kept: &'a Kept,
        ends: &'a [Vec<bool>],
    ) -> Self {
        for (answers, ends) in kept.answers.borrow_mut().iter_mut().zip(ends) {
            if answers.ends != *ends {
                *answers = Answers { ends: ends.clone(), found: HashMap::new() };
            }
        }
        Self { effects, memory, kept, ends }
    }

    /// The steps that may have written `location` when `step` begins.
    pub(crate) fn sources(&self, func: Func, step: Step, location: Loc) -> Rc<Sources> {
        let key = (step, location);
        if let Some(known) = self.kept.answers.borrow()[func.ix()].found.get(&key) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.search(func, step, location));
        self.kept.answers.borrow_mut()[func.ix()].found.insert(key, Rc::clone(&found));
        found
    }

    fn search(&self, func: Func, step: Step, location: Loc) -> Sources {
        let before = &self.kept.before[func.ix()];
        let writers = self.kept.writers[func.ix()].get(&self.memory.object_of(location));
        let writers = writers.map_or(&[][..], Vec::as_slice);
        let mut seen = vec![false; before.len()];
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
            let (writes, overwrites) = match writers.binary_search(&at) {
                Ok(_) => self.writes(func, at, location),
                Err(_) => (false, false),
            };
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

/// By object, the steps of a function that may write to it, in ascending order.
fn writers(func: Func, graph: &Graph, effects: &Effects, memory: &Memory) -> HashMap<Obj, Vec<Step>> {
    let mut writers: HashMap<Obj, Vec<Step>> = HashMap::new();
    for step in graph.steps() {
        let effect = effects.of(func, step);
        let written = effect.writes.iter().map(|(location, _)| memory.object_of(*location));
        let targets = effect.call.iter().flat_map(|call| &call.targets);
        for object in written.chain(targets.flat_map(|target| effects.changed(*target))) {
            let steps = writers.entry(object).or_default();
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
    }
    writers
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
