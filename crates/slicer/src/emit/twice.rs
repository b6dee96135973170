//! Parts of the program that read mapped memory, once more as they were: taken where nothing that is mapped is counted.
//!
//! An access to mapped memory is compared with a window, which keeps the compiler from reading many bytes at once and
//! costs most of a loop that does little else. Whether anything is counted changes only where something is mapped or
//! unmapped; so what does neither asks once, before it begins.
//!
//! ```c
//! { if (foretell_counts_mapped()) { for (…) sum += FORETELL_REAL(p[i]); } else { for (…) sum += p[i]; } }
//! ```

use super::emission::Emission;
use super::expression::{Voice, Writer};
use crate::ast::program::Func;
use crate::ast::{Id, Kind};
use crate::flow::Point;
use crate::models::Io;

/// Longest text that is written twice; of what is longer the parts are.
const MOST_BYTES: u32 = 8 << 10;

/// The functions that may map or unmap a file, themselves or through others.
pub(super) fn mapping_functions(emission: &Emission<'_>) -> Vec<bool> {
    let known = emission.known;
    let mut maps = vec![false; known.graphs.len()];
    loop {
        let before = maps.clone();
        for (number, found) in before.iter().enumerate() {
            let func = Func(number as u32);
            let does = |step| is_mapping_call(emission, &before, (func, step));
            maps[number] = *found || known.effects.calls(func).any(|(step, _)| does(step));
        }
        if maps == before {
            return maps;
        }
    }
}

fn is_mapping_call(emission: &Emission<'_>, maps: &[bool], point: Point) -> bool {
    let is_one = emission.known.io(point).is_some_and(|(io, _)| matches!(io, Io::Mmap | Io::Munmap));
    is_one || emission.known.call(point).is_some_and(|call| call.targets.iter().any(|t| maps[t.ix()]))
}

/// The parts of a function that are worth it, the largest that can be: where they begin and end.
pub(super) fn parts(emission: &Emission<'_>, func: Func, maps: &[bool]) -> Vec<(u32, u32)> {
    let writer = Writer::new(emission, Voice::Program, Some(func));
    let tree = &emission.known.program.tree;
    let mut found = Vec::new();
    let mut open = vec![emission.known.program.func(func).body];
    while let Some(id) = open.pop() {
        match part(emission, &writer, id, maps) {
            Some(part) => found.push(part),
            None => {
                let is_whole = |c: &&Id| {
                    let is_body = tree[id].kind != Kind::For || tree[id].children.last() == Some(*c);
                    tree[**c].kind.is_statement()
                        || tree[id].kind.is_statement() && is_body && is_statement(emission, **c)
                };
                open.extend(tree.children(id).iter().filter(is_whole));
            }
        }
    }
    found
}

/// Is an expression a statement, and not the condition of one?
fn is_statement(emission: &Emission<'_>, id: Id) -> bool {
    let tree = &emission.known.program.tree;
    let Some(parent) = tree[id].parent else { return false };
    let at = tree.children(parent).iter().position(|c| *c == id);
    match tree[parent].kind {
        Kind::Compound | Kind::Label => true,
        Kind::If | Kind::Switch | Kind::While => at != Some(0),
        Kind::Do => at == Some(0),
        Kind::For => tree.children(parent).last() == Some(&id),
        Kind::Case | Kind::Default => tree.children(parent).last() == Some(&id),
        _ => false,
    }
}

fn part(emission: &Emission<'_>, writer: &Writer<'_, '_>, id: Id, maps: &[bool]) -> Option<(u32, u32)> {
    let program = emission.known.program;
    let tree = &program.tree;
    let is_whole = match tree[id].kind {
        Kind::Compound | Kind::If | Kind::For | Kind::While | Kind::Do | Kind::Switch | Kind::Return => true,
        kind => kind.is_expression() && is_statement(emission, id),
    };
    if !is_whole {
        return None;
    }
    let (mut accesses, mut loops) = (0, 0);
    for at in tree.below(id) {
        let node = &tree[at];
        match node.kind {
            // There is one of each.
            Kind::Label | Kind::LabelAddress | Kind::Assembly | Kind::IndirectGoto => return None,
            Kind::Variable if node.storage == "static" => return None,
            Kind::Case | Kind::Default if !is_within_switch(emission, at, id) => return None,
            Kind::For | Kind::While | Kind::Do => loops += 1,
            _ => {}
        }
        if let Some(point) = emission.point(at)
            && node.kind == Kind::Call
            && is_mapping_call(emission, maps, point)
        {
            return None;
        }
        if writer.is_mapped(at) {
            accesses += 1;
        } else if writer.changes(at) {
            return None;
        }
    }
    if accesses == 0 || accesses == 1 && loops == 0 {
        return None;
    }
    let (_, from, to) = program.sources.exact(tree[id].begin, tree[id].end)?;
    let to = if ends_with_brace(emission, id) { to } else { behind_semicolon(emission, id, to)? };
    (to - from <= MOST_BYTES).then_some((from, to))
}

fn is_within_switch(emission: &Emission<'_>, case: Id, id: Id) -> bool {
    let tree = &emission.known.program.tree;
    let mut around = std::iter::successors(Some(case), |at| tree[*at].parent.filter(|_| *at != id));
    around.any(|at| tree[at].kind == Kind::Switch)
}

/// Does the text of a statement end with the brace of a block?
fn ends_with_brace(emission: &Emission<'_>, id: Id) -> bool {
    let tree = &emission.known.program.tree;
    match tree[id].kind {
        Kind::Compound => true,
        Kind::If | Kind::For | Kind::While | Kind::Switch => {
            tree.children(id).last().is_some_and(|last| ends_with_brace(emission, *last))
        }
        _ => false,
    }
}

/// Where a statement ends: its `;` is not part of it.
fn behind_semicolon(emission: &Emission<'_>, id: Id, end: u32) -> Option<u32> {
    let program = emission.known.program;
    let text = program.sources.text(program.tree[id].begin.file).get(end as usize..)?;
    let rest = text.trim_start();
    rest.starts_with(';').then(|| end + (text.len() - rest.len()) as u32 + 1)
}
