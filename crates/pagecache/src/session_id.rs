//! The number of a session.

/// A session, as numbered by [`crate::Plane::add_session`]; never used again once ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);
