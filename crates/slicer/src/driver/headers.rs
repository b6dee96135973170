//! The folder in which programs with annotations find `foretell_slice.h`, without a flag of their own.
//!
//! It lies in the user's cache and not in a temporary folder, because dependency files (`-MD`) name it, and
//! make(1) looks for what they name when the compiler has long ended. Where there is no such place, it is a
//! temporary folder for one command.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

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
    fn a_header_of_another_release_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "old").unwrap();
        assert!(is_there(folder.path()) && is_there(folder.path()));
        assert_eq!(fs::read_to_string(folder.path().join(NAME)).unwrap(), TEXT);
        assert!(!is_there(Path::new("/proc/nowhere")));
    }
}
