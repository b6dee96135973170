//! The `foretell` command: arguments and configuration in, reports out.

pub mod config;
pub mod hints;
pub mod memory;
pub mod nearest;
pub mod rule;
pub mod scan;
pub mod size;
