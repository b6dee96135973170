//! What can go wrong with a recording: one line that says which file, what is wrong, and what to do.

use std::io;
use std::path::PathBuf;

use foretell_output::OutputError;

/// Why a recording cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Nothing can be written under this name.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The system, or the compressor, refuses.
    #[error("{}: the recording cannot be written: {source}", path.display())]
    Io {
        /// The name that was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An event that would make the recording unreadable: a mistake of the program.
    #[error("{}: not an event of a recording: {what}", path.display())]
    NotAnEvent {
        /// The name that was given.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Why a recording is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refuses.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file does not begin as recordings do.
    #[error("{}: not a recording; name a file that foretell recorded", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of the program.
    #[error(
        "{}: a recording of version {found}, this program reads version {}; record the job again",
        path.display(),
        crate::format::VERSION
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version that it says.
        found: u16,
    },
    /// The file ends before the recording does.
    #[error("{}: cut short; copy it again or record the job again", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
    },
    /// Something that no recording contains.
    #[error(
        "{}: damaged ({what}, at byte {byte} of its contents); copy it again or record the job again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, in bytes of the uncompressed stream.
        byte: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// More than a recording holds.
    #[error("{}: more than {limit} {what}, which no recording has; record the job again", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// How many there may be.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
}
