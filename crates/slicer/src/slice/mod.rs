//! Which sites are sliced, and the one slice for all of them.
//!
//! If something is in the way of all sites together, each is first sliced alone: what is in the way is its own fault.
//! Then all that passed are sliced together; a function has one slice for all of its calls, so two sites can still meet something that
//! neither meets alone, and the one whose chain leads there is left out until nothing is in the way.
//!
//! What is left out this way comes in again if the slice can end where the program comes to what is in the way
//! ([`giving_up`]): most of it lies on ways that most runs do not take.

pub(crate) mod analysis;
pub(crate) mod asking;
mod callers;
mod choice;
pub(crate) mod closure;
pub(crate) mod ends;
mod given_up;
mod giving_up;
pub(crate) mod judge;
pub(crate) mod known;
pub(crate) mod makers;
mod marks;
pub(crate) mod numbers;
mod of_sites;
pub(crate) mod sites;
mod ways;

use crate::ast::Id;
use crate::ast::program::Func;
use crate::flow::{Callee, Point, What};
use crate::memory::Object;
use crate::models::Io;
use analysis::Analysis;
use choice::{Choice, choose};
use closure::{Closure, Reason};
use given_up::GivenUp;
use judge::{Refusal, Verdict};
use known::Known;
use of_sites::close;
use sites::Site;

/// The slice of a program.
pub(crate) struct Slice<'a> {
    pub(crate) known: Known<'a>,
    pub(crate) closure: Closure<'a>,
    pub(crate) sites: Vec<(Site, Verdict)>,
}

impl Slice<'_> {
    /// Why a slice is not worth its cost that prefetches the program's settings and none of its data.
    pub(crate) fn only_configuration(&self) -> Option<Refusal> {
        let mut sliced = self.sites.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Sliced(_)));
        let first = sliced.next()?;
        let all = std::iter::once(first).chain(sliced).all(|(s, _)| sites::is_configuration(self.known, s));
        all.then(|| Refusal {
            place: self.known.program.describe(first.0.call),
            cause: "only files of configuration could be prefetched, which are read once and at the start"
                .to_owned(),
            chain: Vec::new(),
            remedy: "none is needed".to_owned(),
        })
    }
}

/// Most further steps that are kept to end the slice where the program ends. It is a convenience, so it
/// must stay cheap: a comparison of a result and what leads there.
const MOST_STEPS_TO_END: usize = 24;

/// The largest number of a site that the runtime follows (`SITES` of slice_state.h).
const MOST_SITES: u32 = 4095;

/// Makes the slice.
fn make(known: Known<'_>, choice: Choice) -> Slice<'_> {
    let Choice { sites: found, mut verdicts, chosen } = choice;
    let closure = close(known, &found, &chosen);
    // A call may work on a file of a refused site and on one that is not: then neither can be predicted.
    let calls: Vec<Id> = chosen.iter().map(|number| found[*number].call).collect();
    for (number, site) in chosen.iter().zip(numbers::of_calls(known.program, &calls, MOST_SITES)) {
        verdicts[*number] = Verdict::Sliced(site);
    }
    let fixed = callers::fixed_parameters(known);
    for (number, site) in found.iter().enumerate() {
        let kept = callers::is_read(known, &closure, site, &fixed);
        if kept && matches!(verdicts[number], Verdict::NotRead | Verdict::NotMarked) {
            verdicts[number] = Verdict::ReadBySlice;
        }
    }
    let made = makers::with_makers(known, &closure, &found, &chosen);
    let ended = with_ends(known, &made, &found, &chosen);
    let freed = with_frees(known, ended, &found, &chosen);
    Slice { known, closure: freed, sites: found.into_iter().zip(verdicts).collect() }
}

/// Most calls that give back memory and are looked at one by one, where they cannot be taken all at once. What is
/// not given back is bounded when the slice runs.
const MOST_FREES: usize = 64;

/// Adds the calls by which memory that the slice allocates, maps and opens is given back, where that asks for little
/// more, and for no bytes of files.
fn with_frees<'a>(known: Known<'a>, closure: Closure<'a>, sites: &[Site], chosen: &[usize]) -> Closure<'a> {
    let mut frees: Vec<Point> = Vec::new();
    for number in (0..known.graphs.len()).filter(|n| closure.live[*n]) {
        let func = Func(number as u32);
        let kept = known
            .effects
            .calls(func)
            .map(|(step, _)| (func, step))
            .filter(|p| frees_kept(known, &closure, *p));
        frees.extend(kept);
    }
    let cheap = |trial: &Closure<'_>, before: &Closure<'_>, points: usize| {
        trial.count <= before.count + points * MOST_STEPS_TO_END
            && trial.data.len() == before.data.len()
            && trial.live == before.live
            && trial.outside() == before.outside()
            && judge::poison(known, trial, sites, chosen).is_none()
    };
    let with = |before: &Closure<'a>, points: &[Point]| {
        let mut trial = before.clone();
        points.iter().for_each(|point| trial.keep(*point, Reason::Frees));
        cheap(&trial, before, points.len()).then_some(trial)
    };
    if frees.is_empty() {
        return closure;
    }
    if let Some(all) = with(&closure, &frees) {
        return all;
    }
    frees.iter().take(MOST_FREES).fold(closure, |best, point| with(&best, &[*point]).unwrap_or(best))
}

