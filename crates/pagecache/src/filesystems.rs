//! What is known of single file systems: one row a kind. All that are not here are plain: their pages belong to the inode
//! that stat(2) describes, and a file is found again by the number of that.

use std::os::fd::AsFd;

/// Which inode has the pages of a file, and by which device number the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The one that stat(2) describes.
    AsStatSays,
    /// One of a layer below: the kernel tells it of a page that is mapped.
    OfALayer,
    /// The one that stat(2) describes, under the device number of its subvolume and not the superblock's, as the BPF
    /// programs tell it (`BTRFS_SUPER_MAGIC` in `src/bpf/`).
    OfASubvolume,
}

/// One kind of file system.
#[derive(Debug)]
pub(crate) struct Kind {
    /// What statfs(2) says (`include/uapi/linux/magic.h`).
    magic: u32,
    pub(crate) pages: Pages,
    /// Do the files lie on a disk of this machine, though the device number has no major one? Those of a device with one do.
    pub(crate) on_disk: bool,
    /// Do its files have nothing behind the page cache?
    pub(crate) in_memory: bool,
    /// Why a file cannot be steered of which the kernel was asked for the inode that has the pages, and did not tell.
    pub(crate) untold: &'static str,
    /// Why no file can be steered of which the kernel is not asked, or which is none of another file system; `None` where
    /// they can.
    pub(crate) never: Option<&'static str>,
    /// The type of a handle in which a subvolume's number stands (`include/linux/exportfs.h`, `fs/btrfs/export.h`), if it
    /// takes one to open a file by its number.
    pub(crate) handle: Option<i32>,
}

/// What lies in `/proc` and its like: made when it is read, and never in the page cache.
pub(crate) const OF_THE_KERNEL: &str = "a file of the kernel's";

const PLAIN: Kind = Kind {
    magic: 0,
    pages: Pages::AsStatSays,
    on_disk: false,
    in_memory: false,
    untold: "a file of which the kernel does not tell the inode",
    never: None,
    handle: None,
};

const fn in_memory(magic: u32) -> Kind {
    Kind { magic, in_memory: true, never: Some("a file in memory"), ..PLAIN }
}

const fn of_the_kernel(magic: u32) -> Kind {
    Kind { magic, never: Some(OF_THE_KERNEL), ..PLAIN }
}

static KINDS: &[Kind] = &[
    // overlay
    Kind {
        magic: 0x794c_7630,
        pages: Pages::OfALayer,
        on_disk: true,
        untold: "a file on an overlay of which the kernel does not tell the file below",
        never: Some("a file on an overlay file system"),
        ..PLAIN
    },
    // btrfs; FILEID_BTRFS_WITHOUT_PARENT: inode number, number of the subvolume's tree, generation
    Kind {
        magic: 0x9123_683e,
        pages: Pages::OfASubvolume,
        on_disk: true,
        untold: "a file on a btrfs of which the kernel does not tell the subvolume",
        handle: Some(0x4d),
        ..PLAIN
    },
    // bcachefs: inode numbers repeat in its snapshots, and nothing tells which of them a page belongs to
    Kind { magic: 0xca45_1a4e, never: Some("a file on bcachefs"), ..PLAIN },
    // tmpfs, ramfs, hugetlbfs
    in_memory(0x0102_1994),
    in_memory(0x8584_58f6),
    in_memory(0x9584_58f6),
    // proc, sysfs, debugfs, tracefs, the groups of processes of both versions
    of_the_kernel(0x9fa0),
    of_the_kernel(0x6265_6572),
    of_the_kernel(0x6462_6720),
    of_the_kernel(0x7472_6163),
    of_the_kernel(0x6367_7270),
    of_the_kernel(0x0027_e0eb),
];

/// The kind of that number.
pub(crate) fn of_magic(magic: u32) -> &'static Kind {
    KINDS.iter().find(|kind| kind.magic == magic).unwrap_or(&PLAIN)
}

/// The kind of that on which something lies.
///
/// # Errors
/// Those of statfs(2).
pub(crate) fn under(file: impl AsFd) -> std::io::Result<&'static Kind> {
    Ok(of_magic(rustix::fs::fstatfs(file)?.f_type.cast_unsigned() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_stands_twice_and_the_programs_know_the_subvolumes() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..at].iter().all(|before| before.magic != kind.magic), "{kind:?}");
        }
        let header = include_str!("bpf/kernel.h");
        let with_subvolumes = KINDS.iter().filter(|kind| kind.pages == Pages::OfASubvolume);
        let magics: Vec<u32> = with_subvolumes.map(|kind| kind.magic).collect();
        assert_eq!(magics.len(), 1, "the programs compare with one number");
        assert!(header.contains(&format!("#define BTRFS_SUPER_MAGIC {:#x}", magics[0])));
    }

    #[test]
    fn what_is_unknown_is_plain() {
        let kind = of_magic(0xef53);
        assert_eq!((kind.pages, kind.never, kind.handle), (Pages::AsStatSays, None, None));
        assert_eq!(
            under(std::fs::File::open("/proc/self/stat").unwrap()).unwrap().never,
            Some(OF_THE_KERNEL)
        );
    }
}
