//! The slice: everything that a set of steps depends on, over all functions.
//!
//! Weiser's slice (1984), computed on demand. A step that is kept asks for the decisions that it depends
//! on, the steps that its value comes from, and the definitions that reach what it reads. Between
//! functions, demands travel as locations: what is needed *at the entry* of a function is asked of each
//! kept call of it (a parameter of the argument, everything else of what reaches the call); what a kept
//! call is needed *for* is asked at the exit of the function. A function has one slice, for all its calls.
//!
//! Each step remembers who asked for it first: that is the chain which a refusal and `--why` print.

use std::collections::BTreeSet;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use crate::ast::program::{Func, Scope};
use crate::flow::effects::Call;
use crate::flow::reach::Sources;
use crate::flow::{Callee, ENTRY, EXIT, Point, Step, What};
use crate::memory::{Loc, Object};
use crate::models::Io;

use super::known::Known;
use super::marks::Marks;

/// Why a step is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It is an access itself, or moves the offset of one.
    Access,
    /// It calls something that makes an access.
    CallsAccess,
    /// It ends the program, and telling when costs nothing.
    Ends,
    /// It changes who the program is or what it may do: there the slice ends.
    Confines,
    /// It gives back memory that the slice has.
    Frees,
    /// It makes, changes or removes a file that may be opened to be read later.
    Makes,
    /// It cannot be followed: there the slice ends, if the program comes to it.
    GivesUp,
    /// It decides whether another step is executed.
    Decides(Point),
    /// It computes part of another step's expression.
    PartOf(Point),
    /// It gives a value to what another step reads.
    Gives(Point, Loc),
}

impl Reason {
    pub(crate) fn asked_by(self) -> Option<Point> {
        match self {
            Self::Access
            | Self::CallsAccess
            | Self::Ends
            | Self::Confines
            | Self::Frees
            | Self::Makes
            | Self::GivesUp => None,
            Self::Decides(point) | Self::PartOf(point) | Self::Gives(point, _) => Some(point),
        }
    }
}

/// A slice, as far as it is known.
#[derive(Clone)]
pub(crate) struct Closure<'a> {
    known: Known<'a>,
    kept: Vec<Vec<bool>>,
    pub(crate) count: usize,
    /// Calls whose result is needed.
    pub(crate) valued: HashSet<Point>,
    /// Reads whose bytes are needed.
    pub(crate) data: HashSet<Point>,
    /// Accesses, also those that something else asked for first.
    pub(crate) accesses: HashSet<Point>,
    /// Calls that the slice is told of for the files that they make.
    pub(crate) makers: HashSet<Point>,
    /// Functions that the slice has a version of.
    pub(crate) live: Vec<bool>,
    at_entry: Vec<BTreeSet<Loc>>,
    at_exit: Vec<BTreeSet<Loc>>,
    kept_calls: Vec<Vec<Point>>,
    /// Steps without calls that are kept because they write something: whatever else they are asked for is the same.
    settled: Vec<Vec<bool>>,
    /// Steps that are kept because they write these locations.
    defined: Marks,
    why: HashMap<Point, Reason>,
    open: Vec<(Point, Reason)>,
}

impl<'a> Closure<'a> {
    pub(crate) fn new(known: Known<'a>) -> Self {
        let functions = known.graphs.len();
        Self {
            known,
            kept: known.graphs.iter().map(|g| vec![false; g.nodes.len()]).collect(),
            count: 0,
            valued: HashSet::new(),
            data: HashSet::new(),
            accesses: HashSet::new(),
            makers: HashSet::new(),
            live: vec![false; functions],
            at_entry: vec![BTreeSet::new(); functions],
            at_exit: vec![BTreeSet::new(); functions],
            kept_calls: vec![Vec::new(); functions],
            settled: known.graphs.iter().map(|g| vec![false; g.nodes.len()]).collect(),
            defined: Marks::new(),
            why: HashMap::new(),
            open: Vec::new(),
        }
    }

