//! Writing to the terminal, or to whoever reads us. A reader that has gone (`| head`) is no failure of ours,
//! and must never end a run: the printing macros of the standard library would panic. A disk that is full is one, which
//! is told at the end ([`unsaid`]).

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// One line on standard error, whatever is in it, after our name.
pub fn warn(text: &str) {
    note(&format!("foretell: {}\n", one_line(text)));
}

/// Control characters as blanks: messages quote files, which may hold line breaks and escape sequences.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Widths of a terminal that are believed, and that COLUMNS may ask for.
const WIDTHS_CHARS: std::ops::RangeInclusive<u16> = 40..=1000;

/// The terminal's width, or what the environment says of the pipe's reader, else `piped`.
pub fn width_chars(piped: u16) -> u16 {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = terminal.filter(|columns| *columns > 0).or(named).unwrap_or(piped);
    width.clamp(*WIDTHS_CHARS.start(), *WIDTHS_CHARS.end())
}

/// Text on standard error, as it is.
pub fn note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Text on standard output, as it is.
pub fn say(text: &str) {
    let mut stdout = io::stdout();
    is_said(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// Why not all of what was to stand on standard output does.
static UNSAID: Mutex<Option<io::Error>> = Mutex::new(None);

/// Whether something was written to standard output. Why not is remembered, unless nobody reads it.
pub fn is_said(written: io::Result<()>) -> bool {
    let Err(error) = written else { return true };
    if error.kind() != io::ErrorKind::BrokenPipe {
        UNSAID.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    false
}

/// Why not all of what was to stand on standard output does, if that is so.
pub fn unsaid() -> Option<io::Error> {
    UNSAID.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// An error and its causes in one line. What the system said is not said again by a cause that is quoted.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |mut out, cause| {
        if !out.ends_with(&cause) && !out.contains(&format!("{cause};")) {
            if !out.is_empty() {
                out.push_str(": ");
            }
            out.push_str(&cause);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("rule 'a\r\nb\u{1b}[31m'"), "rule 'a  b [31m'");
    }

    #[test]
    fn causes_are_said_once() {
        let system = || std::io::Error::from_raw_os_error(2);
        let quoted = anyhow::Error::new(system()).context(format!("a: {}", system()));
        assert_eq!(with_causes(&quoted), format!("a: {}", system()));
        let advised = anyhow::Error::new(system()).context(format!("a: {}; b", system()));
        assert_eq!(with_causes(&advised), format!("a: {}; b", system()));
        let bare = anyhow::Error::new(system()).context("a");
        assert_eq!(with_causes(&bare), format!("a: {}", system()));
    }
}
