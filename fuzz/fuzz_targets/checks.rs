//! What several targets ask for.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use foretell_trace::{Format, Limits, Reference, TraceMeta};

/// The text of an error is one line that says something.
pub fn one_line(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && !text.contains(['\n', '\r']), "{text:?}");
}

/// The text of an error about `input` is one line, if the input was one: messages quote it.
pub fn one_line_about(error: &impl Display, input: &str) {
    if !input.contains(['\n', '\r']) {
        one_line(error);
    }
}

/// References that are read of a trace; a few bytes of zstd unpack to millions.
pub const MAX_REFERENCES: usize = 2000;

/// Limits of a trace reader that a few lines reach.
pub const SMALL_LIMITS: Limits = Limits {
    line_bytes: 512,
    files: 8,
    processes: 8,
    name_bytes: 256,
    objects: 8,
    descriptors: 8,
    unfinished_bytes: 512,
};

/// The format that the first line of `bytes` names, `None` for `auto`, and the trace after it.
#[must_use]
pub fn named_format(bytes: &[u8]) -> Option<(Option<Format>, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let (name, trace) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]);
    match name.parse() {
        _ if name == "auto" => Some((None, trace)),
        Ok(Format::Foretell) => None,
        Ok(format) => Some((Some(format), trace)),
        Err(e) => {
            one_line(&e);
            None
        }
    }
}

/// A reference is to a file and of a process that are known by now.
pub fn check_reference(reference: &Reference, meta: &TraceMeta) {
    assert!((reference.file as usize) < meta.files.len(), "{reference:?}");
    assert!((reference.process as usize) < meta.processes.len(), "{reference:?}");
}

/// Bytes as a file that has a path but lies in memory only.
pub struct MemoryFile {
    /// Lies in memory as long as it is open.
    _file: File,
    path: PathBuf,
}

impl MemoryFile {
    /// A file of `bytes`.
    ///
    /// # Panics
    /// The machine has no memory or descriptors left.
    #[must_use]
    pub fn new(bytes: &[u8]) -> MemoryFile {
        let descriptor =
            rustix::fs::memfd_create("fuzzed", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
        let mut file = File::from(descriptor);
        file.write_all(bytes).expect("a file in memory is written");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        MemoryFile { _file: file, path }
    }

    /// Where it can be opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
