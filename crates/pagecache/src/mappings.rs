//! Where a process has mapped a file: what `process_madvise(2)` needs to know to evict mapped pages.

use std::fs;
use std::io;
use std::ops::Range;

use crate::observe::FileKey;

/// The addresses at which process `pid` has mapped bytes of `offset..offset + length` of the file.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub(crate) fn of_file(pid: u32, key: FileKey, offset: u64, length: u64) -> io::Result<Vec<Range<usize>>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(maps.lines().filter_map(|line| overlap(line, key, offset, offset.saturating_add(length))).collect())
}

/// The addresses of the file's bytes `start..end` in one line of `/proc/PID/maps`
/// (`start-end perms offset major:minor inode path`, all but the inode in hexadecimal; proc_pid_maps(5)).
fn overlap(line: &str, key: FileKey, start: u64, end: u64) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (low, high) = fields.next()?.split_once('-')?;
    let (low, high) = (u64::from_str_radix(low, 16).ok()?, u64::from_str_radix(high, 16).ok()?);
    let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let (major, minor) = (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?);
    let ino: u64 = fields.next()?.parse().ok()?;
    if (FileKey { dev: (major << 20) | minor, ino }) != key {
        return None;
    }
    let from = start.max(offset);
    let to = end.min(offset + (high - low));
    (from < to).then(|| (low + (from - offset)) as usize..(low + (to - offset)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "7f0000010000-7f0000020000 r--s 00004000 fe:01 1234      /data/a file";

    #[test]
    fn the_part_of_a_mapping_that_holds_the_bytes() {
        let key = FileKey { dev: (0xfe << 20) | 1, ino: 1234 };
        let all = overlap(LINE, key, 0, u64::MAX);
        assert_eq!(all, Some(0x7f00_0001_0000..0x7f00_0002_0000));
        let part = overlap(LINE, key, 0x6000, 0x8000);
        assert_eq!(part, Some(0x7f00_0001_2000..0x7f00_0001_4000));
        assert_eq!(overlap(LINE, key, 0, 0x4000), None, "the mapping begins behind it");
        assert_eq!(overlap(LINE, FileKey { ino: 1, ..key }, 0, u64::MAX), None);
        assert_eq!(overlap("00400000-00401000 ---p 00000000 00:00 0", key, 0, 1), None);
    }
}
