//! How far one run repeats another.
//!
//! Two runs are compared reference by reference, a reference being one page. A role of the second run is the
//! role of the first one that has the same name and ordinal under the same parent; a file is the one of the same
//! path. Within one role and file, the k-th reference to a page in one run stands for the k-th reference to it in
//! the other. What can be matched in order is then the longest increasing subsequence (Fredman, Discrete
//! Mathematics 11, 1975: patience sorting) of the places in the first run, taken in the order of the second.
//! This finds the most references that both runs make in the same order wherever a page is referenced once, and
//! a lower bound elsewhere, in n log n steps.
//!
//! Only what was read counts, by system calls or through mappings.
//!
//! Memory is bounded: within a role and file, pages are taken in units of the smallest power of two such that a
//! run has at most [`UNITS`] of them, or two for each access if that is more. A unit that is matched counts as
//! its share of the pages.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;

use crate::{Access, Recording, RoleId, Way};

/// Units of one role and file that are compared: 4 GB of references in pages. A unit takes 24 bytes of memory.
const UNITS: u64 = 1 << 20;

/// The share of the references (pages that were read) of the second run which the first one makes, too, in the
/// same order within the same role and file: 1 if all of them, 0 if none. In which order a role goes from file to
/// file does not matter: [`agreement_in_order`]. A second run without references agrees with a first one without
/// them, and with no other.
#[must_use]
pub fn agreement(first: &Recording, second: &Recording) -> f64 {
    compare(first, second, |role, path| (role, Some(path)))
}

/// As [`agreement`], but in the same order within the same role over all its files: a role that reads the same
/// files in another order agrees in part of them only.
#[must_use]
pub fn agreement_in_order(first: &Recording, second: &Recording) -> f64 {
    compare(first, second, |role, _| (role, None))
}

/// What is compared with what: a role of the first run and, perhaps, the number of a path.
type Group = (RoleId, Option<u32>);

