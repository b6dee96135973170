//! The slice of a preprocessed unit as a text of its own, so that it is compiled apart from the program: with less
//! optimization and without debug information, and the program's object is the same in all programs that it is
//! linked into.
//!
//! It is the unit without the bodies of its functions; what it defines becomes a declaration of what is defined in the
//! program. What is `static` is there once more where the slice names it, as all that anybody writes has a private
//! copy anyway: only a `static` function that needs what is written binds the two together, and then there is no such
//! text. What is overlooked here shows when the text is compiled or linked; then both are made as one.

use std::collections::{BTreeMap, BTreeSet};

use super::emission::Emission;
use crate::ast::{Id, Kind, bodies, unused};

/// An edit of the original text: from, to, what is there afterwards.
type Edit = (usize, usize, String);

/// The text of the slice alone, from `declarations` of the runtime and what `slice` says. `None` if it is bound to the
/// program.
pub(super) fn slice_alone(
    emission: &Emission<'_>,
    unit: u16,
    declarations: &str,
    slice: &str,
) -> Option<String> {
    let program = emission.known.program;
    let tree = &program.tree;
    let (root, file) = program.units[usize::from(unit)];
    let text = bodies::without(program.sources.text(file));
    let mut edits: Vec<Edit> = Vec::new();
    let mut private: BTreeMap<&str, &str> = BTreeMap::new();
    let mut bodies: Vec<(&str, Edit)> = Vec::new();
    let mut variables: Vec<Id> = Vec::new();
    for id in tree.children(root) {
        let node = &tree[*id];
        if !node.begin.known {
            continue;
        }
        match node.kind {
            Kind::Function => {
                let body = tree.children(*id).iter().find(|c| tree[**c].kind == Kind::Compound);
                let Some(body) = body else { continue };
                let (_, from, to) = program.sources.exact(tree[*body].begin, tree[*body].end)?;
                let (from, to) = (from as usize, to as usize);
                // A body that is blank is that of a function of the library.
                if text.as_bytes().get(from) != Some(&b'{') {
                    continue;
                }
                if is_private(emission, *id) {
                    private.insert(&node.name, text.get(from..to)?);
                }
                let head = text.get(node.begin.offset as usize..from)?;
                bodies.push((&node.name, (from - old_parameters(head), to, ";".to_owned())));
            }
            Kind::Variable => variables.push(*id),
            _ => {}
        }
    }
    let named = named(emission, &variables, &private, slice)?;
    let is_kept = |name: &str| private.contains_key(name) && named.contains(name);
    edits.extend(bodies.into_iter().filter(|(name, _)| !is_kept(name)).map(|(_, edit)| edit));
    for id in variables {
        declare_only(emission, id, &text, named.contains(tree[id].name.as_str()), &mut edits)?;
    }
    edits.sort();
    edits.dedup();
    let mut made = String::new();
    let mut at = 0;
    for (from, to, replacement) in edits {
        // A declaration within another one.
        if from < at {
            return None;
        }
        made.push_str(text.get(at..from)?);
        made.push_str(&replacement);
        at = to;
    }
    made.push_str(text.get(at..)?);
    if !made.ends_with('\n') {
        made.push('\n');
    }
    made.push_str(&format!("# 1 \"foretell_slice.h\" 3\n{declarations}\n"));
    made.push_str(&format!("# 1 \"{}: slice\"\n", program.sources.given_path(file).display()));
    made.push_str(slice);
    Some(unused::without(&made))
}

/// Does only this unit have a function of this name?
fn is_private(emission: &Emission<'_>, function: Id) -> bool {
    let program = emission.known.program;
    let of_name = program.function_named(program.tree[function].unit, &program.tree[function].name);
    program.tree[function].storage == "static" || of_name.is_some_and(|func| program.func(func).is_static)
}

/// Bytes at the end of a function's head that declare parameters as it was done before C89: `int f(a) char *a;`.
fn old_parameters(head: &str) -> usize {
    let close = head.find(';').and_then(|first| head[..first].rfind(')'));
    close.map_or(0, |close| head.len() - close - 1)
}

