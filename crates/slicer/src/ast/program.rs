//! The functions and variables of the whole program, with names resolved over the translation units.
//!
//! What is not `static` is the same thing in all units that name it; its definition is the one with a body
//! (functions) or the one that is not merely `extern` (variables).

use std::collections::{HashMap, HashSet};

use super::{INLINE, Id, Kind, Node, Sources, Tree, Type};
use crate::Error;

/// A function with a body, by its place in [`Program::functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Func(pub(crate) u32);

/// A variable, by its place in [`Program::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Var(pub(crate) u32);

impl Func {
    pub(crate) fn ix(self) -> usize {
        self.0 as usize
    }
}

impl Var {
    pub(crate) fn ix(self) -> usize {
        self.0 as usize
    }
}

/// A function with a body.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) node: Id,
    pub(crate) body: Id,
    pub(crate) parameters: Vec<Var>,
    pub(crate) unit: u16,
    pub(crate) is_static: bool,
    /// The type of what it returns, as spelled.
    pub(crate) returns: String,
    /// Does it take further arguments?
    pub(crate) is_variadic: bool,
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// At file scope; `true` if `static`.
    File(bool),
    /// `static` in a function: lives as long as the program.
    Kept(Func),
    Local(Func),
    Parameter(Func, usize),
}

/// A variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Its definition, or a declaration if it is defined nowhere in the program.
    pub(crate) node: Id,
    pub(crate) scope: Scope,
    /// Is its definition part of the program?
    pub(crate) defined: bool,
}

impl Variable {
    /// Does it live as long as the program?
    pub(crate) fn is_static(&self) -> bool {
        matches!(self.scope, Scope::File(_) | Scope::Kept(_))
    }
}

/// The program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) tree: Tree,
    pub(crate) sources: Sources,
    /// The root of each unit and the number of its file.
    pub(crate) units: Vec<(Id, u32)>,
    pub(crate) functions: Vec<Function>,
    pub(crate) variables: Vec<Variable>,
    variable_of: HashMap<Id, Var>,
    static_functions: HashMap<(u16, String), Func>,
    shared_functions: HashMap<String, Func>,
    /// The names of functions that no way leads to.
    pub(crate) unreached: Vec<String>,
    /// Units in which `inline` means what it did before C99.
    old_inline: Vec<u16>,
    pub(crate) main: Func,
}

impl Program {
    pub(crate) fn new(
        tree: Tree,
        sources: Sources,
        units: Vec<(Id, u32)>,
        old_inline: Vec<u16>,
    ) -> Result<Self, Error> {
        let mut program = Self {
            tree,
            sources,
            units,
            functions: Vec::new(),
            variables: Vec::new(),
            variable_of: HashMap::new(),
            static_functions: HashMap::new(),
            shared_functions: HashMap::new(),
            unreached: Vec::new(),
            old_inline,
            main: Func(0),
        };
        program.find_functions()?;
        program.keep_reached();
        program.find_variables();
        program.main = program.shared_functions.get("main").copied().ok_or(Error::NoMain)?;
        Ok(program)
    }

    fn find_functions(&mut self) -> Result<(), Error> {
        // What is called `void` by another name.
        let is_void = |node: &&Node| node.kind == Kind::Typedef && node.ty.is_void();
        let of_nothing: HashSet<String> =
            self.tree.nodes.iter().filter(is_void).map(|node| node.name.clone()).collect();
        for (root, _) in self.units.clone() {
            for node in self.tree.children(root).to_vec() {
                let declared = &self.tree[node];
                if declared.kind != Kind::Function {
                    continue;
                }
                let body = declared.children.iter().find(|c| self.tree[**c].kind == Kind::Compound);
                let Some(&body) = body else { continue };
                // What GNU C calls `extern inline` is defined elsewhere, and this a way to do it faster: that of
                // <bits/stdio.h>, or one that checks sizes (_FORTIFY_SOURCE).
                let is_gnu = self.old_inline.contains(&declared.unit)
                    || declared.children.iter().any(|c| self.tree[*c].kind == Kind::GnuInlineAttribute);
                if declared.storage == "extern" && is_gnu && self.is_inline(node) {
                    continue;
                }
                let func = Func(self.functions.len() as u32);
                let name = declared.name.clone();
                // `inline` without `static` in a header has one definition a unit, all the same.
                let inline = self.is_inline(node);
                let is_static = declared.storage == "static" || inline;
                if is_static {
                    self.static_functions.insert((declared.unit, name.clone()), func);
                } else if let Some(other) = self.shared_functions.insert(name.clone(), func) {
                    let first = self.describe(self.functions[other.ix()].node);
                    return Err(Error::DefinedTwice { name, first, second: self.describe(node) });
                }
                let returns = match result_of(&declared.ty) {
                    name if of_nothing.contains(&name) => "void".to_owned(),
                    result => result,
                };
                self.functions.push(Function {
                    name,
                    node,
                    body,
                    parameters: Vec::new(),
                    unit: declared.unit,
                    is_static,
                    returns,
                    is_variadic: self.tree[node].flag,
                });
            }
        }
        Ok(())
    }