/// Does a call give back what a step of the slice has allocated?
fn frees_kept(known: Known<'_>, closure: &Closure<'_>, point: Point) -> bool {
    let Some(call) = known.call(point) else { return false };
    let unmaps = known.io(point).is_some_and(|(io, _)| io == Io::Munmap);
    let freed = known.models_of(call).iter().find_map(|m| m.frees).or(unmaps.then_some(0));
    let by_name = matches!(&known.graphs[point.0.ix()][point.1].call, Some(c) if matches!(c.callee, Callee::Library(_)));
    let targets = freed.filter(|_| by_name).and_then(|n| call.argument_targets.get(n));
    // What is not allocated by the slice, it must not free.
    targets.is_some_and(|targets| {
        !targets.is_empty()
            && targets.iter().all(|l| match known.memory.what(*l) {
                Object::Heap(call) => known.point_of(*call).is_some_and(|p| closure.keeps(p)),
                _ => false,
            })
    })
}

/// Adds the calls that end the program, where that costs nothing: no bytes of files, nothing from outside.
fn with_ends<'a>(known: Known<'a>, closure: &Closure<'a>, sites: &[Site], chosen: &[usize]) -> Closure<'a> {
    let mut best = closure.clone();
    let mut ends: Vec<Point> = Vec::new();
    for (number, graph) in known.graphs.iter().enumerate() {
        if closure.live[number] {
            let func = Func(number as u32);
            ends.extend(graph.steps().map(|s| (func, s)).filter(|p| known.ends(*p) && may_end(known, *p)));
        }
    }
    for point in ends {
        let mut trial = best.clone();
        trial.keep(point, Reason::Ends);
        let cheap = trial.count <= best.count + MOST_STEPS_TO_END
            && trial.data.len() == best.data.len()
            && trial.live == best.live
            && trial.outside() == best.outside()
            && judge::poison(known, &trial, sites, chosen).is_none();
        if cheap {
            best = trial;
        }
    }
    best
}

fn may_end(known: Known<'_>, point: Point) -> bool {
    matches!(known.graphs[point.0.ix()][point.1].what, What::Call | What::Return)
}

impl Analysis<'_> {
    /// The slice of the program.
    pub(crate) fn slice<R>(&self, then: impl FnOnce(Slice<'_>) -> R) -> R {
        let plain = self.ending(&GivenUp::default(), |known| choose(known, &self.points, &self.marks));
        let (given_up, choice) = giving_up::extend(self, plain);
        self.ending(&given_up, |known| then(make(known, choice)))
    }
}