    pub(crate) fn keeps(&self, point: Point) -> bool {
        self.kept[point.0.ix()][point.1.ix()]
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        let mut found = Vec::new();
        for (func, steps) in self.kept.iter().enumerate() {
            let kept = steps.iter().enumerate().filter(|(_, kept)| **kept);
            found.extend(kept.map(|(n, _)| (Func(func as u32), Step(n as u32))));
        }
        found
    }

    /// How many kept calls ask the outside for something that only the program can be told.
    pub(crate) fn outside(&self) -> usize {
        self.points().into_iter().filter(|point| self.known.is_forwarded(*point)).count()
    }

    /// The calls of a function that the slice makes.
    pub(crate) fn callers(&self, func: Func) -> &[Point] {
        &self.kept_calls[func.ix()]
    }

    pub(crate) fn reason(&self, point: Point) -> Option<Reason> {
        self.why.get(&point).copied()
    }

    /// From a step to the access that it is kept for.
    pub(crate) fn chain(&self, point: Point) -> Vec<(Point, Reason)> {
        let mut chain = Vec::new();
        let mut at = Some(point);
        while let Some(point) = at {
            let Some(reason) = self.reason(point) else { break };
            chain.push((point, reason));
            at = reason.asked_by();
        }
        chain
    }

    /// Is the value of a parameter needed in the slice?
    pub(crate) fn needs_parameter(&self, func: Func, number: usize) -> bool {
        if self.known.through_pointers[func.ix()] || func == self.known.program.main {
            return true;
        }
        let parameters = &self.known.program.func(func).parameters;
        if self.needs_rest(func) && number + 1 == parameters.len() {
            return true; // va_start names it
        }
        let Some(var) = parameters.get(number) else { return false };
        let variable = Object::Variable(*var);
        self.at_entry[func.ix()].iter().any(|l| *self.known.memory.what(*l) == variable)
    }

    /// Are the further arguments of a function needed in the slice?
    pub(crate) fn needs_rest(&self, func: Func) -> bool {
        let rest = Object::Rest(func);
        self.at_entry[func.ix()].iter().any(|l| *self.known.memory.what(*l) == rest)
    }

    /// Does the function return anything in the slice? One that is called through pointers keeps its type,
    /// also if nobody needs the value.
    pub(crate) fn has_result(&self, func: Func) -> bool {
        self.known.through_pointers[func.ix()] || self.needs_result(func)
    }

    /// Is what the function returns needed in the slice?
    pub(crate) fn needs_result(&self, func: Func) -> bool {
        let result = Object::Result(func);
        self.at_exit[func.ix()].iter().any(|l| *self.known.memory.what(*l) == result)
    }

    /// Keeps a step and all that it depends on.
    pub(crate) fn keep(&mut self, point: Point, reason: Reason) {
        self.ask(point, reason);
        while let Some((point, reason)) = self.open.pop() {
            self.visit(point, reason);
        }
    }

    /// Notes that a step is wanted, and by whom first: who asks has been asked for before, so that chains end.
    fn ask(&mut self, point: Point, reason: Reason) {
        self.why.entry(point).or_insert(reason);
        self.open.push((point, reason));
    }

    fn visit(&mut self, point: Point, reason: Reason) {
        let new = !self.keeps(point);
        if new {
            self.kept[point.0.ix()][point.1.ix()] = true;
            self.count += 1;
            self.live[point.0.ix()] = true;
            self.new_step(point);
        }
        match reason {
            Reason::PartOf(_) => self.need_value(point),
            Reason::Access => _ = self.accesses.insert(point),
            Reason::Makes => self.names_file(point),
            _ => {}
        }
    }

