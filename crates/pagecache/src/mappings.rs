//! Where a process has mapped a file: what `process_madvise(2)` needs to know to evict mapped pages.
//!
//! A process may have 65,530 mappings (`vm.max_map_count`) and as many as it likes of one file. The kernel takes a
//! microsecond or so to write a line about each. So only the first part of the list is read: what a process has
//! mapped behind that is not evicted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::path::Path;

use crate::observe::FileKey;
use crate::resolve;

/// Bytes of `/proc/PID/maps` that are read: some two thousand mappings, far more than programs have, in two
/// milliseconds.
const MAPS_BYTES: u64 = 256 << 10;

/// The addresses at which process `pid` has mapped bytes of `offset..offset + length` of the file, as far as they
/// are found.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub(crate) fn of_file(pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<Vec<Range<usize>>> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    let bytes = offset..offset.saturating_add(length);
    let mut ranges = found(&maps, file.key, bytes.clone())?;
    if file.shown != file.key {
        let mut maps = maps;
        maps.rewind()?;
        let others = found(&maps, file.shown, bytes)?;
        // btrfs shows all its subvolumes under one device number.
        ranges.extend(others.into_iter().filter(|(_, whole)| is_mapped_at(pid, whole, file.key)));
    }
    Ok(ranges.into_iter().map(|(range, _)| range).collect())
}

/// Under what a file is shown as mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Names {
    /// The inode that has its pages.
    pub(crate) key: FileKey,
    /// The inode that it was opened by, under its superblock's device number.
    pub(crate) shown: FileKey,
}

/// Is it this file that a process has mapped from and to these addresses?
fn is_mapped_at(pid: u32, whole: &Range<u64>, key: FileKey) -> bool {
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", whole.start, whole.end);
    resolve::look(Path::new(&link)).is_ok_and(|looks| looks.is(key))
}

/// The part of a mapping that was asked for, and all of it.
type Mapped = (Range<usize>, Range<u64>);

/// The same in a list of mappings. A line that was cut off is no line.
fn found(maps: impl Read, key: FileKey, bytes: Range<u64>) -> io::Result<Vec<Mapped>> {
    let mut maps = BufReader::new(maps.take(MAPS_BYTES));
    let mut found = Vec::new();
    let mut line = Vec::new();
    while maps.read_until(b'\n', &mut line)? > 0 {
        // The path, at the end of the line, may be any bytes.
        let text = String::from_utf8_lossy(&line);
        if let Some(text) = text.strip_suffix('\n') {
            found.extend(overlap(text, key, bytes.start, bytes.end));
        }
        line.clear();
    }
    Ok(found)
}

/// The addresses of the file's bytes `start..end` in one line of `/proc/PID/maps`
/// (`start-end perms offset major:minor inode path`, all but the inode in hexadecimal; proc_pid_maps(5)).
fn overlap(line: &str, key: FileKey, start: u64, end: u64) -> Option<Mapped> {
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
    (from < to).then(|| ((low + (from - offset)) as usize..(low + (to - offset)) as usize, low..high))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "7f0000010000-7f0000020000 r--s 00004000 fe:01 1234      /data/a file";

    #[test]
    fn only_so_much_of_a_list_is_read() {
        let key = FileKey { dev: (0xfe << 20) | 1, ino: 1234 };
        let lines = MAPS_BYTES as usize / (LINE.len() + 1);
        let endless = std::iter::repeat_n(format!("{LINE}\n"), 10 * lines).collect::<String>();
        assert_eq!(found(endless.as_bytes(), key, 0..u64::MAX).unwrap().len(), lines);
        assert!(found(LINE.as_bytes(), key, 0..u64::MAX).unwrap().is_empty(), "cut off");
        let strange = [&LINE.as_bytes()[..LINE.len() - 1], b"\xff\n"].concat();
        assert_eq!(found(&strange[..], key, 0..u64::MAX).unwrap().len(), 1);
    }

    #[test]
    fn the_part_of_a_mapping_that_holds_the_bytes() {
        let key = FileKey { dev: (0xfe << 20) | 1, ino: 1234 };
        let overlap = |line, key, from, to| super::overlap(line, key, from, to).map(|(part, _)| part);
        let all = overlap(LINE, key, 0, u64::MAX);
        assert_eq!(all, Some(0x7f00_0001_0000..0x7f00_0002_0000));
        let part = overlap(LINE, key, 0x6000, 0x8000);
        assert_eq!(part, Some(0x7f00_0001_2000..0x7f00_0001_4000));
        assert_eq!(overlap(LINE, key, 0, 0x4000), None, "the mapping begins behind it");
        assert_eq!(overlap(LINE, FileKey { ino: 1, ..key }, 0, u64::MAX), None);
        assert_eq!(overlap("00400000-00401000 ---p 00000000 00:00 0", key, 0, 1), None);
    }
}
