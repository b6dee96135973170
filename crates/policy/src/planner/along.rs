//! Along: what lies next to a block that is fetched from a disk with an arm.
//!
//! To find a place takes an arm as long as reading a hundred blocks. Small files lie next to each other in the order in
//! which they were written, and are read in the order of their names, of a table or of a hash. However large a batch is,
//! there is a movement for each of them then, although all of them will be read. So with a block that is fetched those go
//! along that adjoin it on the disk, behind it and before it, if the list names them further on and there are frames for
//! them: they cost the time to read them, and no movement. As many go along as the disk reads in the time of one movement
//! ([`Input::DiskArm`](crate::Input::DiskArm)), so that a list that is wrong costs twice what it would, at most.
//!
//! ```text
//!  list        a0  e0  c0  b0 b1  d0        a0 is due: b0 b1 c0 go along, d0 adjoins nothing that is wanted
//!  on disk     .. a0 b0 b1 c0 x0 x1 d0 .. e0
//! ```
//!
//! What a list names is looked for on the disk in a table of the next [`PIECE`] positions. It is made anew when half of them
//! are behind, and not before it was asked for an eighth as often as it has positions: whatever the holes are, each costs the
//! making of a few. So it is, at once, when the list has grown by half of what the table has of it: what adjoins may have been told
//! last.

use std::ops::Range;

use crate::blocks::State;
use crate::books::Desk;
use crate::ids::{Block, DiskId, ManagerId};

/// Positions of all lists of a manager that are looked up at a time, 512 MiB at 8 KiB: the table takes 1.5 MiB, and 20 ms.
const PIECE: u32 = 1 << 16;

/// A table of so many positions is made anew when it was asked for one of them.
const ASKED_PART: usize = 8;

/// A part of a list, by place.
#[derive(Debug, Default)]
struct Table {
    /// The positions.
    of: Range<u32>,
    /// Where their blocks begin.
    places: Vec<(DiskId, u64, Block)>,
    /// How often it was asked for.
    asked: usize,
}

impl Table {
    /// The part of a list from a position on, as many positions as asked for.
    fn make(desk: &Desk<'_>, manager: ManagerId, list: usize, of: Range<u32>) -> Table {
        let block_at = |position| desk.block_at(manager, list, position).map(|b| desk.place_of(b));
        let mut places: Vec<_> = of.clone().filter_map(block_at).collect();
        places.sort_unstable();
        places.dedup();
        Table { of, places, asked: 0 }
    }
}

/// The neighbours of all that is listed.
#[derive(Debug, Default)]
pub(super) struct Along {
    /// Blocks that each disk reads in the time of a movement; 0 where it has no arm.
    reach_blocks: Vec<u32>,
    /// By manager and list.
    tables: Vec<Vec<Table>>,
}

impl Along {
    /// A disk has an arm, or has none with 0.
    pub(super) fn set_reach(&mut self, disk: DiskId, blocks: u32) {
        let slot = disk.0 as usize;
        if self.reach_blocks.len() <= slot {
            self.reach_blocks.resize(slot + 1, 0);
        }
        self.reach_blocks[slot] = blocks;
    }

    /// Is there a disk with an arm?
    pub(super) fn has_arm(&self) -> bool {
        self.reach_blocks.iter().any(|blocks| *blocks > 0)
    }

    /// A manager's lists begin anew.
    pub(super) fn forget(&mut self, manager: ManagerId) {
        if let Some(tables) = self.tables.get_mut(manager.0 as usize) {
            *tables = Vec::new();
        }
    }

    /// A block at position `hole` of a list is being fetched: fetches what goes along. Returns how many blocks.
    pub(super) fn fetch(&mut self, desk: &mut Desk<'_>, manager: ManagerId, list: usize, hole: u32) -> u32 {
        let Some((disk, place, block)) = desk.block_at(manager, list, hole).map(|b| desk.place_of(b)) else {
            return 0;
        };
        let most = self.reach_blocks.get(disk.0 as usize).copied().unwrap_or(0);
        if most == 0 {
            return 0;
        }
        let table = self.table(desk, manager, list, hole);
        let at = table.places.partition_point(|&(on, begin, _)| (on, begin) < (disk, place));
        let mut taken = 0;
        let mut end = desk.end_of(block);
        for &(on, begin, next) in &table.places[at..] {
            if taken == most || on != disk || begin > end {
                break;
            }
            if next != block && !go_along(desk, manager, list, next, &mut taken) {
                break;
            }
            end = end.max(desk.end_of(next));
        }
        let mut begin = place;
        for &(on, before_begin, before) in table.places[..at].iter().rev() {
            if taken == most || on != disk || desk.end_of(before) < begin {
                break;
            }
            if !go_along(desk, manager, list, before, &mut taken) {
                break;
            }
            begin = before_begin;
        }
        taken
    }

    /// The table in which to look for what adjoins the block at a position.
    fn table(&mut self, desk: &Desk<'_>, manager: ManagerId, list: usize, hole: u32) -> &Table {
        let slot = manager.0 as usize;
        if self.tables.len() <= slot {
            self.tables.resize_with(slot + 1, Vec::new);
        }
        let tables = &mut self.tables[slot];
        if tables.len() <= list {
            tables.resize_with(list + 1, Table::default);
        }
        let table = &mut tables[list];
        table.asked += 1;
        let held = desk.held_positions(manager, list);
        let piece = PIECE / u32::try_from(desk.list_count(manager)).unwrap_or(PIECE).clamp(1, PIECE);
        let Range { start, end } = table.of;
        let length = end - start;
        let is_good = table.of.contains(&hole) && (hole < start + length / 2 || end >= held.end);
        let has_grown = length < piece && held.end.saturating_sub(end) > length / 2;
        if has_grown || !is_good && ASKED_PART * table.asked >= length as usize {
            let end = hole.saturating_add(piece).min(held.end);
            *table = Table::make(desk, manager, list, hole..end.max(hole));
        }
        table
    }
}

/// Takes a neighbour along, if the list names it further on and there is a frame for it. Says whether what lies beyond adjoins
/// as well: the arm comes by this one.
fn go_along(desk: &mut Desk<'_>, manager: ManagerId, list: usize, block: Block, taken: &mut u32) -> bool {
    let Some(b) = desk.find(block) else { return false };
    if desk.state(b) == State::InFlight {
        return true;
    }
    let Some(position) = desk.next_use(manager, list, b).filter(|_| desk.is_fetchable(b)) else {
        return false;
    };
    let goes = desk.is_frame_free(manager, list, position) && desk.prefetch_along(manager, b);
    *taken += u32::from(goes);
    goes
}
