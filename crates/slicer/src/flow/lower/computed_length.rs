//! Arrays whose length is computed where they are declared: `char line[width + 1];`, `char sector[fs->size];`.
//!
//! The front end tells such a length as text alone. Followed is what it names: numbers, variables, what is reached from
//! them by `.`, `->`, `[]` and `*`, and `strlen` of that, under all operators that change nothing. Parts of an object are
//! not told apart here. Whatever names the array, its size too, needs the step that declares it, and this step needs
//! what the length is computed from.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::Walk;
use crate::ast::program::{Scope, Var};
use crate::ast::{Id, Kind, Node};
use crate::flow::{Step, Value, What, Where};
use crate::memory::Object;
use crate::memory::points::Slot;

/// Operators between two operands that write nothing. What `?` and `:` leave out is read all the same.
const BETWEEN: &[&str] = &[
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?",
    ":",
];

/// A length as it is read.
struct Reading<'a> {
    words: Peekable<IntoIter<&'a str>>,
    /// The declaration that it is of.
    of: Id,
    reads: Vec<Where>,
}

impl<'a> Reading<'a> {
    fn is_next(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    /// What comes next, with what stands in its brackets: `(`, …, `)`. Without the brackets.
    fn in_brackets(&mut self) -> Option<Vec<&'a str>> {
        let mut depth = 1;
        self.words.next_if_eq(&"(")?;
        let mut found = Vec::new();
        for word in self.words.by_ref() {
            depth += i32::from(word == "(") - i32::from(word == ")");
            if depth == 0 {
                return Some(found);
            }
            found.push(word);
        }
        None
    }
}

impl Walk<'_, '_> {
    /// The step of such a declaration, if its length can be followed.
    pub(super) fn computed_length(&mut self, id: Id, var: Var) -> Option<Step> {
        let ty = &self.all.program.tree[id].ty;
        let lengths = ty.spelled.split_once('[').filter(|(before, _)| !before.contains("(*"))?.1;
        let words = words(lengths)?.into_iter().peekable();
        let mut reading = Reading { words, of: id, reads: Vec::new() };
        loop {
            // The length of an array that is a parameter may be left out.
            if !reading.is_next("]") {
                self.length(&mut reading)?;
                reading.words.next_if_eq(&"]")?;
            }
            match reading.words.next() {
                Some("[") => {}
                Some(_) => return None,
                None => break,
            }
        }
        let mut value = self.nothing();
        value.reads = reading.reads;
        let step = self.then(What::Assign, id, value);
        self.graph.step_of.insert(id, step);
        self.computed.insert(var, step);
        Some(step)
    }

    /// Operands and the operators between them; where what they give may point.
    fn length(&mut self, reading: &mut Reading<'_>) -> Option<Slot> {
        let all = self.all.points.fresh();
        loop {
            let operand = self.operand(reading)?;
            self.all.points.copy(all, operand);
            if reading.words.next_if(|word| BETWEEN.contains(word)).is_none() {
                return Some(all);
            }
        }
    }

    fn operand(&mut self, reading: &mut Reading<'_>) -> Option<Slot> {
        let word = reading.words.next()?;
        let first = word.chars().next()?;
        let slot = match word {
            "+" | "-" | "~" | "!" => return self.operand(reading),
            "*" => {
                let pointer = self.operand(reading)?;
                return self.reached(pointer, reading);
            }
            "sizeof" | "_Alignof" => {
                // Nothing is evaluated, unless it is of an array like this one.
                let inner = reading.in_brackets()?;
                let is_computed = |var: &Var| inner.contains(&self.all.program.var(*var).name.as_str());
                return (!self.computed.keys().any(is_computed)).then(|| self.all.points.fresh());
            }
            "(" if reading.words.peek().is_some_and(|word| self.is_type(word)) => {
                while reading.words.next()? != ")" {}
                return self.operand(reading);
            }
            "(" => {
                let inner = self.length(reading)?;
                reading.words.next_if_eq(&")")?;
                inner
            }
            _ if first.is_ascii_digit() || first == '\'' => return Some(self.all.points.fresh()),
            _ if !is_of_name(first) => return None,
            _ if reading.words.peek() == Some(&"(") => {
                // Of all functions the one of which it is known.
                let is_own = self.all.program.functions.iter().any(|function| function.name == word);
                if !matches!(word, "strlen" | "__builtin_strlen") || is_own {
                    return None;
                }
                reading.words.next();
                let text = self.length(reading)?;
                reading.words.next_if_eq(&")")?;
                return self.reached(text, reading);
            }
            name => self.named(name, reading)?,
        };
        self.parts(slot, reading)
    }

