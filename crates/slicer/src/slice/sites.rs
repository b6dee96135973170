//! Open sites: the calls that open files, what is done with those files, and which are worth it.

use std::collections::BTreeSet;

use crate::ast::program::{Func, Program};
use crate::ast::{Id, Kind};
use crate::flow::effects::Effects;
use crate::flow::{Graph, Point, Step, What};
use crate::memory::{Memory, Object};
use crate::models::{Act, Io, Models};
use crate::slice::known::Known;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be read.
    Read,
    /// To be read and written, whether it is there or made.
    Update,
    /// What for the source does not say: the slice finds out when it runs.
    Unclear,
    /// To be written, or made anew.
    Output,
}

/// An open site.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) call: Id,
    pub(crate) point: Point,
    pub(crate) purpose: Purpose,
    /// Reads from it, and everything that moves its offset or closes it.
    pub(crate) accesses: Vec<Point>,
    pub(crate) reads: Vec<Point>,
    /// The calls that map it.
    pub(crate) mappings: Vec<Id>,
}

impl Site {
    /// What its file is known by: the calls that open and map it.
    pub(crate) fn names(&self) -> impl Iterator<Item = Id> {
        std::iter::once(self.call).chain(self.mappings.iter().copied())
    }
}

/// The access mode of open(2) on Linux.
const ACCESS_MODE: i64 = 3;

/// All open sites that `main` can come to, in the order of the text.
pub(crate) fn find(known: Known<'_>, graphs: usize) -> Vec<Site> {
    let mut sites = Vec::new();
    let mut users: Vec<(Point, Io)> = Vec::new();
    for func in (0..graphs as u32).map(Func) {
        if !known.effects.reachable[func.ix()] && !known.effects.threaded[func.ix()] {
            continue;
        }
        for (step, _) in known.effects.calls(func) {
            let Some((io, _)) = known.io((func, step)) else { continue };
            if io.act() == Act::Opens {
                let call = known.graphs[func.ix()][step].ast;
                let purpose = purpose(known.program, io, call);
                sites.push(Site {
                    call,
                    point: (func, step),
                    purpose,
                    accesses: vec![(func, step)],
                    reads: Vec::new(),
                    mappings: Vec::new(),
                });
            }
            users.push(((func, step), io));
        }
    }
    for site in &mut sites {
        let file = Object::Open(site.call);
        for (point, io) in &users {
            if !matches!(io.act(), Act::Reads | Act::Moves) || !known.files(*point).contains(&&file) {
                continue;
            }
            site.accesses.push(*point);
            if io.act() == Act::Reads {
                site.reads.push(*point);
            }
        }
    }
    add_mapped(known, &mut sites, &users);
    sites
}

/// Accesses to mapped memory are accesses to the file that is mapped.
fn add_mapped(known: Known<'_>, sites: &mut [Site], users: &[(Point, Io)]) {
    for (point, _) in users.iter().filter(|(_, io)| *io == Io::Mmap) {
        let call = known.graphs[point.0.ix()][point.1].ast;
        let mapping = Object::Heap(call);
        let mut accesses = Vec::new();
        for (number, graph) in known.graphs.iter().enumerate() {
            let func = Func(number as u32);
            if !known.effects.reachable[number] && !known.effects.threaded[number] {
                continue;
            }
            for step in graph.steps() {
                if graph[step].what != What::Access && copied_bytes(known, (func, step)).is_none() {
                    continue;
                }
                let reads = &known.effects.of(func, step).reads;
                if reads.iter().any(|l| *known.memory.what(*l) == mapping) {
                    accesses.push((func, step));
                }
            }
        }
        for site in sites.iter_mut() {
            if known.files(*point).contains(&&Object::Open(site.call)) {
                site.mappings.push(call);
                site.accesses.push(*point);
                site.accesses.extend(&accesses);
                site.reads.extend(&accesses);
            }
        }
    }
}

/// The open calls for writing only, or for reading only: what a call writes to one of these files, nobody reads
/// there, as writing to the latter fails. So it is with files that are opened for both and read nowhere.
pub(crate) fn one_way(
    program: &Program,
    models: &Models,
    graphs: &[Graph],
    effects: &Effects,
    memory: &Memory,
) -> BTreeSet<Id> {
    let mut read = BTreeSet::new();
    for (_, call) in (0..graphs.len() as u32).map(Func).flat_map(|func| effects.calls(func)) {
        let models = call.externals.iter().filter_map(|name| models.get(name));
        let reads = models.filter_map(|model| model.io.map(|io| (io, model)));
        for (io, model) in reads.filter(|(io, _)| matches!(io.act(), Act::Reads) || *io == Io::Mmap) {
            let targets = io.file(model).and_then(|n| call.argument_targets.get(n)).into_iter().flatten();
            read.extend(targets.filter_map(|target| match memory.what(*target) {
                Object::Open(open) => Some(*open),
                _ => None,
            }));
        }
    }
    let mut found = BTreeSet::new();
    for number in 0..program.tree.nodes.len() as u32 {
        let call = Id(number);
        if program.tree[call].kind != Kind::Call {
            continue;
        }
        let is_one_way = match purpose_of(program, models, call) {
            Some(Purpose::Read | Purpose::Output) => true,
            Some(Purpose::Update) => !read.contains(&call),
            _ => false,
        };
        if is_one_way {
            found.insert(call);
        }
    }
    found
}

