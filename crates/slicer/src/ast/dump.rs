//! Reads what the front end has said of a translation unit, JSON, into the arena.
//!
//! The dump leaves the name of a file out where it is the same as that of the place printed before; so the
//! places are decoded in the order in which they stand. Of other attributes only those are read that
//! [`Node`] has. The tree can be deep (a chain of `else if`, a long sum), so the caller runs this on a thread
//! with a large stack.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::front_end::Said;
use super::saved;
use super::{INLINE, Id, Kind, Node, Place, Sources, Tree, Type};
use crate::{Error, Input};

/// Most nodes of a program. A translation unit of 2,000 lines has about 50,000.
const MOST_NODES: usize = 20_000_000;

/// What a declaration's comment for documentation is called, which stands among its parts.
const COMMENT: &str = "FullComment";

#[derive(Deserialize, Default)]
struct RawSpot {
    offset: Option<u32>,
    file: Option<String>,
    #[serde(rename = "tokLen")]
    length: Option<u32>,
}

#[derive(Deserialize, Default)]
struct RawPlace {
    offset: Option<u32>,
    file: Option<String>,
    #[serde(rename = "tokLen")]
    length: Option<u32>,
    #[serde(rename = "spellingLoc")]
    spelling: Option<RawSpot>,
    #[serde(rename = "expansionLoc")]
    expansion: Option<RawSpot>,
}

#[derive(Deserialize, Default)]
struct RawRange {
    #[serde(default)]
    begin: RawPlace,
    #[serde(default)]
    end: RawPlace,
}

#[derive(Deserialize)]
struct RawType {
    #[serde(rename = "qualType", default)]
    spelled: String,
    #[serde(rename = "desugaredQualType")]
    desugared: Option<String>,
}

#[derive(Deserialize)]
struct RawReference {
    id: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawNode {
    id: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    loc: RawPlace,
    #[serde(default)]
    range: RawRange,
    #[serde(default)]
    name: String,
    #[serde(rename = "type")]
    ty: Option<RawType>,
    #[serde(rename = "argType")]
    argument: Option<RawType>,
    #[serde(default)]
    opcode: String,
    #[serde(rename = "castKind", default)]
    cast: String,
    #[serde(default)]
    value: serde_json::Value,
    #[serde(rename = "isPostfix", default)]
    postfix: bool,
    #[serde(rename = "isArrow", default)]
    arrow: bool,
    #[serde(rename = "isGNURange", default)]
    range_of_cases: bool,
    #[serde(default)]
    variadic: bool,
    #[serde(default)]
    inline: bool,
    init: Option<String>,
    /// Of the associations of `_Generic` the one that is taken.
    #[serde(default)]
    selected: bool,
    #[serde(rename = "storageClass", default)]
    storage: String,
    #[serde(rename = "tagUsed", default)]
    tag: String,
    #[serde(rename = "referencedDecl")]
    referenced: Option<RawReference>,
    #[serde(rename = "referencedMemberDecl")]
    member: Option<String>,
    #[serde(rename = "targetLabelDeclId")]
    target: Option<String>,
    #[serde(rename = "declId")]
    label: Option<String>,
    /// Of a list of initial values that gives an array less than it has place for: what the rest is filled with, and then
    /// those that are given.
    #[serde(default)]
    array_filler: Vec<RawNode>,
    #[serde(default)]
    inner: Vec<RawNode>,
}

/// Appends the tree of a unit; gives the unit's root.
pub(crate) fn read_unit(
    tree: &mut Tree,
    sources: &mut Sources,
    input: &Input,
    said: Said<'_>,
    unit: u16,
) -> Result<Id, Error> {
    let main = sources.load_strictly(&input.path)?;
    let (dump, keeping) = match said {
        Said::Dump(dump, keeping) => (dump, keeping),
        Said::Kept(kept) => {
            room(tree.nodes.len() + kept.len())?;
            return Ok(kept.append(tree, sources, main, unit));
        }
    };
    let mut parser = serde_json::Deserializer::from_slice(&dump.json);
    parser.disable_recursion_limit();
    let raw = RawNode::deserialize(&mut parser)
        .map_err(|e| Error::Tree { path: input.path.clone(), message: e.to_string() })?;
    let mut reader = Reader {
        tree,
        sources,
        folder: input.folder.as_deref(),
        unit,
        main,
        name: &dump.name,
        file: main,
        ids: HashMap::new(),
        has_bool: false,
        open: Vec::new(),
    };
    let root = reader.node(raw, None)?;
    reader.resolve();
    if let Some(keeping) = keeping
        && let Some(bytes) = saved::encode(tree, sources, root, main)
    {
        keeping.store.put(keeping.key, &bytes);
    }
    Ok(root)
}

fn room(nodes: usize) -> Result<(), Error> {
    if nodes >= MOST_NODES {
        return Err(Error::TooLarge { what: "nodes of the syntax tree".to_owned(), limit: MOST_NODES });
    }
    Ok(())
}

/// File, offset, length, and whether there is such a place.
type Spot = (u32, u32, u32, bool);

struct Reader<'a> {
    tree: &'a mut Tree,
    sources: &'a mut Sources,
    folder: Option<&'a Path>,
    unit: u16,
    /// The file of the unit.
    main: u32,
    /// What the front end calls it, if that is not its name.
    name: &'a str,
    /// The file of the place that was printed last.
    file: u32,
    /// clang's numbers of declarations.
    ids: HashMap<String, Id>,
    /// Has the unit a type of its own of the name that `<stdbool.h>` gives to a macro?
    has_bool: bool,
    /// References to resolve when all declarations are known.
    open: Vec<(Id, String)>,
}

