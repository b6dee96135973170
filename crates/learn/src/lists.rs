//! From a recording to lists of what will be read.
//!
//! Left out are files that the run wrote (what will be in them is not known, and where they lie is not either), programs
//! and libraries. Nothing is asked of a file system: where the files are now, and how large they are, the
//! [`Finder`](crate::Finder) finds out.

use std::path::PathBuf;
use std::sync::Arc;

use foretell_recording::{Access, Fact, PAGE_BYTES, Recording, Role, Way, lanes_of};

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
    /// Where it was.
    pub path: PathBuf,
    /// Its size then, bytes, or as much more as was read of it.
    pub bytes: u64,
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
    /// The files that the lists name, in the order in which the job came to them.
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
    /// A list for each reader: processes that ran one after the other share one.
    #[must_use]
    pub fn by_reader(recording: &Recording) -> Lists {
        let left_out = left_out(recording);
        let is_data = |access: &Access| is_data(&left_out, access);
        let files = Files::new(recording, is_data);
        let (mut lists, mut list_of) = (Vec::new(), vec![None; recording.roles.len()]);
        for lane in lanes_of(recording, is_data) {
            let mut list = Vec::new();
            for &at in &lane.accesses {
                let Some(access) = recording.accesses.get(at as usize) else { continue };
                files.list(access, &mut list);
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
        Lists::new(recording, files, lists, list_of)
    }

    /// One list, in the order of time, for all readers.
    #[must_use]
    pub fn in_order(recording: &Recording) -> Lists {
        let left_out = left_out(recording);
        let is_data = |access: &Access| is_data(&left_out, access);
        let files = Files::new(recording, is_data);
        let mut accesses: Vec<&Access> = recording.accesses.iter().filter(|access| is_data(access)).collect();
        accesses.sort_by_key(|access| access.at_ns);
        let mut list = Vec::new();
        accesses.into_iter().for_each(|access| files.list(access, &mut list));
        let lists = if list.is_empty() { Vec::new() } else { vec![list] };
        Lists::new(recording, files, lists, vec![Some(0); recording.roles.len()])
    }

    fn new(recording: &Recording, files: Files, lists: Vec<Vec<Chunk>>, list_of: Vec<Option<u32>>) -> Lists {
        let (roles, references) = (recording.roles.clone(), references(recording));
        Lists { files: files.planned.into(), lists, roles, list_of, references }
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

impl Chunk {
    /// What there is of it in a file of so many bytes: the first byte, and how many.
    #[must_use]
    pub fn bytes(self, file_bytes: u64) -> (u64, u64) {
        let offset = u64::from(self.first_page) * PAGE_BYTES;
        (offset, (u64::from(self.pages) * PAGE_BYTES).min(file_bytes.saturating_sub(offset)))
    }
}

/// References of a run to what could be listed, in blocks of the policy.
pub(crate) fn references(recording: &Recording) -> u64 {
    let left_out = left_out(recording);
    let listed = recording.accesses.iter().filter(|access| is_data(&left_out, access));
    listed.map(|access| u64::from(access.pages).div_ceil(BLOCK_PAGES)).sum()
}

/// Whether a list may name what an access read.
fn is_data(left_out: &[bool], access: &Access) -> bool {
    access.way != Way::Written && left_out.get(access.file.0 as usize) == Some(&false)
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

/// For each file: is it one that no list names, because it is written, or belongs to the start set?
fn left_out(recording: &Recording) -> Vec<bool> {
    let mut left_out = small_mapped(recording);
    for fact in &recording.facts {
        if let Fact::Written(file) | Fact::Executed(file) | Fact::Deleted(file) | Fact::Truncated(file) = fact
            && let Some(out) = left_out.get_mut(file.0 as usize)
        {
            *out = true;
        }
    }
    left_out
}

/// The files of the lists.
struct Files {
    /// What each recorded file is in the plan.
    number_of: Vec<Option<u32>>,
    planned: Vec<PlannedFile>,
}

impl Files {
    fn new(recording: &Recording, is_data: impl Fn(&Access) -> bool) -> Files {
        let mut files = Files { number_of: vec![None; recording.files.len()], planned: Vec::new() };
        for access in recording.accesses.iter().filter(|access| is_data(access)) {
            let at = access.file.0 as usize;
            let (Some(record), Some(number)) = (recording.files.get(at), files.number_of.get_mut(at)) else {
                continue;
            };
            let number = *number.get_or_insert_with(|| {
                files.planned.push(PlannedFile { path: record.path.clone(), bytes: record.size });
                files.planned.len() as u32 - 1
            });
            let end = (u64::from(access.first_page) + u64::from(access.pages)) * PAGE_BYTES;
            let planned = &mut files.planned[number as usize];
            // It may have grown while it was read; the last page need not be a whole one.
            if end >= planned.bytes.saturating_add(PAGE_BYTES) {
                planned.bytes = end;
            }
        }
        files
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
    use foretell_recording::{FileNumber, FileRecord, RoleId};

    #[test]
    fn one_list_follows_time_across_readers() {
        let file = |path: &str, bytes: u64| FileRecord {
            path: path.into(),
            dev: 0,
            ino: 0,
            size: bytes,
            mtime_ns: 0,
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
            files: vec![file("/a", 10 * PAGE_BYTES), file("/b", 3 * PAGE_BYTES + 1000)],
            // A run is written when it ends: not in the order of time.
            accesses: vec![access(1, 1, 2, 6), access(0, 0, 0, 5), access(0, 0, 2, 7)],
            ..Recording::default()
        };
        let lists = Lists::in_order(&recording);
        let listed: Vec<_> = lists.lists[0]
            .iter()
            .map(|chunk| {
                let file = &lists.files[chunk.file as usize];
                (file.path.to_str().unwrap(), chunk.bytes(file.bytes))
            })
            .collect();
        let page = PAGE_BYTES;
        let expected = [("/a", (0, 2 * page)), ("/b", (2 * page, page + 1000)), ("/a", (2 * page, 2 * page))];
        assert_eq!(listed, expected);
        assert_eq!(lists.distinct_bytes(), 6 * page);
        assert_eq!((lists.references, Lists::by_reader(&recording).lists.len()), (3, 2));
        assert_eq!(
            Chunk { file: 0, first_page: 9, pages: 2 }.bytes(3 * page),
            (9 * page, 0),
            "it has shrunk"
        );
    }
}
