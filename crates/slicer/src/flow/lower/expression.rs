//! Expressions: what they read, where they may point, and the steps of their effects, in the order of
//! evaluation. `&&`, `||` and `?:` become decisions.

use super::{Edge, Walk};
use crate::ast::{Id, Kind};
use crate::flow::{Step, Value, What, Where};
use crate::memory::{Loc, Object};

/// A place that an expression designates.
pub(super) struct Address {
    pub(super) place: Where,
    /// What finding the place takes.
    pub(super) value: Value,
    /// Is it one variable or one field of it, and all of it?
    pub(super) exact: bool,
}

impl Walk<'_, '_> {
    /// What an expression computes.
    pub(super) fn value(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let node = &tree[id];
        let first = tree.child(id, 0);
        match node.kind {
            Kind::Paren | Kind::Constant | Kind::FullExpr => self.value_of(first),
            Kind::ImplicitCast | Kind::Cast => self.cast(id),
            Kind::DeclRef => self.reference(id),
            Kind::StringLiteral | Kind::PredefinedName => {
                let literal = self.all.memory.whole(Object::Literal(id));
                let slot = self.all.points.address(literal);
                self.pointing(slot)
            }
            Kind::Unary => self.unary(id),
            Kind::Binary => self.binary(id),
            Kind::CompoundAssign => {
                let [target, operand] = *tree.children(id) else { return self.nothing() };
                self.update(id, target, Some(operand))
            }
            Kind::Conditional => self.conditional(id),
            Kind::BinaryConditional => self.elvis(id),
            Kind::Call => self.call(id),
            Kind::Member | Kind::Subscript => {
                // A member of a structure that is itself a value.
                let address = self.address(id);
                self.read(address, id)
            }
            Kind::CompoundLiteral => {
                let address = self.address(id);
                let slot = self.address_slot(address.place);
                Value { slot, ..address.value }
            }
            Kind::InitList => {
                let mut all = self.nothing();
                for child in tree.children(id) {
                    let part = self.value(*child);
                    self.all.points.copy(all.slot, part.slot);
                    all = all.and(&part);
                }
                all
            }
            Kind::StatementExpr => self.statement_expression(id),
            Kind::VaArg => self.further_argument(id),
            Kind::OpaqueValue => self.value_of(first),
            Kind::Generic => {
                let selected = tree.selected(id);
                self.value_of(selected)
            }
            Kind::SizeOf => self.size(id),
            Kind::Other | Kind::DesignatedUpdate => self.opaque(id, "an unusual expression"),
            _ => self.nothing(),
        }
    }

    pub(super) fn value_of(&mut self, id: Option<Id>) -> Value {
        match id {
            Some(id) => self.value(id),
            None => self.nothing(),
        }
    }

    /// Something that is not followed: whoever needs it, cannot be sliced.
    /// `va_arg`: reads the next of them, and moves the list on.
    fn further_argument(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let list = tree.child(id, 0).filter(|list| tree[*list].ty.is_argument_list());
        let Some(list) = list.filter(|_| !tree[id].ty.is_record()) else { return self.opaque(id, "va_arg") };
        let mut value = self.value(list);
        let place = Where::Through(value.slot);
        let rest = self.all.points.load(value.slot);
        let slot = self.all.points.load(rest);
        value.reads.extend([place, Where::Through(rest)]);
        let step = self.then(What::Assign, id, value);
        self.graph.step_of.insert(id, step);
        self.write(step, place, false);
        Value { reads: Vec::new(), needs: vec![step], slot }
    }

    fn opaque(&mut self, id: Id, why: &'static str) -> Value {
        let mut all = self.nothing();
        for child in self.all.program.tree.children(id).to_vec() {
            if self.all.program.tree[child].kind.is_expression() {
                let part = self.value(child);
                all = all.and(&part);
            }
        }
        let step = self.then(What::Opaque(why), id, all);
        self.graph.step_of.insert(id, step);
        let mut value = self.nothing();
        value.needs.push(step);
        value
    }

