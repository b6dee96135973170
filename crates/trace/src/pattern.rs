//! Where in each file a trace reads and writes, against time, counted in the cells of a grid.
//!
//! A trace is read twice, so that memory does not grow with it: the first time to know which files are referenced
//! most, where in them, and from when to when; the second time to count into the grids of those files. A file's
//! name and six numbers are kept for each file, a grid for the chosen ones.
//!
//! Time is that of the trace's clock if every reference has one, else the number of the reference.

use std::num::NonZeroU32;

use crate::error::TraceError;
use crate::reference::{Reference, TraceReader};

/// Cells along a side of a grid at most.
pub const GRID_SIDE: usize = 1 << 12;

/// Files with a grid at most.
pub const GRIDS: usize = 64;

/// Names of files without a grid that are given.
const REST_NAMES: usize = 256;

/// What the first reading finds out.
#[derive(Debug, Clone)]
pub struct PatternSurvey {
    files: Vec<Extent>,
    references: u64,
    /// First and last timestamp; `None` if a reference had none.
    clock_ns: Option<(u64, u64)>,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    references: u64,
    writes: u64,
    from_byte: u64,
    to_byte: u64,
}

/// Which files, and how fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternShape {
    /// Files with a grid, those with the most references; at most [`GRIDS`].
    pub files: usize,
    /// Cells of a grid along the time, 1 to [`GRID_SIDE`].
    pub columns: usize,
    /// Cells of a grid along the file, 1 to [`GRID_SIDE`].
    pub rows: usize,
}

/// The access pattern of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Where the references come from.
    pub source: String,
    /// References to blocks in all files.
    pub references: u64,
    /// First and last timestamp of the trace; `None` if time is counted in references.
    pub clock_ns: Option<(u64, u64)>,
    /// Ranges that were referenced, the length of the time axis where there is no clock.
    pub ranges: u64,
    /// The files with most references, in falling order.
    pub files: Vec<FilePattern>,
    /// Names and references of others, in falling order; not all of them if they are many.
    pub rest: Vec<(String, u64)>,
    /// How many others there are.
    pub rest_files: usize,
}

/// One file's part of an access pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePattern {
    /// Its name.
    pub name: String,
    /// References to its blocks.
    pub references: u64,
    /// Those of them that write.
    pub writes: u64,
    /// The first byte that is referenced.
    pub from_byte: u64,
    /// The byte behind the last one.
    pub to_byte: u64,
    /// Cells of a row.
    pub columns: usize,
    /// Row by row, from the first bytes on, each from the beginning of the time on.
    pub cells: Vec<Cell>,
}

/// What happens in one part of a file in one part of the time: ranges that touch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Ranges that are read.
    pub reads: u32,
    /// Ranges that are written.
    pub writes: u32,
}

