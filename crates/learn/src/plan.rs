//! From a recording to what will be read tonight.
//!
//! ```text
//!  accesses of data files, lane by lane  ──►  lists, one a lane; a role ──► its list
//!  executables and libraries             ──►  the start set: fetched before the job begins
//!  distinct bytes, free memory           ──►  the budget
//! ```
//!
//! The lists are made in `lists.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use foretell_policy::belady_fetches;
use foretell_recording::{Fact, FileNumber, PAGE_BYTES, Recording, Way};

use crate::lists::{BLOCK_PAGES, Listing, Lists, PlannedFile, tables};
use crate::locate::Locator;
use crate::movement::movement_ns;
use crate::pace::Pace;

/// What we need ourselves beside the cached pages, bytes: with 24,000 references over 2,000 files 10 MB of our own, 6 MB in
/// the kernel, and 7 MB of our program's pages were measured. With 4 MB less the kernel drops a twentieth of what was
/// fetched before it is used.
const OWN_BYTES: u64 = 26 << 20;
/// The ring takes one part of the budget in so many, and is charged to the same memory.
const RING_SHARE: u64 = 32;
/// What the kernel keeps for a cached file beside its pages: inode, directory entry, the tree of its pages. 1.1 KiB, 0.2
/// and 0.6 on ext4 (`/proc/slabinfo`).
const FILE_BYTES: u64 = 2 << 10;
/// A budget below this is not worth having: a few requests of the largest size.
const LEAST_BUDGET_BYTES: u64 = 4 << 20;
/// What a position of a list costs here and in the policy, bytes; a plan takes an eighth of the memory at most.
const POSITION_BYTES: u64 = 48;
/// A job that maps more than this share of what it reads is one that maps.
const MAPPED_SHARE: f64 = 0.5;
/// Reads that may be added by steering: one part in so many of what the kernel read by itself.
const MORE_SHARE: u64 = 10;
/// References of which it is found out how few reads they need: 0.1 s, for which the job waits.
const MOST_IN_ORDER: u64 = 1 << 20;
/// A block of the policy, in which its budget is counted.
const BLOCK_BYTES: u64 = BLOCK_PAGES * PAGE_BYTES;
/// Start set: pages in all at most, 1 GiB.
const START_PAGES: u64 = 1 << 18;
/// It may take the memory that the lists leave, and one part in so many of theirs.
const START_SHARE: u64 = 4;

/// Memory that steering itself needs, bytes: so much less is there for files.
pub const STEERING_BYTES: u64 = OWN_BYTES;
/// With less memory than this beside the job's own nothing is steered: what steering needs, and as much as is worth it for
/// files. In a memory cgroup in which less is left the kernel ends somebody.
pub const LEAST_MEMORY_BYTES: u64 = 36 << 20;
/// With less free memory than this no job is watched: it takes 6 MiB, and up to 10 of the program's pages.
pub const WATCHING_BYTES: u64 = 24 << 20;
const _: () = assert!(LEAST_MEMORY_BYTES >= OWN_BYTES + LEAST_BUDGET_BYTES);

/// Pages of an executable or a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRange {
    /// The file.
    pub path: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// What a job will read, by whom, and with how much memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What will be read.
    pub lists: Lists,
    /// What is fetched before the job begins.
    pub start: Vec<StartRange>,
    /// Bytes of page cache to steer with.
    pub budget_bytes: u64,
    /// Distinct bytes that the lists name.
    pub distinct_bytes: u64,
    /// How far the recorded job had come at what time.
    pub pace: Option<Pace>,
    /// What the arm of its disk took for a movement, as far as the recorded job waited for one; nanoseconds, 0 if it did not.
    pub movement_ns: u64,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// It read nothing that could be read ahead.
    #[error("it read no file")]
    Nothing,
    /// The plan would take more than an eighth of the memory.
    #[error("it makes {references} references, more than can be planned in the memory that there is")]
    TooLong {
        /// How many.
        references: u64,
    },
    /// The kernel keeps all of it, and beside us there would not be room for it.
    #[error("what it reads again stays in memory as it is, and would not beside us")]
    Fits,
    /// It reads once and in sequence what its device does not give faster.
    #[error("it reads in sequence as fast as its disk gives it")]
    FullRate,
    /// It reads again what it has mapped, and there is more of it than memory.
    #[error(
        "most of what it reads is mapped and read again, and more than fits: the kernel sees more of that than we do"
    )]
    Mapped,
    /// There is no memory to steer with.
    #[error("only {free_mib} MiB of memory are there for it")]
    NoMemory {
        /// How much there is.
        free_mib: u64,
    },
}