    fn cast(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let Some(inner) = tree.child(id, 0) else { return self.nothing() };
        match tree[id].operator.as_str() {
            "LValueToRValue" => {
                let address = self.address(inner);
                self.read(address, tree.bare(inner))
            }
            "ArrayToPointerDecay" => {
                let address = self.address(inner);
                let slot = self.address_slot(address.place);
                Value { slot, ..address.value }
            }
            _ => self.value(inner),
        }
    }

    /// The value that lies at an address. That of a structure is represented by where it lies.
    fn read(&mut self, address: Address, id: Id) -> Value {
        let is_record = self.all.program.tree[id].ty.is_record();
        let pointer = self.address_slot(address.place);
        let slot = if is_record { pointer } else { self.all.points.load(pointer) };
        let mut value = address.value;
        value.reads.push(address.place);
        value.slot = slot;
        if self.all.maps_files && matches!(address.place, Where::Through(_)) {
            let step = self.then(What::Access, id, value);
            self.graph.step_of.insert(id, step);
            return Value { reads: Vec::new(), needs: vec![step], slot };
        }
        value
    }

    fn reference(&mut self, id: Id) -> Value {
        let node = &self.all.program.tree[id];
        if node.operator == "FunctionDecl" {
            let object = match self.all.program.function(id) {
                Some(func) => Object::Function(func),
                None => Object::Library(node.refers_to_name.clone()),
            };
            let target = self.all.memory.whole(object);
            let slot = self.all.points.address(target);
            return self.pointing(slot);
        }
        match self.all.program.variable(id) {
            Some(_) => {
                let address = self.address(id);
                self.read(address, id)
            }
            None => self.nothing(),
        }
    }

    fn unary(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let Some(operand) = tree.child(id, 0) else { return self.nothing() };
        match tree[id].operator.as_str() {
            "&" => {
                let bare = tree.bare(operand);
                if tree[bare].operator == "FunctionDecl" && tree[bare].kind == Kind::DeclRef {
                    return self.reference(bare);
                }
                let address = self.address(operand);
                let slot = self.address_slot(address.place);
                Value { slot, ..address.value }
            }
            "++" | "--" => self.update(id, operand, None),
            // A pointer to a function that is dereferenced is the function.
            "*" if tree[id].ty.plain().contains('(') => self.value(operand),
            "*" => {
                let address = self.address(id);
                self.read(address, id)
            }
            "!" => {
                let value = self.value(operand);
                let slot = self.all.points.fresh();
                Value { slot, ..value }
            }
            _ => self.value(operand),
        }
    }

    fn binary(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let [left, right] = *tree.children(id) else { return self.nothing() };
        match tree[id].operator.as_str() {
            "=" => self.assignment(id, left, right),
            "," => {
                self.value(left);
                self.value(right)
            }
            "&&" | "||" => {
                let (yes, no) = self.decide(id);
                self.truth(yes, no, id)
            }
            operator => {
                let left_value = self.value(left);
                let left_value = self.pin_before(left_value, right, left);
                let right_value = self.value(right);
                let slot = self.all.points.fresh();
                if matches!(operator, "+" | "-" | "&" | "|") {
                    for operand in [left_value.slot, right_value.slot] {
                        self.all.points.copy(slot, operand);
                    }
                }
                let ty = &self.all.program.tree[id].ty;
                let slot = if ty.points_to_bytes() { self.all.points.widen(slot) } else { slot };
                Value { slot, ..left_value.and(&right_value) }
            }
        }
    }

    /// The 0 or 1 that a decision gives as a value: it comes from the steps that decide.
    fn truth(&mut self, yes: Vec<Edge>, no: Vec<Edge>, ast: Id) -> Value {
        let mut value = self.nothing();
        for (step, _) in yes.iter().chain(&no) {
            if !value.needs.contains(step) {
                value.needs.push(*step);
            }
        }
        self.frontier = yes;
        self.frontier.extend(no);
        self.join(ast);
        value
    }