    /// Leaves out the functions that nobody names who is reached from `main`, or from the initial value of a variable:
    /// a program has of its libraries most that it does not call. What a library without source calls by name,
    /// nothing here follows in any case.
    fn keep_reached(&mut self) {
        let mut reached = vec![false; self.functions.len()];
        let mut open: Vec<Id> = Vec::new();
        for (root, _) in &self.units {
            open.extend(self.tree.children(*root).iter().filter(|id| self.tree[**id].kind == Kind::Variable));
        }
        for (number, function) in self.functions.iter().enumerate() {
            let is_root =
                self.tree.children(function.node).iter().any(|c| self.tree[*c].kind == Kind::RootAttribute);
            if is_root || function.name == "main" {
                reached[number] = true;
                open.push(function.body);
            }
        }
        while let Some(id) = open.pop() {
            for reference in self.tree.below(id) {
                if let Some(func) = self.function(reference)
                    && !std::mem::replace(&mut reached[func.ix()], true)
                {
                    open.push(self.functions[func.ix()].body);
                }
            }
        }
        let mut numbers = Vec::with_capacity(reached.len());
        let mut kept = Vec::new();
        for (function, is_reached) in std::mem::take(&mut self.functions).into_iter().zip(reached) {
            numbers.push(is_reached.then_some(Func(kept.len() as u32)));
            match is_reached {
                true => kept.push(function),
                false => self.unreached.push(function.name),
            }
        }
        self.functions = kept;
        let renumbered = |func: &mut Func| numbers[func.ix()].map(|number| *func = number).is_some();
        self.static_functions.retain(|_, func| renumbered(func));
        self.shared_functions.retain(|_, func| renumbered(func));
    }

    fn is_inline(&self, function: Id) -> bool {
        self.tree[function].operator == INLINE
    }

    fn find_variables(&mut self) {
        let mut shared: HashMap<String, Var> = HashMap::new();
        let mut private: HashMap<(u16, String), Var> = HashMap::new();
        for (root, _) in self.units.clone() {
            for node in self.tree.children(root).to_vec() {
                if self.tree[node].kind == Kind::Variable {
                    self.file_variable(node, &mut shared, &mut private);
                }
            }
        }
        for index in 0..self.functions.len() {
            let func = Func(index as u32);
            let node = self.functions[index].node;
            for parameter in self.tree.children(node).to_vec() {
                if self.tree[parameter].kind != Kind::Parameter {
                    continue;
                }
                let position = self.functions[index].parameters.len();
                let var = self.add_variable(parameter, Scope::Parameter(func, position), true);
                self.functions[index].parameters.push(var);
            }
            for local in self.tree.below(self.functions[index].body) {
                let declared = &self.tree[local];
                if declared.kind != Kind::Variable {
                    continue;
                }
                match declared.storage.as_str() {
                    "extern" => self.file_variable(local, &mut shared, &mut private),
                    "static" => _ = self.add_variable(local, Scope::Kept(func), true),
                    _ => _ = self.add_variable(local, Scope::Local(func), true),
                }
            }
        }
    }

