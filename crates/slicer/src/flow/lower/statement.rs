//! Statements: decisions, loops, switches and jumps.

use super::{Edge, Enclosing, Walk};
use crate::ast::{Id, Kind};
use crate::flow::{EXIT, Step, What, Where};
use crate::memory::Object;

impl Walk<'_, '_> {
    pub(super) fn statement(&mut self, id: Id) {
        let tree = &self.all.program.tree;
        let children = tree.children(id);
        match tree[id].kind {
            Kind::Compound => {
                for child in children {
                    self.statement(*child);
                }
            }
            Kind::Declarations => {
                for child in children {
                    self.declaration(*child);
                }
            }
            Kind::If => self.if_statement(children),
            Kind::While => self.while_statement(id, children),
            Kind::Do => self.do_statement(id, children),
            Kind::For => self.for_statement(id),
            Kind::Switch => self.switch_statement(id, children),
            Kind::Case | Kind::Default => self.case(id, children),
            Kind::Label => {
                let step = self.join(id);
                self.labels.insert(id, step);
                self.graph.step_of.insert(id, step);
                for child in children {
                    self.statement(*child);
                }
            }
            Kind::Break => {
                let at = self.enclosing.len().checked_sub(1);
                self.jump(id, at, false);
            }
            Kind::Continue => {
                let at = self.enclosing.iter().rposition(|e| e.is_loop);
                self.jump(id, at, true);
            }
            Kind::Goto => {
                let nothing = self.nothing();
                let step = self.then(What::Jump, id, nothing);
                self.graph.step_of.insert(id, step);
                if let Some(label) = tree[id].refers_to {
                    self.gotos.push((step, label));
                }
                self.frontier = vec![(step, false)];
            }
            Kind::IndirectGoto => {
                let target = tree.child(id, 0);
                let value = self.value_of(target);
                let step = self.then(What::Opaque("a computed goto"), id, value);
                self.graph.step_of.insert(id, step);
                self.indirect.push(step);
                self.frontier = vec![(step, false)];
            }
            Kind::Return => self.return_statement(id),
            Kind::Null => {}
            Kind::AttributedStatement => {
                if let Some(inner) = children.iter().find(|c| !is_attribute(tree[**c].kind)) {
                    self.statement(*inner);
                }
            }
            Kind::Assembly => self.assembly(id),
            kind if kind.is_expression() => {
                let value = self.value(id);
                if self.is_mark(id) {
                    self.all.marks.push(value.slot);
                }
            }
            _ => {}
        }
    }

    /// Is this `FORETELL_PREFETCH(file)`?
    fn is_mark(&self, id: Id) -> bool {
        let at = self.all.program.tree[id].begin;
        let used = self.all.program.sources.stretch(at.file, at.offset, at.offset + at.length);
        at.in_macro && used == "FORETELL_PREFETCH"
    }

    fn declaration(&mut self, id: Id) {
        let node = &self.all.program.tree[id];
        if node.kind != Kind::Variable || matches!(node.storage.as_str(), "static" | "extern") {
            return;
        }
        let Some(var) = self.all.program.variable(id) else { return };
        let home = self.all.memory.whole(Object::Variable(var));
        if is_variable_length(node.ty.plain()) {
            if self.computed_length(id, var).is_some() {
                return;
            }
            let nothing = self.nothing();
            let step = self.then(What::Opaque("an array whose length is computed"), id, nothing);
            self.write(step, Where::At(home), false);
            return;
        }
        let Some(initializer) = self.initializer(id) else { return };
        let value = self.initialise(Where::At(home), initializer);
        let step = self.then(What::Assign, id, value);
        self.write(step, Where::At(home), true);
    }

    fn if_statement(&mut self, children: &[Id]) {
        let (Some(condition), Some(then)) = (children.first(), children.get(1)) else { return };
        let (yes, no) = self.decide(*condition);
        self.frontier = yes;
        self.statement(*then);
        let mut after = std::mem::replace(&mut self.frontier, no);
        if let Some(otherwise) = children.get(2) {
            self.statement(*otherwise);
        }
        after.append(&mut self.frontier);
        self.frontier = after;
    }

    fn enter(&mut self) {
        self.enclosing.push(Enclosing { is_loop: true, ..Enclosing::default() });
    }

    /// Ends a loop: `no` are the edges of its condition that leave it.
    fn leave(&mut self, no: Vec<Edge>) {
        self.frontier = no;
        if let Some(left) = self.enclosing.pop() {
            self.frontier.extend(left.breaks);
        }
    }

    fn continued(&mut self) {
        if let Some(innermost) = self.enclosing.last_mut() {
            self.frontier.append(&mut innermost.continues);
        }
    }

    fn while_statement(&mut self, id: Id, children: &[Id]) {
        let [condition, body] = *children else { return };
        let head = self.join(id);
        let (yes, no) = self.decide(condition);
        self.enter();
        self.frontier = yes;
        self.statement(body);
        self.continued();
        let back = std::mem::take(&mut self.frontier);
        self.link(back, head);
        self.leave(no);
    }

