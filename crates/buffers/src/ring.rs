//! Reads and writes of local files by io_uring(7): begun from any thread, ended by one thread that waits for all of them.
//!
//! An operation owns its file and its memory until the kernel is done with them, so that whoever waits for it may stop to.
//! Submissions are made under a lock, completions are taken by the thread of the ring alone, and operations beyond the size of
//! the ring wait in a queue of their own.
//!
//! Where the kernel refuses (seccomp(2), `kernel.io_uring_disabled`, no memory to be locked) there is no ring, and files are read
//! by threads that may wait ([`crate::Pool::remark`] says so).

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use io_uring::{IoUring, opcode, types};
use tokio::sync::oneshot;

use crate::memory::{Buffer, Filling};

/// Operations that the kernel has at a time: more than keep a disk busy whose queue is worth it.
const ENTRIES: u32 = 64;
/// Times that the kernel is asked to take something for which it has no memory at the moment.
const SUBMISSIONS: usize = 1000;
/// What tells the thread of the ring that it is to end.
const END: u64 = u64::MAX;

/// Memory that the kernel reads from or writes into.
#[derive(Debug)]
pub(crate) enum Region {
    /// Of the operation's own.
    Own(Pages),
    /// A part that is being filled.
    Filling(Filling),
    /// A part, to be written to a file.
    Part(Buffer),
}

impl Region {
    /// Where it begins, and how much of it there is, what lies behind the part in its slot as well.
    fn whole(&mut self) -> (NonNull<u8>, usize) {
        match self {
            Region::Own(pages) => (pages.start(), pages.length),
            Region::Filling(filling) => filling.slot(),
            Region::Part(buffer) => buffer.slot(),
        }
    }
}

/// Memory that begins on a page.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: Vec<u8>,
    length: usize,
}

/// What direct reads and writes ask of addresses, and no more (statx(2), `stx_dio_mem_align`).
const PAGE_BYTES: usize = 4096;

impl Pages {
    pub(crate) fn new(length: usize) -> Pages {
        Pages { memory: vec![0; length + PAGE_BYTES], length }
    }

    fn offset(&self) -> usize {
        let address = self.memory.as_ptr().addr();
        address.next_multiple_of(PAGE_BYTES) - address
    }

    fn start(&mut self) -> NonNull<u8> {
        NonNull::from(self.bytes_mut()).cast()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let offset = self.offset();
        &self.memory[offset..offset + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let offset = self.offset();
        &mut self.memory[offset..offset + self.length]
    }
}

/// What is to be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// An operation, from when it is begun until it has ended.
struct Operation {
    file: Arc<dyn AsFd + Send + Sync>,
    way: Way,
    offset: u64,
    length: usize,
    region: Region,
    told: oneshot::Sender<Done>,
}

/// The memory of an operation, and how many bytes were read or written.
pub(crate) type Done = (Region, io::Result<usize>);

/// An operation that somebody may wait for.
pub(crate) struct Begun(oneshot::Receiver<Done>);

impl Begun {
    /// Waits for its end.
    pub(crate) async fn end(self) -> io::Result<(Region, usize)> {
        let gone = |_| io::Error::other("the ring is gone");
        let (region, moved) = self.0.await.map_err(gone)?;
        Ok((region, moved?))
    }
}

#[derive(Default)]
struct Books {
    /// What the kernel has, by the number that it was given with.
    with_kernel: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// What it is not given yet.
    waiting: VecDeque<Operation>,
}

struct Inner {
    ring: IoUring,
    books: Mutex<Books>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

/// The ring that a pool makes when it first needs one, or why it has none.
#[derive(Default)]
pub(crate) struct Rings(OnceLock<Result<Arc<Ring>, String>>);

impl Rings {
    /// # Errors
    /// What the kernel said when it was asked for one.
    pub(crate) fn get(&self) -> Result<Arc<Ring>, String> {
        let made = self.0.get_or_init(|| Ring::new().map(Arc::new).map_err(|error| error.to_string()));
        made.clone()
    }

