//! What can be wrong with a log.

use std::io;

/// Why a log cannot be written, or read on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system's error.
    #[error("{0}")]
    Io(io::Error),
    /// The file does not begin as logs do.
    #[error("not a log of inputs")]
    NotALog,
    /// Written by another version of the program.
    #[error("a log of version {found}, this program reads version {}", crate::VERSION)]
    OtherVersion {
        /// The version that it says.
        found: u16,
    },
    /// The file ends before the log does: the run that wrote it did not finish.
    #[error("cut short after {inputs} inputs: the run that wrote it did not finish")]
    CutShort {
        /// Inputs that were read whole.
        inputs: u64,
    },
    /// Something that no log contains.
    #[error("damaged at byte {byte} of its contents: {what}")]
    Impossible {
        /// Where, in bytes of the uncompressed stream.
        byte: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// Shrinking keeps all inputs in memory.
    #[error("more than {limit} inputs and blocks of lists: too long to be shrunk; give a shorter log")]
    TooLong {
        /// Inputs and blocks of lists at most.
        limit: usize,
    },
    /// A writer was finished twice, or its thread panicked.
    #[error("the log is closed already")]
    Closed,
}
