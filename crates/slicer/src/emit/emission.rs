//! What both sides of the translation need to know.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ast::program::{Func, Scope, Var};
use crate::ast::{Id, Kind};
use crate::flow::{Point, Step, What};
use crate::memory::{Loc, Object};
use crate::models::{Io, Model};
use crate::slice::Slice;
use crate::slice::judge::Verdict;
use crate::slice::known::Known;
use crate::slice::makers;
use crate::slice::numbers;
use crate::slice::sites::copied_bytes;

/// The largest number of a channel; larger ones are the runtime's.
const MOST_CHANNELS: u32 = i32::MAX as u32;

/// What both sides need to know.
pub(super) struct Emission<'a> {
    pub(super) slice: &'a Slice<'a>,
    pub(super) known: Known<'a>,
    /// The number of each open call that is tracked.
    pub(super) numbers: HashMap<Id, u32>,
    /// The channel of each call whose result the program hands over.
    pub(super) channels: BTreeMap<Point, u32>,
    /// Does the slice read ahead in standard input?
    pub(super) input_ahead: bool,
    /// Variables that anybody writes.
    pub(super) written: BTreeSet<Var>,
    /// Variables at file scope whose initial value names something that the slice has a version of.
    pub(super) renamed: BTreeSet<Var>,
    /// The step of each node of the tree, over all functions.
    pub(super) steps: HashMap<Id, Point>,
    /// Mappings of tracked files.
    pub(super) mapped: BTreeSet<Id>,
    /// Variables at file scope of which some unit names the private copy.
    pub(super) named_copies: BTreeSet<Var>,
    /// Which units are what a preprocessor has left.
    pub(super) preprocessed: Vec<bool>,
    /// Names in the program, so that a made-up one is none of them.
    pub(super) taken: BTreeSet<String>,
}

impl<'a> Emission<'a> {
    pub(super) fn new(slice: &'a Slice<'a>, preprocessed: Vec<bool>) -> Self {
        let known = slice.known;
        let mut numbers = HashMap::new();
        for (site, verdict) in &slice.sites {
            if let Verdict::Sliced(number) = verdict {
                numbers.insert(site.call, *number);
            }
        }
        let mut steps = HashMap::new();
        let mut written = BTreeSet::new();
        for (number, graph) in known.graphs.iter().enumerate() {
            let func = Func(number as u32);
            steps.extend(graph.step_of.iter().map(|(id, step)| (*id, (func, *step))));
            for step in graph.steps() {
                for (location, _) in &known.effects.of(func, step).writes {
                    if let Object::Variable(var) = known.memory.what(*location) {
                        written.insert(*var);
                    }
                }
            }
        }
        let forwarded = |p: &Point| known.is_forwarded(*p) && slice.closure.keeps(*p);
        let points: Vec<Point> = slice.closure.points().into_iter().filter(forwarded).collect();
        let calls: Vec<Id> = points.iter().map(|(func, step)| known.graphs[func.ix()][*step].ast).collect();
        let channels = numbers::of_calls(known.program, &calls, MOST_CHANNELS);
        let channels = points.into_iter().zip(channels).collect();
        let mut emission = Self {
            slice,
            known,
            numbers,
            channels,
            input_ahead: false,
            written,
            renamed: BTreeSet::new(),
            steps,
            mapped: BTreeSet::new(),
            named_copies: BTreeSet::new(),
            preprocessed,
            taken: BTreeSet::new(),
        };
        emission.mapped = emission.find_mapped();
        emission.find_renamed();
        let program = known.program;
        emission.taken.extend(program.functions.iter().map(|f| f.name.clone()));
        emission.taken.extend(program.unreached.iter().cloned());
        emission.taken.extend(program.variables.iter().map(|v| v.name.clone()));
        emission
    }

    /// A table of functions is copied although nobody writes it: the slice's copy is of its own functions.
    fn find_renamed(&mut self) {
        let program = self.known.program;
        loop {
            let before = self.renamed.len();
            for number in 0..program.variables.len() as u32 {
                let var = Var(number);
                let variable = program.var(var);
                if !variable.is_static() || !variable.defined || self.renamed.contains(&var) {
                    continue;
                }
                let names_ours = program.tree.below(variable.node).into_iter().any(|id| {
                    let function = program.function(id).is_some_and(|f| self.slice.closure.live[f.ix()]);
                    let copy = program.tree[id].kind == Kind::DeclRef
                        && program.variable(id).is_some_and(|v| self.has_copy(v));
                    function || copy || self.is_end(id)
                });
                if names_ours {
                    self.renamed.insert(var);
                }
            }
            if self.renamed.len() == before {
                return;
            }
        }
    }

