//! The subcommands, one file each: its arguments, and `execute`, which gives the exit code.

pub mod advise;
pub mod buffers;
pub mod cc;
pub mod compare;
pub mod completions;
pub mod daemon;
pub mod device;
pub mod doctor;
mod help;
pub mod learn;
pub mod model;
pub mod mount;
pub mod replay;
pub mod run;
pub mod sim;
pub mod slice;
pub mod slowdisk;
pub mod status;
pub mod top;
pub mod trace;
