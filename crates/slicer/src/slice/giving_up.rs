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

use std::collections::BTreeSet;

use super::analysis::Analysis;
use super::choice::Choice;
use super::given_up::{Cause, GivenUp};
use super::judge::{self, Verdict, WayOut};
use super::known::Known;
use super::of_sites::close;
use super::sites;
use super::ways::{after, reached};
use crate::ast::program::Func;
use crate::flow::Point;
use crate::flow::effects::FUNCTION_NOT_FOLLOWED;
use crate::models::Model;

/// Most rounds of one search. Each costs a slice of the program; with more the sites are refused as before.
const MOST_ROUNDS: usize = 24;

/// Most sites that are tried one by one, where they cannot all join.
const MOST_ALONE: usize = 6;

/// What the table of models says of functions that bring others into the program (dlopen(3)).
const LOADS_CODE: &str = "loads code";

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
            Round::Ends(steps) => found.extend(steps),
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
    let may_be_made = |point: &Point| !is_never_made(known, *point);
    let new = known.given_up.points().filter(|point| !before.contains(*point));
    let from: Vec<Point> = new.filter(may_be_made).collect();
    let after = after(known, &from);
    choice.chosen.iter().map(|number| &choice.sites[*number]).any(|site| {
        !sites::is_configuration(known, site) && site.reads.iter().any(|(f, s)| after[f.ix()][s.ix()])
    })
}

/// Is it a call through a pointer that holds no function in any run? A library has such pointers for those who give it
/// functions of their own. Nothing may have come from where no source is known.
fn is_never_made(known: Known<'_>, point: Point) -> bool {
    let is_empty = |name: &String| name == FUNCTION_NOT_FOLLOWED;
    let is_known = |name: &String| {
        let loads = |model: &Model| model.unsupported.as_deref() == Some(LOADS_CODE);
        is_empty(name) || known.models.get(name).is_some_and(|model| !loads(model))
    };
    known.call(point).is_some_and(|call| call.targets.is_empty() && call.externals.iter().all(is_empty))
        && (0..known.graphs.len() as u32)
            .map(Func)
            .filter(|func| known.effects.reachable[func.ix()])
            .flat_map(|func| known.effects.calls(func))
            .all(|(_, call)| call.externals.iter().all(is_known))
}
