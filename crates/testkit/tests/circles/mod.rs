//! Circles of files: which files of a crate name each other's items in a ring, read off their text.
//!
//! An edge goes from the file that names an item to the file that defines it; a re-export on the way is no edge, and
//! neither is `mod`. Tests do not count, nor do methods that are called on a value: what counts is what a file must name.
//! Of the language only as much is read as that takes: items, imports, and paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The path of a module, from the root of its crate.
type Module = Vec<String>;

/// For each file the files that it names items of, with these items.
pub(crate) type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// What is known of one module.
#[derive(Default)]
struct Scope {
    file: PathBuf,
    /// What is defined in it.
    items: BTreeSet<String>,
    /// Names that it imports, or passes on, with the path that each stands for.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names it imports.
    globs: Vec<Vec<String>>,
    /// The paths that it names: those of private imports, and those in its items.
    paths: Vec<Vec<String>>,
}

/// The modules of one crate.
struct Crate<'a> {
    text_of: &'a dyn Fn(&Path) -> Option<String>,
    modules: BTreeMap<Module, Scope>,
}

/// The edges among the files of the crate whose root is `root` (a `lib.rs` or a `main.rs`); `text_of` reads a file.
pub(crate) fn edges(root: &Path, text_of: &dyn Fn(&Path) -> Option<String>) -> Edges {
    let mut modules = Crate { text_of, modules: BTreeMap::new() };
    let text = text_of(root).unwrap_or_else(|| panic!("{} cannot be read", root.display()));
    modules.read(&text, root, root.parent().unwrap(), Vec::new());
    let mut edges = Edges::new();
    for (module, scope) in &modules.modules {
        for path in &scope.paths {
            let Some((file, item)) = modules.defined(module, path, 0) else { continue };
            if file != scope.file {
                edges.entry(scope.file.clone()).or_default().entry(file).or_default().insert(item);
            }
        }
    }
    edges
}

