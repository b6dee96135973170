//! From a recording to lists of what will be read.
//!
//! Left out are files that the run wrote (what will be in them is not known, and where they lie is not either), programs
//! and libraries. Nothing is asked of a file system, which would take its time while the job waits: where the files are
//! now, and how large they are, a [`Finder`] finds out while the job runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use foretell_recording::{
    Access, Fact, FileRecord, PAGE_BYTES, Recording, Role, RoleId, Way, joined_lanes_of,
};

use crate::finder::{Finder, Names, Place};

/// Pages of a chunk at most, 8 MiB, but for one that was read at once: whoever hands chunks over can stop between two.
const CHUNK_PAGES: u32 = 1 << 11;
/// The policy's block, in pages: positions are counted in blocks of 8 KiB.
pub(crate) const BLOCK_PAGES: u64 = 2;
/// A file up to this size that is mapped and never read belongs to the start set: tables of locales and of character
/// sets, which every program of a job maps anew, in no order worth following.
const TABLE_BYTES: u64 = 1 << 20;
/// Where there are more, they are no tables: a locale has 13, and few jobs use more than one.
const TABLES: usize = 64;

/// A file that will be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Where it was.
    pub path: PathBuf,
    /// Its size then, bytes, or as much more as was read of it.
    pub bytes: u64,
    /// Its inode then.
    pub inode: u64,
}

/// Neighbouring pages that will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Which of [`Lists::files`].
    pub file: u32,
    /// First page.
    pub first_page: u32,
    /// How many, 1 at least. The file may end before.
    pub pages: u32,
}

/// What a recorded run read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lists {
    /// The files that the lists name, in the order in which the run came to them.
    pub files: Arc<[PlannedFile]>,
    /// What will be read, a list for each reader, in order.
    pub lists: Vec<Vec<Chunk>>,
    /// The recorded roles.
    pub roles: Vec<Role>,
    /// The list of each of them.
    pub list_of: Vec<Option<u32>>,
    /// References of the recorded run to what could be listed, in blocks of the policy.
    pub references: u64,
}

impl Lists {
    /// A list for each reader: processes that ran one after the other share one, and those that took turns by chance.
    #[must_use]
    pub fn by_reader(recording: &Recording) -> Lists {
        Listing::new(recording).by_reader()
    }

    /// One list, in the order of time, for all readers.
    #[must_use]
    pub fn in_order(recording: &Recording) -> Lists {
        Listing::new(recording).in_order()
    }

    /// The same with the files where they are now and as large as they are: without those that are gone, and without what
    /// lies beyond the end of one that has shrunk. Asks for each file, several at a time.
    #[must_use]
    pub fn located(&self) -> (Lists, Names) {
        let finder = Finder::start(Arc::clone(&self.files));
        let (mut files, mut number_of) = (Vec::new(), Vec::new());
        for file in 0..self.files.len() as u32 {
            number_of.push(match finder.wait(file) {
                Place::There(path, bytes) => {
                    files.push(PlannedFile { path, bytes, inode: self.files[file as usize].inode });
                    Some(files.len() as u32 - 1)
                }
                Place::Gone | Place::Sought => None,
            });
        }
        let there = |chunk: &Chunk| {
            let file = number_of.get(chunk.file as usize).copied().flatten()?;
            let pages = files[file as usize].bytes.div_ceil(PAGE_BYTES);
            let left = pages.checked_sub(chunk.first_page.into()).filter(|left| *left > 0)?;
            Some(Chunk { file, pages: chunk.pages.min(u32::try_from(left).unwrap_or(u32::MAX)), ..*chunk })
        };
        let lists = self.lists.iter().map(|list| list.iter().filter_map(there).collect()).collect();
        let (roles, list_of) = (self.roles.clone(), self.list_of.clone());
        (Lists { files: files.into(), lists, roles, list_of, references: self.references }, finder.names())
    }

    /// The bytes of a chunk's file that it names: first byte and how many.
    #[must_use]
    pub fn bytes(&self, chunk: Chunk) -> (u64, u64) {
        let size = self.files.get(chunk.file as usize).map_or(0, |file| file.bytes);
        let offset = u64::from(chunk.first_page) * PAGE_BYTES;
        (offset, (u64::from(chunk.pages) * PAGE_BYTES).min(size.saturating_sub(offset)))
    }

    /// The bytes of the union of all chunks.
    #[must_use]
    pub fn distinct_bytes(&self) -> u64 {
        let mut chunks: Vec<Chunk> = self.lists.iter().flatten().copied().collect();
        chunks.sort_unstable_by_key(|chunk| (chunk.file, chunk.first_page));
        let (mut pages, mut file, mut covered) = (0_u64, u32::MAX, 0_u64);
        for chunk in chunks {
            if chunk.file != file {
                (file, covered) = (chunk.file, 0);
            }
            let (first, end) =
                (u64::from(chunk.first_page), u64::from(chunk.first_page) + u64::from(chunk.pages));
            pages += end.saturating_sub(first.max(covered));
            covered = covered.max(end);
        }
        pages * PAGE_BYTES
    }
}

