//! Which file systems are mounted, and how they are unmounted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::error::{Error, Result};

/// Whether `source` (`/dev/loop64`, or a FUSE source) is mounted at `mount_point`.
pub(crate) fn is_mounted(mount_point: &Path, source: &str) -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|text| {
        text.lines().filter_map(parse).any(|(at, from)| at == mount_point && from == source)
    })
}

/// Mount point and source of a line of mountinfo, see proc_pid_mountinfo(5).
fn parse(line: &str) -> Option<(PathBuf, String)> {
    let (before, after) = line.split_once(" - ")?;
    let mount_point = before.split(' ').nth(4)?;
    let source = after.split(' ').nth(1)?;
    Some((PathBuf::from(unescape(mount_point)), unescape(source)))
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |field, (escape, character)| field.replace(escape, character))
}

/// How long a file system may be busy before it counts as in use: a process that is just starting another
/// one shares its open files with it for a moment, also those that it closes meanwhile.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);

/// Unmounts `source` from `mount_point` as often as it is mounted there. A busy one is detached if
/// `force`d: it goes when its last user does.
pub(crate) fn unmount_all(mount_point: &Path, source: &str, force: bool) -> Result<()> {
    let deadline = Instant::now() + BUSY_PATIENCE;
    while is_mounted(mount_point, source) {
        let outcome = match unmount(mount_point, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(Errno::BUSY) if force => unmount(mount_point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH),
            Err(Errno::BUSY) => return Err(Error::Busy { mount_point: mount_point.display().to_string() }),
            other => other,
        };
        match outcome {
            // Not mounted any more: another process was faster.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(Error::system(format!("unmount {}", mount_point.display()), error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_parsed() {
        let line = r"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 - ext4 /dev/loop64 rw,errors=continue";
        assert_eq!(parse(line), Some((PathBuf::from("/mnt/a b"), "/dev/loop64".to_owned())));
        assert_eq!(parse("nonsense"), None);
        assert!(!is_mounted(Path::new("/"), "no such source"));
    }
}
