//! Which steps control may come to.

use crate::ast::program::Func;
use crate::flow::{ENTRY, EXIT, Point};

use super::known::Known;

/// The steps that a slice could come to: it does not get past where it ends.
pub(super) fn reached(known: Known<'_>) -> Vec<Vec<bool>> {
    let mut reached: Vec<Vec<bool>> = known.graphs.iter().map(|g| vec![false; g.nodes.len()]).collect();
    let mut entered = vec![false; known.graphs.len()];
    entered[known.program.main.ix()] = true;
    loop {
        let mut changed = false;
        for number in 0..known.graphs.len() {
            if !entered[number] || reached[number][EXIT.ix()] {
                continue;
            }
            let graph = &known.graphs[number];
            let mut seen = vec![false; graph.nodes.len()];
            let mut open = vec![ENTRY];
            while let Some(step) = open.pop() {
                if std::mem::replace(&mut seen[step.ix()], true) {
                    continue;
                }
                let point = (Func(number as u32), step);
                let mut goes_on = !known.ends(point);
                if let Some(call) = known.call(point).filter(|call| !call.targets.is_empty() && !call.thread)
                {
                    for target in call.targets.iter().filter(|_| goes_on) {
                        changed |= !std::mem::replace(&mut entered[target.ix()], true);
                    }
                    goes_on &= !call.externals.is_empty()
                        || call.targets.iter().any(|target| reached[target.ix()][EXIT.ix()]);
                }
                if goes_on {
                    open.extend(&graph[step].next);
                }
            }
            changed |= seen != reached[number];
            reached[number] = seen;
        }
        if !changed {
            return reached;
        }
    }
}

/// All steps that may follow these, in whichever call of their functions.
pub(super) fn after(known: Known<'_>, from: &[Point]) -> Vec<Vec<bool>> {
    let mut callers: Vec<Vec<Point>> = vec![Vec::new(); known.graphs.len()];
    for func in (0..known.graphs.len() as u32).map(Func) {
        for (step, call) in known.effects.calls(func) {
            call.targets.iter().for_each(|target| callers[target.ix()].push((func, step)));
        }
    }
    let mut seen: Vec<Vec<bool>> = known.graphs.iter().map(|g| vec![false; g.nodes.len()]).collect();
    let next = |(func, step): Point| known.graphs[func.ix()][step].next.iter().map(move |s| (func, *s));
    let mut open: Vec<Point> = from.iter().flat_map(|point| next(*point)).collect();
    while let Some((func, step)) = open.pop() {
        if std::mem::replace(&mut seen[func.ix()][step.ix()], true) {
            continue;
        }
        if step == EXIT {
            open.extend(callers[func.ix()].iter().flat_map(|call| next(*call)));
        }
        if let Some(call) = known.call((func, step)) {
            open.extend(call.targets.iter().map(|target| (*target, ENTRY)));
        }
        open.extend(next((func, step)));
    }
    seen
}