    /// Does this name a function of the library that ends the program? A pointer to it is one to the slice's own end.
    pub(super) fn is_end(&self, id: Id) -> bool {
        let node = &self.known.program.tree[id];
        node.kind == Kind::DeclRef
            && node.operator == "FunctionDecl"
            && self.known.program.function(id).is_none()
            && self.known.models.get(&node.refers_to_name).is_some_and(Model::is_named_anew)
    }

    fn find_mapped(&self) -> BTreeSet<Id> {
        let mut mapped = BTreeSet::new();
        for (number, graph) in self.known.graphs.iter().enumerate() {
            for step in graph.steps() {
                let point = (Func(number as u32), step);
                if self.known.io(point).is_some_and(|(io, _)| io == Io::Mmap) && self.is_tracked(point) {
                    mapped.insert(graph[step].ast);
                }
            }
        }
        mapped
    }

    /// Is this an access to a mapped file that is tracked?
    pub(super) fn is_mapped(&self, point: Point) -> bool {
        let what = &self.known.graphs[point.0.ix()][point.1].what;
        let copies = copied_bytes(self.known, point).is_some();
        (*what == What::Access || copies)
            && self.known.effects.of(point.0, point.1).reads.iter().any(|l| self.is_mapping(*l))
    }

    pub(super) fn is_mapping(&self, location: Loc) -> bool {
        matches!(self.known.memory.what(location), Object::Heap(call) if self.mapped.contains(call))
    }

    /// Does a call work on a file whose accesses are predicted?
    pub(super) fn is_tracked(&self, point: Point) -> bool {
        let ast = self.known.graphs[point.0.ix()][point.1].ast;
        if self.numbers.contains_key(&ast) {
            return true;
        }
        if self.known.io(point).is_some_and(|(io, _)| io == Io::Munmap) {
            let unmapped = self.known.call(point).and_then(|c| c.argument_targets.first());
            return unmapped.is_some_and(|targets| targets.iter().any(|l| self.is_mapping(*l)));
        }
        self.known
            .files(point)
            .iter()
            .any(|f| matches!(f, Object::Open(call) if self.numbers.contains_key(call)))
    }

    /// Does the slice change hidden state of the library, or write to the arguments of the program? Then it
    /// must not share memory with the program.
    pub(super) fn needs_process(&self) -> bool {
        let known = self.known;
        self.slice.closure.points().into_iter().any(|point| {
            let state =
                known.call(point).is_some_and(|c| known.models_of(c).iter().any(|m| m.state.is_some()));
            let writes = &known.effects.of(point.0, point.1).writes;
            state || writes.iter().any(|(l, _)| self.is_of_environment(*l))
        })
    }

    /// How the program starts its slice: the name of the call, and what stands before it.
    pub(super) fn start(&self) -> String {
        let limits = |call| self.known.models_of(call).iter().any(|model| model.limits);
        let is_told = self.channels.keys().any(|point| self.known.call(*point).is_some_and(limits));
        format!(
            "{}{}foretell_slice_start{}",
            if makers::makes_files(self.known, &self.slice.sites) {
                "foretell_slice_makes_files(); "
            } else {
                ""
            },
            if is_told { "foretell_slice_remember_limits(); " } else { "" },
            if self.needs_process() { "_forked" } else { "" },
        )
    }

    /// Arguments and environment are the same memory for all threads.
    pub(super) fn is_of_environment(&self, location: Loc) -> bool {
        match self.known.memory.what(location) {
            Object::Arguments | Object::ArgumentText => true,
            Object::Heap(call) => {
                let name = self.known.program.tree.callee_name(*call);
                name.is_some_and(|name| name.ends_with("getenv"))
            }
            _ => false,
        }
    }

    /// The step that stands for a node, if it is kept.
    pub(super) fn kept(&self, id: Id) -> Option<Point> {
        self.steps.get(&id).copied().filter(|p| self.slice.closure.keeps(*p))
    }

    pub(super) fn point(&self, id: Id) -> Option<(Func, Step)> {
        self.steps.get(&id).copied()
    }

    pub(super) fn is_preprocessed(&self, unit: u16) -> bool {
        self.preprocessed[usize::from(unit)]
    }

    /// A name for the slice's version of something.
    pub(super) fn name(&self, original: &str) -> String {
        let mut name = format!("slice_{original}");
        while self.taken.contains(&name) {
            name.push('_');
        }
        name
    }

    /// Does the slice have a copy of this variable of its own?
    pub(super) fn has_copy(&self, var: Var) -> bool {
        let variable = self.known.program.var(var);
        matches!(variable.scope, Scope::File(_))
            && variable.defined
            && (self.written.contains(&var) || self.renamed.contains(&var))
    }
}
