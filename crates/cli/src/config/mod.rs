//! The configuration of a run: what the flags and the file say, turned into one effective whole in one
//! place ([`resolve`]).
//!
//! Flags beat the file. Rules add up: those of the flags come first, and the first that matches a file
//! decides. Relative paths and globs in flags start at the working directory, those in the file at the
//! file's own directory. `effective::to_toml` writes what [`resolve`] made so that the file reads back the same.

mod chosen;
mod effective;
mod file;
mod names;
mod number;

pub use chosen::{Chosen, DEVICE_DIRECTORY};
pub use effective::{Controlled, Effective, Flags, Surroundings, asked_for, resolve};
pub use file::{BuffersTable, ConfigError, File, ProcessTable, RevocationTable, RuleEntry};
pub use names::{ALLOCATIONS, ORDERS, prefetches};
pub use number::{Auto, NotANumber, Number};
