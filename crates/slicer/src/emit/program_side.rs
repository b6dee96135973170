//! The program: its own text, with the calls that are counted and the start of the slice.

use super::apart::slice_alone;
use super::by_name::ByName;
use super::emission::Emission;
use super::expression::{Voice, Writer};
use super::slice_side::{is_in_unit, unit_slice};
use super::twice;
use crate::ast::program::Func;
use crate::ast::{Id, Kind};

/// An edit of the original text: from, to, what is there afterwards.
type Edit = (u32, u32, String);

/// One file, translated.
pub(crate) struct Unit {
    pub(crate) text: String,
    /// Of a preprocessed unit the same in two texts, where they can be told apart.
    pub(crate) apart: Option<Apart>,
    /// What could not be written, as places.
    pub(crate) unprintable: Vec<Id>,
}

/// The program and its slice in texts of their own. `None` is what there is no need to compile: a program that is as it
/// was, a slice that is empty.
#[derive(Debug, Clone)]
pub struct Apart {
    /// The unit as it is, with the calls that are counted.
    pub program: Option<String>,
    /// What runs ahead of it.
    pub slice: Option<String>,
    /// Both without compiling the program again, where that can be.
    pub by_name: Option<ByName>,
}

/// The text of a unit: the program, and its slice at the end. Of a preprocessed one, which macros and headers can be
/// in no more, `declarations` are those of the runtime; there every line keeps the number that its markers give it.
pub(super) fn translate_unit(emission: &Emission<'_>, unit: u16, declarations: Option<&str>) -> Unit {
    let program = emission.known.program;
    let (root, file) = program.units[unit as usize];
    let original = program.sources.text(file);
    let mut unprintable = Vec::new();
    let mut edits: Vec<Edit> = Vec::new();
    for number in 0..program.functions.len() as u32 {
        let func = Func(number);
        if program.func(func).unit == unit {
            edit_function(emission, func, &mut edits, &mut unprintable);
        }
    }
    if declarations.is_some() && !emission.mapped.is_empty() {
        parts_twice(emission, unit, &mut edits);
    }
    let slice = unit_slice(emission, unit);
    unprintable.extend(slice.unprintable);
    if edits.is_empty() && slice.text.is_empty() {
        return Unit { text: original.to_owned(), apart: None, unprintable };
    }
    let alone = declarations.and_then(|declarations| match slice.text.is_empty() {
        true => Some(None),
        false => slice_alone(emission, unit, declarations, &slice.text).map(Some),
    });
    let is_edited = !edits.is_empty() || program.func(program.main).unit == unit;
    let source_include = include_place(emission, root, &edits);
    // A program with annotations has the header already.
    let has_header = declarations.is_none()
        && original.lines().any(|line| {
            let line = line.trim_start().strip_prefix('#').map(str::trim_start);
            line.is_some_and(|l| l.starts_with("include") && l.contains("foretell_slice.h"))
        });
    let mut head = match declarations {
        Some(text) => format!("# 1 \"foretell_slice.h\" 3\n{text}\n"),
        None if has_header => String::new(),
        None => "#include \"foretell_slice.h\"\n".to_owned(),
    };
    if program.func(program.main).unit == unit {
        let writer = Writer::new(emission, Voice::Slice, None);
        let gap = if has_header { "" } else { "\n" };
        head.push_str(&format!("{gap}{};\n", writer.main_head()));
        start(emission, &mut edits, declarations.is_some());
    }
    if declarations.is_some() {
        let include = place_of_declarations(emission, root, &edits);
        let (path, line) = program.sources.origin(file, include);
        head.push_str(&format!("# {line} \"{}\"\n", path.display()));
        let is_line = include == 0 || original.as_bytes().get(include as usize - 1) == Some(&b'\n');
        edits.push((include, include, if is_line { head } else { format!("\n{head}") }));
    } else if !head.is_empty() {
        edits.push((source_include, source_include, format!("{head}\n")));
    }
    edits.sort();
    edits.dedup();
    let mut text = String::new();
    let mut at = 0u32;
    for (from, to, replacement) in edits {
        if from < at {
            continue;
        }
        text.push_str(original.get(at as usize..from as usize).unwrap_or_default());
        text.push_str(&replacement);
        if declarations.is_some() {
            let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
            let replaced = original.get(from as usize..to as usize).unwrap_or_default();
            text.push_str(&"\n".repeat(lines(replaced).saturating_sub(lines(&replacement))));
        }
        at = to;
    }
    text.push_str(original.get(at as usize..).unwrap_or_default());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let apart = declarations.zip(alone).map(|(declarations, alone)| {
        let program = is_edited.then(|| text.clone());
        let apart = Apart { program, slice: alone, by_name: None };
        apart.with_names(emission, unit, declarations, &slice.text)
    });
    if declarations.is_some() {
        text.push_str(&format!("# 1 \"{}: slice\"\n", program.sources.given_path(file).display()));
    }
    text.push_str(&slice.text);
    Unit { text, apart, unprintable }
}

