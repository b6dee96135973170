//! What the front end need not read of a preprocessed text: declarations of functions that nothing names.
//!
//! A unit that includes <stdio.h> and <stdlib.h> has some two hundred of them and calls five; they are most of what
//! the front end has to say of a small unit.

use std::collections::HashMap;
use std::ops::Range;

use super::bodies::{Lexer, Token, blank_lines};

/// Words whose brackets say something about a function and are not its parameters.
const ABOUT: &[&str] = &["__attribute__", "__attribute", "__asm__", "__asm", "asm"];

/// A type that is named first here is known from here on.
const TAGS: &[&str] = &["struct", "union", "enum"];

/// The text with spaces in place of each `extern` declaration of one function whose name stands nowhere else: every
/// byte that stays has its place.
pub(crate) fn without(text: &str) -> String {
    let declared = declarations(text);
    let mut left: HashMap<&str, usize> = declared.iter().map(|(name, _)| (*name, 0)).collect();
    for word in text.split(|c: char| !is_of_word(c)) {
        if let Some(count) = left.get_mut(word) {
            *count += 1;
        }
    }
    for (name, _) in &declared {
        left.entry(*name).and_modify(|count| *count -= 1);
    }
    let mut shorter = text.as_bytes().to_vec();
    for (_, range) in declared.iter().filter(|(name, _)| left.get(name) == Some(&0)) {
        blank_lines(&mut shorter[range.clone()]);
    }
    // Only whole declarations went, and what took their place is ASCII.
    String::from_utf8(shorter).unwrap_or_else(|_| text.to_owned())
}

/// The `extern` declarations of single functions: the name, and where it stands.
fn declarations(text: &str) -> Vec<(&str, Range<usize>)> {
    let mut lexer = Lexer { text: text.as_bytes(), at: 0 };
    let mut begin = None;
    let mut found = Vec::new();
    while let Some(token) = lexer.next_token() {
        match token {
            Token::Word(word) => begin = begin.or(Some(lexer.at - word.len())),
            Token::Open => {
                lexer.skip_group();
                begin = None;
            }
            Token::End => {
                let declared = begin.take().and_then(|from| Some((text.get(from..lexer.at - 1)?, from)));
                if let Some((declaration, from)) = declared
                    && let Some(name) = name_of(declaration)
                {
                    found.push((name, from..lexer.at));
                }
            }
            Token::Bracket | Token::Other => {}
        }
    }
    found
}

/// The name of the function that this declares, if it is `extern`, one, and nothing else is declared with it.
fn name_of(declaration: &str) -> Option<&str> {
    let rest = declaration.strip_prefix("__extension__").unwrap_or(declaration).trim_start();
    // A marker within it names words of its own.
    let mut rest = rest.strip_prefix("extern").filter(|rest| !rest.contains('#') && !rest.contains('"'))?;
    let mut last = "";
    let mut name = None;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' if ABOUT.contains(&last) => group(rest)?,
            '(' if name.is_none() && !last.is_empty() => {
                name = Some(last);
                group(rest)?
            }
            c if is_of_word(c) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            c if c.is_whitespace() => {
                rest = rest.trim_start();
                continue;
            }
            '*' => 1,
            _ => return None,
        };
        last = if is_of_word(first) { &rest[..length] } else { "" };
        if name.is_none() && TAGS.contains(&last) {
            return None;
        }
        rest = &rest[length..];
    }
    name
}

/// The length of what the bracket at the begin of a text and its counterpart enclose.
fn group(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.bytes()
        .position(|byte| {
            depth += i32::from(byte == b'(') - i32::from(byte == b')');
            depth == 0
        })
        .map(|at| at + 1)
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn declarations_that_nothing_names_go_and_all_else_keeps_its_place() {
        let kept = [
            "extern int used (int);",
            "extern struct tag *makes_a_tag (void);",
            "extern int one (int), other (int);",
            "extern void (*handler (int number, void (*) (int))) (int);",
            "extern int variable;",
            "extern int table[4];",
            "int without_extern (int);",
            "extern int defined (int);\nint defined (int a) { return used (a); }",
            "extern int marked (\n# 7 \"a.h\" 3\nint);",
            "extern __typeof__ (int) of_a_type (int);",
            "extern int as_text (int);\nconst char *as = \"as_text\";",
        ];
        let gone = [
            "extern int plain (const char *name, struct other *o) ;",
            "extern char *with_attributes (void)\n  __attribute__ ((__nothrow__ , __leaf__)) __attribute__ ((__pure__));",
            "__extension__ extern long long int longest (long long int);",
            "extern __inline __attribute__ ((__gnu_inline__)) int twice (int) ;\nextern int twice (int);",
            "extern int f\u{fc}r (void);",
        ];
        let text: String = kept.iter().zip(gone.iter().cycle()).map(|(a, b)| format!("{a}\n{b}\n")).collect();
        let text = text.replacen(gone[1], "int x;", 2);
        let shorter = without(&text);
        assert_eq!(shorter.len(), text.len());
        assert_eq!(shorter.lines().count(), text.lines().count());
        for declaration in kept {
            assert_eq!(shorter.find(declaration), text.find(declaration), "{declaration}");
        }
        for name in ["plain", "with_attributes", "longest", "twice", "f\u{fc}r"] {
            assert!(!shorter.contains(name), "{name}: {shorter}");
        }
    }

    #[test]
    fn what_is_no_c_is_left() {
        for text in [
            "",
            ";",
            "extern",
            "extern ;",
            "extern f(;",
            "extern f(",
            "extern ( ) ;",
            "extern int f(int));",
            "}",
            "\"",
            "extern \"C\" {\nint x;\n}\n",
        ] {
            assert_eq!(without(text), text);
        }
    }
}
