//! Taking a device apart, from any state it may be in.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::state::{self, Entry, Lock};
use crate::{loopdev, mounts};

/// How long the kernel may take to let go of the loop device after the last unmount.
const LOOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long guard and server may take to end by themselves once nothing is mounted.
const PROCESS_PATIENCE: Duration = Duration::from_secs(2);

/// Removes everything that `entry` notes, in the order in which it stands on each other: file system, loop
/// device, FUSE file, processes, directories. Steps that are done already are skipped, so that it can be
/// repeated, and run by whoever is left.
///
/// A file system in use is refused unless `force`d.
pub(crate) fn remove(entry: &Entry, force: bool) -> Result<()> {
    let mount_point = &entry.options.mount_point;
    if let Some(number) = entry.loop_number {
        mounts::unmount_all(mount_point, &loopdev::path_of(number).display().to_string(), force)?;
        if let Err(error) = loopdev::remove(number, &entry.disk_file(), LOOP_PATIENCE) {
            // A program still has files open on the detached file system. Without its server each of its
            // reads fails, so that it ends; the entry stays, so that the device can be removed then.
            end_processes(entry);
            return Err(error);
        }
    }
    mounts::unmount_all(&entry.fuse_directory(), &entry.fuse_source(), true)?;
    end_processes(entry);
    if entry.made_mount_point {
        // Somebody may have put a file there meanwhile: then it stays.
        let _ = std::fs::remove_dir(mount_point);
    }
    entry.delete()
}

/// Waits until guard and server have ended, and ends them if they do not; the calling process excepted.
fn end_processes(entry: &Entry) {
    let me = std::process::id().cast_signed();
    let others: Vec<_> =
        [entry.server, entry.guard].into_iter().flatten().filter(|process| process.pid != me).collect();
    let deadline = Instant::now() + PROCESS_PATIENCE;
    // The guard waits for the lock that is held here, so only the server ends by itself.
    while others.iter().any(|process| Some(*process) != entry.guard && process.is_alive()) {
        if Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    for process in others {
        process.kill();
    }
}

/// Removes what is left of devices whose processes are all gone, and returns their names. One that cannot
/// be removed does not keep the others; the first error is returned after all. The lock is held by the
/// caller.
pub(crate) fn remove_stale(_lock: &Lock) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    let mut outcome = Ok(());
    for entry in state::load_all().iter().filter(|entry| !entry.has_live_process()) {
        match remove(entry, true) {
            Ok(()) => removed.push(entry.options.name.clone()),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    outcome.map(|()| removed)
}
