//! Steps that the slice cannot follow, and ends at: an unknown call, `va_arg`, another program's output.
//!
//! Such a step often lies on a way that a run does not take, so what needs it is not refused. The slice keeps the
//! step and ends when it comes there. Which steps these are is found by rounds: what is in the way of the slice so
//! far becomes an end, which makes another slice, until nothing is in the way. A site is refused only if then none of
//! its reads can be come to.
//!
//! An end that one site needs takes from others all that comes after it. So a site that can be sliced to its end
//! keeps that, if its name is not one of a configuration file: others join it only if their ends lead to none of its
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use super::closure::{Closure, Known, Point, Reason};
use super::judge::{self, WayOut};
use super::{Analysis, Choice, Verdict, close, reached, sites};
use crate::ast::program::Func;
use crate::flow::{ENTRY, EXIT};

/// Most rounds of one search. Each costs a slice of the program; with more the sites are refused as before.
const MOST_ROUNDS: usize = 24;

/// Most sites that are tried one by one, where they cannot all join.
const MOST_ALONE: usize = 6;

/// The steps that a slice gives up at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenUp {
    steps: BTreeMap<Point, Cause>,
}

/// Why there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cause {
    text: String,
    /// Does the slice end whenever the program comes there, and not only if it needs the step?
    always: bool,
}

impl GivenUp {
    pub(crate) fn contains(&self, point: Point) -> bool {
        self.steps.contains_key(&point)
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = Point> {
        self.steps.keys().copied()
    }

    /// Those at which it ends whether it needs them or not.
    pub(crate) fn always(&self) -> impl Iterator<Item = Point> {
        self.steps.iter().filter(|(_, cause)| cause.always).map(|(point, _)| *point)
    }

    /// Steps and causes, in the order of the program.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Point, &str)> {
        self.steps.iter().map(|(point, cause)| (*point, cause.text.as_str()))
    }
}

/// Keeps the steps of the slice's functions that it gives up at; whether there was any.
pub(super) fn keep(known: Known<'_>, closure: &mut Closure<'_>) -> bool {
    let before = closure.count;
    for point in known.given_up.points() {
        if closure.live[point.0.ix()] {
            closure.keep(point, Reason::GivesUp);
        }
    }
    closure.count != before
}

/// Adds the sites that can be sliced as far as the slice comes.
pub(super) fn extend(analysis: &Analysis<'_>, plain: Choice) -> (GivenUp, Choice) {
    let refused: Vec<usize> =
        (0..plain.sites.len()).filter(|n| matches!(plain.verdicts[*n], Verdict::Refused(_))).collect();
    let mut best = (GivenUp::default(), plain);
    if refused.is_empty() {
        return best;
    }
    if let Some((given_up, chosen)) = attempt(analysis, &best.0, &best.1, &refused) {
        best.0 = given_up;
        best.1.chosen = chosen;
    } else if refused.len() > 1 {
        for site in refused.into_iter().take(MOST_ALONE) {
            if let Some((given_up, chosen)) = attempt(analysis, &best.0, &best.1, &[site]) {
                best.0 = given_up;
                best.1.chosen = chosen;
            }
        }
    }
    best
}

/// What a round has found.
enum Round {
    Done,
    /// More steps to end at.
    Ends(Vec<(Point, Cause)>),
    /// Sites that cannot be sliced this way.
    Lost(Vec<usize>),
}

/// The ends with which some of these sites join those that are chosen, and all that are chosen then.
fn attempt(
    analysis: &Analysis<'_>,
    given_up: &GivenUp,
    choice: &Choice,
    more: &[usize],
) -> Option<(GivenUp, Vec<usize>)> {
    let mut wanted: BTreeSet<usize> = choice.chosen.iter().chain(more).copied().collect();
    let mut found = given_up.clone();
    for _ in 0..MOST_ROUNDS {
        match analysis.ending(&found, |known| round(known, choice, &wanted)) {
            Round::Done => {
                let spoilt = analysis.ending(&found, |known| spoils(known, given_up, choice));
                return (!spoilt).then(|| (found, wanted.into_iter().collect()));
            }
            Round::Ends(steps) => found.steps.extend(steps),
            Round::Lost(sites) => {
                sites.iter().for_each(|site| _ = wanted.remove(site));
                // What was given up for them may not be in the way of the others.
                found = given_up.clone();
            }
        }
        if !more.iter().any(|site| wanted.contains(site)) {
            return None;
        }
    }
    None
}

fn round(known: Known<'_>, choice: &Choice, wanted: &BTreeSet<usize>) -> Round {
    let reached = reached(known);
    let is_predicted = |point: &Point| reached[point.0.ix()][point.1.ix()] && !known.gives_up(*point);
    let is_reached = |site: &usize| choice.sites[*site].reads.iter().any(is_predicted);
    let lost: Vec<usize> = wanted.iter().copied().filter(|site| !is_reached(site)).collect();
    if !lost.is_empty() {
        return Round::Lost(lost);
    }
    let chosen: Vec<usize> = wanted.iter().copied().collect();
    let closure = close(known, &choice.sites, &chosen);
    let poisons = judge::poisons(known, &closure, &choice.sites, &chosen);
    if poisons.is_empty() {
        return Round::Done;
    }
    let mut steps = Vec::new();
    for poison in &poisons {
        if poison.way_out == WayOut::None {
            let site = poison.site(known, &closure, &choice.sites, &chosen);
            return Round::Lost(site.map_or(chosen, |site| vec![site]));
        }
        let cause = Cause { text: poison.cause().to_owned(), always: poison.way_out == WayOut::End };
        steps.push((poison.point, cause));
    }
    Round::Ends(steps)
}

/// Do the steps that were given up since `before` lead to reads of a file that was sliced to its end without them?
fn spoils(known: Known<'_>, before: &GivenUp, choice: &Choice) -> bool {
    let from: Vec<Point> = known.given_up.points().filter(|point| !before.contains(*point)).collect();
    let after = after(known, &from);
    choice.chosen.iter().map(|number| &choice.sites[*number]).any(|site| {
        !sites::is_configuration(known, site) && site.reads.iter().any(|(f, s)| after[f.ix()][s.ix()])
    })
}

/// All steps that may follow these, in whichever call of their functions.
fn after(known: Known<'_>, from: &[Point]) -> Vec<Vec<bool>> {
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
