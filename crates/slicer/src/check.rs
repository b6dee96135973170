//! The last look at a translation: does the front end accept it? What it does not accept is taken back as a
//! whole, so a defect of the translator costs the prefetching and never the program.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, Input, write_runtime};

/// The first unit that does not compile, and what is said about it.
pub(crate) fn first_complaint(
    inputs: &[Input],
    files: &[String],
    clang: &str,
) -> Result<Option<(usize, String)>, Error> {
    let failed = |reason| Error::File { path: std::env::temp_dir(), reason };
    let folder = tempfile::tempdir().map_err(failed)?;
    write_runtime(folder.path())?;
    for (number, (input, text)) in inputs.iter().zip(files).enumerate() {
        let path = folder.path().join(format!("unit{number}.c"));
        std::fs::write(&path, text).map_err(|reason| Error::File { path: path.clone(), reason })?;
        if let Some(complaint) = complaint(input, &path, folder.path(), clang)? {
            return Ok(Some((number, complaint)));
        }
    }
    Ok(None)
}

fn complaint(input: &Input, path: &Path, headers: &Path, clang: &str) -> Result<Option<String>, Error> {
    let mut command = Command::new(clang);
    command.args(["-fsyntax-only", "-w", "-fno-color-diagnostics"]).args(&input.flags);
    if let Some(home) = input.path.parent() {
        let home = if home.as_os_str().is_empty() { Path::new(".") } else { home };
        command.arg("-iquote").arg(home);
    }
    command.arg("-I").arg(headers).arg(path).stdin(Stdio::null());
    if let Some(folder) = &input.folder {
        command.current_dir(folder);
    }
    let output =
        command.output().map_err(|reason| Error::NoFrontEnd { program: clang.to_owned(), reason })?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|l| l.contains("error:")).unwrap_or("clang fails without a word");
    Ok(Some(first.split("error:").last().unwrap_or(first).trim().to_owned()))
}
