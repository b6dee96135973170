//! What cannot be sliced, and why.
//!
//! A site is refused when its slice contains something that is not understood or must not be done twice.
//! The refusal names the step, the cause, the chain of steps that need it, and the remedy.

use crate::ast::Id;
use crate::ast::program::Func;
use crate::flow::effects::Call;
use crate::flow::{Callee, Point, What};
use crate::memory::Object;
use crate::models::{Act, Io, Model};
use crate::slice::closure::{Closure, Reason};
use crate::slice::known::Known;
use crate::slice::sites::{self, Purpose, Site, call_name};

/// Why an open site is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `file:line` of what cannot be sliced.
    pub place: String,
    /// What it is, and what is wrong with it.
    pub cause: String,
    /// Who needs it: from there to the access, each a `file:line: text`.
    pub chain: Vec<String>,
    /// What the programmer may do.
    pub remedy: String,
}

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

/// Something in a slice that must not be there.
pub(crate) struct Poison {
    pub(crate) point: Point,
    /// What the slice may do in place of it.
    pub(super) way_out: WayOut,
    cause: String,
    remedy: &'static str,
}

/// What a slice may do about something that must not be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WayOut {
    /// End, where it needs what the step gives.
    EndIfNeeded,
    /// End wherever the program comes to it.
    End,
    /// Nothing: the step is not on its own way.
    None,
}

const DECLARE: &str = "declare it with FORETELL_PURE if its result depends on its arguments alone, with \
                       FORETELL_WRITES(n) if it only writes where argument n points, say it in a table of models, or \
                       add its source file";
const MOVE_OUT: &str = "compute what the file's offsets depend on without it";

/// The first thing in a slice that must not be there, if any.
pub(crate) fn poison(
    known: Known<'_>,
    closure: &Closure<'_>,
    sites: &[Site],
    chosen: &[usize],
) -> Option<Poison> {
    let in_steps = closure.points().into_iter().find_map(|point| poisoned(known, closure, point));
    in_steps.or_else(|| poison_around(known, sites, chosen))
}

/// All that must not be in a slice, as far as it is found in one look.
pub(super) fn poisons(
    known: Known<'_>,
    closure: &Closure<'_>,
    sites: &[Site],
    chosen: &[usize],
) -> Vec<Poison> {
    let points = closure.points().into_iter();
    let found: Vec<Poison> = points.filter_map(|point| poisoned(known, closure, point)).collect();
    if found.is_empty() { poison_around(known, sites, chosen).into_iter().collect() } else { found }
}

fn poisoned(known: Known<'_>, closure: &Closure<'_>, point: Point) -> Option<Poison> {
    let (cause, remedy) = at_step(known, closure, point)?;
    // The slice is one thread and never comes to what another one does.
    let way_out = if known.effects.reachable[point.0.ix()] && !is_read_in_thread(known, point) {
        WayOut::EndIfNeeded
    } else {
        WayOut::None
    };
    Some(Poison { point, way_out, cause, remedy })
}

/// What lies outside of the slice and is in its way all the same.
fn poison_around(known: Known<'_>, sites: &[Site], chosen: &[usize]) -> Option<Poison> {
    if let Some(point) = confined_elsewhere(known) {
        let cause = format!(
            "{}() is called in another thread: when the program changes what it may do cannot be told",
            call_name(known, point)
        );
        let remedy = "change it before the thread is started";
        return Some(Poison { point, way_out: WayOut::None, cause, remedy });
    }
    let chosen: Vec<&Site> = chosen.iter().map(|n| &sites[*n]).collect();
    leaks(known, &chosen)
}

/// A change of what the program may do, made by a thread of its own.
fn confined_elsewhere(known: Known<'_>) -> Option<Point> {
    (0..known.graphs.len()).filter(|n| known.effects.threaded[*n]).find_map(|number| {
        let func = Func(number as u32);
        known.effects.calls(func).map(|(step, _)| (func, step)).find(|point| known.confines(*point))
    })
}

/// A site that is read only where the slice has ended, as the program has changed what it may do.
pub(crate) fn beyond_reach(known: Known<'_>, reached: &[Vec<bool>], site: &Site) -> Option<Refusal> {
    if site.reads.iter().any(|(func, step)| reached[func.ix()][step.ix()]) {
        return None;
    }
    let mut confining = (0..known.graphs.len() as u32).map(Func).flat_map(|func| {
        known.effects.calls(func).map(move |(step, _)| (func, step)).filter(|point| known.confines(*point))
    });
    let point = confining.find(|(func, step)| known.ends((*func, *step)) && reached[func.ix()][step.ix()])?;
    Some(Refusal {
        place: known.program.describe(site.call),
        cause: format!(
            "it is read only after {}() ({}), by which the program changes what it may do: the slice ends there",
            call_name(known, point),
            known.program.describe(known.graphs[point.0.ix()][point.1].ast)
        ),
        chain: Vec::new(),
        remedy: "read the file before, or leave it to `foretell run`".to_owned(),
    })
}

