//! Files whose servers may not answer.
//!
//! To follow a link of `/proc/PID/fd` asks nobody, but for file systems whose servers are asked whether the file is still
//! the same (`d_weak_revalidate` of the kernel's `fs/namei.c`): one that does not answer would keep the loop waiting that
//! steers for everybody. So what a link says is compared with where such file systems are mounted before it is followed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::proc_text;

/// The kinds that ask.
const KINDS: [&[u8]; 3] = [b"nfs", b"nfs4", b"9p"];
/// How long the list of mounts is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// Mounts that are known at most. Where there are more nothing is followed.
const MOST: usize = 256;

/// Where they are mounted, and until when that is believed.
static MOUNTED: Mutex<Option<(Instant, Vec<PathBuf>)>> = Mutex::new(None);

/// Does a link of procfs lead to a file on such a file system, as far as it says?
pub(crate) fn leads_there(link: &Path) -> bool {
    let mut mounted = MOUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if mounted.as_ref().is_none_or(|(until, _)| now >= *until) {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        *mounted = Some((now + BELIEVED, proc_text::mounts_of_kinds(&text, &KINDS).take(MOST).collect()));
    }
    let points = mounted.as_ref().map_or(&[][..], |(_, points)| points);
    match points.len() {
        0 => false,
        MOST.. => true,
        _ => fs::read_link(link).is_ok_and(|target| points.iter().any(|point| target.starts_with(point))),
    }
}
