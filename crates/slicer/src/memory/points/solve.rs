//! Solves the rules: what is new in a set is handed to those that include it, until nothing is new.
//!
//! Inclusions are edges. Rules that go through pointers add edges as their pointers learn where they point. A
//! cycle of edges is one set: it is looked for where an edge brought nothing although both sides are equal (lazy
//! cycle detection, Hardekopf and Lin 2007), and becomes one slot.
//!
//! Of a program that takes too much this way, parts of objects are not told apart ([`Memory::coarse`]), and all sets that
//! grow beyond [`LARGE`] become one: of a pointer that may lead to hundreds of objects nothing useful is known, and telling
//! such pointers apart is what takes the time (in an interpreter all values of the interpreted program do). So each
//! of the others is handed on at most that many elements.

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::sorted::{difference, unite_sets};
use super::{Points, Rule, Slot, same};
use crate::Error;
use crate::ast::program::Program;
use crate::memory::{Field, Loc, Memory, Object};
use crate::models::Models;

/// Most elements that are handed on, first and if parts of objects are not told apart. A program of 10,000 lines takes
/// some millions; this is reached after a second or two, and a build should not wait longer. It is a limit of work and
/// not of time: a build gives the same each time.
const MOST_WORK: u64 = 4_000_000;
const MOST_COARSE_WORK: u64 = 100_000_000;

/// Most elements of a set that is told apart from others, where parts of objects are not.
const LARGE: usize = 256;

/// The slot that all large sets are.
#[derive(Debug, Clone, Copy)]
struct Large {
    slot: Slot,
    /// What is stored at any place that it points to, and what is stored there through it.
    read: Slot,
    written: Slot,
}

impl Points {
    /// Finds out what points where.
    ///
    /// # Errors
    /// When that takes too much: [`Error::TooLarge`]. Then [`Memory::coarse`] is for another try.
    pub(crate) fn solve(
        &mut self,
        program: &Program,
        models: &Models,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        same::unite(self);
        Solver::new(self, program, models, memory).run()
    }
}

/// The state of the solution.
struct Solver<'s> {
    points: &'s mut Points,
    program: &'s Program,
    models: &'s Models,
    memory: &'s mut Memory,
    /// For each slot: those that include it, the rules that ask for it, and what is new in it.
    included_in: Vec<Vec<Slot>>,
    asked_by: Vec<Vec<u32>>,
    new: Vec<Vec<Loc>>,
    /// The locations that the slot is the content of.
    content_of: Vec<Vec<Loc>>,
    waiting: VecDeque<Slot>,
    is_waiting: Vec<bool>,
    edges: HashSet<(Slot, Slot)>,
    /// Edges where a cycle was looked for.
    looked_at: HashSet<(Slot, Slot)>,
    /// What reading a location gives, by location; and the locations that are read, by object.
    views: HashMap<Loc, Slot>,
    viewed: HashMap<u32, Vec<Loc>>,
    /// Structures that are assigned, as pairs of their locations (from, to); the same by object of the first.
    pairs: HashSet<(Loc, Loc)>,
    assigned: HashMap<u32, Vec<(Loc, Loc)>>,
    linked: HashSet<(u32, Loc)>,
    /// The slot that all large sets have become.
    large: Option<Large>,
    /// Slots that include the large set, to become one with it.
    joining: Vec<Slot>,
    /// For each assignment of structures to where the large set points, what they hold.
    records: HashMap<u32, Slot>,
    /// How many rules are under way already.
    taken: usize,
    work: u64,
}

impl<'s> Solver<'s> {
    fn new(points: &'s mut Points, program: &'s Program, models: &'s Models, memory: &'s mut Memory) -> Self {
        Self {
            points,
            program,
            models,
            memory,
            included_in: Vec::new(),
            asked_by: Vec::new(),
            new: Vec::new(),
            content_of: Vec::new(),
            waiting: VecDeque::new(),
            is_waiting: Vec::new(),
            edges: HashSet::new(),
            looked_at: HashSet::new(),
            views: HashMap::new(),
            viewed: HashMap::new(),
            pairs: HashSet::new(),
            assigned: HashMap::new(),
            linked: HashSet::new(),
            large: None,
            joining: Vec::new(),
            records: HashMap::new(),
            taken: 0,
            work: 0,
        }
    }