    fn do_statement(&mut self, id: Id, children: &[Id]) {
        let [body, condition] = *children else { return };
        let head = self.join(id);
        self.enter();
        self.statement(body);
        self.continued();
        if self.all.program.tree.constant(condition) == Some(0) {
            // `do { … } while (0)` is a block: there is no way back.
            let rest = std::mem::take(&mut self.frontier);
            self.leave(rest);
            return;
        }
        let (yes, no) = self.decide(condition);
        self.link(yes, head);
        self.leave(no);
    }

    fn for_statement(&mut self, id: Id) {
        let tree = &self.all.program.tree;
        // Start, a declaration in the condition (not in C), condition, step, body.
        if let Some(start) = tree.child(id, 0) {
            self.statement(start);
        }
        let head = self.join(id);
        let (yes, no) = match tree.child(id, 2) {
            Some(condition) => self.decide(condition),
            None => {
                let nothing = self.nothing();
                let step = self.then(What::Branch(Some(true)), id, nothing);
                self.graph.step_of.insert(id, step);
                self.frontier.clear();
                (vec![(step, true)], vec![(step, false)])
            }
        };
        self.enter();
        self.frontier = yes;
        if let Some(body) = tree.child(id, 4) {
            self.statement(body);
        }
        self.continued();
        if let Some(step) = tree.child(id, 3) {
            self.statement(step);
        }
        let back = std::mem::take(&mut self.frontier);
        self.link(back, head);
        self.leave(no);
    }

    fn switch_statement(&mut self, id: Id, children: &[Id]) {
        let [condition, body] = *children else { return };
        let value = self.value(condition);
        let step = self.then(What::Switch, id, value);
        self.graph.step_of.insert(id, step);
        self.frontier.clear();
        self.enclosing.push(Enclosing { switch: Some(step), ..Enclosing::default() });
        self.statement(body);
        if let Some(left) = self.enclosing.pop() {
            self.frontier.extend(left.breaks);
            if !left.has_default {
                self.frontier.push((step, true));
            }
        }
    }

    fn case(&mut self, id: Id, children: &[Id]) {
        let tree = &self.all.program.tree;
        if let Some(switch) = self.enclosing.iter_mut().rev().find(|e| e.switch.is_some()) {
            switch.has_default |= tree[id].kind == Kind::Default;
            let edge = switch.switch.map(|step| (step, true));
            self.frontier.extend(edge);
        }
        let step = self.join(id);
        self.graph.step_of.insert(id, step);
        if let Some(statement) = children.last() {
            self.statement(*statement);
        }
    }

    fn jump(&mut self, id: Id, to: Option<usize>, continues: bool) {
        let nothing = self.nothing();
        let step = self.then(What::Jump, id, nothing);
        self.graph.step_of.insert(id, step);
        self.frontier = vec![(step, false)];
        let Some(enclosing) = to.and_then(|n| self.enclosing.get_mut(n)) else { return };
        let list = if continues { &mut enclosing.continues } else { &mut enclosing.breaks };
        list.push((step, true));
    }

    fn return_statement(&mut self, id: Id) {
        let tree = &self.all.program.tree;
        let result = tree.child(id, 0);
        let value = self.value_of(result);
        let slot = value.slot;
        let step = self.then(What::Return, id, value);
        self.graph.step_of.insert(id, step);
        if self.func == Some(self.all.program.main) {
            // The end of the program, and like a call of exit() no jump: see the head of `flow`.
            return;
        }
        self.graph.nodes[step.ix()].next.push(EXIT);
        if let (Some(func), Some(result)) = (self.func, result) {
            let home = self.all.memory.whole(Object::Result(func));
            let is_record = tree[result].ty.is_record();
            self.store(Where::At(home), slot, is_record);
            self.write(step, Where::At(home), true);
        }
        self.frontier = vec![(step, false)];
    }

    fn assembly(&mut self, id: Id) {
        let mut all = self.nothing();
        let mut written = Vec::new();
        for operand in self.all.program.tree.children(id).to_vec() {
            let bare = self.all.program.tree.bare(operand);
            if matches!(
                self.all.program.tree[bare].kind,
                Kind::DeclRef | Kind::Member | Kind::Subscript | Kind::Unary
            ) {
                let address = self.address(operand);
                written.push(address.place);
                all = all.and(&address.value);
            }
        }
        let step: Step = self.then(What::Opaque("inline assembly"), id, all);
        self.graph.step_of.insert(id, step);
        for place in written {
            self.write(step, place, false);
        }
    }
}

fn is_attribute(kind: Kind) -> bool {
    matches!(kind, Kind::Attribute | Kind::Annotation | Kind::PureAttribute | Kind::NoReturnAttribute)
}

/// `char [n]`: clang spells the expression out. `char [80]` has a number.
pub(crate) fn is_variable_length(ty: &str) -> bool {
    ty.split('[').skip(1).any(|part| {
        part.split(']')
            .next()
            .is_some_and(|length| !length.is_empty() && !length.bytes().all(|b| b.is_ascii_digit()))
    })
}
