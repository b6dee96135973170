//! What is mounted, and how.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foretell_buffers::PoolPolicy;

/// The priority of a file, by its path.
pub type PriorityOf = dyn Fn(&str) -> Option<i32> + Send + Sync;

/// What is mounted, and how.
pub struct Options {
    /// A bucket, or what lies under a path in it: `s3://bucket/path`.
    pub url: String,
    /// How long what was listed or asked for is believed.
    pub believed: Duration,
    /// Other users may read, too; the kernel must permit it (`user_allow_other` of fuse.conf(5), or root).
    pub allow_other: bool,
    /// The priority of a file, by its path below what is mounted: blocks of lower ones are replaced first. `None` for 0.
    pub priority: Arc<PriorityOf>,
    /// The replacement policies of priorities.
    pub policies: Vec<(i32, PoolPolicy)>,
    /// A file in which it is kept what was read, by run, and from which it is known what comes when a run comes again.
    pub profile: Option<PathBuf>,
    /// A run ends when no file has been open for so long.
    pub idle: Duration,
    /// Told what goes wrong, one line each.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}
