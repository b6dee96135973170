//! The tree of a unit in few bytes, to be kept: what the front end says of it fills twenty times as many, and takes
//! longer to be said than all else takes.
//!
//! Numbers are written seven bits at a time, texts once each. Ids count from the unit's root, and a path that is empty is
//! that of the unit itself.

use std::collections::HashMap;
use std::path::PathBuf;

use super::{Id, Kind, Node, Place, Sources, Tree, Type};

/// Goes up with each change of what is written here or read from the front end.
pub(crate) const FORMAT: u32 = 4;

/// A unit as it was kept, not yet among others.
#[derive(Debug)]
pub(crate) struct Saved {
    nodes: Vec<Node>,
    paths: Vec<PathBuf>,
}

impl Saved {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Appends the unit to the tree; `main` is the number of its file.
    pub(crate) fn append(self, tree: &mut Tree, sources: &mut Sources, main: u32, unit: u16) -> Id {
        let first = tree.nodes.len() as u32;
        let moved = |id: Id| Id(id.0 + first);
        let number = |path: &PathBuf| match path.as_os_str().is_empty() {
            true => main,
            false => sources.number(path),
        };
        let files: Vec<u32> = self.paths.iter().map(number).collect();
        tree.nodes.extend(self.nodes.into_iter().map(|mut node| {
            node.parent = node.parent.map(moved);
            node.refers_to = node.refers_to.map(moved);
            node.children.iter_mut().for_each(|child| *child = moved(*child));
            for place in [&mut node.at, &mut node.begin, &mut node.end] {
                place.file = files[place.file as usize];
                place.spelled_file = files[place.spelled_file as usize];
            }
            node.unit = unit;
            node
        }));
        Id(first)
    }
}

/// The unit that begins at `root` and is the last of the tree. `None` if a path is no text.
pub(crate) fn encode(tree: &Tree, sources: &Sources, root: Id, main: u32) -> Option<Vec<u8>> {
    let mut writer = Writer::default();
    let relative = |id: Option<Id>| id.map_or(0, |id| u64::from(id.0 - root.0) + 1);
    for node in &tree.nodes[root.ix()..] {
        writer.body.push(node.kind as u8);
        writer.body.push(u8::from(node.flag));
        writer.number(relative(node.parent));
        writer.number(relative(node.refers_to));
        for text in [&node.name, &node.operator, &node.value, &node.refers_to_name, &node.storage] {
            writer.text(text);
        }
        writer.text(&node.ty.spelled);
        match &node.ty.desugared {
            Some(text) => writer.text_or_none(text),
            None => writer.number(0),
        }
        for place in [node.at, node.begin, node.end] {
            let text = |file: u32| match file == main {
                true => Some(""),
                false => sources.path(file).to_str(),
            };
            writer.place(place, text(place.file)?, text(place.spelled_file)?);
        }
    }
    Some(writer.finish(tree.nodes.len() - root.ix()))
}

/// What [`encode`] has made; `None` if it is something else.
pub(crate) fn decode(bytes: &[u8]) -> Option<Saved> {
    let mut reader = Reader { rest: bytes, offset: 0 };
    let texts = reader.texts()?;
    let paths = reader.texts()?;
    let count = reader.length()?;
    let mut nodes: Vec<Node> = Vec::with_capacity(count);
    for at in 0..count {
        let kind = Kind::numbered(reader.byte()?)?;
        let flag = reader.byte()? != 0;
        let below = |most: usize, number: u64| match number.checked_sub(1) {
            Some(id) if (id as usize) < most => Some(Some(Id(id as u32))),
            Some(_) => None,
            None => Some(None),
        };
        let parent = below(at, reader.number()?)?;
        let refers_to = below(count, reader.number()?)?;
        let mut text = || texts.get(reader.number()? as usize).cloned();
        let (name, operator, value) = (text()?, text()?, text()?);
        let (refers_to_name, storage, spelled) = (text()?, text()?, text()?);
        let desugared = match reader.number()? {
            0 => None,
            number => Some(texts.get(number as usize - 1)?.clone()),
        };
        let mut place = || reader.place(paths.len());
        let (at_place, begin, end) = (place()?, place()?, place()?);
        if let Some(parent) = parent {
            nodes[parent.ix()].children.push(Id(at as u32));
        }
        nodes.push(Node {
            kind,
            parent,
            children: Vec::new(),
            name,
            operator,
            value,
            ty: Type::new(spelled, desugared),
            flag,
            refers_to,
            refers_to_name,
            storage,
            begin,
            end,
            at: at_place,
            unit: 0,
        });
    }
    let is_all = reader.rest.is_empty() && !nodes.is_empty();
    is_all.then(|| Saved { nodes, paths: paths.into_iter().map(PathBuf::from).collect() })
}

/// Bits of a place's first byte.
const KNOWN: u8 = 1;
const IN_MACRO: u8 = 2;

#[derive(Default)]
struct Table {
    numbers: HashMap<String, u64>,
    texts: Vec<String>,
}

impl Table {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

#[derive(Default)]
struct Writer {
    body: Vec<u8>,
    texts: Table,
    paths: Table,
    /// The offset that was written last.
    offset: u32,
}

impl Writer {
    fn number(&mut self, number: u64) {
        put(&mut self.body, number);
    }

    fn text(&mut self, text: &str) {
        let number = self.texts.number(text);
        self.number(number);
    }

    fn text_or_none(&mut self, text: &str) {
        let number = self.texts.number(text);
        self.number(number + 1);
    }