/// Replaces the calls of a function that are counted, or whose results are sent.
fn edit_function(emission: &Emission<'_>, func: Func, edits: &mut Vec<Edit>, unprintable: &mut Vec<Id>) {
    let program = emission.known.program;
    let tree = &program.tree;
    let body = program.func(func).body;
    if !is_in_unit(emission, body) {
        // A function of a header is not edited; if it made accesses, they could not be counted.
        let mut writer = Writer::new(emission, Voice::Program, Some(func));
        let changed = tree.below(body).into_iter().filter(|id| writer.changes(*id)).collect::<Vec<_>>();
        unprintable.extend(changed);
        unprintable.append(&mut writer.unprintable);
        return;
    }
    let mut writer = Writer::new(emission, Voice::Program, Some(func));
    let mut open = vec![body];
    while let Some(id) = open.pop() {
        if !writer.changes(id) {
            open.extend(tree.children(id));
            continue;
        }
        if small_edits(emission, &writer, id, edits) {
            // Arguments may hold further calls.
            open.extend(tree.arguments(id));
            continue;
        }
        match enclosing_text(emission, id) {
            Some((outer, from, to)) => {
                let text = writer.expression(outer);
                edits.retain(|(start, end, _)| *end <= from || *start >= to);
                edits.push((from, to, text));
            }
            None => unprintable.push(id),
        }
    }
    unprintable.append(&mut writer.unprintable);
}

/// Writes once more, as it was, what reads mapped memory.
fn parts_twice(emission: &Emission<'_>, unit: u16, edits: &mut Vec<Edit>) {
    let program = emission.known.program;
    let maps = twice::mapping_functions(emission);
    let file = program.units[usize::from(unit)].1;
    for number in 0..program.functions.len() as u32 {
        let func = Func(number);
        if program.func(func).unit != unit || !is_in_unit(emission, program.func(func).body) {
            continue;
        }
        for (from, to) in twice::parts(emission, func, &maps) {
            let (path, line) = program.sources.origin(file, from);
            let place = format!("# {line} \"{}\"", path.display());
            let plain = program.sources.stretch(file, from, to);
            edits.push((
                from,
                from,
                format!("{{ if (!foretell_counts_mapped()) {{\n{place}\n{plain} }} else {{\n{place}\n"),
            ));
            edits.push((to, to, " } }".to_owned()));
        }
    }
}

/// Most calls need only another name, and an open call the number of its site.
fn small_edits(emission: &Emission<'_>, writer: &Writer<'_, '_>, id: Id, edits: &mut Vec<Edit>) -> bool {
    let program = emission.known.program;
    let tree = &program.tree;
    if writer.departs(id)
        && !tree[id].begin.in_macro
        && !tree[id].end.in_macro
        && let Some((_, from, to)) = program.sources.exact(tree[id].begin, tree[id].end)
    {
        edits.push((from, from, "(foretell_slice_leave(), ".to_owned()));
        edits.push((to, to, ")".to_owned()));
        return true;
    }
    if !writer.is_counted(id) || program.sources.exact(tree[id].begin, tree[id].end).is_none() {
        return false;
    }
    let Some(callee) = tree.child(id, 0).map(|c| tree.bare(c)) else { return false };
    let node = &tree[callee];
    if node.begin.in_macro || tree[id].begin.in_macro || node.kind != Kind::DeclRef {
        return false;
    }
    let Some((io, _)) = emission.point(id).and_then(|p| emission.known.io(p)) else { return false };
    let from = node.begin.offset;
    let to = node.end.offset + node.end.length;
    let text = program.sources.text(node.begin.file);
    if text.get(from as usize..to as usize) != Some(node.refers_to_name.as_str()) {
        return false;
    }
    if io == crate::models::Io::Fsetpos {
        return false;
    }
    edits.push((from, to, io.counted_name(&node.refers_to_name)));
    if io.act() == crate::models::Act::Opens {
        let Some(open) = text[to as usize..].find('(') else { return false };
        let at = to + open as u32 + 1;
        let number = emission.numbers.get(&id).copied().unwrap_or(0);
        edits.push((at, at, format!("{number}, ")));
    }
    true
}

