//! A file read from beginning to end, several times, in each of the ways that programs have.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{IoSliceMut, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use rustix::pipe::{SpliceFlags, pipe, splice};

/// A page of every machine that this runs on, or a part of one.
const PAGE_BYTES: usize = 4096;
/// What a pipe holds unless somebody asks for more (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// How the file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    Read,
    Pread,
    Readv,
    Splice,
    Sendfile,
    Mmap,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Read => "read",
            Way::Pread => "pread",
            Way::Readv => "readv",
            Way::Splice => "splice",
            Way::Sendfile => "sendfile",
            Way::Mmap => "mmap",
        }
    }
}

/// What to read, and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct Told {
    file: PathBuf,
    #[arg(long, value_enum)]
    way: Way,
    /// Bytes of a read.
    #[arg(long)]
    read_bytes: usize,
    #[arg(long)]
    passes: u64,
    /// Processes that read it, each all of it, at the same time.
    #[arg(long, default_value_t = 1)]
    readers: usize,
}

/// Reads as told; gives how many reads that were.
pub(crate) fn run(told: &Told) -> Result<u64> {
    ensure!(told.read_bytes >= 2, "a read has two bytes at least");
    let others: Result<Vec<Child>> = (1..told.readers).map(|_| start_another(told)).collect();
    let mut reads = 0;
    for _ in 0..told.passes {
        reads += pass(told)?;
    }
    for mut other in others? {
        let status = other.wait().context("cannot wait for another reader")?;
        ensure!(status.success(), "another reader ended with {status}");
    }
    Ok(reads)
}

fn start_another(told: &Told) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("cannot find the running program")?);
    command.args(["reader", "ways"]).arg(&told.file).args(["--way", told.way.name()]);
    command.args(["--read-bytes", &told.read_bytes.to_string(), "--passes", &told.passes.to_string()]);
    command.stdout(Stdio::null()).spawn().context("cannot start another reader")
}

/// Once from beginning to end.
fn pass(told: &Told) -> Result<u64> {
    let mut file = File::open(&told.file).with_context(|| format!("cannot open {}", told.file.display()))?;
    let size = usize::try_from(file.metadata()?.len())?;
    if told.way == Way::Mmap {
        touch(&file, size)?;
        return Ok(size.div_ceil(PAGE_BYTES) as u64);
    }
    let mut buffer = vec![0; told.read_bytes];
    let nowhere = File::options().write(true).open("/dev/null")?;
    let (from, into) = pipe()?;
    let mut reads = 0;
    for offset in (0..size).step_by(told.read_bytes) {
        let length = told.read_bytes.min(size - offset);
        match told.way {
            Way::Read => file.read_exact(&mut buffer[..length])?,
            Way::Pread => file.read_exact_at(&mut buffer[..length], offset as u64)?,
            Way::Readv => {
                let (first, second) = buffer[..length].split_at_mut(length / 2);
                let read = file.read_vectored(&mut [IoSliceMut::new(first), IoSliceMut::new(second)])?;
                if read < length {
                    file.seek(std::io::SeekFrom::Start((offset + length) as u64))?;
                }
            }
            Way::Splice => through(&file, (&from, &into), &nowhere, length)?,
            Way::Sendfile => {
                let mut left = length;
                while left > 0 {
                    let sent = rustix::fs::sendfile(&nowhere, &file, None, left)?;
                    ensure!(sent > 0, "{} has become shorter", told.file.display());
                    left -= sent;
                }
            }
            Way::Mmap => {}
        }
        reads += 1;
    }
    Ok(reads)
}

/// Moves bytes from a file through a pipe to where they are forgotten.
fn through(file: &File, (from, into): (&OwnedFd, &OwnedFd), nowhere: &File, length: usize) -> Result<()> {
    let mut left = length;
    while left > 0 {
        let mut moved = splice(file, None, into, None, left.min(PIPE_BYTES), SpliceFlags::empty())?;
        ensure!(moved > 0, "the file has become shorter");
        left -= moved;
        while moved > 0 {
            moved -= splice(from, None, nowhere, None, moved, SpliceFlags::empty())?;
        }
    }
    Ok(())
}

/// Maps the file and looks at each page once.
fn touch(file: &File, size: usize) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    // SAFETY: a new mapping, of which no more is looked at than the file has, and which is gone before this returns. That
    // nobody makes the benchmark's own file shorter meanwhile is the benchmark's business.
    unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        let address = libc::mmap(std::ptr::null_mut(), size, read, shared, file.as_raw_fd(), 0);
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("cannot map the file");
        }
        for page in (0..size).step_by(PAGE_BYTES) {
            std::ptr::read_volatile(address.cast::<u8>().add(page));
        }
        libc::munmap(address, size);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_reads_all_of_a_file_that_ends_within_a_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, vec![7; 300_000]).unwrap();
        for way in Way::value_variants() {
            let told = Told { file: file.clone(), way: *way, read_bytes: 65_536, passes: 2, readers: 1 };
            let reads = if *way == Way::Mmap { 2 * 74 } else { 2 * 5 };
            assert_eq!(run(&told).unwrap(), reads, "{way:?}");
        }
    }
}
