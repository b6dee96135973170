//! The syntax tree of a whole program.
//!
//! clang prints one tree a translation unit as JSON ([`front_end`], [`dump`]). Here the trees of all units lie in one
//! arena; a node is a number ([`Id`]). The tree stays generic, a [`Kind`] and children in clang's order,
//! because slicing looks at the few dozen kinds that C has and not at their many attributes. Names are
//! resolved once ([`program`]), places in the text are exact, also inside macros ([`place`]).

pub(crate) mod bodies;
pub(crate) mod dump;
pub(crate) mod front_end;
pub(crate) mod kind;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod saved;
mod tables;
pub(crate) mod unused;

pub(crate) use kind::Kind;
pub(crate) use place::{Place, Sources};

/// A node of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    pub(crate) fn ix(self) -> usize {
        self.0 as usize
    }
}

/// A type as clang spells it, and what is left when its typedefs are resolved at the top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) spelled: String,
    desugared: Option<String>,
}

impl Type {
    pub(crate) fn new(spelled: String, desugared: Option<String>) -> Self {
        Self { spelled, desugared }
    }

    /// Without typedefs at the top.
    pub(crate) fn plain(&self) -> &str {
        self.desugared.as_deref().unwrap_or(&self.spelled)
    }

    pub(crate) fn is_record(&self) -> bool {
        // A `struct s *const` is a pointer.
        let plain = unqualified(without_pointers_qualifiers(self.plain()));
        (plain.starts_with("struct ") || plain.starts_with("union ")) && !plain.ends_with(['*', ']', ')'])
    }

    pub(crate) fn is_array(&self) -> bool {
        self.plain().ends_with(']') && !self.plain().contains("(*")
    }

    pub(crate) fn is_pointer(&self) -> bool {
        let plain = without_pointers_qualifiers(self.plain());
        plain.ends_with('*') || plain.contains("(*")
    }

    /// Does pointer arithmetic on this type go by bytes?
    pub(crate) fn points_to_bytes(&self) -> bool {
        let plain = without_pointers_qualifiers(self.plain());
        let Some(target) = plain.strip_suffix('*') else { return false };
        let target = unqualified(target.trim());
        matches!(target, "char" | "unsigned char" | "signed char" | "void" | "uint8_t" | "int8_t" | "Bytef")
    }

    /// Is it a `va_list`, or a pointer to one, where that is an array of one structure (as on x86-64)?
    pub(crate) fn is_argument_list(&self) -> bool {
        self.plain().contains("__va_list_tag")
    }

    pub(crate) fn is_void(&self) -> bool {
        self.plain() == "void"
    }
}

/// The type without what qualifies the pointer itself: `char *const restrict` gives `char *`.
fn without_pointers_qualifiers(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(rest) =
        ["const", "restrict", "__restrict", "volatile"].iter().find_map(|word| text.strip_suffix(word))
    {
        let rest = rest.trim_end();
        if !rest.ends_with('*') && !["const", "restrict", "volatile"].iter().any(|word| rest.ends_with(word))
        {
            break;
        }
        text = rest;
    }
    text
}

fn unqualified(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(rest) = text.strip_prefix("const ").or_else(|| text.strip_prefix("volatile ")) {
        text = rest.trim_start();
    }
    text
}

/// In place of an operator: the function is inline, by a word of its own or by a macro.
pub(crate) const INLINE: &str = "inline";

/// One node of clang's tree, with the attributes that slicing needs.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) parent: Option<Id>,
    pub(crate) children: Vec<Id>,
    /// The name of a declaration, a member or a label.
    pub(crate) name: String,
    /// An operator, or the kind of a cast; of a function whether it is inline ([`INLINE`]).
    pub(crate) operator: String,
    /// The value of a literal, as clang prints it.
    pub(crate) value: String,
    pub(crate) ty: Type,
    /// `x++` and not `++x`; `p->m` and not `s.m`; `case 1 ... 3`; a declaration with initializer; variadic; the
    /// association of `_Generic` that is taken.
    pub(crate) flag: bool,
    /// The declaration that is referred to: variable, function, field, label.
    pub(crate) refers_to: Option<Id>,
    /// The name of a declaration that is referred to and may lie elsewhere.
    pub(crate) refers_to_name: String,
    /// `static`, `extern`; `struct`, `union`.
    pub(crate) storage: String,
    pub(crate) begin: Place,
    pub(crate) end: Place,
    /// Where the name of a declaration stands.
    pub(crate) at: Place,
    /// The translation unit.
    pub(crate) unit: u16,
}

