//! Noticing that this is a child of the process that made something.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The smallest page there is; the kernel rounds up.
const PAGE_BYTES: usize = 4096;

/// A page that the kernel hands to a child of fork(2) wiped (`MADV_WIPEONFORK`), so that to ask costs one load; where there
/// is none, the number of the process.
#[derive(Debug)]
pub(crate) enum Here {
    Page(NonNull<AtomicU32>),
    Process(u32),
}

// SAFETY: the page belongs to the process and not to a thread, and is accessed as an atomic only.
unsafe impl Send for Here {}
// SAFETY: as above.
unsafe impl Sync for Here {}

impl Here {
    pub(crate) fn new() -> Here {
        Here::page().map_or_else(|| Here::Process(std::process::id()), Here::Page)
    }

    fn page() -> Option<NonNull<AtomicU32>> {
        // SAFETY: a new mapping at an address of the kernel's choice, of which the advice covers all; given back before
        // anybody has seen it, or with `self`.
        unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let page =
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE);
            let page = page.ok()?;
            if rustix::mm::madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork).is_err() {
                let _ = rustix::mm::munmap(page, PAGE_BYTES);
                return None;
            }
            let page = NonNull::new(page.cast::<AtomicU32>())?;
            page.as_ref().store(1, Ordering::Relaxed);
            Some(page)
        }
    }

    /// Is this the process that made it?
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        match self {
            // SAFETY: the page is mapped as long as `self` lives, aligned, and an atomic to everybody.
            Here::Page(page) => unsafe { page.as_ref() }.load(Ordering::Relaxed) == 1,
            Here::Process(process) => *process == std::process::id(),
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Here::Page(page) = self {
            // SAFETY: it was mapped with this length, and nobody can refer to it any longer.
            let _ = unsafe { rustix::mm::munmap(page.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}
