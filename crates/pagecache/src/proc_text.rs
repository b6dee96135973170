//! What the files of `/proc` say of processes and mounts (proc(5)).
//!
//! They are made by the kernel, but what stands in them is up to others: a program chooses its name, who mounts a file
//! system its place, and both may be any bytes. So nothing here asks for text in UTF-8. The functions are public so that
//! they can be fed made-up bytes.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::observe::FileKey;

/// Bytes of `/proc/PID/maps` that are read: some two thousand mappings, far more than programs have, in two
/// milliseconds.
pub(crate) const MAPS_BYTES: u64 = 256 << 10;

/// The name of a process, as `/proc/PID/comm` has it; what is not UTF-8 in it is replaced.
#[must_use]
pub fn name(comm: &[u8]) -> String {
    String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(comm)).into_owned()
}

/// The state of a process in `/proc/PID/stat` (proc_pid_stat(5)): the field behind its name, which stands in
/// parentheses and may hold anything.
#[must_use]
pub fn state(stat: &[u8]) -> Option<u8> {
    let behind = stat.windows(2).rposition(|two| two == b") ")? + 2;
    stat.get(behind).copied()
}

/// Whose rights a process has (proc_pid_status(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Users: real, effective, saved, and for files.
    pub users: [u32; 4],
    /// The same of groups.
    pub groups: [u32; 4],
    /// Has it any permitted capability?
    pub has_capabilities: bool,
}

impl Credentials {
    /// Those in `/proc/PID/status`.
    #[must_use]
    pub fn read(status: &[u8]) -> Option<Credentials> {
        let field = |name: &str| {
            let mut lines = status.split(|&byte| byte == b'\n');
            lines.find_map(|line| std::str::from_utf8(line.strip_prefix(name.as_bytes())?).ok())
        };
        let numbers = |text: &str| -> Option<[u32; 4]> {
            let numbers: Vec<u32> =
                text.split_ascii_whitespace().take(5).map_while(|n| n.parse().ok()).collect();
            numbers.try_into().ok()
        };
        let capabilities = u64::from_str_radix(field("CapPrm:")?.trim(), 16).ok()?;
        Some(Credentials {
            users: numbers(field("Uid:")?)?,
            groups: numbers(field("Gid:")?)?,
            has_capabilities: capabilities != 0,
        })
    }

    /// Are these other rights than those of a program that `owner` starts?
    #[must_use]
    pub fn are_foreign(&self, owner: u32) -> bool {
        let other_group = self.groups.iter().any(|group| *group != self.groups[0]);
        self.users != [owner; 4] || other_group || self.has_capabilities
    }
}

/// Memory that a process has for itself, and not of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnMemory {
    /// Its own.
    pub private_bytes: u64,
    /// Shared with other processes.
    pub shared_bytes: u64,
}

/// What `/proc/PID/status` says of it; a process that is ending has none.
#[must_use]
pub fn own_memory(status: &[u8]) -> Option<OwnMemory> {
    let (private_bytes, shared_bytes) = (bytes_of(status, "RssAnon:")?, bytes_of(status, "RssShmem:")?);
    Some(OwnMemory { private_bytes, shared_bytes })
}

/// The share of a process in the anonymous memory that it has, bytes, as `/proc/PID/smaps_rollup` says (proc_pid_smaps(5),
/// Linux 5.6): what a fork has left in common counts half in both.
#[must_use]
pub fn share_of_memory(smaps_rollup: &[u8]) -> Option<u64> {
    bytes_of(smaps_rollup, "Pss_Anon:")
}

/// The bytes that a line `NAME: 12 kB` tells.
fn bytes_of(text: &[u8], name: &str) -> Option<u64> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| std::str::from_utf8(line.strip_prefix(name.as_bytes())?).ok())?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The places where the file system of a device (major number times 2^20, plus the minor one) may be mounted, in
/// `/proc/PID/mountinfo` (proc_pid_mountinfo(5)). btrfs is shown there under the device number of no subvolume, so that
/// each of its mounts may be the one.
pub fn mount_points(mountinfo: &[u8], dev: u64) -> impl Iterator<Item = PathBuf> + '_ {
    let device = format!("{}:{}", dev >> 20, dev & 0xf_ffff).into_bytes();
    mountinfo.split(|&byte| byte == b'\n').filter_map(move |line| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let (shown, point) = (fields.next()?, fields.nth(1)?);
        // Behind the optional fields a hyphen, and then the kind of file system.
        let kind = || fields.skip_while(|&field| field != b"-").nth(1);
        let may_be = shown == device || dev >> 20 == 0 && kind() == Some(b"btrfs");
        may_be.then(|| PathBuf::from(unescape(point)))
    })
}

