//! What the front end need not read of a preprocessed text: the bodies of functions that are defined elsewhere, too.
//!
//! glibc's headers hold such functions (`extern __inline`, `gnu_inline`) for each call that _FORTIFY_SOURCE checks, used or
//! not; of a small unit they are nine tenths of what the front end has to say. [`Program`] takes them for what
//! the library defines, so their bodies say nothing to anybody.
//!
//! [`Program`]: super::program::Program

use std::ops::Range;

/// The text with a semicolon and spaces in place of each such body: every byte that stays has its place.
pub(crate) fn without(text: &str) -> String {
    let mut shorter = text.as_bytes().to_vec();
    let mut lexer = Lexer { text: text.as_bytes(), at: 0 };
    let mut head = Head::default();
    while let Some(token) = lexer.next_token() {
        match token {
            Token::Open => {
                let from = lexer.at - 1;
                let whole = lexer.skip_group();
                if head.is_defined_elsewhere() && whole {
                    blank(&mut shorter[from..lexer.at]);
                    // A function without a body cannot always be inline.
                    head.always.iter().for_each(|word| shorter[word.clone()].fill(b' '));
                }
                if head.is_function {
                    head = Head::default();
                }
            }
            Token::End => head = Head::default(),
            Token::Word(word) => head.take(word, lexer.at),
            Token::Bracket => head.is_function = true,
            Token::Other => {}
        }
    }
    // Only bytes of whole bodies went, and what took their place is ASCII.
    String::from_utf8(shorter).unwrap_or_else(|_| text.to_owned())
}

/// A semicolon, and spaces but for the lines.
fn blank(body: &mut [u8]) {
    blank_lines(body);
    if let Some(first) = body.first_mut() {
        *first = b';';
    }
}

/// Spaces but for the lines and their markers, which say where the text comes from.
pub(super) fn blank_lines(body: &mut [u8]) {
    let mut is_marker = false;
    let mut begins_line = false;
    for byte in body.iter_mut() {
        match *byte {
            b'\n' => (begins_line, is_marker) = (true, false),
            b'#' if begins_line => is_marker = true,
            _ => begins_line = false,
        }
        if *byte != b'\n' && !is_marker {
            *byte = b' ';
        }
    }
}

/// What is known of a declaration up to its body.
#[derive(Default)]
struct Head {
    is_extern: bool,
    is_inline: bool,
    is_gnu: bool,
    /// Was there a bracket? A structure has its body before one.
    is_function: bool,
    /// Where it says that it is always inline.
    always: Vec<Range<usize>>,
}

impl Head {
    /// Takes the word that ends at `end`.
    fn take(&mut self, word: &[u8], end: usize) {
        match word {
            b"extern" => self.is_extern = true,
            b"inline" | b"__inline" | b"__inline__" => self.is_inline = true,
            b"gnu_inline" | b"__gnu_inline__" => self.is_gnu = true,
            b"always_inline" | b"__always_inline__" => self.always.push(end - word.len()..end),
            _ => {}
        }
    }

    fn is_defined_elsewhere(&self) -> bool {
        self.is_extern && self.is_inline && self.is_gnu && self.is_function
    }
}

pub(super) enum Token<'t> {
    /// `{`, outside of everything.
    Open,
    /// `;`, outside of everything.
    End,
    /// An identifier, wherever it stands before the body.
    Word(&'t [u8]),
    /// `(`
    Bracket,
    Other,
}

pub(super) struct Lexer<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn next_token(&mut self) -> Option<Token<'t>> {
        let from = self.at;
        let byte = *self.text.get(from)?;
        self.at += 1;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        Some(match byte {
            b'{' => Token::Open,
            b';' => Token::End,
            b'(' => Token::Bracket,
            b'"' | b'\'' => {
                self.skip_quoted(byte);
                Token::Other
            }
            b'#' if from == 0 || self.text[from - 1] == b'\n' => {
                self.skip_line();
                Token::Other
            }
            byte if is_word(&byte) => {
                self.at += self.text[self.at..].iter().take_while(|byte| is_word(byte)).count();
                Token::Word(&self.text[from..self.at])
            }
            _ => Token::Other,
        })
    }

    /// Goes behind the brace that closes the one before; `false` if there is none.
    pub(super) fn skip_group(&mut self) -> bool {
        let mut depth = 1;
        while depth > 0 {
            let Some(&byte) = self.text.get(self.at) else { return false };
            self.at += 1;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' | b'\'' => self.skip_quoted(byte),
                b'#' if self.text[self.at - 2] == b'\n' => self.skip_line(),
                _ => {}
            }
        }
        true
    }

    fn skip_quoted(&mut self, quote: u8) {
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                // A quote that does not end in its line is none.
                b'\n' => return,
                _ if byte == quote => return,
                _ => {}
            }
        }
    }

    fn skip_line(&mut self) {
        self.at += self.text[self.at..].iter().take_while(|byte| **byte != b'\n').count();
    }
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn bodies_that_are_defined_elsewhere_go_and_all_else_keeps_its_place() {
        let text = "struct s { int extern_; };\n\
            extern __inline __attribute__((__gnu_inline__, __always_inline__)) int f(int a)\n{\n  g(\"}\", '}');\n# 7 \"a }.h\" 3\n  return {1};\n}\n\
            static inline int own(void) { return 1; }\n\
            extern inline int c99(void) { return 2; }\n\
            int table[] = { 1, 2 };\nextern int f(int);\n";
        let shorter = without(text);
        assert_eq!(shorter.len(), text.len());
        assert_eq!(shorter.lines().count(), text.lines().count());
        assert!(!shorter.contains("return {1}"), "{shorter}");
        assert!(shorter.contains(",                  )) int f(int a)\n;"), "{shorter}");
        for kept in
            ["# 7 \"a }.h\" 3\n", "{ return 1; }", "{ return 2; }", "{ 1, 2 };", "struct s { int extern_; };"]
        {
            assert_eq!(shorter.find(kept), text.find(kept), "{kept}");
            assert!(shorter.contains(kept), "{kept}");
        }
    }

    #[test]
    fn what_is_no_c_is_left() {
        for text in [
            "",
            "}",
            "extern inline __gnu_inline__ f() {",
            "\"",
            "'\\",
            "extern \"C\" {\nint x;\n}\n",
            "#",
            "{\n#",
        ] {
            assert_eq!(without(text), text);
        }
    }
}
