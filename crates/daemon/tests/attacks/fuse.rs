//! A file system that answers everything but `FLUSH`: to close one of its files takes for ever.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Operations of `include/uapi/linux/fuse.h`.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const BATCH_FORGET: u32 = 42;
const ENOSYS: i32 = -38;

/// The one file, besides the root.
const FILE: u64 = 2;

/// Mounted until it is dropped; then all that waits for an answer gets an error.
pub(super) struct Silent {
    pub(super) file: PathBuf,
    directory: PathBuf,
    connection: u32,
}

impl Silent {
    /// `None` where there is no FUSE.
    pub(super) fn mount(directory: &Path) -> Option<Silent> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        std::fs::create_dir(directory).unwrap();
        let number = device.as_raw_fd();
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
        let data = std::ffi::CString::new(data).unwrap();
        mount("silent", directory, "fuse", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str()).unwrap();
        std::thread::spawn(move || serve(device));
        let dev = std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(directory).unwrap());
        // A device number without a major one: its name in the control file system.
        Some(Silent {
            file: directory.join("f"),
            directory: directory.to_owned(),
            connection: rustix::fs::minor(dev),
        })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let control = Path::new("/sys/fs/fuse/connections");
        let abort = control.join(self.connection.to_string()).join("abort");
        let mounted =
            !abort.exists() && mount("fusectl", control, "fusectl", MountFlags::empty(), None).is_ok();
        let aborted = std::fs::write(&abort, "1");
        if mounted {
            let _ = unmount(control, UnmountFlags::empty());
        }
        let _ = unmount(&self.directory, UnmountFlags::DETACH);
        aborted.unwrap();
    }
}

fn serve(mut device: File) {
    let mut request = vec![0; 1 << 17];
    while let Ok(length) = device.read(&mut request) {
        if length < 40 {
            return;
        }
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let (operation, unique, node) = (word(4), long(8), long(16));
        let (error, body) = match operation {
            FLUSH | FORGET | BATCH_FORGET => continue,
            INIT => {
                // Version 7.31, no readahead, no flags, some background, 4096 bytes a write.
                let words = [7_u32, 31, 0, 0, 12 << 16 | 16, 4096];
                let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                body.resize(64, 0);
                (0, body)
            }
            // Node, generation, and for how long (an hour) name and attributes are good.
            LOOKUP => (0, [longs(&[FILE, 0, 3600, 3600, 0]), attributes(FILE)].concat()),
            GETATTR => (0, [longs(&[3600, 0]), attributes(node)].concat()),
            OPEN => (0, longs(&[1, 0])),
            RELEASE => (0, Vec::new()),
            _ => (ENOSYS, Vec::new()),
        };
        let length = 16 + body.len() as u32;
        let header = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes()].concat();
        if device.write_all(&[header, body].concat()).is_err() {
            return;
        }
    }
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let mode = if node == FILE { 0o100_644_u32 } else { 0o040_755 };
    let mut bytes = longs(&[node, 8192, 16, 0, 0, 0]);
    // Nanoseconds, mode, links, user, group, device, block size, flags.
    bytes.extend([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()));
    bytes
}
