//! Access patterns in a terminal: a cell of a grid is a dot of a braille character, two of them beside and four
//! above each other in one. A panel a file, the axis of time below the last one.

use std::fmt::Write;

use foretell_trace::{FilePattern, Pattern, PatternShape};

use super::panels::{bytes, ms};

/// Lines of a panel.
const LINES: usize = 8;
/// Dots of a character.
const DOTS: (usize, usize) = (2, 4);
/// Characters before the panel: the place in the file, a blank and the edge.
const MARGIN: usize = 11;
/// The dots' bits in a braille character, by column and row (Unicode, U+2800 to U+28FF).
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// The grids that fill a terminal of this width.
#[must_use]
pub fn shape(files: usize, width_chars: usize) -> PatternShape {
    let columns = width_chars.saturating_sub(MARGIN).max(1) * DOTS.0;
    PatternShape { files, columns, rows: LINES * DOTS.1 }
}

/// A pattern as lines of text, made for a width with [`shape`].
#[must_use]
pub fn text(pattern: &Pattern, width_chars: usize) -> String {
    let mut out = String::new();
    for file in &pattern.files {
        panel(&mut out, file, width_chars);
    }
    if !pattern.files.is_empty() {
        axis(&mut out, pattern, width_chars);
    }
    if let Some(rest) = rest(pattern, width_chars) {
        out.push_str(&rest);
        out.push('\n');
    }
    if pattern.files.is_empty() {
        out.push_str("no references\n");
    }
    out
}