    fn new_step(&mut self, point: Point) {
        let (func, step) = point;
        let known = self.known;
        let node = &known.graphs[func.ix()][step];
        for parent in known.control[func.ix()].parents(step) {
            if *parent != ENTRY {
                self.ask((func, *parent), Reason::Decides(point));
            }
        }
        if known.ends(point) {
            return;
        }
        // The program makes the call and tells what it gave.
        if known.asked.contains(&point) {
            return;
        }
        // Where a function returns may matter to what stands behind; what it returns only to who asks for it.
        if node.what != What::Return {
            self.operands(point);
        }
        if let Some(call) = known.call(point) {
            self.new_call(point, call);
        }
    }

    /// The names of the files that a call makes are needed.
    fn names_file(&mut self, point: Point) {
        if !self.makers.insert(point) {
            return;
        }
        let Some(call) = self.known.call(point) else { return };
        let models = self.known.models_of(call).into_iter();
        models.flat_map(|model| &model.makes).for_each(|number| self.argument(point, *number));
    }

    /// What a step computes with.
    fn operands(&mut self, point: Point) {
        let known = self.known;
        for need in &known.graphs[point.0.ix()][point.1].needs {
            self.ask((point.0, *need), Reason::PartOf(point));
        }
        for location in &known.effects.of(point.0, point.1).reads {
            self.read(point, *location);
        }
    }

    fn new_call(&mut self, point: Point, call: &'a Call) {
        let known = self.known;
        for target in &call.targets {
            self.live[target.ix()] = true;
            if !self.kept_calls[target.ix()].contains(&point) {
                self.kept_calls[target.ix()].push(point);
            }
            for location in self.at_entry[target.ix()].clone() {
                self.ask_caller(point, *target, location);
            }
            // Who is called back answers with its result.
            if call.callback.as_ref().is_some_and(|(called, _)| called.contains(target)) {
                self.ask_result(*target, point);
            }
        }
        for number in 0..call.argument_reads.len() {
            if self.uses_argument(point, call, number) {
                self.argument(point, number);
            }
        }
        if let Some((io, _)) = known.io(point) {
            // What is read line by line or by a format must be read to know where it ends.
            if io.act() == crate::models::Act::Reads && !io.can_predict() {
                self.need_data(point);
            }
        }
    }

    /// Does the call, as the slice makes it, use an argument in any case?
    fn uses_argument(&self, point: Point, call: &Call, number: usize) -> bool {
        let known = self.known;
        let node = &known.graphs[point.0.ix()][point.1];
        let through_pointer = node.call.as_ref().is_some_and(|c| matches!(c.callee, Callee::Pointer(_)));
        if through_pointer || call.targets.iter().any(|t| known.through_pointers[t.ix()]) {
            return true;
        }
        call.externals.iter().any(|name| match known.models.get(name) {
            None => true,
            Some(model) if model.io.is_none() && known.is_told(point, model) => {
                model.writes.contains(&number)
            }
            Some(model) => match model.io {
                None => !model.output || model.assumes_argument(number),
                Some(_) if known.is_output(point) => model.assumes_argument(number),
                Some(io) => match io {
                    Io::Open => number < 2,
                    Io::Openat => number < 3,
                    Io::Creat => number < 1,
                    Io::Print => number == model.argument,
                    _ => io.buffer() != Some(number),
                },
            },
        })
    }

    fn argument(&mut self, point: Point, number: usize) {
        let known = self.known;
        let node = &known.graphs[point.0.ix()][point.1];
        let Some(value) = node.call.as_ref().and_then(|c| c.arguments.get(number)) else { return };
        for need in &value.needs {
            self.ask((point.0, *need), Reason::PartOf(point));
        }
        if let Some(call) = known.call(point) {
            for location in &call.argument_reads[number] {
                self.read(point, *location);
            }
        }
    }

    fn need_value(&mut self, point: Point) {
        if !self.valued.insert(point) || self.known.ends(point) {
            return;
        }
        let Some(call) = self.known.call(point) else { return };
        for target in &call.targets {
            if !call.thread && call.callback.as_ref().is_none_or(|(called, _)| !called.contains(target)) {
                self.ask_result(*target, point);
            }
        }
    }