    /// Why there is none, if one was needed.
    pub(crate) fn refused(&self) -> Option<String> {
        self.0.get()?.as_ref().err().cloned()
    }
}

/// The ring of a pool.
pub(crate) struct Ring(Arc<Inner>);

impl Ring {
    /// # Errors
    /// When the kernel gives none, or no thread can be started.
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder().build(ENTRIES)?;
        let books = Books {
            with_kernel: (0..ENTRIES).map(|_| None).collect(),
            free: (0..ENTRIES as usize).rev().collect(),
            waiting: VecDeque::new(),
        };
        let inner = Arc::new(Inner { ring, books: Mutex::new(books) });
        let its = inner.clone();
        std::thread::Builder::new().name("foretell ring".to_owned()).spawn(move || its.take_ends())?;
        Ok(Ring(inner))
    }

    /// Begins an operation on the first `length` bytes of the region, or all that there is of it.
    pub(crate) fn begin<F: AsFd + Clone + Send + Sync + 'static>(
        &self,
        file: &F,
        way: Way,
        offset: u64,
        length: usize,
        region: Region,
    ) -> Begun {
        let (told, tells) = oneshot::channel();
        let operation = Operation { file: Arc::new(file.clone()), way, offset, length, region, told };
        let mut books = self.0.books();
        books.waiting.push_back(operation);
        self.0.submit(&mut books);
        Begun(tells)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let end = opcode::Nop::new().build().user_data(END);
        let _books = self.0.books();
        // SAFETY: submissions are made under the lock alone. An operation without memory.
        let pushed = unsafe { self.0.ring.submission_shared().push(&end) };
        // There is always room: the kernel takes all that it is given at once. Without a thread that ends, nothing is lost but it.
        if pushed.is_ok() {
            self.0.enter();
        }
    }
}

/// Interrupted, or short of memory for a moment (io_uring_enter(2)).
fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}

impl Inner {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the kernel what it has room for.
    fn submit(&self, books: &mut Books) {
        let mut any = false;
        while let (Some(&number), false) = (books.free.last(), books.waiting.is_empty()) {
            let Some(operation) = books.waiting.pop_front() else { break };
            books.free.pop();
            let operation = books.with_kernel[number].insert(operation);
            let file = types::Fd(operation.file.as_fd().as_raw_fd());
            let (start, there) = operation.region.whole();
            let length = operation.length.min(there) as u32;
            let entry = match operation.way {
                Way::Read => opcode::Read::new(file, start.as_ptr(), length).offset(operation.offset).build(),
                Way::Write => {
                    opcode::Write::new(file, start.as_ptr(), length).offset(operation.offset).build()
                }
            };
            // SAFETY: submissions are made under the lock alone. File and memory are the operation's, which stays in the books
            // until the kernel has said that it is done with them; no more bytes are named than the memory has.
            let pushed = unsafe { self.ring.submission_shared().push(&entry.user_data(number as u64)) };
            if pushed.is_err() {
                // No more are free than it has room for; if it says otherwise, this one is not begun.
                self.end(books, number, Err(io::ErrorKind::WouldBlock.into()));
                break;
            }
            any = true;
        }
        if any {
            self.enter();
        }
    }

    /// Has the kernel take what it was given. Where it has no memory for that at the moment it is asked again, and at last with the
    /// next operation: whoever waits does so no longer than the pool's time-out.
    fn enter(&self) {
        for _ in 0..SUBMISSIONS {
            match self.ring.submit() {
                Ok(_) => return,
                Err(error) if may_pass(&error) => std::thread::yield_now(),
                Err(_) => return,
            }
        }
    }

    fn end(&self, books: &mut Books, number: usize, moved: io::Result<usize>) {
        let Some(operation) = books.with_kernel.get_mut(number).and_then(Option::take) else { return };
        books.free.push(number);
        // Who does not wait any more does not want it.
        let _ = operation.told.send((operation.region, moved));
    }

