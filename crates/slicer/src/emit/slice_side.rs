//! The slice of one translation unit: prototypes, private copies of variables, functions.

use std::collections::BTreeSet;

use super::declare::{declare, has_name};
use super::emission::Emission;
use super::expression::{Voice, Writer};
use super::statement::{Lines, indented};
use crate::ast::program::{Func, Scope, Var};
use crate::ast::{Id, Kind};

/// What was written for one unit.
#[derive(Default)]
pub(super) struct Written {
    pub(super) text: String,
    /// Nodes for which there is no C.
    pub(super) unprintable: Vec<Id>,
    /// The variables of which it names the private copies.
    pub(super) copies: BTreeSet<Var>,
}

/// The slice of all functions of a unit.
pub(super) fn unit_slice(emission: &Emission<'_>, unit: u16) -> Written {
    let program = emission.known.program;
    let mut written = Written::default();
    let mut functions = BTreeSet::new();
    let mut copies = BTreeSet::new();
    let mut bodies = Vec::new();
    for number in 0..program.functions.len() as u32 {
        let func = Func(number);
        if program.func(func).unit != unit || !emission.slice.closure.live[func.ix()] {
            continue;
        }
        // To learn what is written about, and what the initial values of that are written about; then once more to
        // declare just that.
        let mut mentions = BTreeSet::new();
        loop {
            let before = mentions.len();
            let mut writer = Writer { mentions, ..Writer::new(emission, Voice::Slice, Some(func)) };
            writer.statement(program.func(func).body);
            mentions = writer.mentions;
            if mentions.len() == before {
                break;
            }
        }
        let mut writer = Writer { mentions, ..Writer::new(emission, Voice::Slice, Some(func)) };
        let lines = writer.function(func);
        functions.insert(func);
        functions.extend(&writer.functions);
        copies.extend(&writer.copies);
        written.unprintable.append(&mut writer.unprintable);
        bodies.push(lines);
    }
    // What another unit names has its copy here, where it is defined.
    let named = emission.named_copies.iter().copied();
    copies.extend(named.filter(|var| program.tree[program.var(*var).node].unit == unit));
    if bodies.is_empty() && copies.is_empty() {
        return written;
    }
    let file = program.sources.given_path(program.units[unit as usize].1);
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut lines = vec![
        String::new(),
        format!("/* ---- the slice of {name}: what its file accesses depend on ---- */"),
        String::new(),
    ];
    let (variables, copies) = variables(emission, unit, copies, &mut functions, &mut written.unprintable);
    written.copies = copies;
    let declared = functions.iter().filter(|f| **f != program.main).count();
    for func in functions.iter().filter(|f| **f != program.main) {
        let mut writer = Writer::new(emission, Voice::Slice, Some(*func));
        lines.push(format!("{};", writer.head(*func)));
    }
    if !variables.is_empty() {
        if declared > 0 {
            lines.push(String::new());
        }
        lines.extend(variables);
    } else if declared == 0 {
        lines.pop();
    }
    for body in bodies {
        lines.push(String::new());
        lines.extend(body);
    }
    written.text = lines.join("\n") + "\n";
    written
}

/// Private copies of variables, with those that their initial values need, and which these are.
fn variables(
    emission: &Emission<'_>,
    unit: u16,
    wanted: BTreeSet<Var>,
    functions: &mut BTreeSet<Func>,
    unprintable: &mut Vec<Id>,
) -> (Lines, BTreeSet<Var>) {
    let mut texts: Vec<(Var, String)> = Vec::new();
    let mut open: Vec<Var> = wanted.into_iter().collect();
    let mut seen: BTreeSet<Var> = open.iter().copied().collect();
    let mut pointed_to: BTreeSet<Var> = BTreeSet::new();
    while let Some(var) = open.pop() {
        let mut writer = Writer::new(emission, Voice::Slice, None);
        let text = writer.copy(var, unit);
        texts.push((var, text));
        functions.extend(&writer.functions);
        unprintable.append(&mut writer.unprintable);
        pointed_to.extend(&writer.copies);
        open.extend(writer.copies.iter().filter(|v| seen.insert(**v)));
    }
    // A tentative declaration first, as copies may point to each other.
    texts.sort();
    let mut lines = Vec::new();
    for (_, text) in texts.iter().filter(|(var, _)| pointed_to.contains(var)) {
        lines.extend(match text.split_once(" = ") {
            Some((head, _)) if head.starts_with("static ") => Some(format!("{head};")),
            None if text.starts_with("static ") => Some(text.clone()),
            // Where all units share it.
            _ => text.lines().next().filter(|line| line.starts_with("extern ")).map(str::to_owned),
        });
    }
    lines.extend(texts.into_iter().map(|(_, text)| text));
    (lines, seen)
}

/// All variables of which a unit names the private copy.
pub(super) fn named_copies(emission: &mut Emission<'_>) {
    loop {
        let before = emission.named_copies.len();
        for unit in 0..emission.known.program.units.len() as u16 {
            let copies = unit_slice(emission, unit).copies;
            emission.named_copies.extend(copies);
        }
        if emission.named_copies.len() == before {
            return;
        }
    }
}

