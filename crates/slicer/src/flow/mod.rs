//! The control-flow graph of a function, at the level of single effects.
//!
//! A *step* is one assignment, one call, one decision, one jump: the smallest thing that a slice can keep
//! or drop. `if (p && (n = read(f, b, 9)) > 0)` is four steps: the decision on `p`, the call, the
//! assignment, the decision on the comparison. Pure parts of expressions are no steps of their own: what
//! they read is read by the step that uses them, or, if another effect lies in between, by a *pin*, a
//! step without effect that stands where they are evaluated.
//!
//! Two graphs share the steps. In the plain one a jump goes where it jumps. In the augmented one (Ball and
//! Horwitz 1993) it also goes to what follows it in the text, as if it might be left out; control
//! dependence is computed on that one ([`control`]), and so a jump is kept exactly where its absence would
//! change what is executed. Data flows along the plain graph only ([`reach`]).
//!
//! Calls that end the program are no jumps here: a slice that runs on where the program has ended
//! predicts too much, but for a program that is not there any more.

mod classes;
pub(crate) mod control;
pub(crate) mod effects;
pub(crate) mod lower;
pub(crate) mod reach;

use std::collections::HashMap;

use crate::ast::Id;
use crate::ast::program::Func;
use crate::memory::Loc;
use crate::memory::points::Slot;

/// A step of the program.
pub(crate) type Point = (Func, Step);

/// A step of a graph, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Step(pub(crate) u32);

impl Step {
    pub(crate) fn ix(self) -> usize {
        self.0 as usize
    }
}

/// A location, or what a value points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    At(Loc),
    Through(Slot),
}

/// What a step is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Entry,
    Exit,
    /// Evaluates, without effect.
    Pin,
    /// Reads memory through a pointer; a step of its own only in programs that map files.
    Access,
    /// A decision between two ways; known if the condition is a constant.
    Branch(Option<bool>),
    Switch,
    /// An assignment, `++`, `--`, an initializer.
    Assign,
    Call,
    Return,
    /// `break`, `continue`, `goto`.
    Jump,
    /// A place that is jumped to: a label, a case, the head of a loop.
    Join,
    /// Nothing is known about it; why.
    Opaque(&'static str),
}

/// Who is called.
#[derive(Debug, Clone)]
pub(crate) enum Callee {
    Function(Func),
    /// A function outside the program, by name.
    Library(String),
    Pointer(Slot),
}

/// What a value is made of: what it reads, the steps that it comes from, where it may point.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) reads: Vec<Where>,
    pub(crate) needs: Vec<Step>,
    pub(crate) slot: Slot,
}

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub(crate) callee: Callee,
    pub(crate) arguments: Vec<Value>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) what: What,
    pub(crate) ast: Id,
    pub(crate) reads: Vec<Where>,
    pub(crate) needs: Vec<Step>,
    /// Where it writes, and whether it surely overwrites all of it.
    pub(crate) writes: Vec<(Where, bool)>,
    pub(crate) call: Option<CallSite>,
    /// Where it goes.
    pub(crate) next: Vec<Step>,
    /// Where a jump would go if it were left out.
    pub(crate) lexical: Vec<Step>,
}

/// The graph of one function.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The step that stands for a node of the tree: of an assignment, a call, a condition, a jump, …
    pub(crate) step_of: HashMap<Id, Step>,
}

/// The first step of every graph.
pub(crate) const ENTRY: Step = Step(0);
/// The second one: where a function returns.
pub(crate) const EXIT: Step = Step(1);

impl std::ops::Index<Step> for Graph {
    type Output = Node;

    fn index(&self, step: Step) -> &Node {
        &self.nodes[step.ix()]
    }
}

impl Graph {
    pub(crate) fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        (0..self.nodes.len() as u32).map(Step)
    }
}
