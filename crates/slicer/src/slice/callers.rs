//! Which calls come to an access, and so belong to the slice.
//!
//! A function that makes accesses is called in the slice wherever the program calls it, with one exception:
//! where it works on the file, or on the mapped memory, that it is given, only calls that may give it one of
//! the slice's files count.
//! `get(stream, buffer)` in the reader of one file then does not draw in all that the reader of another one
//! does between two calls of it.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::Kind;
use crate::ast::program::{Func, Scope};
use crate::flow::effects::Call;
use crate::flow::{Callee, ENTRY, EXIT, Point, What};
use crate::memory::Object;
use crate::models::Act;

use super::closure::{Closure, Reason};
use super::known::Known;
use super::sites::{Site, copied_bytes};

/// The parameters that nobody writes, of each function.
pub(super) type Fixed = Vec<Vec<bool>>;

/// How a function comes to accesses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ways {
    /// By files that it knows of itself.
    own: bool,
    /// By files that it is given, and in which parameters.
    given: BTreeSet<usize>,
}

/// Keeps the calls that come to accesses of these files.
pub(super) fn keep(known: Known<'_>, closure: &mut Closure<'_>, files: &BTreeSet<Id>, fixed: &Fixed) {
    loop {
        let before = closure.count;
        let mut ways = accessing(known, closure, fixed);
        while keep_calls(known, closure, files, fixed, &mut ways) {}
        if closure.count == before {
            return;
        }
    }
}

/// Does the slice read this file here? Not if the file is given by a caller, and no call that the slice makes
/// gives it.
pub(super) fn is_read(known: Known<'_>, closure: &Closure<'_>, site: &Site, fixed: &Fixed) -> bool {
    let names: BTreeSet<Id> = site.names().collect();
    site.reads.iter().any(|p| closure.keeps(*p) && comes_to(known, closure, *p, &names, fixed))
}

/// May an access work on one of these files, as the slice calls its function?
fn comes_to(
    known: Known<'_>,
    closure: &Closure<'_>,
    point: Point,
    names: &BTreeSet<Id>,
    fixed: &Fixed,
) -> bool {
    let mut open = match access_parameter(known, point, fixed) {
        Some(parameter) => vec![(point.0, parameter)],
        None => return true,
    };
    let mut seen: BTreeSet<(Func, usize)> = open.iter().copied().collect();
    while let Some((func, parameter)) = open.pop() {
        for caller in closure.callers(func) {
            let Some(call) = known.call(*caller) else { continue };
            if is_direct(known, *caller) && !may_give(known, call, parameter, names) {
                continue;
            }
            match given_on(known, *caller, parameter, fixed).filter(|_| is_direct(known, *caller)) {
                Some(own) if seen.insert((caller.0, own)) => open.push((caller.0, own)),
                Some(_) => {}
                None => return true,
            }
        }
    }
    false
}

/// The parameter that an access gets its file from, or the mapped memory that it reads.
fn access_parameter(known: Known<'_>, point: Point, fixed: &Fixed) -> Option<usize> {
    let node = &known.graphs[point.0.ix()][point.1];
    let tree = &known.program.tree;
    let from = match known.io(point) {
        Some((io, model)) => *tree.arguments(node.ast).get(io.file(model)?)?,
        None if node.what == What::Access => match tree[node.ast].kind {
            Kind::Subscript => *tree.children(node.ast).iter().find(|c| tree[**c].ty.is_pointer())?,
            _ => tree.child(node.ast, 0)?,
        },
        None => *tree.arguments(node.ast).get(copied_bytes(known, point)?.0)?,
    };
    parameter(known, point.0, from, fixed)
}

/// Can control come out of a function, or is it that of `main`, where nothing calls it? Of others that confine the
/// program the slice needs no version.
pub(super) fn gets_past_confining(known: Known<'_>, func: Func) -> bool {
    if func == known.program.main || known.through_pointers[func.ix()] {
        return true;
    }
    let graph = &known.graphs[func.ix()];
    let mut seen = vec![false; graph.nodes.len()];
    let mut open = vec![ENTRY];
    while let Some(step) = open.pop() {
        if !std::mem::replace(&mut seen[step.ix()], true) && !known.ends((func, step)) {
            open.extend(&graph[step].next);
        }
    }
    seen[EXIT.ix()]
}