    fn file_variable(
        &mut self,
        node: Id,
        shared: &mut HashMap<String, Var>,
        private: &mut HashMap<(u16, String), Var>,
    ) {
        let declared = &self.tree[node];
        let (name, unit) = (declared.name.clone(), declared.unit);
        let is_static = declared.storage == "static" || private.contains_key(&(unit, name.clone()));
        let defines = declared.storage != "extern" || declared.flag;
        let initialised = declared.flag;
        let known = if is_static { private.get(&(unit, name.clone())) } else { shared.get(&name) }.copied();
        if let Some(var) = known {
            self.variable_of.insert(node, var);
            let variable = &mut self.variables[var.ix()];
            if defines && (!variable.defined || initialised) {
                variable.node = node;
                variable.defined = true;
            }
            return;
        }
        let var = self.add_variable(node, Scope::File(is_static), defines);
        if is_static {
            private.insert((unit, name), var);
        } else {
            shared.insert(name, var);
        }
    }

    fn add_variable(&mut self, node: Id, scope: Scope, defined: bool) -> Var {
        let var = Var(self.variables.len() as u32);
        let name = self.tree[node].name.clone();
        self.variables.push(Variable { name, node, scope, defined });
        self.variable_of.insert(node, var);
        var
    }

    /// The variable that a declaration or a reference stands for.
    pub(crate) fn variable(&self, node: Id) -> Option<Var> {
        let declaration = match self.tree[node].kind {
            Kind::DeclRef => self.tree[node].refers_to?,
            _ => node,
        };
        self.variable_of.get(&declaration).copied()
    }

    /// The function with a body that is called `name` in this unit.
    pub(crate) fn function_named(&self, unit: u16, name: &str) -> Option<Func> {
        let private = self.static_functions.get(&(unit, name.to_owned()));
        private.or_else(|| self.shared_functions.get(name)).copied()
    }

    /// The function with a body that a reference names.
    pub(crate) fn function(&self, reference: Id) -> Option<Func> {
        let node = &self.tree[reference];
        if node.kind != Kind::DeclRef || node.operator != "FunctionDecl" {
            return None;
        }
        self.function_named(node.unit, &node.refers_to_name)
    }

    pub(crate) fn func(&self, func: Func) -> &Function {
        &self.functions[func.ix()]
    }

    pub(crate) fn var(&self, var: Var) -> &Variable {
        &self.variables[var.ix()]
    }

    /// `file:line` of a node.
    pub(crate) fn describe(&self, node: Id) -> String {
        let place = self.tree[node].begin;
        if !place.known {
            return "?".to_owned();
        }
        let (path, line) = self.sources.origin(place.file, place.offset);
        format!("{}:{line}", path.display())
    }
}

/// What a function of a type returns, which may be declared by the name of its type, or as `typeof(f)`.
fn result_of(ty: &Type) -> String {
    let is_named = !ty.spelled.contains('(') || ty.spelled.starts_with("typeof");
    function_result(if is_named { ty.plain() } else { &ty.spelled })
}

/// What a function of this type returns: `int (const char *, ...)` gives `int`, `int (*(char))(void)`, which returns a
/// pointer to a function, `int (*)(void)`.
fn function_result(spelled: &str) -> String {
    let Some(at) = spelled.find('(') else { return spelled.to_owned() };
    if !spelled[at..].starts_with("(*") {
        return spelled[..at].trim_end().to_owned();
    }
    // Its own parameters stand in the innermost of these groups.
    let mut inner = at;
    while let Some(next) = spelled[inner + 2..].find('(').map(|next| inner + 2 + next) {
        if !spelled[next..].starts_with("(*") {
            let mut depth = 0;
            let end = spelled[next..].find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            let rest = end.map_or("", |end| &spelled[next + end + 1..]);
            return format!("{}{rest}", spelled[..next].trim_end());
        }
        inner = next;
    }
    spelled.to_owned()
}

#[cfg(test)]
mod tests {
    use super::function_result;

    #[test]
    fn the_result_is_what_is_left_without_the_parameters() {
        for (spelled, wanted) in [
            ("int (const char *, ...)", "int"),
            ("char *(int (*)(void))", "char *"),
            ("void (void) __attribute__((noreturn))", "void"),
            ("int (*(int))(int, const char *)", "int (*)(int, const char *)"),
            ("char (*(int))[16]", "char (*)[16]"),
            ("int (*(*(int (*)(int)))(long))(char)", "int (*(*)(long))(char)"),
            ("int (*const (void))(int)", "int (*const)(int)"),
        ] {
            assert_eq!(function_result(spelled), wanted, "{spelled}");
        }
    }
}