impl Writer<'_, '_> {
    /// The declaration of a private copy.
    fn copy(&mut self, var: Var, unit: u16) -> String {
        let program = self.emission.known.program;
        let variable = program.var(var);
        let node = &program.tree[variable.node];
        let shared = variable.scope == Scope::File(false) && program.units.len() > 1;
        let name = self.emission.name(&variable.name);
        let name = match has_name(&node.ty.spelled) {
            true => declare(&node.ty.spelled, &name),
            false => format!("__typeof__({}) {name}", variable.name),
        };
        if shared && node.unit != unit {
            return format!("extern {name};");
        }
        let storage = if shared { "" } else { "static " };
        let initializer = node.children.iter().rev().copied().find(|c| program.tree[*c].kind.is_expression());
        match initializer.filter(|_| node.flag) {
            Some(value) => {
                let text = self.expression(value);
                let declared = format!("{storage}{name} = {text};");
                if shared { format!("extern {name};\n{declared}") } else { declared }
            }
            None if shared => format!("extern {name};\n{name};"),
            None => format!("{storage}{name};"),
        }
    }

    /// The head of a function of the slice.
    pub(super) fn head(&mut self, func: Func) -> String {
        let emission = self.emission;
        let program = emission.known.program;
        let function = program.func(func);
        if func == program.main {
            return self.main_head();
        }
        let mut parameters = Vec::new();
        for (number, var) in function.parameters.iter().enumerate() {
            if emission.slice.closure.needs_parameter(func, number) {
                let node = &program.tree[program.var(*var).node];
                parameters.push(declare(&node.ty.spelled, &node.name));
            }
        }
        let is_pointed_to = emission.known.through_pointers[func.ix()];
        if emission.slice.closure.needs_rest(func) || function.is_variadic && is_pointed_to {
            parameters.push("...".to_owned());
        }
        if parameters.is_empty() {
            parameters.push("void".to_owned());
        }
        let result = match emission.slice.closure.has_result(func) {
            true => function.returns.as_str(),
            false => "void",
        };
        let shared = !function.is_static && program.units.len() > 1;
        let storage = if shared { "" } else { "static " };
        let named = format!("{}({})", emission.name(&function.name), parameters.join(", "));
        format!("{storage}{}", declare(result, &named))
    }

    /// The head of the slice of `main`, which the program names before it is there.
    pub(super) fn main_head(&self) -> String {
        let program = self.emission.known.program;
        let types = ["int", "char **", "char **"];
        let names = ["slice_argc", "slice_argv", "slice_envp"];
        let parameters = &program.func(program.main).parameters;
        let parts: Vec<String> = (0..3)
            .map(|n| match parameters.get(n) {
                Some(var) => declare(types[n], &program.var(*var).name),
                None => declare(types[n], names[n]),
            })
            .collect();
        // Preprocessed, it may be compiled apart from the program.
        let storage =
            if self.emission.is_preprocessed(program.func(program.main).unit) { "" } else { "static " };
        format!("{storage}void {}({})", self.emission.name("main"), parts.join(", "))
    }

    /// A function of the slice.
    fn function(&mut self, func: Func) -> Lines {
        let emission = self.emission;
        let program = emission.known.program;
        let function = program.func(func);
        let mut body = Vec::new();
        let mut statements = self.statement(function.body);
        body.append(&mut self.unused_parameters(func));
        body.append(&mut statements);
        let returns = func != program.main
            && emission.slice.closure.needs_result(func)
            && function.returns.trim() != "void";
        if body.last().is_some_and(|l| l == "return;") {
            body.pop();
        }
        let nothing = self.no_result(func);
        if returns && !body.last().is_some_and(|l| l.starts_with("return")) {
            // Here the program ends, or its author knows that it never comes here.
            body.push("foretell_slice_end();".to_owned());
        } else if let Some(nothing) = nothing
            && !body.last().is_some_and(|l| l.starts_with("return"))
        {
            body.push(nothing);
        }
        let mut lines = vec![format!("/* {}() of {} */", function.name, self.short_place(function.node))];
        lines.push(self.head(func));
        lines.push("{".to_owned());
        lines.extend(indented(body));
        lines.push("}".to_owned());
        lines
    }

    /// Parameters that stay and are not mentioned, and those that go but are assigned before they are used:
    /// what is left of these is a local variable.
    fn unused_parameters(&self, func: Func) -> Lines {
        let emission = self.emission;
        let program = emission.known.program;
        let mut lines = Vec::new();
        for (number, var) in program.func(func).parameters.iter().enumerate() {
            let stays = func == program.main || emission.slice.closure.needs_parameter(func, number);
            match (stays, self.mentions.contains(var)) {
                (true, false) => lines.push(format!("(void){};", program.var(*var).name)),
                (false, true) => {
                    let node = &program.tree[program.var(*var).node];
                    lines.push(format!("{};", declare(&node.ty.spelled, &node.name)));
                }
                _ => {}
            }
        }
        if func == program.main {
            for name in
                ["slice_argc", "slice_argv", "slice_envp"].iter().skip(program.func(func).parameters.len())
            {
                lines.push(format!("(void){name};"));
            }
        }
        lines
    }
}

/// Is a node in the file of its unit, and not in a header?
pub(super) fn is_in_unit(emission: &Emission<'_>, id: Id) -> bool {
    let program = emission.known.program;
    let node = &program.tree[id];
    node.kind != Kind::Absent && node.begin.known && node.begin.file == program.units[node.unit as usize].1
}
