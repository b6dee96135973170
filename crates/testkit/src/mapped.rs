//! Processes with many mappings.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

/// Maps the first page of each block of a file by itself, and reads it, as far as so many mappings may be had; they last as long as
/// the process. Neighbours are no neighbours in the file, so the kernel makes no larger mapping of them. Says how many there are.
pub fn map_in_pieces(file: &File, block_bytes: u64, blocks: u64) -> u64 {
    (0..blocks).take_while(|block| map_page(file, block * block_bytes)).count() as u64
}

fn map_page(file: &File, offset: u64) -> bool {
    let Ok(offset) = offset.try_into() else { return false };
    // SAFETY: a mapping of our own at a place that the kernel chooses, which nobody unmaps, and of which one byte is read, also if
    // another one changes it meanwhile. The file is not cut off.
    unsafe {
        let address =
            libc::mmap(std::ptr::null_mut(), 1, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset);
        if address == libc::MAP_FAILED {
            return false;
        }
        address.cast::<u8>().read_volatile();
    }
    true
}
