//! Calls that make, change, rename or remove files which may be opened to be read later.
//!
//! The slice makes none of them, and has to know their names: when it comes to open one of these files, it waits until
//! the program has opened it (runtime/slice_made.h). So it keeps such a call, with its name and what decides on it,
//! where an open that is followed may come after, and where that asks for little more.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::Func;
use crate::flow::Point;
use crate::flow::effects::Call;
use crate::models::Act;

use super::callers;
use super::closure::{Closure, Reason};
use super::judge::{self, Verdict};
use super::known::Known;
use super::sites::{Purpose, Site};
use super::ways::after;

/// Most such calls that are looked at. Files of the others are opened without waiting; what is wrong then ends the slice.
const MOST_MAKERS: usize = 64;

/// Most further steps that one of them may cost: its name, what decides on it, and the calls on the way there.
const MOST_STEPS: usize = 48;

/// Adds those that cost little.
pub(super) fn with_makers<'a>(
    known: Known<'a>,
    closure: &Closure<'a>,
    sites: &[Site],
    chosen: &[usize],
) -> Closure<'a> {
    let mut best = closure.clone();
    let opens: Vec<Point> = chosen.iter().map(|number| sites[*number].point).collect();
    let files: BTreeSet<Id> = chosen.iter().flat_map(|number| sites[*number].names()).collect();
    let fixed = callers::fixed_parameters(known);
    for point in makers(known, sites).into_iter().take(MOST_MAKERS) {
        let after = after(known, &[point]);
        if !opens.iter().any(|(func, step)| after[func.ix()][step.ix()]) {
            continue;
        }
        let mut trial = best.clone();
        trial.keep(point, Reason::Makes);
        callers::keep(known, &mut trial, &files, &fixed);
        let cheap = trial.count <= best.count + MOST_STEPS
            && trial.data.len() == best.data.len()
            && trial.outside() == best.outside()
            && judge::poison(known, &trial, sites, chosen).is_none();
        if cheap {
            best = trial;
        }
    }
    best
}

/// Has the program calls that make or change files?
pub(crate) fn makes_files(known: Known<'_>, sites: &[(Site, Verdict)]) -> bool {
    let makes = |call: &Call| known.models_of(call).iter().any(|model| !model.makes.is_empty());
    sites.iter().any(|(site, _)| site.purpose != Purpose::Read)
        || (0..known.graphs.len() as u32)
            .map(Func)
            .filter(|func| known.effects.reachable[func.ix()])
            .any(|func| known.effects.calls(func).any(|(_, call)| makes(call)))
}

/// All such calls that the first thread may come to.
fn makers(known: Known<'_>, sites: &[Site]) -> Vec<Point> {
    let written = |site: &&Site| matches!(site.purpose, Purpose::Output | Purpose::Update);
    let mut found: BTreeSet<Point> = sites.iter().filter(written).map(|site| site.point).collect();
    for func in (0..known.graphs.len() as u32).map(Func) {
        for (step, call) in known.effects.calls(func) {
            let point = (func, step);
            let opens = known.io(point).is_some_and(|(io, _)| io.act() == Act::Opens);
            if !opens && known.models_of(call).iter().any(|model| !model.makes.is_empty()) {
                found.insert(point);
            }
        }
    }
    found.retain(|point| known.effects.reachable[point.0.ix()] && !known.ends(*point));
    found.into_iter().collect()
}
