//! The slots, as the pool's own process has them: who fills them, who holds them, and which are free.

#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::{Board, GUEST_LANES, LOCAL_LANES, Reference, Shape, Tell};
use super::granted::Granted;
use super::here::Here;
use super::lease::{Lease, Leased};
use super::mapping::Mapping;
use super::taking::Local;

/// Slots that nobody holds. The one that was freed last is filled first, so that no more memory is taken than ever was held.
#[derive(Debug, Default)]
struct Free {
    /// From here on no slot was ever filled.
    next: u32,
    freed: Vec<u32>,
    held: u32,
}

/// The memory of a pool.
#[derive(Debug)]
pub(crate) struct Arena {
    data: Mapping,
    board: Board,
    /// Of data and board, for guests.
    files: [OwnedFd; 2],
    here: Here,
    local: Local,
    /// How many hold each slot: the pool while the part is in the cache, and readers. In the upper half its length.
    holders: Mapping,
    free: Mutex<Free>,
    /// Places of guests whose lanes count.
    guests: AtomicU32,
    bytes: AtomicU64,
    peak: AtomicU64,
    leased: Leased,
}

impl Arena {
    /// For a budget of so many parts, of which readers hold `more` beside it.
    pub(crate) fn new(parts: u32, more: u32, part_bytes: u32) -> io::Result<Arc<Arena>> {
        let shape = Shape { slots: parts.saturating_add(more), parts, part_bytes };
        let bytes = shape.data_bytes().ok_or(io::ErrorKind::OutOfMemory)?;
        let (data, data_file) = Mapping::create(c"foretell-parts", bytes)?;
        let (board, board_file) = Board::create(shape)?;
        Ok(Arc::new(Arena {
            data,
            board,
            files: [data_file, board_file],
            here: Here::new(),
            local: Local::new(),
            holders: Mapping::private(shape.slots as usize * 8)?,
            free: Mutex::default(),
            guests: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            leased: Leased::default(),
        }))
    }

    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    pub(super) fn local(&self) -> &Local {
        &self.local
    }

    /// Is this not a child of the process that has the pool?
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.here.is_here()
    }

    /// Bytes in memory, those of parts that were replaced and are still held, too.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Bytes in leases.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.leased.bytes()
    }

    pub(super) fn leased(&self) -> &Leased {
        &self.leased
    }

    /// What a guest with the lanes from `first` on maps.
    pub(crate) fn granted(&self, first_lane: u32) -> (Granted, [BorrowedFd<'_>; 2]) {
        let shape = self.board.shape();
        let [data, board] = &self.files;
        (Granted { shape, first_lane }, [data.as_fd(), board.as_fd()])
    }

    /// Lanes of so many guests count from now on.
    pub(crate) fn set_guests(&self, guests: u32) {
        self.guests.store(guests, SeqCst);
    }

    // ---- free slots ----

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slots that guests read.
    fn read_by_guests(&self) -> Vec<u32> {
        let lanes = LOCAL_LANES..LOCAL_LANES + self.guests.load(SeqCst) * GUEST_LANES;
        lanes.filter_map(|lane| self.board.reading(lane)).collect()
    }

    /// A slot to be filled; `None` when all are held.
    pub(crate) fn take(self: &Arc<Arena>, length: u32) -> Option<Filling> {
        let mut free = self.free();
        let read = self.read_by_guests();
        let slot = match free.freed.iter().rposition(|slot| !read.contains(slot)) {
            Some(at) => free.freed.swap_remove(at),
            None if free.next < self.board.shape().slots => {
                free.next += 1;
                free.next - 1
            }
            None => return None,
        };
        free.held += 1;
        drop(free);
        let now = self.bytes.fetch_add(length.into(), Relaxed) + u64::from(length);
        self.peak.fetch_max(now, Relaxed);
        self.holders(slot).store(u64::from(length) << 32 | 1, Release);
        Some(Filling { slot: Buffer { arena: self.clone(), slot }, filled: 0, length: length as usize })
    }

    fn give_back(&self, slot: u32, length: u32) {
        self.bytes.fetch_sub(length.into(), Relaxed);
        let mut free = self.free();
        free.freed.push(slot);
        free.held -= 1;
        // Nobody fills one meanwhile, and nobody finds one to read.
        if free.held == 0 && self.read_by_guests().is_empty() {
            self.data.give_back();
            *free = Free::default();
        }
    }

    // ---- who holds them ----

    #[inline]
    fn holders(&self, slot: u32) -> &AtomicU64 {
        let [holders] = self.holders.words(slot as usize);
        holders
    }

    /// Of a slot that is held.
    #[inline]
    fn length(&self, slot: u32) -> u32 {
        (self.holders(slot).load(Relaxed) >> 32) as u32
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    /// As long as they are used the slot is held, it was full when it came to be so, and it is so long.
    #[inline]
    pub(super) unsafe fn slice(&self, slot: u32, length: u32) -> &[u8] {
        let length = length as usize;
        let start = self.data.pointer(slot as usize * self.board.shape().part_bytes as usize, length);
        // SAFETY: `pointer` checks the bounds; that nobody writes there is what the caller says.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// Is this part published? Under the pool's lock the answer holds; a part whose bucket was full is not found.
    pub(crate) fn has(&self, serial: u64, part: u32) -> bool {
        self.board.find(serial, part).is_some()
    }

    /// A part that is published.
    #[inline]
    fn find(&self, serial: u64, part: u32) -> Option<Held<'_>> {
        let slot = self.board.find(serial, part)?;
        let one_more = |holders: u64| (holders as u32 > 0).then_some(holders + 1);
        let holders = self.holders(slot).fetch_update(Acquire, Relaxed, one_more).ok()?;
        let held = Held { arena: self, slot, length: (holders >> 32) as u32 };
        // Held by now, it stays what it is.
        self.board.holds(slot, serial, part).map(|_| held)
    }

    #[inline]
    pub(super) fn let_go(&self, slot: u32) {
        let before = self.holders(slot).fetch_sub(1, Release);
        if before as u32 == 1 {
            fence(Acquire);
            self.board.forget(slot);
            self.give_back(slot, (before >> 32) as u32);
        }
    }

    /// Copies bytes of an object that are there, without the pool's lock, and leaves `reference` for it; `None` if one of
    /// its parts is not there, or no lane is free.
    pub(crate) fn read(&self, reference: Reference, within: usize, buffer: &mut [u8]) -> Option<Tell> {
        let lane = self.local.take()?;
        if !self.board.may_read(lane.lane) {
            return None;
        }
        let (mut at, mut rest, mut slot) = (within, buffer, 0);
        for part in (reference.first..).take(reference.parts as usize) {
            let held = self.find(reference.serial, part)?;
            let bytes = held.bytes().get(at..)?;
            let (mine, others) = rest.split_at_mut(rest.len().min(bytes.len()));
            mine.copy_from_slice(&bytes[..mine.len()]);
            (at, rest, slot) = (0, others, held.slot);
        }
        if !rest.is_empty() {
            return None;
        }
        Some(self.board.leave(lane.lane, reference, slot))
    }

    /// References that readers may leave until somebody is told: [`RELAXED`] where the planner does not wait for them.
    pub(crate) fn set_told_at(&self, references: u64) {
        self.board.set_told_at(references);
    }

    /// A part that is there, without the pool's lock; otherwise as [`Arena::read`].
    #[inline]
    pub(crate) fn lease(self: &Arc<Arena>, reference: Reference) -> Option<(Lease, Tell)> {
        let lane = self.local.take()?;
        if !self.board.may_read(lane.lane) {
            return None;
        }
        let held = self.find(reference.serial, reference.first)?;
        let tell = self.board.leave(lane.lane, reference, held.slot);
        Some((held.keep(self), tell))
    }
}

/// A slot that a reader holds for a moment.
struct Held<'a> {
    arena: &'a Arena,
    slot: u32,
    length: u32,
}

