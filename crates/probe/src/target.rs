//! What is calibrated: a regular file or a block device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foretell_analytic::calibrate::LEAST_BYTES;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use thiserror::Error;

/// The most that a file is used of: what is not in the caches of a disk or of whoever serves it, and small
/// enough for a probe of it to say something.
const MOST_BYTES: u64 = 1 << 40;
/// Alignment of direct reads where the kernel does not say (`statx` before Linux 6.1): a page does everywhere.
const PAGE_BYTES: u64 = 4096;
/// File systems whose files are pages of memory and nothing else (statfs(2)): tmpfs and ramfs.
const MEMORY_MAGICS: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Why something cannot be calibrated. The caller adds its path.
#[derive(Debug, Error)]
pub enum TargetError {
    /// It cannot be opened.
    #[error("{}", match .0.kind() {
        io::ErrorKind::PermissionDenied => "no permission to read it; run as root, or name a file of your own".to_owned(),
        io::ErrorKind::NotFound => "there is no such file; name an existing file of 64 MiB or more on the device".to_owned(),
        _ => format!("{}; name an existing file of 64 MiB or more on the device", .0),
    })]
    Open(#[source] io::Error),
    /// Neither a file nor a block device.
    #[error("is a {0}; name an existing file of 64 MiB or more in it, or the block device")]
    Kind(&'static str),
    /// Not enough of it.
    #[error(
        "has {found_bytes} bytes, and {LEAST_BYTES} are the least that can be calibrated; name a larger file"
    )]
    TooSmall {
        /// Its size.
        found_bytes: u64,
    },
    /// The file has holes, which no device is asked for.
    #[error("has holes, which are read without the device; name a file that was written")]
    Holes,
    /// A read failed.
    #[error("reading at {offset}: {error}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// A file or a block device, opened for timed reads.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    direct: File,
    cached: File,
    /// Bytes that are read of.
    pub span_bytes: u64,
    /// Bytes of the device that it lies on, or its own.
    pub capacity_bytes: u64,
    /// Direct reads begin and end at multiples of this, in the file and in memory.
    pub alignment_bytes: u64,
    /// Whether the page cache is passed by. If not, its pages are dropped before each read.
    pub is_direct: bool,
    /// Whether it lies in memory, so that there is no device to calibrate: only copying is timed.
    pub is_memory: bool,
    /// The block layer's largest request, in bytes, if there is a block device.
    pub max_request_bytes: Option<u64>,
}

impl Target {
    /// Opens `path`.
    ///
    /// # Errors
    ///
    /// [`TargetError`] if it is nothing to calibrate.
    pub fn open(path: &Path) -> Result<Target, TargetError> {
        let cached = File::open(path).map_err(TargetError::Open)?;
        let metadata = cached.metadata().map_err(TargetError::Open)?;
        let kind = metadata.file_type();
        let device = if kind.is_block_device() {
            metadata.rdev()
        } else if kind.is_file() {
            metadata.dev()
        } else if kind.is_dir() {
            return Err(TargetError::Kind("directory"));
        } else if kind.is_char_device() {
            return Err(TargetError::Kind("character device"));
        } else {
            return Err(TargetError::Kind("pipe or socket"));
        };
        let block = BlockDevice::of(device);
        let span_bytes = match (&block, kind.is_block_device()) {
            (Some(block), true) => block.capacity_bytes,
            _ => metadata.len(),
        };
        if span_bytes < LEAST_BYTES {
            return Err(TargetError::TooSmall { found_bytes: span_bytes });
        }
        // Some file systems pack the ends of files, none a tenth of a file of 16 MiB.
        if kind.is_file() && metadata.blocks() * 512 < span_bytes - span_bytes / 10 {
            return Err(TargetError::Holes);
        }
        let opened =
            OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
        let (direct, alignment_bytes, is_direct) = match opened {
            Ok(direct) => match alignment(&direct) {
                Some(alignment_bytes) => (direct, alignment_bytes, true),
                None => (cached.try_clone().map_err(TargetError::Open)?, PAGE_BYTES, false),
            },
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (cached.try_clone().map_err(TargetError::Open)?, PAGE_BYTES, false)
            }
            Err(error) => return Err(TargetError::Open(error)),
        };
        // The name of a block device lies in memory, too.
        let is_memory = kind.is_file()
            && rustix::fs::fstatfs(&cached).is_ok_and(|found| MEMORY_MAGICS.contains(&(found.f_type as u32)));
        Ok(Target {
            path: path.to_owned(),
            direct,
            cached,
            is_memory,
            span_bytes: span_bytes.min(MOST_BYTES),
            capacity_bytes: block.as_ref().map_or(span_bytes, |block| block.capacity_bytes.max(span_bytes)),
            alignment_bytes,
            is_direct,
            max_request_bytes: block.map(|block| block.max_request_bytes),
        })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads past the page cache, as far as that is possible here.
    ///
    /// # Errors
    ///
    /// [`TargetError::Read`].
    pub fn read_direct(&self, buffer: &mut [u8], offset: u64) -> Result<(), TargetError> {
        if !self.is_direct {
            self.drop_cached(offset, buffer.len() as u64);
        }
        self.direct.read_exact_at(buffer, offset).map_err(|error| TargetError::Read { offset, error })
    }

