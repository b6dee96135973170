//! Andersen's points-to analysis: flow-insensitive, field-sensitive, for the whole program.
//!
//! Each value that an expression computes has a *slot*, and so has each location: the set of locations
//! that it may point to. Statements become inclusions between slots (Andersen 1994), their *rules*. Slots that
//! are the same for certain are made one beforehand ([`same`]); the rest is solved by handing what is new in a
//! set to those that include it ([`solve`]), cycles of inclusions becoming one slot on the way.
//!
//! Reading a location gives what was stored to any location that overlaps with it; so storing to a whole
//! structure and reading a field needs no further rule.

mod same;
mod solve;
mod sorted;

use std::cell::Cell;

use super::{Field, Loc, Memory, Object};
use crate::ast::program::{Func, Program};
use crate::models::Model;

/// A set of locations that a value may point to, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

impl Slot {
    fn ix(self) -> usize {
        self.0 as usize
    }
}

/// An inclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// `to` ⊇ `from`.
    Copy { to: Slot, from: Slot },
    /// `to` ⊇ what is stored where `from` points.
    Load { to: Slot, from: Slot },
    /// What is stored where `to` points ⊇ `from`.
    Store { to: Slot, from: Slot },
    /// `to` ⊇ the field of where `from` points.
    Part { to: Slot, from: Slot, field: Field },
    /// `to` ⊇ the whole objects that `from` points into.
    Widen { to: Slot, from: Slot },
    /// The structure where `to` points is assigned the one where `from` points.
    Record { to: Slot, from: Slot },
    /// A call through a pointer; if the library may be entered, `heap` is the memory that it makes there.
    Call { callee: Slot, arguments: Vec<Slot>, result: Slot, heap: Option<Loc> },
}

/// The analysis: rules are added, then solved.
#[derive(Debug, Default)]
pub(crate) struct Points {
    sets: Vec<Vec<Loc>>,
    /// For each slot one that is the same; itself if it stands for others.
    stands: Vec<Cell<Slot>>,
    rules: Vec<Rule>,
    /// The slot of each location that anything is stored in.
    cells: Vec<Option<Slot>>,
}

impl Points {
    /// A slot that points nowhere yet.
    pub(crate) fn fresh(&mut self) -> Slot {
        let slot = Slot(self.sets.len() as u32);
        self.sets.push(Vec::new());
        self.stands.push(Cell::new(slot));
        slot
    }

    /// A slot that points to `location`.
    pub(crate) fn address(&mut self, location: Loc) -> Slot {
        let slot = self.fresh();
        self.sets[slot.ix()].push(location);
        slot
    }

    pub(crate) fn add(&mut self, slot: Slot, location: Loc) -> bool {
        let slot = self.one(slot);
        let set = &mut self.sets[slot.ix()];
        match set.binary_search(&location) {
            Ok(_) => false,
            Err(at) => {
                set.insert(at, location);
                true
            }
        }
    }

    /// What is stored at a location, as a slot to store into.
    pub(crate) fn content(&mut self, location: Loc) -> Slot {
        let number = location.0 as usize;
        if self.cells.len() <= number {
            self.cells.resize(number + 1, None);
        }
        match self.cells[number] {
            Some(slot) => slot,
            None => {
                let slot = self.fresh();
                self.cells[number] = Some(slot);
                slot
            }
        }
    }

    pub(crate) fn copy(&mut self, to: Slot, from: Slot) {
        self.rules.push(Rule::Copy { to, from });
    }

    pub(crate) fn load(&mut self, from: Slot) -> Slot {
        let to = self.fresh();
        self.rules.push(Rule::Load { to, from });
        to
    }

    pub(crate) fn store(&mut self, to: Slot, from: Slot) {
        self.rules.push(Rule::Store { to, from });
    }

    pub(crate) fn part(&mut self, from: Slot, field: Field) -> Slot {
        let to = self.fresh();
        self.rules.push(Rule::Part { to, from, field });
        to
    }

    pub(crate) fn widen(&mut self, from: Slot) -> Slot {
        let to = self.fresh();
        self.rules.push(Rule::Copy { to, from });
        self.rules.push(Rule::Widen { to, from });
        to
    }

    pub(crate) fn record(&mut self, to: Slot, from: Slot) {
        self.rules.push(Rule::Record { to, from });
    }

    pub(crate) fn call(&mut self, callee: Slot, arguments: Vec<Slot>, result: Slot, heap: Option<Loc>) {
        self.rules.push(Rule::Call { callee, arguments, result, heap });
    }

    /// Where pointers go through a library function; `heap` is the memory that it makes, if it makes any. What it calls
    /// back and what it does with open files is not among this.
    pub(crate) fn through_library(
        &mut self,
        model: &Model,
        arguments: &[Slot],
        result: Slot,
        heap: Option<Loc>,
    ) {
        if let Some(heap) = heap {
            if model.allocates {
                let made = self.address(heap);
                self.copy(result, made);
            }
            for argument in model.stores.iter().filter_map(|n| arguments.get(*n)) {
                let made = self.address(heap);
                self.store(*argument, made);
                if model.nested {
                    let content = self.content(heap);
                    self.copy(content, made);
                }
            }
        }
        if let Some(from) = model.returns.and_then(|n| arguments.get(n)) {
            self.copy(result, *from);
        }
        if let Some(from) = model.returns_target.and_then(|n| arguments.get(n)) {
            let target = self.load(*from);
            self.copy(result, target);
        }
        let pair = |(to, from): (usize, usize)| Some((*arguments.get(to)?, *arguments.get(from)?));
        if let Some((to, from)) = model.copies.and_then(pair) {
            self.record(to, from);
        }
        if let Some((to, from)) = model.points.and_then(pair) {
            self.store(to, from);
        }
    }

    /// Where a value may point, in ascending order.
    pub(crate) fn targets(&self, slot: Slot) -> &[Loc] {
        &self.sets[self.one(slot).ix()]
    }

    /// The slot that stands for all that are one with this one. Halves the way there for the next time (Tarjan and van
    /// Leeuwen 1984), so chains of unions stay short.
    fn one(&self, mut slot: Slot) -> Slot {
        loop {
            let next = self.stands[slot.ix()].get();
            let beyond = self.stands[next.ix()].get();
            if next == beyond {
                return next;
            }
            self.stands[slot.ix()].set(beyond);
            slot = beyond;
        }
    }

    /// Passes arguments to the parameters of a function, and its result back. A structure is passed like
    /// the address that its slot holds.
    pub(crate) fn connect(
        &mut self,
        func: Func,
        arguments: &[Slot],
        result: Slot,
        program: &Program,
        memory: &mut Memory,
    ) {
        let function = program.func(func);
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            let home = memory.whole(Object::Variable(*parameter));
            if program.tree[program.var(*parameter).node].ty.is_record() {
                let to = self.address(home);
                self.record(to, *argument);
            } else {
                let cell = self.content(home);
                self.copy(cell, *argument);
            }
        }
        if function.is_variadic {
            let rest = memory.whole(Object::Rest(func));
            let cell = self.content(rest);
            for argument in arguments.iter().skip(function.parameters.len()) {
                self.copy(cell, *argument);
            }
        }
        let home = memory.whole(Object::Result(func));
        let cell = self.content(home);
        self.copy(result, cell);
    }
}