    /// A variable, or a constant of an enumeration.
    fn named(&mut self, name: &str, reading: &mut Reading<'_>) -> Option<Slot> {
        let program = self.all.program;
        let Some(read) = self.visible(name, reading.of)? else {
            let is_constant = |node: &Node| node.kind == Kind::Enumerator && node.name == name;
            return program.tree.nodes.iter().any(is_constant).then(|| self.all.points.fresh());
        };
        let home = self.all.memory.whole(Object::Variable(read));
        reading.reads.push(Where::At(home));
        let ty = &program.tree[program.var(read).node].ty;
        let place = self.all.points.address(home);
        // An array and a structure stand for where they lie.
        Some(if ty.is_array() || ty.is_record() { place } else { self.all.points.load(place) })
    }

    /// What `.`, `->` and `[]` behind an operand lead to.
    fn parts(&mut self, mut slot: Slot, reading: &mut Reading<'_>) -> Option<Slot> {
        loop {
            if reading.is_next("[") {
                self.length(reading)?;
                reading.words.next_if_eq(&"]")?;
                slot = self.reached(slot, reading)?;
            } else if reading.is_next(".") || reading.is_next("->") {
                reading.words.next_if(|word| word.starts_with(is_of_name))?;
                slot = self.reached(slot, reading)?;
            } else {
                return Some(slot);
            }
        }
    }

    /// What lies where something points. As types are not told, that is the object, if it is an array or a structure, as
    /// well as what is stored in it.
    fn reached(&mut self, pointer: Slot, reading: &mut Reading<'_>) -> Option<Slot> {
        // Reading memory may be an access to a mapped file.
        if self.all.maps_files {
            return None;
        }
        let object = self.all.points.widen(pointer);
        reading.reads.push(Where::Through(object));
        let found = self.all.points.load(object);
        self.all.points.copy(found, object);
        Some(found)
    }

    /// Does a cast begin with this word?
    fn is_type(&self, word: &str) -> bool {
        let tree = &self.all.program.tree;
        const WORDS: &[&str] = &[
            "char", "short", "int", "long", "unsigned", "signed", "float", "double", "_Bool", "struct",
            "union", "enum", "const", "volatile", "void",
        ];
        WORDS.contains(&word)
            || tree.nodes.iter().any(|node| node.kind == Kind::Typedef && node.name == word)
                && !self.all.program.variables.iter().any(|variable| variable.name == word)
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

    /// The one variable that a name may mean at a declaration; `None` if it may be one of several, `Some(None)` if it is none.
    fn visible(&self, name: &str, at: Id) -> Option<Option<Var>> {
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
        let of_name =
            || (0..program.variables.len() as u32).map(Var).filter(|var| program.var(*var).name == name);
        let is_here = |var: &Var| match program.var(*var).scope {
            Scope::Parameter(func, _) => Some(func) == self.func,
            Scope::Local(func) | Scope::Kept(func) => {
                Some(func) == self.func && is_around(program.var(*var).node)
            }
            Scope::File(_) => false,
        };
        let is_of_file = |var: &Var| match program.var(*var).scope {
            Scope::File(is_static) => !is_static || tree[program.var(*var).node].unit == tree[at].unit,
            _ => false,
        };
        let mut found = of_name().filter(is_here);
        match (found.next(), found.next()) {
            (None, _) => {}
            (Some(var), None) => return Some(Some(var)),
            _ => return None,
        }
        let mut found = of_name().filter(is_of_file);
        match (found.next(), found.next()) {
            (found, None) => Some(found),
            _ => None,
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Names, numbers and operators; `None` if there are others in it.
fn words(text: &str) -> Option<Vec<&str>> {
    let others = ["->", "++", "--", ".", "[", "]", "(", ")", "~", "!", "="];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_sign = |sign: &&&str| rest.starts_with(**sign);
        let length = if is_of_name(first) {
            // `1.5` is no length.
            rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())
        } else if first == '\'' {
            let end = if rest[1..].starts_with('\\') { 3 } else { 2 };
            rest.get(end..)?.find('\'')? + end + 1
        } else {
            // The longest of them.
            BETWEEN.iter().chain(&others).filter(is_sign).map(|sign| sign.len()).max()?
        };
        let word = rest.get(..length)?;
        if matches!(word, "++" | "--" | "=") {
            return None;
        }
        found.push(word);
        rest = rest[length..].trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_length_is_taken_apart() {
        assert_eq!(words("n]"), Some(vec!["n", "]"]));
        assert_eq!(
            words("80][fs->size << (n >= '\\'' ? a[1] : 2u)]"),
            Some(vec![
                "80", "]", "[", "fs", "->", "size", "<<", "(", "n", ">=", "'\\''", "?", "a", "[", "1", "]",
                ":", "2u", ")", "]"
            ])
        );
        assert_eq!(words("*p - -s.m]"), Some(vec!["*", "p", "-", "-", "s", ".", "m", "]"]));
        for more in ["n++]", "--n]", "n = 3]", "n += 3]", "({ 1; })]", "\"a\"]"] {
            assert_eq!(words(more), None, "{more}");
        }
    }
}
