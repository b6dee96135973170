//! The runs of blocks that a reader referenced last.
//!
//! A sequential run is one decision of the program, so it is one piece of evidence of where in its stream the
//! program is, however long it is. A few runs are open at the same time: a reader of two files in turn has two, and a
//! reference that slips in does not end one.

use super::Reference;

/// Runs remembered: enough for evidence against chance, few enough to look at every one.
pub(crate) const RUNS: usize = 8;

/// Blocks that a run may leave out and still be the same one (a listed reference that did not happen).
const GAP: u32 = 8;

/// One run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) file: u32,
    /// The index referenced last.
    index: u32,
    /// The listed block referenced last.
    pub(crate) block: u32,
    /// Listed references.
    pub(crate) length: u32,
    /// One of them was where the stream expected it.
    pub(crate) explained: bool,
    /// It was found out of order.
    pub(crate) astray: bool,
    /// It began far from the frontier, and was not counted for that yet.
    pub(crate) unsampled: bool,
    /// References in a row that the list lacks at their place.
    pub(crate) missed: u32,
}

/// How a reference relates to the runs before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// It begins a run.
    Begins,
    /// It continues one.
    Continues,
    /// It is the reference of the run's last block once more.
    Repeats,
}

/// The last runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The latest first.
    runs: [Run; RUNS],
    /// How many there are.
    count: usize,
}

impl Runs {
    /// Takes a reference of a listed block in.
    #[inline]
    pub(crate) fn take(&mut self, r: Reference) -> Joins {
        let joins =
            |run: &Run| run.file == r.file && run.length > 0 && r.index.wrapping_sub(run.index) <= GAP;
        match self.runs[..self.count].iter().position(joins) {
            Some(0) => {}
            Some(at) => self.runs[..=at].rotate_right(1),
            None => {
                self.count = (self.count + 1).min(RUNS);
                self.runs.rotate_right(1);
                self.runs[0] =
                    Run { file: r.file, index: r.index, block: r.block, length: 1, ..Run::default() };
                return Joins::Begins;
            }
        }
        let run = &mut self.runs[0];
        run.block = r.block;
        if run.index == r.index {
            return Joins::Repeats;
        }
        run.index = r.index;
        run.length = run.length.saturating_add(1);
        Joins::Continues
    }

    /// The run of the last reference.
    pub(crate) fn current(&mut self) -> &mut Run {
        &mut self.runs[0]
    }

    /// Listed references of the run of the last reference.
    pub(crate) fn current_length(&self) -> u32 {
        self.runs[0].length
    }

    /// Was the run of the last reference where the stream expected it?
    pub(crate) fn is_current_explained(&self) -> bool {
        self.runs[0].explained
    }

    /// The runs before that of the last reference, the latest first.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Run> {
        self.runs[..self.count].iter().skip(1)
    }

    /// How many of the runs were where the stream expected them, and how many there are.
    pub(crate) fn explained(&self) -> (usize, usize) {
        (self.runs.iter().filter(|run| run.explained).count(), self.count)
    }
}
