//! What can be wrong with a trace: always where, what was expected, and what was found.

use crate::format::Format;

/// An error of a reader, a writer or a conversion. Its text is one line that says where (file and line,
/// or file and byte), what was expected and what was found instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system, or the decompressor, refused.
    #[error("{path}: {source}")]
    Io {
        /// The trace.
        path: Box<str>,
        /// Why.
        source: std::io::Error,
    },
    /// A trace cannot be written.
    #[error(transparent)]
    Output(#[from] foretell_output::OutputError),
    /// A recording is refused.
    #[error(transparent)]
    Recording(#[from] foretell_recording::ReadError),
    /// A line does not parse.
    #[error("{path}:{line}: expected {expected}, found `{found}`")]
    Line {
        /// The trace.
        path: Box<str>,
        /// Which line, from 1.
        line: u64,
        /// What a line of this format looks like.
        expected: &'static str,
        /// Beginning of the line, printable.
        found: Box<str>,
    },
    /// The trace ends inside a record: a copy or a recording that was cut off.
    #[error("{path}: ends in the middle of {within}; the trace was cut off, copy or record it again")]
    Truncated {
        /// The trace.
        path: Box<str>,
        /// Inside what.
        within: Box<str>,
    },
    /// The file is not of the format that was asked for.
    #[error("{path}: not a {format} trace: expected {expected}, found {found}")]
    NotThisFormat {
        /// The trace.
        path: Box<str>,
        /// The format that was asked for or detected.
        format: Format,
        /// What such a trace has.
        expected: Box<str>,
        /// What this file has.
        found: Box<str>,
    },
    /// The format cannot be told from the file's name and beginning.
    #[error("{path}: format not recognised (it begins with {found}); name it, one of {}", Format::names())]
    Unrecognised {
        /// The trace.
        path: Box<str>,
        /// How it begins, printable.
        found: Box<str>,
    },
    /// No format has this name.
    #[error("unknown trace format `{}`{}; one of {}", .name.escape_debug(), Format::hint(name), Format::names())]
    UnknownFormat {
        /// What was given.
        name: Box<str>,
    },
    /// A table is full.
    #[error("{path}: more than {limit} {what}; raise the limit or take a part of the trace")]
    Limit {
        /// The trace, and the line if there are lines.
        path: Box<str>,
        /// How many there may be.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// Contents of a stored trace contradict themselves or the Parquet format.
    #[error("{path}: {message}")]
    Damaged {
        /// The trace.
        path: Box<str>,
        /// What is wrong.
        message: Box<str>,
    },
    /// A block number does not fit 32 bits.
    #[error(
        "{}: byte {offset} lies beyond block 4294967295 of {block_bytes} bytes; use larger blocks",
        .file.escape_debug()
    )]
    BlockTooFar {
        /// Name of the file that the reference is to.
        file: Box<str>,
        /// Last byte of the reference.
        offset: u64,
        /// Block size.
        block_bytes: u64,
    },
}

/// The beginning of `bytes` as one printable line: control characters and what is not UTF-8 escaped.
pub(crate) fn excerpt(bytes: &[u8]) -> Box<str> {
    const SHOWN: usize = 60;
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    if bytes.len() > SHOWN { format!("{shown}…").into() } else { shown.into() }
}
