//! Calls: what the slice and the program say in place of them.

use super::expression::{Voice, Writer};
use super::input;
use crate::ast::program::Func;
use crate::ast::{Id, Kind};
use crate::flow::effects::Call;
use crate::flow::{Callee, Point};
use crate::models::{Act, Io};
use crate::slice::sites::copied_bytes;

impl Writer<'_, '_> {
    /// A call in the slice.
    pub(super) fn call(&mut self, id: Id) -> String {
        let known = self.emission.known;
        let Some(point) = self.emission.point(id) else { return self.call_with(id, "") };
        if known.ends(point) {
            let arguments = known.program.tree.arguments(id).to_vec();
            let parts: Vec<String> = arguments.into_iter().flat_map(|a| self.effects(a)).collect();
            return self.end(id, parts);
        }
        if self.is_maker(id) {
            return self.made(id, point);
        }
        if let Some(assumed) = self.assumed(id) {
            return self.assumption(id, assumed);
        }
        if let Some((io, _)) = known.io(point) {
            return self.open_file_call(id, point, io);
        }
        match known.program.tree.callee_name(id) {
            Some("free") => return self.call_with(id, "foretell_slice_free"),
            Some("closedir") => return self.call_with(id, "foretell_slice_closedir"),
            _ => {}
        }
        let node = &known.graphs[point.0.ix()][point.1];
        match node.call.as_ref().map(|c| &c.callee) {
            Some(Callee::Function(func)) => self.own_call(id, *func),
            Some(Callee::Pointer(_)) if known.call(point).is_some_and(Call::may_free) => {
                let tree = &known.program.tree;
                let callee = tree.child(id, 0).map(|c| self.expression(c)).unwrap_or_default();
                let looked_at = format!("foretell_slice_function((void (*)(void))({callee}))");
                self.call_with(id, &format!("((__typeof__(&*({callee}))){looked_at})"))
            }
            _ => self.call_with(id, ""),
        }
    }

    /// The end of the slice in place of an expression, after these effects.
    pub(super) fn end(&self, id: Id, mut parts: Vec<String>) -> String {
        parts.push("foretell_slice_end()".to_owned());
        // Who goes on here in the program has a value, and the expression around it wants one.
        let ty = &self.emission.known.program.tree[id].ty;
        if ty.is_record() {
            parts.push(format!("*({} *)0", ty.spelled));
        } else if ty.plain() != "void" {
            parts.push(format!("({})0", ty.spelled));
        }
        match parts.as_slice() {
            [one] => one.clone(),
            _ => format!("({})", parts.join(", ")),
        }
    }

    /// The slice is told which files the program makes here, and takes for granted that it could.
    fn made(&mut self, id: Id, point: Point) -> String {
        let known = self.emission.known;
        let arguments = known.program.tree.arguments(id).to_vec();
        let models = known.call(point).map(|call| known.models_of(call)).unwrap_or_default();
        let opens = known.io(point).is_some();
        let named = models.iter().flat_map(|m| m.makes.iter().copied()).chain(opens.then_some(0));
        let mut parts = Vec::new();
        for argument in named.filter_map(|number| arguments.get(number)) {
            parts.push(format!("foretell_slice_made({})", self.expression(*argument)));
        }
        if let Some(assumed) = self.assumed(id)
            && self.emission.slice.closure.valued.contains(&point)
        {
            parts.push(self.assumption(id, assumed));
        }
        match parts.as_slice() {
            [one] => one.clone(),
            _ => format!("({})", parts.join(", ")),
        }
    }

    /// The result that is assumed, with arguments in it.
    fn assumption(&mut self, id: Id, assumed: &str) -> String {
        if !assumed.contains('$') {
            return assumed.to_owned();
        }
        let tree = &self.emission.known.program.tree;
        let mut text = assumed.to_owned();
        let arguments = tree.arguments(id);
        for (number, argument) in arguments.iter().enumerate() {
            let name = format!("${number}");
            if text.contains(&name) {
                text = text.replace(&name, &format!("({})", self.expression(*argument)));
            }
        }
        // Of the type that the call has, so that comparisons mean the same.
        format!("({}){text}", tree[id].ty.spelled)
    }