/// What a call is for, if it opens a file.
fn purpose_of(program: &Program, models: &Models, call: Id) -> Option<Purpose> {
    let io = program.tree.callee_name(call).and_then(|name| models.get(name)?.io);
    io.filter(|io| io.act() == Act::Opens).map(|io| purpose(program, io, call))
}

/// What an open call is for, as far as its arguments say.
fn purpose(program: &Program, io: Io, call: Id) -> Purpose {
    let tree = &program.tree;
    let arguments = tree.arguments(call);
    let flags = |n: usize| arguments.get(n).and_then(|a| tree.constant(*a));
    match io {
        Io::Creat => Purpose::Output,
        Io::Open | Io::Openat => match flags(if io == Io::Open { 1 } else { 2 }) {
            Some(flags) if flags & ACCESS_MODE == 0 => Purpose::Read,
            Some(flags) if flags & ACCESS_MODE == 1 => Purpose::Output,
            Some(_) => Purpose::Update,
            None => Purpose::Unclear,
        },
        _ => match arguments.get(1).and_then(|a| tree.string(*a)) {
            Some(mode) if mode.starts_with('r') && !mode.contains('+') => Purpose::Read,
            Some(mode) if mode.contains('+') => Purpose::Update,
            Some(_) => Purpose::Output,
            None => Purpose::Unclear,
        },
    }
}

/// Does freopen() open a stream for the same as it was open for, so that what is done with it means the same?
pub(crate) fn opens_again_alike(known: Known<'_>, point: Point) -> bool {
    let tree = &known.program.tree;
    let call = known.graphs[point.0.ix()][point.1].ast;
    let again = purpose(known.program, Io::Freopen, call);
    let has_name = tree.arguments(call).first().is_some_and(|name| tree.constant(*name) != Some(0));
    let files = known.files(point);
    let alike = |file: &&Object| match file {
        Object::Open(open) => purpose_of(known.program, known.models, *open) == Some(again),
        Object::Stdin => again == Purpose::Read,
        other => matches!(other, Object::Output) && again == Purpose::Output,
    };
    let is_one_way = matches!(again, Purpose::Read | Purpose::Output);
    has_name && is_one_way && !files.is_empty() && files.iter().all(alike)
}

/// Folders of the system, in which settings and tables lie but nobody's data.
const FOLDERS_OF_THE_SYSTEM: &[&str] = &["/etc/", "/proc/", "/sys/", "/dev/", "/usr/", "/run/"];

/// Does the name that the source gives the file say that it is one of the system's, or of the program's own settings?
pub(crate) fn is_configuration(known: Known<'_>, site: &Site) -> bool {
    let tree = &known.program.tree;
    let number = usize::from(known.io(site.point).is_some_and(|(io, _)| io == Io::Openat));
    let Some(name) = tree.arguments(site.call).get(number).and_then(|a| tree.string(*a)) else {
        return false;
    };
    FOLDERS_OF_THE_SYSTEM.iter().any(|folder| name.starts_with(folder))
        || [".conf", ".cfg", ".ini", "rc"].iter().any(|end| name.ends_with(end))
}

/// The path that an open call is given, as written in the source.
pub(crate) fn path_text(known: Known<'_>, site: &Site) -> String {
    let tree = &known.program.tree;
    let number = usize::from(known.io(site.point).is_some_and(|(io, _)| io == Io::Openat));
    let Some(argument) = tree.arguments(site.call).get(number) else { return "?".to_owned() };
    let node = &tree[tree.uncast(*argument)];
    match known.program.sources.exact(node.begin, node.end) {
        Some((file, from, to)) => known.program.sources.stretch(file, from, to).to_owned(),
        None => "?".to_owned(),
    }
}

/// Is the step a use of a name in a call, for messages?
pub(crate) fn call_name(known: Known<'_>, point: (Func, Step)) -> String {
    let ast = known.graphs[point.0.ix()][point.1].ast;
    let tree = &known.program.tree;
    match tree[ast].kind {
        Kind::Call => tree.callee_name(ast).unwrap_or("a call").to_owned(),
        _ => "an access".to_owned(),
    }
}

/// Of a call that copies memory: which argument it copies from, and which one says how much. Such a call is
/// an access where it copies from a mapped file; other functions read mapped memory unseen, on both sides.
pub(crate) fn copied_bytes(known: Known<'_>, point: Point) -> Option<(usize, usize)> {
    let call = known.call(point)?;
    let name = call.externals.first()?.trim_start_matches("__builtin_");
    matches!(name, "memcpy" | "memmove" | "mempcpy").then_some((1, 2))
}
