//! Noticing that this is another process than before.
//!
//! After `fork` the child has a copy of everything, the connection included, which goes on belonging to the
//! parent. A page that the kernel hands to a child wiped (`MADV_WIPEONFORK`, madvise(2)) tells them apart at
//! the cost of one load. Unlike handlers of pthread_atfork(3) it also works for children made by a bare
//! `clone`, and it runs nothing inside the fork.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The smallest page there is; the kernel rounds up.
const PAGE_BYTES: usize = 4096;

/// The page, once made. Its first word is the epoch, 0 in a process that has not asked yet.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// The last epoch given out. Copied at a fork, so that a child's next one is unlike all of its parent's.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A number, never 0, that stays the same in a process and differs between it and what it was forked from.
pub(crate) fn epoch() -> u32 {
    let mut page = PAGE.load(Acquire);
    if page.is_null() {
        page = match make_page() {
            Some(page) => page,
            // Without such a page (Linux before 4.14) the process id does, at the price of a system call.
            None => return rustix::process::getpid().as_raw_nonzero().get().cast_unsigned(),
        };
    }
    // SAFETY: a page once in `PAGE` stays mapped for as long as the process lives, is aligned, and is only
    // ever accessed as an atomic.
    let word = unsafe { &*page };
    match word.load(Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(1);
            match word.compare_exchange(0, next, AcqRel, Acquire) {
                Ok(_) => next,
                Err(other) => other,
            }
        }
        epoch => epoch,
    }
}

/// Makes the page, or finds that another thread just has.
fn make_page() -> Option<*mut AtomicU32> {
    // SAFETY: a new mapping at an address of the kernel's choice, of which the advice covers all. It is
    // given back only before anybody else has seen it.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let page =
            rustix::mm::mmap_anonymous(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE).ok()?;
        if rustix::mm::madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork).is_err() {
            let _ = rustix::mm::munmap(page, PAGE_BYTES);
            return None;
        }
        match PAGE.compare_exchange(ptr::null_mut(), page.cast(), AcqRel, Acquire) {
            Ok(_) => Some(page.cast()),
            Err(other) => {
                let _ = rustix::mm::munmap(page, PAGE_BYTES);
                Some(other)
            }
        }
    }
}
