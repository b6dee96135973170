//! Places in the text of the sources.
//!
//! A token has two places when it comes from a macro: where it is spelled (in the body of the macro, or in
//! the argument of its use) and where the outermost macro is used. Edits of the text are made at the
//! second; what was there, is read at the first.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Where a token begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// The file of the text as used (of the outermost macro's use).
    pub(crate) file: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The file where the token is spelled; the same as above outside macros.
    pub(crate) spelled_file: u32,
    pub(crate) spelled_offset: u32,
    pub(crate) spelled_length: u32,
    /// From a macro?
    pub(crate) in_macro: bool,
    /// Is there such a place at all? Implicit nodes have none.
    pub(crate) known: bool,
}

/// The texts of all files that the program includes.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, u32>,
    texts: Vec<Option<String>>,
    /// Of preprocessed files, where lines come from.
    markers: HashMap<u32, Vec<Marker>>,
}

/// A line marker (GCC manual, "Preprocessor Output"): the text from `offset` on comes from this line of this file.
#[derive(Debug)]
struct Marker {
    offset: usize,
    line: usize,
    path: PathBuf,
}

impl Sources {
    /// The number of a file.
    pub(crate) fn number(&mut self, path: &Path) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = self.paths.len() as u32;
        self.paths.push(path.to_owned());
        self.texts.push(None);
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// Reads the files that are named so far, as far as they can be read: what clang calls `<built-in>`
    /// cannot.
    pub(crate) fn load(&mut self) {
        for (path, text) in self.paths.iter().zip(&mut self.texts) {
            if text.is_none() {
                *text = fs::read(path)
                    .ok()
                    .map(|bytes| String::from_utf8(bytes).unwrap_or_else(|e| plain(e.as_bytes())));
            }
        }
    }