/// Why no site is read, where one is: a function without source has the file.
pub(crate) fn handed_away(known: Known<'_>, sites: &[(Site, Verdict)]) -> Option<Refusal> {
    let unread = |(site, verdict): &&(Site, Verdict)| {
        site.purpose != Purpose::Output && site.reads.is_empty() && *verdict == Verdict::NotRead
    };
    sites.iter().filter(unread).find_map(|(site, _)| {
        let file = Object::Open(site.call);
        let mut calls = (0..known.graphs.len() as u32)
            .map(Func)
            .flat_map(|func| known.effects.calls(func).filter(move |_| known.effects.reachable[func.ix()]));
        let name = calls.find_map(|(_, call)| {
            let name = call.externals.iter().find(|name| known.models.get(name).is_none())?;
            let mut targets = call.argument_targets.iter().flatten();
            targets.any(|target| *known.memory.what(*target) == file).then(|| name.clone())
        })?;
        Some(Refusal {
            place: known.program.describe(site.call),
            cause: format!("the file is handed to {name}(), and read where no source is known"),
            chain: Vec::new(),
            remedy: "add the source that reads it".to_owned(),
        })
    })
}

fn at_step(known: Known<'_>, closure: &Closure<'_>, point: Point) -> Option<(String, &'static str)> {
    let node = &known.graphs[point.0.ix()][point.1];
    if known.gives_up(point) {
        return None;
    }
    if let What::Opaque(what) = node.what {
        return Some((format!("{what} cannot be sliced"), MOVE_OUT));
    }
    if is_read_in_thread(known, point) {
        let cause = "the file is read in another thread, in an order that cannot be told".to_owned();
        return Some((cause, "read the file in the first thread, or leave it to `foretell run`"));
    }
    let call = known.call(point)?;
    if known.ends(point) {
        return None;
    }
    if let Some(site) = &node.call
        && matches!(site.callee, Callee::Pointer(_))
        && let others = written_anew(known, call)
        && !others.is_empty()
    {
        let cause = format!("the call through a pointer may enter {}", others.join(", "));
        return Some((cause, "call the function by its name"));
    }
    for name in &call.externals {
        let Some(model) = known.models.get(name) else {
            if known.asked.contains(&point) && !closure.data.contains(&point) {
                continue;
            }
            return Some((
                format!("{name}() is not known: what it reads and writes cannot be told"),
                DECLARE,
            ));
        };
        if let Some(why) = &model.unsupported
            && !makes_followed_list(known, name, point)
            && !known.is_told(point, model)
        {
            return Some((format!("{name}(): {why}"), MOVE_OUT));
        }
        if model.output && model.assumed.is_none() && closure.valued.contains(&point) {
            return Some((
                format!("{name}() acts on the outside, so the slice cannot call it for its result"),
                MOVE_OUT,
            ));
        }
        if let Some(io) = model.io
            && let Some(found) = at_file(known, point, io)
        {
            return Some(found);
        }
    }
    None
}

/// The library functions that a call through a pointer may enter and in whose place the slice says something else.
fn written_anew(known: Known<'_>, call: &Call) -> Vec<String> {
    let is_pointed_to = |model: &Model| model.is_called_as_written() || model.is_named_anew();
    let other = |name: &&String| !known.models.get(name).is_some_and(is_pointed_to);
    call.externals.iter().filter(other).cloned().collect()
}

fn is_read_in_thread(known: Known<'_>, point: Point) -> bool {
    known.effects.threaded[point.0.ix()] && known.io(point).is_some_and(|(io, _)| io.act() == Act::Reads)
}

fn at_file(known: Known<'_>, point: Point, io: Io) -> Option<(String, &'static str)> {
    let files = known.files(point);
    let name = call_name(known, point);
    match io.act() {
        Act::Reads | Act::Asks => {
            // If it may be a file as well, the slice finds out.
            if files.contains(&&Object::Output) && !files.iter().any(|f| matches!(f, Object::Open(_))) {
                return Some((format!("{name}() on standard output"), MOVE_OUT));
            }
            None
        }
        Act::Moves if io == Io::Print && !known.is_output(point) && !prints_to_stream(known, point) => {
            Some((
                format!(
                    "{name}() writes to a file that is also read: how far it moves the offset is not known"
                ),
                "write with fwrite() or write()",
            ))
        }
        Act::Renames if io == Io::Dup2 => {
            Some(("dup2() gives a descriptor a new file".to_owned(), "use the descriptor that open() gave"))
        }
        Act::Moves if io == Io::Freopen && !sites::opens_again_alike(known, point) => {
            Some(("freopen() opens the stream's file for something else".to_owned(), "use fopen()"))
        }
        _ => None,
    }
}

/// Does the call print to a stream? Then the slice has it to ask: of one that can be read, too, it does not know afterwards
/// where it stands, and ends.
fn prints_to_stream(known: Known<'_>, point: Point) -> bool {
    let tree = &known.program.tree;
    known.io(point).is_some_and(|(_, model)| {
        let call = known.graphs[point.0.ix()][point.1].ast;
        tree.arguments(call).get(model.argument).is_some_and(|stream| tree[*stream].ty.is_pointer())
    })
}

