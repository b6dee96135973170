//! Which inode has the pages of a file.
//!
//! The page cache knows a file by the inode that has its pages, and reports that one's device and number. For most file
//! systems they are what stat(2) says. For three they are not:
//!
//! * **overlay** (every container): stat(2) describes an inode of the overlay, the pages belong to one of a layer below.
//!   The kernel is asked: a page of the file is mapped, which reads nothing, and a BPF program says on which inode the
//!   mapping is (`src/bpf/identify.bpf.c`). That is right whatever the layers are, and after a file was copied up.
//! * **btrfs**: the superblock has one device number, each subvolume has its own, and inode numbers repeat. There
//!   the programs report the subvolume's number, which stat(2) says as well ([`types::BtrfsPlaces`]).
//! * what else plays files for others (FUSE, the network) has device numbers without a major one, as the two above: such a
//!   file keeps what stat(2) says.
//!
//! Which file systems are of which sort is in `filesystems.rs`.
//!
//! So only files on device numbers without a major one are asked about, one at a time, some microseconds each. The
//! programs are loaded when the first one comes, and attached to nothing.

#![allow(unsafe_code)]

pub(crate) mod types;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use aya::maps::Map;

use crate::file_key::FileKey;
use crate::filesystems::{self, Pages};
use crate::observe::kernel_types::KernelTypes;
use crate::observe::object::{self, Object};
use crate::observe::privileges::Capabilities;
use crate::observe::shared::Mapped;
use types::BtrfsPlaces;

/// The object, built by `src/bpf/build`. Aligned, because an ELF parser reads it in place.
static OBJECT: &[u8] = aya::include_bytes_aligned!("bpf/identify.bpf.o");

/// Who a file is to the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The inode that has its pages; `None` when the kernel does not tell: on an overlay that was mounted in a user
    /// namespace, or cannot be mapped, and on a btrfs of which the kernel does not describe its types.
    pub(crate) key: Option<FileKey>,
    /// That inode's generation.
    pub(crate) generation: u32,
    /// The kind of file system that it is on, as statfs(2) names it.
    pub(crate) magic: u32,
    /// The inode that the descriptor is open on, by its superblock's device number: what `/proc/PID/maps` shows,
    /// since Linux 6.8 on overlay too.
    pub(crate) shown: FileKey,
}

/// `struct question` of `src/bpf/event.h`.
#[repr(C)]
struct Question {
    btrfs_root: AtomicI32,
    btrfs_anon_dev: AtomicU32,
    btrfs_known: AtomicU32,
    answered: AtomicU32,
    shown_dev: AtomicU64,
    shown_ino: AtomicU64,
    dev: AtomicU64,
    ino: AtomicU64,
    generation: AtomicU32,
    magic: AtomicU32,
    user_level: AtomicU32,
    unused: u32,
}

fn pages_of(magic: u32) -> Pages {
    filesystems::of_magic(magic).pages
}

/// The programs that are asked.
struct Identifier {
    descriptor: object::Callable,
    mapping: object::Callable,
    question: Mapped<Question>,
}

/// Loaded when the first file comes; `None` inside when they cannot be.
static IDENTIFIER: Mutex<Option<Option<Identifier>>> = Mutex::new(None);

/// Loads the programs now. Without privileges nothing is done, and they are tried again when a file comes.
pub(crate) fn load() {
    let mut identifier = IDENTIFIER.lock().unwrap_or_else(PoisonError::into_inner);
    if Capabilities::current().lacking_for_bpf().is_none() {
        let _ = identifier.get_or_insert_with(Identifier::load);
    }
}

/// Who the file behind a descriptor is, which may be one that was opened as a path only (`O_PATH`). `None` where the
/// kernel cannot be asked: without privileges, without type information, before Linux 5.17.
pub(crate) fn of(file: impl AsFd) -> Option<Identity> {
    let mut identifier = IDENTIFIER.lock().unwrap_or_else(PoisonError::into_inner);
    // That is not remembered: other threads may have what this one lacks.
    if identifier.is_none() && Capabilities::current().lacking_for_bpf().is_some() {
        return None;
    }
    let identifier = identifier.get_or_insert_with(Identifier::load).as_ref()?;
    identifier.identify(file.as_fd())
}

impl Identity {
    /// Why the inode that has the pages cannot be told, if it cannot.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        self.key.is_none().then(|| filesystems::of_magic(self.magic).untold)
    }
}

impl Identifier {
    fn load() -> Option<Identifier> {
        let mut object = Object::parse(OBJECT).ok()?;
        let kernel = KernelTypes::read(&object.types(), std::iter::empty()).ok()?;
        object.create_maps(&[]).ok()?;
        object.prepare(&kernel, HashMap::new()).ok()?;
        object.describe().ok()?;
        let Ok(Map::Array(question)) = object.take_map("question") else { return None };
        let question = Mapped::new(question.fd().as_fd()).ok()?;
        let load = |name: &str| object.load_callable(name).ok();
        Some(Identifier {
            descriptor: load("foretell_descriptor")?,
            mapping: load("foretell_mapping")?,
            question,
        })
    }

