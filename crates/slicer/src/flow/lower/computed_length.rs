//! Arrays whose length is computed where they are declared: `char line[width + 1];`.
//!
//! The front end tells such a length as text alone. Followed is what most of them are: numbers and variables of the
//! function, in the four operations, and `strlen` of such a variable. Whatever names the array, its size too, needs the step
//! that declares it, and this step needs what the length is computed from.

use super::Walk;
use crate::ast::program::{Scope, Var};
use crate::ast::{Id, Kind};
use crate::flow::{Step, Value, What, Where};
use crate::memory::Object;

/// What a length is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Name(&'a str),
    /// `strlen(name)`; `true` for `strlen(name[…])`, whose index comes as parts of its own.
    Text(&'a str, bool),
}

impl Walk<'_, '_> {
    /// The step of such a declaration, if its length can be followed.
    pub(super) fn computed_length(&mut self, id: Id, var: Var) -> Option<Step> {
        let ty = &self.all.program.tree[id].ty;
        let lengths = ty.spelled.split_once('[').filter(|_| !ty.spelled.contains("(*"))?.1;
        let lengths = format!("[{lengths}");
        let parts = parts(&lengths)?;
        let is_own = |name: &str| self.all.program.functions.iter().any(|function| function.name == name);
        if parts.iter().any(|part| matches!(part, Part::Text(..))) && is_own("strlen") {
            return None;
        }
        let mut value = self.nothing();
        for part in parts {
            let (Part::Name(name) | Part::Text(name, _)) = part;
            let read = self.visible(name, id)?;
            let ty = &self.all.program.tree[self.all.program.var(read).node].ty;
            let (is_array, is_pointer) = (ty.is_array(), ty.is_pointer());
            let home = self.all.memory.whole(Object::Variable(read));
            value.reads.push(Where::At(home));
            match part {
                Part::Name(_) if is_array || is_pointer || ty.is_record() => return None,
                Part::Name(_) => {}
                // Reading memory may be an access to a mapped file.
                Part::Text(..) if self.all.maps_files => return None,
                Part::Text(_, of_element) => {
                    let mut text = self.all.points.address(home);
                    for level in [!is_array, of_element] {
                        if level {
                            text = self.all.points.load(text);
                            value.reads.push(Where::Through(text));
                        }
                    }
                }
            }
        }
        let step = self.then(What::Assign, id, value);
        self.graph.step_of.insert(id, step);
        self.computed.insert(var, step);
        Some(step)
    }

    /// The value of `sizeof`: nothing is evaluated, but the size of such an array was, where it was declared.
    pub(super) fn size(&mut self, id: Id) -> Value {
        let mut value = self.nothing();
        if !self.computed.is_empty() {
            let program = self.all.program;
            let named =
                program.tree.below(id).into_iter().filter(|at| program.tree[*at].kind == Kind::DeclRef);
            let named = named.filter_map(|at| program.variable(at));
            value.needs.extend(named.filter_map(|var| self.computed.get(&var)));
        }
        value
    }

    /// The one variable of the function that a name may mean at a declaration. What lives longer is not followed: the slice
    /// may have a copy of it by another name.
    fn visible(&self, name: &str, at: Id) -> Option<Var> {
        let program = self.all.program;
        let tree = &program.tree;
        let around: Vec<Id> = std::iter::successors(tree[at].parent, |id| tree[*id].parent).collect();
        let is_around = |declared: Id| {
            let block = tree[declared].parent.and_then(|id| match tree[id].kind {
                Kind::Declarations => tree[id].parent,
                _ => Some(id),
            });
            declared < at && block.is_some_and(|block| around.contains(&block))
        };
        let is_here = |var: &Var| {
            let variable = program.var(*var);
            variable.name == name
                && match variable.scope {
                    Scope::Parameter(func, _) => Some(func) == self.func,
                    Scope::Local(func) | Scope::Kept(func) => {
                        Some(func) == self.func && is_around(variable.node)
                    }
                    Scope::File(_) => false,
                }
        };
        let mut found = (0..program.variables.len() as u32).map(Var).filter(is_here);
        let var = found.next().filter(|_| found.next().is_none())?;
        (!program.var(var).is_static()).then_some(var)
    }
}

/// The parts of the lengths between brackets; `None` if there is more in them than is followed.
fn parts(lengths: &str) -> Option<Vec<Part<'_>>> {
    if lengths.contains("++") || lengths.contains("--") {
        return None;
    }
    let mut found = Vec::new();
    let mut words = words(lengths)?.into_iter().peekable();
    while let Some(word) = words.next() {
        let first = word.chars().next()?;
        if first.is_ascii_digit() || "[]()+-*/%".contains(first) {
            continue;
        }
        if word != "strlen" {
            // A call, a type, a member and the like.
            if word == "sizeof" || words.peek().is_some_and(|next| ["(", "["].contains(next)) {
                return None;
            }
            found.push(Part::Name(word));
            continue;
        }
        let (open, name) = (words.next()?, words.next()?);
        if open != "(" || !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        match words.peek() {
            Some(&")") => found.push(Part::Text(name, false)),
            Some(&"[") => {
                let rest: Vec<&str> = words.clone().take(4).collect();
                if rest.len() != 4 || rest[2..] != ["]", ")"] {
                    return None;
                }
                found.push(Part::Text(name, true));
            }
            _ => return None,
        }
    }
    Some(found)
}

/// Names, numbers and single signs.
fn words(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false if "[]()+-*/%".contains(first) => 1,
            false => return None,
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{Part, parts};

    #[test]
    fn lengths_are_told_by_what_they_are_made_of() {
        assert_eq!(parts("[n]"), Some(vec![Part::Name("n")]));
        assert_eq!(parts("[80][2 * (n + 1)]"), Some(vec![Part::Name("n")]));
        let text = parts("[strlen(argv[at]) + 1]");
        assert_eq!(text, Some(vec![Part::Text("argv", true), Part::Name("at")]));
        assert_eq!(parts("[strlen(s) + extra]"), Some(vec![Part::Text("s", false), Part::Name("extra")]));
        for more in [
            "[f(n)]",
            "[p->n]",
            "[n++]",
            "[n ? 1 : 2]",
            "[sizeof(x)]",
            "[a[1]]",
            "[strlen(a[i + 1])]",
            "[strlen]",
        ] {
            assert_eq!(parts(more), None, "{more}");
        }
    }
}