    fn run(mut self) -> Result<(), Error> {
        self.grow();
        for number in 0..self.points.cells.len() {
            if let Some(cell) = self.points.cells[number] {
                self.content_of[cell.ix()].push(Loc(number as u32));
            }
        }
        self.take_rules();
        loop {
            if let Some(slot) = self.joining.pop() {
                self.join(slot);
            } else if let Some(slot) = self.waiting.pop_front() {
                self.is_waiting[slot.ix()] = false;
                if self.points.one(slot) == slot {
                    self.visit(slot);
                }
            } else {
                return Ok(());
            }
            let limit = if self.memory.is_coarse() { MOST_COARSE_WORK } else { MOST_WORK };
            if self.work > limit {
                let what = "work on what its pointers may point to".to_owned();
                return Err(Error::TooLarge { what, limit: limit as usize });
            }
        }
    }

    /// Makes room for slots that were made since; what they hold from the start is new.
    fn grow(&mut self) {
        for number in self.new.len()..self.points.sets.len() {
            self.included_in.push(Vec::new());
            self.asked_by.push(Vec::new());
            self.content_of.push(Vec::new());
            self.is_waiting.push(false);
            let held = self.points.sets[number].clone();
            let is_any = !held.is_empty();
            self.new.push(held);
            if is_any {
                self.wake(Slot(number as u32));
            }
        }
    }

    fn wake(&mut self, slot: Slot) {
        if !std::mem::replace(&mut self.is_waiting[slot.ix()], true) {
            self.waiting.push_back(slot);
        }
    }

    /// Begins with the rules that are not under way yet.
    fn take_rules(&mut self) {
        self.grow();
        while let Some(rule) = self.points.rules.get(self.taken).cloned() {
            let number = self.taken as u32;
            self.taken += 1;
            let asked: &[Slot] = match &rule {
                Rule::Copy { to, from } => {
                    self.edge(*from, *to);
                    continue;
                }
                Rule::Load { from, .. } | Rule::Part { from, .. } | Rule::Widen { from, .. } => &[*from],
                Rule::Store { to, .. } => &[*to],
                Rule::Record { to, from } => &[*to, *from],
                Rule::Call { callee, .. } => &[*callee],
            };
            for slot in asked {
                let slot = self.points.one(*slot);
                self.asked_by[slot.ix()].push(number);
                // What it holds already, it may have handed on before.
                let held = self.points.sets[slot.ix()].clone();
                self.apply(number, slot, &held);
            }
        }
    }

    /// Hands on what is new.
    fn visit(&mut self, slot: Slot) {
        let new = std::mem::take(&mut self.new[slot.ix()]);
        if new.is_empty() {
            return;
        }
        for to in self.included_in[slot.ix()].clone() {
            let (from, to) = (self.points.one(slot), self.points.one(to));
            if from == to {
                continue;
            }
            let same = |s: &Self| s.points.sets[from.ix()].len() == s.points.sets[to.ix()].len();
            if !self.insert(to, &new) && same(self) && self.looked_at.insert((from, to)) {
                self.collapse(from, to);
            }
        }
        let slot = self.points.one(slot);
        if let Some(large) = self.large(slot) {
            for target in self.holding(&new) {
                let (view, cell) = (self.view(target), self.cell(target));
                self.edge(view, large.read);
                self.edge(large.written, cell);
            }
        }
        for number in self.asked_by[slot.ix()].clone() {
            self.apply(number, slot, &new);
        }
        let slot = self.points.one(slot);
        if self.memory.is_coarse() && self.points.sets[slot.ix()].len() > LARGE && self.large(slot).is_none()
        {
            self.join(slot);
        }
    }