/// What the slice names, and what is named by the `static` functions and the initial values of `static` variables that
/// it names. `None` if such a function needs what anybody writes: that is the program's.
fn named<'t>(
    emission: &'t Emission<'_>,
    variables: &[Id],
    private: &BTreeMap<&str, &'t str>,
    slice: &'t str,
) -> Option<BTreeSet<&'t str>> {
    let program = emission.known.program;
    let mut of_name: BTreeMap<&str, Vec<Id>> = BTreeMap::new();
    for id in variables {
        of_name.entry(&program.tree[*id].name).or_default().push(*id);
    }
    let is_written = |word: &&str| {
        of_name
            .get(word)
            .into_iter()
            .flatten()
            .any(|id| program.variable(*id).is_some_and(|var| emission.has_copy(var)))
    };
    let mut named = BTreeSet::new();
    let mut open: Vec<&str> = words(slice);
    while let Some(word) = open.pop() {
        if !named.insert(word) {
            continue;
        }
        for id in of_name.get(word).into_iter().flatten() {
            let node = &program.tree[*id];
            if node.flag && node.storage == "static" {
                let (file, from, to) = program.sources.exact(node.begin, node.end)?;
                open.extend(words(program.sources.stretch(file, from, to)));
            }
        }
        if let Some(body) = private.get(word) {
            let words = words(body);
            if words.iter().any(|word| *word == "static" || is_written(word)) {
                return None;
            }
            open.extend(words);
        }
    }
    Some(named)
}

/// Makes the definition of a variable that is not `static` a declaration.
fn declare_only(
    emission: &Emission<'_>,
    id: Id,
    text: &str,
    is_named: bool,
    edits: &mut Vec<Edit>,
) -> Option<()> {
    let program = emission.known.program;
    let tree = &program.tree;
    let node = &tree[id];
    if node.storage == "static" || node.storage == "extern" && !node.flag {
        return Some(());
    }
    let begin = node.begin.offset as usize;
    if node.storage != "extern" {
        edits.push((begin, begin, "extern ".to_owned()));
    }
    if !node.flag {
        return Some(());
    }
    let value = node.children.iter().rev().find(|c| tree[**c].kind.is_expression())?;
    let (_, from, to) = program.sources.exact(tree[*value].begin, tree[*value].end)?;
    let equals = text.get(..from as usize)?.rfind('=')?;
    let name_end = (node.at.offset + node.at.length) as usize;
    // Only blanks may stand between the sign and the value.
    if equals < name_end || !text.get(equals + 1..from as usize)?.trim().is_empty() {
        return None;
    }
    if is_named {
        let bounds = text.get(name_end..equals)?.trim_start();
        if let Some(rest) = bounds.strip_prefix('[').filter(|rest| rest.trim_start().starts_with(']')) {
            let count = node.ty.spelled.split_once('[').and_then(|(_, count)| count.split_once(']'));
            let at = equals - rest.len();
            edits.push((at, at, count?.0.to_owned()));
        }
    }
    edits.push((equals, to as usize, String::new()));
    Some(())
}

/// The identifiers of a text, without those in comments and strings, the names of members and tags.
pub(super) fn words(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let mut found = Vec::new();
    let mut at = 0;
    let mut is_member = false;
    let mut is_tag = false;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            b'/' if rest.starts_with(b"/*") => {
                rest[2..].windows(2).position(|end| end == b"*/").map_or(rest.len(), |end| end + 4)
            }
            b'"' | b'\'' => quoted(rest),
            _ if is_word(&byte) => {
                let length = rest.iter().take_while(|byte| is_word(byte)).count();
                let word = &text[at..at + length];
                if !is_member && !is_tag && !byte.is_ascii_digit() {
                    found.push(word);
                }
                is_tag = ["struct", "union", "enum"].contains(&word);
                length
            }
            _ => 1,
        };
        if !byte.is_ascii_whitespace() {
            is_tag &= is_word(&byte);
            is_member = byte == b'.' || rest.starts_with(b"->") || byte == b'>' && is_member;
        }
        at += length;
    }
    found
}

/// The length of a string or a character.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        at += if byte == b'\\' { 2 } else { 1 };
        if byte == text[0] {
            break;
        }
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::{old_parameters, words};

    #[test]
    fn names_of_a_text() {
        let text = "/* f() of x.c */ struct tag * g(s->h, t.i, \"j\\\"k\", 'l', a > b, 0x7f, .5) - c;";
        assert_eq!(words(text), ["struct", "g", "s", "t", "a", "b", "c"]);
        assert_eq!(words("/* open"), [""; 0]);
        assert_eq!(words("\"open\\"), [""; 0]);
    }

    #[test]
    fn parameters_of_before_c89() {
        assert_eq!(old_parameters("int f(int a)\n"), 0);
        assert_eq!(old_parameters("int f(a) int a; "), " int a; ".len());
    }
}
