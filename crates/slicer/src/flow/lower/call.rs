//! Calls: their arguments, and where pointers go through functions of the library.

use super::Walk;
use crate::ast::{Id, Kind};
use crate::flow::{CallSite, Callee, Value, What};
use crate::memory::Object;
use crate::memory::points::Slot;
use crate::models::{Io, Model};

/// What makes a list of the further arguments of its function.
const VA_START: &str = "__builtin_va_start";

impl Walk<'_, '_> {
    pub(super) fn call(&mut self, id: Id) -> Value {
        let tree = &self.all.program.tree;
        let name = tree.callee_name(id).unwrap_or_default();
        let arguments = tree.arguments(id).to_vec();
        match name {
            "__builtin_expect" | "__builtin_assume_aligned" => {
                return self.value_of(arguments.first().copied());
            }
            "__builtin_constant_p" | "__builtin_object_size" | "__builtin_unreachable" | "__builtin_trap" => {
                return self.nothing();
            }
            _ => {}
        }
        let name = name.to_owned();
        let (callee, callee_value) = self.callee(id, &name);
        let mut values = Vec::with_capacity(arguments.len());
        for (number, argument) in arguments.iter().enumerate() {
            let value = self.value(*argument);
            let later = arguments[number + 1..].iter().find(|a| self.all.has_effects(**a));
            let value = if later.is_some() { self.pin(value, *argument) } else { value };
            values.push(value);
        }
        let step = self.then(What::Call, id, callee_value);
        self.graph.step_of.insert(id, step);
        let slots: Vec<Slot> = values.iter().map(|v| v.slot).collect();
        let result = self.all.points.fresh();
        match &callee {
            Callee::Function(func) => {
                let returned = self.all.memory.whole(Object::Result(*func));
                if tree[id].ty.is_record() {
                    self.all.points.add(result, returned);
                }
                let (program, memory) = (self.all.program, &mut self.all.memory);
                self.all.points.connect(*func, &slots, result, program, memory);
            }
            Callee::Pointer(pointer) => {
                let heap = self.all.memory.whole(Object::Heap(id));
                self.all.points.call(*pointer, slots.clone(), result, Some(heap));
            }
            Callee::Library(name) => self.external(id, name, &slots, result),
        }
        self.graph.nodes[step.ix()].call = Some(CallSite { callee, arguments: values });
        Value { reads: Vec::new(), needs: vec![step], slot: result }
    }

    fn callee(&mut self, id: Id, name: &str) -> (Callee, Value) {
        let tree = &self.all.program.tree;
        let expression = tree.children(id)[0];
        if name.is_empty() {
            let value = self.value(expression);
            let value = match tree.arguments(id).iter().any(|a| self.all.has_effects(*a)) {
                true => self.pin(value, expression),
                false => value,
            };
            return (Callee::Pointer(value.slot), value);
        }
        let callee = match self.all.program.function(tree.bare(expression)) {
            Some(func) => Callee::Function(func),
            None => Callee::Library(name.to_owned()),
        };
        (callee, self.nothing())
    }

    /// Where pointers go through a library function.
    fn external(&mut self, call: Id, name: &str, arguments: &[Slot], result: Slot) {
        let Some(model) = self.all.models.get(name) else {
            // It may call whatever function it is given.
            for argument in arguments {
                let nowhere = self.all.points.fresh();
                self.all.points.call(*argument, arguments.to_vec(), nowhere, None);
            }
            return;
        };
        let model: &Model = model;
        if name == VA_START
            && let Some(func) = self.func
            && let Some(list) = arguments.first()
        {
            let rest = self.all.memory.whole(Object::Rest(func));
            let rest = self.all.points.address(rest);
            self.all.points.store(*list, rest);
        }
        let made = match (&model.place, self.func) {
            (Some(place), Some(func)) => Object::State(format!("{place} {}", func.0)),
            _ => Object::Heap(call),
        };
        let heap = model.makes_memory().then(|| self.all.memory.whole(made));
        self.all.points.through_library(model, arguments, result, heap);
        if let Some(callback) = &model.calls {
            let passed: Vec<Slot> = callback.with.iter().filter_map(|n| arguments.get(*n).copied()).collect();
            if let Some(function) = arguments.get(callback.argument) {
                let nowhere = self.all.points.fresh();
                self.all.points.call(*function, passed, nowhere, None);
            }
        }
        if let Some(function) = model.thread.and_then(|n| arguments.get(n)) {
            let nowhere = self.all.points.fresh();
            let passed = arguments.last().copied().into_iter().collect();
            self.all.points.call(*function, passed, nowhere, None);
        }
        if let Some(io) = model.io {
            self.open_files(call, io, model, arguments, result);
        }
    }

    fn store_heap(&mut self, call: Id, argument: Slot) {
        let heap = self.all.memory.whole(Object::Heap(call));
        let heap = self.all.points.address(heap);
        self.all.points.store(argument, heap);
    }

    fn open_files(&mut self, call: Id, io: Io, model: &Model, arguments: &[Slot], result: Slot) {
        let file = io.file(model).and_then(|n| arguments.get(n)).copied();
        match io {
            Io::Open | Io::Openat | Io::Creat | Io::Fopen => {
                let opened = self.all.memory.whole(Object::Open(call));
                self.all.points.add(result, opened);
            }
            Io::Dup | Io::Dup2 | Io::Fdopen | Io::Fileno | Io::Freopen => {
                if let Some(file) = file {
                    self.all.points.copy(result, file);
                }
            }
            Io::Getline | Io::Getdelim => self.store_heap(call, arguments[0]),
            Io::Fgets => self.all.points.copy(result, arguments[0]),
            Io::Mmap => {
                let mapped = self.all.memory.whole(Object::Heap(call));
                self.all.points.add(result, mapped);
            }
            _ => {}
        }
        // Descriptor 0 is standard input.
        let tree = &self.all.program.tree;
        let written = io.file(model).and_then(|n| tree.arguments(call).get(n).copied());
        if let (Some(written), Some(file)) = (written, file)
            && tree[tree.uncast(written)].kind == Kind::Integer
        {
            let stream = if tree.constant(written) == Some(0) { Object::Stdin } else { Object::Output };
            let stream = self.all.memory.whole(stream);
            self.all.points.add(file, stream);
        }
    }
}
