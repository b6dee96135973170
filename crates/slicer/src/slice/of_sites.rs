//! The slice of some sites: their accesses, what these depend on, and the files that the slice reads for that.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::Func;

use super::callers;
use super::closure::{Closure, Reason};
use super::known::Known;
use super::sites::{Purpose, Site};

/// The slice of these sites, and of the files that it turns out to read itself.
pub(super) fn close<'a>(known: Known<'a>, sites: &[Site], chosen: &[usize]) -> Closure<'a> {
    let fixed = callers::fixed_parameters(known);
    let mut closure = Closure::new(known);
    keep_confining(known, &mut closure);
    let mut tracked: BTreeSet<usize> = BTreeSet::new();
    let mut more: Vec<usize> = chosen.to_vec();
    while !more.is_empty() {
        for number in more.drain(..) {
            if tracked.insert(number) {
                keep_accesses(known, &mut closure, &sites[number]);
            }
        }
        let files: BTreeSet<Id> = tracked.iter().flat_map(|number| sites[*number].names()).collect();
        callers::keep(known, &mut closure, &files, &fixed);
        while keep_given_up(known, &mut closure) {
            callers::keep(known, &mut closure, &files, &fixed);
        }
        // A file that is read for its bytes must be read from its start, and sought in, like in the program.
        for (number, site) in sites.iter().enumerate() {
            let wanted = site.purpose != Purpose::Output && !tracked.contains(&number);
            if wanted && callers::is_read(known, &closure, site, &fixed) {
                more.push(number);
            }
        }
    }
    closure
}

/// Keeps the steps of the slice's functions that it gives up at; whether there was any.
fn keep_given_up(known: Known<'_>, closure: &mut Closure<'_>) -> bool {
    let before = closure.count;
    for point in known.given_up.points() {
        if closure.live[point.0.ix()] {
            closure.keep(point, Reason::GivesUp);
        }
    }
    closure.count != before
}

fn keep_accesses(known: Known<'_>, closure: &mut Closure<'_>, site: &Site) {
    for point in &site.accesses {
        if known.effects.reachable[point.0.ix()] || known.effects.threaded[point.0.ix()] {
            closure.keep(*point, Reason::Access);
        }
    }
}

/// Where a slice is told that it ends: calls by which the program changes who it is or what it may do. They are kept
/// whatever else is. A function that gets no further than such a call needs no version in the slice: its calls are
/// where the slice ends.
fn keep_confining(known: Known<'_>, closure: &mut Closure<'_>) {
    for (number, graph) in known.graphs.iter().enumerate().filter(|(n, _)| known.effects.reachable[*n]) {
        let func = Func(number as u32);
        if !callers::gets_past_confining(known, func) {
            continue;
        }
        for step in graph.steps().filter(|step| known.confines((func, *step))) {
            closure.keep((func, step), Reason::Confines);
        }
    }
}
