//! What processes and files that are gone have done, for the report.

use std::path::PathBuf;

use foretell_policy::Counters;

use crate::report::{FileReport, ProcessReport, REPORTED_FILES, REPORTED_PROCESSES};

/// Lists with an end: what does not fit is summed up.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    processes: Vec<(u32, ProcessReport)>,
    other_processes: Option<ProcessReport>,
    files: Vec<(u32, FileReport)>,
    other_files: Option<FileReport>,
    sum_only: bool,
}

impl Ledger {
    /// One that lists what has ended, or keeps sums of it only.
    pub(crate) fn new(sum_only: bool) -> Ledger {
        Ledger { sum_only, ..Ledger::default() }
    }

    /// A process has ended; `order`: the order of its appearance.
    pub(crate) fn end_process(&mut self, order: u32, report: ProcessReport) {
        if self.processes.len() < REPORTED_PROCESSES && !self.sum_only {
            self.processes.push((order, report));
        } else {
            add_process(&mut self.other_processes, &report);
        }
    }

    /// A file is under control no more.
    pub(crate) fn end_file(&mut self, order: u32, path: PathBuf, counts: Counters) {
        let report = FileReport { path, counts };
        if self.files.len() < REPORTED_FILES && !self.sum_only {
            self.files.push((order, report));
        } else {
            add_file(&mut self.other_files, &report);
        }
    }

    /// Those that have ended and those that live, in order of appearance, with a last one for the rest.
    pub(crate) fn processes(&self, live: Vec<(u32, ProcessReport)>) -> Vec<ProcessReport> {
        let mut all = [self.processes.clone(), live].concat();
        all.sort_by_key(|(order, _)| *order);
        let mut others = self.other_processes.clone();
        let rest = all.split_off(REPORTED_PROCESSES.min(all.len()));
        rest.iter().for_each(|(_, report)| add_process(&mut others, report));
        all.into_iter().map(|(_, report)| report).chain(others).collect()
    }

    /// The same for files, without those that nothing has happened to.
    pub(crate) fn files(&self, live: Vec<(u32, FileReport)>) -> Vec<FileReport> {
        let mut all = [self.files.clone(), live].concat();
        all.retain(|(_, report)| report.counts != Counters::default());
        all.sort_by_key(|(order, _)| *order);
        let mut others = self.other_files.clone();
        let rest = all.split_off(REPORTED_FILES.min(all.len()));
        rest.iter().for_each(|(_, report)| add_file(&mut others, report));
        all.into_iter().map(|(_, report)| report).chain(others).collect()
    }
}

/// Adds what a process has done to the sum of those not listed.
pub(crate) fn add_process(sum: &mut Option<ProcessReport>, report: &ProcessReport) {
    let sum = sum.get_or_insert_with(|| ProcessReport {
        pid: None,
        name: "others".to_owned(),
        manager: "others".to_owned(),
        wait_s: 0.0,
        device_read_bytes: 0,
        counts: Counters::default(),
    });
    sum.wait_s += report.wait_s;
    sum.device_read_bytes += report.device_read_bytes;
    sum.counts += report.counts;
}

fn add_file(sum: &mut Option<FileReport>, report: &FileReport) {
    let sum =
        sum.get_or_insert_with(|| FileReport { path: PathBuf::from("others"), counts: Counters::default() });
    sum.counts += report.counts;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beyond_the_limit_are_summed_up_as_others() {
        let mut ledger = Ledger::default();
        let counts = Counters { references: 1, ..Counters::default() };
        for order in 0..REPORTED_FILES as u32 + 3 {
            ledger.end_file(order, PathBuf::from("a"), counts);
        }
        let files = ledger.files(vec![(7, FileReport { path: PathBuf::from("live"), counts })]);
        assert_eq!(files.len(), REPORTED_FILES + 1);
        assert_eq!(files[8].path, PathBuf::from("live"), "in order of appearance");
        assert_eq!(
            (files[REPORTED_FILES].path.to_str(), files[REPORTED_FILES].counts.references),
            (Some("others"), 4)
        );
    }

    #[test]
    fn one_that_sums_up_lists_nothing() {
        let mut ledger = Ledger::new(true);
        let counts = Counters { references: 1, ..Counters::default() };
        (0..3).for_each(|order| ledger.end_file(order, PathBuf::from("a"), counts));
        let files = ledger.files(Vec::new());
        assert_eq!((files.len(), files[0].counts.references), (1, 3));
    }

    #[test]
    fn processes_beyond_the_limit_are_summed_up_as_others() {
        let mut ledger = Ledger::default();
        let report = ProcessReport {
            pid: Some(1),
            name: "x".to_owned(),
            manager: "m".to_owned(),
            wait_s: 0.5,
            device_read_bytes: 10,
            counts: Counters::default(),
        };
        for order in 0..REPORTED_PROCESSES as u32 + 2 {
            ledger.end_process(order, report.clone());
        }
        let processes = ledger.processes(Vec::new());
        let others = &processes[REPORTED_PROCESSES];
        assert_eq!((others.pid, others.wait_s, others.device_read_bytes), (None, 1.0, 20));
    }
}
