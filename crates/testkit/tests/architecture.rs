//! Who may depend on whom: crates by the table of ARCHITECTURE.md and `cargo metadata`, files of a crate by their text.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

mod circles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each package may use of ours, as the table "The crates" of ARCHITECTURE.md says: a row names the crate's
/// directory, its package, what it is, and the directories of those that it knows.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = include_str!("../../../ARCHITECTURE.md");
    let table = text.split("## The crates").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let (mut packages, mut knows) = (BTreeMap::new(), BTreeMap::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [directory, package, _, known] = cells[..] else { panic!("a row of four cells: {row}") };
        let (directory, package) = (directory.trim_matches('`'), package.trim_matches('`').to_owned());
        let known: BTreeSet<String> = match known {
            "nothing" => BTreeSet::new(),
            "all of the above" => packages.values().cloned().collect(),
            some => some
                .split(", ")
                .map(|name| packages.get(name).unwrap_or_else(|| panic!("no '{name}' above {directory}")))
                .cloned()
                .collect(),
        };
        knows.insert(package.clone(), known);
        packages.insert(directory, package);
    }
    knows
}

/// One package of the workspace: the packages of ours that it is built with, and those that only its
/// tests are built with.
struct Uses {
    built_with: Vec<String>,
    tested_with: Vec<String>,
}

fn workspace() -> BTreeMap<String, Uses> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names: Vec<String> = packages.iter().map(|p| text(&p["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let ours = |only_tests: bool| {
                let dependencies = package["dependencies"].as_array().unwrap().iter();
                dependencies
                    .filter(|d| (d["kind"].as_str() == Some("dev")) == only_tests)
                    .map(|d| text(&d["name"]))
                    .filter(|name| names.contains(name))
                    .collect()
            };
            (text(&package["name"]), Uses { built_with: ours(false), tested_with: ours(true) })
        })
        .collect()
}

#[test]
fn dependencies_follow_the_table() {
    let table = table();
    let packages = workspace();
    for (package, uses) in &packages {
        let allowed = table.get(package);
        let allowed =
            allowed.unwrap_or_else(|| panic!("{package} has no row in the table of ARCHITECTURE.md"));
        for used in &uses.built_with {
            assert!(allowed.contains(used), "{package} must not depend on {used}");
        }
    }
    for package in table.keys() {
        assert!(packages.contains_key(package), "{package} has a row in ARCHITECTURE.md and is not there");
    }
}

#[test]
fn the_policy_needs_nothing_of_ours() {
    assert_eq!(workspace()["foretell-policy"].built_with, Vec::<String>::new());
}

#[test]
fn no_plane_knows_another() {
    let planes = ["foretell-sim", "foretell-pagecache"];
    let packages = workspace();
    for plane in planes {
        let uses = &packages[plane];
        for used in uses.built_with.iter().chain(&uses.tested_with) {
            assert!(!planes.contains(&used.as_str()), "the plane {plane} must not know {used}");
        }
    }
}