    fn assignment(&mut self, id: Id, left: Id, right: Id) -> Value {
        let is_record = self.all.program.tree[left].ty.is_record();
        // The sides are evaluated in either order; the place is found first here, unless that would pin it
        // for nothing.
        let (address, value) = if self.all.has_effects(left) {
            let address = self.address(left);
            let place = address.place;
            let pinned = self.pin_before(address.value, right, left);
            (Address { place, value: pinned, exact: address.exact }, self.value(right))
        } else {
            let value = self.value(right);
            (self.address(left), value)
        };
        self.store(address.place, value.slot, is_record);
        let slot = value.slot;
        let step = self.then(What::Assign, id, value.and(&address.value));
        self.write(step, address.place, address.exact);
        Value { reads: Vec::new(), needs: vec![step], slot }
    }

    pub(super) fn write(&mut self, step: Step, place: Where, surely: bool) {
        self.graph.nodes[step.ix()].writes.push((place, surely));
        let ast = self.graph.nodes[step.ix()].ast;
        self.graph.step_of.insert(ast, step);
    }

    /// `x op= y`, `x++`.
    fn update(&mut self, id: Id, target: Id, operand: Option<Id>) -> Value {
        let address = self.address(target);
        let place = address.place;
        let mut value = address.value;
        if let Some(operand) = operand {
            value = self.pin_before(value, operand, target);
            let operand = self.value(operand);
            value = value.and(&operand);
        }
        value.reads.push(place);
        let pointer = self.address_slot(place);
        let mut slot = self.all.points.load(pointer);
        if self.all.program.tree[target].ty.points_to_bytes() {
            slot = self.all.points.widen(slot);
            self.store(place, slot, false);
        }
        let step = self.then(What::Assign, id, value);
        self.write(step, place, address.exact);
        Value { reads: Vec::new(), needs: vec![step], slot }
    }

    fn conditional(&mut self, id: Id) -> Value {
        let [condition, yes, no] = *self.all.program.tree.children(id) else { return self.nothing() };
        let (true_edges, false_edges) = self.decide(condition);
        let deciding: Vec<Step> = true_edges.iter().chain(&false_edges).map(|e| e.0).collect();
        self.frontier = true_edges;
        let one = self.value(yes);
        let one = self.pin(one, yes);
        let mut after = std::mem::replace(&mut self.frontier, false_edges);
        let other = self.value(no);
        let other = self.pin(other, no);
        after.append(&mut self.frontier);
        self.frontier = after;
        self.join(id);
        let slot = self.all.points.fresh();
        self.all.points.copy(slot, one.slot);
        self.all.points.copy(slot, other.slot);
        let mut value = Value { slot, ..one.and(&other) };
        value.needs.extend(deciding);
        value.needs.sort_unstable();
        value.needs.dedup();
        value
    }

    /// `a ?: b`.
    fn elvis(&mut self, id: Id) -> Value {
        let children = self.all.program.tree.children(id).to_vec();
        let (Some(common), Some(other)) = (children.first(), children.last()) else { return self.nothing() };
        let value = self.value(*common);
        let value = self.pin(value, *common);
        let branch = self.then(What::Branch(None), *common, value.clone());
        let skip = (branch, true);
        let alternative = self.value(*other);
        let alternative = self.pin(alternative, *other);
        self.frontier.push(skip);
        self.join(id);
        let slot = self.all.points.fresh();
        self.all.points.copy(slot, value.slot);
        self.all.points.copy(slot, alternative.slot);
        let mut value = Value { slot, ..value.and(&alternative) };
        value.needs.push(branch);
        value
    }

