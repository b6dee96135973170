//! Parts in a file on a local disk: slots, direct reads and writes of them, and their checksums.
//!
//! The file has no name (open(2), `O_TMPFILE`), so that it is gone with the process that has it, however that ends: what it
//! holds is never taken for the state of an object by a later one. It is read and written past the page cache where its
//! file system can (`O_DIRECT`), into the pool's memory and out of it without a copy where parts are of whole pages, by the
//! pool's ring (`ring.rs`). Without one, threads that may wait do it; who wants many parts has many threads wait.

use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::memory::{Arena, Buffer, Filling};
use crate::ring::{Begun, Pages, Region, Ring, Rings, Way};

/// Offsets, lengths and addresses of direct reads and writes are multiples of this: the largest logical block of disks.
const ALIGNED_BYTES: usize = 4096;

/// What direct reads and writes of a file must be multiples of, in memory and in the file; `None` where the kernel does not say
/// (before 6.1), 0 where there are none.
pub(crate) fn asks_for(file: impl AsFd) -> Option<usize> {
    let flags = AtFlags::EMPTY_PATH;
    let said = rustix::fs::statx(file, c"", flags, StatxFlags::DIOALIGN).ok()?;
    let bytes = said.stx_dio_mem_align.max(said.stx_dio_offset_align);
    (said.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(bytes as usize)
}

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
    file: Arc<File>,
    slots: u32,
    slot_bytes: usize,
    part_bytes: usize,
    free: Mutex<Free>,
    ring: Option<Arc<Ring>>,
}

impl Disk {
    /// A file in a folder, with slots for parts of this size.
    pub(crate) fn new(folder: &Path, slots: u32, part_bytes: u32, ring: &Rings) -> io::Result<Arc<Disk>> {
        Disk::with_ring(folder, slots, part_bytes, ring.get().ok())
    }

    fn with_ring(
        folder: &Path,
        slots: u32,
        part_bytes: u32,
        ring: Option<Arc<Ring>>,
    ) -> io::Result<Arc<Disk>> {
        let file = tempfile::tempfile_in(folder)?;
        // Where the file system refuses, or asks for more than pages, the page cache is in between.
        if asks_for(&file).is_none_or(|bytes| ALIGNED_BYTES.is_multiple_of(bytes))
            && let Ok(flags) = rustix::fs::fcntl_getfl(&file)
        {
            let _ = rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT);
        }
        let slot_bytes = Disk::slot_bytes(part_bytes) as usize;
        Ok(Arc::new(Disk {
            file: Arc::new(file),
            slots,
            slot_bytes,
            part_bytes: part_bytes as usize,
            free: Mutex::default(),
            ring,
        }))
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

    /// Writes a part, from where it lies in the pool's memory if that can be. An error when the disk is full, or all slots are
    /// written or still read.
    pub(crate) async fn write(self: &Arc<Disk>, buffer: Buffer) -> io::Result<Place> {
        let slot = self.slot().ok_or(io::ErrorKind::StorageFull)?;
        let (length, check) = (buffer.len(), check(&buffer));
        // What lies behind the part in its slot goes along, and is read by nobody.
        let aligned = length.next_multiple_of(ALIGNED_BYTES);
        let written = match &self.ring {
            Some(ring) => {
                let region = match self.is_of_pages() {
                    true => Region::Part(buffer),
                    false => Region::Own(self.copied(&buffer)),
                };
                ring.begin(&self.file, Way::Write, slot.offset(), aligned, region).end().await?.1
            }
            None => {
                let (file, offset, pages) = (self.file.clone(), slot.offset(), self.copied(&buffer));
                drop(buffer);
                blocking(move || file.write_all_at(&pages.bytes()[..aligned], offset).map(|()| aligned))
                    .await?
            }
        };
        if written < length {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Place { length, check, slot })
    }

    /// Do parts lie in the pool's memory as direct reads and writes ask for it?
    fn is_of_pages(&self) -> bool {
        self.part_bytes.is_multiple_of(ALIGNED_BYTES)
    }

    fn copied(&self, bytes: &[u8]) -> Pages {
        let mut pages = Pages::new(self.slot_bytes);
        pages.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        pages
    }
}

