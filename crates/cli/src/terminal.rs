//! Writing to the terminal, or to whoever reads us. A reader that has gone (`| head`) is no failure of ours,
//! and must never end a run: the printing macros of the standard library would panic. A disk that is full is one, which
//! is told at the end ([`unsaid`]). A reader of standard error who reads nothing before we have ended (it waits for us with the
//! pipe full of what the program has said) is not waited for without end.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

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

/// Text on standard error, as it is; what nobody takes is left unsaid.
pub fn note(text: &str) {
    for piece in text.as_bytes().chunks(PIECE_BYTES) {
        if !is_taken() || io::stderr().write_all(piece).is_err() {
            return;
        }
    }
}

/// A pipe that can be written to takes so much at once (pipe(7)).
const PIECE_BYTES: usize = 4096;
/// Who reads standard error may take so long to make room.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
const NONE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// That has passed, and is not waited for again.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Will standard error take a piece, now or soon? Where it is closed, it will do so by an error.
fn is_taken() -> bool {
    let patience = if IS_STUCK.load(Ordering::Relaxed) { NONE } else { PATIENCE };
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    loop {
        match poll(&mut ready, Some(&patience)) {
            Err(Errno::INTR) => {}
            Ok(0) => {
                IS_STUCK.store(true, Ordering::Relaxed);
                return false;
            }
            _ => return true,
        }
    }
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

/// What the user typed, as far as it can be shown.
pub(crate) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|a| {
        let text = a.to_string_lossy().into_owned();
        if text.contains([' ', '\'', '"']) { format!("'{}'", text.replace('\'', "'\\''")) } else { text }
    });
    ["foretell".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
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
