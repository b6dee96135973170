//! From a recording to lists of what will be read.
//!
//! Left out are files that the run wrote (what will be in them is not known, and where they lie is not either), files
//! that are gone, programs and libraries, and what lies beyond the end of a file that has shrunk.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use foretell_recording::{Access, Fact, FileNumber, PAGE_BYTES, Recording, Role, Way, lanes_of};

use crate::locate::Locator;

/// The job waits while its files are looked for. After this time the rest, which is read last, is left out.
const PLAN_TIME: Duration = Duration::from_millis(300);
/// Pages of a chunk at most, 8 MiB, but for one that was read at once: whoever hands chunks over can stop between two.
const CHUNK_PAGES: u32 = 1 << 11;
/// The policy's block, in pages: positions are counted in blocks of 8 KiB.
pub(crate) const BLOCK_PAGES: u64 = 2;
/// A file up to this size that is mapped and never read belongs to the start set: tables of locales and of character
/// sets, which every program of a job maps anew, in no order worth following.
const SMALL_MAPPED_BYTES: u64 = 1 << 20;

/// A file that will be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Where it is now.
    pub path: PathBuf,
    /// Its size now, bytes.
    pub bytes: u64,
}

/// Neighbouring pages that will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Which of [`Lists::files`].
    pub file: u32,
    /// First page.
    pub first_page: u32,
    /// How many, 1 at least; the last one may be cut by the end of the file.
    pub pages: u32,
}

/// What a recorded run read of files that are still there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lists {
    /// The files that the lists name.
    pub files: Vec<PlannedFile>,
    /// What will be read, a list for each reader, in order.
    pub lists: Vec<Vec<Chunk>>,
    /// The recorded roles.
    pub roles: Vec<Role>,
    /// The list of each of them.
    pub list_of: Vec<Option<u32>>,
    /// Files that bear another name now.
    pub renamed: u64,
    /// Files that are gone.
    pub missing: u64,
    /// References of the recorded run to what could be listed, in blocks of the policy.
    pub references: u64,
}

impl Lists {
    /// A list for each reader: processes that ran one after the other share one.
    #[must_use]
    pub fn by_reader(recording: &Recording) -> Lists {
        Places::new(recording, &mut Locator::default()).by_reader()
    }

    /// One list, in the order of time, for all readers.
    #[must_use]
    pub fn in_order(recording: &Recording) -> Lists {
        Places::new(recording, &mut Locator::default()).in_order()
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

/// For each file: is it small, and only ever mapped?
pub(crate) fn small_mapped(recording: &Recording) -> Vec<bool> {
    let mut small: Vec<bool> = recording.files.iter().map(|file| file.size <= SMALL_MAPPED_BYTES).collect();
    for access in &recording.accesses {
        if access.way != Way::Mapped
            && let Some(small) = small.get_mut(access.file.0 as usize)
        {
            *small = false;
        }
    }
    small
}

/// Whether a list may name what an access read.
fn is_data(left_out: &[bool], access: &Access) -> bool {
    access.way != Way::Written && left_out.get(access.file.0 as usize) == Some(&false)
}

/// Where the recorded files are now.
pub(crate) struct Places<'a> {
    recording: &'a Recording,
    /// Files that no list names: written, or executed.
    left_out: Vec<bool>,
    /// What each recorded file is in the plan, once it was looked for.
    planned: HashMap<FileNumber, Option<u32>>,
    files: Vec<PlannedFile>,
    locator: &'a mut Locator,
    missing: u64,
    began: Instant,
}

impl<'a> Places<'a> {
    pub(crate) fn new(recording: &'a Recording, locator: &'a mut Locator) -> Places<'a> {
        let mut left_out = vec![false; recording.files.len()];
        for fact in &recording.facts {
            if let Fact::Written(file) | Fact::Executed(file) | Fact::Deleted(file) | Fact::Truncated(file) =
                fact
                && let Some(out) = left_out.get_mut(file.0 as usize)
            {
                *out = true;
            }
        }
        for (file, out) in small_mapped(recording).into_iter().zip(&mut left_out) {
            *out |= file;
        }
        let (planned, files) = (HashMap::new(), Vec::new());
        Places { recording, left_out, planned, files, locator, missing: 0, began: Instant::now() }
    }

