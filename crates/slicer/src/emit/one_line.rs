//! A stretch of the sources as one line of code.

/// The text on one line, without its comments. `None` if the preprocessor has a say in it: what it would
/// leave is not known here. Its line markers, which stand around each macro of a system header, say nothing of the code.
pub(super) fn one_line(text: &str) -> Option<String> {
    if !text.contains(['\n', '/']) {
        return Some(text.to_owned());
    }
    let mut line = String::with_capacity(text.len());
    let mut rest = text;
    let mut begins = false;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = comment(rest) {
            rest = &rest[length..];
            space(&mut line);
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\\n") {
            rest = after;
            continue;
        }
        let length = if matches!(first, '"' | '\'') { literal(rest) } else { first.len_utf8() };
        match first {
            '#' if begins => {
                rest = &rest[marker(rest)?..];
                continue;
            }
            '\n' => {
                begins = true;
                space(&mut line);
            }
            ' ' | '\t' | '\r' if begins => {}
            _ => {
                begins = false;
                line.push_str(&rest[..length]);
            }
        }
        rest = &rest[length..];
    }
    Some(line)
}

fn space(line: &mut String) {
    line.truncate(line.trim_end().len());
    if !line.is_empty() {
        line.push(' ');
    }
}

/// The length of the line marker that the text begins with, `# 12 "file" 3 4`, without the end of its line. `None` if it is
/// another directive.
pub(super) fn marker(text: &str) -> Option<usize> {
    let is_marker =
        text.strip_prefix("# ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_marker.then(|| text.find('\n').unwrap_or(text.len()))
}

/// The length of the comment that the text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.strip_prefix("/*").map(|inside| inside.find("*/").map_or(text.len(), |at| at + 4))
}

/// The length of the string or character that the text begins with.
fn literal(text: &str) -> usize {
    let mut characters = text.char_indices();
    let quote = characters.next().map(|(_, quote)| quote);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if Some(character) == quote {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn lines_are_joined_and_comments_go() {
        assert_eq!(one_line("f(a, // first\n  b /* second */,\n\tc)").unwrap(), "f(a, b , c)");
        assert_eq!(one_line("\"// no comment\" '\\''  /* x").unwrap(), "\"// no comment\" '\\'' ");
        assert_eq!(one_line("a \\\n  b").unwrap(), "a   b");
        assert_eq!(one_line("f(a,\n\n  b)").unwrap(), "f(a, b)");
    }

    #[test]
    fn directives_are_not_joined() {
        assert!(one_line("f(a,\n# ifdef X\n b,\n# endif\n c)").is_none());
        let marked = "size(\n# 11 \"a.c\" 3 4\n  struct s\n# 11 \"a.c\"\n , x)";
        assert_eq!(one_line(marked).unwrap(), "size( struct s , x)");
        assert!(one_line("f(a,\n#pragma x\n b)").is_none());
        assert_eq!(one_line("s(\"#\n\")").unwrap(), "s(\"#\n\")");
    }
}
