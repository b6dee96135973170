//! The calls of a unit that are counted or told, told apart by the names of the functions alone.
//!
//! Then the unit need not be compiled again: in the object that there is, these functions get other names, and functions
//! of those names stand beside the slice. That can be where each call of a function is to be treated alike, or where there
//! is one; who names an object's symbols has to see that they are there, as headers give some functions other names.

use std::collections::BTreeMap;

use super::Apart;
use super::apart::{slice_alone, words};
use super::declare::{declare, has_name};
use super::emission::Emission;
use super::expression::{Voice, Writer};
use super::slice_side::is_in_unit;
use crate::ast::program::Func;
use crate::ast::{Id, Kind, bodies};
use crate::models::{Act, Io};

/// How a unit comes by its hooks without being compiled again.
#[derive(Debug, Clone)]
pub struct ByName {
    /// Functions that its object names, and what they are called from now on.
    pub symbols: Vec<(String, String)>,
    /// Does its object define `main`, and the slice what the linker is to put in front of that (`--wrap`, ld(1))? Under its
    /// own name a debugger finds the program's `main`, and no other.
    pub wraps_main: bool,
    /// The slice, and the functions that are called instead.
    pub slice: String,
}

/// What becomes of a call.
struct Treatment {
    symbol: String,
    replacement: String,
    text: String,
    /// Is it for one call, or for all calls of the function?
    is_for_one: bool,
}

impl Apart {
    /// Adds the other way to make the program, if there is one.
    pub(super) fn with_names(
        mut self,
        emission: &Emission<'_>,
        unit: u16,
        declarations: &str,
        slice: &str,
    ) -> Self {
        self.by_name = self.program.as_ref().and_then(|_| by_name(emission, unit, declarations, slice));
        self
    }
}

fn by_name(emission: &Emission<'_>, unit: u16, declarations: &str, slice: &str) -> Option<ByName> {
    let program = emission.known.program;
    let tree = &program.tree;
    let (root, file) = program.units[usize::from(unit)];
    let mut treatments: BTreeMap<String, Treatment> = BTreeMap::new();
    for number in 0..program.functions.len() as u32 {
        let func = Func(number);
        let body = program.func(func).body;
        if program.func(func).unit != unit {
            continue;
        }
        let mut writer = Writer::new(emission, Voice::Program, Some(func));
        for id in tree.below(body).into_iter().filter(|id| writer.changes(*id)).collect::<Vec<_>>() {
            if !is_in_unit(emission, id) {
                return None;
            }
            let treatment = treatment(emission, &mut writer, id)?;
            match treatments.get(&treatment.symbol) {
                Some(known) if known.text != treatment.text => return None,
                _ => _ = treatments.insert(treatment.symbol.clone(), treatment),
            }
        }
    }
    let one: Vec<&str> = treatments.values().filter(|t| t.is_for_one).map(|t| t.symbol.as_str()).collect();
    if !one.is_empty() {
        // Also where the front end does not look.
        let text = program.sources.text(file);
        let hidden = hidden(text);
        let hidden = words(&hidden);
        let mut references = tree.below(root).into_iter().filter(|id| tree[*id].kind == Kind::DeclRef);
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        references.by_ref().for_each(|id| *count.entry(&tree[id].refers_to_name).or_default() += 1);
        if one.iter().any(|name| count.get(name) != Some(&1) || hidden.contains(name)) {
            return None;
        }
    }
    let mut text = String::from(slice);
    let mut symbols = Vec::new();
    let wraps_main = program.func(program.main).unit == unit;
    if wraps_main {
        text.push_str(&main_function(emission));
    }
    for treatment in treatments.into_values() {
        text.push_str(&treatment.text);
        symbols.push((treatment.symbol, treatment.replacement));
    }
    Some(ByName { symbols, wraps_main, slice: slice_alone(emission, unit, declarations, &text)? })
}

