//! Slots that are the same whatever the rules will give (offline substitution; Rountev and Chandra 2000,
//! Hardekopf and Lin 2007).
//!
//! Each expression has a slot of its own, and most of them repeat others: a value that is only handed on, each
//! use of one variable, each field of what one pointer points to. A slot that one rule alone gives a value to is
//! the same as every other one that the same rule gives the same value to.

use std::collections::HashMap;

use super::{Field, Loc, Points, Rule, Slot};

/// What gives a slot its value, where that is one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Nothing,
    Address(Loc),
    Loaded(Slot),
    Part(Slot, Field),
    Widened(Slot),
}

/// Makes equal slots one, and drops the rules that this makes pointless.
pub(super) fn unite(points: &mut Points) {
    let count = points.sets.len();
    let mut incoming: Vec<Vec<u32>> = vec![Vec::new(); count];
    // What further rules may add to when calls through pointers are connected, and what is stored into.
    let mut open = vec![false; count];
    for (number, rule) in points.rules.iter().enumerate() {
        match rule {
            Rule::Copy { to, .. }
            | Rule::Load { to, .. }
            | Rule::Part { to, .. }
            | Rule::Widen { to, .. } => {
                incoming[to.ix()].push(number as u32);
            }
            Rule::Call { result, .. } => open[result.ix()] = true,
            Rule::Store { .. } | Rule::Record { .. } => {}
        }
    }
    for cell in points.cells.iter().flatten() {
        open[cell.ix()] = true;
    }
    let mut known: HashMap<Origin, Slot> = HashMap::new();
    for number in (0..count).filter(|n| !open[*n]) {
        let slot = Slot(number as u32);
        let rules: Vec<Rule> = incoming[number].iter().map(|r| points.rules[*r as usize].clone()).collect();
        let origin = match (points.sets[number].as_slice(), rules.as_slice()) {
            ([], []) => Origin::Nothing,
            ([location], []) => Origin::Address(*location),
            ([], [Rule::Copy { from, .. }]) => {
                let from = points.one(*from);
                points.stands[number].set(from);
                continue;
            }
            ([], [Rule::Load { from, .. }]) => Origin::Loaded(points.one(*from)),
            ([], [Rule::Part { from, field, .. }]) => Origin::Part(points.one(*from), *field),
            ([], [Rule::Copy { from, .. }, Rule::Widen { from: other, .. }]) if from == other => {
                Origin::Widened(points.one(*from))
            }
            _ => continue,
        };
        let nothing = known.get(&Origin::Nothing).copied();
        let origin = match origin {
            Origin::Loaded(from) | Origin::Part(from, _) | Origin::Widened(from) if Some(from) == nothing => {
                Origin::Nothing
            }
            other => other,
        };
        let first = *known.entry(origin).or_insert(slot);
        points.stands[number].set(first);
    }
    let nothing = known.get(&Origin::Nothing).copied();
    let rules = std::mem::take(&mut points.rules);
    for rule in rules {
        let (to, from) = match &rule {
            Rule::Copy { to, from }
            | Rule::Load { to, from }
            | Rule::Part { to, from, .. }
            | Rule::Widen { to, from } => {
                if points.one(*to) != *to {
                    // It has the value of the slot that stands for it.
                    continue;
                }
                (Some(*to), *from)
            }
            Rule::Store { to, from } | Rule::Record { to, from } => (Some(*to), *from),
            Rule::Call { callee, .. } => (None, *callee),
        };
        let idle = |slot: Slot| Some(points.one(slot)) == nothing;
        let never =
            idle(from) || matches!(rule, Rule::Store { .. } | Rule::Record { .. }) && to.is_some_and(idle);
        if !never {
            points.rules.push(rule);
        }
    }
}