/// All nodes of all units.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl std::ops::Index<Id> for Tree {
    type Output = Node;

    fn index(&self, id: Id) -> &Node {
        &self.nodes[id.ix()]
    }
}

impl Tree {
    pub(crate) fn children(&self, id: Id) -> &[Id] {
        &self[id].children
    }

    /// The n-th child, unless it is absent (an omitted part of `for`).
    pub(crate) fn child(&self, id: Id, n: usize) -> Option<Id> {
        self[id].children.get(n).copied().filter(|c| self[*c].kind != Kind::Absent)
    }

    /// The expression below parentheses, implicit casts and constant wrappers.
    pub(crate) fn bare(&self, mut id: Id) -> Id {
        loop {
            match self[id].kind {
                Kind::Paren | Kind::ImplicitCast | Kind::Constant | Kind::FullExpr => match self.child(id, 0)
                {
                    Some(inner) => id = inner,
                    None => return id,
                },
                Kind::Generic => match self.selected(id) {
                    Some(inner) => id = inner,
                    None => return id,
                },
                _ => return id,
            }
        }
    }

    /// The expression that a `_Generic` stands for.
    pub(crate) fn selected(&self, generic: Id) -> Option<Id> {
        let taken =
            self.children(generic).iter().find(|c| self[**c].kind == Kind::Absent && self[**c].flag)?;
        self.children(*taken).last().copied()
    }

    /// As [`Self::bare`], and below casts that were written.
    pub(crate) fn uncast(&self, id: Id) -> Id {
        let mut id = self.bare(id);
        while self[id].kind == Kind::Cast {
            match self.child(id, 0) {
                Some(inner) => id = self.bare(inner),
                None => return id,
            }
        }
        id
    }

    /// All nodes below and including `id`, parents first.
    pub(crate) fn below(&self, id: Id) -> Vec<Id> {
        let mut stack = vec![id];
        let mut found = Vec::new();
        while let Some(id) = stack.pop() {
            found.push(id);
            stack.extend(self.children(id).iter().rev());
        }
        found
    }

    /// The name of the function that is called directly.
    pub(crate) fn callee_name(&self, call: Id) -> Option<&str> {
        let callee = self.bare(self.child(call, 0)?);
        let node = &self[callee];
        (node.kind == Kind::DeclRef && node.operator == "FunctionDecl")
            .then_some(node.refers_to_name.as_str())
    }

    /// The arguments of a call.
    pub(crate) fn arguments(&self, call: Id) -> &[Id] {
        self.children(call).get(1..).unwrap_or_default()
    }

    /// The value of an integer constant expression of the simple kind: literals, `|`, `-`, `~`, enumerators
    /// are not among them.
    pub(crate) fn constant(&self, id: Id) -> Option<i64> {
        let id = self.uncast(id);
        let node = &self[id];
        match node.kind {
            Kind::Integer | Kind::Character => node.value.parse::<i64>().ok(),
            Kind::Unary => {
                let inner = self.constant(self.child(id, 0)?)?;
                match node.operator.as_str() {
                    "-" => inner.checked_neg(),
                    "~" => Some(!inner),
                    "!" => Some(i64::from(inner == 0)),
                    _ => None,
                }
            }
            Kind::Binary => {
                let left = self.constant(self.child(id, 0)?)?;
                let right = self.constant(self.child(id, 1)?)?;
                match node.operator.as_str() {
                    "|" => Some(left | right),
                    "+" => left.checked_add(right),
                    "-" => left.checked_sub(right),
                    "*" => left.checked_mul(right),
                    "&" => Some(left & right),
                    "<<" => left.checked_shl(u32::try_from(right).ok()?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The text of a string literal, without quotes and with its escapes as written.
    pub(crate) fn string(&self, id: Id) -> Option<&str> {
        let node = &self[self.uncast(id)];
        if node.kind != Kind::StringLiteral {
            return None;
        }
        node.value.strip_prefix('"')?.strip_suffix('"')
    }
}