impl Held<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: held as long as `self`, and published, thus full.
        unsafe { self.arena.slice(self.slot, self.length) }
    }

    #[inline]
    fn keep(self, arena: &Arc<Arena>) -> Lease {
        let (slot, length) = (self.slot, self.length);
        std::mem::forget(self);
        Lease::of(arena, slot, length)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.arena.let_go(self.slot);
    }
}

/// A slot that is being filled, once from its beginning to its end. It is held, and not published.
#[derive(Debug)]
pub(crate) struct Filling {
    slot: Buffer,
    filled: usize,
    length: usize,
}

impl Filling {
    /// Takes what fits of some bytes, and gives the rest.
    pub(crate) fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (mine, rest) = bytes.split_at(bytes.len().min(self.length - self.filled));
        let arena = &self.slot.arena;
        let at = self.slot.slot as usize * arena.board.shape().part_bytes as usize + self.filled;
        let to = arena.data.pointer(at, mine.len());
        // SAFETY: `pointer` checks the bounds; nobody else has the slot, and nobody finds it.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(mine).cast(), mine.len()) };
        self.filled += mine.len();
        rest
    }

    /// The whole slot, for the kernel to read into: where it begins, and its bytes. Nobody else has the slot, and nobody finds it.
    pub(crate) fn slot(&mut self) -> (NonNull<u8>, usize) {
        self.slot.slot()
    }

    /// So many bytes were read into the slot, from its beginning on.
    pub(crate) fn was_filled(&mut self, bytes: usize) {
        self.filled = bytes.min(self.length);
    }

    /// The bytes that there are so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (start, _) = self.slot.slot();
        // SAFETY: this one has the slot, and so much of it was filled.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.filled) }
    }

    /// The part, if it is full.
    pub(crate) fn finish(self) -> Result<Buffer, Filling> {
        if self.filled == self.length { Ok(self.slot) } else { Err(self) }
    }
}

/// A part in memory, which stays there as long as somebody has it. In a forked child it is empty: the memory is the
/// parent's.
#[derive(Debug)]
pub(crate) struct Buffer {
    arena: Arc<Arena>,
    slot: u32,
}

impl Buffer {
    /// A lease of the same part.
    pub(crate) fn lease(&self) -> Lease {
        // Held by this one meanwhile.
        self.arena.holders(self.slot).fetch_add(1, Relaxed);
        Lease::of(&self.arena, self.slot, self.arena.length(self.slot))
    }

    /// The whole slot, for the kernel to write from: where it begins, and its bytes, those behind the part as well.
    pub(crate) fn slot(&self) -> (NonNull<u8>, usize) {
        let bytes = self.arena.board.shape().part_bytes as usize;
        (self.arena.data.pointer(self.slot as usize * bytes, bytes), bytes)
    }

    /// Has it be found without the pool's lock. Under that lock, as all that changes what is found.
    pub(crate) fn publish(&self, serial: u64, part: u32) {
        self.arena.board.publish(self.slot, serial, part, self.len() as u32);
    }

    pub(crate) fn withdraw(&self) {
        self.arena.board.withdraw(self.slot);
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        self.arena.holders(self.slot).fetch_add(1, Relaxed);
        Buffer { arena: self.arena.clone(), slot: self.slot }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        if !self.arena.is_here() {
            return &[];
        }
        // SAFETY: held as long as `self`, and made of what was full.
        unsafe { self.arena.slice(self.slot, self.arena.length(self.slot)) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.arena.is_here() {
            self.arena.let_go(self.slot);
        }
    }
}
