//! Control: what a manager may say about the replacement of its own blocks, and when it loses the right.

pub(crate) mod pools;
pub(crate) mod revocation;
