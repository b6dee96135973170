//! What is mounted, and how.

use std::sync::Arc;
use std::time::Duration;

/// What is mounted, and how.
pub struct Options {
    /// A bucket, or what lies under a path in it: `s3://bucket/path`.
    pub url: String,
    /// How long what was listed or asked for is believed.
    pub believed: Duration,
    /// Other users may read, too; the kernel must permit it (`user_allow_other` of fuse.conf(5), or root).
    pub allow_other: bool,
    /// Told what goes wrong, one line each.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}
