//! Andersen's points-to analysis: flow-insensitive, field-sensitive, for the whole program.
//!
//! Each value that an expression computes has a *slot*, and so has each location: the set of locations
//! that it may point to. Statements become inclusions between slots (Andersen 1994), which are solved by
//! going over them until nothing changes. Calls through pointers are connected as their targets appear.
//!
//! Reading a location gives what was stored to any location that overlaps with it; so storing to a whole
//! structure and reading a field needs no further rule.

use std::collections::HashSet;

use super::{Field, Loc, Memory, Object};
use crate::Error;
use crate::ast::program::{Func, Program};

/// A set of locations that a value may point to, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

/// An inclusion.
#[derive(Debug, Clone)]
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
    /// A call through a pointer.
    Call { callee: Slot, arguments: Vec<Slot>, result: Slot },
}

/// How often the rules are gone over at most. Each round carries facts through at least one more rule;
/// programs of 10,000 lines settle within twenty.
const MOST_ROUNDS: usize = 200;

/// Most elements that are looked up on the way. This is reached after about five seconds (20 to 50 ns for
/// one), and a build should not wait longer.
const MOST_WORK: u64 = 100_000_000;

/// The analysis: rules are added, then solved.
#[derive(Debug, Default)]
pub(crate) struct Points {
    sets: Vec<Vec<Loc>>,
    rules: Vec<Rule>,
    /// The slot of each location.
    cells: Vec<Slot>,
    linked: HashSet<(usize, Func)>,
    /// How many elements were asked for in another set.
    work: u64,
    /// For each rule, the size of what it was applied to last.
    applied: Vec<usize>,
}

impl Points {
    /// A slot that points nowhere yet.
    pub(crate) fn fresh(&mut self) -> Slot {
        let slot = Slot(self.sets.len() as u32);
        self.sets.push(Vec::new());
        slot
    }

    /// A slot that points to `location`.
    pub(crate) fn address(&mut self, location: Loc) -> Slot {
        let slot = self.fresh();
        self.sets[slot.0 as usize].push(location);
        slot
    }

    pub(crate) fn add(&mut self, slot: Slot, location: Loc) -> bool {
        let set = &mut self.sets[slot.0 as usize];
        match set.binary_search(&location) {
            Ok(_) => false,
            Err(at) => {
                set.insert(at, location);
                true
            }
        }
    }

    fn cell(&mut self, location: Loc) -> Slot {
        while self.cells.len() <= location.0 as usize {
            let slot = self.fresh();
            self.cells.push(slot);
        }
        self.cells[location.0 as usize]
    }

