//! The memory that a job needs for itself, beside the files that it reads.
//!
//! Resident memory does not tell it: pages of mapped files are among it, and these are what there is a cache for. So the
//! anonymous memory of the job's processes is looked up every [`EVERY`], in `/proc/PID/status` (proc_pid_status(5)), and
//! the most that they had at one time is kept. What lives for less is not seen.

use std::fs;
use std::time::{Duration, Instant};

use crate::proc_text;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(100);
/// Processes that are looked at, 15 us each.
const PROCESSES: usize = 64;

/// What has been seen so far.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    due: Instant,
    most_bytes: Option<u64>,
}

impl OwnMemory {
    pub(crate) fn new() -> OwnMemory {
        OwnMemory { due: Instant::now(), most_bytes: None }
    }

    /// The most that there was at one time, bytes, if there was anything to look at.
    pub(crate) fn most_bytes(&self) -> Option<u64> {
        self.most_bytes
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, processes: impl Iterator<Item = u32>) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let read = |pid| fs::read(format!("/proc/{pid}/status")).ok();
        let each: Vec<_> =
            processes.take(PROCESSES).filter_map(|pid| proc_text::own_memory(&read(pid)?)).collect();
        // What is shared is there once, however many have it.
        let shared = each.iter().map(|memory| memory.shared_bytes).max();
        let private: u64 = each.iter().map(|memory| memory.private_bytes).fold(0, u64::saturating_add);
        if let Some(shared) = shared {
            self.most_bytes = self.most_bytes.max(Some(private.saturating_add(shared)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_of_its_own_is_seen_and_no_file_that_it_has_mapped() {
        let mut memory = OwnMemory::new();
        assert_eq!(memory.most_bytes(), None);
        let own = vec![1_u8; 64 << 20];
        memory.look([std::process::id(), u32::MAX].into_iter());
        let seen = memory.most_bytes().unwrap();
        assert!(seen >= own.len() as u64, "{seen}");
        let resident = fs::read_to_string("/proc/self/statm").unwrap();
        let resident_pages: u64 = resident.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(seen < resident_pages * crate::kernel::page_bytes(), "its program is mapped");
    }
}
