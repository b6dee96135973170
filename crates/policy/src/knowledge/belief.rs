//! How far the lists are believed.

use std::ops::Range;

use super::{Knowledge, list_of};
use crate::alignment::Class;
use crate::blocks::Blocks;
use crate::ids::ManagerId;

/// Predictions that a new list is taken to have made rightly.
const TRUST: f64 = 4.0;

/// A file is fetched ahead of another one only if it comes next as often as not: its first blocks are all that is waited
/// for, as what follows can be fetched while it is read.
const LEAST_NEXT_FILE: f64 = 0.5;

impl Knowledge {
    /// The measured chance that a position is used about when it is expected; 1 before anything was measured.
    pub(crate) fn chance(&self, manager: ManagerId, list: usize, position: u32) -> f64 {
        let Some(known) = self.of(manager) else { return 0.0 };
        let Some(stream) = known.readers.stream(list) else { return 0.0 };
        let class = if stream.is_run(position) { Class::Run } else { Class::Isolated };
        let ahead = position.saturating_sub(known.lists[list].cursor()).max(1);
        let (chance, samples) = stream.chance(ahead, class).unwrap_or((1.0, 0));
        // As if so many predictions had come true before: a first failure proves little.
        (chance * f64::from(samples) + TRUST) / (f64::from(samples) + TRUST)
    }

    /// The positions of a list that are worth a look, if a prediction must come true with at least this chance: all from
    /// the cursor on; or those of the present file, where others do not follow as they are listed.
    pub(crate) fn believed(
        &mut self,
        blocks: &Blocks,
        manager: ManagerId,
        list: usize,
        least_chance: f64,
    ) -> Range<u32> {
        let Some((_, stream, l)) = list_of(&mut self.known, manager, list) else { return 0..0 };
        let least = if least_chance > 0.0 { least_chance.max(LEAST_NEXT_FILE) } else { 0.0 };
        match stream.believed(least, |b| blocks[b].block.file.0) {
            Some(rest) => rest.start.max(l.cursor())..rest.end,
            None => l.cursor()..u32::MAX,
        }
    }
}
