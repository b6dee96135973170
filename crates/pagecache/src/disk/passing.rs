//! What lies between two files on a disk with an arm, read so that the arm goes on and need not move.
//!
//! A disk passes over a gap no quicker than it reads it, and a request that leaves a gap out may cost a whole movement. A gap within
//! a file is read with the file. One between two files belongs to other files, to nobody, or to the file system. It is read
//! from the device itself and past the page cache (`O_DIRECT`, open(2)), into memory that is thrown away: no page of anybody's
//! comes or goes by that, and nobody is told what it held.
//!
//! The program's own reads must not come between the files and the gaps, or the arm moves there and back for each. So all of a
//! train is asked for before the first of it is there, the gaps as well: by the kernel's asynchronous reads (io_submit(2)).
//!
//! The device is opened for each train and closed again, as some want it for themselves: who detaches a loop device, removes a
//! volume or stops an array. Where it cannot be opened (rights, a container, a network or several devices), or the kernel has no
//! such reads, no gap is read.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a gap at most, so that no large memory is taken for it. A disk of 130 MB/s reads them in the 8 ms of a movement.
pub(crate) const GAP_BYTES: u64 = 1 << 20;
/// Gaps of a train at most: it has no more requests.
const GAPS: usize = 64;
/// What memory for `O_DIRECT` must be aligned to at most: a page.
const MEMORY_BYTES: usize = 4096;
/// What places on the device must be multiples of: a sector. Where it takes more, the read is refused.
const SECTOR_BYTES: u64 = 512;

/// How the gaps of one device are read.
#[derive(Debug)]
pub(super) struct Passing {
    /// Its node, and the number that this must have.
    node: Option<(PathBuf, u64)>,
    /// It could not be read once.
    is_refused: AtomicBool,
    /// Bytes that were asked for.
    asked_bytes: AtomicU64,
}

impl Passing {
    /// Of a device of which nothing is known: no gap is read.
    pub(super) fn none() -> Passing {
        Passing { node: None, is_refused: AtomicBool::new(false), asked_bytes: AtomicU64::new(0) }
    }

    /// Of the device that sysfs describes in a directory.
    pub(super) fn of_device(sysfs: &str, dev: u64) -> Passing {
        let told = std::fs::read_to_string(format!("{sysfs}/uevent")).unwrap_or_default();
        let name = told.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let rdev = libc::makedev((dev >> 20) as u32, (dev & 0xf_ffff) as u32);
        name.map_or_else(Passing::none, |name| Passing::of_node(PathBuf::from("/dev").join(name), rdev))
    }

    /// Of the device that has this node and this number.
    pub(super) fn of_node(path: PathBuf, rdev: u64) -> Passing {
        Passing { node: Some((path, rdev)), ..Passing::none() }
    }

    /// Whether a gap may be read, as far as is known.
    pub(super) fn is_possible(&self) -> bool {
        self.node.is_some() && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Asks for what lies there on the device; what has been asked for is `under_way`.
    pub(super) fn begin(&self, gap: &Range<u64>, under_way: &mut Passed) {
        if gap.is_empty() || !self.is_possible() {
            return;
        }
        if under_way.device.is_none() {
            under_way.device = self.open();
        }
        match under_way.begin(gap) {
            Ok(bytes) => _ = self.asked_bytes.fetch_add(bytes, Ordering::Relaxed),
            Err(_) => self.is_refused.store(true, Ordering::Relaxed),
        }
    }

    /// Bytes that were asked for so far.
    pub(super) fn asked_bytes(&self) -> u64 {
        self.asked_bytes.load(Ordering::Relaxed)
    }

    fn open(&self) -> Option<File> {
        let (path, rdev) = self.node.as_ref()?;
        let flags = libc::O_DIRECT | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let device = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        // In a container /dev may hold something else by that name.
        let told = device.metadata().ok()?;
        (told.file_type().is_block_device() && told.rdev() == *rdev).then_some(device)
    }
}

/// `struct iocb` of `include/uapi/linux/aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct Control {
    data: u64,
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `IOCB_CMD_PREAD` of the same.
const READ: u16 = 0;

/// `struct io_event` of the same.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    second_result: i64,
}

