//! The rules of the house (CONTRIBUTING.md) that a program can check.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file, not counting the test module at its end.
const MOST_LINES: usize = 600;

/// Longer ones of C and Python, and how long they may be until somebody splits them.
const LONGER: &[(&str, usize)] = &[("python/benches/buffers.py", 660)];

/// Where `unsafe` may be written: what talks to the kernel. (The benchmarks ask it whether a start is cold, and map
/// files.)
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/pagecache/",
    "crates/slowdisk/",
    "crates/benchmarks/src/cold.rs",
    "crates/benchmarks/src/ways.rs",
    // Memory shared between a client and the service; the client's C interface.
    "crates/protocol/src/ring/mapping.rs",
    "crates/client/",
    "crates/capi/",
    "crates/capi-buffers/",
    // The memory of a pool, which other processes read.
    "crates/buffers/src/memory/",
    // Memory that the kernel reads into and writes from until an operation has ended.
    "crates/buffers/src/ring.rs",
    // Numbers that Python says are a descriptor, and an address.
    "python/src/file.rs",
    "python/src/memory.rs",
    // Who is at the other end of a socket.
    "crates/protocol/src/credentials.rs",
    "crates/daemon/src/peer.rs",
    // Whether descriptors can be sent to a socket.
    "crates/door/src/rights.rs",
    // What of a file the kernel has cached.
    "crates/testkit/src/cached.rs",
    // A process with many mappings.
    "crates/testkit/src/mapped.rs",
];

/// What unfinished work looks like. Split, so that this file does not find itself.
const UNFINISHED: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("FIX", "ME"), concat!("#[ig", "nore")];

/// Folders of one person's machine, which nobody else has.
const PRIVATE_PATHS: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every text file of the project, as its path from the root and its content, in a fixed order.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let hidden = name.starts_with('.') && name != ".ci";
                if !hidden && name != "target" {
                    folders.push(path);
                }
            } else if name == ".git" {
                // Of a second work tree, which says where the first one is.
            } else if let Ok(text) = fs::read_to_string(&path) {
                let from_root = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push((from_root, text));
            }
        }
    }
    found.sort();
    found
}

fn rust_sources() -> Vec<(String, String)> {
    sources_in(&[".rs"])
}

/// The same of C and of Python.
fn other_sources() -> Vec<(String, String)> {
    sources_in(&[".c", ".h", ".py", ".pyi"])
}

fn sources_in(endings: &[&str]) -> Vec<(String, String)> {
    sources().into_iter().filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending))).collect()
}

/// Fails with one line for each finding, so that all are mended at once.
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn files_are_short() {
    let mut findings = Vec::new();
    for (path, text) in rust_sources().into_iter().chain(other_sources()) {
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        let most = LONGER.iter().find(|(longer, _)| *longer == path).map_or(MOST_LINES, |(_, most)| *most);
        let is_test = !path.ends_with(".rs") && path.contains("/tests/");
        if lines > most && !is_test {
            findings.push(format!("{path}: {lines} lines, split it by idea"));
        }
    }
    assert_none(&findings);
}

#[test]
fn nothing_is_unfinished() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if UNFINISHED.iter().any(|word| line.contains(word)) {
                findings.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn every_module_says_what_it_is() {
    let mut findings = Vec::new();
    for (path, text) in rust_sources() {
        if !text.starts_with("//! ") {
            findings.push(format!("{path}: starts without a `//!` header"));
        }
    }
    for (path, text) in other_sources() {
        let is_python = path.ends_with(".py") || path.ends_with(".pyi");
        let begin = if text.starts_with("#!") { text.split_once('\n').unwrap_or_default().1 } else { &text };
        let wanted = if is_python { ["\"\"\"", "r\"\"\""] } else { ["/*", "//"] };
        if !wanted.iter().any(|wanted| begin.starts_with(wanted)) {
            findings.push(format!("{path}: starts without a comment that says what it is"));
        }
    }
    assert_none(&findings);
}

/// Is there a path in the line that begins with `folder` and goes on?
fn names_something_in(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '.') && after.is_some_and(char::is_alphanumeric)
    })
}

#[test]
fn no_path_of_somebodys_machine() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if PRIVATE_PATHS.iter().any(|private| names_something_in(line, private)) {
                findings.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn unsafe_stays_where_it_belongs() {
    let keyword = concat!("un", "safe");
    let mut findings = Vec::new();
    for (path, text) in rust_sources() {
        if UNSAFE_ALLOWED.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if ["{", "fn", "impl", "extern"].iter().any(|next| code.contains(&format!("{keyword} {next}"))) {
                findings.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn licence_and_lints_everywhere() {
    let licence = fs::read_to_string(root().join("LICENSE")).unwrap();
    assert!(licence.contains("Apache License") && licence.contains("Version 2.0"));
    let mut findings = Vec::new();
    for (path, text) in sources() {
        if path.starts_with("crates/") && path.ends_with("Cargo.toml") {
            for wanted in ["license.workspace = true", "[lints]\nworkspace = true"] {
                if !text.contains(wanted) {
                    findings.push(format!("{path}: lacks `{}`", wanted.replace('\n', " ")));
                }
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn dependencies_are_declared_once_at_the_root() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        if !path.starts_with("crates/") || !path.ends_with("Cargo.toml") {
            continue;
        }
        let mut among_dependencies = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                among_dependencies = line.ends_with("dependencies]");
            } else if among_dependencies && line.contains('=') && !line.contains("workspace = true") {
                findings.push(format!("{path}: `{line}` belongs into the root Cargo.toml"));
            }
        }
    }
    assert_none(&findings);
}
