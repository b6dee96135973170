//! Which sites are sliced, and the one slice for all of them.
//!
//! If something is in the way of all sites together, each is first sliced alone: what is in the way is its own fault.
//! Then all that passed are sliced together; a function has one slice for all of its calls, so two sites can still meet something that
//! neither meets alone, and the one whose chain leads there is left out until nothing is in the way.
//!
//! What is left out this way comes in again if the slice can end where the program comes to what is in the way
//! ([`giving_up`]): most of it lies on ways that most runs do not take.

pub(crate) mod asking;
mod callers;
pub(crate) mod closure;
pub(crate) mod giving_up;
pub(crate) mod judge;
pub(crate) mod sites;

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::{Func, Program};
use crate::flow::control::Control;
use crate::flow::effects::Effects;
use crate::flow::reach::{Kept, Reach};
use crate::flow::{Callee, ENTRY, EXIT, Graph, Step, What};
use crate::memory::points::{Points, Slot};
use crate::memory::{Memory, Object};
use crate::models::{Act, Io, Model, Models};
use closure::{Closure, Known, Point, Reason};
use giving_up::GivenUp;
use judge::Refusal;
use sites::{Purpose, Site};

/// What became of an open site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its accesses are predicted. The number is that of the runtime's calls.
    Sliced(u32),
    /// The slice reads it for itself.
    ReadBySlice,
    /// It is written, or never read.
    NotRead,
    /// Others are marked FORETELL_PREFETCH, this one is not.
    NotMarked,
    Refused(Refusal),
}

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

/// The steps that the slice ends with, for each function: a return of `main`, and calls of what never
/// returns and touches no file before it ends. Where the program changes who it is or what it may do, it goes on
/// and the slice does not: nothing may be opened beyond, as the slice would still be who the program was.
pub(crate) fn ends(
    program: &Program,
    models: &Models,
    graphs: &[Graph],
    effects: &Effects,
) -> Vec<Vec<bool>> {
    let endless = endless(program, models, graphs, effects);
    let of_function = |number: usize| {
        let func = Func(number as u32);
        let returns = |step| func == program.main && graphs[number][step].what == What::Return;
        let ends = |step| returns(step) || is_endless_call(models, effects, &endless, func, step);
        graphs[number].steps().map(ends).collect()
    };
    (0..graphs.len()).map(of_function).collect()
}

/// Is it a call that can only enter what does not return?
fn is_endless_call(models: &Models, effects: &Effects, endless: &[bool], func: Func, step: Step) -> bool {
    effects.of(func, step).call.as_ref().is_some_and(|call| {
        let library = |name: &String| models.get(name).is_some_and(Model::ends_slice);
        !(call.targets.is_empty() && call.externals.is_empty())
            && call.externals.iter().all(library)
            && call.targets.iter().all(|t| endless[t.ix()])
    })
}

/// Functions that never return, and touch no file before they end.
fn endless(program: &Program, models: &Models, graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut endless = vec![false; graphs.len()];
    let working = touching_files(models, graphs, effects);
    loop {
        let mut changed = false;
        for (number, graph) in graphs.iter().enumerate() {
            let func = Func(number as u32);
            if endless[number] || working[number] || func == program.main {
                continue;
            }
            let mut seen = vec![false; graph.nodes.len()];
            let mut open = vec![ENTRY];
            while let Some(step) = open.pop() {
                let visited = std::mem::replace(&mut seen[step.ix()], true);
                if !visited && !is_endless_call(models, effects, &endless, func, step) {
                    open.extend(&graph[step].next);
                }
            }
            if !seen[EXIT.ix()] {
                endless[number] = true;
                changed = true;
            }
        }
        if !changed {
            return endless;
        }
    }
}

/// Functions that work on open files other than by printing, themselves or through others.
fn touching_files(models: &Models, graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut touching = vec![false; graphs.len()];
    loop {
        let before = touching.clone();
        for number in 0..graphs.len() {
            let touches = effects.calls(Func(number as u32)).any(|(_, call)| {
                let io = call.externals.iter().filter_map(|name| models.get(name)?.io);
                call.targets.iter().any(|t| touching[t.ix()])
                    || io.into_iter().any(|io| matches!(io.act(), Act::Reads | Act::Opens))
            });
            touching[number] |= touches;
        }
        if touching == before {
            return touching;
        }
    }
}

/// Functions that are called through pointers, or by the library.
pub(crate) fn through_pointers(graphs: &[Graph], effects: &Effects) -> Vec<bool> {
    let mut found = vec![false; graphs.len()];
    for (number, graph) in graphs.iter().enumerate() {
        let func = Func(number as u32);
        for (step, call) in effects.calls(func) {
            let direct = graph[step].call.as_ref().is_some_and(|c| matches!(c.callee, Callee::Function(_)));
            if !direct {
                for target in &call.targets {
                    found[target.ix()] = true;
                }
            }
        }
    }
    found
}

/// Which sites are sliced, and why others are not.
struct Choice {
    sites: Vec<Site>,
    verdicts: Vec<Verdict>,
    /// Those that are sliced.
    chosen: Vec<usize>,
}

