//! What can be wrong with the input, before anything is said about slices.

use std::path::PathBuf;

/// Why nothing was translated. Refusals of single open sites are no errors: see [`crate::Refusal`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A source file cannot be read, or an output cannot be written.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The front end is not installed or does not start.
    #[error("{program} does not start ({reason}); install clang 14 or newer, it reads the C for foretell")]
    NoFrontEnd {
        /// The program that was tried.
        program: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The front end does not accept the source: its first error, with its place.
    #[error("{0}")]
    NotC(String),
    /// A source that is not UTF-8, or a compile database that is none.
    #[error("{path}: {message}")]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The front end's syntax tree is not what it should be.
    #[error("{path}: the syntax tree of clang cannot be read: {message}")]
    Tree {
        /// The source file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// No file of the program defines `main`.
    #[error("none of the files defines main(): give all files of the program at once")]
    NoMain,
    /// Two files define the same function.
    #[error("{name}() is defined in {first} and in {second}: give the files of one program only")]
    DefinedTwice {
        /// The function.
        name: String,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// A table of library models does not parse.
    #[error("library models: {0}")]
    Models(String),
    /// A limit of the analysis is reached.
    #[error("the program is too large: {what} (limit {limit})")]
    TooLarge {
        /// What there is too much of.
        what: String,
        /// How much is allowed.
        limit: usize,
    },
}