    fn statement_expression(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let Some(body) = tree.child(id, 0) else { return self.nothing() };
        let statements = tree.children(body).to_vec();
        let Some((last, before)) = statements.split_last() else { return self.nothing() };
        for statement in before {
            self.statement(*statement);
        }
        if !tree[*last].kind.is_expression() {
            self.statement(*last);
            return self.nothing();
        }
        let value = self.value(*last);
        self.pin(value, *last)
    }

    /// Decides on a condition: the edges for true and those for false.
    pub(super) fn decide(&mut self, id: Id) -> (Vec<Edge>, Vec<Edge>) {
        let tree = &self.all.program.tree;
        let bare = tree.bare(id);
        let node = &tree[bare];
        match (node.kind, node.operator.as_str()) {
            (Kind::Unary, "!") => {
                let (yes, no) = self.decide(tree.children(bare)[0]);
                return (no, yes);
            }
            (Kind::Binary, "&&") => {
                let (left, right) = (tree.children(bare)[0], tree.children(bare)[1]);
                let (yes, mut no) = self.decide(left);
                self.frontier = yes;
                let (yes, right_no) = self.decide(right);
                no.extend(right_no);
                return (yes, no);
            }
            (Kind::Binary, "||") => {
                let (left, right) = (tree.children(bare)[0], tree.children(bare)[1]);
                let (mut yes, no) = self.decide(left);
                self.frontier = no;
                let (right_yes, no) = self.decide(right);
                yes.extend(right_yes);
                return (yes, no);
            }
            (Kind::Call, _) if tree.callee_name(bare) == Some("__builtin_expect") => {
                return self.decide(tree.arguments(bare)[0]);
            }
            _ => {}
        }
        let constant = tree.constant(bare).map(|v| v != 0);
        let value = self.value(id);
        let step = self.then(What::Branch(constant), bare, value);
        self.graph.step_of.entry(bare).or_insert(step);
        self.frontier.clear();
        // The way that a constant condition never takes is there in the augmented graph only.
        (vec![(step, constant != Some(false))], vec![(step, constant != Some(true))])
    }

    /// The place that an expression designates.
    pub(super) fn address(&mut self, id: Id) -> Address {
        let tree = &self.all.program.tree;
        let node = &tree[id];
        let first = tree.child(id, 0);
        match (node.kind, first) {
            (Kind::Paren | Kind::Constant | Kind::FullExpr, Some(inner)) => self.address(inner),
            (Kind::ImplicitCast | Kind::Cast, Some(inner)) if node.operator == "NoOp" => self.address(inner),
            (Kind::Generic, _) => match tree.selected(id) {
                Some(selected) => self.address(selected),
                None => self.through(id),
            },
            (Kind::DeclRef, _) => match self.all.program.variable(id) {
                Some(var) => {
                    let home = self.all.memory.whole(Object::Variable(var));
                    let mut address = self.at(home, !node.ty.is_array());
                    address.value.needs.extend(self.computed.get(&var));
                    address
                }
                None => self.through(id),
            },
            (Kind::Member, Some(base)) => self.member(id, base),
            (Kind::Subscript, Some(_)) => self.subscript(id),
            (Kind::Unary, Some(operand)) if node.operator == "*" => {
                let value = self.value(operand);
                Address { place: Where::Through(value.slot), value, exact: false }
            }
            (Kind::Unary, Some(operand)) if node.operator == "__extension__" => self.address(operand),
            (Kind::StringLiteral | Kind::PredefinedName, _) => {
                let literal = self.all.memory.whole(Object::Literal(id));
                self.at(literal, false)
            }
            (Kind::CompoundLiteral, Some(list)) => {
                let home = self.all.memory.whole(Object::Heap(id));
                let value = self.initialise(Where::At(home), list);
                let step = self.then(What::Assign, id, value);
                self.write(step, Where::At(home), false);
                let mut address = self.at(home, false);
                address.value.needs.push(step);
                address
            }
            _ => self.through(id),
        }
    }

