//! The block queue of the loop device, through `/sys/block/loopN/queue`.
//!
//! Why not leave it as it is: a loop device accepts 128 requests at once and has no elevator, so all that
//! the kernel has queued would stand inside the device in the order of arrival, and no elevator could
//! ever sort it, unlike on a disk. The device here is given a short queue of its own, two requests a
//! channel (one in service, one ready so that the channel does not wait for the kernel in between), and
//! `mq-deadline`, the kernel's usual choice for such disks, sorts what waits before it.
//!
//! The short queue is had by a detour: `nr_requests` sets the depth of the driver's own tags only while
//! there is no elevator (`blk_mq_update_nr_requests`), and with one sets the elevator's. So: no elevator,
//! the depth, then the elevator, then the length of its queue.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::options::Timing;

/// Requests that the kernel may have waiting before the device, as on a usual disk (`BLKDEV_DEFAULT_RQ`).
const ELEVATOR_REQUESTS: u32 = 128;
/// Least that the kernel accepts (`BLKDEV_MIN_RQ`).
const MIN_REQUESTS: u32 = 4;
/// Readahead of most disks (`VM_READAHEAD_PAGES`). Set because some kernels derive another from the settings
/// here (2 MiB for a rotational device with requests of 1 MiB on Linux 6.18), and results should not depend
/// on that.
const READAHEAD_KB: u32 = 128;
/// Largest request: one FUSE request of 256 pages (`FUSE_DEFAULT_MAX_PAGES_LIMIT`), so that a request is
/// not split into several that would each be charged the latency.
const MAX_REQUEST_KB: u32 = 1024;

/// Sets the queue of loop device `number` for a device of this timing. The loop device must be bound:
/// binding resets some of it.
pub(crate) fn set_up(number: u32, timing: &Timing) -> Result<()> {
    let depth = (2 * timing.channels).max(MIN_REQUESTS);
    set(number, "max_sectors_kb", MAX_REQUEST_KB)?;
    set(number, "rotational", u32::from(timing.seek_ns > 0))?;
    set(number, "scheduler", "none")?;
    set(number, "nr_requests", depth)?;
    // A kernel without it serves in the order of arrival.
    if set(number, "scheduler", "mq-deadline").is_ok() {
        set(number, "nr_requests", ELEVATOR_REQUESTS)?;
    }
    // Last, because the settings above change it.
    set(number, "read_ahead_kb", READAHEAD_KB)
}

fn set(number: u32, setting: &str, value: impl std::fmt::Display) -> Result<()> {
    let path = PathBuf::from(format!("/sys/block/loop{number}/queue/{setting}"));
    std::fs::write(&path, value.to_string())
        .map_err(|error| Error::system(format!("write {value} to {}", path.display()), error))
}
