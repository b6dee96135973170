//! From the syntax tree of a function to its steps, and to the rules of the points-to analysis.
//!
//! Both are made in one walk, because both need to know what an expression reads and which value goes
//! where. The walk keeps a *frontier*: the edges that wait for the next step. A loop, a switch and a
//! label collect edges of their own.

mod call;
mod computed_length;
mod expression;
mod statement;

pub(crate) use statement::is_variable_length;

use std::collections::HashMap;

use super::{EXIT, Graph, Node, Step, Value, What, Where};
use crate::ast::program::{Func, Program, Var};
use crate::ast::{Id, Kind};
use crate::memory::points::{Points, Slot};
use crate::memory::{Loc, Memory, Object};
use crate::models::{Io, Models};

/// An edge whose end is not known yet; `true` if it is taken, `false` if it only is the way past a jump.
type Edge = (Step, bool);

/// Where `break` and `continue` go.
#[derive(Default)]
struct Enclosing {
    breaks: Vec<Edge>,
    continues: Vec<Edge>,
    is_loop: bool,
    /// Of a switch: its step, and whether it has a default.
    switch: Option<Step>,
    has_default: bool,
}

/// What is built for the whole program.
pub(crate) struct Lowering<'a> {
    pub(crate) program: &'a Program,
    pub(crate) models: &'a Models,
    pub(crate) memory: Memory,
    pub(crate) points: Points,
    /// Does the program map files? Then reading memory may be an access to one.
    maps_files: bool,
    /// What FORETELL_PREFETCH marks.
    pub(crate) marks: Vec<Slot>,
    effects: HashMap<Id, bool>,
}

/// The walk over one function.
struct Walk<'w, 'a> {
    all: &'w mut Lowering<'a>,
    func: Option<Func>,
    graph: Graph,
    frontier: Vec<Edge>,
    enclosing: Vec<Enclosing>,
    labels: HashMap<Id, Step>,
    gotos: Vec<(Step, Id)>,
    indirect: Vec<Step>,
    /// The steps that declare arrays whose length is computed.
    computed: HashMap<Var, Step>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(program: &'a Program, models: &'a Models, memory: Memory) -> Self {
        Self {
            program,
            models,
            memory,
            points: Points::default(),
            maps_files: maps_files(program, models),
            marks: Vec::new(),
            effects: HashMap::new(),
        }
    }

    /// Makes the graphs of all functions, in their order.
    pub(crate) fn all_functions(&mut self) -> Vec<Graph> {
        self.start();
        (0..self.program.functions.len() as u32).map(|f| Walk::function(self, Func(f))).collect()
    }

    /// What memory holds before `main` runs: initial values, the arguments, the standard streams.
    fn start(&mut self) {
        let program = self.program;
        for (index, variable) in program.variables.iter().enumerate() {
            let home = self.memory.whole(Object::Variable(Var(index as u32)));
            let stream = match variable.name.as_str() {
                "stdin" => Some(Object::Stdin),
                "stdout" | "stderr" => Some(Object::Output),
                "environ" => Some(Object::Arguments),
                "optarg" => Some(Object::ArgumentText),
                _ => None,
            };
            if let Some(stream) = stream.filter(|_| !variable.defined) {
                let stream = self.memory.whole(stream);
                let cell = self.points.content(home);
                self.points.add(cell, stream);
            }
            if variable.is_static() && variable.defined {
                Walk::initial_value(self, variable.node, home);
            }
        }
        let text = self.memory.whole(Object::ArgumentText);
        let array = self.memory.whole(Object::Arguments);
        let cell = self.points.content(array);
        self.points.add(cell, text);
        for parameter in program.func(program.main).parameters.iter().skip(1) {
            let home = self.memory.whole(Object::Variable(*parameter));
            let cell = self.points.content(home);
            self.points.add(cell, array);
        }
    }

    /// Does evaluating this do more than reading? Then the order of evaluation matters.
    fn has_effects(&mut self, id: Id) -> bool {
        if let Some(known) = self.effects.get(&id) {
            return *known;
        }
        let tree = &self.program.tree;
        let node = &tree[id];
        let own = match node.kind {
            Kind::Call
            | Kind::CompoundAssign
            | Kind::Conditional
            | Kind::BinaryConditional
            | Kind::StatementExpr
            | Kind::CompoundLiteral
            | Kind::VaArg
            | Kind::Other => true,
            Kind::Binary => matches!(node.operator.as_str(), "=" | "&&" | "||"),
            Kind::Unary => {
                matches!(node.operator.as_str(), "++" | "--") || self.maps_files && node.operator == "*"
            }
            Kind::Subscript | Kind::Member => self.maps_files,
            Kind::SizeOf | Kind::OffsetOf => {
                self.effects.insert(id, false);
                return false;
            }
            _ => false,
        };
        let found = own || tree.children(id).to_vec().into_iter().any(|child| self.has_effects(child));
        self.effects.insert(id, found);
        found
    }
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(all: &'w mut Lowering<'a>, func: Option<Func>, ast: Id) -> Self {
        let mut walk = Self {
            all,
            func,
            graph: Graph::default(),
            frontier: Vec::new(),
            enclosing: Vec::new(),
            labels: HashMap::new(),
            gotos: Vec::new(),
            indirect: Vec::new(),
            computed: HashMap::new(),
        };
        let entry = walk.step(What::Entry, ast);
        let exit = walk.step(What::Exit, ast);
        walk.frontier = vec![(entry, true)];
        // Whatever a function does depends on its being entered.
        walk.graph.nodes[entry.ix()].lexical.push(exit);
        walk
    }

