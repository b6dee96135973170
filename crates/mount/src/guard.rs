//! A process that unmounts when the one that serves the files was killed, so that nobody finds a dead file system.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::mount::{UnmountFlags, unmount};

use crate::Error;

/// The guard of a mounted file system: does its work when this process ends, however it does.
pub struct Guard {
    // Its standard input is open as long as this process lives.
    process: Child,
}

impl Guard {
    /// Starts it. `command` is a program that calls [`guard_main`] with the directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, directory: &Path) -> Result<Guard, Error> {
        let process = command.arg(directory).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Ok(Guard { process: process.map_err(|error| Error::Guard { why: error.to_string() })? })
    }

    /// The file system is unmounted: there is nothing left to guard.
    pub fn end(mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Waits until the process that started this one has ended, and unmounts what it has left dead at the directory.
#[must_use]
pub fn guard_main(directory: &Path) -> ExitCode {
    // A signal from the terminal is for the other one, which unmounts by itself.
    let _ = rustix::process::setsid();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    // By its type: what it answers may still come from the kernel's memory of it.
    if is_mounted(directory) && unmount(directory, UnmountFlags::DETACH).is_err() {
        // Who is not root has had it mounted by this program.
        let _ = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(directory).status();
    }
    ExitCode::SUCCESS
}

/// Is a file system of ours mounted there? See proc_pid_mountinfo(5).
fn is_mounted(directory: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| {
        let at = line.split(' ').nth(4).map(unescaped);
        // What is mounted is called by its URL.
        let is_ours = |(_, rest): (&str, &str)| rest.starts_with("fuse") && rest.contains("://");
        at.as_deref() == directory.to_str() && line.split_once(" - ").is_some_and(is_ours)
    })
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |field, (escape, character)| field.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn names_in_mountinfo_are_as_they_were() {
        assert_eq!(unescaped(r"/mnt/a\040b\011c\134d"), "/mnt/a b\tc\\d");
        assert_eq!(unescaped("/mnt/a"), "/mnt/a");
    }
}
