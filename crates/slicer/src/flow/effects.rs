//! What each step reads and writes, now that it is known what points where; what calls may change.

use std::collections::{BTreeSet, HashMap};

use super::{Callee, Graph, Step, Where};
use crate::ast::Id;
use crate::ast::program::{Func, Program, Scope};
use crate::memory::points::Points;
use crate::memory::{Loc, Memory, Obj, Object};
use crate::models::{Act, Io, Model, Models};

/// The state of the process that names of files begin at: what `chdir` changes.
const FOLDER: &str = "folder";

/// A step, seen through the points-to analysis.
#[derive(Debug, Default, Clone)]
pub(crate) struct Effect {
    pub(crate) reads: Vec<Loc>,
    /// What it writes, and whether it surely overwrites all of it.
    pub(crate) writes: Vec<(Loc, bool)>,
    pub(crate) call: Option<Call>,
}

/// A call, seen through the points-to analysis.
#[derive(Debug, Default, Clone)]
pub(crate) struct Call {
    /// The functions of the program that it may enter, also those that a library function calls back.
    pub(crate) targets: Vec<Func>,
    /// The library functions that it may enter.
    pub(crate) externals: Vec<String>,
    /// For each argument: what evaluating it reads, and where it points.
    pub(crate) argument_reads: Vec<Vec<Loc>>,
    pub(crate) argument_targets: Vec<Vec<Loc>>,
    /// Of the targets, which are called back with pointers into other arguments, and which.
    pub(crate) callback: Option<(Vec<Func>, Vec<usize>)>,
    /// Runs in another thread.
    pub(crate) thread: bool,
}

impl Call {
    /// Does the call give back memory, if its pointer is free()?
    pub(crate) fn may_free(&self) -> bool {
        self.externals.iter().any(|name| name == "free")
    }
}

/// Effects of all steps, and what functions may change.
#[derive(Debug)]
pub(crate) struct Effects {
    steps: Vec<Vec<Effect>>,
    /// What a call of each function may change, by object.
    changes: Vec<HashMap<Obj, Vec<Loc>>>,
    /// Can `main` come to it?
    pub(crate) reachable: Vec<bool>,
    /// Does it run in a thread of the program's own?
    pub(crate) threaded: Vec<bool>,
    /// Can it come to itself? Then a pointer may lead to the variables of another call of it.
    pub(crate) recursive: Vec<bool>,
}

impl Effects {
    pub(crate) fn new(
        program: &Program,
        models: &Models,
        graphs: &[Graph],
        memory: &mut Memory,
        points: &mut Points,
    ) -> Self {
        let named: HashMap<&str, Loc> = program
            .variables
            .iter()
            .enumerate()
            .filter(|(_, v)| matches!(v.scope, Scope::File(_)))
            .map(|(n, v)| {
                (v.name.as_str(), memory.whole(Object::Variable(crate::ast::program::Var(n as u32))))
            })
            .collect();
        let mut resolver = Resolver { program, models, memory, points, named };
        let steps: Vec<Vec<Effect>> =
            graphs.iter().map(|graph| graph.steps().map(|s| resolver.effect(graph, s)).collect()).collect();
        let mut effects = Self {
            changes: vec![HashMap::new(); graphs.len()],
            reachable: vec![false; graphs.len()],
            threaded: vec![false; graphs.len()],
            recursive: Vec::new(),
            steps,
        };
        effects.find_reachable(program.main);
        let calls: Vec<BTreeSet<Func>> = effects.call_graph();
        effects.recursive = (0..graphs.len()).map(|f| reaches(&calls, Func(f as u32))).collect();
        effects.weaken_shared(program, graphs, memory, points);
        effects.find_changes(program, memory, &calls);
        // Reads of mapped memory are accesses to a file.
        let mapped: BTreeSet<Id> = graphs
            .iter()
            .enumerate()
            .flat_map(|(n, graph)| effects.calls(Func(n as u32)).map(|(step, call)| (graph[step].ast, call)))
            .filter(|(_, call)| {
                call.externals.iter().any(|name| models.get(name).is_some_and(|m| m.io == Some(Io::Mmap)))
            })
            .map(|(ast, _)| ast)
            .collect();
        let is_mapped = |object: &Object| matches!(object, Object::Heap(id) if mapped.contains(id));
        super::classes::unite(&mut effects.steps, memory, is_mapped);
        effects
    }

    pub(crate) fn of(&self, func: Func, step: Step) -> &Effect {
        &self.steps[func.ix()][step.ix()]
    }