/// Where something is mounted, and the kind of its file system, in the order of the mounts.
pub fn mounts(mountinfo: &[u8]) -> impl Iterator<Item = (PathBuf, &[u8])> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let point = fields.nth(4)?;
        let kind = fields.skip_while(|&field| field != b"-").nth(1)?;
        Some((PathBuf::from(unescape(point)), kind))
    })
}

/// The numbers of all mounts and those of their devices.
pub fn mount_numbers(mountinfo: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ').map(std::str::from_utf8);
        let mut next = || fields.next()?.ok();
        let mount = next()?.parse().ok()?;
        let (major, minor) = next().and_then(|_| next())?.split_once(':')?;
        let number = |text: &str| text.parse::<u64>().ok();
        Some((mount, number(major)? << 20 | number(minor)?))
    })
}

/// What tells each mount from those that come when it is gone, which may have its number: its number, where it is attached, its
/// device, what it shows and where.
pub fn mount_identities(mountinfo: &[u8]) -> impl Iterator<Item = &[u8]> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(|line| {
        let end = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').nth(4)?.0;
        Some(&line[..end])
    })
}

/// Where the mount of this number is, if it is of a disk: of a device with a major number, or of btrfs.
pub fn disk_mounted_as(mountinfo: &[u8], id: u64) -> Option<PathBuf> {
    let id = id.to_string().into_bytes();
    let line = mountinfo
        .split(|&byte| byte == b'\n')
        .find(|line| line.strip_prefix(id.as_slice()).is_some_and(|rest| rest.starts_with(b" ")))?;
    let mut fields = line.split(|&byte| byte == b' ').skip(2);
    let (device, point) = (fields.next()?, fields.nth(1)?);
    let kind = fields.skip_while(|&field| field != b"-").nth(1);
    let is_disk = !device.starts_with(b"0:") || kind == Some(b"btrfs");
    is_disk.then(|| PathBuf::from(unescape(point)))
}

/// Whether the file system of a device is mounted in one place, and no overlay is there that could show its files under
/// other names.
#[must_use]
pub fn is_mounted_once(mountinfo: &[u8], dev: u64) -> bool {
    let is_overlay = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip_while(|&field| field != b"-");
        fields.nth(1) == Some(b"overlay")
    };
    let overlays = mountinfo.split(|&byte| byte == b'\n').any(is_overlay);
    !overlays && mount_points(mountinfo, dev).nth(1).is_none()
}