/// The smallest expression around a node that is text of its own.
fn enclosing_text(emission: &Emission<'_>, id: Id) -> Option<(Id, u32, u32)> {
    let program = emission.known.program;
    let tree = &program.tree;
    let mut at = id;
    loop {
        if !tree[at].kind.is_expression() {
            return None;
        }
        if let Some((_, from, to)) = program.sources.exact(tree[at].begin, tree[at].end) {
            // A use of a macro that is part of a larger expression is replaced as a whole.
            return Some((at, from, to));
        }
        at = tree[at].parent?;
    }
}

/// The slice starts with main.
fn start(emission: &Emission<'_>, edits: &mut Vec<Edit>, on_the_line: bool) {
    let program = emission.known.program;
    let main = program.func(program.main);
    let brace = program.tree[main.body].begin.offset + 1;
    let at = if on_the_line { first_statement(emission, brace).unwrap_or(brace) } else { brace };
    let argument = |n: usize, missing: &str| match main.parameters.get(n) {
        Some(var) => program.var(*var).name.clone(),
        None => missing.to_owned(),
    };
    let nothing = if on_the_line { "(char **)0" } else { "NULL" };
    let start = emission.start();
    let text = format!(
        "\n    {start}({}, {}, {}, {});\n",
        emission.name("main"),
        argument(0, "0"),
        argument(1, nothing),
        argument(2, nothing),
    );
    let text = if on_the_line { format!(" {} ", text.trim()) } else { text };
    edits.push((at, at, text));
}

/// Where the first statement of `main` begins: a debugger stops at the line of what is done first, and that is to be the
/// statement's. `None` if more than lines of the preprocessor stands between it and the brace.
fn first_statement(emission: &Emission<'_>, brace: u32) -> Option<u32> {
    let program = emission.known.program;
    let main = program.func(program.main);
    let first = *program.tree.children(main.body).first()?;
    let begin = &program.tree[first].begin;
    let text = program.sources.text(program.units[usize::from(main.unit)].1);
    let between = text.get(brace as usize..begin.offset as usize)?;
    let is_free = between.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with('#'));
    (is_free && begin.known && !begin.in_macro && is_in_unit(emission, first)).then_some(begin.offset)
}

/// Before the function with the first edit: all headers that it needs come before it. Functions that are not edited come
/// from these headers, too.
fn place_of_declarations(emission: &Emission<'_>, root: Id, edits: &[Edit]) -> u32 {
    let tree = &emission.known.program.tree;
    let text = emission.known.program.sources.text(emission.known.program.units[tree[root].unit as usize].1);
    let functions = || {
        tree.children(root).iter().filter(|id| tree[**id].kind == Kind::Function && tree[**id].begin.known)
    };
    let bodies: Vec<(u32, u32)> = functions()
        .filter_map(|id| tree.children(*id).iter().find(|c| tree[**c].kind == Kind::Compound))
        .map(|body| (tree[*body].begin.offset, tree[*body].end.offset))
        .collect();
    // What nobody declares is declared where it is called.
    let is_outside = |at: &u32| !bodies.iter().any(|(from, to)| from < at && at < to);
    let begins = functions().map(|id| tree[*id].begin.offset).filter(is_outside);
    let first_edit = edits.iter().map(|edit| edit.0).min();
    let place = first_edit.and_then(|edit| begins.filter(|at| *at <= edit).max());
    let Some(at) = place else { return text.len() as u32 };
    let line = text[..at as usize].rfind('\n').map_or(0, |n| n + 1);
    // Attributes may stand before a function; what a macro stands for may hold several functions in one line.
    if text[line..at as usize].contains([';', '}']) { at } else { line as u32 }
}

/// Before the first declaration of the file that something is changed in, or that the slice follows.
fn include_place(emission: &Emission<'_>, root: Id, edits: &[Edit]) -> u32 {
    let program = emission.known.program;
    let tree = &program.tree;
    let first_edit = edits.iter().map(|e| e.0).min().unwrap_or(u32::MAX);
    let mut place = None;
    for id in tree.children(root) {
        let node = &tree[*id];
        if !is_in_unit(emission, *id) || node.kind != Kind::Function {
            continue;
        }
        if !node.children.iter().any(|c| tree[*c].kind == Kind::Compound) {
            continue;
        }
        place = Some(node.begin.offset);
        if node.begin.offset <= first_edit {
            break;
        }
    }
    let text = program.sources.text(program.units[tree[root].unit as usize].1);
    let at = place.unwrap_or(text.len() as u32);
    let line = text[..at as usize].rfind('\n').map_or(0, |n| n + 1);
    line as u32
}