/// What a plan may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// Memory that there is in all, bytes.
    pub usable_bytes: u64,
    /// What of it page cache may fill at present.
    pub free_bytes: u64,
    /// What the job itself needs, as far as it is known.
    pub job_bytes: u64,
    /// A bound that somebody has named.
    pub most_bytes: Option<u64>,
    /// There is nothing to gain but by reading less ([`is_at_full_rate`](crate::is_at_full_rate)).
    pub at_full_rate: bool,
}

impl Plan {
    /// Makes a plan for tonight of what was recorded.
    ///
    /// # Errors
    /// [`NoPlan`]: then there is nothing to steer.
    pub fn new(recording: &Recording, means: Means) -> Result<Plan, NoPlan> {
        let listing = Listing::new(recording);
        let references = listing.references();
        if references.saturating_mul(POSITION_BYTES) > means.usable_bytes / 8 {
            return Err(NoPlan::TooLong { references });
        }
        let pace = Pace::of(recording, |access| listing.is_listed(access));
        let lists = listing.by_reader();
        if lists.lists.is_empty() {
            return Err(NoPlan::Nothing);
        }
        let distinct_bytes = lists.distinct_bytes();
        let files = lists.files.len() as u64;
        if means.free_bytes < LEAST_MEMORY_BYTES.saturating_add(means.job_bytes) {
            return Err(NoPlan::NoMemory { free_mib: means.free_bytes >> 20 });
        }
        let taken = OWN_BYTES.saturating_add(means.job_bytes).saturating_add(files * FILE_BYTES);
        let most = means.free_bytes.saturating_sub(taken);
        let most = most - most / RING_SHARE;
        // The whole files: tonight the job may read other parts of them, and what is under control cannot be cached
        // beyond the budget. That is counted in blocks: a file of a page takes one.
        let whole = |file: &PlannedFile| file.bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        let files_bytes = lists.files.iter().map(whole).fold(0, u64::saturating_add);
        let most = most.min(means.most_bytes.unwrap_or(u64::MAX));
        if most < LEAST_BUDGET_BYTES {
            return Err(NoPlan::NoMemory { free_mib: most >> 20 });
        }
        let budget_bytes = most.min(files_bytes).max(LEAST_BUDGET_BYTES);
        let read_bytes = recording.summary.device_read_bytes;
        if means.at_full_rate && read_bytes <= distinct_bytes + distinct_bytes / MORE_SHARE {
            return Err(NoPlan::FullRate);
        }
        let reuse = Reuse::of(recording, references, distinct_bytes);
        let fits = reuse.distinct_blocks.saturating_mul(BLOCK_BYTES) <= budget_bytes;
        // Read again, and the kernel kept so much of it in all of the memory that the best replacement would have to read
        // more in what is left beside us.
        if reuse.is_read_again()
            && !fits
            && read_bytes > 0
            && distinct_bytes + reuse.again_bytes(budget_bytes) > read_bytes + read_bytes / MORE_SHARE
        {
            return Err(NoPlan::Fits);
        }
        // Of a mapped page neither the kernel nor we are told each use, and it cannot be dropped while it is mapped. To
        // fetch such pages ahead pays, to choose which of them stay does not.
        if mapped_share(recording) > MAPPED_SHARE && reuse.is_read_again() && !fits {
            return Err(NoPlan::Mapped);
        }
        let start = start_set(recording, (most - budget_bytes).max(budget_bytes / START_SHARE));
        let movement_ns = movement_ns(recording);
        Ok(Plan { lists, start, budget_bytes, distinct_bytes, pace, movement_ns })
    }
}

/// How often a recorded run referenced the same blocks.
struct Reuse {
    references: u64,
    distinct_blocks: u64,
    /// The blocks in the order of time; `None` for a very long run.
    order: Option<Vec<u32>>,
}

impl Reuse {
    fn of(recording: &Recording, references: u64, distinct_bytes: u64) -> Reuse {
        let order = Listing::new(recording).order(MOST_IN_ORDER);
        let distinct_blocks = match &order {
            Some(order) => order.iter().max().map_or(0, |last| u64::from(*last) + 1),
            None => distinct_bytes.div_ceil(BLOCK_BYTES),
        };
        Reuse { references, distinct_blocks, order }
    }

    /// Is half as much read again as there is?
    fn is_read_again(&self) -> bool {
        self.references / 3 > self.distinct_blocks / 2
    }