impl PatternSurvey {
    /// Reads `reader` to its end; references are counted in blocks of `block_bytes`.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn of(reader: &mut dyn TraceReader, block_bytes: NonZeroU32) -> Result<PatternSurvey, TraceError> {
        let block_bytes = u64::from(block_bytes.get());
        let mut survey = PatternSurvey { files: Vec::new(), references: 0, clock_ns: None };
        let mut has_clock = true;
        while let Some(reference) = reader.next().transpose()? {
            let Some((first, last)) = range(&reference) else { continue };
            survey.references += 1;
            let number = reference.file as usize;
            if survey.files.len() <= number {
                survey.files.resize(number + 1, Extent::NONE);
            }
            let file = &mut survey.files[number];
            let blocks = last / block_bytes - first / block_bytes + 1;
            file.references = file.references.saturating_add(blocks);
            if reference.write {
                file.writes = file.writes.saturating_add(blocks);
            }
            file.from_byte = file.from_byte.min(first);
            file.to_byte = file.to_byte.max(last.saturating_add(1));
            match reference.timestamp_ns {
                Some(at) if has_clock => {
                    let (from, to) = survey.clock_ns.unwrap_or((at, at));
                    survey.clock_ns = Some((from.min(at), to.max(at)));
                }
                _ => (has_clock, survey.clock_ns) = (false, None),
            }
        }
        Ok(survey)
    }

    /// Reads the same trace again, from its beginning, and counts.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn count(&self, reader: &mut dyn TraceReader, shape: PatternShape) -> Result<Pattern, TraceError> {
        let columns = shape.columns.clamp(1, GRID_SIDE);
        let rows = shape.rows.clamp(1, GRID_SIDE);
        let mut order: Vec<usize> = (0..self.files.len()).filter(|&n| self.files[n].references > 0).collect();
        order.sort_by_key(|&n| (std::cmp::Reverse(self.files[n].references), n));
        let (chosen, rest) = order.split_at(order.len().min(shape.files.min(GRIDS)));
        let mut grid_of: Vec<Option<usize>> = vec![None; self.files.len()];
        for (grid, &file) in chosen.iter().enumerate() {
            grid_of[file] = Some(grid);
        }
        let mut grids = vec![vec![Cell::default(); columns * rows]; chosen.len()];
        let (from, to) = self.clock_ns.unwrap_or((0, self.references.saturating_sub(1)));
        let mut seen = 0u64;
        while let Some(reference) = reader.next().transpose()? {
            let Some((first, last)) = range(&reference) else { continue };
            let at = if self.clock_ns.is_some() { reference.timestamp_ns.unwrap_or(from) } else { seen };
            seen += 1;
            let Some(Some(grid)) = grid_of.get(reference.file as usize) else { continue };
            let extent = &self.files[reference.file as usize];
            let column = scaled(at, from, to.saturating_add(1), columns);
            let row = |byte| scaled(byte, extent.from_byte, extent.to_byte, rows);
            for row in row(first)..=row(last) {
                let cell = &mut grids[*grid][row * columns + column];
                let count = if reference.write { &mut cell.writes } else { &mut cell.reads };
                *count = count.saturating_add(1);
            }
        }
        let meta = reader.meta();
        let name = |file: usize| meta.files.get(file).map_or_else(String::new, |file| file.name.clone());
        let files = chosen.iter().zip(grids).map(|(&file, cells)| {
            let Extent { references, writes, from_byte, to_byte } = self.files[file];
            FilePattern { name: name(file), references, writes, from_byte, to_byte, columns, cells }
        });
        Ok(Pattern {
            source: meta.source.clone(),
            references: self.files.iter().fold(0, |sum, file| sum.saturating_add(file.references)),
            clock_ns: self.clock_ns,
            ranges: self.references,
            files: files.collect(),
            rest: rest.iter().take(REST_NAMES).map(|&n| (name(n), self.files[n].references)).collect(),
            rest_files: rest.len(),
        })
    }
}

impl Extent {
    const NONE: Extent = Extent { references: 0, writes: 0, from_byte: u64::MAX, to_byte: 0 };
}

/// First and last byte of a reference that has any.
fn range(reference: &Reference) -> Option<(u64, u64)> {
    let last = reference.bytes.checked_sub(1)?;
    Some((reference.offset, reference.offset.saturating_add(last)))
}