/// What of a text the front end is not given.
fn hidden(text: &str) -> String {
    let given = bodies::without(text);
    let hide =
        |(byte, given): (u8, u8)| if byte != given && byte.is_ascii() { char::from(byte) } else { ' ' };
    text.bytes().zip(given.bytes()).map(hide).collect()
}

/// What the start of the program calls in place of `main`, by the names that ld(1) has for `--wrap`.
fn main_function(emission: &Emission<'_>) -> String {
    let start = emission.start();
    let parameters = "int argc, char **argv, char **envp";
    format!(
        "\nint __real_main({parameters});\nint __wrap_main({parameters})\n{{\n    \
         {start}({}, argc, argv, envp);\n    return __real_main(argc, argv, envp);\n}}\n",
        emission.name("main"),
    )
}

/// What takes the place of the function that is called here.
fn treatment(emission: &Emission<'_>, writer: &mut Writer<'_, '_>, id: Id) -> Option<Treatment> {
    let tree = &emission.known.program.tree;
    if tree[id].kind != Kind::Call {
        return None;
    }
    let symbol = tree.callee_name(id)?.to_owned();
    let callee = tree.bare(tree.child(id, 0)?);
    let signature = Signature::new(&tree[callee].ty.spelled)?;
    let point = emission.point(id)?;
    let io = emission.known.io(point).map(|(io, _)| io);
    let forward = emission.channels.get(&point);
    let rest = signature.is_variadic;
    let all = signature.names();
    let (replacement, body, is_for_one) = match (forward, io) {
        (Some(channel), _) => {
            if rest || signature.result == "void" {
                return None;
            }
            let said = writer.changed_call(id);
            let sends = said.matches("foretell_send(").count();
            let more = match io {
                _ if said.contains("foretell_slice_limited") => return None,
                Some(Io::Read | Io::Pread) => Some(("a1", "a2".to_owned())),
                Some(Io::Fread) => Some(("a0", "a1 * a2".to_owned())),
                Some(Io::Fgets) => Some(("a0", "a1".to_owned())),
                _ if sends == 1 => None,
                _ => return None,
            };
            let more =
                more.map(|(place, bytes)| format!("    foretell_send({channel}, {place}, {bytes});\n"));
            let shown = writer.input(point).map(|(_, stream)| {
                let stream = stream.map_or_else(|| "(void *)0".to_owned(), |n| format!("a{n}"));
                format!("    foretell_show_input({stream});\n")
            });
            let body = format!(
                "    {} = {symbol}({all});\n    foretell_send({channel}, &foretell_value, sizeof foretell_value);\n{}{}    \
                 return foretell_value;\n",
                declare(&signature.result, "foretell_value"),
                more.unwrap_or_default(),
                shown.unwrap_or_default(),
            );
            (format!("foretell_told_{channel}"), body, true)
        }
        (None, _) if writer.departs(id) => {
            if rest {
                return None;
            }
            let call =
                format!("    foretell_slice_leave();\n    {}{symbol}({all});\n", signature.returning());
            (format!("foretell_left_{symbol}"), call, false)
        }
        // What is taken out of a stream's buffer is to be in the program's own loop.
        (None, Some(Io::Fread | Io::Fgets | Io::Getc | Io::Getline)) => return None,
        (None, Some(Io::Fsetpos | Io::Fscanf | Io::Vfscanf) | None) => return None,
        (None, Some(io)) => {
            let opens = io.act() == Act::Opens;
            let number = emission.numbers.get(&id).copied().unwrap_or(0);
            let (mode, all) = match io {
                Io::Open | Io::Openat if rest => {
                    let flags = signature.parameters.len() - 1;
                    // Otherwise there is no third argument, and nobody looks at it.
                    let mode = format!(
                        "    int mode = 0;\n    if (a{flags} & ({CREATES})) {{\n        __builtin_va_list list;\n        \
                         __builtin_va_start(list, a{flags});\n        mode = __builtin_va_arg(list, int);\n        \
                         __builtin_va_end(list);\n    }}\n"
                    );
                    (mode, format!("{all}, mode"))
                }
                _ if rest => return None,
                _ => (String::new(), all),
            };
            let name = format!("foretell_real_{}", io.name());
            if !opens {
                // The same to the machine, whatever the program has declared.
                return Some(Treatment { symbol, replacement: name, text: String::new(), is_for_one: false });
            }
            let call = format!("{mode}    {}{name}({number}, {all});\n", signature.returning());
            (format!("foretell_opened_{number}"), call, true)
        }
    };
    let head = signature.head(&replacement);
    // Several units have the same.
    let text = format!("\n__attribute__((weak, flatten)) {head};\n{head}\n{{\n{body}}}\n");
    Some(Treatment { symbol, replacement, text, is_for_one })
}

