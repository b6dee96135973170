//! One line of a hint file: bytes in, a hint out. No I/O, no panic, no allocation unless a path is quoted.
//!
//! ```text
//! line   = blank | '#' anything | path | path blanks offset blanks length
//! path   = bytes without blanks, the first not '"'   (taken as they are; no escapes)
//!        | '"' { byte | '\"' | '\\' | '\n' | '\t' | '\xHH' } '"'
//! offset, length = decimal digits (bytes)
//! blanks = spaces or tabs; a carriage return at the end is ignored
//! ```

use std::borrow::Cow;

use super::ByteRange;

/// The longest path, in bytes, with its end mark not counted: `PATH_MAX` of Linux (`linux/limits.h`).
pub const MAX_PATH_BYTES: usize = 4095;

/// What one line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineHint<'a> {
    /// The path as written, without its quotes; relative ones are not resolved yet.
    pub path: Cow<'a, [u8]>,
    /// What is read of it; `None` for all.
    pub range: Option<ByteRange>,
}

/// Why a line is not understood: what, and what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// A quoted path has no end.
    #[error("the quoted path has no closing quote; add '\"' after it")]
    Unclosed,
    /// An escape that does not exist.
    #[error("unknown escape in the quoted path; use only \\\" \\\\ \\n \\t and \\xHH")]
    Escape,
    /// A closing quote is followed by neither a blank nor the end.
    #[error("text right after the closing quote; put a space between path, offset and length")]
    AfterQuote,
    /// Two, four or more fields.
    #[error("neither 'path' nor 'path offset length'; put a path with spaces in double quotes")]
    Fields,
    /// Offset or length is not a decimal number of 64 bits.
    #[error("offset and length must be whole numbers of bytes; put a path with spaces in double quotes")]
    Number,
    /// Nothing is read.
    #[error("the length is 0; give at least 1 byte, or leave the line out")]
    Empty,
    /// The end is beyond 2^64.
    #[error("offset plus length exceeds 64 bits; correct one of them")]
    Overflow,
    /// No path can be so.
    #[error("not a path (empty, longer than {MAX_PATH_BYTES} bytes, or with a zero byte); correct it")]
    NotAPath,
}

/// Reads one line, without its newline. `None` for blank lines and comments.
pub fn parse(line: &[u8]) -> Result<Option<LineHint<'_>>, LineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii();
    let (path, rest) = match line.first() {
        None | Some(b'#') => return Ok(None),
        Some(b'"') => quoted(&line[1..])?,
        Some(_) => {
            let end = line.iter().position(|&b| is_blank(b)).unwrap_or(line.len());
            (Cow::Borrowed(&line[..end]), &line[end..])
        }
    };
    if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains(&0) {
        return Err(LineError::NotAPath);
    }
    let mut fields = rest.split(|&b| is_blank(b)).filter(|field| !field.is_empty());
    let range = match (fields.next(), fields.next(), fields.next()) {
        (None, ..) => None,
        (Some(offset), Some(length), None) => {
            let (offset, length) = (number(offset)?, number(length)?);
            if length == 0 {
                return Err(LineError::Empty);
            }
            offset.checked_add(length).ok_or(LineError::Overflow)?;
            Some(ByteRange { offset, length })
        }
        _ => return Err(LineError::Fields),
    };
    Ok(Some(LineHint { path, range }))
}

