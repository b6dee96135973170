//! Loop devices through `/dev/loop-control` (`include/uapi/linux/loop.h`).
//!
//! A slow device gets a loop device of its own, added for it and removed afterwards, instead of the next
//! free one: the block queue's settings (elevator, depth, readahead) outlive a loop device's use, and
//! would be found by whoever uses it next.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode};

use crate::error::{Error, Result};

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_ADD: Opcode = 0x4C80;
const LOOP_CTL_REMOVE: Opcode = 0x4C81;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// First number tried: beyond what `losetup --find` and containers usually take.
const FIRST_NUMBER: u32 = 64;
/// One past the last number tried.
const LAST_NUMBER: u32 = 1024;
/// Logical block size of the device: ext4's, so that no request is smaller than a page.
const BLOCK_BYTES: u32 = 4096;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

impl LoopInfo64 {
    const ZERO: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `/dev/loopN` of a number.
pub(crate) fn path_of(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Adds a loop device that nobody uses and returns its number.
pub(crate) fn add() -> Result<u32> {
    let control = open_control()?;
    for number in FIRST_NUMBER..LAST_NUMBER {
        match control_call::<LOOP_CTL_ADD>(&control, number) {
            Ok(()) => return Ok(number),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(Error::system(format!("add {}", path_of(number).display()), error)),
        }
    }
    Err(Error::system("add a loop device", format!("numbers {FIRST_NUMBER} to {LAST_NUMBER} are all taken")))
}

/// Binds the loop device to `backing` with direct I/O, so that the backing file's pages are not cached a
/// second time; it unbinds by itself when its last user closes it. The returned file is a user.
pub(crate) fn configure(number: u32, backing: &Path) -> Result<File> {
    let path = path_of(number);
    let action = || format!("bind {} to {}", path.display(), backing.display());
    let open = |path: &Path| {
        OpenOptions::new().read(true).write(true).open(path).map_err(|error| Error::system(action(), error))
    };
    let backing_file = open(backing)?;
    let device = open(&path)?;
    let config = LoopConfig {
        fd: backing_file.as_raw_fd().cast_unsigned(),
        block_size: BLOCK_BYTES,
        info: LoopInfo64 { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..LoopInfo64::ZERO },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` through the pointer; `LoopConfig` is that
    // structure field by field (repr(C)), and the descriptor in it is open during the call.
    let outcome = unsafe {
        let call = ioctl::Setter::<LOOP_CONFIGURE, LoopConfig>::new(config);
        ioctl::ioctl(device.as_fd(), call)
    };
    outcome.map_err(|error| Error::system(action(), error))?;
    if status(&device)?.flags & LO_FLAGS_DIRECT_IO == 0 {
        return Err(Error::system(action(), "the kernel refused direct I/O"));
    }
    Ok(device)
}

/// Unbinds the loop device if it is bound, waits until its last user has let go, and removes it.
///
/// Nothing happens if there is no device of this number, or if it is bound to another file than
/// `backing`: then it is somebody else's by now.
pub(crate) fn remove(number: u32, backing: &Path, patience: Duration) -> Result<()> {
    let path = path_of(number);
    let deadline = Instant::now() + patience;
    let control = open_control()?;
    loop {
        if !path.exists() {
            return Ok(());
        }
        match bound_file(number) {
            Some(bound) if bound != backing => return Ok(()),
            Some(_) => {
                if let Ok(device) = File::open(&path) {
                    // SAFETY: LOOP_CLR_FD takes no argument.
                    let call = unsafe { ioctl::NoArg::<LOOP_CLR_FD>::new() };
                    // SAFETY: as above. A refusal (unbound meanwhile) shows in the next round.
                    let _ = unsafe { ioctl::ioctl(device.as_fd(), call) };
                }
            }
            None => match control_call::<LOOP_CTL_REMOVE>(&control, number) {
                Ok(()) | Err(Errno::NODEV) => return Ok(()),
                Err(Errno::BUSY) => {}
                Err(error) => return Err(Error::system(format!("remove {}", path.display()), error)),
            },
        }
        if Instant::now() >= deadline {
            return Err(Error::system(format!("remove {}", path.display()), "it is still in use"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The file that a loop device is bound to, as sysfs shows it.
fn bound_file(number: u32) -> Option<PathBuf> {
    let path = format!("/sys/block/loop{number}/loop/backing_file");
    std::fs::read_to_string(path).ok().map(|text| PathBuf::from(text.trim_end_matches('\n')))
}

fn status(device: &File) -> Result<LoopInfo64> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, which `LoopInfo64` is.
    let outcome = unsafe {
        let call = ioctl::Getter::<LOOP_GET_STATUS64, LoopInfo64>::new();
        ioctl::ioctl(device.as_fd(), call)
    };
    outcome.map_err(|error| Error::system("read the state of the loop device", error))
}

fn open_control() -> Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/loop-control").map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            Error::Missing {
                what: "/dev/loop-control".to_owned(),
                remedy: "load the kernel's loop driver (modprobe loop)".to_owned(),
            }
        } else {
            Error::system("open /dev/loop-control", error)
        }
    })
}

/// A loop-control call, whose argument is the device number itself.
fn control_call<const OPCODE: Opcode>(control: &File, number: u32) -> rustix::io::Result<()> {
    // SAFETY: the calls used here (LOOP_CTL_ADD, LOOP_CTL_REMOVE) take an integer and no pointer.
    unsafe {
        let call = ioctl::IntegerSetter::<OPCODE>::new_usize(number as usize);
        ioctl::ioctl(control.as_fd(), call)
    }
}