    /// A call with all of its arguments; the callee is written anew unless a name is given.
    fn call_with(&mut self, id: Id, name: &str) -> String {
        let tree = &self.emission.known.program.tree;
        let callee = match (name, tree.child(id, 0)) {
            ("", Some(callee)) => self.expression(callee),
            _ => name.to_owned(),
        };
        let arguments: Vec<String> =
            tree.arguments(id).to_vec().into_iter().map(|a| self.expression(a)).collect();
        format!("{callee}({})", arguments.join(", "))
    }

    /// A call of a function that has a slice: with the arguments that its slice needs.
    fn own_call(&mut self, id: Id, func: Func) -> String {
        let emission = self.emission;
        let tree = &emission.known.program.tree;
        self.functions.insert(func);
        let mut before = Vec::new();
        let mut passed = Vec::new();
        let parameters = emission.known.program.func(func).parameters.len();
        for (number, argument) in tree.arguments(id).iter().enumerate() {
            let closure = &emission.slice.closure;
            let is_needed = match number < parameters {
                true => closure.needs_parameter(func, number),
                false => closure.needs_rest(func),
            };
            if is_needed {
                passed.push(self.expression(*argument));
            } else {
                before.extend(self.effects(*argument));
            }
        }
        let call =
            format!("{}({})", emission.name(&emission.known.program.func(func).name), passed.join(", "));
        if before.is_empty() {
            return call;
        }
        before.push(call);
        format!("({})", before.join(", "))
    }

    /// A call on an open file, in the slice.
    fn open_file_call(&mut self, id: Id, point: Point, io: Io) -> String {
        let emission = self.emission;
        let tree = &emission.known.program.tree;
        let all = tree.arguments(id);
        let closure = &emission.slice.closure;
        let data = closure.data.contains(&point) && (io.buffer().is_some() || !io.can_predict())
            || closure.data.contains(&point) && matches!(io, Io::Readv | Io::Preadv)
            || io == Io::Getc && closure.valued.contains(&point);
        let family = match io.act() {
            Act::Reads if data => "fetch",
            Act::Reads => "prefetch",
            _ if io == Io::Ungetc => "fetch",
            _ => "slice",
        };
        let stream = emission.known.io(point).and_then(|(_, model)| io.file(model));
        let used = |number: usize| match io {
            Io::Open => number < 2,
            Io::Openat => number < 3,
            Io::Print => stream == Some(number),
            _ if data => true,
            _ => io.buffer() != Some(number),
        };
        let mut arguments = Vec::new();
        if io.act() == Act::Opens {
            arguments.push(match emission.numbers.get(&id) {
                Some(number) => number.to_string(),
                None => "FORETELL_UNTRACKED".to_owned(),
            });
        }
        for (number, argument) in all.iter().enumerate() {
            if io == Io::Creat && number == 1 {
                arguments.push("0".to_owned());
            } else if used(number) {
                arguments.push(self.expression(*argument));
            }
        }
        format!("foretell_{family}_{}({})", io.name(), arguments.join(", "))
    }

    /// A call that the program counts, or before which it puts the slice away.
    pub(super) fn counted(&mut self, id: Id) -> String {
        let emission = self.emission;
        if self.departs(id) {
            return format!("(foretell_slice_leave(), {})", self.call_with(id, ""));
        }
        let Some((io, _)) = emission.point(id).and_then(|p| emission.known.io(p)) else {
            return self.call_with(id, "");
        };
        let tree = &emission.known.program.tree;
        let mut arguments: Vec<String> = Vec::new();
        if io.act() == Act::Opens {
            arguments.push(emission.numbers.get(&id).map_or("0".to_owned(), u32::to_string));
        }
        for argument in tree.arguments(id) {
            arguments.push(self.expression(*argument));
        }
        if io == Io::Fsetpos {
            // What a position is depends on the unit's own headers.
            let call =
                format!("{}(foretell_stream, {})", tree.callee_name(id).unwrap_or("fsetpos"), arguments[1]);
            return format!(
                "__extension__({{ FILE *foretell_stream = {}; int foretell_value = {call}; \
                 foretell_real_moved(foretell_stream); foretell_value; }})",
                arguments[0]
            );
        }
        let name = io.counted_name(tree.callee_name(id).unwrap_or_default());
        format!("{name}({})", arguments.join(", "))
    }

