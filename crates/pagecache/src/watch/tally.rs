//! What a watched job did, added up by process and by file.
//!
//! A *reference* is what the plane calls one: a run of accesses of one process to one block. A block that a process of
//! the job brought into the cache, by asking for it or by the kernel's readahead on its behalf, is a *demand fetch*;
//! what was referenced and not fetched was a hit.

use foldhash::HashMap;
use std::path::PathBuf;

use foretell_policy::{Counters, DEFAULT_BLOCK_BYTES};
use foretell_recording::PAGE_BYTES;

use crate::ledger::add_process;
use crate::observe::Observer;
use crate::report::{FileReport, ProcessReport, REPORTED_FILES, REPORTED_PROCESSES};

/// Pages of a block, the plane's unit.
const BLOCK_PAGES: u64 = DEFAULT_BLOCK_BYTES as u64 / PAGE_BYTES;

/// References and pages fetched.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    references: u64,
    fetched_pages: u64,
}

impl Sum {
    fn counts(self) -> Counters {
        let fetches = self.fetched_pages.div_ceil(BLOCK_PAGES);
        // The kernel's readahead fetches also what nobody references.
        let hits = self.references.saturating_sub(fetches);
        Counters { references: self.references, hits, demand_fetches: fetches, ..Counters::default() }
    }
}

/// What is known of a process that lives.
#[derive(Debug, Default)]
struct Present {
    name: String,
    sum: Sum,
}

/// A file of the job.
#[derive(Debug)]
struct File {
    path: PathBuf,
    sum: Sum,
}

/// The sums.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    all: Sum,
    present: HashMap<u32, Present>,
    ended: Vec<ProcessReport>,
    others_ended: Option<ProcessReport>,
    /// By number; those beyond [`REPORTED_FILES`] are one.
    files: Vec<File>,
    other_files: Sum,
}

impl Tally {
    /// A process of the job.
    pub(super) fn began(&mut self, tgid: u32, name: &str) {
        self.present.entry(tgid).or_default().name = name.to_owned();
    }

    /// Another one, which its parent has started.
    pub(super) fn forked(&mut self, parent: u32, child: u32) {
        let name = self.present.get(&parent).map(|present| present.name.clone()).unwrap_or_default();
        self.began(child, &name);
    }

    /// The next file of the job.
    pub(super) fn add_file(&mut self, path: PathBuf) {
        if self.files.len() < REPORTED_FILES {
            self.files.push(File { path, sum: Sum::default() });
        }
    }

    /// A process referenced pages of a file, one after the other.
    pub(super) fn referenced(&mut self, tgid: u32, file: u32, first_page: u32, pages: u32) {
        let (first, end) = (u64::from(first_page), u64::from(first_page) + u64::from(pages));
        let blocks = end.div_ceil(BLOCK_PAGES) - first / BLOCK_PAGES;
        self.add(tgid, file, Sum { references: blocks, fetched_pages: 0 });
    }

    /// Pages of a file have been fetched for a process.
    pub(super) fn fetched(&mut self, tgid: u32, file: u32, pages: u64) {
        self.add(tgid, file, Sum { references: 0, fetched_pages: pages });
    }

    fn add(&mut self, tgid: u32, file: u32, what: Sum) {
        let file = self.files.get_mut(file as usize).map_or(&mut self.other_files, |file| &mut file.sum);
        let process = self.present.get_mut(&tgid).map(|present| &mut present.sum);
        for sum in [Some(&mut self.all), Some(file), process].into_iter().flatten() {
            sum.references += what.references;
            sum.fetched_pages += what.fetched_pages;
        }
    }

    /// A process has ended.
    pub(super) fn exited(&mut self, tgid: u32, device_read_bytes: u64, wait_ns: u64) {
        let Some(present) = self.present.remove(&tgid) else { return };
        let report = process_report(tgid, present, device_read_bytes, wait_ns);
        if self.ended.len() < REPORTED_PROCESSES {
            self.ended.push(report);
        } else {
            add_process(&mut self.others_ended, &report);
        }
    }