    /// What a call of `func` may change of an object.
    pub(crate) fn changes(&self, func: Func, object: Obj) -> &[Loc] {
        self.changes[func.ix()].get(&object).map_or(&[], Vec::as_slice)
    }

    /// The objects that a call of `func` may change.
    pub(crate) fn changed(&self, func: Func) -> impl Iterator<Item = Obj> {
        self.changes[func.ix()].keys().copied()
    }

    pub(crate) fn calls(&self, func: Func) -> impl Iterator<Item = (Step, &Call)> {
        let numbered = self.steps[func.ix()].iter().enumerate();
        numbered.filter_map(|(n, e)| e.call.as_ref().map(|c| (Step(n as u32), c)))
    }

    fn find_reachable(&mut self, main: Func) {
        let mut open = vec![(main, false)];
        while let Some((func, thread)) = open.pop() {
            let seen = if thread { &mut self.threaded } else { &mut self.reachable };
            if std::mem::replace(&mut seen[func.ix()], true) {
                continue;
            }
            for effect in &self.steps[func.ix()] {
                if let Some(call) = &effect.call {
                    open.extend(call.targets.iter().map(|t| (*t, thread || call.thread)));
                }
            }
        }
    }

    fn call_graph(&self) -> Vec<BTreeSet<Func>> {
        let targets = |e: &Effect| e.call.as_ref().map(|c| c.targets.clone()).unwrap_or_default();
        self.steps.iter().map(|steps| steps.iter().flat_map(targets).collect()).collect()
    }

    /// A location stands for the variable of all calls of a recursive function at once. If pointers lead to it,
    /// writing that of one call leaves those of the others as they are.
    fn weaken_shared(&mut self, program: &Program, graphs: &[Graph], memory: &Memory, points: &Points) {
        let through = |place: &Where| match place {
            Where::Through(slot) => points.targets(*slot).to_vec(),
            Where::At(_) => Vec::new(),
        };
        let mut pointed_to: BTreeSet<Obj> = BTreeSet::new();
        for node in graphs.iter().flat_map(|g| &g.nodes) {
            let places = node.reads.iter().chain(node.writes.iter().map(|(place, _)| place));
            pointed_to.extend(places.flat_map(through).map(|l| memory.object_of(l)));
            let values = node.call.iter().flat_map(|c| &c.arguments);
            pointed_to.extend(values.flat_map(|v| points.targets(v.slot)).map(|l| memory.object_of(*l)));
        }
        for (func, steps) in self.steps.iter_mut().enumerate().filter(|(f, _)| self.recursive[*f]) {
            for (location, surely) in steps.iter_mut().flat_map(|e| &mut e.writes) {
                let own = match memory.what(*location) {
                    Object::Variable(var) => match program.var(*var).scope {
                        Scope::Local(home) | Scope::Parameter(home, _) => home.ix() == func,
                        _ => false,
                    },
                    _ => false,
                };
                *surely &= !(own && pointed_to.contains(&memory.object_of(*location)));
            }
        }
    }

    fn find_changes(&mut self, program: &Program, memory: &Memory, calls: &[BTreeSet<Func>]) {
        let count = self.steps.len();
        let mut sets: Vec<BTreeSet<Loc>> = vec![BTreeSet::new(); count];
        // What lives in a function ends with it, but for a recursive one, which may change the variables of
        // its caller, another one of itself.
        let outlives = |func: usize, location: Loc| match memory.what(location) {
            Object::Result(_) => false,
            Object::Variable(var) => match program.var(*var).scope {
                Scope::Local(home) | Scope::Parameter(home, _) => home.ix() != func || self.recursive[func],
                _ => true,
            },
            _ => true,
        };
        for (func, steps) in self.steps.iter().enumerate() {
            let written = steps.iter().flat_map(|e| e.writes.iter().map(|w| w.0));
            sets[func].extend(written.filter(|l| outlives(func, *l)));
        }
        let mut changed = true;
        while changed {
            changed = false;
            for func in 0..count {
                for callee in &calls[func] {
                    if callee.ix() == func {
                        continue;
                    }
                    let more: Vec<Loc> =
                        sets[callee.ix()].iter().copied().filter(|l| outlives(func, *l)).collect();
                    let before = sets[func].len();
                    sets[func].extend(more);
                    changed |= sets[func].len() != before;
                }
            }
        }
        for (func, set) in sets.into_iter().enumerate() {
            for location in set {
                self.changes[func].entry(memory.object_of(location)).or_default().push(location);
            }
        }
    }
}