    /// What the thread of the ring does, until the ring is dropped and the kernel is done with all that it was given.
    fn take_ends(&self) {
        let mut ends = false;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if may_pass(&error) => std::thread::yield_now(),
                // What the kernel still has stays in the books, and so in memory.
                Err(_) => return,
            }
            // SAFETY: this thread alone takes completions.
            let completed = unsafe { self.ring.completion_shared() };
            let mut books = self.books();
            for one in completed {
                if one.user_data() == END {
                    ends = true;
                    continue;
                }
                let moved = match usize::try_from(one.result()) {
                    Ok(moved) => Ok(moved),
                    Err(_) => Err(io::Error::from_raw_os_error(-one.result())),
                };
                self.end(&mut books, one.user_data() as usize, moved);
            }
            self.submit(&mut books);
            if ends && books.with_kernel.iter().all(Option::is_none) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn ring(test: &str) -> Option<Ring> {
        Ring::new().map_err(|error| println!("skipped: {test}: io_uring: {error}")).ok()
    }

    fn wait(begun: Begun) -> io::Result<(Region, usize)> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(begun.end())
    }

    fn own(region: &Region) -> &[u8] {
        match region {
            Region::Own(pages) => pages.bytes(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn many_more_operations_than_the_ring_has_places_read_as_pread_does() {
        let Some(ring) = ring("many_more_operations_than_the_ring_has_places_read_as_pread_does") else {
            return;
        };
        let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content, 0).unwrap();
        let file = Arc::new(file);
        let places: Vec<(u64, usize)> =
            (0..1000).map(|at| (at * 7919 % 1_010_000, (at % 9000) as usize)).collect();
        let begun: Vec<Begun> = places
            .iter()
            .map(|&(offset, length)| {
                ring.begin(&file, Way::Read, offset, length, Region::Own(Pages::new(length.max(1))))
            })
            .collect();
        for ((offset, length), begun) in places.into_iter().zip(begun) {
            let (region, read) = wait(begun).unwrap();
            // The naive one.
            let mut wanted = vec![0; length];
            let naive = file.read_at(&mut wanted, offset).unwrap();
            assert_eq!((read, &own(&region)[..read]), (naive, &wanted[..naive]), "{length} from {offset}");
        }
    }

    #[test]
    fn what_is_written_is_there_and_errors_are_the_kernels() {
        let Some(ring) = ring("what_is_written_is_there_and_errors_are_the_kernels") else { return };
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(File::create(folder.path().join("a")).unwrap());
        let mut pages = Pages::new(5000);
        pages.bytes_mut().fill(9);
        let (region, written) = wait(ring.begin(&file, Way::Write, 100, 4096, Region::Own(pages))).unwrap();
        assert_eq!(written, 4096);
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap()[100..], [9; 4096]);
        // No more than there is.
        let (_, written) = wait(ring.begin(&file, Way::Write, 0, 1 << 20, region)).unwrap();
        assert_eq!(written, 5000);
        let unread = wait(ring.begin(&file, Way::Read, 0, 10, Region::Own(Pages::new(10))));
        assert_eq!(unread.unwrap_err().raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
    }

    #[test]
    fn who_does_not_wait_leaves_nothing_behind_and_the_thread_ends_with_the_ring() {
        let test = "who_does_not_wait_leaves_nothing_behind_and_the_thread_ends_with_the_ring";
        let Some(ring) = ring(test) else { return };
        let file = Arc::new(tempfile::tempfile().unwrap());
        file.write_all_at(&[1; 100_000], 0).unwrap();
        for _ in 0..200 {
            drop(ring.begin(&file, Way::Read, 0, 100_000, Region::Own(Pages::new(100_000))));
        }
        let inner = Arc::downgrade(&ring.0);
        drop(ring);
        while inner.strong_count() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
