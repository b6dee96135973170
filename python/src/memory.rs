//! Memory of somebody else's, by its address: the buffer protocol is part of Python's stable interface only since 3.11, later
//! than the oldest Python that is supported.

#![allow(unsafe_code)]

/// Bytes at an address.
pub(crate) struct Memory {
    address: usize,
    length: usize,
}

impl Memory {
    /// `foretell.pool.read_into` has taken both from an object that holds on to its memory as long as the call takes, and may
    /// be written to. Nobody else calls this: it is private, as ctypes.memmove would be.
    pub(crate) fn new(address: usize, length: usize) -> Memory {
        Memory { address, length }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let first = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: as `new` says. What is in it may be changed by other threads of the program, as any buffer of Python's; it is
        // only written here.
        unsafe { std::slice::from_raw_parts_mut(first, self.length) }
    }
}