/// Has a thread do what may wait.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
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

    /// Begins to read the part, into the pool's memory if that can be.
    pub(crate) fn begin_read(&self, arena: &Arc<Arena>) -> io::Result<Reading> {
        let disk = &self.slot.disk;
        let filling = arena.take(self.length as u32).ok_or(io::ErrorKind::OutOfMemory)?;
        let aligned = self.length.next_multiple_of(ALIGNED_BYTES);
        let Some(ring) = &disk.ring else { return Ok(Reading { filling: Some(filling), begun: None }) };
        let (filling, region) = match disk.is_of_pages() {
            true => (None, Region::Filling(filling)),
            false => (Some(filling), Region::Own(Pages::new(disk.slot_bytes))),
        };
        let begun = ring.begin(&disk.file, Way::Read, self.slot.offset(), aligned, region);
        Ok(Reading { filling, begun: Some(begun) })
    }

    /// Waits for what was begun; an error if it is not what was written.
    pub(crate) async fn end_read(&self, reading: Reading) -> io::Result<Buffer> {
        let disk = &self.slot.disk;
        let filling = match reading {
            Reading { filling, begun: Some(begun) } => match (begun.end().await?, filling) {
                ((Region::Filling(mut filling), read), _) => {
                    filling.was_filled(read);
                    filling
                }
                ((Region::Own(pages), read), Some(mut filling)) => {
                    filling.fill(&pages.bytes()[..read.min(self.length)]);
                    filling
                }
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            },
            Reading { filling, begun: None } => {
                let mut filling = filling.ok_or(io::ErrorKind::InvalidInput)?;
                let (file, offset, slot_bytes) = (disk.file.clone(), self.slot.offset(), disk.slot_bytes);
                let length = self.length;
                blocking(move || {
                    let mut pages = Pages::new(slot_bytes);
                    let aligned = length.next_multiple_of(ALIGNED_BYTES);
                    file.read_exact_at(&mut pages.bytes_mut()[..aligned], offset)?;
                    filling.fill(&pages.bytes()[..length]);
                    Ok(filling)
                })
                .await?
            }
        };
        if check(filling.bytes()) != self.check {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not what was written there"));
        }
        filling.finish().map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }
}

/// A part that is being read.
pub(crate) struct Reading {
    filling: Option<Filling>,
    begun: Option<Begun>,
}

/// SipHash, which the standard library has: 16 KiB take some microseconds, less than a disk.
fn check(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u32 = 5000;

    fn disk(folder: &Path, slots: u32, part_bytes: u32, with_ring: bool) -> Arc<Disk> {
        // Where the kernel refuses one, both are without.
        let ring = with_ring.then(|| Ring::new().ok().map(Arc::new)).flatten();
        Disk::with_ring(folder, slots, part_bytes, ring).unwrap()
    }

    fn part(arena: &Arc<Arena>, length: usize, byte: u8) -> Buffer {
        let mut filling = arena.take(length as u32).unwrap();
        filling.fill(&vec![byte; length]);
        filling.finish().unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
    }

    async fn read(place: &Place, arena: &Arc<Arena>) -> io::Result<Vec<u8>> {
        Ok(place.end_read(place.begin_read(arena)?).await?.to_vec())
    }

    /// By the ring and without it, of pages and not of pages.
    #[test]
    fn a_part_is_read_as_it_was_written_and_its_slot_used_again() {
        for (part_bytes, with_ring) in [(PART, true), (PART, false), (8192, true), (8192, false)] {
            let folder = tempfile::tempdir().unwrap();
            let disk = disk(folder.path(), 2, part_bytes, with_ring);
            let arena = Arena::new(8, 8, part_bytes).unwrap();
            runtime().block_on(async {
                let mut all = Vec::new();
                for length in [part_bytes as usize, 1] {
                    all.push((length, disk.write(part(&arena, length, length as u8)).await.unwrap()));
                }
                for (length, place) in &all {
                    assert_eq!(read(place, &arena).await.unwrap(), vec![*length as u8; *length]);
                }
                let full = disk.write(part(&arena, 1, 1)).await.unwrap_err();
                assert_eq!(full.kind(), io::ErrorKind::StorageFull);
                drop(all);
                disk.write(part(&arena, 1, 1)).await.unwrap();
            });
            assert_eq!(arena.bytes(), 0);
            // Nothing of it is to be seen, and it is no larger than it may be.
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            assert!(disk.file.metadata().unwrap().len() <= 2 * Disk::slot_bytes(part_bytes));
        }
    }

    #[test]
    fn what_was_damaged_is_an_error() {
        for with_ring in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let disk = disk(folder.path(), 1, 4096, with_ring);
            let arena = Arena::new(8, 8, 4096).unwrap();
            runtime().block_on(async {
                let place = disk.write(part(&arena, 4096, 7)).await.unwrap();
                disk.file.write_all_at(Pages::new(4096).bytes(), 0).unwrap();
                assert_eq!(read(&place, &arena).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
                disk.file.set_len(0).unwrap();
                read(&place, &arena).await.unwrap_err();
            });
        }
    }
}