    /// Makes a slot one with all that are large. What includes it is to follow, as it includes a large set then.
    fn join(&mut self, slot: Slot) {
        let large = match self.large {
            Some(large) => large,
            None => {
                let fresh = [(); 3].map(|()| self.points.fresh());
                self.grow();
                let [slot, read, written] = fresh;
                *self.large.insert(Large { slot, read, written })
            }
        };
        let (one, slot) = (self.points.one(large.slot), self.points.one(slot));
        if one == slot {
            return;
        }
        self.points.stands[slot.ix()].set(one);
        self.new[slot.ix()].clear();
        let included_in = std::mem::take(&mut self.included_in[slot.ix()]);
        self.joining.extend(included_in);
        let parts = std::mem::take(&mut self.content_of[slot.ix()]);
        let held = std::mem::take(&mut self.points.sets[slot.ix()]);
        if held.is_empty() {
            // What had nothing in it until now, has to be assigned with its structure.
            self.assign_parts(&parts);
        }
        self.insert(one, &held);
        let asked_by = std::mem::take(&mut self.asked_by[slot.ix()]);
        if asked_by.is_empty() {
            return;
        }
        let all = self.points.sets[one.ix()].clone();
        for number in asked_by {
            // Of all other rules what follows is the same whatever is added to the large set.
            if matches!(self.points.rules[number as usize], Rule::Call { .. }) {
                self.asked_by[one.ix()].push(number);
            }
            self.apply(number, one, &all);
        }
    }

    /// The large set, if the slot is that.
    fn large(&self, slot: Slot) -> Option<Large> {
        self.large.filter(|large| self.points.one(large.slot) == self.points.one(slot))
    }

    /// Those of the locations that a pointer can lie in.
    fn holding(&self, locations: &[Loc]) -> Vec<Loc> {
        locations.iter().filter(|l| self.memory.holds_pointers(**l)).copied().collect()
    }

    /// Applies a rule to what is new in one of the slots that it asks for.
    fn apply(&mut self, number: u32, slot: Slot, new: &[Loc]) {
        let rule = self.points.rules[number as usize].clone();
        match (&rule, self.large(slot)) {
            (Rule::Load { to, .. }, Some(large)) => return self.edge(large.read, *to),
            (Rule::Store { from, .. }, Some(large)) => return self.edge(*from, large.written),
            (Rule::Part { to, .. } | Rule::Widen { to, .. }, Some(large)) => {
                return self.edge(large.slot, *to);
            }
            (Rule::Record { to, from }, _) if self.large(*to).or(self.large(*from)).is_some() => {
                return self.assign_large(number, *to, *from);
            }
            _ => {}
        }
        match rule {
            Rule::Copy { .. } => {}
            Rule::Load { to, .. } => {
                for target in self.holding(new) {
                    let view = self.view(target);
                    self.edge(view, to);
                }
            }
            Rule::Store { from, .. } => {
                for target in self.holding(new) {
                    let cell = self.cell(target);
                    self.edge(from, cell);
                }
            }
            Rule::Part { to, field, .. } => {
                let parts: Vec<Loc> = new.iter().map(|l| self.memory.extend(*l, &[field])).collect();
                self.add_all(to, parts);
            }
            Rule::Widen { to, .. } => {
                let wholes: Vec<Loc> = new.iter().map(|l| self.memory.widen(*l)).collect();
                self.add_all(to, wholes);
            }
            Rule::Record { to, from } => {
                let (to, from) = (self.points.one(to), self.points.one(from));
                if slot == from {
                    for target in self.points.sets[to.ix()].clone() {
                        new.iter().for_each(|source| self.assign(*source, target));
                    }
                }
                if slot == to {
                    for source in self.points.sets[from.ix()].clone() {
                        new.iter().for_each(|target| self.assign(source, *target));
                    }
                }
            }
            Rule::Call { arguments, result, heap, .. } => {
                for target in new {
                    if self.linked.insert((number, *target)) {
                        self.enter(*target, &arguments, result, heap);
                    }
                }
            }
        }
    }

