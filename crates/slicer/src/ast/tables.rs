//! What the front end need not read of a preprocessed text: tables of numbers.
//!
//! A scanner that flex has made, a table of characters or of a checksum hold ten thousands of numbers, and of each the
//! front end has half a kilobyte to say. To a slice they are no more than that there is an initial value, whose text is
//! taken from the source. How many there are stays, where the type does not say it.

use super::bodies::blank_lines;

/// Shortest list of which it is worth it.
const LEAST_BYTES: usize = 256;

/// Types of which each number in a list is one element.
const OF_NUMBERS: &[&str] = &[
    "char", "short", "int", "long", "unsigned", "signed", "float", "double", "_Bool", "static", "const",
    "volatile", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int8_t", "int16_t", "int32_t", "int64_t",
    "size_t",
];

/// The text with one number and spaces in place of each such list: every byte that stays has its place.
pub(crate) fn without(text: String) -> String {
    let mut shorter = text.into_bytes();
    let mut at = 0;
    while let Some(found) = shorter[at..].iter().position(|byte| *byte == b'{') {
        let open = at + found;
        at = open + 1;
        let Some(declared) = declared(&shorter[..open]) else { continue };
        let Some(list) = List::of_numbers(&shorter[at..]) else { continue };
        let inside = at..at + list.bytes;
        at = inside.end;
        let kept = match declared {
            Declared::Sized => "0".to_owned(),
            Declared::OfNumbers if list.braced > 0 => continue,
            Declared::Unsized if list.braced != list.elements => continue,
            Declared::OfNumbers | Declared::Unsized => format!("[{}]={{0}}", list.elements - 1),
        };
        blank_lines(&mut shorter[inside.clone()]);
        // Where one line has room for it, as the lines stay.
        let line = shorter[inside.clone()].split(|byte| *byte == b'\n').scan(0, |from, line| {
            let begin = *from;
            *from += line.len() + 1;
            Some((begin, line.len()))
        });
        let Some((begin, _)) = line.into_iter().find(|(_, length)| *length >= kept.len()) else {
            shorter[inside.start] = b'0';
            continue;
        };
        shorter[inside.start + begin..][..kept.len()].copy_from_slice(kept.as_bytes());
    }
    // Only ASCII went, and what took its place is ASCII.
    String::from_utf8(shorter).unwrap_or_default()
}

/// What is declared before an initial value.
enum Declared {
    /// An array whose length is given.
    Sized,
    /// One whose length its initial value gives: of numbers, or of anything.
    OfNumbers,
    Unsized,
}

/// What `… name[80] =` at the end of a text declares; `None` if that is no array.
fn declared(before: &[u8]) -> Option<Declared> {
    let mut rest = before.trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end();
    let mut length: &[u8] = b"";
    while let Some(group) = rest.strip_suffix(b"]") {
        let open = group.iter().rposition(|byte| *byte == b'[')?;
        length = &group[open + 1..];
        if length.contains(&b']') {
            return None;
        }
        rest = group[..open].trim_ascii_end();
    }
    if !before.trim_ascii_end().strip_suffix(b"=")?.trim_ascii_end().ends_with(b"]") {
        return None;
    }
    if !length.trim_ascii().is_empty() {
        return Some(Declared::Sized);
    }
    let head = rest.iter().rposition(|byte| b";{}(),\n".contains(byte)).map_or(rest, |at| &rest[at + 1..]);
    let head = std::str::from_utf8(head).ok()?;
    let (types, _) = head.trim().rsplit_once(char::is_whitespace)?;
    let mut types = types.split_whitespace();
    Some(if types.all(|word| OF_NUMBERS.contains(&word)) { Declared::OfNumbers } else { Declared::Unsized })
}

/// A list of initial values, as far as it is read.
struct List {
    /// Up to the brace that closes it.
    bytes: usize,
    elements: usize,
    /// Elements that are lists themselves.
    braced: usize,
}

impl List {
    /// What stands up to the closing brace, if that is numbers.
    fn of_numbers(text: &[u8]) -> Option<Self> {
        let (mut depth, mut elements, mut braced) = (0usize, 0, 0);
        let (mut is_open, mut is_number) = (false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'}' if depth == 0 => {
                    elements += usize::from(is_open);
                    return (at >= LEAST_BYTES && elements > 0).then_some(Self {
                        bytes: at,
                        elements,
                        braced,
                    });
                }
                b'}' => depth -= 1,
                b'{' => {
                    braced += usize::from(depth == 0);
                    depth += 1;
                }
                b',' if depth == 0 => {
                    elements += usize::from(is_open);
                    is_open = false;
                    is_number = false;
                    continue;
                }
                // Letters of a number: 0x1f, 3ul, 1e-5.
                b'a'..=b'z' | b'A'..=b'Z' | b'.' if !is_number && *byte != b'.' => return None,
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b',' | b'-' | b'+' => {}
                b' ' | b'\t' | b'\n' => {}
                _ => return None,
            }
            is_number = byte.is_ascii_alphanumeric() || *byte == b'.';
            is_open |= !byte.is_ascii_whitespace();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::without;

    fn numbers(separator: &str) -> String {
        (0..200).map(|n| format!("{n}{separator}")).collect()
    }

    #[test]
    fn tables_go_and_all_else_keeps_its_place() {
        let flat = numbers(", ");
        let pairs: String = (0..60).map(|n| format!("{{ 0x{n:x}ul, -1.5e-{n} }},\n ")).collect();
        for (declared, list, kept) in [
            ("static const short yy_nxt[200] =\n ", flat.as_str(), "0"),
            ("static const unsigned short yy_nxt[] = ", &flat, "[199]={0}"),
            ("word crc[2][100] = ", &flat, "0"),
            ("static struct pair pairs[] =\n", &pairs, "[59]={0}"),
        ] {
            let text = format!("int before;\n{declared}{{{list}}};\nint f(void) {{ return yy_nxt[3]; }}\n");
            let shorter = without(text.clone());
            assert_eq!(shorter.len(), text.len());
            assert_eq!(shorter.lines().count(), text.lines().count());
            assert!(shorter.contains(kept), "{shorter}");
            assert!(shorter.split_whitespace().count() < 30, "{shorter}");
            for end in ["};\nint f(void) { return yy_nxt[3]; }\n", declared] {
                assert_eq!(shorter.find(end), text.find(end), "{shorter}");
            }
        }
    }

    #[test]
    fn what_says_more_stays() {
        let flat = numbers(", ");
        let names: String = (0..100).map(|n| format!("name{n}, ")).collect();
        let strings: String = (0..100).map(|n| format!("\"a{n}\", ")).collect();
        for text in [
            // How many there are the type would have to say.
            format!("struct pair pairs[] = {{{flat}}};"),
            format!("int t[] = {{{}}};", numbers(", {1}, ")),
            format!("int (*t[200])(void) = {{{names}}};"),
            format!("const char *t[] = {{{strings}}};"),
            format!("int t[200] = {{[3] = 1, {flat}}};"),
            format!("struct many s = {{{flat}}};"),
            format!("void f(void) {{{flat}}}"),
            "int t[3] = {1, 2, 3};".to_owned(),
            format!("int t[200] = {{{flat}"),
            "{".to_owned(),
            "={".to_owned(),
            "]={".to_owned(),
        ] {
            assert_eq!(without(text.clone()), text);
        }
    }
}
