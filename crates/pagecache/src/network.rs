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
static MOUNTED: Mutex<Option<(Instant, Vec<Mount>)>> = Mutex::new(None);

/// One that asks, or one within such a one.
#[derive(Debug)]
struct Mount {
    point: PathBuf,
    asks: bool,
}

/// Those of a list of mounts that count.
fn relevant(mountinfo: &[u8]) -> Vec<Mount> {
    let mut known: Vec<Mount> = Vec::new();
    for (point, kind) in proc_text::mounts(mountinfo) {
        let asks = KINDS.contains(&kind);
        if asks || known.iter().any(|outer| point.starts_with(&outer.point)) {
            known.push(Mount { point, asks });
        }
        if known.len() >= MOST {
            break;
        }
    }
    known
}

/// Does a path lead to where somebody is asked? The innermost mount counts, of several in one place the last.
fn asks(mounts: &[Mount], path: &Path) -> bool {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.as_os_str().len()).is_some_and(|mount| mount.asks)
}

/// Does a link of procfs lead to a file on such a file system, as far as it says?
pub(crate) fn leads_there(link: &Path) -> bool {
    let mut mounted = MOUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if mounted.as_ref().is_none_or(|(until, _)| now >= *until) {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        *mounted = Some((now + BELIEVED, relevant(&text)));
    }
    let mounts = mounted.as_ref().map_or(&[][..], |(_, mounts)| mounts);
    match mounts.len() {
        0 => false,
        MOST.. => true,
        _ => fs::read_link(link).is_ok_and(|target| asks(mounts, &target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(mountinfo: &str, path: &str) -> bool {
        asks(&relevant(mountinfo.as_bytes()), Path::new(path))
    }

    #[test]
    fn the_innermost_mount_counts_and_of_several_in_one_place_the_last() {
        let root = "1 0 0:20 / / rw - 9p host rw\n2 1 254:0 / /data rw - ext4 /dev/vda rw\n";
        assert!(says(root, "/bin/true") && says(root, "/database/x"));
        assert!(!says(root, "/data/x"), "a disk within it");
        let over = format!("{root}3 2 0:21 / /data rw - nfs4 s:/ rw\n");
        assert!(says(&over, "/data/x"), "over the disk");
        let disk = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:21 / /n rw - nfs s:/ rw\n";
        assert!(says(disk, "/n/x") && !says(disk, "/x"));
        assert_eq!(relevant(b"1 0 254:0 / / rw - ext4 /dev/vda rw\n").len(), 0);
    }

    #[test]
    fn of_too_many_no_more_are_kept() {
        let many: String = (0..2 * MOST).map(|n| format!("{n} 0 0:21 / /n/{n} rw - nfs s:/ rw\n")).collect();
        assert_eq!(relevant(many.as_bytes()).len(), MOST);
    }
}