    /// Reads through the page cache.
    ///
    /// # Errors
    ///
    /// [`TargetError::Read`].
    pub fn read_cached(&self, buffer: &mut [u8], offset: u64) -> Result<(), TargetError> {
        self.cached.read_exact_at(buffer, offset).map_err(|error| TargetError::Read { offset, error })
    }

    /// Drops clean pages; whether it does is the kernel's affair.
    pub fn drop_cached(&self, offset: u64, bytes: u64) {
        let length = std::num::NonZeroU64::new(bytes);
        let _ = rustix::fs::fadvise(&self.cached, offset, length, rustix::fs::Advice::DontNeed);
    }

    /// The file opened anew, so that the kernel knows nothing of how it was read.
    ///
    /// # Errors
    ///
    /// [`TargetError::Open`].
    pub fn reopened(&self) -> Result<File, TargetError> {
        File::open(&self.path).map_err(TargetError::Open)
    }
}

/// What direct reads must be aligned to; `None` if the file system has none.
fn alignment(file: &File) -> Option<u64> {
    let statx = rustix::fs::statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let known = statx.filter(|s| s.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    match known {
        // Both are 0 where direct I/O is not supported (statx(2)).
        Some(statx) if statx.stx_dio_offset_align == 0 => None,
        Some(statx) => Some(u64::from(statx.stx_dio_mem_align.max(statx.stx_dio_offset_align))),
        None => Some(PAGE_BYTES),
    }
}

/// What sysfs says of a block device.
struct BlockDevice {
    capacity_bytes: u64,
    max_request_bytes: u64,
}

impl BlockDevice {
    fn of(device: u64) -> Option<BlockDevice> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let directory = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let number = |path: &str| -> Option<u64> {
            // A partition has its queue in the directory of the whole disk.
            let read = |path: PathBuf| std::fs::read_to_string(path).ok();
            let text = read(directory.join(path)).or_else(|| read(directory.join("..").join(path)))?;
            text.trim().parse().ok()
        };
        // In sectors of 512 bytes, whatever the device's own are.
        let capacity_bytes = number("size")?.checked_mul(512)?;
        let bytes = number("queue/max_sectors_kb")?.checked_mul(1024)?;
        // A page a segment, as in a fragmented memory.
        let segments = number("queue/max_segments").unwrap_or(u64::MAX).saturating_mul(PAGE_BYTES);
        Some(BlockDevice { capacity_bytes, max_request_bytes: bytes.min(segments).max(PAGE_BYTES) })
    }
}