/// For each file: is it a table, small and only ever mapped?
///
/// Where there are more than tables, it is one if several processes map it. What a single one maps it maps in an order
/// that comes again: objects of a repository, for one.
pub(crate) fn tables(recording: &Recording) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mapped {
        Never,
        By(RoleId),
        BySeveral,
        NotOnly,
    }
    let mut mapped = vec![Mapped::Never; recording.files.len()];
    for access in &recording.accesses {
        let Some(so_far) = mapped.get_mut(access.file.0 as usize) else { continue };
        *so_far = match *so_far {
            _ if access.way != Way::Mapped => Mapped::NotOnly,
            Mapped::Never => Mapped::By(access.role),
            Mapped::By(role) if role != access.role => Mapped::BySeveral,
            same => same,
        };
    }
    let tables = |could_be: fn(Mapped) -> bool| -> Vec<bool> {
        let is_table = |(file, mapped): (&FileRecord, &Mapped)| file.size <= TABLE_BYTES && could_be(*mapped);
        recording.files.iter().zip(&mapped).map(is_table).collect()
    };
    let are_few = |tables: &Vec<bool>| tables.iter().filter(|table| **table).count() <= TABLES;
    let all = tables(|mapped| matches!(mapped, Mapped::By(_) | Mapped::BySeveral));
    let of_several = tables(|mapped| mapped == Mapped::BySeveral);
    [all, of_several].into_iter().find(are_few).unwrap_or_else(|| vec![false; mapped.len()])
}

/// Whether a list may name what an access read.
fn is_data(left_out: &[bool], access: &Access) -> bool {
    access.way != Way::Written && left_out.get(access.file.0 as usize) == Some(&false)
}