/// The circles of two files and more, the largest first.
pub(crate) fn circles(edges: &Edges) -> Vec<BTreeSet<PathBuf>> {
    let mut reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for from in edges.keys() {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(
                edges.get(file).into_iter().flat_map(BTreeMap::keys).filter(|&file| seen.insert(file)),
            );
        }
        reach.insert(from, seen);
    }
    let mut circles = BTreeSet::new();
    for (&file, seen) in &reach {
        let back = |other: &&PathBuf| reach.get(*other).is_some_and(|seen| seen.contains(file));
        let circle: BTreeSet<PathBuf> = seen.iter().copied().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// A circle in one line: its files, and what each names of the others.
pub(crate) fn told(circle: &BTreeSet<PathBuf>, edges: &Edges, root: &Path) -> String {
    let short = |file: &Path| file.strip_prefix(root).unwrap_or(file).display().to_string();
    let inside = circle.iter().flat_map(|from| edges[from].iter().map(move |(to, items)| (from, to, items)));
    let inside = inside.filter(|(_, to, _)| circle.contains(*to)).map(|(from, to, items)| {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        format!("{} names {} of {}", short(from), items.join(", "), short(to))
    });
    format!("a circle of {} files: {}", circle.len(), inside.collect::<Vec<_>>().join("; "))
}

impl Crate<'_> {
    /// Reads the module whose text is that of `file`, and whose children lie in the directory `below`.
    fn read(&mut self, text: &str, file: &Path, below: &Path, module: Module) {
        let words = without_tests(words(text));
        self.items(&words, file, below, module);
    }

    /// Reads the items of one module.
    fn items(&mut self, words: &[String], file: &Path, below: &Path, module: Module) {
        let mut scope = Scope { file: file.to_owned(), ..Scope::default() };
        let mut rest = words;
        let mut path_attribute = None;
        while !rest.is_empty() {
            if rest[0] == "#" {
                let bracket = rest.iter().position(|word| word == "[").unwrap();
                let end = bracket + group(&rest[bracket..]);
                if rest[bracket + 1] == "path" {
                    path_attribute = Some(rest[bracket + 3].trim_matches('"').to_owned());
                }
                scope.name_paths(&rest[bracket + 1..end - 1]);
                rest = &rest[end..];
                continue;
            }
            let (item, after) = rest.split_at(item(rest));
            rest = after;
            let (public, item) = without_visibility(item);
            let name = |at: usize| item.get(at).cloned().unwrap_or_default();
            match item.first().map(String::as_str) {
                Some("mod") => {
                    let mut child = module.clone();
                    child.push(name(1));
                    let below = below.join(name(1));
                    if item[2] == ";" {
                        let child_file = match path_attribute.take() {
                            Some(path) => file.parent().unwrap().join(path),
                            None => below.with_extension("rs"),
                        };
                        let child_file = [child_file, below.join("mod.rs")]
                            .into_iter()
                            .find_map(|file| Some(((self.text_of)(&file)?, file)));
                        let Some((text, file)) = child_file else {
                            panic!("{}: no such file", below.display())
                        };
                        self.read(&text, &file, &below, child);
                    } else {
                        self.items(&item[3..item.len() - 1], file, &below, child);
                    }
                }
                Some("use") => scope.import(&item[1..], public),
                Some("macro_rules") => {
                    scope.items.insert(name(2).trim_matches('!').to_owned());
                    // What a macro defines under a name of its own is defined where the macro is.
                    let kinds = ["struct", "enum", "trait", "type", "const", "static"];
                    let pairs = item.windows(2).filter(|pair| kinds.contains(&pair[0].as_str()));
                    scope.items.extend(pairs.map(|pair| pair[1].clone()).filter(|name| is_name(name)));
                    scope.name_paths(&item[3..]);
                }
                _ => {
                    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
                    let head: Vec<&String> = item
                        .iter()
                        .skip_while(|w| {
                            ["unsafe", "async", "extern"].contains(&w.as_str()) || w.starts_with('"')
                        })
                        .take(3)
                        .collect();
                    if let [kind, name, next] = head[..]
                        && kinds.contains(&kind.as_str())
                    {
                        let name = if kind == "const" && name == "fn" { next } else { name };
                        let name = if name == "mut" { next } else { name };
                        scope.items.insert(name.clone());
                    }
                    scope.name_paths(item);
                }
            }
        }
        self.modules.insert(module, scope);
    }

    /// The file that defines what `path` means in `module`, and the item's name; none for modules and for what is
    /// not of this crate.
    fn defined(&self, module: &Module, path: &[String], depth: usize) -> Option<(PathBuf, String)> {
        let (mut at, mut rest) = (module.clone(), path);
        let mut started = false;
        loop {
            let (first, after) = rest.split_first()?;
            match first.as_str() {
                "crate" => at.clear(),
                "super" => {
                    at.pop()?;
                }
                "self" => {}
                _ => break,
            }
            started = true;
            rest = after;
        }
        if depth > 16 {
            return None;
        }
        let (first, after) = rest.split_first()?;
        let scope = self.modules.get(&at)?;
        if scope.items.contains(first) {
            return Some((scope.file.clone(), first.clone()));
        }
        let mut child = at.clone();
        child.push(first.clone());
        if self.modules.contains_key(&child) {
            return if after.is_empty() {
                None
            } else {
                self.defined(&child, &with("self", after), depth + 1)
            };
        }
        if let Some(import) = scope.imports.get(first)
            && (started || import != path)
        {
            let whole: Vec<String> = import.iter().chain(after).cloned().collect();
            return self.defined(&at, &whole, depth + 1);
        }
        scope.globs.iter().find_map(|glob| {
            let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
            self.defined(&at, &whole, depth + 1)
        })
    }
}

/// `first` before the others.
fn with(first: &str, others: &[String]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others.iter().cloned()).collect()
}