    fn identify(&self, file: BorrowedFd<'_>) -> Option<Identity> {
        let number = u64::try_from(file.as_raw_fd()).ok()?;
        let (mut magic, mut found) = self.ask(&self.descriptor, number);
        let question = self.question.get();
        if magic == 0 {
            return None;
        }
        let shown = FileKey {
            dev: question.shown_dev.load(Ordering::Relaxed),
            ino: question.shown_ino.load(Ordering::Relaxed),
        };
        if pages_of(magic) == Pages::OfALayer {
            // To map a file it has to be opened, and what an unprivileged user has put below may never answer.
            let trusted = question.user_level.load(Ordering::Relaxed) == 0;
            let mapping = if trusted { FirstPage::new(file) } else { None };
            (magic, found) =
                mapping.map_or((magic, false), |mapping| self.ask(&self.mapping, mapping.0 as u64));
            found &= pages_of(magic) != Pages::OfALayer;
        }
        let (dev, ino) = (question.dev.load(Ordering::Relaxed), question.ino.load(Ordering::Relaxed));
        let generation = if found { question.generation.load(Ordering::Relaxed) } else { 0 };
        Some(Identity { key: found.then_some(FileKey { dev, ino }), generation, magic, shown })
    }

    /// Asks, once more where btrfs has come since the last time: the kind of file system, and whether the rest was
    /// answered too.
    fn ask(&self, program: &object::Callable, argument: u64) -> (u32, bool) {
        let question = self.question.get();
        let found = self.run(program, argument);
        let magic = question.magic.load(Ordering::Relaxed);
        let found = found
            || pages_of(magic) == Pages::OfASubvolume && self.learn_btrfs() && self.run(program, argument);
        (magic, found)
    }

    /// Asks; whether there was an answer.
    fn run(&self, program: &object::Callable, argument: u64) -> bool {
        let question = self.question.get();
        question.answered.store(0, Ordering::Relaxed);
        question.magic.store(0, Ordering::Relaxed);
        program.call(argument).is_ok() && question.answered.load(Ordering::Acquire) == 1
    }

    /// Says where btrfs keeps its device numbers, once it is there.
    fn learn_btrfs(&self) -> bool {
        let Some(places) = BtrfsPlaces::of_this_kernel() else { return false };
        let question = self.question.get();
        question.btrfs_root.store(places.root, Ordering::Relaxed);
        question.btrfs_anon_dev.store(places.anon_dev, Ordering::Relaxed);
        question.btrfs_known.store(1, Ordering::Release);
        true
    }
}

/// The first page of a file, mapped and never touched: nothing is read for it. A file without bytes has one too.
struct FirstPage(*mut libc::c_void);

impl FirstPage {
    /// Opens the file anew: its descriptor may be one that was opened as a path only, or when a layer below was
    /// read that an upper one has covered since.
    fn new(file: BorrowedFd<'_>) -> Option<FirstPage> {
        let file: File = crate::reach::open_again(file).ok()?;
        // SAFETY: a new mapping at an address that the kernel chooses, which nobody reads or writes.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                crate::kernel::page_bytes() as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        (at != libc::MAP_FAILED).then_some(FirstPage(at))
    }
}

impl Drop for FirstPage {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and nothing refers to it.
        unsafe { libc::munmap(self.0, crate::kernel::page_bytes() as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_question_is_the_one_of_the_header() {
        let header = include_str!("bpf/event.h");
        let offset = |field: &str| -> usize {
            let line =
                header.lines().find_map(|line| line.strip_prefix(&format!("LAYOUT(question, {field}, ")));
            line.unwrap().strip_suffix(");").unwrap().parse().unwrap()
        };
        assert_eq!(offset("btrfs"), offset_of!(Question, btrfs_root));
        assert_eq!(offset("answered"), offset_of!(Question, answered));
        assert_eq!(offset("shown_dev"), offset_of!(Question, shown_dev));
        assert_eq!(offset("shown_ino"), offset_of!(Question, shown_ino));
        assert_eq!(offset("dev"), offset_of!(Question, dev));
        assert_eq!(offset("ino"), offset_of!(Question, ino));
        assert_eq!(offset("generation"), offset_of!(Question, generation));
        assert_eq!(offset("magic"), offset_of!(Question, magic));
        assert_eq!(offset("user_level"), offset_of!(Question, user_level));
        assert!(header.contains(&format!("LAYOUT_SIZE(question, {});", size_of::<Question>())));
    }

    #[test]
    fn a_file_on_a_plain_file_system_is_what_stat_says() {
        let test = "a_file_on_a_plain_file_system_is_what_stat_says";
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let Some(identity) = of(&file) else {
            println!("skipped: {test}: the kernel cannot be asked which inode a file is");
            return;
        };
        assert_eq!(identity.key, Some(FileKey::of(&file).unwrap()));
        assert_eq!(Some(identity.shown), identity.key);
        let generation = crate::kernel::generation(&file);
        assert!(generation == 0 || generation == identity.generation);
    }
}
