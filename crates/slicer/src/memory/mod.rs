//! Memory: what there is (objects), where in it something lies (locations), and what may point where.
//!
//! An *object* is a variable, the memory of one allocation call, a string, a function, or an open file: the
//! value that `open` gives is a pointer to the file that it opened, and so is followed through variables,
//! structures and calls like any other pointer. A *location* is an object and a path of fields; elements of
//! an array are one location, and a union is one location.

pub(crate) mod points;

use foldhash::HashMap;

use crate::ast::program::{Func, Var};
use crate::ast::{Id, Kind, Tree};

/// A location, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Loc(pub(crate) u32);

impl Loc {
    pub(crate) fn ix(self) -> usize {
        self.0 as usize
    }
}

/// A field of a record, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Field(u32);

/// An object, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Obj(pub(crate) u32);

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Variable(Var),
    /// The memory of one call.
    Heap(Id),
    Literal(Id),
    Function(Func),
    /// A function outside the program.
    Library(String),
    /// What one open call opens.
    Open(Id),
    Stdin,
    /// Standard output and standard error.
    Output,
    /// The array of the program's arguments, and the strings in it.
    Arguments,
    ArgumentText,
    /// Hidden state of library functions.
    State(String),
    /// What a function returns.
    Result(Func),
    /// The further arguments of a function that takes a variable number of them.
    Rest(Func),
}

/// Most fields of one object that are told apart; beyond, the object is one location.
const MOST_LOCATIONS_OF_OBJECT: usize = 256;

/// Deepest path of fields that is told apart; what is deeper belongs to its parent.
const DEEPEST_PATH: usize = 5;

/// All objects and locations.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Vec<Object>,
    object_numbers: HashMap<Object, Obj>,
    locations: Vec<(Obj, Vec<Field>)>,
    location_numbers: HashMap<(Obj, Vec<Field>), Loc>,
    /// The parts that were asked for already.
    parts: HashMap<(Loc, Field), Loc>,
    of_object: Vec<Vec<Loc>>,
    fields: HashMap<(u32, u32, String), Field>,
    /// The record that each field belongs to, as file and offset.
    records: Vec<(u32, u32)>,
    /// Is every object one location?
    is_coarse: bool,
}

impl Memory {
    /// Memory in which an object is one location, for programs that are too large for more.
    pub(crate) fn coarse() -> Self {
        Self { is_coarse: true, ..Self::default() }
    }

    pub(crate) fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    pub(crate) fn object(&mut self, object: Object) -> Obj {
        if let Some(number) = self.object_numbers.get(&object) {
            return *number;
        }
        let number = Obj(self.objects.len() as u32);
        self.objects.push(object.clone());
        self.of_object.push(Vec::new());
        self.object_numbers.insert(object, number);
        number
    }

    pub(crate) fn find_object(&self, object: &Object) -> Option<Obj> {
        self.object_numbers.get(object).copied()
    }

    /// The location of a whole object.
    pub(crate) fn whole(&mut self, object: Object) -> Loc {
        let object = self.object(object);
        self.location(object, Vec::new())
    }

    fn location(&mut self, object: Obj, mut path: Vec<Field>) -> Loc {
        path.truncate(DEEPEST_PATH);
        if self.is_coarse || self.of_object[object.0 as usize].len() >= MOST_LOCATIONS_OF_OBJECT {
            path.clear();
        }
        if let Some(number) = self.location_numbers.get(&(object, path.clone())) {
            return *number;
        }
        let number = Loc(self.locations.len() as u32);
        self.locations.push((object, path.clone()));
        self.location_numbers.insert((object, path), number);
        self.of_object[object.0 as usize].push(number);
        number
    }

    /// The field that a member expression or a declaration names; `None` for a member of a union, which
    /// is the union itself.
    pub(crate) fn field(&mut self, tree: &Tree, declaration: Id) -> Option<Field> {
        let node = &tree[declaration];
        let record = node.parent.filter(|p| tree[*p].kind == Kind::Record)?;
        if tree[record].storage == "union" {
            return None;
        }
        let home = tree[record].begin;
        let key = (node.at.file, node.at.offset, node.name.clone());
        if let Some(field) = self.fields.get(&key) {
            return Some(*field);
        }
        let field = Field(self.records.len() as u32);
        self.records.push((home.file, home.offset));
        self.fields.insert(key, field);
        Some(field)
    }