    fn place(&mut self, place: Place, path: &str, spelled_path: &str) {
        let known = if place.known { KNOWN } else { 0 };
        self.body.push(known | if place.in_macro { IN_MACRO } else { 0 });
        self.spot(path, place.offset, place.length);
        if place.in_macro {
            self.spot(spelled_path, place.spelled_offset, place.spelled_length);
        }
    }

    fn spot(&mut self, path: &str, offset: u32, length: u32) {
        let file = self.paths.number(path);
        self.number(file);
        let step = i64::from(offset) - i64::from(self.offset);
        self.number(((step << 1) ^ (step >> 63)) as u64);
        self.number(u64::from(length));
        self.offset = offset;
    }

    fn finish(self, nodes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for table in [&self.texts, &self.paths] {
            put(&mut bytes, table.texts.len() as u64);
            for text in &table.texts {
                put(&mut bytes, text.len() as u64);
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        put(&mut bytes, nodes as u64);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
    offset: u32,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// How many of something follow: each takes a byte at least.
    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|length| *length <= self.rest.len())
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.length()?;
        let mut text = || {
            let length = self.length()?;
            let (text, rest) = self.rest.split_at(length);
            self.rest = rest;
            String::from_utf8(text.to_vec()).ok()
        };
        (0..count).map(|_| text()).collect()
    }

    fn place(&mut self, paths: usize) -> Option<Place> {
        let bits = self.byte()?;
        let in_macro = bits & IN_MACRO != 0;
        let used = self.spot(paths)?;
        let spelled = if in_macro { self.spot(paths)? } else { used };
        let ((file, offset, length), (spelled_file, spelled_offset, spelled_length)) = (used, spelled);
        let known = bits & KNOWN != 0;
        Some(Place { file, offset, length, spelled_file, spelled_offset, spelled_length, in_macro, known })
    }

    fn spot(&mut self, paths: usize) -> Option<(u32, u32, u32)> {
        let file = self.number()?;
        if file as usize >= paths {
            return None;
        }
        let step = self.number()?;
        let step = (step >> 1) as i64 ^ -((step & 1) as i64);
        self.offset = u32::try_from(i64::from(self.offset).checked_add(step)?).ok()?;
        Some((file as u32, self.offset, u32::try_from(self.number()?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn unit() -> (Tree, Sources, Id, u32) {
        let (mut tree, mut sources) = (Tree::default(), Sources::default());
        let other = sources.number(Path::new("/other/b.h"));
        let main = sources.number(Path::new("/here/a.i"));
        let place = |file, offset| Place {
            file,
            offset,
            length: 3,
            spelled_file: other,
            spelled_offset: 1 << 30,
            spelled_length: 4,
            in_macro: file == other,
            known: offset > 0,
        };
        let place = |file, offset| match place(file, offset) {
            place if place.in_macro => place,
            place => Place { spelled_file: file, spelled_offset: offset, spelled_length: 3, ..place },
        };
        let node = |kind, parent: Option<u32>, refers_to: Option<u32>, at: Place| Node {
            kind,
            parent: parent.map(Id),
            children: Vec::new(),
            name: "name é".to_owned(),
            operator: "+".to_owned(),
            value: String::new(),
            ty: Type::new("T".to_owned(), (at.offset > 0).then(|| "int".to_owned())),
            flag: at.offset > 0,
            refers_to: refers_to.map(Id),
            refers_to_name: "other".to_owned(),
            storage: "static".to_owned(),
            begin: at,
            end: at,
            at,
            unit: 3,
        };
        // Another unit stands before it.
        tree.nodes.push(node(Kind::Unit, None, None, place(other, 5)));
        tree.nodes.push(node(Kind::Unit, None, None, place(main, 0)));
        tree.nodes.push(node(Kind::Function, Some(1), None, place(main, 300)));
        tree.nodes.push(node(Kind::DeclRef, Some(2), Some(2), place(other, 20)));
        tree.nodes.push(node(Kind::Other, Some(1), Some(3), place(main, 7)));
        tree.nodes[1].children = vec![Id(2), Id(4)];
        tree.nodes[2].children = vec![Id(3)];
        (tree, sources, Id(1), main)
    }

    #[test]
    fn a_unit_comes_back_as_it_was() {
        let (tree, mut sources, root, main) = unit();
        let bytes = encode(&tree, &sources, root, main).unwrap();
        let saved = decode(&bytes).unwrap();
        assert_eq!(saved.len(), 4);
        let mut other = Tree { nodes: tree.nodes[..1].to_vec() };
        assert_eq!(saved.append(&mut other, &mut sources, main, 3), root);
        assert_eq!(format!("{:?}", other.nodes), format!("{:?}", tree.nodes));
        // In another program its file has another name and number.
        let mut elsewhere = Sources::default();
        let main = elsewhere.number(Path::new("/elsewhere/7.i"));
        let mut other = Tree::default();
        decode(&bytes).unwrap().append(&mut other, &mut elsewhere, main, 9);
        assert_eq!(other.nodes[1].children, [Id(2)]);
        assert_eq!((other.nodes[1].at.file, other.nodes[1].unit), (main, 9));
        assert_eq!(elsewhere.path(other.nodes[2].at.file), Path::new("/other/b.h"));
    }

    #[test]
    fn other_bytes_are_no_unit() {
        let (tree, sources, root, main) = unit();
        let bytes = encode(&tree, &sources, root, main).unwrap();
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // What is a unit after all must not be one that breaks something.
                if let Some(saved) = decode(&damaged) {
                    saved.append(&mut Tree::default(), &mut Sources::default(), 0, 0);
                }
            }
        }
    }
}