    fn ask_result(&mut self, func: Func, point: Point) {
        if let Some(object) = self.known.memory.find_object(&Object::Result(func)) {
            for location in self.known.memory.of_object(object) {
                self.ask_exit(func, *location, point);
            }
        }
    }

    /// The bytes that a read stores are needed.
    fn need_data(&mut self, point: Point) {
        if !self.data.insert(point) {
            return;
        }
        if let Some((io, _)) = self.known.io(point)
            && let Some(buffer) = io.buffer()
        {
            self.argument(point, buffer);
        }
    }

    /// A kept step reads a location.
    fn read(&mut self, point: Point, location: Loc) {
        let sources = self.known.reach.sources(point.0, point.1, location);
        self.take(point.0, &sources, location, point);
        if sources.entry && self.outlives(point.0, location) && self.at_entry[point.0.ix()].insert(location) {
            for call in self.kept_calls[point.0.ix()].clone() {
                self.ask_caller(call, point.0, location);
            }
        }
    }

    /// Can a location have a value when the function is entered?
    fn outlives(&self, func: Func, location: Loc) -> bool {
        match self.known.memory.what(location) {
            Object::Variable(var) => match self.known.program.var(*var).scope {
                Scope::Local(home) => home != func || self.known.effects.recursive[func.ix()],
                _ => true,
            },
            _ => true,
        }
    }

    fn take(&mut self, func: Func, sources: &Rc<Sources>, location: Loc, asked_by: Point) {
        let count = self.known.graphs[func.ix()].nodes.len();
        for step in self.defined.add(func, location, &sources.steps, count) {
            self.define((func, step), location, asked_by);
        }
    }

    /// A step is kept because it writes a location, which it was not asked for before.
    fn define(&mut self, point: Point, location: Loc, asked_by: Point) {
        if self.settled[point.0.ix()][point.1.ix()] {
            return;
        }
        self.ask(point, Reason::Gives(asked_by, location));
        let known = self.known;
        self.settled[point.0.ix()][point.1.ix()] = known.call(point).is_none();
        let returns = known.graphs[point.0.ix()][point.1].what == What::Return;
        if returns && !known.ends(point) && self.valued.insert(point) {
            self.operands(point);
        }
        let Some(call) = known.call(point) else { return };
        let object = known.memory.object_of(location);
        for target in &call.targets {
            let changed = known.effects.changes(*target, object);
            if changed.iter().any(|l| known.memory.overlap(*l, location)) {
                self.ask_exit(*target, location, point);
            }
        }
        if !call.externals.is_empty() {
            self.need_data(point);
        }
    }

    /// A location is needed when a function returns.
    fn ask_exit(&mut self, func: Func, location: Loc, asked_by: Point) {
        if self.at_exit[func.ix()].insert(location) {
            let sources = self.known.reach.sources(func, EXIT, location);
            self.take(func, &sources, location, asked_by);
        }
    }

    /// A location is needed when `func` is entered by this call.
    fn ask_caller(&mut self, point: Point, func: Func, location: Loc) {
        let known = self.known;
        if *known.memory.what(location) == Object::Rest(func) {
            let arguments = known.call(point).map_or(0, |call| call.argument_reads.len());
            // With the last of the others, which the list begins behind.
            let first = known.program.func(func).parameters.len().saturating_sub(1);
            (first..arguments).for_each(|number| self.argument(point, number));
            return;
        }
        if let Object::Variable(var) = known.memory.what(location)
            && let Scope::Parameter(home, number) = known.program.var(*var).scope
            && home == func
        {
            let call = known.call(point);
            let passed = match call.and_then(|c| c.callback.as_ref()) {
                Some((called, with)) if called.contains(&func) => with.get(number).copied(),
                _ => Some(number),
            };
            if let Some(number) = passed {
                self.argument(point, number);
            }
            if point.0 != func || !known.effects.recursive[func.ix()] {
                return;
            }
        }
        self.read(point, location);
    }
}
