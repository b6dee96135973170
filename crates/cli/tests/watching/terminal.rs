//! A terminal of 80 by 24 characters, and a program in it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells a test that it is the program that is to panic.
const TO_PANIC: &str = "FORETELL_TEST_TO_PANIC";

/// What it panics with.
pub(crate) const PANIC_MESSAGE: &str = "a panic on purpose";

pub(crate) fn is_to_panic() -> bool {
    std::env::var_os(TO_PANIC).is_some()
}

pub(crate) fn to_panic(command: &mut Command) -> &mut Command {
    command.env(TO_PANIC, "1")
}

/// A terminal, and what was written to it.
pub(crate) struct Terminal {
    ours: File,
    /// Kept open: a terminal that nobody has open cannot be asked.
    theirs: OwnedFd,
    settings: String,
    child: Option<Child>,
    output: Vec<u8>,
    /// What was waited for already.
    seen: usize,
}

impl Terminal {
    pub(crate) fn new() -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let path = std::ffi::OsStr::from_bytes(name.to_bytes());
        let theirs = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).unwrap();
        let settings = settings(&theirs);
        Terminal { ours: ours.into(), theirs, settings, child: None, output: Vec::new(), seen: 0 }
    }

    /// Starts a program in it.
    pub(crate) fn start(&mut self, command: &mut Command) {
        let end = || self.theirs.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color").process_group(0);
        self.child = Some(command.spawn().unwrap());
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().unwrap());
        kill_process(pid, signal).unwrap();
    }

    /// Waits until this is written, after what was waited for before. A frame writes only what has changed:
    /// it is a text that was not there in the frame before.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let begin = Instant::now();
        loop {
            let new = String::from_utf8_lossy(&self.output[self.seen..]).into_owned();
            if plain(&new).contains(text) {
                self.seen = self.output.len();
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "waited too long for {text:?}: {:?}", self.output());
            self.read(Duration::from_millis(200));
        }
    }

    /// Waits for the end of the program.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        let status = loop {
            // Read on: a program that cannot write cannot end.
            self.read(Duration::from_millis(20));
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "waited too long for the end: {:?}", self.output());
        };
        while self.read(Duration::ZERO) {}
        self.child = None;
        status
    }

    /// All that was written.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Settings, screen and cursor are what they were before the program.
    pub(crate) fn assert_as_before(&self) {
        assert_eq!(settings(&self.theirs), self.settings);
        let output = self.output();
        let last = |on: &str, off: &str| (output.rfind(on), output.rfind(off));
        let (entered, left) = last("\x1b[?1049h", "\x1b[?1049l");
        assert!(entered < left, "the other screen is left: {output:?}");
        let (shown, hidden) = last("\x1b[?25h", "\x1b[?25l");
        assert!(hidden <= shown, "the cursor is shown: {output:?}");
    }

    /// Reads what there is; `false` when there is nothing for so long.
    fn read(&mut self, wait: Duration) -> bool {
        let timeout = Timespec::try_from(wait).unwrap();
        let mut watched = [PollFd::new(&self.ours, PollFlags::IN)];
        if poll(&mut watched, Some(&timeout)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let read = self.ours.read(&mut bytes).unwrap();
        self.output.extend_from_slice(&bytes[..read]);
        read > 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// All that can be set of a terminal, in words.
fn settings(terminal: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

/// The text without the sequences that move the cursor and set colours: cells that follow each other.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            out.push(c);
        } else if chars.next() == Some('[') {
            // A sequence ends with a letter (ECMA-48, section 5.4).
            let _ = chars.find(char::is_ascii_alphabetic);
        }
    }
    out
}