/// The gaps of one train that are being read. They are waited for when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    device: Option<File>,
    /// The kernel's number of these reads; 0 before the first.
    context: libc::c_ulong,
    under_way: usize,
    /// Where all gaps are read to, one over the other: nobody looks at it.
    memory: Vec<u8>,
}

impl Passed {
    /// Says how many bytes were asked for.
    fn begin(&mut self, gap: &Range<u64>) -> io::Result<u64> {
        let device = self.device.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let bytes = (gap.end - gap.start).min(GAP_BYTES);
        if !gap.start.is_multiple_of(SECTOR_BYTES)
            || !bytes.is_multiple_of(SECTOR_BYTES)
            || self.under_way == GAPS
        {
            return Ok(0);
        }
        if self.context == 0 {
            let most = libc::c_long::try_from(GAPS).unwrap_or(libc::c_long::MAX);
            // SAFETY: the kernel writes a number to where the context is kept.
            if unsafe { libc::syscall(libc::SYS_io_setup, most, &raw mut self.context) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.memory = vec![0; GAP_BYTES as usize + MEMORY_BYTES];
        }
        let from = self.memory.as_ptr().align_offset(MEMORY_BYTES);
        let aligned =
            self.memory.get_mut(from..from.saturating_add(bytes as usize)).ok_or(io::ErrorKind::Other)?;
        let control = Control {
            opcode: READ,
            descriptor: device.as_raw_fd().cast_unsigned(),
            buffer: aligned.as_mut_ptr() as u64,
            bytes,
            offset: gap.start.cast_signed(),
            ..Control::default()
        };
        let controls = [&raw const control];
        // SAFETY: the kernel reads the structure during the call. It writes `bytes` bytes to memory that stays where it is until
        // all reads have ended: the vector is neither touched nor freed before `drop` has waited for them.
        let begun =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, controls.as_ptr()) };
        if begun != 1 {
            return Err(io::Error::last_os_error());
        }
        self.under_way += 1;
        Ok(bytes)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if self.context == 0 {
            return;
        }
        let mut events = [Event::default(); GAPS];
        let count = libc::c_long::try_from(self.under_way).unwrap_or(0);
        // SAFETY: the kernel writes at most `count` events, for which there is room. What did not come, as a signal was caught,
        // is waited for by io_destroy(2): when that returns nothing is written to our memory any more.
        unsafe {
            let none = ptr::null_mut::<libc::timespec>();
            libc::syscall(libc::SYS_io_getevents, self.context, count, count, events.as_mut_ptr(), none);
            libc::syscall(libc::SYS_io_destroy, self.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_is_tried_once() {
        for node in ["/dev/null", "/nowhere/at/all"] {
            let passing = Passing::of_node(node.into(), 0);
            passing.begin(&(8192..8192), &mut Passed::default());
            assert!(passing.is_possible(), "nothing was to be read");
            passing.begin(&(0..4096), &mut Passed::default());
            assert!(!passing.is_possible(), "{node}");
        }
        assert!(!Passing::none().is_possible());
        assert!(!Passing::of_device("/sys/dev/block/4095:1048575", u64::MAX).is_possible());
    }

    #[test]
    fn gaps_are_read_past_the_page_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let Ok(device) = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path()) else {
            println!("skipped: gaps_are_read_past_the_page_cache: no O_DIRECT in {}", file.path().display());
            return;
        };
        let mut passed = Passed::default();
        passed.device = Some(device);
        // More than there are places for are left out; one at the end, beyond it, and between sectors.
        for gap in (0..GAPS as u64 + 9).map(|at| at * 4096..(at + 2) * 4096) {
            passed.begin(&gap).unwrap();
        }
        assert_eq!(passed.under_way, GAPS);
        drop(passed);
        let mut passed = Passed::default();
        passed.device = Some(File::open(file.path()).unwrap());
        for gap in [(4 << 20) - 4096..(4 << 20) + 4096, 8 << 20..9 << 20, 100..200] {
            passed.begin(&gap).unwrap();
        }
        assert_eq!(passed.under_way, 2);
    }
}