    /// An access to a mapped file: by an expression, or by a call that copies.
    pub(super) fn mapped(&mut self, id: Id, is_used: bool) -> String {
        let emission = self.emission;
        let tree = &emission.known.program.tree;
        if tree[id].kind != Kind::Call {
            let text = self.unchanged(id);
            let (name, function) = match (self.voice, is_used) {
                (Voice::Program, _) => ("FORETELL_REAL", "foretell_real_access"),
                (Voice::Slice, true) => ("FORETELL_FETCH", "foretell_fetch_access"),
                (Voice::Slice, false) => ("FORETELL_PREFETCH_ACCESS", "foretell_prefetch_access"),
            };
            if !emission.is_preprocessed(tree[id].unit) {
                return format!("{name}({text})");
            }
            // What these macros stand for, as there are none any more.
            let access = format!("{function}((const void *)&({text}), sizeof({text}))");
            return match function {
                "foretell_prefetch_access" => access,
                _ => format!("(*(__typeof__(&({text}))){access})"),
            };
        }
        let copied = emission.point(id).and_then(|p| copied_bytes(emission.known, p).map(|c| (p, c)));
        let Some((point, (from, bytes))) = copied else { return self.call_with(id, "") };
        let texts: Vec<String> =
            tree.arguments(id).to_vec().into_iter().map(|a| self.expression(a)).collect();
        let needed =
            emission.slice.closure.data.contains(&point) || emission.slice.closure.valued.contains(&point);
        let family = match self.voice {
            Voice::Program => "real",
            Voice::Slice if needed => "fetch",
            Voice::Slice => return format!("foretell_prefetch_access({}, {})", texts[from], texts[bytes]),
        };
        let wrapped = texts.iter().enumerate().map(|(n, text)| match n == from {
            true => format!("foretell_{family}_access({text}, {})", texts[bytes]),
            false => text.clone(),
        });
        let callee = tree.callee_name(id).unwrap_or("memcpy").to_owned();
        format!("{callee}({})", wrapped.collect::<Vec<_>>().join(", "))
    }

    /// A call whose result the program hands to the slice: it sends, the slice receives.
    pub(super) fn forwarded(&mut self, id: Id) -> String {
        let emission = self.emission;
        let tree = &emission.known.program.tree;
        let Some(point) = emission.point(id) else { return self.call_with(id, "") };
        let Some(channel) = emission.channels.get(&point) else { return self.call_with(id, "") };
        let input = self.input(point);
        if let (Some((kind, _)), Voice::Slice) = (input, self.voice) {
            return self.read_ahead(id, *channel, kind);
        }
        let call = if self.voice == Voice::Program { self.call_with(id, "") } else { String::new() };
        let result = &tree[id].ty.spelled;
        let parts = self.written_parts(id, point);
        let pass = |place: &str, bytes: &str, voice| match voice {
            Voice::Program => format!("foretell_send({channel}, {place}, {bytes});"),
            Voice::Slice => format!("foretell_receive({channel}, {place}, {bytes});"),
        };
        let mut said = Vec::new();
        if result != "void" {
            let value = if self.voice == Voice::Program { format!(" = {call}") } else { String::new() };
            said.push(format!("{result} foretell_value{value};"));
            said.push(pass("&foretell_value", "sizeof foretell_value", self.voice));
        } else if self.voice == Voice::Program {
            said.push(format!("{call};"));
        }
        let limits = emission
            .known
            .call(point)
            .is_some_and(|call| emission.known.models_of(call).iter().any(|model| model.limits));
        if limits && self.voice == Voice::Program {
            said.insert(1, "foretell_slice_limited();".to_owned());
        }
        for (place, bytes) in parts {
            said.push(pass(&place, &bytes, self.voice));
        }
        if let Some((Io::Getline | Io::Getdelim, _)) = emission.known.io(point) {
            said.push(self.line_passed(id, *channel));
        }
        if let Some((_, stream)) = input {
            let stream = stream.map(|n| self.expression(tree.arguments(id)[n]));
            let stream = stream.unwrap_or_else(|| "(void *)0".to_owned());
            said.push(format!("foretell_show_input({stream});"));
        }
        // A statement of its own has no use for it.
        let kind_of = |id: Option<Id>| id.map(|id| tree[id].kind);
        let parent = tree[id].parent;
        let is_statement = kind_of(parent) == Some(Kind::Compound)
            && kind_of(parent.and_then(|parent| tree[parent].parent)) != Some(Kind::StatementExpr);
        let is_used = match self.voice {
            Voice::Program => !is_statement,
            Voice::Slice => emission.slice.closure.valued.contains(&point),
        };
        if result != "void" && is_used {
            said.push("foretell_value;".to_owned());
        }
        format!("__extension__({{ {} }})", said.join(" "))
    }