/// Can a function come to itself?
fn reaches(calls: &[BTreeSet<Func>], start: Func) -> bool {
    let mut open: Vec<Func> = calls[start.ix()].iter().copied().collect();
    let mut seen = BTreeSet::new();
    while let Some(func) = open.pop() {
        if func == start {
            return true;
        }
        if seen.insert(func) {
            open.extend(&calls[func.ix()]);
        }
    }
    false
}

/// What stands for the function in a call through a pointer that nothing is known to have been stored in.
pub(crate) const FUNCTION_NOT_FOLLOWED: &str = "a function through a pointer that is not followed";

struct Resolver<'r> {
    program: &'r Program,
    models: &'r Models,
    memory: &'r mut Memory,
    points: &'r mut Points,
    /// Variables at file scope.
    named: HashMap<&'r str, Loc>,
}

impl Resolver<'_> {
    fn effect(&mut self, graph: &Graph, step: Step) -> Effect {
        let node = &graph[step];
        let mut effect = Effect::default();
        for place in &node.reads {
            self.resolve(*place, &mut effect.reads);
        }
        for (place, surely) in &node.writes {
            let mut written = Vec::new();
            self.resolve(*place, &mut written);
            effect.writes.extend(written.into_iter().map(|l| (l, *surely)));
        }
        let Some(site) = &node.call else { return effect };
        let mut call = Call::default();
        for value in &site.arguments {
            let mut reads = Vec::new();
            for place in &value.reads {
                self.resolve(*place, &mut reads);
            }
            call.argument_reads.push(reads);
            call.argument_targets.push(self.points.targets(value.slot).to_vec());
        }
        match &site.callee {
            Callee::Function(func) => call.targets.push(*func),
            Callee::Library(name) => call.externals.push(name.clone()),
            Callee::Pointer(slot) => {
                for target in self.points.targets(*slot) {
                    match self.memory.what(*target) {
                        Object::Function(func) => call.targets.push(*func),
                        Object::Library(name) => call.externals.push(name.clone()),
                        _ => {}
                    }
                }
                if call.targets.is_empty() && call.externals.is_empty() {
                    call.externals.push(FUNCTION_NOT_FOLLOWED.to_owned());
                }
            }
        }
        for name in call.externals.clone() {
            self.external(&name, node.ast, &mut call, &mut effect);
        }
        call.targets.sort_unstable();
        call.targets.dedup();
        effect.call = Some(call);
        effect
    }

    fn resolve(&self, place: Where, into: &mut Vec<Loc>) {
        match place {
            Where::At(location) => into.push(location),
            Where::Through(slot) => into.extend(self.memory_of(self.points.targets(slot))),
        }
    }

    /// Those locations that bytes can be written to. Strings of the source stay what they are.
    fn memory_of(&self, targets: &[Loc]) -> Vec<Loc> {
        let is_memory = |l: &Loc| {
            let what = self.memory.what(*l);
            !matches!(
                what,
                Object::Function(_)
                    | Object::Library(_)
                    | Object::Literal(_)
                    | Object::Open(_)
                    | Object::Stdin
                    | Object::Output
            )
        };
        targets.iter().copied().filter(is_memory).collect()
    }

    fn functions_among(&self, targets: &[Loc]) -> Vec<Func> {
        let func = |l: &Loc| match self.memory.what(*l) {
            Object::Function(func) => Some(*func),
            _ => None,
        };
        targets.iter().filter_map(func).collect()
    }

    fn external(&mut self, name: &str, ast: Id, call: &mut Call, effect: &mut Effect) {
        let Some(model) = self.models.get(name) else {
            self.reaches(call, effect, &self.read_only(ast));
            let called = self.functions_among(&call.argument_targets.concat());
            call.targets.extend(called);
            return;
        };
        let model: &Model = model;
        let at = |n: usize| call.argument_targets.get(n).map_or(&[][..], Vec::as_slice);
        if model.reaches {
            self.reaches(call, effect, &[]);
        }
        if let Some(n) = model.list {
            let rest = self.stored_in(at(n));
            let pointed_to = self.stored_in(&rest);
            let memory = self.memory_of(&pointed_to);
            effect.reads.extend(self.memory_of(at(n)));
            effect.reads.extend(self.memory_of(&rest));
            effect.reads.extend(&memory);
            effect.writes.extend(memory.into_iter().filter(|_| model.fills).map(|l| (l, false)));
        }
        if let Some(io) = model.io {
            if io.act() == Act::Opens {
                effect.reads.push(self.memory.whole(Object::State(FOLDER.to_owned())));
            }
            if io == Io::Fchdir {
                let folder = self.memory.whole(Object::State(FOLDER.to_owned()));
                effect.reads.push(folder);
                effect.writes.push((folder, false));
            }
            for n in io.reads() {
                effect.reads.extend(self.memory_of(at(*n)));
            }
            for n in io.writes() {
                effect.writes.extend(self.memory_of(at(*n)).into_iter().map(|l| (l, false)));
            }
            if matches!(io, Io::Readv | Io::Preadv) {
                let buffers = self.stored_in(at(1));
                effect.writes.extend(self.memory_of(&buffers).into_iter().map(|l| (l, false)));
            }
            if matches!(io, Io::Getline | Io::Getdelim) {
                let lines = self.stored_in(at(0));
                effect.writes.extend(self.memory_of(&lines).into_iter().map(|l| (l, false)));
            }
            return;
        }
        for n in 0..call.argument_targets.len() {
            if model.reads_argument(n) && !model.output {
                effect.reads.extend(self.memory_of(at(n)));
            }
        }
        for n in &model.makes {
            // Who makes such a call for its result does without the name.
            if let Some(targets) = call.argument_targets.get(*n) {
                let text = self.memory_of(targets);
                call.argument_reads[*n].extend(text);
            }
        }
        for n in &model.writes {
            effect.writes.extend(self.memory_of(at(*n)).into_iter().map(|l| (l, false)));
        }
        for n in &model.stores {
            effect.writes.extend(self.memory_of(at(*n)).into_iter().map(|l| (l, false)));
        }
        if let Some(state) = &model.state {
            let hidden = self.memory.whole(Object::State(state.clone()));
            effect.reads.push(hidden);
            effect.writes.push((hidden, false));
        }
        if let Some(state) = &model.asks {
            effect.reads.push(self.memory.whole(Object::State(state.clone())));
        }
        for variable in model.globals.iter().filter_map(|g| self.named.get(g.as_str())) {
            effect.reads.push(*variable);
            effect.writes.push((*variable, false));
        }
        let called_back =
            model.calls.as_ref().map(|c| (self.functions_among(at(c.argument)), c.with.clone()));
        if let Some((functions, with)) = called_back {
            call.targets.extend(&functions);
            call.callback = Some((functions, with));
        }
        if let Some(n) = model.thread {
            let started = self.functions_among(at(n));
            call.targets.extend(started);
            call.thread = true;
        }
    }

    /// It may read and write all that its arguments lead to, but through these only read.
    fn reaches(&mut self, call: &Call, effect: &mut Effect, read_only: &[usize]) {
        let of = |chosen: &dyn Fn(usize) -> bool| -> Vec<Loc> {
            let numbered = call.argument_targets.iter().enumerate();
            numbered.filter(|(n, _)| chosen(*n)).flat_map(|(_, targets)| targets.iter().copied()).collect()
        };
        let (written, read) = (of(&|n| !read_only.contains(&n)), of(&|n| read_only.contains(&n)));
        for target in self.reachable(&written) {
            effect.reads.push(target);
            effect.writes.push((target, false));
        }
        let read = self.memory_of(&read);
        effect.reads.extend(read);
    }

    /// The arguments of a call that are pointers to constant bytes or numbers: `const char *`. The function could cast
    /// that away; then the slice predicts something wrong, and ends.
    fn read_only(&self, call: Id) -> Vec<usize> {
        let tree = &self.program.tree;
        let is_constant = |id: &Id| {
            let ty = tree[*id].ty.plain();
            let mut pointed_to = ty.trim_end().strip_suffix('*').into_iter();
            pointed_to
                .any(|to| to.starts_with("const ") && !to.contains(['*', '(']) && !to.contains("struct "))
        };
        let numbered = tree.arguments(call).iter().enumerate();
        numbered.filter(|(_, id)| is_constant(id)).map(|(n, _)| n).collect()
    }

    /// What is stored in memory at these locations, one step further.
    fn stored_in(&mut self, targets: &[Loc]) -> Vec<Loc> {
        let mut found = Vec::new();
        for target in targets {
            let object = self.memory.object_of(*target);
            for part in self.memory.of_object(object).to_vec() {
                if self.memory.overlap(part, *target) {
                    let cell = self.points.content(part);
                    found.extend_from_slice(self.points.targets(cell));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// All memory that can be reached from these locations.
    fn reachable(&mut self, targets: &[Loc]) -> Vec<Loc> {
        let mut seen: BTreeSet<Loc> = BTreeSet::new();
        let mut open = self.memory_of(targets);
        while let Some(location) = open.pop() {
            if seen.insert(location) {
                let further = self.stored_in(&[location]);
                open.extend(self.memory_of(&further));
            }
        }
        seen.into_iter().collect()
    }
}
