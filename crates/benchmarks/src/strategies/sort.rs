//! What `examples/c/merge_sort.c` reads and writes, block by block, for given records: the program's algorithm
//! once more, with lists in place of files.

use std::collections::VecDeque;

use anyhow::Result;

use super::expected::Deed;
use crate::reader::BLOCK_BYTES;

/// As in the program's source.
const RUN_RECORDS: usize = 16_384;
const WAYS: usize = 8;
/// Records of a block.
const BLOCK_RECORDS: usize = BLOCK_BYTES as usize / 8;

/// A temporary file: its number and its records.
struct Run {
    file: usize,
    records: Vec<u64>,
}

#[derive(Default)]
struct Sort {
    /// Length of each file in blocks; the input is number 0.
    files: Vec<u32>,
    deeds: Vec<Deed>,
}

/// The lengths of the files, and what is done to them.
pub(super) fn deeds(input: &[u8]) -> Result<(Vec<u32>, Vec<Deed>)> {
    let records: Vec<u64> =
        input.as_chunks::<8>().0.iter().map(|record| u64::from_le_bytes(*record)).collect();
    let mut sort = Sort::default();
    sort.files.push(u32::try_from(records.len().div_ceil(BLOCK_RECORDS))?);
    let mru = foretell_policy::PoolPolicy::Mru;
    sort.deeds.extend([Deed::Policy(-1, mru), Deed::Policy(0, mru), Deed::Priority(0, -1)]);
    let mut runs = VecDeque::new();
    let mut next = 0;
    for part in records.chunks(RUN_RECORDS) {
        for _ in part.chunks(BLOCK_RECORDS) {
            sort.deeds.push(Deed::Read(0, next));
            next += 1;
        }
        let mut records = part.to_vec();
        records.sort_unstable();
        let file = sort.file(records.len())?;
        for block in 0..sort.files[file] {
            sort.deeds.push(Deed::Write(file, block));
        }
        runs.push_back(Run { file, records });
    }
    while runs.len() > WAYS {
        let some = runs.drain(..WAYS).collect();
        let merged = sort.merge(some)?;
        runs.push_back(merged);
    }
    // The output is not read again.
    let output = sort.files.len();
    sort.deeds.push(Deed::Priority(output, -1));
    sort.merge(runs.into())?;
    Ok((sort.files, sort.deeds))
}

impl Sort {
    fn file(&mut self, records: usize) -> Result<usize> {
        self.files.push(u32::try_from(records.div_ceil(BLOCK_RECORDS))?);
        Ok(self.files.len() - 1)
    }

    /// Merges runs into a new one.
    fn merge(&mut self, runs: Vec<Run>) -> Result<Run> {
        let total = runs.iter().map(|run| run.records.len()).sum();
        let file = self.file(total)?;
        let mut at = vec![0; runs.len()];
        let mut records: Vec<u64> = Vec::with_capacity(total);
        // The program fills all buffers first, and looks at each run that is used up before every record.
        for run in &runs {
            self.deeds.push(Deed::Read(run.file, 0));
        }
        for _ in 0..total {
            let heads = runs.iter().zip(&at).enumerate();
            let heads = heads.filter_map(|(number, (run, at))| Some((*run.records.get(*at)?, number)));
            let Some((least, number)) = heads.min() else { break };
            records.push(least);
            at[number] += 1;
            if records.len().is_multiple_of(BLOCK_RECORDS) || records.len() == total {
                let written = records.len().div_ceil(BLOCK_RECORDS) - 1;
                self.deeds.push(Deed::Write(file, u32::try_from(written)?));
            }
            let (run, at) = (&runs[number], at[number]);
            if at.is_multiple_of(BLOCK_RECORDS) {
                let used_up = u32::try_from(at / BLOCK_RECORDS - 1)?;
                self.deeds.push(Deed::TemporaryPriority(run.file, used_up, -1));
                if at < run.records.len() {
                    self.deeds.push(Deed::Read(run.file, used_up + 1));
                }
            }
        }
        Ok(Run { file, records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_read_once_and_written_once() {
        let records = RUN_RECORDS as u64 * 10;
        let input: Vec<u8> =
            (0..records).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
        let (files, deeds) = deeds(&input).unwrap();
        // The input, ten runs, a merged one, the output.
        assert_eq!(files.len(), 13);
        let count = |wanted: fn(&Deed) -> bool| deeds.iter().filter(|deed| wanted(deed)).count();
        let blocks = records as usize / BLOCK_RECORDS;
        // Eight tenths are merged twice.
        assert_eq!(count(|deed| matches!(deed, Deed::Read(..))), blocks + blocks * 8 / 10 + blocks);
        assert_eq!(count(|deed| matches!(deed, Deed::Write(..))), blocks + blocks * 8 / 10 + blocks);
    }
}