#[test]
fn the_testkit_is_for_tests() {
    for (package, uses) in workspace() {
        assert!(
            !uses.built_with.contains(&"foretell-testkit".to_owned()),
            "{package} is built with the testkit; it belongs into [dev-dependencies]"
        );
    }
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Files of one crate may name each other's items in pairs, and in no larger ring.
const FILES_IN_A_CIRCLE: usize = 2;

#[test]
fn no_circle_of_files_is_larger_than_two() {
    let crates = std::fs::read_dir(workspace_root().join("crates")).unwrap();
    let crates = crates.map(|entry| format!("crates/{}", entry.unwrap().file_name().to_str().unwrap()));
    let (mut wrong, mut edges_seen) = (Vec::new(), 0);
    for name in crates.chain(["python".to_owned()]) {
        let source = workspace_root().join(&name).join("src");
        for root in ["lib.rs", "main.rs"].map(|root| source.join(root)).iter().filter(|root| root.exists()) {
            let edges = circles::edges(root, &|file| std::fs::read_to_string(file).ok());
            edges_seen += edges.values().map(BTreeMap::len).sum::<usize>();
            for circle in circles::circles(&edges).iter().filter(|circle| circle.len() > FILES_IN_A_CIRCLE) {
                wrong.push(format!("{name}: {}", circles::told(circle, &edges, &source)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(edges_seen > 2000, "only {edges_seen} edges are read");
}

/// The circles of a crate that consists of these files, each as one line.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let text_of = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let edges = circles::edges(Path::new("src/lib.rs"), &text_of);
    let circles: Vec<BTreeSet<PathBuf>> = circles::circles(&edges);
    circles.iter().map(|circle| circles::told(circle, &edges, Path::new("src"))).collect()
}

#[test]
fn a_circle_is_told_with_what_ties_it() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::b::{self, B as Other}; pub struct A; fn f(b: Other) { b::g::<A>(b) }"),
        ("src/b.rs", "pub struct B; pub fn g<T>(_: T) { let c = super::c::C::new(); }"),
        (
            "src/c.rs",
            "use super::*; pub struct C; /* crate::b::B */ const S: &str = \"crate::b::B\"; fn h(a: a::A) {}",
        ),
    ];
    let told = ["a.rs names B, g of b.rs", "b.rs names C of c.rs", "c.rs names A of a.rs"].join("; ");
    assert_eq!(circles_of(&files), [format!("a circle of 3 files: {told}")]);
}

#[test]
fn an_item_is_where_it_is_defined_and_tests_do_not_count() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub use a::A; pub use b::deep::D;"),
        (
            "src/a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] fn t(_: crate::b::B) {}",
        ),
        ("src/b/mod.rs", "pub(crate) mod deep; pub use deep::D; pub struct B(crate::A);"),
        ("src/b/deep.rs", "pub struct D(pub char); impl D { fn of<'a>(c: &'a char) -> D { D('{') } }"),
    ];
    assert_eq!(circles_of(&files), [""; 0]);
    // What the parent passes on it does not define: this names `a.rs`.
    let files = files.map(|(name, text)| match name {
        "src/a.rs" => (name, "pub struct A(crate::D);"),
        "src/b/deep.rs" => {
            (name, "macro_rules! all { () => { pub enum D { One } } } all!(); fn f(_: super::super::A) {}")
        }
        _ => (name, text),
    });
    assert_eq!(
        circles_of(&files),
        ["a circle of 2 files: a.rs names D of b/deep.rs; b/deep.rs names A of a.rs"]
    );
}

/// The paths in a row of a table: `crates/a/src/{b,c}.rs` is two of them.
fn paths(row: &str) -> Vec<String> {
    let is_path =
        |word: &&str| word.contains('/') || [".rs", ".toml", ".c"].iter().any(|end| word.ends_with(end));
    let words = row.split('`').skip(1).step_by(2).filter(is_path).filter(|word| !word.contains([' ', '*']));
    words
        .flat_map(|word| match (word.split_once('{'), word.split_once('}')) {
            (Some((before, _)), Some((inside, after))) => {
                let names = inside.split_once('{').unwrap().1.split(',');
                names.map(|name| format!("{before}{name}{after}")).collect()
            }
            _ => vec![word.to_owned()],
        })
        .collect()
}

#[test]
fn the_map_names_what_is_there() {
    let root = workspace_root();
    let text = include_str!("../../../ARCHITECTURE.md");
    let table = text.split("## Where to change what").nth(1).unwrap().split("\n## ").next().unwrap();
    let (mut found, mut missing) = (0, Vec::new());
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        // A short name lies beside what was named before in the same row.
        let mut before = vec![root.to_owned()];
        for path in paths(row) {
            let beside = before.iter().rev().flat_map(|path| path.ancestors());
            let there = beside
                .take_while(|path| path.starts_with(root))
                .map(|at| at.join(&path))
                .find(|path| path.exists());
            match there {
                Some(there) => before.push(there),
                None if path.starts_with("./") || path.starts_with('/') => {}
                None => missing.push(format!("{path} in: {row}")),
            }
            found += 1;
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(found > 80, "only {found} paths are read");
}