/// References of one group, as pairs of a number of the path and an access.
type Members<'a> = (Vec<(u32, &'a Access)>, Vec<(u32, &'a Access)>);

fn compare(first: &Recording, second: &Recording, group: impl Fn(RoleId, u32) -> Group) -> f64 {
    let same_role = same_roles(first, second);
    let (first_paths, second_paths) = path_numbers(first, second);
    let mut groups: BTreeMap<Group, Members<'_>> = BTreeMap::new();
    for access in references(first) {
        if let Some(&path) = first_paths.get(access.file.0 as usize) {
            groups.entry(group(access.role, path)).or_default().0.push((path, access));
        }
    }
    let mut all_pages = 0u64;
    for access in references(second) {
        all_pages += u64::from(access.pages);
        if let Some(&path) = second_paths.get(access.file.0 as usize)
            && let Some(&Some(role)) = same_role.get(access.role.0 as usize)
            && let Some((_, members)) = groups.get_mut(&group(role, path))
        {
            members.push((path, access));
        }
    }
    if all_pages == 0 {
        return if groups.is_empty() { 1.0 } else { 0.0 };
    }
    let matched_pages: f64 = groups.values().map(|(first, second)| matched_pages(first, second)).sum();
    matched_pages / all_pages as f64
}

/// A number for the path of each file of both runs, the same for the same path.
fn path_numbers(first: &Recording, second: &Recording) -> (Vec<u32>, Vec<u32>) {
    let mut known: HashMap<&OsStr, u32> = HashMap::new();
    let mut numbers = Vec::with_capacity(first.files.len() + second.files.len());
    for file in first.files.iter().chain(&second.files) {
        let next = known.len() as u32;
        numbers.push(*known.entry(file.path.as_os_str()).or_insert(next));
    }
    let of_second = numbers.split_off(first.files.len());
    (numbers, of_second)
}

/// The accesses that read, in the order in which they were recorded.
fn references(recording: &Recording) -> impl Iterator<Item = &Access> {
    recording.accesses.iter().filter(|access| access.way != Way::Written)
}

/// For each role of the second run the one of the first run that stands in the same place.
fn same_roles(first: &Recording, second: &Recording) -> Vec<Option<RoleId>> {
    let mut known: HashMap<(Option<RoleId>, &str, u32), RoleId> = HashMap::new();
    for (n, role) in first.roles.iter().enumerate() {
        known.entry((role.parent, &role.name, role.ordinal)).or_insert(RoleId(n as u32));
    }
    let mut same: Vec<Option<RoleId>> = Vec::with_capacity(second.roles.len());
    for role in &second.roles {
        let parent = match role.parent {
            None => Some(None),
            // A parent that is not in the first run has no children there.
            Some(parent) => same.get(parent.0 as usize).copied().flatten().map(Some),
        };
        same.push(parent.and_then(|parent| known.get(&(parent, &*role.name, role.ordinal)).copied()));
    }
    same
}

/// Pages of the second sequence that the first one has in the same order.
fn matched_pages(first: &[(u32, &Access)], second: &[(u32, &Access)]) -> f64 {
    if first.is_empty() || second.is_empty() {
        return 0.0;
    }
    let limit = UNITS.max(2 * first.len().max(second.len()) as u64);
    let mut shift = 0;
    while shift < 31 && units(first, shift).max(units(second, shift)) > limit {
        shift += 1;
    }
    // Where each unit is in the first run, one place a reference, in order.
    let mut places: Vec<(u64, u32)> =
        expand(first, shift).enumerate().map(|(place, unit)| (unit, place as u32)).collect();
    places.sort_unstable();
    let mut used: Vec<(u64, u32)> =
        expand(second, shift).enumerate().map(|(place, unit)| (unit, place as u32)).collect();
    let all_units = used.len();
    used.sort_unstable();
    // The k-th of one is the k-th of the other.
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut at = 0;
    for &(unit, place) in &used {
        while places.get(at).is_some_and(|&(known, _)| known < unit) {
            at += 1;
        }
        if let Some(&(known, first_place)) = places.get(at)
            && known == unit
        {
            pairs.push((place, first_place));
            at += 1;
        }
    }
    drop((places, used));
    pairs.sort_unstable();
    let matched = longest_increasing(pairs.iter().map(|&(_, first_place)| first_place));
    let pages: u64 = second.iter().map(|(_, access)| u64::from(access.pages)).sum();
    matched as f64 / all_units as f64 * pages as f64
}

/// First and last unit of an access.
fn unit_range(access: &Access, shift: u32) -> (u32, u32) {
    let last = access.first_page.saturating_add(access.pages.saturating_sub(1));
    (access.first_page >> shift, last >> shift)
}

fn units(accesses: &[(u32, &Access)], shift: u32) -> u64 {
    let counts = accesses.iter().map(|(_, access)| {
        let (first, last) = unit_range(access, shift);
        u64::from(last - first) + 1
    });
    counts.sum()
}

/// The units that are referenced, with the number of their path above them.
fn expand<'a>(accesses: &'a [(u32, &'a Access)], shift: u32) -> impl Iterator<Item = u64> + 'a {
    accesses.iter().flat_map(move |(path, access)| {
        let (first, last) = unit_range(access, shift);
        (first..=last).map(|unit| u64::from(*path) << 32 | u64::from(unit))
    })
}

/// Length of the longest strictly increasing subsequence.
fn longest_increasing(numbers: impl Iterator<Item = u32>) -> usize {
    // For each length the smallest number that a subsequence of this length can end with.
    let mut ends: Vec<u32> = Vec::new();
    for number in numbers {
        let at = ends.partition_point(|&end| end < number);
        match ends.get_mut(at) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    ends.len()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{FileNumber, FileRecord, Role};

    /// A job of one role; accesses are (path, first page, pages).
    fn run(accesses: &[(&str, u32, u32)]) -> Recording {
        let mut recording = Recording {
            roles: vec![Role { parent: None, name: "job".into(), ordinal: 0 }],
            ..Recording::default()
        };
        for &(path, first_page, pages) in accesses {
            let known = recording.files.iter().position(|file| file.path == Path::new(path));
            let file = known.unwrap_or_else(|| {
                recording.files.push(FileRecord { path: path.into(), dev: 0, ino: 0, size: 0, mtime_ns: 0 });
                recording.files.len() - 1
            });
            let (role, file) = (RoleId(0), FileNumber(file as u32));
            let at_ns = recording.accesses.len() as u64;
            recording.accesses.push(Access { at_ns, ..Access::read(role, file, first_page, pages) });
        }
        recording
    }

    #[test]
    fn a_run_agrees_with_itself() {
        let one = run(&[("/a", 0, 10), ("/b", 5, 1), ("/a", 3, 4), ("/a", 0, 10)]);
        assert_eq!(agreement(&one, &one), 1.0);
        assert_eq!(agreement_in_order(&one, &one), 1.0);
        assert_eq!(agreement(&Recording::default(), &Recording::default()), 1.0);
    }

    #[test]
    fn nothing_in_common_is_nothing() {
        let one = run(&[("/a", 0, 10)]);
        let other = run(&[("/b", 0, 10)]);
        assert_eq!(agreement(&one, &other), 0.0);
        assert_eq!(agreement(&one, &run(&[("/a", 10, 10)])), 0.0);
        assert_eq!(agreement(&one, &Recording::default()), 0.0);
        assert_eq!(agreement(&Recording::default(), &one), 0.0);
        let mut renamed = one.clone();
        renamed.roles[0].name = "other".into();
        assert_eq!(agreement(&one, &renamed), 0.0);
    }

    #[test]
    fn the_order_of_files_counts_only_where_it_is_asked_for() {
        let files = ["/a", "/b", "/c", "/d"];
        let forth: Vec<(&str, u32, u32)> = files.map(|path| (path, 0, 25)).to_vec();
        let back: Vec<(&str, u32, u32)> = forth.iter().rev().copied().collect();
        assert_eq!(agreement(&run(&forth), &run(&back)), 1.0);
        // One file of four is in order, and its pages are.
        assert_eq!(agreement_in_order(&run(&forth), &run(&back)), 0.25);
    }

    #[test]
    fn pages_in_the_opposite_order_agree_in_one() {
        let forth: Vec<(&str, u32, u32)> = (0..100).map(|page| ("/a", page, 1)).collect();
        let back: Vec<(&str, u32, u32)> = forth.iter().rev().copied().collect();
        assert_eq!(agreement(&run(&forth), &run(&back)), 0.01);
    }

    #[test]
    fn the_share_is_of_the_second_run() {
        let half = run(&[("/a", 0, 50)]);
        let whole = run(&[("/a", 0, 100)]);
        assert_eq!(agreement(&half, &whole), 0.5);
        assert_eq!(agreement(&whole, &half), 1.0);
        // How the pages are cut into accesses does not matter; that one is read twice does.
        assert_eq!(agreement(&whole, &run(&[("/a", 0, 30), ("/a", 30, 70)])), 1.0);
        assert_eq!(agreement(&half, &run(&[("/a", 0, 50), ("/a", 0, 50)])), 0.5);
    }

    #[test]
    fn roles_are_compared_by_their_place() {
        let mut one = run(&[("/a", 0, 10), ("/a", 10, 10)]);
        for ordinal in 0..2 {
            one.roles.push(Role { parent: Some(RoleId(0)), name: "child".into(), ordinal });
        }
        one.accesses[0].role = RoleId(1);
        one.accesses[1].role = RoleId(2);
        let mut other = one.clone();
        // Numbered in another order, but the same processes.
        other.roles.swap(1, 2);
        other.accesses[0].role = RoleId(2);
        other.accesses[1].role = RoleId(1);
        assert_eq!(agreement(&one, &other), 1.0);
        other.roles[1].ordinal = 7;
        assert_eq!(agreement(&one, &other), 0.5);
    }

    #[test]
    fn what_is_written_does_not_count() {
        let mut one = run(&[("/a", 0, 10), ("/out", 0, 90)]);
        one.accesses[1].way = Way::Written;
        assert_eq!(agreement(&run(&[("/a", 0, 10)]), &one), 1.0);
    }

    #[test]
    fn many_pages_are_compared_in_larger_units() {
        let huge = run(&[("/a", 0, u32::MAX), ("/a", 0, u32::MAX)]);
        assert_eq!(agreement(&huge, &huge), 1.0);
        let half = run(&[("/a", 0, u32::MAX)]);
        assert_eq!(agreement(&half, &huge), 0.5);
    }
}
