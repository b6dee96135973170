//! The folder in which programs with annotations find `foretell_slice.h`, without a flag of their own.
//!
//! It lies in the user's cache and not in a temporary folder, because dependency files (`-MD`) name it, and
//! make(1) looks for what they name when the compiler has long ended. Where there is no such place, it is a
//! temporary folder for one command.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::arguments::Invocation;

/// Most files that are looked at for the header's name.
const MOST_FILES: usize = 4096;

const NAME: &str = "foretell_slice.h";
const TEXT: &str = include_str!("../../runtime/foretell_slice.h");

/// A folder with the header.
#[derive(Debug)]
pub(super) struct Headers {
    path: PathBuf,
    /// Is there to be removed at the end.
    _temporary: Option<tempfile::TempDir>,
}

impl Headers {
    /// `None` where nothing can be written; programs without annotations need nothing.
    pub(super) fn new() -> Option<Self> {
        if let Some(path) = cache(|name| env::var_os(name), "include")
            && is_there(&path)
        {
            return Some(Self { path, _temporary: None });
        }
        let temporary = tempfile::tempdir().ok()?;
        is_there(temporary.path()).then_some(())?;
        Some(Self { path: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    /// Flags for the compiler: looked into after all other folders.
    pub(super) fn flags(&self) -> [OsString; 2] {
        ["-idirafter".into(), self.path.clone().into()]
    }
}

/// Is the header included by a source of this command, or by a header of its own? A command of any other is given to the compiler as
/// it is, word for word.
pub(super) fn are_wanted(invocation: &Invocation) -> bool {
    let (mut folders, first) = invocation.header_places();
    for variable in ["CPATH", "C_INCLUDE_PATH"] {
        folders.extend(env::var_os(variable).iter().flat_map(env::split_paths));
    }
    folders.push(PathBuf::new());
    let mut waiting: Vec<PathBuf> = invocation.sources().map(Path::to_owned).collect();
    for header in first {
        waiting.extend(folders.iter().map(|folder| folder.join(&header)));
    }
    let mut seen = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        if seen.len() == MOST_FILES || seen.contains(&path) || !path.is_file() {
            continue;
        }
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let home = path.parent().unwrap_or(Path::new("")).to_owned();
        for name in text.lines().filter_map(included) {
            if name.ends_with(NAME) {
                return true;
            }
            waiting.extend(std::iter::once(&home).chain(&folders).map(|folder| folder.join(name)));
        }
        seen.insert(path);
    }
    false
}

/// What a line includes.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let rest = rest.strip_prefix("_next").unwrap_or(rest).trim_start();
    let (rest, end) = match rest.strip_prefix('"') {
        Some(rest) => (rest, '"'),
        None => (rest.strip_prefix('<')?, '>'),
    };
    rest.split_once(end).map(|(name, _)| name)
}

/// Writes the header unless it is there as it should be.
fn is_there(folder: &Path) -> bool {
    let path = folder.join(NAME);
    let write = || {
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(TEXT.as_bytes())?;
        file.persist(&path).map_err(|e| e.error)
    };
    fs::read(&path).is_ok_and(|there| there == TEXT.as_bytes()) || write().is_ok()
}

/// A folder of ours in the user's cache (XDG Base Directory Specification 0.8), which is an absolute path or not there.
pub(super) fn cache(variable: impl Fn(&str) -> Option<OsString>, folder: &str) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let given = variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || variable("HOME").map(PathBuf::from).and_then(absolute).map(|home| home.join(".cache"));
    Some(given.or_else(home)?.join("foretell").join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_wants_it() {
        let with = |xdg: Option<&str>, home: Option<&str>| {
            cache(|name| if name == "HOME" { home } else { xdg }.map(OsString::from), "include")
        };
        assert_eq!(with(Some("/c"), Some("/h")), Some(PathBuf::from("/c/foretell/include")));
        assert_eq!(with(None, Some("/h")), Some(PathBuf::from("/h/.cache/foretell/include")));
        assert_eq!(with(Some("relative"), Some("")), None);
    }

    #[test]
    fn the_folder_is_for_those_that_include_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inc")).unwrap();
        fs::write(path("inc/own.h"), "#  include <deep.h>\n").unwrap();
        fs::write(path("deep.h"), "# include \"foretell_slice.h\"\n").unwrap();
        fs::write(path("a.c"), "#include <stdio.h>\n#include \"own.h\"\n#include \"a.c\"\n").unwrap();
        let wanted = |words: &[&str]| {
            let words =
                words.iter().map(|word| OsString::from(word.replace('@', folder.path().to_str().unwrap())));
            are_wanted(&Invocation::parse(&words.collect::<Vec<_>>()))
        };
        assert!(wanted(&["-I@/inc", "-c", "@/a.c", "-iquote", "@"]));
        assert!(!wanted(&["-I@/inc", "-c", "@/a.c"]) && !wanted(&["-c", "@/a.c"]));
        assert!(wanted(&["-c", "-I", "@/inc", "-isystem", "@", "-include", "own.h", "@/inc/none.c"]));
    }

    #[test]
    fn a_header_of_another_release_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "old").unwrap();
        assert!(is_there(folder.path()) && is_there(folder.path()));
        assert_eq!(fs::read_to_string(folder.path().join(NAME)).unwrap(), TEXT);
        assert!(!is_there(Path::new("/proc/nowhere")));
    }
}
