//! The format of a file, and the numbers in it.
//!
//! ```text
//! "foretell-recording" 0      magic
//! 2 bytes                     version, little end first
//! one frame of zstd           the events, one after the other
//! 8 bytes                     64-bit FNV-1a of all bytes before, little end first
//! ```
//!
//! An event begins with a byte: its kind in the lowest three bits, flags in the others. Numbers follow
//! as in [`foretell_numbers`].
//!
//! | kind | contents |
//! | --- | --- |
//! | role | parent + 1 or 0, name (length, bytes), ordinal |
//! | file | device, inode, time of change (each the difference from the file before), size, path (length, bytes) |
//! | access | difference of role, unless [`SAME_ROLE`]; difference of file, unless [`SAME_FILE`]; difference of first page from the end of the last access to this file, unless [`FOLLOWS`]; pages; difference of time; time waited |
//! | fact | kind of fact, file or role, time if it is an end |
//! | summary | the fields in their order, the exit code as 0 or 1 and the code; nothing follows |
//!
//! Roles and files have the numbers of their order. Each byte of the file is in the sum. A step of FNV-1a can
//! be undone (the prime is odd), so that a single byte that is different always gives another sum.

/// How a recording begins.
pub(crate) const MAGIC: [u8; 19] = *b"foretell-recording\0";

/// The version of the format that is written.
pub const VERSION: u16 = 1;

/// The oldest version that is read as well: what jobs have learnt is kept when the program changes.
///
/// A new field, of an event or of the summary, makes another [`VERSION`]: it is written last, `read.rs` takes it from files of
/// that version on and a value for "not known" from older ones, and `tests/kept` gets a file of the version.
pub const OLDEST_VERSION: u16 = 1;

/// Level of compression: it runs beside the job. Of three recordings level 3, which zstd has by default, was 2% larger, 4% and 5%
/// smaller, and took 1.3 to 1.7 times the time; level 1 was 3 to 35% larger.
pub(crate) const LEVEL: i32 = 2;

/// Logarithm of the largest window that a reader accepts, several times that of [`LEVEL`]: what a hostile file
/// can make the decompressor allocate.
pub(crate) const WINDOW_LOG_MAX: u32 = 23;

/// What an event is, in the bits [`KIND`] of its first byte.
pub(crate) mod kind {
    pub(crate) const ROLE: u8 = 0;
    pub(crate) const FILE: u8 = 1;
    pub(crate) const ACCESS: u8 = 2;
    pub(crate) const FACT: u8 = 3;
    pub(crate) const SUMMARY: u8 = 4;
}

/// Kinds of facts.
pub(crate) mod fact {
    pub(crate) const WRITTEN: u8 = 0;
    pub(crate) const EXECUTED: u8 = 1;
    pub(crate) const DELETED: u8 = 2;
    pub(crate) const TRUNCATED: u8 = 3;
    pub(crate) const ENDED: u8 = 4;
}

/// Bits of the first byte that say what the event is.
pub(crate) const KIND: u8 = 0b111;
/// Where in the first byte of an access its way is: two bits.
pub(crate) const WAY_SHIFT: u32 = 3;
/// The bits of the way.
pub(crate) const WAY: u8 = 0b11 << WAY_SHIFT;
/// The access is of the role of the access before.
pub(crate) const SAME_ROLE: u8 = 1 << 5;
/// The access is to the file of the access before.
pub(crate) const SAME_FILE: u8 = 1 << 6;
/// The access begins where the last one to this file ended.
pub(crate) const FOLLOWS: u8 = 1 << 7;

/// Whether a file that begins with these bytes is a recording, of whatever version. It takes as many as the
/// magic has, 19.
#[must_use]
pub fn is_recording(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(&MAGIC)
}

/// The running sum: 64-bit FNV-1a (RFC 9923, section 5).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum(pub(crate) u64);

impl Default for Sum {
    fn default() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // RFC 9923, appendix C: the 64-bit sums of "" and "foobar".
        let mut sum = Sum::default();
        assert_eq!(sum.0, 0xcbf2_9ce4_8422_2325);
        sum.add(b"foobar");
        assert_eq!(sum.0, 0x8594_4171_f739_67e8);
    }
}