    fn at(&mut self, location: Loc, exact: bool) -> Address {
        Address { place: Where::At(location), value: self.nothing(), exact }
    }

    /// Where a value points that is no designator: the structure that a call returns.
    fn through(&mut self, id: Id) -> Address {
        let designator = matches!(self.all.program.tree[id].kind, Kind::DeclRef);
        let value = if designator { self.nothing() } else { self.value(id) };
        Address { place: Where::Through(value.slot), value, exact: false }
    }

    fn member(&mut self, id: Id, base: Id) -> Address {
        let tree = &self.all.program.tree;
        let field = tree[id].refers_to.and_then(|f| self.all.memory.field(tree, f));
        let is_array = tree[id].ty.is_array();
        let base = if tree[id].flag {
            let value = self.value(base);
            Address { place: Where::Through(value.slot), value, exact: false }
        } else {
            self.address(base)
        };
        let Some(field) = field else { return Address { exact: false, ..base } };
        let mut exact = base.exact && !is_array;
        let place = match base.place {
            Where::At(location) => {
                let part = self.all.memory.extend(location, &[field]);
                // Where the parts of an object are not told apart, writing one leaves the others as they are.
                exact &= part != location && self.all.memory.path(part).ends_with(&[field]);
                Where::At(part)
            }
            Where::Through(slot) => Where::Through(self.all.points.part(slot, field)),
        };
        Address { place, value: base.value, exact }
    }

    fn subscript(&mut self, id: Id) -> Address {
        let tree = &self.all.program.tree;
        let [one, other] = *tree.children(id) else { return self.through(id) };
        // `3[a]` is `a[3]`.
        let (base, index) = if tree[one].ty.is_pointer() { (one, other) } else { (other, one) };
        let bare = tree.bare(base);
        let address = if tree[bare].ty.is_array() {
            self.address(bare)
        } else {
            let value = self.value(base);
            Address { place: Where::Through(value.slot), value, exact: false }
        };
        let value = self.pin_before(address.value, index, base);
        let index = self.value(index);
        Address { place: address.place, value: value.and(&index), exact: false }
    }

    /// Initializes a place: the rules, and what the initializer reads.
    pub(super) fn initialise(&mut self, place: Where, initializer: Id) -> Value {
        let tree = &self.all.program.tree;
        let bare = tree.bare(initializer);
        if tree[bare].kind != Kind::InitList {
            let value = self.value(initializer);
            let is_record = tree[initializer].ty.is_record();
            self.store(place, value.slot, is_record);
            return value;
        }
        let fields = self.fields_of(bare);
        let mut all = self.nothing();
        for (number, child) in tree.children(bare).iter().enumerate() {
            let part = match (fields.as_ref().map(|f| f.get(number)), place) {
                (Some(Some(field)), Where::At(location)) => match self.all.memory.field(tree, *field) {
                    Some(field) => Where::At(self.all.memory.extend(location, &[field])),
                    None => place,
                },
                _ => place,
            };
            let value = self.initialise(part, *child);
            let later = tree.children(bare).get(number + 1);
            let value = match later {
                Some(later) => self.pin_before(value, *later, *child),
                None => value,
            };
            all = all.and(&value);
        }
        all
    }

    /// The fields that the parts of an initializer of a structure belong to, in their order.
    fn fields_of(&self, list: Id) -> Option<Vec<Id>> {
        let tree = &self.all.program.tree;
        let name = tree[list].ty.plain().trim_start_matches("const ").strip_prefix("struct ")?;
        let (root, _) = self.all.program.units[tree[list].unit as usize];
        let is_it = |id: &&Id| {
            let node = &tree[**id];
            node.kind == Kind::Record
                && node.name == name
                && node.children.iter().any(|c| tree[*c].kind == Kind::Field)
        };
        let record = tree.children(root).iter().find(is_it)?;
        Some(tree.children(*record).iter().copied().filter(|c| tree[*c].kind == Kind::Field).collect())
    }
}
