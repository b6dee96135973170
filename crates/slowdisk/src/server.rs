//! The device itself: a FUSE file whose reads take as long as the model says.
//!
//! One thread receives requests, asks the [`Model`] when and on which channel each will be complete, and
//! hands it to that channel's thread. A channel's thread copies the data, sleeps until the absolute moment
//! of completion and answers; moments on one channel never decrease, so its queue is first in, first out.
//! Both files are opened with FUSE's direct I/O: nothing is cached between the loop device and here.
//!
//! The root directory holds `disk`, the bytes of the device, and `stats.json`, its [`Counters`].

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use crate::counters::{Direction, LiveCounters};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::options::{Backing, Options};

/// The file that holds the bytes.
pub(crate) const DISK_FILE: &str = "disk";
/// The file that holds the counters.
pub(crate) const STATS_FILE: &str = "stats.json";

const DISK_INODE: INodeNo = INodeNo(2);
const STATS_INODE: INodeNo = INodeNo(3);
/// Attributes never change, so the kernel may keep them for good.
const TTL: Duration = Duration::from_secs(86_400);
/// Largest request: what the kernel sends at most (256 pages, `FUSE_DEFAULT_MAX_PAGES_LIMIT`).
const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Asynchronous requests that the kernel may have outside at once: more than a loop device ever sends
/// (128, its `hw_queue_depth`), so that FUSE itself never holds one back.
const MAX_BACKGROUND: u16 = 256;
/// Requests that may wait on one channel; at the limit the receiving thread waits, and with it the kernel.
/// Cannot be reached while it is not below [`MAX_BACKGROUND`].
const CHANNEL_QUEUE: usize = MAX_BACKGROUND as usize;

/// An answer that is due at a moment.
struct Job {
    due_ns: u64,
    answer: Answer,
}

enum Answer {
    Read { offset: u64, length: u32, reply: ReplyData },
    Written { length: u32, reply: ReplyWrite },
}

/// The mounted file system and its channels' threads.
pub(crate) struct Server {
    session: Session<SlowFile>,
}

impl Server {
    /// Mounts the device's files at `directory`.
    pub(crate) fn mount(options: &Options, directory: &Path, source: &str) -> Result<Self> {
        let backing = open_backing(options)?;
        let file = SlowFile::start(options, backing)
            .map_err(|error| Error::system("start the threads of the device", error))?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(source.to_owned()), MountOption::NoAtime, MountOption::NoExec];
        let session = Session::new(file, directory, &config).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing {
                what: "/dev/fuse".to_owned(),
                remedy: "load the kernel's FUSE driver (modprobe fuse)".to_owned(),
            },
            _ => Error::system(format!("mount FUSE at {}", directory.display()), error),
        })?;
        Ok(Self { session })
    }

    /// Serves until the file system is unmounted.
    pub(crate) fn run(self) -> Result<()> {
        self.session.run().map_err(|error| Error::system("serve the device", error))
    }
}

/// Opens what holds the bytes, as large as the device.
fn open_backing(options: &Options) -> Result<File> {
    let open = || -> io::Result<File> {
        let file = match &options.backing {
            Backing::Memory => {
                let flags = rustix::fs::MemfdFlags::CLOEXEC;
                File::from(rustix::fs::memfd_create("foretell-slowdisk", flags)?)
            }
            Backing::File(path) => {
                File::options().read(true).write(true).create(true).truncate(false).open(path)?
            }
        };
        if file.metadata()?.len() < options.size_bytes {
            file.set_len(options.size_bytes)?;
        }
        Ok(file)
    };
    open().map_err(|error| match &options.backing {
        Backing::Memory => Error::system("make the memory of the device", error),
        Backing::File(path) => Error::system(format!("open {}", path.display()), error),
    })
}

