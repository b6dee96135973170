//! Declarations of variables whose type has no name: `static struct { … } table[] = { … };` in a function.
//!
//! Such a type cannot be spelled, so all variables of it that the slice has are declared together, around the text of the
//! type. Their initial values are written like those of other variables: what has a slice is named by its own name.

use super::declare::{declare, has_name};
use super::expression::Writer;
use super::one_line::one_line;
use super::statement::Lines;
use crate::ast::{Id, Kind};

/// Stands for the type while a variable is declared.
const BASE: &str = "foretell_type_without_name";

impl Writer<'_, '_> {
    /// Those of the declaration's variables that are among `wanted`. `None` if there is no C for it.
    pub(super) fn unnamed(&mut self, id: Id, wanted: &[Id]) -> Option<Lines> {
        let tree = &self.emission.known.program.tree;
        let sources = &self.emission.known.program.sources;
        let children = tree.children(id).to_vec();
        let is_type = |c: &Id| matches!(tree[*c].kind, Kind::Record | Kind::Enum) && tree[*c].name.is_empty();
        let ty = children.iter().rfind(|c| is_type(c))?;
        let (file, from, to) = sources.exact(tree[*ty].begin, tree[*ty].end)?;
        let text = one_line(sources.stretch(file, from, to))?;
        let mut lines = Lines::new();
        let mut head: Option<String> = None;
        let mut declared = Vec::new();
        for child in children.into_iter().filter(|c| tree[*c].kind == Kind::Variable) {
            let value = self.initial_value(child);
            if !wanted.contains(&child) {
                lines.extend(value.into_iter().flat_map(|v| self.effect_lines(v)));
                continue;
            }
            let node = &tree[child];
            let whole = declare(&with_base(&node.ty.spelled)?, &node.name);
            let (before, after) = whole.split_once(BASE)?;
            if head.get_or_insert_with(|| before.to_owned()) != before {
                return None;
            }
            let is_static = node.storage == "static";
            declared.push(match value {
                Some(value) if is_static || self.is_kept(child) => {
                    format!("{} = {}", after.trim_start(), self.expression(value))
                }
                Some(value) => {
                    lines.extend(self.effect_lines(value));
                    after.trim_start().to_owned()
                }
                None => after.trim_start().to_owned(),
            });
        }
        let storage = if wanted.iter().any(|v| tree[*v].storage == "static") { "static " } else { "" };
        lines.push(format!("{storage}{}{text} {};", head?, declared.join(", ")));
        Some(lines)
    }

    /// What a variable is declared with.
    pub(super) fn initial_value(&self, variable: Id) -> Option<Id> {
        let tree = &self.emission.known.program.tree;
        let node = &tree[variable];
        let value = node.children.iter().rev().copied().find(|c| tree[*c].kind.is_expression());
        value.filter(|_| node.flag)
    }
}

/// The type with a word in place of what has no name: `const struct (unnamed struct at a.c:1:2)[2]`.
fn with_base(spelled: &str) -> Option<String> {
    if has_name(spelled) {
        return None;
    }
    let at = spelled.find("(unnamed").or_else(|| spelled.find("(anonymous"))?;
    let end = at + spelled[at..].find(')')? + 1;
    let keyword = spelled[..at].trim_end();
    let begin = keyword.rfind(' ').map_or(0, |space| space + 1);
    Some(format!("{}{BASE}{}", &spelled[..begin], &spelled[end..]))
}

#[cfg(test)]
mod tests {
    use super::with_base;

    #[test]
    fn what_has_no_name_is_found_in_a_type() {
        let found = |spelled| with_base(spelled).map(|text| text.replace(super::BASE, "T"));
        assert_eq!(found("const struct (unnamed struct at a.c:1:2)[2]").unwrap(), "const T[2]");
        assert_eq!(found("enum (unnamed enum at a.c:1:2)").unwrap(), "T");
        assert_eq!(found("union (anonymous union at a.c:1:2) *").unwrap(), "T *");
        assert_eq!(found("struct s *"), None);
    }
}