impl Scope {
    /// Takes in a tree of imports: `a::b::{c, d as e, f::*}`.
    fn import(&mut self, tree: &[String], public: bool) {
        let mut found = Vec::new();
        leaves(tree, &[], &mut found);
        for (path, name) in found {
            if name == "*" {
                self.globs.push(path);
                continue;
            }
            if !public {
                self.paths.push(path.clone());
            }
            self.imports.insert(name, path);
        }
    }

    /// Takes in the paths among `words`, imports within functions included.
    fn name_paths(&mut self, words: &[String]) {
        let mut at = 0;
        while at < words.len() {
            if words[at] == "use" && words.get(at + 1).is_some_and(|next| next != "<") {
                let end =
                    at + words[at..].iter().position(|word| word == ";").unwrap_or(words.len() - at - 1);
                self.import(&words[at + 1..=end], false);
                at = end + 1;
                continue;
            }
            let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at].as_str());
            let of_something = before(1) == "::" || before(1) == "." && before(2) != ".";
            if of_something || !is_name(&words[at]) {
                at += 1;
                continue;
            }
            let mut path = vec![words[at].clone()];
            while words.get(at + 1).is_some_and(|word| word == "::")
                && words.get(at + 2).is_some_and(|word| is_name(word))
            {
                path.push(words[at + 2].clone());
                at += 2;
            }
            self.paths.push(path);
            at += 1;
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The leaves of a tree of imports: each path with the name that it gets.
fn leaves(tree: &[String], before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match tree[at].as_str() {
            "{" => {
                let end = at + group(&tree[at..]);
                let (mut depth, mut from) = (0, at + 1);
                for to in at + 1..end {
                    match tree[to].as_str() {
                        "{" => depth += 1,
                        "}" if to + 1 < end => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 && tree[to] == "," || to + 1 == end {
                        leaves(&tree[from..to], &path, found);
                        from = to + 1;
                    }
                }
                return;
            }
            "as" => {
                found.push((path, tree[at + 1].clone()));
                return;
            }
            "*" => {
                found.push((path, "*".to_owned()));
                return;
            }
            ";" => break,
            "::" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    if path.len() > before.len() || tree.first().is_some_and(|word| word == "self") {
        let name = path.last().unwrap().clone();
        found.push((path, name));
    }
}

/// The item without `pub` or `pub(…)`, and whether that stood there.
fn without_visibility(item: &[String]) -> (bool, &[String]) {
    match item {
        [public, open, ..] if public == "pub" && open == "(" => (true, &item[1 + group(&item[1..])..]),
        [public, rest @ ..] if public == "pub" => (true, rest),
        _ => (false, item),
    }
}

/// How many words a group in brackets takes, that begins with the first word.
fn group(words: &[String]) -> usize {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    words.len()
}

/// How many words the first item takes.
fn item(words: &[String]) -> usize {
    let (_, bare) = without_visibility(words);
    let is = |at: usize, word: &str| bare.get(at).is_some_and(|there| there == word);
    let to_semicolon = ["use", "static", "type"].iter().any(|kind| is(0, kind))
        || is(0, "const") && !["fn", "unsafe", "extern", "async"].iter().any(|kind| is(1, kind));
    let mut at = words.len() - bare.len();
    while at < words.len() {
        match words[at].as_str() {
            ";" => return at + 1,
            "{" if !to_semicolon => return at + group(&words[at..]),
            "(" | "[" | "{" => at += group(&words[at..]),
            _ => at += 1,
        }
    }
    words.len()
}

/// The words without what stands behind `#[cfg(test)]` or `#[test]`.
fn without_tests(words: Vec<String>) -> Vec<String> {
    let mut left = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !(words[at] == "#" && words.get(at + 1).is_some_and(|word| word == "[")) {
            left.push(words[at].clone());
            at += 1;
            continue;
        }
        let end = at + 1 + group(&words[at + 1..]);
        let attribute = &words[at + 2..end - 1];
        let has = |word: &str| attribute.iter().any(|there| there == word);
        let of_tests = attribute == ["test"] || attribute[0] == "cfg" && has("test") && !has("not");
        if !of_tests {
            left.extend_from_slice(&words[at..end]);
            at = end;
            continue;
        }
        at = end;
        while words.get(at).is_some_and(|word| word == "#") {
            at += 1 + group(&words[at + 1..]);
        }
        let (_, bare) = without_visibility(&words[at..]);
        let items = [
            "fn",
            "mod",
            "use",
            "impl",
            "struct",
            "enum",
            "trait",
            "type",
            "const",
            "static",
            "unsafe",
            "async",
            "extern",
            "macro_rules",
            "union",
        ];
        if items.contains(&bare[0].as_str()) {
            at += item(&words[at..]);
            continue;
        }
        // A field, an arm or a statement: to its comma or semicolon, or to the end of what it stands in.
        while at < words.len() {
            match words[at].as_str() {
                "," | ";" => {
                    at += 1;
                    break;
                }
                ")" | "]" | "}" => break,
                "(" | "[" | "{" => at += group(&words[at..]),
                _ => at += 1,
            }
        }
    }
    left
}

/// The words of a Rust text: names, strings (in their quotes), numbers, `::`, and single signs. Comments, characters
/// and lifetimes are left out.
fn words(text: &str) -> Vec<String> {
    let signs: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut at = 0;
    let next = |at: usize| signs.get(at).copied().unwrap_or('\0');
    while at < signs.len() {
        let sign = signs[at];
        let start = at;
        if sign.is_whitespace() {
            at += 1;
        } else if sign == '/' && next(at + 1) == '/' {
            while at < signs.len() && signs[at] != '\n' {
                at += 1;
            }
        } else if sign == '/' && next(at + 1) == '*' {
            let mut depth = 0;
            loop {
                match (next(at), next(at + 1)) {
                    ('/', '*') => (depth, at) = (depth + 1, at + 2),
                    ('*', '/') => (depth, at) = (depth - 1, at + 2),
                    _ => at += 1,
                }
                if depth == 0 || at >= signs.len() {
                    break;
                }
            }
        } else if let Some(end) = string(&signs, at) {
            words.push(signs[start..end].iter().collect());
            at = end;
        } else if sign == '\'' {
            at += match (next(at + 1), next(at + 2)) {
                ('\\', _) => 3 + signs[at + 3..].iter().position(|&sign| sign == '\'').unwrap() + 1,
                (_, '\'') => 3,
                _ => 1 + signs[at + 1..].iter().position(|&s| !s.is_alphanumeric() && s != '_').unwrap(),
            };
        } else if sign.is_alphanumeric() || sign == '_' {
            while next(at).is_alphanumeric() || next(at) == '_' {
                at += 1;
            }
            words.push(signs[start..at].iter().collect());
        } else if sign == ':' && next(at + 1) == ':' {
            words.push("::".to_owned());
            at += 2;
        } else {
            words.push(sign.to_string());
            at += 1;
        }
    }
    words
}

/// Where the string ends that begins at `at`; none if none begins there.
fn string(signs: &[char], at: usize) -> Option<usize> {
    let mut inside = at;
    while inside < at + 2 && signs.get(inside).is_some_and(|sign| "bcr".contains(*sign)) {
        inside += 1;
    }
    let raw = inside > at && signs[inside - 1] == 'r';
    let hashes = if raw { signs[inside..].iter().take_while(|&&sign| sign == '#').count() } else { 0 };
    inside += hashes;
    if signs.get(inside) != Some(&'"') {
        return None;
    }
    inside += 1;
    while inside < signs.len() {
        match signs[inside] {
            '\\' if !raw => inside += 1,
            '"' if signs[inside + 1..].iter().take(hashes).filter(|&&sign| sign == '#').count() == hashes => {
                return Some(inside + 1 + hashes);
            }
            _ => {}
        }
        inside += 1;
    }
    Some(inside)
}