    /// How standard input is read here, where the slice reads ahead in it.
    pub(super) fn input(&self, point: Point) -> Option<(&'static str, Option<usize>)> {
        let emission = self.emission;
        let is_told = emission.input_ahead && emission.channels.contains_key(&point);
        if is_told { input::kind(emission.known, point) } else { None }
    }

    /// A read of standard input that the slice makes ahead of the program.
    fn read_ahead(&mut self, id: Id, channel: u32, kind: &str) -> String {
        let tree = &self.emission.known.program.tree;
        let line = tree.callee_name(id).is_some_and(|name| name == "getline");
        let given = match kind {
            "getc" => 0,
            "fgets" | "getdelim" if line || kind == "fgets" => 2,
            _ => 3,
        };
        let arguments = tree.arguments(id).to_vec();
        let mut words = vec![channel.to_string()];
        words.extend(arguments.into_iter().take(given).map(|a| self.expression(a)));
        if line {
            words.push("'\\n'".to_owned());
        }
        format!("foretell_told_{kind}({})", words.join(", "))
    }

    /// The line that getline() has read, in memory that it has made.
    fn line_passed(&mut self, id: Id, channel: u32) -> String {
        let arguments = self.emission.known.program.tree.arguments(id).to_vec();
        let mut place = |n: usize| arguments.get(n).map(|a| self.expression(*a)).unwrap_or_default();
        let (line, room) = (place(0), place(1));
        let bytes = "(unsigned long)foretell_value + 1";
        let pass = match self.voice {
            Voice::Program => format!("foretell_send({channel}, *({line}), {bytes});"),
            Voice::Slice => format!(
                "*({room}) = {bytes}; *({line}) = (char *)__builtin_realloc(*({line}), *({room})); \
                 foretell_receive({channel}, *({line}), *({room}));"
            ),
        };
        format!("if (foretell_value >= 0) {{ {pass} }}")
    }

    /// What a call writes: places and sizes.
    fn written_parts(&mut self, id: Id, point: Point) -> Vec<(String, String)> {
        let emission = self.emission;
        let known = emission.known;
        let tree = &known.program.tree;
        let all = tree.arguments(id).to_vec();
        let Some(call) = known.call(point) else { return Vec::new() };
        if let Some((io, _)) = known.io(point) {
            let mut text = |n: usize| all.get(n).map(|a| self.expression(*a)).unwrap_or_default();
            return match io {
                Io::Read | Io::Pread => vec![(text(1), text(2))],
                Io::Fread => vec![(text(0), format!("({}) * ({})", text(1), text(2)))],
                Io::Fgets => vec![(text(0), text(1))],
                Io::Fscanf => self.scanned(&all[2..]),
                _ => Vec::new(),
            };
        }
        let models = known.models_of(call);
        let Some(model) = models.first() else { return Vec::new() };
        let written: Vec<Id> = model.writes.iter().filter_map(|n| all.get(*n)).copied().collect();
        let mut parts = self.scanned(&written);
        if let Some(count) = model.many.and_then(|n| all.get(n)) {
            let count = self.expression(*count);
            parts.iter_mut().for_each(|(place, bytes)| *bytes = format!("({count}) * sizeof(*({place}))"));
        }
        parts
    }

    /// Arguments that point to what a call writes; a null pointer points to nothing.
    fn scanned(&mut self, arguments: &[Id]) -> Vec<(String, String)> {
        let tree = &self.emission.known.program.tree;
        let mut parts = Vec::new();
        for argument in arguments {
            if tree.constant(*argument) == Some(0) {
                continue;
            }
            // A cast says nothing of how much there is.
            let bare = tree.uncast(*argument);
            let is_place = tree[bare].ty.is_array() || tree[bare].ty.is_pointer();
            let text = self.expression(if is_place { bare } else { *argument });
            // The name of an array stands for all of it.
            let bytes = if tree[bare].ty.is_array() {
                format!("sizeof({text})")
            } else {
                format!("sizeof(*({text}))")
            };
            parts.push((text, bytes));
        }
        parts
    }
}