/// Writes a hint as [`parse`] reads it back, quoted where it must be. The line is always UTF-8: bytes of a
/// path that is not are escaped.
#[must_use]
pub fn write(path: &[u8], range: Option<ByteRange>) -> Vec<u8> {
    let text = std::str::from_utf8(path).is_ok();
    let plain = text
        && !path.is_empty()
        && !matches!(path[0], b'"' | b'#')
        && path.iter().all(|b| !b.is_ascii_whitespace() && *b != 0x0b && !b.is_ascii_control());
    let mut out = Vec::with_capacity(path.len() + 2);
    if plain {
        out.extend_from_slice(path);
    } else {
        out.push(b'"');
        for &byte in path {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b if b.is_ascii_control() || !(text || b.is_ascii()) => {
                    out.extend_from_slice(format!("\\x{b:02x}").as_bytes())
                }
                b => out.push(b),
            }
        }
        out.push(b'"');
    }
    if let Some(ByteRange { offset, length }) = range {
        out.extend_from_slice(format!(" {offset} {length}").as_bytes());
    }
    out
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The path after an opening quote, and what follows the closing one.
fn quoted(text: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), LineError> {
    let end = text.iter().position(|&b| b == b'"' || b == b'\\').ok_or(LineError::Unclosed)?;
    let mut path = Cow::Borrowed(&text[..end]);
    let mut rest = &text[end..];
    loop {
        match rest {
            [] | [b'\\'] => return Err(LineError::Unclosed),
            [b'"', after @ ..] => {
                return match after.first() {
                    Some(&b) if !is_blank(b) => Err(LineError::AfterQuote),
                    _ => Ok((path, after)),
                };
            }
            [b'\\', b'x', high, low, after @ ..] => {
                let digit = |b: u8| (b as char).to_digit(16).ok_or(LineError::Escape);
                path.to_mut().push((digit(*high)? * 16 + digit(*low)?) as u8);
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                let byte = match escaped {
                    b'"' | b'\\' => *escaped,
                    b'n' => b'\n',
                    b't' => b'\t',
                    _ => return Err(LineError::Escape),
                };
                path.to_mut().push(byte);
                rest = after;
            }
            [byte, after @ ..] => {
                path.to_mut().push(*byte);
                rest = after;
            }
        }
    }
}

/// A decimal number of 64 bits. Not `str::parse`, which also takes a sign.
fn number(field: &[u8]) -> Result<u64, LineError> {
    let mut value = 0u64;
    for &byte in field {
        if !byte.is_ascii_digit() {
            return Err(LineError::Number);
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(byte - b'0')))
            .ok_or(LineError::Number)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hint(path: &str, range: Option<(u64, u64)>) -> Result<Option<LineHint<'_>>, LineError> {
        let range = range.map(|(offset, length)| ByteRange { offset, length });
        Ok(Some(LineHint { path: Cow::Borrowed(path.as_bytes()), range }))
    }

    #[test]
    fn lines_by_hand() {
        assert_eq!(parse(b"src/main.c"), hint("src/main.c", None));
        assert_eq!(parse(b"  a\t0   8192  \r"), hint("a", Some((0, 8192))));
        assert_eq!(parse(b"\"a b\" 1 2"), hint("a b", Some((1, 2))));
        assert_eq!(parse(br#""\"\\\n\t\x41""#), hint("\"\\\n\tA", None));
        assert_eq!(parse(b"a\"b#c\\"), hint("a\"b#c\\", None));
        assert_eq!(parse(b""), Ok(None));
        assert_eq!(parse(b" \t\r"), Ok(None));
        assert_eq!(parse(b"  # a comment"), Ok(None));
    }

    #[test]
    fn bad_lines_by_hand() {
        for (line, error) in [
            (&b"\"abc"[..], LineError::Unclosed),
            (b"\"abc\\", LineError::Unclosed),
            (b"\"a\\q\"", LineError::Escape),
            (b"\"a\\xg0\"", LineError::Escape),
            (b"\"a\"b", LineError::AfterQuote),
            (b"\"\"", LineError::NotAPath),
            (b"a\0b", LineError::NotAPath),
            (b"a 1", LineError::Fields),
            (b"a 1 2 3", LineError::Fields),
            (b"a b c", LineError::Number),
            (b"a +1 2", LineError::Number),
            (b"a 99999999999999999999 1", LineError::Number),
            (b"a 0 0", LineError::Empty),
            (b"a 18446744073709551615 1", LineError::Overflow),
        ] {
            assert_eq!(parse(line), Err(error), "{}", line.escape_ascii());
        }
        assert_eq!(parse(&[b'a'; MAX_PATH_BYTES + 1]), Err(LineError::NotAPath));
    }

    proptest! {
        #[test]
        fn written_hints_read_back(
            path in proptest::collection::vec(1u8.., 1..40),
            range in proptest::option::of((0u64..1 << 62, 1u64..1 << 62)),
        ) {
            let range = range.map(|(offset, length)| ByteRange { offset, length });
            let line = write(&path, range);
            prop_assert!(!line.contains(&b'\n') && std::str::from_utf8(&line).is_ok());
            prop_assert_eq!(parse(&line), Ok(Some(LineHint { path: Cow::Owned(path), range })));
        }

        #[test]
        fn no_bytes_panic(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&line);
        }

        #[test]
        fn near_lines_do_not_panic(line in "[\"\\\\x0-9a-f #\t]{0,30}") {
            let _ = parse(line.as_bytes());
        }
    }
}
