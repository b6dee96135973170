//! What is given to be translated.

use std::path::PathBuf;

/// One translation unit.
#[derive(Debug, Clone)]
pub struct Input {
    /// The source file.
    pub path: PathBuf,
    /// Flags for the front end: `-I`, `-D`, `-U`, `-std` and their like.
    pub flags: Vec<String>,
    /// The folder in which the compiler runs, which relative paths begin at.
    pub folder: Option<PathBuf>,
    /// If the file is what a preprocessor has left, with its line markers: the declarations of the runtime, which
    /// then stand in the translation in place of `#include "foretell_slice.h"`.
    pub preprocessed: Option<String>,
    /// What is read in place of this where the front end does not accept it.
    pub otherwise: Option<Box<Input>>,
}