/// Lists in the making.
pub(crate) struct Listing<'a> {
    recording: &'a Recording,
    /// Files that no list names: written, executed, or of the start set.
    left_out: Vec<bool>,
    /// What each recorded file is in the lists.
    number_of: Vec<Option<u32>>,
    files: Vec<PlannedFile>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Listing<'a> {
        let mut left_out = tables(recording);
        for fact in &recording.facts {
            if let Fact::Written(file) | Fact::Executed(file) | Fact::Deleted(file) | Fact::Truncated(file) =
                fact
                && let Some(out) = left_out.get_mut(file.0 as usize)
            {
                *out = true;
            }
        }
        let (number_of, files) = (vec![None; recording.files.len()], Vec::new());
        let mut listing = Listing { recording, left_out, number_of, files };
        listing.number();
        listing
    }

    /// Gives the files their numbers, in the order in which they were read.
    fn number(&mut self) {
        for access in self.recording.accesses.iter().filter(|access| is_data(&self.left_out, access)) {
            let at = access.file.0 as usize;
            let (Some(record), Some(number)) = (self.recording.files.get(at), self.number_of.get_mut(at))
            else {
                continue;
            };
            let files = &mut self.files;
            let number = *number.get_or_insert_with(|| {
                files.push(PlannedFile { path: record.path.clone(), bytes: record.size, inode: record.ino });
                files.len() as u32 - 1
            });
            let end = (u64::from(access.first_page) + u64::from(access.pages)) * PAGE_BYTES;
            let file = &mut files[number as usize];
            // It may have grown while it was read; the last page need not be a whole one.
            if end >= file.bytes.saturating_add(PAGE_BYTES) {
                file.bytes = end;
            }
        }
    }

    /// Whether a list may name what an access read.
    pub(crate) fn is_listed(&self, access: &Access) -> bool {
        is_data(&self.left_out, access)
    }

    /// References to what could be listed, in blocks of the policy.
    pub(crate) fn references(&self) -> u64 {
        let listed = self.recording.accesses.iter().filter(|access| self.is_listed(access));
        listed.map(|access| u64::from(access.pages).div_ceil(BLOCK_PAGES)).sum()
    }

    /// The blocks of the policy that were referenced, in the order of time and numbered from 0; `None` when there are more
    /// references than `most`.
    pub(crate) fn order(&self, most: u64) -> Option<Vec<u32>> {
        if self.references() > most {
            return None;
        }
        let mut accesses: Vec<&Access> =
            self.recording.accesses.iter().filter(|access| self.is_listed(access)).collect();
        accesses.sort_by_key(|access| access.at_ns);
        let (mut numbers, mut order) = (HashMap::new(), Vec::new());
        for access in accesses {
            let first = u64::from(access.first_page) / BLOCK_PAGES;
            let end = (u64::from(access.first_page) + u64::from(access.pages)).div_ceil(BLOCK_PAGES);
            for block in first..end {
                let next = numbers.len() as u32;
                let number = *numbers.entry((access.file, block)).or_insert(next);
                // Neighbouring accesses may share a block.
                if order.last() != Some(&number) {
                    order.push(number);
                }
            }
        }
        Some(order)
    }

    /// A list for each lane.
    pub(crate) fn by_reader(self) -> Lists {
        let recording = self.recording;
        let (mut lists, mut list_of) = (Vec::new(), vec![None; recording.roles.len()]);
        for lane in joined_lanes_of(recording, |access| is_data(&self.left_out, access)) {
            let mut list = Vec::new();
            for &at in &lane.accesses {
                let Some(access) = recording.accesses.get(at as usize) else { continue };
                self.list(access, &mut list);
            }
            if list.is_empty() {
                continue;
            }
            for role in lane.roles {
                if let Some(of) = list_of.get_mut(role.0 as usize) {
                    *of = u32::try_from(lists.len()).ok();
                }
            }
            lists.push(list);
        }
        self.finish(lists, list_of)
    }

    /// One list in the order of time.
    fn in_order(self) -> Lists {
        let mut accesses: Vec<&Access> =
            self.recording.accesses.iter().filter(|access| is_data(&self.left_out, access)).collect();
        accesses.sort_by_key(|access| access.at_ns);
        let mut list = Vec::new();
        for access in accesses {
            self.list(access, &mut list);
        }
        let lists = if list.is_empty() { Vec::new() } else { vec![list] };
        let list_of = vec![Some(0); self.recording.roles.len()];
        self.finish(lists, list_of)
    }

    fn finish(self, lists: Vec<Vec<Chunk>>, list_of: Vec<Option<u32>>) -> Lists {
        Lists {
            references: self.references(),
            roles: self.recording.roles.clone(),
            lists,
            list_of,
            files: self.files.into(),
        }
    }

    /// Appends an access to a list; joins it to the last chunk if it follows it.
    fn list(&self, access: &Access, list: &mut Vec<Chunk>) {
        let &Access { first_page, pages, .. } = access;
        let Some(&Some(file)) = self.number_of.get(access.file.0 as usize) else { return };
        if let Some(last) = list.last_mut()
            && last.file == file
            && last.first_page.checked_add(last.pages) == Some(first_page)
            && let Some(joined) = last.pages.checked_add(pages).filter(|joined| *joined <= CHUNK_PAGES)
        {
            last.pages = joined;
            return;
        }
        list.push(Chunk { file, first_page, pages });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::FileNumber;

    #[test]
    fn one_list_follows_time_across_readers_and_ends_with_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = dir.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            FileRecord { path, dev: 0, ino: 0, size: bytes, mtime_ns: 0 }
        };
        let access = |role, file, first_page, at_ns| Access {
            at_ns,
            ..Access::read(RoleId(role), FileNumber(file), first_page, 2)
        };
        let role = |ordinal| Role { parent: None, name: "job".to_owned(), ordinal };
        let recording = Recording {
            roles: vec![role(0), role(1)],
            files: vec![file("a", 10 * PAGE_BYTES), file("b", 3 * PAGE_BYTES + 1000)],
            // A run is written when it ends: not in the order of time.
            accesses: vec![access(1, 1, 2, 6), access(0, 0, 0, 5), access(0, 0, 2, 7)],
            ..Recording::default()
        };
        let (lists, names) = Lists::in_order(&recording).located();
        assert_eq!(names, Names::default());
        let bytes: Vec<(u32, u64, u64)> = lists.lists[0]
            .iter()
            .map(|&chunk| (chunk.file, lists.bytes(chunk).0, lists.bytes(chunk).1))
            .collect();
        let page = PAGE_BYTES;
        // Numbered as they were written down.
        assert_eq!(bytes, [(1, 0, 2 * page), (0, 2 * page, page + 1000), (1, 2 * page, 2 * page)]);
        assert_eq!(lists.distinct_bytes(), 6 * PAGE_BYTES);
        assert_eq!((lists.references, Lists::by_reader(&recording).lists.len()), (3, 2));
    }

    #[test]
    fn located_lists_are_without_what_is_gone_or_beyond_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = dir.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            FileRecord { path, dev: 0, ino: 0, size: 40 * PAGE_BYTES, mtime_ns: 0 }
        };
        let access = |(file, first_page, pages)| Access::read(RoleId(0), FileNumber(file), first_page, pages);
        let recording = Recording {
            roles: vec![Role { parent: None, name: "job".to_owned(), ordinal: 0 }],
            files: vec![file("gone", 0), file("whole", 40 * PAGE_BYTES), file("shrunk", 3 * PAGE_BYTES + 1)],
            accesses: [(1, 38, 2), (0, 0, 1), (2, 0, 8), (2, 20, 4)].map(access).into(),
            ..Recording::default()
        };
        std::fs::remove_file(dir.path().join("gone")).unwrap();
        let (lists, names) = Lists::by_reader(&recording).located();
        assert_eq!(names, Names { renamed: 0, missing: 1 });
        let chunks: Vec<_> =
            lists.lists[0].iter().map(|chunk| (chunk.file, chunk.first_page, chunk.pages)).collect();
        assert_eq!(chunks, [(0, 38, 2), (1, 0, 4)]);
    }
}