    /// All references and fetches.
    pub(super) fn counts(&self) -> Counters {
        self.all.counts()
    }

    /// Processes, those that have ended first; what those that live have waited and read says the observer.
    pub(super) fn processes(&self, observer: Option<&Observer>) -> Vec<ProcessReport> {
        let mut processes = self.ended.clone();
        let mut present: Vec<_> = self.present.iter().collect();
        present.sort_unstable_by_key(|(tgid, _)| **tgid);
        for (&tgid, Present { name, sum }) in present {
            let read = observer.and_then(|observer| observer.device_read_bytes(tgid)).unwrap_or(0);
            let wait_ns = observer.and_then(|observer| observer.wait_ns(tgid)).unwrap_or(0);
            let present = Present { name: name.clone(), sum: *sum };
            processes.push(process_report(tgid, present, read, wait_ns));
        }
        processes.extend(self.others_ended.clone());
        processes
    }

    /// Files in the order in which they were first seen.
    pub(super) fn files(&self) -> Vec<FileReport> {
        let of = |file: &File| FileReport { path: file.path.clone(), counts: file.sum.counts() };
        let mut files: Vec<FileReport> = self.files.iter().map(of).collect();
        if self.other_files.references + self.other_files.fetched_pages > 0 {
            files.push(FileReport { path: "others".into(), counts: self.other_files.counts() });
        }
        files
    }
}

fn process_report(tgid: u32, present: Present, device_read_bytes: u64, wait_ns: u64) -> ProcessReport {
    ProcessReport {
        pid: Some(tgid),
        name: present.name,
        manager: String::new(),
        wait_s: wait_ns as f64 / 1e9,
        device_read_bytes,
        counts: present.sum.counts(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_added_up_by_process_and_by_file() {
        let mut tally = Tally::default();
        tally.began(10, "sh");
        tally.forked(10, 11);
        tally.began(11, "cat");
        ["/a", "/b"].into_iter().for_each(|path| tally.add_file(path.into()));
        // Pages 1 to 4 lie in three blocks.
        tally.referenced(11, 0, 1, 4);
        tally.fetched(11, 0, 4);
        tally.referenced(10, 1, 0, 1);
        tally.exited(11, 5000, 7_000_000);
        let counts = |references, hits, demand_fetches| Counters {
            references,
            hits,
            demand_fetches,
            ..Counters::default()
        };
        assert_eq!(tally.counts(), counts(4, 2, 2));
        let processes = tally.processes(None);
        let names: Vec<_> = processes.iter().map(|p| (p.pid, p.name.as_str(), p.counts)).collect();
        assert_eq!(names, [(Some(11), "cat", counts(3, 1, 2)), (Some(10), "sh", counts(1, 1, 0))]);
        assert_eq!((processes[0].device_read_bytes, processes[0].wait_s), (5000, 0.007));
        let files: Vec<_> = tally.files().into_iter().map(|f| (f.path, f.counts)).collect();
        assert_eq!(files, [("/a".into(), counts(3, 1, 2)), ("/b".into(), counts(1, 1, 0))]);
    }

    #[test]
    fn beyond_the_limits_there_are_sums() {
        let mut tally = Tally::default();
        for n in 0..=REPORTED_FILES as u32 {
            tally.add_file(n.to_string().into());
            tally.referenced(1, n, 0, 1);
        }
        for tgid in 0..=REPORTED_PROCESSES as u32 {
            tally.began(tgid, "x");
            tally.exited(tgid, 1, 0);
        }
        let (files, processes) = (tally.files(), tally.processes(None));
        assert_eq!((files.len(), processes.len()), (REPORTED_FILES + 1, REPORTED_PROCESSES + 1));
        assert_eq!(files.last().unwrap().counts.references, 1);
        assert_eq!(processes.last().unwrap().pid, None);
    }
}
