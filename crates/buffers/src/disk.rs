//! Parts in a file on a local disk: slots, direct reads and writes of them, and their checksums.
//!
//! The file has no name (open(2), `O_TMPFILE`), so that it is gone with the process that has it, however that ends: what it
//! holds is never taken for the state of an object by a later one. It is read and written past the page cache where its
//! file system can (`O_DIRECT`), by threads that may wait; who wants many parts has many threads wait.

use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;

/// Offsets, lengths and addresses of direct reads and writes are multiples of this: the largest logical block of disks.
const ALIGNED_BYTES: usize = 4096;

/// Slots that nobody has.
#[derive(Debug, Default)]
struct Free {
    /// From here on no slot was ever written.
    next: u32,
    freed: Vec<u32>,
}

/// A file with slots for parts.
#[derive(Debug)]
pub(crate) struct Disk {
    file: File,
    slots: u32,
    slot_bytes: usize,
    free: Mutex<Free>,
}

impl Disk {
    /// A file in a folder, with slots for parts of this size.
    pub(crate) fn new(folder: &Path, slots: u32, part_bytes: u32) -> io::Result<Arc<Disk>> {
        let file = tempfile::tempfile_in(folder)?;
        // Where the file system refuses, the page cache is in between.
        if let Ok(flags) = rustix::fs::fcntl_getfl(&file) {
            let _ = rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT);
        }
        let slot_bytes = Disk::slot_bytes(part_bytes) as usize;
        Ok(Arc::new(Disk { file, slots, slot_bytes, free: Mutex::default() }))
    }

    /// Bytes that a part takes on disk.
    pub(crate) fn slot_bytes(part_bytes: u32) -> u64 {
        u64::from(part_bytes).next_multiple_of(ALIGNED_BYTES as u64)
    }

    fn slot(self: &Arc<Disk>) -> Option<Slot> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match free.freed.pop() {
            Some(number) => number,
            None if free.next < self.slots => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        Some(Slot { disk: self.clone(), number })
    }

    /// Writes a part. An error when the disk is full, or all slots are written or still read.
    pub(crate) fn write(self: &Arc<Disk>, bytes: &[u8]) -> io::Result<Place> {
        let slot = self.slot().ok_or(io::ErrorKind::StorageFull)?;
        let mut scratch = Scratch::new(self.slot_bytes);
        let aligned = scratch.bytes();
        aligned[..bytes.len()].copy_from_slice(bytes);
        let length = bytes.len().next_multiple_of(ALIGNED_BYTES);
        self.file.write_all_at(&aligned[..length], slot.offset())?;
        Ok(Place { length: bytes.len(), check: check(bytes), slot })
    }
}

/// A slot, until it is dropped.
#[derive(Debug)]
struct Slot {
    disk: Arc<Disk>,
    number: u32,
}

impl Slot {
    fn offset(&self) -> u64 {
        u64::from(self.number) * self.disk.slot_bytes as u64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut free = self.disk.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.freed.push(self.number);
    }
}

/// A part on disk.
#[derive(Debug)]
pub(crate) struct Place {
    slot: Slot,
    length: usize,
    check: u64,
}

impl Place {
    /// Bytes of the part.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Reads the part and shows it; an error if it is not what was written.
    pub(crate) fn read<T>(&self, show: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let disk = &self.slot.disk;
        let mut scratch = Scratch::new(disk.slot_bytes);
        let aligned = scratch.bytes();
        let length = self.length.next_multiple_of(ALIGNED_BYTES);
        disk.file.read_exact_at(&mut aligned[..length], self.slot.offset())?;
        let bytes = &aligned[..self.length];
        if check(bytes) != self.check {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not what was written there"));
        }
        Ok(show(bytes))
    }
}

/// SipHash, which the standard library has: 16 KiB take some microseconds, less than a disk.
fn check(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Memory that direct reads and writes may use.
struct Scratch {
    memory: Vec<u8>,
    length: usize,
}

impl Scratch {
    fn new(length: usize) -> Scratch {
        Scratch { memory: vec![0; length + ALIGNED_BYTES], length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.memory.as_ptr().addr().next_multiple_of(ALIGNED_BYTES) - self.memory.as_ptr().addr();
        &mut self.memory[start..start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_it_was_written_and_its_slot_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), 2, 5000).unwrap();
        let all: Vec<Place> = [5000, 1].map(|length| disk.write(&vec![length as u8; length]).unwrap()).into();
        for (place, length) in all.iter().zip([5000, 1]) {
            assert_eq!(place.read(<[u8]>::to_vec).unwrap(), vec![length as u8; length]);
        }
        assert_eq!(disk.write(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop(all);
        disk.write(b"x").unwrap();
        // Nothing of it is to be seen, and it is no larger than it may be.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(disk.file.metadata().unwrap().len() <= 2 * Disk::slot_bytes(5000));
    }

    #[test]
    fn what_was_damaged_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), 1, 4096).unwrap();
        let place = disk.write(&[7; 4096]).unwrap();
        let mut scratch = Scratch::new(4096);
        scratch.bytes()[100] = 1;
        disk.file.write_all_at(scratch.bytes(), 0).unwrap();
        assert_eq!(place.read(|_| ()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        disk.file.set_len(10).unwrap();
        place.read(|_| ()).unwrap_err();
    }
}