/// Does the call make a list of arguments of the kind that is followed: one that is passed by its address?
fn makes_followed_list(known: Known<'_>, name: &str, point: Point) -> bool {
    let tree = &known.program.tree;
    let list = tree.arguments(known.graphs[point.0.ix()][point.1].ast).first();
    name.starts_with("__builtin_va_") && list.is_some_and(|list| tree[*list].ty.is_argument_list())
}

/// Is a file handed to somebody who may read it behind our back?
fn leaks(known: Known<'_>, chosen: &[&Site]) -> Option<Poison> {
    for number in 0..known.graphs.len() as u32 {
        let func = Func(number);
        if !known.effects.reachable[func.ix()] {
            continue;
        }
        for (step, call) in known.effects.calls(func) {
            for name in &call.externals {
                // No function of the table reads an open file, but those that say so.
                if known.models.get(name).is_some() || known.ends((func, step)) {
                    continue;
                }
                let handed = call.argument_targets.iter().flatten().any(|target| {
                    matches!(known.memory.what(*target), Object::Open(call) if chosen.iter().any(|s| s.call == *call))
                });
                if handed {
                    let cause = format!("the open file is handed to {name}(), which may read it");
                    let point = (func, step);
                    return Some(Poison { point, way_out: WayOut::End, cause, remedy: DECLARE });
                }
            }
        }
    }
    None
}

impl Poison {
    /// What is wrong, for a list of the places where the slice ends.
    pub(super) fn cause(&self) -> &str {
        &self.cause
    }

    /// Which of the sites the chain begins at: at an access, or at a call that is given the file. The first
    /// one if there is no chain.
    pub(crate) fn site(
        &self,
        known: Known<'_>,
        closure: &Closure<'_>,
        sites: &[Site],
        chosen: &[usize],
    ) -> Option<usize> {
        let root = closure.chain(self.point).last().map(|(point, _)| *point);
        let accesses = |n: &&usize| root.is_some_and(|root| sites[**n].accesses.contains(&root));
        let given = |n: &&usize| {
            let call = root.and_then(|root| known.call(root));
            call.is_some_and(|call| {
                let mut targets = call.argument_targets.iter().flatten();
                targets.any(|l| *known.memory.what(*l) == Object::Open(sites[**n].call))
            })
        };
        chosen.iter().find(accesses).or(chosen.iter().find(given)).or(chosen.first()).copied()
    }

    pub(crate) fn refusal(&self, known: Known<'_>, closure: &Closure<'_>) -> Refusal {
        let ast = known.graphs[self.point.0.ix()][self.point.1].ast;
        Refusal {
            place: known.program.describe(ast),
            cause: self.cause.clone(),
            chain: closure.chain(self.point).iter().map(|(p, r)| link(known, *p, *r)).collect(),
            remedy: self.remedy.to_owned(),
        }
    }
}

/// One line of a chain: where, what, and what for.
pub(crate) fn link(known: Known<'_>, point: Point, reason: Reason) -> String {
    let ast = known.graphs[point.0.ix()][point.1].ast;
    let what = excerpt(known, ast);
    let why = match reason {
        Reason::Access => "is an access, or moves the offset of one".to_owned(),
        Reason::CallsAccess => "calls what makes an access".to_owned(),
        Reason::Ends => "ends the program".to_owned(),
        Reason::Confines => "changes what the program may do, which ends the slice".to_owned(),
        Reason::Frees => "gives back memory".to_owned(),
        Reason::Makes => "makes or removes a file that may be read later".to_owned(),
        Reason::GivesUp => "is where the slice ends, as it cannot follow it".to_owned(),
        Reason::Decides(_) => "decides whether the next is executed".to_owned(),
        Reason::PartOf(_) => "gives part of the next".to_owned(),
        Reason::Gives(_, location) => match known.memory.what(location) {
            Object::Variable(var) => format!("gives `{}` to the next", known.program.var(*var).name),
            _ => "gives memory to the next".to_owned(),
        },
    };
    format!("{}: `{what}` {why}", known.program.describe(ast))
}

/// The first line of a node's text, shortened.
pub(crate) fn excerpt(known: Known<'_>, ast: Id) -> String {
    /// So that a chain stays readable in a terminal of 110 columns.
    const MOST: usize = 60;
    let node = &known.program.tree[ast];
    let sources = &known.program.sources;
    let text = match sources.exact(node.begin, node.end) {
        Some((file, from, to)) => sources.stretch(file, from, to),
        None => sources.stretch(node.begin.file, node.begin.offset, node.end.offset + node.end.length),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.split(" {").next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line.to_owned(),
    }
}

/// Is this site one that a slice may be made for?
pub(crate) fn is_candidate(site: &Site) -> bool {
    site.purpose != Purpose::Output && !site.reads.is_empty()
}