    /// A call through a pointer enters what it points to.
    fn enter(&mut self, target: Loc, arguments: &[Slot], result: Slot, heap: Option<Loc>) {
        match self.memory.what(target) {
            Object::Function(func) => {
                let func = *func;
                let parameters = self.program.func(func).parameters.iter().map(|p| Object::Variable(*p));
                for object in parameters.chain([Object::Result(func), Object::Rest(func)]) {
                    let home = self.memory.whole(object);
                    self.cell(home);
                }
                self.points.connect(func, arguments, result, self.program, self.memory);
            }
            Object::Library(name) => {
                let Some(model) = self.models.get(name) else { return };
                let heap = heap.filter(|_| model.makes_memory());
                heap.iter().for_each(|heap| _ = self.cell(*heap));
                self.points.through_library(model, arguments, result, heap);
            }
            _ => return,
        }
        self.take_rules();
    }

    /// Structures are assigned, and one of both sides is large: what lies anywhere in those at `from` may then lie
    /// anywhere in those at `to`.
    fn assign_large(&mut self, number: u32, to: Slot, from: Slot) {
        let read = match self.large(from) {
            Some(large) => large.read,
            None => {
                let fresh = *self.records.entry(number).or_insert_with(|| self.points.fresh());
                self.grow();
                for source in self.holding(&self.points.sets[self.points.one(from).ix()]) {
                    let view = self.view(source);
                    self.edge(view, fresh);
                }
                fresh
            }
        };
        match self.large(to) {
            Some(large) => self.edge(read, large.written),
            None => {
                for target in self.holding(&self.points.sets[self.points.one(to).ix()]) {
                    let cell = self.cell(target);
                    self.edge(read, cell);
                }
            }
        }
    }

    /// Adds what is not there yet, in ascending order; whether there was any.
    fn insert(&mut self, to: Slot, more: &[Loc]) -> bool {
        self.work += more.len() as u64;
        let set = &self.points.sets[to.ix()];
        let missing: Vec<Loc> = match more {
            [one] if set.binary_search(one).is_err() => vec![*one],
            [_] => Vec::new(),
            _ => difference(more, set),
        };
        if missing.is_empty() {
            return false;
        }
        let was_empty = set.is_empty();
        unite_sets(&mut self.points.sets[to.ix()], &missing);
        unite_sets(&mut self.new[to.ix()], &missing);
        self.wake(to);
        if was_empty {
            self.first(to);
        }
        true
    }

    fn add_all(&mut self, to: Slot, mut more: Vec<Loc>) {
        more.sort_unstable();
        more.dedup();
        self.insert(self.points.one(to), &more);
    }

    /// `to` includes `from` from now on.
    fn edge(&mut self, from: Slot, to: Slot) {
        let (from, to) = (self.points.one(from), self.points.one(to));
        if from != to && self.large(from).is_some() {
            self.joining.push(to);
        } else if from != to && self.edges.insert((from, to)) {
            self.included_in[from.ix()].push(to);
            let held = self.points.sets[from.ix()].clone();
            self.insert(to, &held);
        }
    }

    /// The content of a location. Whoever reads what overlaps with it, reads this as well.
    fn cell(&mut self, location: Loc) -> Slot {
        if let Some(Some(cell)) = self.points.cells.get(location.0 as usize) {
            return *cell;
        }
        let cell = self.points.content(location);
        self.grow();
        self.content_of[cell.ix()].push(location);
        let object = self.memory.object_of(location);
        for viewed in self.viewed.get(&object.0).cloned().unwrap_or_default() {
            if self.memory.overlap(location, viewed) {
                self.edge(cell, self.views[&viewed]);
            }
        }
        cell
    }

    /// What reading a location gives: the content of all that overlaps with it.
    fn view(&mut self, location: Loc) -> Slot {
        if let Some(view) = self.views.get(&location) {
            return *view;
        }
        let view = self.points.fresh();
        self.grow();
        self.views.insert(location, view);
        let object = self.memory.object_of(location);
        self.viewed.entry(object.0).or_default().push(location);
        for part in self.memory.of_object(object).to_vec() {
            let cell = self.points.cells.get(part.0 as usize).copied().flatten();
            if let Some(cell) = cell.filter(|_| self.memory.overlap(part, location)) {
                self.edge(cell, view);
            }
        }
        view
    }

