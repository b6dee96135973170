//! Compile databases: `compile_commands.json`, as CMake, Meson and Bear write it (clang's "JSON Compilation
//! Database Format Specification"). Each entry is a folder, a source file, and the command, in words or in
//! one line as a shell would read it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::driver::front_end_flags;
use crate::{Error, Input};

#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    command: String,
}

/// The C files of a compile database, with the flags that the front end needs.
///
/// # Errors
/// When the file cannot be read or is no compile database.
pub fn read_database(path: &Path) -> Result<Vec<Input>, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|reason| Error::File { path: path.to_owned(), reason })?;
    parse(&text).map_err(|message| Error::Text { path: path.to_owned(), message })
}

fn parse(text: &str) -> Result<Vec<Input>, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|e| format!("no compile database: {e}"))?;
    let is_c = |entry: &Entry| entry.file.extension().is_some_and(|e| e == "c");
    Ok(entries.into_iter().filter(is_c).map(input).collect())
}

fn input(entry: Entry) -> Input {
    let words = if entry.arguments.is_empty() { words(&entry.command) } else { entry.arguments };
    let words: Vec<OsString> = words.into_iter().skip(1).map(OsString::from).collect();
    Input {
        path: entry.file,
        flags: front_end_flags(&words),
        folder: Some(entry.directory),
        preprocessed: None,
        otherwise: None,
    }
}

/// The words of a shell command: blanks separate, quotes and backslashes protect.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, None) if c.is_whitespace() => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::{parse, words};

    #[test]
    fn both_forms_of_a_command_are_read() {
        let inputs = parse(
            r#"[{"directory": "/b", "file": "a.c", "command": "cc -O2 -DX=\"a b\" -I inc -c a.c"},
                {"directory": "/b", "file": "b.cpp", "arguments": ["c++", "b.cpp"]},
                {"directory": "/b", "file": "c.c", "arguments": ["cc", "-std=c99", "-c", "c.c"]}]"#,
        )
        .unwrap();
        assert_eq!(inputs.len(), 2, "C files only");
        assert_eq!(inputs[0].flags, ["-DX=a b", "-I", "inc"]);
        assert_eq!(inputs[1].flags, ["-std=c99"]);
        assert!(parse("{}").unwrap_err().contains("no compile database"));
    }

    #[test]
    fn words_as_in_a_shell() {
        assert_eq!(words(r#"a 'b c' "d\"e" f\ g """#), ["a", "b c", "d\"e", "f g", ""]);
    }
}