    /// What is stored at a location, as a slot to store into.
    pub(crate) fn content(&mut self, location: Loc) -> Slot {
        self.cell(location)
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

    pub(crate) fn call(&mut self, callee: Slot, arguments: Vec<Slot>, result: Slot) {
        self.rules.push(Rule::Call { callee, arguments, result });
    }

    /// Where a value may point, in ascending order.
    pub(crate) fn targets(&self, slot: Slot) -> &[Loc] {
        &self.sets[slot.0 as usize]
    }

    fn include(&mut self, to: Slot, from: Slot) -> bool {
        self.work += self.sets[from.0 as usize].len() as u64;
        if to == from {
            return false;
        }
        let known = &self.sets[to.0 as usize];
        let is_new = |l: &&Loc| known.binary_search(l).is_err();
        let missing: Vec<Loc> = self.sets[from.0 as usize].iter().filter(is_new).copied().collect();
        if missing.is_empty() {
            return false;
        }
        let set = &mut self.sets[to.0 as usize];
        set.extend(missing);
        set.sort_unstable();
        true
    }

    /// Goes over the rules until nothing changes.
    ///
    /// # Errors
    /// When that takes more than [`MOST_WORK`].
    pub(crate) fn solve(&mut self, program: &Program, memory: &mut Memory) -> Result<(), Error> {
        for _ in 0..MOST_ROUNDS {
            let mut changed = false;
            let mut number = 0;
            // Rules that are added on the way are reached in the same round.
            while number < self.rules.len() {
                // Sets only grow, so what has the same size is the same.
                let size = self.size(number, memory);
                if self.applied.len() <= number {
                    self.applied.resize(number + 1, 0);
                }
                if size != self.applied[number] {
                    self.applied[number] = size;
                    let rule = self.rules[number].clone();
                    changed |= self.apply(number, rule, program, memory);
                }
                if self.work > MOST_WORK {
                    let what = "work on what its pointers may point to".to_owned();
                    return Err(Error::TooLarge { what, limit: MOST_WORK as usize });
                }
                number += 1;
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// How much there is for a rule to work on.
    fn size(&self, rule: usize, memory: &Memory) -> usize {
        let of = |slot: &Slot| self.sets[slot.0 as usize].len();
        match &self.rules[rule] {
            Rule::Copy { from, .. } | Rule::Part { from, .. } | Rule::Widen { from, .. } => of(from),
            Rule::Store { to, from } => {
                if of(from) == 0 {
                    0
                } else {
                    of(from) + of(to)
                }
            }
            Rule::Call { callee, .. } => of(callee),
            Rule::Load { from, .. } => of(from) + self.stored(*from, memory),
            Rule::Record { to, from } => match self.stored(*from, memory) {
                0 => 0,
                stored => of(from) + of(to) + stored,
            },
        }
    }

    /// How much is stored where a slot points.
    fn stored(&self, slot: Slot, memory: &Memory) -> usize {
        let mut total = 0;
        for target in &self.sets[slot.0 as usize] {
            for part in memory.of_object(memory.object_of(*target)) {
                let content =
                    self.cells.get(part.0 as usize).map_or(0, |cell| self.sets[cell.0 as usize].len());
                if content > 0 && memory.overlap(*part, *target) {
                    total += content;
                }
            }
        }
        total
    }

    fn apply(&mut self, number: usize, rule: Rule, program: &Program, memory: &mut Memory) -> bool {
        let mut changed = false;
        match rule {
            Rule::Copy { to, from } => changed = self.include(to, from),
            Rule::Load { to, from } => {
                for target in self.sets[from.0 as usize].clone() {
                    let object = memory.object_of(target);
                    for part in memory.of_object(object).to_vec() {
                        let known = self.cells.get(part.0 as usize).copied();
                        if let Some(cell) = known.filter(|_| memory.overlap(part, target)) {
                            changed |= self.include(to, cell);
                        }
                    }
                }
            }
            Rule::Store { to, from } => {
                if !self.sets[from.0 as usize].is_empty() {
                    for target in self.sets[to.0 as usize].clone() {
                        let cell = self.cell(target);
                        changed |= self.include(cell, from);
                    }
                }
            }
            Rule::Part { to, from, field } => {
                for target in self.sets[from.0 as usize].clone() {
                    let part = memory.extend(target, &[field]);
                    changed |= self.add(to, part);
                }
            }
            Rule::Widen { to, from } => {
                for target in self.sets[from.0 as usize].clone() {
                    let whole = memory.widen(target);
                    changed |= self.add(to, whole);
                }
            }
            Rule::Record { to, from } => changed = self.assign_record(to, from, memory),
            Rule::Call { callee, arguments, result } => {
                for target in self.sets[callee.0 as usize].clone() {
                    if let Object::Function(func) = *memory.what(target)
                        && self.linked.insert((number, func))
                    {
                        self.connect(func, &arguments, result, program, memory);
                        changed = true;
                    }
                }
            }
        }
        changed
    }

    fn assign_record(&mut self, to: Slot, from: Slot, memory: &mut Memory) -> bool {
        let mut changed = false;
        for source in self.sets[from.0 as usize].clone() {
            let object = memory.object_of(source);
            for part in memory.of_object(object).to_vec() {
                if !memory.overlap(part, source) {
                    continue;
                }
                let below = memory.path(source).len();
                let rest: Vec<Field> = memory.path(part).get(below..).unwrap_or_default().to_vec();
                let cell = self.cell(part);
                if self.sets[cell.0 as usize].is_empty() {
                    continue;
                }
                for target in self.sets[to.0 as usize].clone() {
                    let target = memory.extend(target, &rest);
                    let into = self.cell(target);
                    changed |= self.include(into, cell);
                }
            }
        }
        changed
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
                let cell = self.cell(home);
                self.copy(cell, *argument);
            }
        }
        let home = memory.whole(Object::Result(func));
        let cell = self.cell(home);
        self.copy(result, cell);
    }
}