/// `O_CREAT | __O_TMPFILE`, as Linux has them.
const CREATES: &str = "0100 | 020000000";

/// The type of a function.
struct Signature {
    result: String,
    parameters: Vec<String>,
    is_variadic: bool,
}

impl Signature {
    /// From how clang spells it: `int (const char *, int, ...)`. `None` if that is not all.
    fn new(spelled: &str) -> Option<Self> {
        // What does not return, need not say so.
        let spelled = spelled.strip_suffix(" __attribute__((noreturn))").unwrap_or(spelled);
        let (result, rest) = spelled.split_once('(')?;
        let inner = rest.strip_suffix(')')?;
        if result.trim().is_empty()
            || rest.starts_with('*')
            || spelled.contains("__attribute__")
            || !has_name(spelled)
        {
            return None;
        }
        let mut parameters: Vec<String> = vec![String::new()];
        let mut depth = 0usize;
        for letter in inner.chars() {
            match letter {
                ',' if depth == 0 => {
                    parameters.push(String::new());
                    continue;
                }
                '(' => depth += 1,
                // The bracket of the parameters was not the last one: it returns a pointer to a function.
                ')' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            parameters.last_mut()?.push(letter);
        }
        let mut parameters: Vec<String> = parameters.iter().map(|p| p.trim().to_owned()).collect();
        let is_variadic = parameters.last().is_some_and(|p| p == "...");
        if is_variadic {
            parameters.pop();
        }
        match parameters.first().map(String::as_str) {
            Some("void") if parameters.len() == 1 => parameters.clear(),
            // Nothing is said of the parameters.
            Some("") | None => return None,
            _ => {}
        }
        Some(Self { result: result.trim().to_owned(), parameters, is_variadic })
    }

    fn names(&self) -> String {
        (0..self.parameters.len()).map(|n| format!("a{n}")).collect::<Vec<_>>().join(", ")
    }

    fn returning(&self) -> &'static str {
        if self.result == "void" { "" } else { "return " }
    }

    fn head(&self, name: &str) -> String {
        let numbered = self.parameters.iter().enumerate();
        let mut parts: Vec<String> = numbered.map(|(n, ty)| declare(ty, &format!("a{n}"))).collect();
        if self.is_variadic {
            parts.push("...".to_owned());
        }
        if parts.is_empty() {
            parts.push("void".to_owned());
        }
        declare(&self.result, &format!("{name}({})", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Signature;

    #[test]
    fn functions_are_declared_as_they_are() {
        for (spelled, wanted) in [
            ("int (int)", "int f(int a0)"),
            ("FILE *(const char *, const char *)", "FILE *f(const char *a0, const char *a1)"),
            ("int (const char *, int, ...)", "int f(const char *a0, int a1, ...)"),
            ("__pid_t (void)", "__pid_t f(void)"),
            ("void (int) __attribute__((noreturn))", "void f(int a0)"),
            ("int (int (*)(int, int), void *)", "int f(int (*a0)(int, int), void *a1)"),
        ] {
            assert_eq!(Signature::new(spelled).map(|s| s.head("f")).as_deref(), Some(wanted));
        }
        for spelled in
            ["int ()", "void (*(int))(int)", "int", "int (*)(int)", "int (int) __attribute__((cdecl))"]
        {
            assert!(Signature::new(spelled).is_none(), "{spelled}");
        }
    }
}