/// Undoes the octal escapes (`\040` for a space) of mountinfo.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..b'8').contains(digit)));
        let code =
            digits.map(|digits| digits.iter().fold(0_u32, |code, digit| 8 * code + u32::from(digit - b'0')));
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &after[3..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// The part of a mapping that was asked for, and all of it: addresses.
pub type Mapped = (Range<usize>, Range<u64>);

/// The mappings that hold bytes of a file, in a list of mappings (`/proc/PID/maps`), of which only the first part is
/// read. A line that was cut off is no line.
///
/// # Errors
/// When it cannot be read.
pub fn mapped(maps: impl Read, key: FileKey, bytes: Range<u64>) -> io::Result<Vec<Mapped>> {
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
    let (major, minor) = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let ino: u64 = fields.next()?.parse().ok()?;
    if (FileKey { dev: (u64::from(major) << 20) | u64::from(minor), ino }) != key {
        return None;
    }
    let from = start.max(offset);
    let to = end.min(offset.checked_add(high.checked_sub(low)?)?);
    let address = |at: u64| usize::try_from(low.checked_add(at - offset)?).ok();
    if from < to { Some((address(from)?..address(to)?, low..high)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "7f0000010000-7f0000020000 r--s 00004000 fe:01 1234      /data/a file";

    #[test]
    fn a_file_system_that_is_seen_in_two_places_is_not_mounted_once() {
        let once = "28 1 8:1 / / rw - ext4 /dev/sda1 rw\n29 28 8:2 / /d rw shared:1 - xfs /dev/sda2 rw\n";
        let bound = "30 28 8:2 /in /b rw - xfs /dev/sda2 rw\n";
        let overlay = "31 28 0:40 / /o rw - overlay overlay rw,lowerdir=/d\n";
        let is_sole = |text: &[&str]| is_mounted_once(text.concat().as_bytes(), (8 << 20) | 2);
        assert!(is_sole(&[once]));
        assert!(!is_sole(&[once, bound]));
        assert!(!is_sole(&[once, overlay]));
        assert!(is_mounted_once([once, bound].concat().as_bytes(), (8 << 20) | 1));
    }

    #[test]
    fn memory_of_its_own_is_told_from_that_of_files() {
        let status = b"Name:\tRssAnon: 7 kB\nVmRSS:\t  30 kB\nRssAnon:\t      12 kB\nRssFile:\t 17 kB\nRssShmem:\t 1 kB\n";
        let memory = OwnMemory { private_bytes: 12 << 10, shared_bytes: 1 << 10 };
        assert_eq!(own_memory(status), Some(memory));
        assert_eq!(own_memory(b"Name:\tzombie\n"), None);
        let rollup = b"00400000-7fff0000 ---p 00000000 00:00 0  [rollup]\nPss:  90 kB\nPss_Anon:   3 kB\nPss_File: 87 kB\n";
        assert_eq!(share_of_memory(rollup), Some(3 << 10));
        assert_eq!(share_of_memory(b"Pss: 90 kB\n"), None);
        assert_eq!(own_memory(b"RssAnon: 18446744073709551615 kB\nRssShmem: 0 kB\n"), None);
    }

    #[test]
    fn only_so_much_of_a_list_is_read() {
        let key = FileKey { dev: (0xfe << 20) | 1, ino: 1234 };
        let lines = MAPS_BYTES as usize / (LINE.len() + 1);
        let endless = std::iter::repeat_n(format!("{LINE}\n"), 10 * lines).collect::<String>();
        assert_eq!(mapped(endless.as_bytes(), key, 0..u64::MAX).unwrap().len(), lines);
        assert!(mapped(LINE.as_bytes(), key, 0..u64::MAX).unwrap().is_empty(), "cut off");
        let strange = [&LINE.as_bytes()[..LINE.len() - 1], b"\xff\n"].concat();
        assert_eq!(mapped(&strange[..], key, 0..u64::MAX).unwrap().len(), 1);
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
        for line in ["2-1 r--s 0 fe:01 1234", "0-ffffffffffffffff r--s ffffffffffffffff fe:01 1234"] {
            assert_eq!(overlap(line, key, 0, u64::MAX), None, "{line}");
        }
    }

    #[test]
    fn octal_escapes_are_undone() {
        assert_eq!(unescape(b"/mnt/a\\040b\\134"), "/mnt/a b\\");
        assert_eq!(unescape(b"/x\\04"), "/x\\04");
        assert_eq!(unescape(b"/x\\777\\+12"), "/x\\777\\+12", "no byte, and no octal number");
    }

    #[test]
    fn mounts_are_known_by_numbers() {
        let text = b"27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:41 / /a rw - nfs4 s:/ rw\n\nx 1 8:1\n30 1 8\n31 1 7:3 / \xff";
        let found: Vec<_> = mount_numbers(text).collect();
        assert_eq!(found, [(27, 254 << 20), (28, 41), (31, 7 << 20 | 3)]);
    }

    #[test]
    fn mounts_are_told_apart_by_what_does_not_change() {
        let text = b"27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 7:0 /x /a\\040b ro\n\n30 1 8:1 / /c";
        let found: Vec<&[u8]> = mount_identities(text).collect();
        assert_eq!(found, [&b"27 1 254:0 / /"[..], b"28 27 7:0 /x /a\\040b"]);
    }

    #[test]
    fn a_mount_whose_name_is_no_text_hides_no_other_one() {
        let text =
            b"22 1 0:30 / /mnt/\xff\xfe rw - fuse x rw\n23 1 8:1 / /mnt/a\\040b rw - ext4 /dev/sda1 rw\n\
            24 1 8:1 / /mnt/\xff rw - ext4 /dev/sda1 rw\n25 1 8:1\n";
        let points: Vec<PathBuf> = mount_points(text, (8 << 20) | 1).collect();
        let strange = OsString::from_vec(b"/mnt/\xff".to_vec());
        assert_eq!(points, [PathBuf::from("/mnt/a b"), PathBuf::from(strange)]);
    }

    #[test]
    fn mounts_and_their_kinds_are_found() {
        let text = b"27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:41 / /far\\040away rw shared:1 master:2 - nfs4 s:/ rw\n\
                      29 27 0:42 / /nfs rw - tmpfs nfs rw\n30 27 0:43 / /b rw - 9p h rw\n31 27 0:44 / /c rw -\n32 1";
        let found: Vec<(PathBuf, &[u8])> = mounts(text).collect();
        let wanted: [(&str, &[u8]); 4] =
            [("/", b"ext4"), ("/far away", b"nfs4"), ("/nfs", b"tmpfs"), ("/b", b"9p")];
        assert_eq!(found, wanted.map(|(point, kind)| (PathBuf::from(point), kind)));
    }

    #[test]
    fn a_device_may_be_mounted_in_several_places_and_btrfs_anywhere() {
        let mounts = b"27 1 254:0 / / rw - ext4 /dev/vda rw\n28 27 0:41 / /s\\040t rw shared:1 - btrfs /dev/vdb rw\n\
                      29 27 0:42 / /o rw - overlay o rw\n30 27 254:0 /x /y rw - ext4 /dev/vda rw\n31 27 0:43 / /b rw -";
        let of = |dev: u64| mount_points(mounts, dev).collect::<Vec<_>>();
        assert_eq!(of(254 << 20), [PathBuf::from("/"), PathBuf::from("/y")]);
        assert_eq!(of(44), [PathBuf::from("/s t")]);
        assert_eq!(of(255 << 20), [] as [PathBuf; 0]);
    }

    #[test]
    fn rights_that_the_user_has_not_are_seen() {
        let status = |users: &str, groups: &str, capabilities: &str| {
            let text = format!("Name:\tUid: 0\nUid:\t{users}\nGid:\t{groups}\nCapPrm:\t{capabilities}\n");
            Credentials::read(text.as_bytes()).unwrap().are_foreign(7)
        };
        assert!(!status("7\t7\t7\t7", "9\t9\t9\t9", "0000000000000000"));
        assert!(status("7\t0\t0\t0", "9\t9\t9\t9", "0000000000000000"), "set-user-ID");
        assert!(status("0\t0\t0\t0", "9\t9\t9\t9", "0000000000000000"), "su");
        assert!(status("7\t7\t7\t7", "9\t5\t5\t5", "0000000000000000"), "set-group-ID");
        assert!(status("7\t7\t7\t7", "9\t9\t9\t9", "0000000000003000"), "file capabilities");
        assert_eq!(Credentials::read(b"Uid:\t1\t2\n"), None);
    }

    #[test]
    fn a_process_may_have_any_name() {
        assert_eq!(name(b"a\xffb\n"), "a\u{fffd}b");
        assert_eq!(state(b"7 (a) \xff) S 1 2"), Some(b'S'));
        assert_eq!((state(b"7 (a)"), state(b""), state(b"7 (a) ")), (None, None, None));
        let status = b"Name:\t\xff\xfe\nUid:\t7\t7\t7\t7\nGid:\t9\t9\t9\t9\nCapPrm:\t0\n";
        assert!(!Credentials::read(status).unwrap().are_foreign(7));
    }

    #[test]
    fn disks_are_found_by_the_number_of_their_mount() {
        let lines = b"29 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            290 29 7:5 / /mnt/a\\040b rw shared:3 - ext4 /dev/loop5 rw\n\
            31 29 0:40 / /b rw - btrfs /dev/sdb rw\n32 29 0:41 / /t rw - tmpfs none rw\n";
        let of = |id| disk_mounted_as(lines, id);
        assert_eq!(of(29), Some(PathBuf::from("/")));
        assert_eq!(of(290), Some(PathBuf::from("/mnt/a b")));
        assert_eq!(of(31), Some(PathBuf::from("/b")));
        assert_eq!((of(32), of(2), of(33)), (None, None, None), "in memory, and none at all");
    }
}