    /// The structure at `target` is assigned that at `source`.
    fn assign(&mut self, source: Loc, target: Loc) {
        let holds = self.memory.holds_pointers(source) && self.memory.holds_pointers(target);
        if !holds || !self.pairs.insert((source, target)) {
            return;
        }
        let object = self.memory.object_of(source);
        self.assigned.entry(object.0).or_default().push((source, target));
        for part in self.memory.of_object(object).to_vec() {
            let cell = self.points.cells.get(part.0 as usize).copied().flatten();
            let is_any = cell.is_some_and(|c| !self.points.sets[self.points.one(c).ix()].is_empty());
            if is_any && self.memory.overlap(part, source) {
                self.assign_part(part, source, target);
            }
        }
    }

    fn assign_part(&mut self, part: Loc, source: Loc, target: Loc) {
        let below = self.memory.path(source).len();
        let rest: Vec<Field> = self.memory.path(part).get(below..).unwrap_or_default().to_vec();
        let target = self.memory.extend(target, &rest);
        let (from, to) = (self.cell(part), self.cell(target));
        self.edge(from, to);
    }

    /// A slot has its first element: what it is the content of, has to be assigned with its structure.
    fn first(&mut self, slot: Slot) {
        self.assign_parts(&self.content_of[slot.ix()].clone());
    }

    fn assign_parts(&mut self, parts: &[Loc]) {
        for part in parts {
            let object = self.memory.object_of(*part);
            for (source, target) in self.assigned.get(&object.0).cloned().unwrap_or_default() {
                if self.memory.overlap(*part, source) {
                    self.assign_part(*part, source, target);
                }
            }
        }
    }

    /// Looks for a way back from `to` to `from`; what lies on it is one slot.
    fn collapse(&mut self, from: Slot, to: Slot) {
        let mut seen = HashSet::from_iter([to]);
        let mut way: Vec<(Slot, usize)> = vec![(to, 0)];
        while let Some((at, next)) = way.last_mut() {
            let (at, number) = (*at, *next);
            *next += 1;
            match self.included_in[at.ix()].get(number).map(|s| self.points.one(*s)) {
                Some(found) if found == from => {
                    for (member, _) in way {
                        self.merge(from, member);
                    }
                    return;
                }
                Some(found) => {
                    if seen.insert(found) {
                        way.push((found, 0));
                    }
                }
                None => _ = way.pop(),
            }
        }
    }

    /// Makes `other` one with `slot`.
    fn merge(&mut self, slot: Slot, other: Slot) {
        let (slot, other) = (self.points.one(slot), self.points.one(other));
        if slot == other {
            return;
        }
        if self.large(slot).or(self.large(other)).is_some() {
            self.joining.extend([slot, other]);
            return;
        }
        self.points.stands[other.ix()].set(slot);
        let held = std::mem::take(&mut self.points.sets[other.ix()]);
        let mine = std::mem::take(&mut self.points.sets[slot.ix()]);
        self.new[other.ix()].clear();
        let mut included_in = std::mem::take(&mut self.included_in[slot.ix()]);
        included_in.append(&mut self.included_in[other.ix()]);
        for to in &mut included_in {
            *to = self.points.one(*to);
        }
        included_in.sort_unstable();
        included_in.dedup();
        included_in.retain(|to| *to != slot);
        self.included_in[slot.ix()] = included_in;
        let asked_by = std::mem::take(&mut self.asked_by[other.ix()]);
        self.asked_by[slot.ix()].extend(asked_by);
        let theirs = std::mem::take(&mut self.content_of[other.ix()]);
        // What had nothing in it until now, has to be assigned with its structure.
        let first = match (mine.is_empty(), held.is_empty()) {
            (true, false) => self.content_of[slot.ix()].clone(),
            (false, true) => theirs.clone(),
            _ => Vec::new(),
        };
        self.content_of[slot.ix()].extend(theirs);
        // What one of them has handed on, the other may not have.
        let mut all = mine;
        unite_sets(&mut all, &held);
        self.points.sets[slot.ix()] = all.clone();
        self.new[slot.ix()] = all;
        self.wake(slot);
        self.assign_parts(&first);
    }
}
