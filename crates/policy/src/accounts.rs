//! Accounts: what happened, counted in all, by process and by file.

use crate::counters::Counters;
use crate::ids::{FileId, ProcessId};

/// All counts of blocks.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    totals: Counters,
    processes: Vec<Counters>,
    files: Vec<Counters>,
}

impl Accounts {
    /// A file's counts begin at 0.
    pub(crate) fn open_file(&mut self, file: FileId) {
        let slot = file.0 as usize;
        if self.files.len() <= slot {
            self.files.resize(slot + 1, Counters::default());
        }
        self.files[slot] = Counters::default();
    }

    /// A process's counts begin at 0.
    pub(crate) fn open_process(&mut self, process: ProcessId) {
        let slot = process.0 as usize;
        if self.processes.len() <= slot {
            self.processes.resize(slot + 1, Counters::default());
        }
        self.processes[slot] = Counters::default();
    }

    /// Counts for a process and a file; a process or file that is not known counts in the totals only.
    #[inline]
    pub(crate) fn count(&mut self, process: ProcessId, file: FileId, add: impl Fn(&mut Counters)) {
        add(&mut self.totals);
        if let Some(process) = self.processes.get_mut(process.0 as usize) {
            add(process);
        }
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            add(file);
        }
    }

    pub(crate) fn totals(&self) -> Counters {
        self.totals
    }

    pub(crate) fn of_process(&self, process: ProcessId) -> Counters {
        self.processes.get(process.0 as usize).copied().unwrap_or_default()
    }

    pub(crate) fn of_file(&self, file: FileId) -> Counters {
        self.files.get(file.0 as usize).copied().unwrap_or_default()
    }
}
