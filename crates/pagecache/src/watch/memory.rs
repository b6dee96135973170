//! The memory that a job needs for itself, beside the files that it reads.
//!
//! Resident memory does not tell it: pages of mapped files are among it, and these are what there is a cache for. So the
//! anonymous memory of the job's processes is looked up every [`EVERY`], in `/proc/PID/status` (proc_pid_status(5)), and
//! the most that they had at one time is kept. What lives for less is not seen.
//!
//! What a fork leaves in common counts in both processes there: eight workers of a parent with 2 GiB seem to have 18. So
//! when several large processes seem to have more than before, their shares are asked for (`smaps_rollup`). To tell them
//! the kernel walks through all of their pages, so that is done for a small part of the time only.

use std::fs;
use std::time::{Duration, Instant};

use crate::proc_text;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(100);
/// Processes that are looked at, 15 us each.
const PROCESSES: usize = 64;
/// A process with so much may have it in common with another one.
const LARGE_BYTES: u64 = 4 << 20;
/// After their shares have been asked for, this many times what that took must pass.
const SHARES_EVERY: u32 = 100;

/// What has been seen so far.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    due: Instant,
    /// When shares may be asked for again.
    shares_due: Instant,
    most_bytes: Option<u64>,
}

impl OwnMemory {
    pub(crate) fn new() -> OwnMemory {
        let now = Instant::now();
        OwnMemory { due: now, shares_due: now, most_bytes: None }
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
        let read = |pid: u32, name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
        let each: Vec<_> = processes
            .take(PROCESSES)
            .filter_map(|pid| Some((pid, proc_text::own_memory(&read(pid, "status")?)?)))
            .collect();
        // What is shared is there once, however many have it.
        let Some(shared) = each.iter().map(|(_, memory)| memory.shared_bytes).max() else { return };
        let sum = |of: &dyn Fn(u32, u64) -> u64| {
            let private = each.iter().map(|&(pid, memory)| of(pid, memory.private_bytes));
            private.fold(shared, u64::saturating_add)
        };
        let mut bytes = sum(&|_, private| private);
        let large = each.iter().filter(|(_, memory)| memory.private_bytes >= LARGE_BYTES).count();
        if large > 1 && Some(bytes) > self.most_bytes {
            if now < self.shares_due {
                return;
            }
            bytes = sum(&|pid, private| {
                let share = read(pid, "smaps_rollup").and_then(|text| proc_text::share_of_memory(&text));
                share.filter(|_| private >= LARGE_BYTES).unwrap_or(private)
            });
            self.shares_due = Instant::now() + now.elapsed() * SHARES_EVERY;
        }
        self.most_bytes = self.most_bytes.max(Some(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::os::unix::process::CommandExt;

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

    /// A parent with 64 MiB and four children that have it in common.
    #[test]
    fn what_a_fork_leaves_in_common_counts_once() {
        let script = "import os,signal\nown=bytearray(b'x'*(64<<20))\nfor i in range(4):\n  if os.fork()==0: signal.pause()\nprint('ready',flush=True)\nsignal.pause()";
        let mut python = std::process::Command::new("python3");
        let python = python.args(["-c", script]).stdout(std::process::Stdio::piped()).process_group(0);
        let Ok(mut parent) = python.spawn() else {
            println!("skipped: what_a_fork_leaves_in_common_counts_once: python3 is not installed");
            return;
        };
        let mut line = String::new();
        std::io::BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = parent.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children: Vec<u32> =
            children.split_ascii_whitespace().map(|child| child.parse().unwrap()).collect();
        assert_eq!(children.len(), 4);
        let mut memory = OwnMemory::new();
        memory.look(std::iter::once(pid).chain(children));
        let group = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
        let seen = memory.most_bytes().unwrap();
        assert!((64 << 20..128 << 20).contains(&seen), "{seen}");
    }
}