    /// A field of what lies at a location.
    pub(crate) fn extend(&mut self, base: Loc, fields: &[Field]) -> Loc {
        if let [field] = fields {
            if let Some(part) = self.parts.get(&(base, *field)) {
                return *part;
            }
            let part = self.extended(base, fields);
            self.parts.insert((base, *field), part);
            return part;
        }
        self.extended(base, fields)
    }

    fn extended(&mut self, base: Loc, fields: &[Field]) -> Loc {
        let (object, mut path) = self.locations[base.0 as usize].clone();
        if matches!(self.objects[object.0 as usize], Object::Open(_) | Object::Function(_) | Object::Stdin) {
            return base;
        }
        path.extend_from_slice(fields);
        self.location(object, path)
    }

    /// The whole object that a location is part of.
    pub(crate) fn widen(&mut self, part: Loc) -> Loc {
        let (object, _) = self.locations[part.0 as usize];
        self.location(object, Vec::new())
    }

    pub(crate) fn object_of(&self, location: Loc) -> Obj {
        self.locations[location.0 as usize].0
    }

    pub(crate) fn what(&self, location: Loc) -> &Object {
        &self.objects[self.object_of(location).0 as usize]
    }

    /// Can a pointer lie there? In strings, functions and open files there is none.
    pub(crate) fn holds_pointers(&self, location: Loc) -> bool {
        !matches!(
            self.what(location),
            Object::Literal(_)
                | Object::ArgumentText
                | Object::Function(_)
                | Object::Library(_)
                | Object::Open(_)
                | Object::Stdin
                | Object::Output
        )
    }

    pub(crate) fn of_object(&self, object: Obj) -> &[Loc] {
        &self.of_object[object.0 as usize]
    }

    /// How many locations there are.
    pub(crate) fn locations(&self) -> usize {
        self.locations.len()
    }

    pub(crate) fn all_locations(&self) -> impl Iterator<Item = Loc> {
        (0..self.locations.len() as u32).map(Loc)
    }

    pub(crate) fn path(&self, location: Loc) -> &[Field] {
        &self.locations[location.0 as usize].1
    }

    /// May the two share bytes? They do when one contains the other, and when they are seen through
    /// different records, as after a cast.
    pub(crate) fn overlap(&self, one: Loc, other: Loc) -> bool {
        if one == other {
            return true;
        }
        let (object, path) = &self.locations[one.0 as usize];
        let (other_object, other_path) = &self.locations[other.0 as usize];
        if object != other_object {
            return false;
        }
        for (a, b) in path.iter().zip(other_path) {
            if a != b {
                return self.records[a.0 as usize] != self.records[b.0 as usize];
            }
        }
        true
    }

    /// Does `outer` contain all of `inner`?
    pub(crate) fn covers(&self, outer: Loc, inner: Loc) -> bool {
        let (object, path) = &self.locations[outer.0 as usize];
        let (inner_object, inner_path) = &self.locations[inner.0 as usize];
        object == inner_object && inner_path.starts_with(path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Memory, Object};
    use crate::ast::Id;

    #[test]
    fn parts_overlap_with_the_whole_but_not_with_each_other() {
        let mut memory = Memory { records: vec![(0, 0), (0, 0), (0, 9)], ..Memory::default() };
        let whole = memory.whole(Object::Heap(Id(1)));
        let a = memory.extend(whole, &[Field(0)]);
        let b = memory.extend(whole, &[Field(1)]);
        let cast = memory.extend(whole, &[Field(2)]);
        assert!(memory.overlap(whole, a) && memory.overlap(a, whole));
        assert!(!memory.overlap(a, b));
        assert!(memory.overlap(a, cast), "seen through another record");
        assert!(memory.covers(whole, b) && !memory.covers(b, whole));
    }
}
