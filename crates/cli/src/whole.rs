//! Files that are seen whole or not at all: written under another name in the same directory, then renamed.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, ensure};

/// Checks, before anything is computed, that a file can have this name; `what` is the flag that names it.
///
/// # Errors
/// There is no such directory, or it is a directory itself.
pub fn check(what: &str, path: &Path) -> Result<()> {
    let directory = directory_of(path);
    ensure!(
        directory.is_dir(),
        "{what} {}: there is no directory {}; make it first",
        path.display(),
        directory.display()
    );
    ensure!(!path.is_dir(), "{what} {}: is a directory; name a file", path.display());
    Ok(())
}

/// Writes a file with the permissions that any new file has. What is there under its name is replaced.
///
/// # Errors
/// The system's. Nothing is left behind then.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Opened here: what tempfile itself opens is private, and its errors name the other name.
    let open = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = tempfile::Builder::new().prefix(".foretell-").make_in(directory_of(path), open)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        write(&path, b"first").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        // A directory that is not empty cannot be replaced.
        let full = directory.path().join("full");
        fs::create_dir_all(full.join("x")).unwrap();
        write(&full, b"").unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn names_that_cannot_be_written_are_told_before() {
        let directory = tempfile::tempdir().unwrap();
        check("-o", &directory.path().join("new")).unwrap();
        let says = |path: &Path| check("-o", path).unwrap_err().to_string();
        assert!(says(directory.path()).ends_with("is a directory; name a file"));
        let absent = directory.path().join("absent");
        assert_eq!(
            says(&absent.join("x")),
            format!("-o {0}/x: there is no directory {0}; make it first", absent.display())
        );
    }
}