/// Which of `parts` of the range from `from` up to `to` a value is in; the nearest one if it is in none.
fn scaled(value: u64, from: u64, to: u64, parts: usize) -> usize {
    let (offset, length) = (value.saturating_sub(from), to.saturating_sub(from).max(1));
    let part = u128::from(offset) * parts as u128 / u128::from(length);
    (part as usize).min(parts - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::DEFAULT_BLOCK_BYTES;
    use crate::reference::{FileEntry, TraceMeta};
    use crate::workload::Workload;

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

    /// References by file, offset, bytes and time.
    fn trace(references: &[(u32, u64, u64, Option<u64>)]) -> Fixed {
        let reference = |&(file, offset, bytes, timestamp_ns): &(u32, u64, u64, Option<u64>)| {
            let write = file == 1;
            Reference { process: 0, file, offset, bytes, compute_ns: 0, timestamp_ns, write }
        };
        let references: Vec<Reference> = references.iter().map(reference).collect();
        let files = ["a", "b", "c"].map(|name| FileEntry { name: name.to_owned(), bytes: None });
        Fixed(references.into_iter(), TraceMeta { files: files.to_vec(), ..TraceMeta::default() })
    }

    fn pattern(references: &[(u32, u64, u64, Option<u64>)], files: usize) -> Pattern {
        let survey = PatternSurvey::of(&mut trace(references), DEFAULT_BLOCK_BYTES).unwrap();
        survey.count(&mut trace(references), PatternShape { files, columns: 4, rows: 2 }).unwrap()
    }

    /// The reads and writes of each cell, a row a line.
    fn drawn(file: &FilePattern) -> Vec<Vec<(u32, u32)>> {
        file.cells.chunks(file.columns).map(|row| row.iter().map(|c| (c.reads, c.writes)).collect()).collect()
    }

    #[test]
    fn a_small_trace_is_counted_as_by_hand() {
        let references = [
            (0, 8192, 8192, Some(100)),
            (0, 16_384, 8192, Some(130)),
            (1, 5, 1, Some(199)),
            (0, 8192, 16_384, Some(199)),
            (2, 0, 0, Some(500)),
        ];
        let pattern = pattern(&references, 2);
        assert_eq!((pattern.clock_ns, pattern.references, pattern.ranges), (Some((100, 199)), 5, 4));
        assert_eq!(pattern.rest_files, 0, "a reference to no bytes is none");
        let [a, b] = &pattern.files[..] else { panic!("{pattern:?}") };
        assert_eq!((a.name.as_str(), a.references, a.from_byte, a.to_byte), ("a", 4, 8192, 24_576));
        assert_eq!(drawn(a), [[(1, 0), (0, 0), (0, 0), (1, 0)], [(0, 0), (1, 0), (0, 0), (1, 0)]]);
        assert_eq!((b.references, b.writes), (1, 1));
        assert_eq!(drawn(b), [[(0, 0), (0, 0), (0, 0), (0, 1)], [(0, 0); 4]]);
    }

    #[test]
    fn without_a_clock_time_is_the_number_of_the_reference() {
        let references: Vec<_> = (0..8).map(|n| (0, n * 8192, 8192, (n != 3).then_some(n * n))).collect();
        let pattern = pattern(&references, 1);
        assert_eq!(pattern.clock_ns, None);
        let expected = [[(2, 0), (2, 0), (0, 0), (0, 0)], [(0, 0), (0, 0), (2, 0), (2, 0)]];
        assert_eq!(drawn(&pattern.files[0]), expected);
    }

    #[test]
    fn the_files_with_most_references_are_chosen() {
        let references = [(0, 0, 1, None), (2, 0, 20_000, None), (1, 0, 8193, None)];
        let pattern = pattern(&references, 1);
        assert_eq!(pattern.files[0].name, "c");
        assert_eq!(pattern.rest, [("b".to_owned(), 2), ("a".to_owned(), 1)]);
        assert_eq!(pattern.rest_files, 2);
    }

    #[test]
    fn grids_and_names_are_limited() {
        let references: Vec<_> = (0..1000).map(|file| (file, 0, u64::MAX, Some(u64::MAX))).collect();
        let survey = PatternSurvey::of(&mut trace(&references), DEFAULT_BLOCK_BYTES).unwrap();
        let shape = PatternShape { files: usize::MAX, columns: 0, rows: 1 };
        let pattern = survey.count(&mut trace(&references), shape).unwrap();
        assert_eq!(
            (pattern.files.len(), pattern.rest.len(), pattern.rest_files),
            (GRIDS, REST_NAMES, 1000 - GRIDS)
        );
        let huge = PatternShape { files: 1, columns: usize::MAX, rows: 1 };
        assert_eq!(survey.count(&mut trace(&references), huge).unwrap().files[0].cells.len(), GRID_SIDE);
    }

    #[test]
    fn a_trace_that_is_another_one_the_second_time_is_survived() {
        let survey = PatternSurvey::of(&mut trace(&[(0, 8192, 1, Some(5))]), DEFAULT_BLOCK_BYTES).unwrap();
        let other = [(0, 0, u64::MAX, Some(u64::MAX)), (2, 0, 1, None)];
        let shape = PatternShape { files: 3, columns: 4, rows: 2 };
        assert_eq!(survey.count(&mut trace(&other), shape).unwrap().files.len(), 1);
    }

    #[test]
    fn nothing_has_no_files() {
        let mut reader = Workload::Loop { blocks: 0, passes: 0 }.open(0);
        let survey = PatternSurvey::of(&mut reader, DEFAULT_BLOCK_BYTES).unwrap();
        let shape = PatternShape { files: 3, columns: 4, rows: 2 };
        assert_eq!(survey.count(&mut reader, shape).unwrap().files, []);
    }
}
