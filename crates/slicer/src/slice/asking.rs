//! Unknown functions whose result the slice asks the program for.
//!
//! What a function without source does is not known, but what it returned is: the program has called it. So where the
//! slice needs the result and nothing else of such a call, the program hands it over. It waits for that, so this is
//! for calls that are made once, on the way to where the files are read, or once for many reads: a library is set up, an
//! option is looked at. Where each read waits for such a call, the slice would never get ahead of the program.

use std::collections::BTreeSet;

use crate::ast::program::{Func, Program};
use crate::flow::effects::Effects;
use crate::flow::{Callee, Graph, Point, Step};
use crate::models::{Act, Models};

/// The calls of unknown functions that are made once, or once for many reads.
pub(crate) fn of_program(
    program: &Program,
    models: &Models,
    graphs: &[Graph],
    effects: &Effects,
) -> BTreeSet<Point> {
    let once = entered_once(program, graphs, effects);
    let callers = callers(graphs, effects);
    let reads = repeated_reads(models, graphs, effects);
    let mut found = BTreeSet::new();
    for (number, graph) in graphs.iter().enumerate() {
        let func = Func(number as u32);
        let above = above(&callers, func);
        // Reads that are made again and again without the call in between.
        let elsewhere = reads.iter().any(|read| !above.contains(&read.0));
        let beside = |call: Step| {
            let here = reads.iter().filter(|read| read.0 == func);
            here.into_iter().any(|read| comes_back(graph, read.1, Some(call)))
        };
        for (step, _) in effects.calls(func) {
            let Some(site) = &graph[step].call else { continue };
            let ty = &program.tree[graph[step].ast].ty;
            // Some of the compiler's own functions are no calls, and mean something only where they stand.
            let is_asked = |name: &str| models.get(name).is_none() && !name.starts_with("__builtin_");
            let unknown = matches!(&site.callee, Callee::Library(name) if is_asked(name));
            let fits = unknown && !ty.is_record() && !ty.is_void();
            let is_once = || once[number] && !comes_back(graph, step, None);
            if fits && (is_once() || elsewhere || beside(step)) {
                found.insert((func, step));
            }
        }
    }
    found
}

/// Functions that no loop enters: `main`, and those that only such functions call, by name and outside of loops.
fn entered_once(program: &Program, graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let callers = callers(graphs, effects);
    let plain = |(func, step): &Point| {
        let graph = &graphs[func.ix()];
        let by_name = graph[*step].call.as_ref().is_some_and(|c| matches!(c.callee, Callee::Function(_)));
        by_name && !comes_back(graph, *step, None)
    };
    let mut once = vec![false; graphs.len()];
    once[program.main.ix()] = callers[program.main.ix()].is_empty();
    loop {
        let before = once.iter().filter(|once| **once).count();
        for number in 0..graphs.len() {
            let all = !callers[number].is_empty()
                && callers[number].iter().all(|call| once[call.0.ix()] && plain(call));
            once[number] |= all;
        }
        if once.iter().filter(|once| **once).count() == before {
            return once;
        }
    }
}

/// For each function, the calls of it.
fn callers(graphs: &[Graph], effects: &Effects) -> Vec<Vec<Point>> {
    let mut callers: Vec<Vec<Point>> = vec![Vec::new(); graphs.len()];
    for number in 0..graphs.len() {
        let func = Func(number as u32);
        for (step, call) in effects.calls(func) {
            call.targets.iter().for_each(|target| callers[target.ix()].push((func, step)));
        }
    }
    callers
}

/// A function, and all that may come to it by calls.
fn above(callers: &[Vec<Point>], func: Func) -> BTreeSet<Func> {
    let mut found = BTreeSet::from([func]);
    let mut open = vec![func];
    while let Some(func) = open.pop() {
        open.extend(callers[func.ix()].iter().map(|call| call.0).filter(|caller| found.insert(*caller)));
    }
    found
}

/// The reads that stand in a loop of their function.
fn repeated_reads(models: &Models, graphs: &[Graph], effects: &Effects) -> Vec<Point> {
    let mut found = Vec::new();
    for (number, graph) in graphs.iter().enumerate() {
        let func = Func(number as u32);
        for (step, call) in effects.calls(func) {
            let mut kinds = call.externals.iter().filter_map(|name| models.get(name)?.io);
            if kinds.any(|io| io.act() == Act::Reads) && comes_back(graph, step, None) {
                found.push((func, step));
            }
        }
    }
    found
}

/// Can control come back to a step, without another one in between?
fn comes_back(graph: &Graph, step: Step, without: Option<Step>) -> bool {
    let mut seen = vec![false; graph.nodes.len()];
    if let Some(other) = without {
        seen[other.ix()] = true;
    }
    let mut open = graph[step].next.clone();
    while let Some(at) = open.pop() {
        if at == step {
            return true;
        }
        if !std::mem::replace(&mut seen[at.ix()], true) {
            open.extend(&graph[at].next);
        }
    }
    false
}
