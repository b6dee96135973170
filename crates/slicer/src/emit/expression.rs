//! Expressions, in the voice of the slice or of the program.
//!
//! A *change* is a node that is written differently: a call on an open file, the name of a function that
//! has a slice, a variable with a private copy. An expression without changes is its own text. With
//! changes, it is its text with these parts replaced, if each part is text of its own; if one lies inside a
//! macro, it is printed node by node.

use std::collections::BTreeSet;

use super::emission::Emission;
use super::one_line::one_line;
use crate::ast::program::{Func, Scope, Var};
use crate::ast::{Id, Kind};
use crate::flow::Point;
use crate::models::{Act, Io, Model};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The slice: kept steps only, names of its own, calls that predict.
    Slice,
    /// The program: everything, with calls that count.
    Program,
}

/// Writes one function, or one expression of it.
pub(super) struct Writer<'e, 'a> {
    pub(super) emission: &'e Emission<'a>,
    pub(super) voice: Voice,
    pub(super) func: Option<Func>,
    /// Local variables and parameters that were written about.
    pub(super) mentions: BTreeSet<Var>,
    /// Variables with private copies, and functions with slices, that were written about.
    pub(super) copies: BTreeSet<Var>,
    pub(super) functions: BTreeSet<Func>,
    /// Nodes for which there is no C.
    pub(super) unprintable: Vec<Id>,
}

impl<'e, 'a> Writer<'e, 'a> {
    pub(super) fn new(emission: &'e Emission<'a>, voice: Voice, func: Option<Func>) -> Self {
        Self {
            emission,
            voice,
            func,
            mentions: BTreeSet::new(),
            copies: BTreeSet::new(),
            functions: BTreeSet::new(),
            unprintable: Vec::new(),
        }
    }

    /// The text of an expression whose value is used.
    pub(super) fn expression(&mut self, id: Id) -> String {
        let mut changes = Vec::new();
        self.find_changes(id, &mut changes);
        if changes == [id] {
            return self.changed(id);
        }
        self.spliced(id, &changes).unwrap_or_else(|| self.printed(id))
    }

    /// The text of an expression as it would be if it were no change itself.
    pub(super) fn unchanged(&mut self, id: Id) -> String {
        let mut changes = Vec::new();
        for child in self.emission.known.program.tree.children(id) {
            self.find_changes(*child, &mut changes);
        }
        self.spliced(id, &changes).unwrap_or_else(|| self.printed(id))
    }