fn now_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Sleeps until `due_ns` and says by how much the waking came late.
fn sleep_until(due_ns: u64) -> u64 {
    let due = Timespec {
        tv_sec: (due_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (due_ns % 1_000_000_000).cast_signed(),
    };
    loop {
        let now_ns = now_ns();
        if now_ns >= due_ns {
            return now_ns - due_ns;
        }
        // Interrupted or not: the clock decides.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &due);
    }
}

/// Serves one channel until the file system is gone.
fn serve_channel(jobs: &Receiver<Job>, backing: &File, counters: &LiveCounters) {
    let mut buffer = Vec::new();
    for Job { due_ns, answer } in jobs {
        match answer {
            Answer::Read { offset, length, reply } => {
                // Copied before the sleep, so that the copy is part of the delay and not added to it.
                buffer.resize(length as usize, 0);
                let outcome = read_up_to(backing, &mut buffer, offset);
                counters.leave(sleep_until(due_ns));
                match outcome {
                    Ok(read) => reply.data(&buffer[..read]),
                    Err(error) => reply.error(Errno::from(error)),
                }
            }
            Answer::Written { length, reply } => {
                counters.leave(sleep_until(due_ns));
                reply.written(length);
            }
        }
    }
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The file system.
struct SlowFile {
    size_bytes: u64,
    slow_writes: bool,
    backing: Arc<File>,
    counters: Arc<LiveCounters>,
    model: Mutex<Model>,
    channels: Vec<SyncSender<Job>>,
}

impl SlowFile {
    fn start(options: &Options, backing: File) -> io::Result<Self> {
        let backing = Arc::new(backing);
        let counters = Arc::new(LiveCounters::default());
        let channels = (0..options.timing.channels)
            .map(|index| {
                let (sender, receiver) = sync_channel(CHANNEL_QUEUE);
                let (backing, counters) = (Arc::clone(&backing), Arc::clone(&counters));
                std::thread::Builder::new()
                    .name(format!("channel-{index}"))
                    .spawn(move || serve_channel(&receiver, &backing, &counters))?;
                Ok(sender)
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            size_bytes: options.size_bytes,
            slow_writes: options.slow_writes,
            backing,
            counters,
            model: Mutex::new(Model::new(options.timing)),
            channels,
        })
    }

    /// Charges a request and returns its channel and the moment of its answer.
    fn admit(&self, direction: Direction, offset: u64, length: u64) -> (usize, u64) {
        self.counters.enter();
        let service = {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            // Read under the lock: the model wants arrivals in order.
            model.admit(now_ns(), offset, length)
        };
        self.counters.charge(direction, length, service.sought, service.done_ns - service.start_ns);
        (service.channel, service.done_ns)
    }

    fn send(&self, channel: usize, due_ns: u64, answer: Answer) {
        // A channel's thread ends only with this structure; should it have died, its request is dropped
        // and FUSE answers it with an error.
        let _ = self.channels[channel].send(Job { due_ns, answer });
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o500, 0),
            DISK_INODE => (FileType::RegularFile, 0o600, self.size_bytes),
            STATS_INODE => (FileType::RegularFile, 0o444, 0),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: MAX_REQUEST_BYTES,
            flags: 0,
        })
    }
}

impl Filesystem for SlowFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without asynchronous direct I/O the loop device would wait for each request in turn.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::other("this kernel's FUSE has no asynchronous direct I/O"))?;
        let refused = |_| io::Error::other("the FUSE library refused the request size");
        config.set_max_write(MAX_REQUEST_BYTES).map_err(refused)?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| io::Error::other("no background requests"))?;
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = match name.to_str() {
            Some(DISK_FILE) if parent == INodeNo::ROOT => DISK_INODE,
            Some(STATS_FILE) if parent == INodeNo::ROOT => STATS_INODE,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.attributes(inode) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Answers as if done: the kernel sends time stamps here, which the device does not keep.
    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            // A device has the size it has.
            Some(attributes) if size.is_none_or(|size| size == attributes.size) => {
                reply.attr(&TTL, &attributes);
            }
            Some(_) => reply.error(Errno::EPERM),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match inode {
            DISK_INODE => {
                let (channel, due_ns) = self.admit(Direction::Read, offset, u64::from(size));
                self.send(channel, due_ns, Answer::Read { offset, length: size, reply });
            }
            STATS_INODE => match serde_json::to_vec(&self.counters.read()) {
                Ok(text) => {
                    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                    let to = from.saturating_add(size as usize).min(text.len());
                    reply.data(&text[from..to]);
                }
                Err(_) => reply.error(Errno::EIO),
            },
            _ => reply.error(Errno::EISDIR),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u64;
        if inode != DISK_INODE || offset.saturating_add(length) > self.size_bytes {
            return reply.error(Errno::EFBIG);
        }
        if let Err(error) = self.backing.write_all_at(data, offset) {
            return reply.error(Errno::from(error));
        }
        // Requests are limited to MAX_REQUEST_BYTES.
        let written = u32::try_from(length).unwrap_or(u32::MAX);
        if self.slow_writes {
            let (channel, due_ns) = self.admit(Direction::Write, offset, length);
            self.send(channel, due_ns, Answer::Written { length: written, reply });
        } else {
            self.counters.charge(Direction::Write, length, false, 0);
            reply.written(written);
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Discards and zeroing, which free the memory behind the range.
    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_truncate(mode.cast_unsigned());
        let frees = flags.contains(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
        if inode != DISK_INODE || !frees {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match rustix::fs::fallocate(&self.backing, flags, offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK_INODE, FileType::RegularFile, DISK_FILE),
            (STATS_INODE, FileType::RegularFile, STATS_FILE),
        ];
        for (position, (inode, kind, name)) in (1u64..).zip(entries) {
            if position > offset && reply.add(inode, position, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