/// One round over all calls; whether anything is new.
fn keep_calls(
    known: Known<'_>,
    closure: &mut Closure<'_>,
    files: &BTreeSet<Id>,
    fixed: &Fixed,
    ways: &mut [Ways],
) -> bool {
    let mut changed = false;
    for number in 0..known.graphs.len() {
        let func = Func(number as u32);
        if !known.effects.reachable[number] {
            continue;
        }
        for (step, call) in known.effects.calls(func).filter(|(_, call)| !call.thread) {
            let point = (func, step);
            let mut found = Ways::default();
            let mut comes = false;
            for target in &call.targets {
                let theirs = ways[target.ix()].clone();
                let direct = is_direct(known, point);
                comes |= theirs.own;
                found.own |= theirs.own;
                for parameter in theirs.given {
                    if direct && !may_give(known, call, parameter, files) {
                        continue;
                    }
                    comes = true;
                    match given_on(known, point, parameter, fixed).filter(|_| direct) {
                        Some(own) => _ = found.given.insert(own),
                        None => found.own = true,
                    }
                }
            }
            if !comes {
                continue;
            }
            if !closure.keeps(point) {
                closure.keep(point, Reason::CallsAccess);
                changed = true;
            }
            let mine = &mut ways[number];
            changed |= found.own && !mine.own || !found.given.is_subset(&mine.given);
            mine.own |= found.own;
            mine.given.extend(found.given);
        }
    }
    changed
}

fn is_direct(known: Known<'_>, point: Point) -> bool {
    let call = known.graphs[point.0.ix()][point.1].call.as_ref();
    call.is_some_and(|c| matches!(c.callee, Callee::Function(_)))
}

/// May the call give one of these files as this argument?
fn may_give(known: Known<'_>, call: &Call, argument: usize, files: &BTreeSet<Id>) -> bool {
    let targets = call.argument_targets.get(argument);
    targets.is_none_or(|targets| {
        targets
            .iter()
            .any(|target| matches!(known.memory.what(*target), Object::Open(id) | Object::Heap(id) if files.contains(id)))
    })
}

/// The parameter of the calling function that is handed on as this argument.
fn given_on(known: Known<'_>, point: Point, argument: usize, fixed: &Fixed) -> Option<usize> {
    let ast = known.graphs[point.0.ix()][point.1].ast;
    let argument = known.program.tree.arguments(ast).get(argument)?;
    parameter(known, point.0, *argument, fixed)
}

/// The parameter that an expression names, if that is still what the caller gave.
fn parameter(known: Known<'_>, func: Func, expression: Id, fixed: &Fixed) -> Option<usize> {
    let tree = &known.program.tree;
    let bare = tree.uncast(expression);
    if tree[bare].kind != Kind::DeclRef {
        return None;
    }
    match known.program.var(known.program.variable(bare)?).scope {
        Scope::Parameter(home, number) if home == func && fixed[func.ix()][number] => Some(number),
        _ => None,
    }
}

/// Which parameters are what the caller gave, all the time.
pub(super) fn fixed_parameters(known: Known<'_>) -> Fixed {
    let mut fixed: Fixed = known.program.functions.iter().map(|f| vec![true; f.parameters.len()]).collect();
    for (number, graph) in known.graphs.iter().enumerate() {
        for step in graph.steps() {
            for (location, _) in &known.effects.of(Func(number as u32), step).writes {
                if let Object::Variable(var) = known.memory.what(*location)
                    && let Scope::Parameter(home, parameter) = known.program.var(*var).scope
                {
                    fixed[home.ix()][parameter] = false;
                }
            }
        }
    }
    fixed
}

/// The accesses of each function, and what the slice reads for itself.
fn accessing(known: Known<'_>, closure: &Closure<'_>, fixed: &Fixed) -> Vec<Ways> {
    let mut ways = vec![Ways::default(); known.graphs.len()];
    for (number, own) in ways.iter_mut().enumerate() {
        let func = Func(number as u32);
        own.own = known.effects.calls(func).any(|(step, _)| known.confines((func, step)))
            || known.given_up.always().any(|point| point.0 == func)
            || known.asked.iter().any(|point| point.0 == func && closure.keeps(*point));
    }
    for point in closure.points() {
        let asked = closure.accesses.contains(&point) || closure.makers.contains(&point);
        let kind = known.io(point);
        let acts = kind.is_some_and(|(io, _)| matches!(io.act(), Act::Reads | Act::Moves | Act::Opens));
        if !asked && !acts {
            continue;
        }
        // What the program hands over must be received in its order, by all calls.
        let given = if known.is_forwarded(point) { None } else { access_parameter(known, point, fixed) };
        match given {
            Some(parameter) => _ = ways[point.0.ix()].given.insert(parameter),
            None => ways[point.0.ix()].own = true,
        }
    }
    ways
}
