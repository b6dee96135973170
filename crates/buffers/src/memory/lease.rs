//! Leases: parts that programs hold, and what keeps the memory there as long as they do.
//!
//! A lease is taken and given back within some tens of nanoseconds, of which each atomic count takes five. So the bytes in
//! leases are one count for two purposes: how many there may be, and whether the memory is still needed once the pool is
//! gone. Who is last, the pool or a lease, frees it.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::arena::Arena;

/// The pool is gone; it has left its own hold of the memory to the last lease.
const LEFT: u64 = 1 << 63;

/// Bytes in leases, and whether the pool is gone.
#[derive(Debug, Default)]
pub(super) struct Leased(AtomicU64);

impl Leased {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Relaxed) & !LEFT
    }
}

impl Arena {
    /// The pool goes, and nobody leases any more. Memory of which there are leases stays until the last one ends.
    pub(crate) fn leave(self: &Arc<Arena>) {
        let mine = Arc::into_raw(self.clone());
        // In the child of a fork the leases are the parent's, and the memory just stays.
        if self.is_here() && self.leased().0.fetch_or(LEFT, AcqRel) == 0 {
            // SAFETY: made by `into_raw` above, and no lease will take it.
            drop(unsafe { Arc::from_raw(mine) });
        }
    }
}

/// A part in memory, which stays there as long as this is held, also when the pool is gone. In a forked child it is empty:
/// the memory is the parent's.
#[derive(Debug)]
pub(crate) struct Lease {
    arena: NonNull<Arena>,
    slot: u32,
    length: u32,
}

// SAFETY: what it refers to is an `Arena`, which threads share, and lives as long as the lease: it is counted there.
unsafe impl Send for Lease {}
// SAFETY: as above.
unsafe impl Sync for Lease {}

impl Lease {
    /// Of a slot that was full when it came to be held, and whose hold this one takes over. The caller's hold of the memory
    /// is the pool's own, which [`Arena::leave`] ends.
    #[inline]
    pub(super) fn of(arena: &Arc<Arena>, slot: u32, length: u32) -> Lease {
        // None is empty: it would not be counted.
        debug_assert!(length > 0, "there are no empty parts");
        arena.leased().0.fetch_add(length.into(), Relaxed);
        Lease { arena: NonNull::from(arena.as_ref()), slot, length }
    }

    #[inline]
    fn arena(&self) -> &Arena {
        // SAFETY: it is there as long as bytes are counted as leased (`Drop`, `Arena::leave`).
        unsafe { self.arena.as_ref() }
    }

    /// Bytes in all leases of the pool, this one among them.
    #[inline]
    pub(crate) fn of_all(&self) -> u64 {
        self.arena().leased_bytes()
    }
}

impl Deref for Lease {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        if !self.arena().is_here() {
            return &[];
        }
        // SAFETY: held as long as `self`, and full.
        unsafe { self.arena().slice(self.slot, self.length) }
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        let arena = self.arena();
        if !arena.is_here() {
            return;
        }
        arena.let_go(self.slot);
        // From here on the memory is somebody else's, unless the pool is gone and this was the last one.
        if arena.leased().0.fetch_sub(self.length.into(), AcqRel) == LEFT | u64::from(self.length) {
            // SAFETY: the pool has left its hold, made by `into_raw`, to who finds this, which is one alone.
            drop(unsafe { Arc::from_raw(self.arena.as_ptr().cast_const()) });
        }
    }
}