    /// References to what could be listed, in blocks of the policy.
    pub(crate) fn references(&self) -> u64 {
        let listed = self.recording.accesses.iter().filter(|access| is_data(&self.left_out, access));
        listed.map(|access| u64::from(access.pages).div_ceil(BLOCK_PAGES)).sum()
    }

    /// A list for each lane.
    pub(crate) fn by_reader(mut self) -> Lists {
        let recording = self.recording;
        let (mut lists, mut list_of) = (Vec::new(), vec![None; recording.roles.len()]);
        let left_out = self.left_out.clone();
        for lane in lanes_of(recording, |access| is_data(&left_out, access)) {
            let mut list = Vec::new();
            for &at in &lane.accesses {
                let Some(access) = recording.accesses.get(at as usize) else { continue };
                self.list(access.file, access.first_page, access.pages, &mut list);
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
    fn in_order(mut self) -> Lists {
        let mut accesses: Vec<&Access> =
            self.recording.accesses.iter().filter(|access| is_data(&self.left_out, access)).collect();
        accesses.sort_by_key(|access| access.at_ns);
        let mut list = Vec::new();
        for access in accesses {
            self.list(access.file, access.first_page, access.pages, &mut list);
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
            renamed: self.locator.renamed(),
            missing: self.missing,
            files: self.files,
        }
    }

    /// Appends what there is of some pages to a list; joins what follows the last chunk.
    fn list(&mut self, number: FileNumber, first_page: u32, pages: u32, list: &mut Vec<Chunk>) {
        let file = match self.planned.get(&number) {
            Some(&known) => known,
            None => {
                let found = self.look(number);
                self.planned.insert(number, found);
                found
            }
        };
        let Some(file) = file else { return };
        let end_page = self.files[file as usize].bytes.div_ceil(PAGE_BYTES);
        let end = (u64::from(first_page) + u64::from(pages)).min(end_page);
        let Some(pages) = end.checked_sub(first_page.into()).filter(|pages| *pages > 0) else { return };
        let Ok(pages) = u32::try_from(pages) else { return };
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

    fn look(&mut self, number: FileNumber) -> Option<u32> {
        let at = number.0 as usize;
        let recorded = self.recording.files.get(at)?;
        if self.left_out[at] {
            return None;
        }
        if self.began.elapsed() >= PLAN_TIME {
            self.missing += 1;
            return None;
        }
        let found = self.locator.find(&recorded.path);
        let metadata = found.as_ref().and_then(|path| std::fs::metadata(path).ok());
        let (Some(path), Some(metadata)) = (found, metadata.filter(std::fs::Metadata::is_file)) else {
            self.missing += 1;
            return None;
        };
        self.files.push(PlannedFile { path, bytes: metadata.len() });
        u32::try_from(self.files.len() - 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{FileRecord, RoleId};

    #[test]
    fn one_list_follows_time_across_readers_and_ends_with_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = dir.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            FileRecord { path, dev: 0, ino: 0, size: bytes, mtime_ns: 0 }
        };
        let access = |role, file, first_page, at_ns| Access {
            role: RoleId(role),
            file: FileNumber(file),
            first_page,
            pages: 2,
            at_ns,
            waited_ns: 0,
            way: Way::Read,
        };
        let role = |ordinal| Role { parent: None, name: "job".to_owned(), ordinal };
        let recording = Recording {
            roles: vec![role(0), role(1)],
            files: vec![file("a", 10 * PAGE_BYTES), file("b", 3 * PAGE_BYTES + 1000)],
            // A run is written when it ends: not in the order of time.
            accesses: vec![access(1, 1, 2, 6), access(0, 0, 0, 5), access(0, 0, 2, 7)],
            ..Recording::default()
        };
        let lists = Lists::in_order(&recording);
        let bytes: Vec<(u32, u64, u64)> = lists.lists[0]
            .iter()
            .map(|&chunk| (chunk.file, lists.bytes(chunk).0, lists.bytes(chunk).1))
            .collect();
        let page = PAGE_BYTES;
        assert_eq!(bytes, [(0, 0, 2 * page), (1, 2 * page, page + 1000), (0, 2 * page, 2 * page)]);
        assert_eq!(lists.distinct_bytes(), 6 * PAGE_BYTES);
        assert_eq!((lists.references, Lists::by_reader(&recording).lists.len()), (3, 2));
    }
}
