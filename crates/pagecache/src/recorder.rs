//! The references as they came, for the comparison with the optimum.
//!
//! Only equality of blocks matters: each gets a number, 4 bytes a reference. Numbers are
//! given out to runs of 64 neighbouring blocks at a time, so they stay dense while the table that gives
//! them stays small. The first 2^20 references stay in memory, the rest goes to a temporary file without a
//! name, and beyond 2^28 (1 GiB) the comparison is given up.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

/// References kept in memory before they are written out.
const IN_MEMORY: usize = 1 << 20;
/// References kept in all.
const KEPT: u64 = 1 << 28;
/// Memory to compute the optimum with, a reference: itself, its next use, and its share of the blocks.
const BYTES_TO_COMPUTE: u64 = 16;
/// Neighbouring blocks that are numbered together.
const RUN_BLOCKS: u32 = 64;

/// The references, as block numbers.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// First number of each run of blocks of each file.
    runs: HashMap<(u32, u32), u32>,
    recent: Vec<u32>,
    spilled: Option<File>,
    count: u64,
    given_up: Option<String>,
}

impl History {
    /// Block `index` of the file with this registration number was referenced.
    pub(crate) fn push(&mut self, serial: u32, index: u32) {
        if self.given_up.is_some() {
            return;
        }
        if self.count == KEPT {
            self.give_up(format!("more than {KEPT} references"));
            return;
        }
        let next = self.runs.len() as u32 * RUN_BLOCKS;
        let run = *self.runs.entry((serial, index / RUN_BLOCKS)).or_insert(next);
        self.recent.push(run + index % RUN_BLOCKS);
        self.count += 1;
        if self.recent.len() == IN_MEMORY
            && let Err(error) = self.spill()
        {
            self.give_up(format!("the references could not be kept in a temporary file: {error}"));
        }
    }

    fn give_up(&mut self, why: String) {
        *self = History { given_up: Some(why), ..History::default() };
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.spilled {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let bytes: Vec<u8> = self.recent.iter().flat_map(|block| block.to_ne_bytes()).collect();
        file.write_all(&bytes)?;
        self.recent.clear();
        Ok(())
    }

    /// All references, in order.
    ///
    /// # Errors
    /// Why they were not all kept, or cannot be worked on, in words.
    pub(crate) fn all(&mut self) -> Result<Vec<u32>, String> {
        if let Some(why) = &self.given_up {
            return Err(why.clone());
        }
        let needed = self.count.saturating_mul(BYTES_TO_COMPUTE);
        if available_memory().is_some_and(|available| needed > available / 2) {
            return Err(format!("{} references take more than half of the free memory", self.count));
        }
        let mut all = Vec::with_capacity(usize::try_from(self.count).unwrap_or(0));
        if let Some(file) = &mut self.spilled {
            let in_words = |error: io::Error| error.to_string();
            file.seek(SeekFrom::Start(0)).map_err(in_words)?;
            let mut reader = BufReader::with_capacity(1 << 20, &*file);
            let mut block = [0; 4];
            for _ in 0..self.count - self.recent.len() as u64 {
                reader.read_exact(&mut block).map_err(in_words)?;
                all.push(u32::from_ne_bytes(block));
            }
            // References may still come.
            file.seek(SeekFrom::End(0)).map_err(in_words)?;
        }
        all.extend_from_slice(&self.recent);
        Ok(all)
    }
}

/// Memory that can be had without harm, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks_have_equal_numbers_and_others_have_not() {
        let mut history = History::default();
        for (file, index) in [(0, 0), (1, 0), (0, 0), (0, 63), (0, 64), (1, 64)] {
            history.push(file, index);
        }
        let numbers = history.all().unwrap();
        assert_eq!(numbers, [0, 64, 0, 63, 128, 192]);
    }

    #[test]
    fn what_is_written_out_comes_back_in_order() {
        let mut history = History::default();
        let count = IN_MEMORY as u32 + 10;
        (0..count).for_each(|index| history.push(0, index % RUN_BLOCKS));
        for _ in 0..2 {
            let all = history.all().unwrap();
            assert!(all.into_iter().eq((0..count).map(|index| index % RUN_BLOCKS)));
        }
    }

    #[test]
    fn beyond_the_limit_the_reason_is_told() {
        let mut history = History { count: KEPT, ..History::default() };
        history.push(0, 0);
        assert_eq!(history.all(), Err("more than 268435456 references".to_owned()));
    }
}