/// What can be sliced to its end.
fn choose(known: Known<'_>, points: &Points, marks: &[Slot]) -> Choice {
    let found = sites::find(known, known.graphs.len());
    let mut verdicts: Vec<Verdict> = found.iter().map(|_| Verdict::NotRead).collect();
    let marked: BTreeSet<_> = marks.iter().flat_map(|s| points.targets(*s)).copied().collect();
    let is_marked = |site: &Site| {
        let file = Object::Open(site.call);
        marks.is_empty() || marked.iter().any(|l| *known.memory.what(*l) == file)
    };
    let mut wanted = Vec::new();
    let reached = reached(known);
    for (number, site) in found.iter().enumerate() {
        if !judge::is_candidate(site) {
            continue;
        }
        if !is_marked(site) {
            verdicts[number] = Verdict::NotMarked;
            continue;
        }
        if let Some(refusal) = judge::beyond_reach(known, &reached, site) {
            verdicts[number] = Verdict::Refused(refusal);
            continue;
        }
        wanted.push(number);
    }
    let mut chosen = wanted.clone();
    let mut closure = close(known, &found, &chosen);
    // Whatever is in the way of one is in the way of all together: most often there is nothing.
    if judge::poison(known, &closure, &found, &chosen).is_some() {
        chosen.retain(|number| {
            let alone = [*number];
            let closure = close(known, &found, &alone);
            let poison = judge::poison(known, &closure, &found, &alone);
            if let Some(poison) = &poison {
                verdicts[*number] = Verdict::Refused(poison.refusal(known, &closure));
            }
            poison.is_none()
        });
        if chosen.len() < wanted.len() {
            closure = close(known, &found, &chosen);
        }
    }
    while let Some(poison) = judge::poison(known, &closure, &found, &chosen) {
        let Some(site) = poison.site(known, &closure, &found, &chosen) else { break };
        verdicts[site] = Verdict::Refused(poison.refusal(known, &closure));
        chosen.retain(|n| *n != site);
        closure = close(known, &found, &chosen);
    }
    Choice { sites: found, verdicts, chosen }
}

/// Makes the slice.
fn make(known: Known<'_>, choice: Choice) -> Slice<'_> {
    let Choice { sites: found, mut verdicts, chosen } = choice;
    let closure = close(known, &found, &chosen);
    // A call may work on a file of a refused site and on one that is not: then neither can be predicted.
    for (rank, number) in chosen.iter().enumerate() {
        verdicts[*number] = Verdict::Sliced(rank as u32 + 1);
    }
    let fixed = callers::fixed_parameters(known);
    for (number, site) in found.iter().enumerate() {
        let kept = callers::is_read(known, &closure, site, &fixed);
        if kept && matches!(verdicts[number], Verdict::NotRead | Verdict::NotMarked) {
            verdicts[number] = Verdict::ReadBySlice;
        }
    }
    let ended = with_ends(known, &closure, &found, &chosen);
    let freed = with_frees(known, ended, &found, &chosen);
    Slice { known, closure: freed, sites: found.into_iter().zip(verdicts).collect() }
}

/// The steps that a slice could come to: it does not get past where it ends.
fn reached(known: Known<'_>) -> Vec<Vec<bool>> {
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

/// The slice of these sites, and of the files that it turns out to read itself.
fn close<'a>(known: Known<'a>, sites: &[Site], chosen: &[usize]) -> Closure<'a> {
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
        while giving_up::keep(known, &mut closure) {
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
            && outside(known, trial) == outside(known, before)
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
            && outside(known, &trial) == outside(known, &best)
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

/// How many kept calls ask the outside for something that only the program can be told.
fn outside(known: Known<'_>, closure: &Closure<'_>) -> usize {
    closure.points().into_iter().filter(|p| is_forwarded(known, *p)).count()
}

/// Must the program hand the result of this call to the slice?
pub(crate) fn is_forwarded(known: Known<'_>, point: Point) -> bool {
    let Some(call) = known.call(point) else { return false };
    if known.models_of(call).iter().any(|m| m.forward) || known.asked.contains(&point) && !known.ends(point) {
        return true;
    }
    let Some((io, _)) = known.io(point) else { return false };
    io.act() == Act::Reads && !known.files(point).iter().any(|f| matches!(f, Object::Open(_)))
}

/// The parts that the slice is made from, for those who own them.
pub(crate) struct Analysis<'a> {
    pub(crate) program: &'a Program,
    pub(crate) models: &'a Models,
    pub(crate) memory: Memory,
    pub(crate) points: Points,
    pub(crate) marks: Vec<Slot>,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) effects: Effects,
    pub(crate) control: Vec<Control>,
    pub(crate) through_pointers: Vec<bool>,
    pub(crate) one_way: BTreeSet<Id>,
    pub(crate) ends: Vec<Vec<bool>>,
    pub(crate) asked: BTreeSet<Point>,
    /// Where values come from, as far as it was asked for.
    pub(crate) kept: Kept,
}

impl Analysis<'_> {
    /// The slice of the program.
    pub(crate) fn slice<R>(&self, then: impl FnOnce(Slice<'_>) -> R) -> R {
        let plain = self.ending(&GivenUp::default(), |known| choose(known, &self.points, &self.marks));
        let (given_up, choice) = giving_up::extend(self, plain);
        self.ending(&given_up, |known| then(make(known, choice)))
    }

    /// What is known of the program if the slice also ends at these steps.
    fn ending<R>(&self, given_up: &GivenUp, then: impl FnOnce(Known<'_>) -> R) -> R {
        let mut ends = self.ends.clone();
        for (func, step) in given_up.points() {
            ends[func.ix()][step.ix()] = true;
        }
        let reach = Reach::new(&self.effects, &self.memory, &self.kept, &ends);
        then(Known {
            program: self.program,
            models: self.models,
            memory: &self.memory,
            graphs: &self.graphs,
            effects: &self.effects,
            control: &self.control,
            reach: &reach,
            through_pointers: &self.through_pointers,
            one_way: &self.one_way,
            ends: &ends,
            given_up,
            asked: &self.asked,
        })
    }
}