/// The macro of `<stdbool.h>` for a type. Where there is one, clang writes it in the place of the type.
const BOOL: &str = "bool";

/// A type as it is called in units that have no such macro.
fn without_macro(text: String) -> String {
    if !text.contains(BOOL) {
        return text;
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut renamed = String::with_capacity(text.len() + 1);
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let word = piece.trim_end_matches(|c| !is_part(c));
        renamed += if word == BOOL { "_Bool" } else { word };
        renamed += &piece[word.len()..];
    }
    renamed
}

impl Reader<'_> {
    fn spot(&mut self, file: Option<&String>, offset: Option<u32>, length: Option<u32>) -> Spot {
        if let Some(name) = file {
            self.file = match self.folder {
                _ if name == self.name => self.main,
                Some(folder) => self.sources.number(&folder.join(name)),
                None => self.sources.number(Path::new(name)),
            };
        }
        (self.file, offset.unwrap_or(0), length.unwrap_or(0), offset.is_some())
    }

    fn place(&mut self, raw: &RawPlace) -> Place {
        let (in_macro, spelled, used) = match (&raw.spelling, &raw.expansion) {
            (Some(spelling), Some(expansion)) => {
                let spelled = self.spot(spelling.file.as_ref(), spelling.offset, spelling.length);
                (true, spelled, self.spot(expansion.file.as_ref(), expansion.offset, expansion.length))
            }
            _ => {
                let spot = self.spot(raw.file.as_ref(), raw.offset, raw.length);
                (false, spot, spot)
            }
        };
        let (file, offset, length, known) = used;
        let (spelled_file, spelled_offset, spelled_length, _) = spelled;
        Place { file, offset, length, spelled_file, spelled_offset, spelled_length, in_macro, known }
    }

    fn node(&mut self, raw: RawNode, parent: Option<Id>) -> Result<Id, Error> {
        let id = Id(self.tree.nodes.len() as u32);
        room(id.ix())?;
        let kind = raw.kind.as_deref().map_or(Kind::Absent, Kind::of);
        // The order of the dump: the place, then both ends of the range, then the children.
        let at = self.place(&raw.loc);
        let begin = self.place(&raw.range.begin);
        let end = self.place(&raw.range.end);
        self.has_bool |= kind == Kind::Typedef && raw.name == BOOL;
        let has_bool = self.has_bool;
        let spelled = |text: String| if has_bool { text } else { without_macro(text) };
        let text = |t: RawType| Type::new(spelled(t.spelled), t.desugared.map(spelled));
        let reference = raw.referenced.as_ref().map(|r| r.id.clone());
        let wanted = reference.or(raw.member).or(raw.target);
        let operator = match (&raw.referenced, raw.opcode.is_empty()) {
            (Some(referenced), _) => referenced.kind.clone(),
            (None, true) if kind == Kind::SizeOf => raw.name.clone(),
            (None, true) if raw.inline => INLINE.to_owned(),
            (None, true) => raw.cast,
            (None, false) => raw.opcode,
        };
        let value = match raw.value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Null => String::new(),
            other => other.to_string(),
        };
        // What `sizeof` is applied to, when that is a type, stands in for the value.
        let value = match (&raw.argument, kind) {
            (Some(argument), Kind::SizeOf) => spelled(argument.spelled.clone()),
            _ => value,
        };
        self.tree.nodes.push(Node {
            kind,
            parent,
            children: Vec::new(),
            name: raw.name,
            operator,
            value,
            ty: raw.ty.map(text).unwrap_or_default(),
            flag: raw.postfix
                || raw.arrow
                || raw.range_of_cases
                || raw.variadic
                || raw.selected
                || raw.init.is_some(),
            refers_to: None,
            refers_to_name: raw.referenced.map(|r| r.name).unwrap_or_default(),
            storage: if raw.tag.is_empty() { raw.storage } else { raw.tag },
            begin,
            end,
            at,
            unit: self.unit,
        });
        if kind.is_declaration() {
            if let Some(name) = raw.id {
                self.ids.insert(name, id);
            }
        } else if let Some(label) = raw.label {
            self.ids.insert(label, id);
        }
        if let Some(wanted) = wanted {
            self.open.push((id, wanted));
        }
        let mut children = Vec::with_capacity(raw.array_filler.len() + raw.inner.len());
        for inner in raw.array_filler.into_iter().skip(1).chain(raw.inner) {
            if inner.kind.as_deref() == Some(COMMENT) {
                self.pass(&inner);
            } else {
                children.push(self.node(inner, Some(id))?);
            }
        }
        self.tree.nodes[id.ix()].children = children;
        Ok(id)
    }

    /// Goes past a node that is not read: the places after it leave out the file that it names.
    fn pass(&mut self, raw: &RawNode) {
        self.place(&raw.loc);
        self.place(&raw.range.begin);
        self.place(&raw.range.end);
        raw.inner.iter().for_each(|inner| self.pass(inner));
    }

    fn resolve(&mut self) {
        for (id, wanted) in std::mem::take(&mut self.open) {
            self.tree.nodes[id.ix()].refers_to = self.ids.get(&wanted).copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_macro;

    #[test]
    fn what_is_called_by_a_macro_is_called_by_its_name() {
        for (said, meant) in [
            ("bool", "_Bool"),
            ("const bool *", "const _Bool *"),
            ("bool (*)(int, bool)", "_Bool (*)(int, _Bool)"),
            ("struct bool_map", "struct bool_map"),
            ("_Bool[3]", "_Bool[3]"),
            ("struct abool (bool)", "struct abool (_Bool)"),
        ] {
            assert_eq!(without_macro(said.to_owned()), meant);
        }
    }
}