fn panel(out: &mut String, file: &FilePattern, width_chars: usize) {
    let said = said(file);
    let room = width_chars.saturating_sub(said.chars().count() + 2);
    let _ = writeln!(out, "{}  {said}", end_of(&file.name, room.max(MARGIN)));
    let rows: Vec<&[foretell_trace::Cell]> = file.cells.chunks(file.columns.max(1)).collect();
    let lines = rows.chunks(DOTS.1).collect::<Vec<_>>();
    // The beginning of the file is at the bottom, as in every diagram.
    for (n, _) in lines.iter().enumerate() {
        let label = match n {
            0 => bytes(file.to_byte as f64),
            n if n + 1 == lines.len() => bytes(file.from_byte as f64),
            _ => String::new(),
        };
        let _ = write!(out, "{label:>width$} │", width = MARGIN - 2);
        let mut line = String::new();
        for column in 0..file.columns.div_ceil(DOTS.0) {
            let mut bits = 0;
            for (x, bits_of_column) in BITS.iter().enumerate() {
                for (y, bit) in bits_of_column.iter().enumerate() {
                    let from_top = n * DOTS.1 + y;
                    let row = rows.len().checked_sub(from_top + 1).and_then(|row| rows.get(row));
                    let cell = row.and_then(|row| row.get(column * DOTS.0 + x));
                    if cell.is_some_and(|cell| cell.reads > 0 || cell.writes > 0) {
                        bits |= bit;
                    }
                }
            }
            // A blank where nothing is: fonts differ in how they show a character without dots.
            line.push(if bits == 0 { ' ' } else { char::from_u32(0x2800 + bits).unwrap_or(' ') });
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn axis(out: &mut String, pattern: &Pattern, width_chars: usize) {
    let room = width_chars.saturating_sub(MARGIN).max(1);
    let _ = writeln!(out, "{:>width$}└{}", "", "─".repeat(room), width = MARGIN - 1);
    let (from, to) = ends(pattern);
    let gap = room.saturating_sub(from.chars().count());
    let _ = writeln!(out, "{:>width$}{from}{to:>gap$}", "", width = MARGIN);
}

/// Both ends of the axis of time.
pub(super) fn ends(pattern: &Pattern) -> (String, String) {
    match pattern.clock_ns {
        Some((from, to)) => ("0".to_owned(), ms(to.saturating_sub(from) as f64 / 1e6)),
        None => ("reference 0".to_owned(), pattern.ranges.to_string()),
    }
}

/// What is said of a file beside its name.
pub(super) fn said(file: &FilePattern) -> String {
    let FilePattern { references, writes, .. } = file;
    let counted =
        if *references == 1 { "1 reference".to_owned() } else { format!("{references} references") };
    match writes {
        0 => counted,
        writes if writes == references => format!("{counted}, all writes"),
        writes => format!("{counted}, {writes} written"),
    }
}

/// The files without a panel in one line.
pub(super) fn rest(pattern: &Pattern, width_chars: usize) -> Option<String> {
    if pattern.rest_files == 0 {
        return None;
    }
    let mut line = match pattern.rest_files {
        1 => "1 more file:".to_owned(),
        n => format!("{n} more files:"),
    };
    let mut named = 0;
    for (name, references) in &pattern.rest {
        let part = format!(" {} ({references}),", end_of(name, 40));
        // Room for what stands in place of those left out.
        if line.chars().count() + part.chars().count() + 2 > width_chars && named > 0 {
            break;
        }
        line.push_str(&part);
        named += 1;
    }
    if named == pattern.rest_files {
        line.pop();
    } else {
        line.push_str(" …");
    }
    Some(line)
}

/// A name in at most `chars` characters: its end, which tells more than its beginning. Without control characters.
pub(super) fn end_of(name: &str, chars: usize) -> String {
    let printable = name.escape_debug().to_string();
    let length = printable.chars().count();
    if length <= chars {
        return printable;
    }
    let end: String = printable.chars().skip(length + 1 - chars).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use foretell_trace::Cell;

    use super::*;

    fn file(name: &str, columns: usize, rows: usize, dots: &[(usize, usize)]) -> FilePattern {
        let mut cells = vec![Cell::default(); columns * rows];
        for &(column, row) in dots {
            cells[row * columns + column].reads = 1;
        }
        let (references, writes, from_byte, to_byte) = (dots.len() as u64, 0, 0, 1 << 20);
        FilePattern { name: name.to_owned(), references, writes, from_byte, to_byte, columns, cells }
    }

    fn pattern(files: Vec<FilePattern>, rest: &[(&str, u64)]) -> Pattern {
        Pattern {
            source: "test".to_owned(),
            references: 9,
            clock_ns: Some((500, 2_000_000_500)),
            ranges: 9,
            files,
            rest_files: rest.len(),
            rest: rest.iter().map(|&(name, n)| (name.to_owned(), n)).collect(),
        }
    }

    #[test]
    fn a_rising_line_is_drawn_from_the_lower_left() {
        let shape = shape(1, MARGIN + 16);
        assert_eq!((shape.columns, shape.rows), (32, 32));
        let line: Vec<(usize, usize)> = (0..32).map(|n| (n, n)).collect();
        let text = text(&pattern(vec![file("/data/a", 32, 32, &line)], &[]), MARGIN + 16);
        let expected = "\
/data/a  32 references
     1 MB │              ⡠⠊
          │            ⡠⠊
          │          ⡠⠊
          │        ⡠⠊
          │      ⡠⠊
          │    ⡠⠊
          │  ⡠⠊
      0 B │⡠⠊
          └────────────────
           0         2.00 s
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_rest_is_one_line_that_fits() {
        let named = rest(&pattern(Vec::new(), &[("/a", 3), ("/b\n", 2)]), 80).unwrap();
        assert_eq!(named, "2 more files: /a (3), /b\\n (2)");
        let many: Vec<(&str, u64)> = vec![("/some/long/name/of/a/file", 12); 100];
        let line = rest(&pattern(Vec::new(), &many), 80).unwrap();
        assert!(line.chars().count() <= 80 && line.ends_with("(12), …"), "{line}");
        assert!(line.starts_with("100 more files: /some"), "{line}");
        assert_eq!(rest(&pattern(Vec::new(), &[]), 80), None);
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(end_of("/usr/lib/libc.so.6", 40), "/usr/lib/libc.so.6");
        assert_eq!(end_of("/usr/lib/libc.so.6", 10), "…libc.so.6");
        assert_eq!(end_of("a\u{1b}[31m", 40), "a\\u{1b}[31m");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert_eq!(text(&pattern(Vec::new(), &[]), 80), "no references\n");
    }
}
