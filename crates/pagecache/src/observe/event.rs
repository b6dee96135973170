//! What an [`Observer`](super::Observer) reports.

use crate::file_key::FileKey;

/// Something that the kernel did, in the order in which it happened (one order over all CPUs).
///
/// Page numbers count pages of the machine's page size from the beginning of the file; `last_page` is
/// included. `known` says that the file was under management ([`Observer::manage`](super::Observer::manage))
/// when it happened; a file neither managed nor ignored comes with `known: false` and its inode's generation
/// number (as `FS_IOC_GETVERSION` gives it), every time, until it is one or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// A tracked process was given pages `first_page..=last_page` by a buffered read.
    ///
    /// Where the observer uses the tracepoint ([`ReadHook`](super::ReadHook)) it comes when the data is
    /// there. The kernel works through a read in batches of folios and says each time where it is and where
    /// the whole read ends, so one `pread` of 1 MiB gives several observations with the same last page, the
    /// first of which names all pages. It says nothing about a batch that it cuts short before a folio which is
    /// still being read (`mm/filemap.c`, the error path of `filemap_get_pages`): a read of pages of which
    /// only the first are there may seem to begin late. Reads are clipped to the size of the file.
    Read {
        /// Process (thread group).
        tgid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: FileKey,
        /// First page of this piece.
        first_page: u64,
        /// Last page of the whole read.
        last_page: u64,
        /// The file is managed.
        known: bool,
        /// Generation of the inode; 0 when `known`.
        generation: u32,
    },
    /// A tracked process took a page fault on a file mapping that fault-around could not serve. It comes
    /// before the data is there; a fault that has to wait is reported again when it is retried.
    Fault {
        /// Process.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: FileKey,
        /// Page.
        page: u64,
        /// The file is managed.
        known: bool,
        /// Generation of the inode; 0 when `known`.
        generation: u32,
    },
    /// A tracked process took a page fault on a file mapping and was given those of these pages that are
    /// cached (fault-around, 64 KiB by default): it touched one of them, which one is unknown.
    MapPages {
        /// Process.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: FileKey,
        /// First page.
        first_page: u64,
        /// Last page.
        last_page: u64,
        /// The file is managed.
        known: bool,
        /// Generation of the inode; 0 when `known`.
        generation: u32,
    },
    /// A folio of 2^`order` pages entered the page cache; its data is still on its way. Managed files:
    /// whoever caused it. Unknown files: only if a tracked process did.
    Added {
        /// Process that caused it (a tracked one, ours, or anyone).
        tgid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: FileKey,
        /// First page of the folio.
        first_page: u64,
        /// log2 of its pages.
        order: u8,
        /// A tracked process writes it: it lies beyond the end that the file had. A write to what is within the
        /// file is not told.
        appended: bool,
        /// The file is managed.
        known: bool,
        /// Generation of the inode; 0 when `known`.
        generation: u32,
    },
    /// A folio of a managed file left the page cache, by whomever.
    Removed {
        /// Process in whose context it happened (kswapd, for one).
        tgid: u32,
        /// Thread.
        tid: u32,
        /// File.
        file: FileKey,
        /// First page of the folio.
        first_page: u64,
        /// log2 of its pages.
        order: u8,
    },
    /// A tracked process started another, which is tracked from its first instruction.
    Forked {
        /// Who forked.
        parent: u32,
        /// The new process.
        child: u32,
    },
    /// A tracked process executes another program.
    Exec {
        /// Process.
        tgid: u32,
        /// Its new name (`/proc/PID/comm`), padded with zeroes.
        comm: [u8; 16],
    },
    /// A tracked process ended (its last thread did); it is tracked no more.
    Exited {
        /// Process.
        tgid: u32,
        /// Bytes that it asked of block devices, over its life as a tracked process.
        device_read_bytes: u64,
        /// Time that its threads slept for I/O, over its life as a tracked process.
        wait_ns: u64,
    },
    /// A thread of a tracked process slept for I/O (`io_schedule`: a page that is being read, above all)
    /// and runs again. The time includes that from its wake-up until it had a CPU.
    Waited {
        /// Process.
        tgid: u32,
        /// Thread.
        tid: u32,
        /// How long.
        wait_ns: u64,
    },
}
