//! From byte ranges to blocks.
//!
//! A range touches the blocks `offset / block_bytes ..= (offset + bytes - 1) / block_bytes`, in ascending
//! order. The compute time of the range is spent before its first block; the others follow at once. A
//! range of no bytes touches nothing, its compute time goes to the process's next reference.

use std::num::NonZeroU32;

use crate::error::TraceError;
use crate::reference::{BlockReference, Reference, TraceMeta, TraceReader};

/// The unit of caching of Kimbrel et al. (1996) and of the ACFS papers: 8 KiB.
pub const DEFAULT_BLOCK_BYTES: NonZeroU32 = NonZeroU32::new(8192).unwrap();

/// The blocks that a reader's references touch, in order.
///
/// Errors of the reader pass through; a block number that does not fit 32 bits is an error too.
#[derive(Debug)]
pub struct Blocks<R> {
    reader: R,
    block_bytes: u64,
    current: BlockReference,
    /// Last block of the current range; `current.block` is the next one due while `due` is set.
    last: u32,
    due: bool,
    /// Compute time of empty ranges, by process.
    carried_ns: Vec<(u32, u64)>,
}

impl<R: TraceReader> Blocks<R> {
    /// The references of `reader`, cut into blocks of `block_bytes` bytes.
    pub fn new(reader: R, block_bytes: NonZeroU32) -> Blocks<R> {
        let current =
            BlockReference { process: 0, file: 0, block: 0, compute_ns: 0, timestamp_ns: None, write: false };
        let block_bytes = u64::from(block_bytes.get());
        Blocks { reader, block_bytes, current, last: 0, due: false, carried_ns: Vec::new() }
    }

    /// What is known of the trace so far.
    pub fn meta(&self) -> &TraceMeta {
        self.reader.meta()
    }

    fn start(&mut self, reference: &Reference) -> Result<(), TraceError> {
        if reference.bytes == 0 {
            match self.carried_ns.iter_mut().find(|(process, _)| *process == reference.process) {
                Some((_, carried)) => *carried = carried.saturating_add(reference.compute_ns),
                None => self.carried_ns.push((reference.process, reference.compute_ns)),
            }
            return Ok(());
        }
        let end = reference.offset.saturating_add(reference.bytes - 1);
        let (first, last) = (reference.offset / self.block_bytes, end / self.block_bytes);
        let too_far = || TraceError::BlockTooFar {
            file: self.reader.meta().files.get(reference.file as usize).map_or("?", |f| &f.name).into(),
            offset: end,
            block_bytes: self.block_bytes,
        };
        self.last = u32::try_from(last).map_err(|_| too_far())?;
        let mut compute_ns = reference.compute_ns;
        if !self.carried_ns.is_empty()
            && let Some(at) = self.carried_ns.iter().position(|(process, _)| *process == reference.process)
        {
            compute_ns = compute_ns.saturating_add(self.carried_ns.swap_remove(at).1);
        }
        self.current = BlockReference {
            process: reference.process,
            file: reference.file,
            block: first as u32,
            compute_ns,
            timestamp_ns: reference.timestamp_ns,
            write: reference.write,
        };
        self.due = true;
        Ok(())
    }
}

impl<R: TraceReader> Iterator for Blocks<R> {
    type Item = Result<BlockReference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.due {
            match self.reader.next()? {
                Ok(reference) => {
                    if let Err(e) = self.start(&reference) {
                        return Some(Err(e));
                    }
                }
                Err(e) => return Some(Err(e)),
            }
        }
        let block = self.current;
        self.due = block.block < self.last;
        if self.due {
            self.current.block += 1;
            self.current.compute_ns = 0;
        }
        Some(Ok(block))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(std::vec::IntoIter<Reference>, TraceMeta);

    impl Iterator for Fixed {
        type Item = Result<Reference, TraceError>;
        fn next(&mut self) -> Option<Self::Item> {
            self.0.next().map(Ok)
        }
    }

    impl TraceReader for Fixed {
        fn meta(&self) -> &TraceMeta {
            &self.1
        }
    }

    fn blocks(ranges: &[(u32, u64, u64, u64)]) -> Blocks<Fixed> {
        let references = ranges.iter().map(|&(process, offset, bytes, compute_ns)| Reference {
            process,
            file: 0,
            offset,
            bytes,
            compute_ns,
            timestamp_ns: None,
            write: false,
        });
        let fixed = Fixed(references.collect::<Vec<_>>().into_iter(), TraceMeta::default());
        Blocks::new(fixed, DEFAULT_BLOCK_BYTES)
    }

    #[test]
    fn ranges_touch_every_block_that_they_overlap() {
        let got: Vec<_> = blocks(&[(0, 8191, 2, 5), (0, 8192, 8192, 7), (0, 20_000, 1, 9)])
            .map(|b| b.unwrap())
            .map(|b| (b.block, b.compute_ns))
            .collect();
        assert_eq!(got, [(0, 5), (1, 0), (1, 7), (2, 9)]);
    }

    #[test]
    fn compute_time_of_an_empty_range_goes_to_the_next_reference_of_its_process() {
        let got: Vec<_> = blocks(&[(1, 0, 0, 3), (1, 0, 0, 4), (0, 0, 1, 1), (1, 0, 1, 2)])
            .map(|b| b.unwrap())
            .map(|b| (b.process, b.compute_ns))
            .collect();
        assert_eq!(got, [(0, 1), (1, 9)]);
    }

    #[test]
    fn a_block_number_beyond_32_bits_is_an_error() {
        let error = blocks(&[(0, u64::MAX - 1, 2, 0)]).next().unwrap().unwrap_err();
        assert!(error.to_string().contains("beyond block 4294967295"), "{error}");
    }

    #[test]
    fn a_file_name_with_a_line_break_leaves_the_error_in_one_line() {
        let mut blocks = blocks(&[(0, u64::MAX - 1, 2, 0)]);
        blocks.reader.1.files.push(crate::FileEntry { name: "a\nb".into(), bytes: None });
        let error = blocks.next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("a\\nb: byte"), "{error}");
    }
}