    fn function(all: &'w mut Lowering<'a>, func: Func) -> Graph {
        let function = all.program.func(func);
        let mut walk = Self::new(all, Some(func), function.node);
        walk.statement(function.body);
        let rest = std::mem::take(&mut walk.frontier);
        walk.link(rest, EXIT);
        for (step, label) in std::mem::take(&mut walk.gotos) {
            if let Some(target) = walk.labels.get(&label) {
                walk.graph.nodes[step.ix()].next.push(*target);
            }
        }
        let mut targets: Vec<Step> = walk.labels.values().copied().collect();
        targets.sort_unstable();
        for step in std::mem::take(&mut walk.indirect) {
            walk.graph.nodes[step.ix()].next.extend(&targets);
        }
        walk.graph
    }

    /// The pointers in the initializer of a variable that lives as long as the program.
    fn initial_value(all: &'w mut Lowering<'a>, variable: Id, home: Loc) {
        let mut walk = Self::new(all, None, variable);
        if let Some(initializer) = walk.initializer(variable) {
            walk.initialise(Where::At(home), initializer);
        }
    }

    /// The initializer of a declared variable.
    fn initializer(&self, variable: Id) -> Option<Id> {
        let tree = &self.all.program.tree;
        let node = &tree[variable];
        let found = node.children.iter().rev().copied().find(|c| tree[*c].kind.is_expression());
        found.filter(|_| node.flag)
    }

    /// A step that nothing leads to yet.
    fn step(&mut self, what: What, ast: Id) -> Step {
        let step = Step(self.graph.nodes.len() as u32);
        self.graph.nodes.push(Node {
            what,
            ast,
            reads: Vec::new(),
            needs: Vec::new(),
            writes: Vec::new(),
            call: None,
            next: Vec::new(),
            lexical: Vec::new(),
        });
        step
    }

    fn link(&mut self, edges: Vec<Edge>, to: Step) {
        for (from, taken) in edges {
            let node = &mut self.graph.nodes[from.ix()];
            let list = if taken { &mut node.next } else { &mut node.lexical };
            if !list.contains(&to) {
                list.push(to);
            }
        }
    }

    /// A step that the frontier leads to, and that becomes the frontier.
    fn then(&mut self, what: What, ast: Id, value: Value) -> Step {
        let step = self.step(what, ast);
        let edges = std::mem::replace(&mut self.frontier, vec![(step, true)]);
        self.link(edges, step);
        let node = &mut self.graph.nodes[step.ix()];
        node.reads = value.reads;
        node.needs = value.needs;
        step
    }

    fn join(&mut self, ast: Id) -> Step {
        let nothing = self.nothing();
        self.then(What::Join, ast, nothing)
    }

    /// A value that comes from nowhere and points nowhere.
    fn nothing(&mut self) -> Value {
        Value { reads: Vec::new(), needs: Vec::new(), slot: self.all.points.fresh() }
    }

    fn pointing(&mut self, slot: Slot) -> Value {
        Value { reads: Vec::new(), needs: Vec::new(), slot }
    }

    /// Fixes what a value reads to this point of the program.
    fn pin(&mut self, value: Value, ast: Id) -> Value {
        if value.reads.is_empty() {
            return value;
        }
        let slot = value.slot;
        let step = self.then(What::Pin, ast, value);
        Value { reads: Vec::new(), needs: vec![step], slot }
    }

    /// Fixes a value if what is evaluated next has effects.
    fn pin_before(&mut self, value: Value, next: Id, ast: Id) -> Value {
        if self.all.has_effects(next) { self.pin(value, ast) } else { value }
    }

    /// The address of a place, as a value to point with.
    fn address_slot(&mut self, place: Where) -> Slot {
        match place {
            Where::At(location) => self.all.points.address(location),
            Where::Through(slot) => slot,
        }
    }

    /// Stores a value: the rules of the points-to analysis.
    fn store(&mut self, place: Where, value: Slot, is_record: bool) {
        if is_record {
            let to = self.address_slot(place);
            self.all.points.record(to, value);
            return;
        }
        match place {
            Where::At(location) => {
                let cell = self.all.points.content(location);
                self.all.points.copy(cell, value);
            }
            Where::Through(slot) => self.all.points.store(slot, value),
        }
    }
}

impl Value {
    /// Both values are used.
    fn and(mut self, other: &Value) -> Self {
        self.reads.extend(&other.reads);
        self.needs.extend(&other.needs);
        self
    }
}

fn maps_files(program: &Program, models: &Models) -> bool {
    program.tree.nodes.iter().any(|node| {
        node.kind == Kind::DeclRef
            && node.operator == "FunctionDecl"
            && models.get(&node.refers_to_name).is_some_and(|m| m.io == Some(Io::Mmap))
    })
}