    /// The original text, with the changes written into it.
    fn spliced(&mut self, id: Id, changes: &[Id]) -> Option<String> {
        let tree = &self.emission.known.program.tree;
        let sources = &self.emission.known.program.sources;
        let (file, from, to) = sources.exact(tree[id].begin, tree[id].end)?;
        let mut edits: Vec<(u32, u32, String)> = Vec::new();
        for change in changes {
            let (its_file, start, end) = sources.exact(tree[*change].begin, tree[*change].end)?;
            if its_file != file || start < from || end > to {
                return None;
            }
            let text = self.changed(*change);
            let edit = (start, end, text);
            // The argument of a macro may be used twice: the same change of the same text.
            if !edits.contains(&edit) {
                edits.push(edit);
            }
        }
        edits.sort();
        if edits.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return None;
        }
        let mut text = String::new();
        let mut at = from;
        for (start, end, replacement) in edits {
            text.push_str(sources.stretch(file, at, start));
            text.push_str(&replacement);
            at = end;
        }
        text.push_str(sources.stretch(file, at, to));
        let text = one_line(&text)?;
        self.mention_below(id, changes);
        Some(text)
    }

    /// Notes the variables that the unchanged text is about.
    fn mention_below(&mut self, id: Id, changes: &[Id]) {
        let tree = &self.emission.known.program.tree;
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            if changes.contains(&at) {
                continue;
            }
            if tree[at].kind == Kind::DeclRef {
                self.mention(at);
            }
            open.extend(tree.children(at));
        }
    }

    pub(super) fn mention(&mut self, reference: Id) {
        let program = self.emission.known.program;
        if let Some(var) = program.variable(reference) {
            match program.var(var).scope {
                Scope::File(_) if self.voice == Voice::Slice && self.emission.has_copy(var) => {
                    self.copies.insert(var);
                }
                Scope::File(_) => {}
                _ => {
                    self.mentions.insert(var);
                }
            }
        }
    }

    /// The outermost nodes below `id` that are written differently.
    fn find_changes(&self, id: Id, found: &mut Vec<Id>) {
        if self.is_change(id) {
            found.push(id);
            return;
        }
        let tree = &self.emission.known.program.tree;
        if matches!(tree[id].kind, Kind::SizeOf) && self.voice == Voice::Program {
            return;
        }
        for child in tree.children(id) {
            self.find_changes(*child, found);
        }
    }

    fn is_change(&self, id: Id) -> bool {
        let tree = &self.emission.known.program.tree;
        if tree[id].kind.is_expression() && self.is_mapped(id) {
            return true;
        }
        if self.voice == Voice::Slice && self.is_opaque_end(id) {
            return true;
        }
        match (tree[id].kind, self.voice) {
            (Kind::Call, Voice::Slice) => self.is_changed_call(id) || self.is_forward(id),
            (Kind::Call, Voice::Program) => self.is_counted(id) || self.is_forward(id) || self.departs(id),
            (Kind::DeclRef, Voice::Slice) => {
                let program = self.emission.known.program;
                program.variable(id).is_some_and(|var| self.emission.has_copy(var))
                    || program.function(id).is_some_and(|f| self.emission.slice.closure.live[f.ix()])
                    || self.emission.is_end(id)
            }
            (Kind::StatementExpr, Voice::Slice) => true,
            (Kind::Binary, Voice::Slice) => tree[id].operator == ",",
            _ => false,
        }
    }

    /// Is a node written differently in this voice?
    pub(super) fn changes(&self, id: Id) -> bool {
        self.is_change(id)
    }

    /// Is this an access to a mapped file?
    pub(super) fn is_mapped(&self, id: Id) -> bool {
        self.emission.point(id).is_some_and(|p| self.emission.is_mapped(p))
    }

    fn is_forward(&self, id: Id) -> bool {
        self.emission.point(id).is_some_and(|p| self.emission.channels.contains_key(&p))
    }

    /// Must the slice be put away before the program makes this call?
    pub(super) fn departs(&self, id: Id) -> bool {
        let known = self.emission.known;
        let call = self.emission.point(id).and_then(|point| known.call(point));
        let is_waited_for = self.is_forward(id);
        let departs = |model: &&Model| model.departs || model.confines && !(model.limits && is_waited_for);
        call.is_some_and(|call| known.models_of(call).iter().any(departs))
    }

    /// Does the program count this call?
    pub(super) fn is_counted(&self, id: Id) -> bool {
        let Some(point) = self.emission.point(id) else { return false };
        self.emission.known.io(point).is_some_and(|(io, _)| io.is_counted())
            && self.emission.is_tracked(point)
    }

    fn is_changed_call(&self, id: Id) -> bool {
        let Some(point) = self.emission.point(id) else { return false };
        let known = self.emission.known;
        let Some(call) = known.call(point) else { return false };
        known.ends(point)
            || call.may_free()
            || call.externals.iter().any(|name| name == "closedir")
            || call.targets.iter().any(|t| self.emission.slice.closure.live[t.ix()])
            || self.assumed(id).is_some()
            || known.io(point).is_some_and(|(io, _)| io.act() != Act::Nothing || io == Io::Munmap)
    }

    /// Is this call in the slice for the file that it makes? One that opens it, and whose result is needed, is not only
    /// for that.
    pub(super) fn is_maker(&self, id: Id) -> bool {
        let emission = self.emission;
        let is_maker = |point: &Point| {
            let closure = &emission.slice.closure;
            let opens = emission.known.io(*point);
            closure.makers.contains(point)
                && opens.is_none_or(|(io, _)| {
                    io != Io::Openat && !closure.valued.contains(point) && !emission.numbers.contains_key(&id)
                })
        };
        self.voice == Voice::Slice && emission.point(id).is_some_and(|point| is_maker(&point))
    }

    /// What the slice takes for the result of a call that acts on the outside.
    pub(super) fn assumed(&self, id: Id) -> Option<&'a str> {
        let known = self.emission.known;
        let point = self.emission.point(id)?;
        let call = known.call(point)?;
        let model = known.models_of(call).into_iter().next()?;
        let acts = model.output || known.is_output(point);
        model.assumed.as_deref().filter(|_| acts && self.voice == Voice::Slice)
    }

    /// A call that is made in another way, as it would be written.
    pub(super) fn changed_call(&mut self, id: Id) -> String {
        self.changed(id)
    }

    /// A change, written.
    fn changed(&mut self, id: Id) -> String {
        let tree = &self.emission.known.program.tree;
        match tree[id].kind {
            _ if self.is_mapped(id) => self.mapped(id, true),
            kind if kind != Kind::Call && self.voice == Voice::Slice && self.is_opaque_end(id) => {
                self.end(id, Vec::new())
            }
            Kind::Call if self.is_forward(id) => self.forwarded(id),
            Kind::Call if self.voice == Voice::Program => self.counted(id),
            Kind::Call => self.call(id),
            Kind::DeclRef => self.reference(id),
            Kind::StatementExpr => self.statement_expression(id),
            Kind::Binary => {
                let [left, right] = *tree.children(id) else { return String::new() };
                let mut parts = self.effects(left);
                parts.push(self.expression(right));
                parts.join(", ")
            }
            _ => self.printed(id),
        }
    }

    fn reference(&mut self, id: Id) -> String {
        let program = self.emission.known.program;
        self.mention(id);
        if self.emission.is_end(id) {
            return format!("((__typeof__(&{}))foretell_slice_end)", program.tree[id].refers_to_name);
        }
        if let Some(func) = program.function(id) {
            self.functions.insert(func);
            return self.emission.name(&program.func(func).name);
        }
        self.emission.name(&program.tree[id].refers_to_name)
    }

    /// An expression printed from the tree.
    fn printed(&mut self, id: Id) -> String {
        let tree = &self.emission.known.program.tree;
        let node = &tree[id];
        let child = |n: usize| tree.child(id, n);
        match node.kind {
            Kind::Paren => format!("({})", self.child(child(0))),
            Kind::ImplicitCast | Kind::Constant | Kind::FullExpr | Kind::OpaqueValue => self.child(child(0)),
            Kind::Cast => format!("({}){}", node.ty.spelled, self.child(child(0))),
            Kind::DeclRef => {
                self.mention(id);
                node.refers_to_name.clone()
            }
            Kind::Integer | Kind::Character | Kind::Floating => self.literal(id),
            Kind::StringLiteral => node.value.clone(),
            Kind::Member => self.member(id),
            Kind::Subscript => format!("{}[{}]", self.child(child(0)), self.child(child(1))),
            Kind::Unary => {
                let operand = self.child(child(0));
                match node.operator.as_str() {
                    "__extension__" => operand,
                    operator if node.flag => format!("{operand}{operator}"),
                    operator => format!("{operator}{}{operand}", space_between(operator, &operand)),
                }
            }
            Kind::Binary | Kind::CompoundAssign => {
                let left = self.child(child(0));
                let right = self.child(child(1));
                format!("{left} {} {right}", node.operator)
            }
            Kind::Conditional => {
                let condition = self.child(child(0));
                let yes = self.child(child(1));
                format!("{condition} ? {yes} : {}", self.child(child(2)))
            }
            Kind::BinaryConditional => {
                let last = node.children.len().saturating_sub(1);
                format!("{} ? : {}", self.child(child(0)), self.child(child(last)))
            }
            Kind::Call => {
                let callee = self.child(child(0));
                let arguments: Vec<String> =
                    tree.arguments(id).to_vec().into_iter().map(|a| self.expression(a)).collect();
                format!("{callee}({})", arguments.join(", "))
            }
            Kind::SizeOf => match child(0) {
                Some(operand) => format!("{} {}", node.operator, self.child(Some(operand))),
                None => format!("{}({})", node.operator, node.value),
            },
            Kind::InitList => {
                let parts: Vec<String> =
                    node.children.clone().into_iter().map(|c| self.child(Some(c))).collect();
                format!("{{{}}}", parts.join(", "))
            }
            Kind::ImplicitInit => "0".to_owned(),
            Kind::CompoundLiteral => format!("({}){}", node.ty.spelled, self.child(child(0))),
            Kind::VaArg => format!("__builtin_va_arg({}, {})", self.child(child(0)), node.ty.spelled),
            Kind::StatementExpr => self.statement_expression(id),
            Kind::PredefinedName => node.name.clone(),
            _ => {
                self.unprintable.push(id);
                String::new()
            }
        }
    }

    fn child(&mut self, id: Option<Id>) -> String {
        id.map_or_else(String::new, |id| self.expression(id))
    }

    /// A literal as it is spelled; what is pasted together by a macro is spelled nowhere.
    fn literal(&self, id: Id) -> String {
        let node = &self.emission.known.program.tree[id];
        let at = node.begin;
        let spelled = self.emission.known.program.sources.stretch(
            at.spelled_file,
            at.spelled_offset,
            at.spelled_offset + at.spelled_length,
        );
        if spelled.starts_with(|c: char| c.is_ascii_digit() || "'.LuU".contains(c)) {
            return spelled.to_owned();
        }
        let suffix = match node.ty.plain() {
            "unsigned int" => "u",
            "long" => "l",
            "unsigned long" => "ul",
            "long long" => "ll",
            "unsigned long long" => "ull",
            "float" => "f",
            _ => "",
        };
        format!("{}{suffix}", node.value)
    }

    /// A member; those of anonymous structures are members of what contains them.
    fn member(&mut self, id: Id) -> String {
        let tree = &self.emission.known.program.tree;
        let Some(mut base) = tree.child(id, 0) else { return String::new() };
        let mut arrow = tree[id].flag;
        while tree[tree.bare(base)].kind == Kind::Member && tree[tree.bare(base)].name.is_empty() {
            let anonymous = tree.bare(base);
            arrow = tree[anonymous].flag;
            match tree.child(anonymous, 0) {
                Some(inner) => base = inner,
                None => break,
            }
        }
        let base = self.expression(base);
        format!("{base}{}{}", if arrow { "->" } else { "." }, tree[id].name)
    }
}

/// `- -x` and not `--x`.
fn space_between(operator: &str, operand: &str) -> &'static str {
    match (operator.chars().last(), operand.chars().next()) {
        (Some(a), Some(b)) if a == b && "+-&".contains(a) => " ",
        _ => "",
    }
}
