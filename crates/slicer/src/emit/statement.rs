//! Statements of the slice: those that are kept, and the parts of expressions that are kept where the
//! expression as a whole is not.
//!
//! `if`, loops and `switch` appear when something in them does. Of a condition that nothing depends on
//! any more, the effects remain as statements.

use super::declare::{declare, has_name, of_length_one, renamed};
use super::expression::{Voice, Writer};
use super::one_line::marker;
use crate::ast::program::{Func, Scope};
use crate::ast::{Id, Kind};
use crate::flow::lower::is_variable_length;
use crate::flow::{Point, What, Where};
use crate::memory::Object;

/// Lines of code, indented when they are put into a block.
pub(super) type Lines = Vec<String>;

const INDENT: &str = "    ";

pub(super) fn indented(lines: Lines) -> Lines {
    lines.into_iter().map(|l| if l.is_empty() || is_label(&l) { l } else { format!("{INDENT}{l}") }).collect()
}

fn in_braces(lines: Lines) -> Lines {
    let mut wrapped = vec!["{".to_owned()];
    wrapped.extend(indented(lines));
    wrapped.push("}".to_owned());
    wrapped
}

/// A label of `goto` stands at the margin of its block.
fn is_label(line: &str) -> bool {
    line.strip_suffix(": ;").is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

impl Writer<'_, '_> {
    pub(super) fn is_kept(&self, id: Id) -> bool {
        self.emission.kept(id).is_some()
    }

    fn kept_point(&self, id: Id) -> Option<Point> {
        self.emission.kept(id)
    }

    /// Is there a kept effect in an expression?
    fn has_kept(&self, id: Id) -> bool {
        let tree = &self.emission.known.program.tree;
        tree.below(id).into_iter().any(|at| self.is_kept_effect(at))
    }

    fn is_kept_effect(&self, id: Id) -> bool {
        let Some((func, step)) = self.kept_point(id) else { return false };
        match self.emission.known.graphs[func.ix()][step].what {
            What::Call => self.assumed(id).is_none() || self.is_maker(id),
            What::Assign => true,
            What::Access => self.is_mapped(id),
            What::Opaque(_) => self.emission.known.ends((func, step)),
            _ => false,
        }
    }

    /// Does the slice end with this node, which is no call?
    pub(super) fn is_opaque_end(&self, id: Id) -> bool {
        self.kept_point(id).is_some_and(|(func, step)| {
            let known = self.emission.known;
            matches!(known.graphs[func.ix()][step].what, What::Opaque(_)) && known.ends((func, step))
        })
    }

    /// The kept effects of an expression whose value is not used, as expressions in order.
    pub(super) fn effects(&mut self, id: Id) -> Vec<String> {
        if !self.has_kept(id) {
            return Vec::new();
        }
        let tree = &self.emission.known.program.tree;
        let bare = tree.bare(id);
        if self.is_kept_effect(bare) && self.is_mapped(bare) && tree[bare].kind != Kind::Call {
            return vec![self.mapped(bare, false)];
        }
        let is_end = self.kept_point(bare).is_some_and(|point| self.emission.known.ends(point));
        if is_end && tree[bare].kind == Kind::Call {
            let arguments = tree.arguments(bare).to_vec();
            let mut parts: Vec<String> = arguments.into_iter().flat_map(|a| self.effects(a)).collect();
            parts.push("foretell_slice_end()".to_owned());
            return parts;
        }
        if self.is_kept_effect(bare) && tree[bare].kind != Kind::CompoundLiteral {
            return vec![self.expression(bare)];
        }
        let children = tree.children(bare).to_vec();
        match (tree[bare].kind, tree[bare].operator.as_str()) {
            (Kind::Binary, operator @ ("&&" | "||")) => {
                let operator = operator.to_owned();
                let right = self.effects(children[1]);
                if right.is_empty() {
                    return self.effects(children[0]);
                }
                let left = self.expression(children[0]);
                vec![format!("({left} {operator} ({}, 1))", right.join(", "))]
            }
            (Kind::Conditional, _) => {
                let (yes, no) = (self.effects(children[1]), self.effects(children[2]));
                if yes.is_empty() && no.is_empty() {
                    return self.effects(children[0]);
                }
                let arm = |effects: Vec<String>| match effects.is_empty() {
                    true => "(void)0".to_owned(),
                    false => format!("(void)({})", effects.join(", ")),
                };
                let condition = self.expression(children[0]);
                vec![format!("({condition} ? {} : {})", arm(yes), arm(no))]
            }
            (Kind::StatementExpr, _) => vec![self.expression(bare)],
            (Kind::Call, _) => self.in_turn(&children),
            _ => children.into_iter().flat_map(|child| self.effects(child)).collect(),
        }
    }

    /// The kept effects of the arguments of a call that is not made. In which order they come is the compiler's choice, so
    /// they become arguments again.
    fn in_turn(&mut self, arguments: &[Id]) -> Vec<String> {
        let parts: Vec<Vec<String>> =
            arguments.iter().map(|a| self.effects(*a)).filter(|part| !part.is_empty()).collect();
        if parts.len() < 2 {
            return parts.concat();
        }
        let numbers: Vec<String> = parts.iter().map(|part| format!("({}, 0)", part.join(", "))).collect();
        vec![format!("foretell_slice_in_turn({})", numbers.join(", "))]
    }

    /// The same as statements: a condition becomes an `if`.
    pub(super) fn effect_lines(&mut self, id: Id) -> Lines {
        if !self.has_kept(id) {
            return Vec::new();
        }
        let tree = &self.emission.known.program.tree;
        let bare = tree.bare(id);
        let children = tree.children(bare).to_vec();
        if !self.is_kept_effect(bare) {
            match (tree[bare].kind, tree[bare].operator.as_str()) {
                (Kind::Binary, operator @ ("&&" | "||")) => {
                    let negated = operator == "||";
                    let right = self.effect_lines(children[1]);
                    if right.is_empty() {
                        return self.effect_lines(children[0]);
                    }
                    let left = self.expression(children[0]);
                    return block(&condition_head("if", &left, negated), right);
                }
                (Kind::Conditional, _) => {
                    let (yes, no) = (self.effect_lines(children[1]), self.effect_lines(children[2]));
                    return self.branch(children[0], yes, no);
                }
                (Kind::StatementExpr | Kind::Call, _) => {}
                _ => return children.into_iter().flat_map(|c| self.effect_lines(c)).collect(),
            }
        }
        if let Some(point) = self.kept_point(bare)
            && self.emission.known.ends(point)
            && tree[bare].kind == Kind::Call
        {
            let arguments = tree.arguments(bare).to_vec();
            let mut lines: Lines = arguments.into_iter().flat_map(|a| self.effect_lines(a)).collect();
            lines.push("foretell_slice_end();".to_owned());
            return lines;
        }
        self.effects(id).into_iter().map(|e| format!("{e};")).collect()
    }

    fn branch(&mut self, condition: Id, yes: Lines, no: Lines) -> Lines {
        if yes.is_empty() && no.is_empty() {
            return self.effect_lines(condition);
        }
        let text = self.expression(condition);
        if yes.is_empty() {
            return block(&condition_head("if", &text, true), no);
        }
        let mut lines = block(&format!("if ({text})"), yes);
        if no.is_empty() {
            return lines;
        }
        lines.pop();
        let is_chain = no[0].starts_with("if (") && one_statement(&no);
        if is_chain {
            lines.push(format!("}} else {}", no[0]));
            lines.extend(no.into_iter().skip(1));
        } else {
            lines.push("} else {".to_owned());
            lines.extend(indented(no));
            lines.push("}".to_owned());
        }
        lines
    }

    /// What is kept of a statement.
    pub(super) fn statement(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let children = tree.children(id).to_vec();
        match tree[id].kind {
            Kind::Compound => children.into_iter().flat_map(|c| self.nested(c)).collect(),
            Kind::Declarations => {
                let lines = self.declarations(id);
                self.placed(lines, id)
            }
            Kind::If => {
                let yes = self.statement(children[1]);
                let no = children.get(2).map(|c| self.statement(*c)).unwrap_or_default();
                self.branch(children[0], yes, no)
            }
            Kind::While => {
                let body = self.statement(children[1]);
                if body.is_empty() && !self.has_kept(children[0]) {
                    return Vec::new();
                }
                block(&format!("while ({})", self.expression(children[0])), body)
            }
            Kind::Do => {
                let body = self.statement(children[0]);
                if body.is_empty() && !self.has_kept(children[1]) {
                    return Vec::new();
                }
                let mut lines = block("do", body);
                lines.pop();
                lines.push(format!("}} while ({});", self.expression(children[1])));
                lines
            }
            Kind::For => self.for_statement(id),
            Kind::Switch => self.switch_statement(id),
            Kind::Case | Kind::Default => self.case(id),
            Kind::Label => {
                let mut lines = Vec::new();
                if self.is_jumped_to(id) {
                    lines.push(format!("{}: ;", tree[id].name));
                }
                for child in children {
                    lines.extend(self.nested(child));
                }
                lines
            }
            Kind::Break if self.is_kept(id) => vec!["break;".to_owned()],
            Kind::Continue if self.is_kept(id) => vec!["continue;".to_owned()],
            Kind::Goto if self.is_kept(id) => match tree[id].refers_to {
                Some(label) => vec![format!("goto {};", tree[label].name)],
                None => Vec::new(),
            },
            Kind::Return => self.return_statement(id),
            Kind::Assembly | Kind::IndirectGoto if self.is_opaque_end(id) => {
                vec!["foretell_slice_end();".to_owned()]
            }
            Kind::AttributedStatement => {
                let inner = children
                    .into_iter()
                    .find(|c| tree[*c].kind.is_statement() || tree[*c].kind.is_expression());
                inner.map(|c| self.nested(c)).unwrap_or_default()
            }
            kind if kind.is_expression() => {
                let lines = self.effect_lines(id);
                self.placed(lines, id)
            }
            _ => Vec::new(),
        }
    }

    /// A statement in a block: a block of its own only where it declares something.
    fn nested(&mut self, id: Id) -> Lines {
        let lines = self.statement(id);
        if self.emission.known.program.tree[id].kind != Kind::Compound || lines.is_empty() {
            return lines;
        }
        in_braces(lines)
    }

    /// Lines with an access say where it is in the program.
    fn placed(&self, mut lines: Lines, id: Id) -> Lines {
        if let (Some(last), true) = (lines.last_mut(), self.is_access(id)) {
            last.push_str(&format!(" /* {} */", self.short_place(id)));
        }
        lines
    }

    fn is_access(&self, id: Id) -> bool {
        let known = self.emission.known;
        known.program.tree.below(id).into_iter().any(|at| {
            self.kept_point(at)
                .is_some_and(|p| known.io(p).is_some_and(|(io, _)| io.act() == crate::models::Act::Reads))
        })
    }

    /// `file.c:12`, without folders.
    pub(super) fn short_place(&self, id: Id) -> String {
        let place = self.emission.known.program.describe(id);
        place.rsplit('/').next().unwrap_or_default().to_owned()
    }

    fn is_jumped_to(&self, label: Id) -> bool {
        let Some((func, step)) = self.emission.point(label) else { return false };
        let graph = &self.emission.known.graphs[func.ix()];
        graph.steps().any(|s| {
            graph[s].what == What::Jump
                && graph[s].next.contains(&step)
                && self.emission.known.program.tree[graph[s].ast].kind == Kind::Goto
                && self.emission.slice.closure.keeps((func, s))
        })
    }

    fn for_statement(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let (start, condition, step, body) =
            (tree.child(id, 0), tree.child(id, 2), tree.child(id, 3), tree.child(id, 4));
        let body = body.map(|b| self.statement(b)).unwrap_or_default();
        let repeats = !body.is_empty()
            || condition.is_some_and(|c| self.has_kept(c))
            || step.is_some_and(|s| self.has_kept(s));
        let start_lines = start.map(|s| self.statement(s)).unwrap_or_default();
        if !repeats {
            // What it declares is its own.
            let declares = start.is_some_and(|s| tree[s].kind == Kind::Declarations);
            return if declares && !start_lines.is_empty() { in_braces(start_lines) } else { start_lines };
        }
        let condition = condition.map(|c| self.expression(c)).unwrap_or_default();
        let step = step.map(|s| self.effects(s).join(", ")).unwrap_or_default();
        let gap = |text: &str| if text.is_empty() { String::new() } else { format!(" {text}") };
        let head = |first: &str| format!("for ({first};{};{})", gap(&condition), gap(&step));
        match start_lines.as_slice() {
            [] => block(&head(""), body),
            [one] if one.ends_with(';') && !one.contains('\n') => {
                block(&head(one.trim_end_matches(';')), body)
            }
            _ => {
                let mut lines = start_lines;
                lines.extend(block(&head(""), body));
                in_braces(lines)
            }
        }
    }

    fn switch_statement(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let [condition, body] = *tree.children(id) else { return Vec::new() };
        let lines = self.statement(body);
        let is_case = |l: &String| l.starts_with("case ") && l.ends_with(':') || l == "default:";
        if lines.iter().all(is_case) {
            return self.effect_lines(condition);
        }
        let mut body = Vec::new();
        let mut last: Option<String> = None;
        for line in lines {
            if is_case(&line) {
                let falls = last.as_ref().is_some_and(|l| !is_case(l) && !leaves(l));
                if falls {
                    body.push(format!("{INDENT}/* fall through */"));
                }
                body.push(line.clone());
            } else {
                body.push(if is_label(&line) { line.clone() } else { format!("{INDENT}{line}") });
            }
            last = Some(line);
        }
        if last.as_ref().is_some_and(is_case) {
            body.push(format!("{INDENT}break;"));
        }
        let mut lines = vec![format!("switch ({}) {{", self.expression(condition))];
        lines.extend(body);
        lines.push("}".to_owned());
        lines
    }

    fn case(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let children = tree.children(id).to_vec();
        let mut lines = Vec::new();
        if tree[id].kind == Kind::Default {
            lines.push("default:".to_owned());
        } else if tree[id].flag {
            let (from, to) = (self.expression(children[0]), self.expression(children[1]));
            lines.push(format!("case {from} ... {to}:"));
        } else {
            lines.push(format!("case {}:", self.expression(children[0])));
        }
        if let Some(statement) = children.last() {
            lines.extend(self.nested(*statement));
        }
        lines
    }

    fn return_statement(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let child = tree.child(id, 0);
        let Some(func) = self.func else { return Vec::new() };
        let is_main = func == self.emission.known.program.main;
        if !self.is_kept(id) {
            return child.map(|c| self.effect_lines(c)).unwrap_or_default();
        }
        if !is_main && self.emission.slice.closure.needs_result(func) {
            return match child {
                Some(child) => vec![format!("return {};", self.expression(child))],
                None => vec!["return;".to_owned()],
            };
        }
        let mut lines = child.map(|c| self.effect_lines(c)).unwrap_or_default();
        lines.push(self.no_result(func).unwrap_or_else(|| "return;".to_owned()));
        lines
    }

    /// How a function returns whose result nobody needs, but whose type must stay.
    pub(super) fn no_result(&self, func: Func) -> Option<String> {
        let closure = &self.emission.slice.closure;
        let function = self.emission.known.program.func(func);
        let stays =
            closure.has_result(func) && !closure.needs_result(func) && function.returns.trim() != "void";
        stays.then(|| format!("return ({}){{0}};", function.returns))
    }

    fn declarations(&mut self, id: Id) -> Lines {
        let tree = &self.emission.known.program.tree;
        let sources = &self.emission.known.program.sources;
        let children = tree.children(id).to_vec();
        let has_type = children.iter().any(|c| matches!(tree[*c].kind, Kind::Record | Kind::Enum));
        let mentioned = |writer: &Self, c: Id| {
            tree[c].kind == Kind::Variable
                && writer.emission.known.program.variable(c).is_some_and(|v| writer.mentions.contains(&v))
        };
        let unnamed =
            children.iter().any(|c| tree[*c].kind == Kind::Variable && !has_name(&tree[*c].ty.spelled));
        let wanted: Vec<Id> = children.iter().copied().filter(|c| mentioned(self, *c)).collect();
        if unnamed && !wanted.is_empty() {
            return self.unnamed(id, &wanted).unwrap_or_else(|| {
                self.unprintable.push(id);
                Vec::new()
            });
        }
        let mut lines = Vec::new();
        for child in children {
            match tree[child].kind {
                Kind::Record | Kind::Enum | Kind::Typedef
                    if has_type || tree[child].kind == Kind::Typedef =>
                {
                    if let Some((file, from, to)) = sources.exact(tree[child].begin, tree[child].end)
                        // The constants of an enumeration have names, also if it has none.
                        && (!tree[child].name.is_empty() || tree[child].kind == Kind::Enum)
                    {
                        lines.extend(
                            format!("{};", sources.stretch(file, from, to))
                                .lines()
                                .filter(|line| marker(line).is_none())
                                .map(str::to_owned),
                        );
                    }
                }
                Kind::Variable => lines.extend(self.variable(child, mentioned(self, child))),
                _ => {}
            }
        }
        lines
    }

    fn variable(&mut self, id: Id, mentioned: bool) -> Lines {
        let tree = &self.emission.known.program.tree;
        let node = &tree[id];
        if self.is_opaque_end(id) {
            // What comes after is not come to, but has to be C.
            let name = declare(&of_length_one(&node.ty.spelled), &node.name);
            return vec!["foretell_slice_end();".to_owned(), format!("{name};")];
        }
        let name = declare(&self.with_length(id), &node.name);
        let initializer = self.initial_value(id);
        match node.storage.as_str() {
            // One of the library's is known by this alone; a private copy is declared outside.
            "extern" => {
                let has_copy = |var| self.emission.has_copy(var);
                let is_copied = self.emission.known.program.variable(id).is_some_and(has_copy);
                return if is_copied { Vec::new() } else { vec![format!("extern {name};")] };
            }
            "static" => {
                if !mentioned {
                    return Vec::new();
                }
                return match initializer {
                    Some(value) => vec![format!("static {name} = {};", self.expression(value))],
                    None => vec![format!("static {name};")],
                };
            }
            _ => {}
        }
        match initializer {
            Some(value) if self.is_kept(id) => vec![format!("{name} = {};", self.expression(value))],
            Some(value) => {
                let mut lines = if mentioned { vec![format!("{name};")] } else { Vec::new() };
                lines.extend(self.effect_lines(value));
                lines
            }
            None if mentioned && self.has_no_length(id) => {
                self.unprintable.push(id);
                Vec::new()
            }
            None if mentioned => vec![format!("{name};")],
            None => Vec::new(),
        }
    }

    /// Is this an array whose computed length is not in the slice?
    fn has_no_length(&self, id: Id) -> bool {
        is_variable_length(self.emission.known.program.tree[id].ty.plain()) && self.kept_point(id).is_none()
    }

    /// The type of a declared variable. What the length of an array is computed from is written about, too, and may be a
    /// private copy.
    fn with_length(&mut self, id: Id) -> String {
        let known = self.emission.known;
        let ty = &known.program.tree[id].ty;
        let point = self.kept_point(id).filter(|_| is_variable_length(ty.plain()));
        let Some((func, step)) = point else { return ty.spelled.clone() };
        let read = known.graphs[func.ix()][step].reads.iter().filter_map(|place| match place {
            Where::At(location) => Some(known.memory.what(*location)),
            Where::Through(_) => None,
        });
        let mut spelled = ty.spelled.clone();
        for object in read {
            let Object::Variable(var) = object else { continue };
            match known.program.var(*var).scope {
                Scope::File(_) if self.emission.has_copy(*var) => {
                    self.copies.insert(*var);
                    let name = &known.program.var(*var).name;
                    spelled = renamed(&spelled, name, &self.emission.name(name));
                }
                Scope::File(_) => {}
                _ => _ = self.mentions.insert(*var),
            }
        }
        spelled
    }

    /// `({ … })`, with what is kept of it.
    pub(super) fn statement_expression(&mut self, id: Id) -> String {
        if self.voice == Voice::Program {
            self.unprintable.push(id);
            return String::new();
        }
        let tree = &self.emission.known.program.tree;
        let Some(body) = tree.child(id, 0) else { return String::new() };
        let statements = tree.children(body).to_vec();
        let Some((last, before)) = statements.split_last() else { return "({ })".to_owned() };
        let mut lines: Lines = before.iter().flat_map(|s| self.nested(*s)).collect();
        if tree[*last].kind.is_expression() && !tree[*last].ty.is_void() {
            lines.push(format!("{};", self.expression(*last)));
        } else {
            lines.extend(self.nested(*last));
        }
        format!("__extension__({{ {} }})", lines.join(" "))
    }
}

fn condition_head(keyword: &str, condition: &str, negated: bool) -> String {
    match negated {
        true => format!("{keyword} (!({condition}))"),
        false => format!("{keyword} ({condition})"),
    }
}

/// A statement with its body in braces.
fn block(head: &str, body: Lines) -> Lines {
    let mut lines = vec![format!("{head} {{")];
    lines.extend(indented(body));
    lines.push("}".to_owned());
    lines
}

/// Are these lines one `if` statement with its branches?
fn one_statement(lines: &[String]) -> bool {
    let closing = lines.iter().position(|l| l == "}");
    closing == Some(lines.len() - 1)
}

/// Does control surely not go on after this line?
fn leaves(line: &str) -> bool {
    ["break;", "continue;", "goto ", "return"].iter().any(|jump| line.starts_with(jump))
        || line.starts_with("foretell_slice_end()")
}