    /// What the best replacement reads once more with a budget that is less than what there is, bytes. Of a very long run what
    /// has no room.
    fn again_bytes(&self, budget_bytes: u64) -> u64 {
        let cache_blocks = budget_bytes / BLOCK_BYTES;
        let again_blocks = match &self.order {
            Some(order) => {
                let cache_blocks = u32::try_from(cache_blocks).unwrap_or(u32::MAX);
                belady_fetches(order, cache_blocks).saturating_sub(self.distinct_blocks)
            }
            None => self.distinct_blocks.saturating_sub(cache_blocks),
        };
        again_blocks.saturating_mul(BLOCK_BYTES)
    }
}

/// How much of what a recorded run referenced was mapped, from 0 to 1.
fn mapped_share(recording: &Recording) -> f64 {
    let pages = |of: &dyn Fn(Way) -> bool| -> u64 {
        recording.accesses.iter().filter(|access| of(access.way)).map(|access| u64::from(access.pages)).sum()
    };
    pages(&|way| way == Way::Mapped) as f64 / pages(&|way| way != Way::Written).max(1) as f64
}

/// What of executables and libraries was used, joined, by file and place.
fn start_set(recording: &Recording, most_bytes: u64) -> Vec<StartRange> {
    let mut locator = Locator::default();
    let executed = |fact: &Fact| match fact {
        Fact::Executed(file) => Some(*file),
        _ => None,
    };
    let tables = (0_u32..).map(FileNumber).zip(tables(recording)).filter(|(_, table)| *table);
    let files = recording.facts.iter().filter_map(executed).chain(tables.map(|(file, _)| file));
    let mut used: BTreeMap<FileNumber, Vec<(u64, u64)>> = files.map(|file| (file, Vec::new())).collect();
    for access in &recording.accesses {
        if let Some(ranges) = used.get_mut(&access.file) {
            let first = u64::from(access.first_page);
            ranges.push((first, first + u64::from(access.pages)));
        }
    }
    let (mut set, mut left) = (Vec::new(), START_PAGES.min(most_bytes / PAGE_BYTES));
    for (file, mut ranges) in used {
        let Some(path) = recording.files.get(file.0 as usize).and_then(|f| locator.find(&f.path)) else {
            continue;
        };
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, end) in ranges {
            match joined.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((first, end)),
            }
        }
        for (first, end) in joined {
            let pages = (end - first).min(left);
            left -= pages;
            if pages > 0 {
                let (offset, length) = (first * PAGE_BYTES, pages * PAGE_BYTES);
                set.push(StartRange { path: path.clone(), offset, length });
            }
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{Access, FileRecord, Role, RoleId};
    use std::path::Path;

    const MEANS: Means = Means {
        usable_bytes: 1 << 30,
        free_bytes: 1 << 28,
        job_bytes: 0,
        most_bytes: None,
        at_full_rate: false,
    };

    /// A recording of one role; the files are made as large as they are said to be.
    fn recording(dir: &Path, files: &[(&str, u64)], accesses: &[(u32, u32, u32, Way)]) -> Recording {
        let file = |(name, size): &(&str, u64)| {
            let path = dir.join(name);
            std::fs::File::create(&path).unwrap().set_len(*size).unwrap();
            FileRecord { path, dev: 0, ino: 0, size: *size, mtime_ns: 0 }
        };
        let access = |(at, &(file, first_page, pages, way)): (usize, &(u32, u32, u32, Way))| Access {
            at_ns: at as u64,
            way,
            ..Access::read(RoleId(0), FileNumber(file), first_page, pages)
        };
        Recording {
            roles: vec![Role { parent: None, name: "job".to_owned(), ordinal: 0 }],
            files: files.iter().map(file).collect(),
            accesses: accesses.iter().enumerate().map(access).collect(),
            ..Recording::default()
        }
    }

    fn chunks(plan: &Plan) -> Vec<(u32, u32, u32)> {
        plan.lists.lists[0].iter().map(|chunk| (chunk.file, chunk.first_page, chunk.pages)).collect()
    }

    #[test]
    fn what_is_read_is_listed_and_neighbours_are_joined() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("a", 40 * PAGE_BYTES), ("b", 10 * PAGE_BYTES)];
        let read = [(0, 0, 8), (0, 8, 8), (1, 4, 2), (0, 16, 4), (0, 0, 8)];
        let read: Vec<_> = read.map(|(file, first, pages)| (file, first, pages, Way::Read)).into();
        let plan = Plan::new(&recording(dir.path(), &files, &read), MEANS).unwrap();
        assert_eq!(chunks(&plan), [(0, 0, 16), (1, 4, 2), (0, 16, 4), (0, 0, 8)]);
        assert_eq!(plan.distinct_bytes, 22 * PAGE_BYTES);
        assert_eq!(plan.lists.list_of, [Some(0)]);
    }

    #[test]
    fn files_have_the_order_in_which_they_are_needed_and_the_size_that_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("never", 4096), ("late", 4096), ("early", 3 * PAGE_BYTES + 1), ("grown", 4096)];
        let read = [(2, 0, 4), (3, 4, 2), (1, 0, 1), (2, 0, 4)];
        let read: Vec<_> = read.map(|(file, first, pages)| (file, first, pages, Way::Read)).into();
        let recorded = recording(dir.path(), &files, &read);
        let plan = Plan::new(&recorded, MEANS).unwrap();
        let named: Vec<_> = plan
            .lists
            .files
            .iter()
            .map(|file| (file.path.file_name().unwrap().to_str().unwrap(), file.bytes))
            .collect();
        assert_eq!(named, [("early", 3 * PAGE_BYTES + 1), ("grown", 6 * PAGE_BYTES), ("late", 4096)]);
        assert_eq!(chunks(&plan), [(0, 0, 4), (1, 4, 2), (2, 0, 1), (0, 0, 4)]);
    }

    #[test]
    fn what_is_written_or_executed_is_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let files =
            [("data", 4096), ("out", 4096), ("lib.so", 1 << 20), ("locale", 4096), ("mapped", 2 << 20)];
        let accesses = [
            (0, 0, 1, Way::Read),
            (1, 0, 1, Way::Read),
            (2, 0, 1, Way::Read),
            (2, 16, 16, Way::Mapped),
            (3, 0, 1, Way::Mapped),
            (4, 7, 2, Way::Mapped),
        ];
        let mut recorded = recording(dir.path(), &files, &accesses);
        recorded.facts = vec![Fact::Written(FileNumber(1)), Fact::Executed(FileNumber(2))];
        let plan = Plan::new(&recorded, MEANS).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let listed =
            |plan: &Plan| -> Vec<String> { plan.lists.files.iter().map(|file| name(&file.path)).collect() };
        let start = |plan: &Plan| -> Vec<(String, u64, u64)> {
            plan.start.iter().map(|range| (name(&range.path), range.offset, range.length)).collect()
        };
        let library = [("lib.so".to_owned(), 0, 4096), ("lib.so".to_owned(), 65_536, 65_536)];
        let table = [("locale".to_owned(), 0, 4096)];
        assert_eq!(listed(&plan), ["data", "mapped"]);
        assert_eq!(start(&plan), [&library[..], &table].concat());
        // Of many small files those are tables that a second process maps as well.
        for number in 0..70_u32 {
            let path = dir.path().join(format!("object-{number}"));
            recorded.files.push(FileRecord { path, dev: 0, ino: 0, size: 4096, mtime_ns: 0 });
            recorded.accesses.push(Access { file: FileNumber(5 + number), ..recorded.accesses[4] });
        }
        let plan = Plan::new(&recorded, MEANS).unwrap();
        assert_eq!(listed(&plan)[..4], ["data", "locale", "mapped", "object-0"]);
        assert_eq!(start(&plan), library);
        recorded.roles.push(Role { parent: None, name: "other".to_owned(), ordinal: 0 });
        recorded.accesses.push(Access { role: RoleId(1), ..recorded.accesses[4] });
        let plan = Plan::new(&recorded, MEANS).unwrap();
        assert_eq!(listed(&plan)[..3], ["data", "mapped", "object-0"]);
        assert_eq!(start(&plan), [&library[..], &table].concat());
    }

    #[test]
    fn what_fits_without_us_and_not_beside_us_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("a", 8192 * PAGE_BYTES)];
        let read = [(0, 0, 8192, Way::Read), (0, 0, 8192, Way::Read)];
        let mut recorded = recording(dir.path(), &files, &read);
        let tight = Means { free_bytes: 50 << 20, ..MEANS };
        recorded.summary.device_read_bytes = 33 << 20;
        assert_eq!(Plan::new(&recorded, tight).unwrap_err(), NoPlan::Fits);
        assert!(Plan::new(&recorded, MEANS).is_ok(), "there is room for both");
        // 23 MiB of the 32 fit beside us: 9 would be read again.
        recorded.summary.device_read_bytes = 36 << 20;
        assert_eq!(Plan::new(&recorded, tight).unwrap_err(), NoPlan::Fits, "most of it was kept");
        recorded.summary.device_read_bytes = 39 << 20;
        assert!(Plan::new(&recorded, tight).is_ok(), "the kernel read nearly as much again");
        recorded.accesses.pop();
        recorded.summary.device_read_bytes = 33 << 20;
        assert!(Plan::new(&recorded, tight).is_ok(), "it is read once");
    }

    #[test]
    fn what_is_read_once_at_the_rate_of_its_disk_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let read = [(0, 0, 8192, Way::Read), (0, 0, 8192, Way::Read)];
        let mut recorded = recording(dir.path(), &[("a", 8192 * PAGE_BYTES)], &read);
        recorded.summary.device_read_bytes = 33 << 20;
        let full = Means { at_full_rate: true, ..MEANS };
        assert_eq!(Plan::new(&recorded, full).unwrap_err(), NoPlan::FullRate);
        assert!(Plan::new(&recorded, MEANS).is_ok());
        recorded.summary.device_read_bytes = 64 << 20;
        assert!(Plan::new(&recorded, full).is_ok(), "it can be read less often");
    }

    /// A file of a page takes a block, and is read once for all that.
    #[test]
    fn small_files_that_are_read_once_are_not_taken_for_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..8192).map(|i| format!("object-{i}")).collect();
        let files: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), PAGE_BYTES)).collect();
        let read: Vec<_> = (0..8192).map(|file| (file, 0, 1, Way::Read)).collect();
        let mut recorded = recording(dir.path(), &files, &read);
        recorded.summary.device_read_bytes = 33 << 20;
        let tight = Means { free_bytes: 70 << 20, ..MEANS };
        assert!(Plan::new(&recorded, tight).is_ok());
        let plan = Plan::new(&recorded, MEANS).unwrap();
        assert_eq!(plan.budget_bytes, 64 << 20, "all of them fit in blocks");
    }

    #[test]
    fn what_is_mapped_again_and_again_and_does_not_fit_is_left_to_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("model", 16384 * PAGE_BYTES)];
        let read = |way| [(0, 0, 16384, way), (0, 0, 16384, way)];
        let tight = Means { free_bytes: 70 << 20, ..MEANS };
        let plan = |recorded: &Recording, means| Plan::new(recorded, means).map(|_| ());
        let mapped = recording(dir.path(), &files, &read(Way::Mapped));
        assert_eq!(plan(&mapped, tight), Err(NoPlan::Mapped));
        assert_eq!(plan(&mapped, MEANS), Ok(()), "it fits: it is only fetched ahead");
        assert_eq!(plan(&recording(dir.path(), &files, &read(Way::Read)), tight), Ok(()));
        let once = recording(dir.path(), &files, &[(0, 0, 16384, Way::Mapped)]);
        assert_eq!(plan(&once, tight), Ok(()), "read once");
    }

    #[test]
    fn the_budget_is_what_is_free_and_never_more_than_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let pages = 1 << 14;
        let files = [("a", u64::from(pages) * PAGE_BYTES)];
        let recorded = recording(dir.path(), &files, &[(0, 0, pages, Way::Read)]);
        let budget =
            |means| Plan::new(&recorded, means).map(|plan| plan.budget_bytes.next_multiple_of(1 << 20) >> 20);
        assert_eq!(budget(MEANS), Ok(64), "the whole file");
        assert_eq!(budget(Means { free_bytes: 58 << 20, ..MEANS }), Ok(31), "less what we need ourselves");
        assert_eq!(budget(Means { free_bytes: 68 << 20, job_bytes: 18 << 20, ..MEANS }), Ok(24));
        assert_eq!(budget(Means { most_bytes: Some(20 << 20), ..MEANS }), Ok(20));
        // Enough for a budget, and not for a start.
        let little = Means { free_bytes: 50 << 20, job_bytes: 18 << 20, ..MEANS };
        assert_eq!(budget(little), Err(NoPlan::NoMemory { free_mib: 50 }));
        assert_eq!(budget(Means { free_bytes: 10 << 20, ..MEANS }), Err(NoPlan::NoMemory { free_mib: 10 }));
        let references = u64::from(pages) / BLOCK_PAGES;
        assert_eq!(budget(Means { usable_bytes: 1 << 20, ..MEANS }), Err(NoPlan::TooLong { references }));
        assert_eq!(budget(Means { usable_bytes: 8 * 48 * references, ..MEANS }), Ok(64));
        assert_eq!(Plan::new(&recording(dir.path(), &files, &[]), MEANS).unwrap_err(), NoPlan::Nothing);
    }
}