    /// Reads a file that must be there. What is not UTF-8 in its comments becomes `?`; elsewhere it means
    /// something to the program, and cannot be carried over into a text.
    pub(crate) fn load_strictly(&mut self, path: &Path) -> Result<u32, Error> {
        let number = self.number(path);
        let bytes = fs::read(path).map_err(|reason| Error::File { path: path.to_owned(), reason })?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) if foreign_in_comments_only(e.as_bytes()) => plain(e.as_bytes()),
            Err(_) => {
                let message =
                    "has strings that are not UTF-8: convert it (iconv -f latin1 -t utf8)".to_owned();
                return Err(Error::Text { path: path.to_owned(), message });
            }
        };
        self.texts[number as usize] = Some(text);
        Ok(number)
    }

    pub(crate) fn path(&self, file: u32) -> &Path {
        &self.paths[file as usize]
    }

    pub(crate) fn text(&self, file: u32) -> &str {
        self.texts.get(file as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// A stretch of a file; empty if it is not there.
    pub(crate) fn stretch(&self, file: u32, from: u32, to: u32) -> &str {
        self.text(file).get(from as usize..to as usize).unwrap_or_default()
    }

    /// Finds the line markers of a preprocessed file.
    pub(crate) fn read_markers(&mut self, file: u32) {
        let mut markers = Vec::new();
        let mut offset = 0;
        for text in self.text(file).split_inclusive('\n') {
            offset += text.len();
            let Some(rest) = text.strip_prefix("# ") else { continue };
            let Some((line, rest)) = rest.split_once(' ') else { continue };
            let path = rest.strip_prefix('"').and_then(|rest| rest.rsplit_once('"')).map(|(path, _)| path);
            if let (Ok(line), Some(path)) = (line.parse(), path) {
                markers.push(Marker { offset, line, path: PathBuf::from(path) });
            }
        }
        self.markers.insert(file, markers);
    }

    /// The file and the line that somebody knows who has written the text.
    pub(crate) fn origin(&self, file: u32, offset: u32) -> (&Path, usize) {
        let markers = self.markers.get(&file).map_or(&[][..], Vec::as_slice);
        let next = markers.partition_point(|marker| marker.offset <= offset as usize);
        match next.checked_sub(1).and_then(|at| markers.get(at)) {
            Some(marker) => {
                let between =
                    self.text(file).as_bytes().get(marker.offset..offset as usize).unwrap_or_default();
                (&marker.path, marker.line + between.iter().filter(|byte| **byte == b'\n').count())
            }
            None => (self.path(file), self.line(file, offset)),
        }
    }

    /// The name of a file as it was given to the preprocessor.
    pub(crate) fn given_path(&self, file: u32) -> &Path {
        self.markers
            .get(&file)
            .and_then(|markers| markers.first())
            .map_or(self.path(file), |marker| &marker.path)
    }

    /// The line of an offset, counted from 1.
    pub(crate) fn line(&self, file: u32, offset: u32) -> usize {
        let text = self.text(file).as_bytes();
        let end = text.len().min(offset as usize);
        text[..end].iter().filter(|b| **b == b'\n').count() + 1
    }

    /// The text of a node that is not touched, if there is text that is exactly this node: both ends are
    /// outside macros, or the node is all that one use of a macro stands for.
    pub(crate) fn exact(&self, begin: Place, end: Place) -> Option<(u32, u32, u32)> {
        if !begin.known || !end.known || begin.file != end.file {
            return None;
        }
        if !begin.in_macro && !end.in_macro {
            return Some((begin.file, begin.offset, end.offset + end.length));
        }
        if let Some(found) = self.within_argument(begin, end) {
            return Some(found);
        }
        if begin.in_macro && end.in_macro && begin.offset == end.offset && self.is_whole_macro(begin, end) {
            return Some((begin.file, begin.offset, self.end_of_use(begin)));
        }
        None
    }

    /// A node that is spelled in the argument of a macro's use has its text there.
    fn within_argument(&self, begin: Place, end: Place) -> Option<(u32, u32, u32)> {
        let in_argument = |place: Place| {
            !place.in_macro
                || place.spelled_file == place.file
                    && place.spelled_offset > place.offset
                    && place.spelled_offset < self.end_of_use(place)
        };
        let same_use = begin.in_macro == end.in_macro && begin.offset == end.offset;
        let (from, to) = (begin.spelled_offset, end.spelled_offset + end.spelled_length);
        // Another macro within the argument would be spelled elsewhere, in the body of that macro.
        (same_use && in_argument(begin) && in_argument(end) && from < to).then_some((begin.file, from, to))
    }

    /// Is the node from `begin` to `end` the whole body of the macro in whose definition it is spelled?
    fn is_whole_macro(&self, begin: Place, end: Place) -> bool {
        if begin.spelled_file != end.spelled_file {
            return false;
        }
        let text = self.text(begin.spelled_file);
        let Some(before) = text.get(..begin.spelled_offset as usize) else { return false };
        let Some(after) = text.get((end.spelled_offset + end.spelled_length) as usize..) else {
            return false;
        };
        let line_start = logical_line_start(before);
        let Some(head) = before[line_start..].trim_start().strip_prefix('#') else { return false };
        let Some(head) = head.trim_start().strip_prefix("define") else { return false };
        let head = head.trim_start();
        let name_end = head.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(head.len());
        let (name, rest) = head.split_at(name_end);
        let rest = match rest.strip_prefix('(') {
            Some(parameters) => match parameters.find(')') {
                Some(close) => &parameters[close + 1..],
                None => return false,
            },
            None => rest,
        };
        let used = self.stretch(begin.file, begin.offset, begin.offset + begin.length);
        let tail = after.split('\n').next().unwrap_or_default();
        let tail = tail.split("/*").next().unwrap_or_default();
        let tail = tail.split("//").next().unwrap_or_default();
        used == name && rest.trim_matches([' ', '\t', '\\', '\n']).is_empty() && tail.trim().is_empty()
    }

    /// Where the use of a macro ends: after its name, or after its arguments.
    pub(crate) fn end_of_use(&self, place: Place) -> u32 {
        let after_name = place.offset + place.length;
        let text = self.text(place.file);
        let Some(rest) = text.get(after_name as usize..) else { return after_name };
        let blank = rest.len() - rest.trim_start().len();
        if !rest[blank..].starts_with('(') || !self.takes_arguments(place) {
            return after_name;
        }
        match matching_parenthesis(&rest[blank..]) {
            Some(close) => after_name + (blank + close + 1) as u32,
            None => after_name,
        }
    }

    /// Is the macro that is used here defined with parameters? Only what is spelled in its definition, or
    /// in its arguments, tells; when in doubt it is said to be, as `f (x)` then reads as one use.
    fn takes_arguments(&self, place: Place) -> bool {
        let name = self.stretch(place.file, place.offset, place.offset + place.length);
        let text = self.text(place.spelled_file);
        let mut found_without = false;
        for line in text.split('\n') {
            let Some(head) = line.trim_start().strip_prefix('#') else { continue };
            let Some(head) = head.trim_start().strip_prefix("define") else { continue };
            let Some(rest) = head.trim_start().strip_prefix(name) else { continue };
            if rest.starts_with('(') {
                return true;
            }
            found_without |= !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        }
        !found_without
    }
}

/// Text of the same length, with `?` for what is not ASCII: offsets are in bytes.
fn plain(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect()
}

/// Is everything outside comments ASCII?
fn foreign_in_comments_only(bytes: &[u8]) -> bool {
    let mut at = 0;
    let mut quote = None;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let skipped = match quote {
            None if rest.starts_with(b"/*") => {
                rest.windows(2).skip(2).position(|w| w == b"*/").map(|n| n + 4)
            }
            None if rest.starts_with(b"//") => rest.iter().position(|b| *b == b'\n'),
            _ if !byte.is_ascii() => return false,
            Some(_) if byte == b'\\' => Some(2),
            Some(open) => {
                if byte == open {
                    quote = None;
                }
                Some(1)
            }
            None => {
                quote = matches!(byte, b'"' | b'\'').then_some(byte);
                Some(1)
            }
        };
        // A comment without an end takes all the rest.
        at += skipped.unwrap_or(rest.len());
    }
    true
}

/// Where the line begins that `before` ends in, lines ending in a backslash taken together.
fn logical_line_start(before: &str) -> usize {
    let mut from = before.len();
    loop {
        let start = before[..from].rfind('\n').map_or(0, |n| n + 1);
        if start == 0 || !before[..start - 1].ends_with('\\') {
            return start;
        }
        from = start - 1;
    }
}

/// The offset of the parenthesis that closes the one at the start; strings and characters are skipped.
fn matching_parenthesis(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if byte == b'\\' {
                escaped = true;
            } else if byte == open {
                quote = None;
            }
            continue;
        }
        match byte {
            b'"' | b'\'' => quote = Some(byte),
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{foreign_in_comments_only, matching_parenthesis, plain};

    #[test]
    fn foreign_bytes_are_harmless_in_comments() {
        assert!(foreign_in_comments_only(b"/* \xe9 */ int a; // \xe8\nchar c = '\\''; /* \xff"));
        assert!(!foreign_in_comments_only(b"char *s = \"/* \xe9 */\";"));
        assert_eq!(plain(b"a\xe9b").len(), 3);
    }

    #[test]
    fn parentheses_in_strings_do_not_count() {
        assert_eq!(matching_parenthesis(r#"(a, ")", '(')x"#), Some(12));
        assert_eq!(matching_parenthesis("((a)"), None);
    }
}
