//! The service: one page cache under one budget, shared by all programs that speak for themselves.

mod snapshot;

pub use foretell_pagecache::{Counts, FileStatus, ManagerStatus, ProcessStatus, Status};
pub use snapshot::{SessionStatus, Snapshot, StatusRequest};
