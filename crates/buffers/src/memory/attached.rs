//! The memory of a pool, as another process sees it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mm::ProtFlags;

use super::board::{Board, GUEST_LANES, Reference, Tell};
use super::granted::Granted;
use super::mapping::Mapping;
use super::taking::Local;

/// The memory of another process's pool.
#[derive(Debug)]
pub(crate) struct Attached {
    data: Mapping,
    board: Board,
    lanes: Local,
}

impl Attached {
    /// Maps data and board.
    pub(crate) fn new(granted: Granted, data: &OwnedFd, board: &OwnedFd) -> io::Result<Attached> {
        let bytes = granted.shape.data_bytes().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Attached {
            data: Mapping::open(data.as_fd(), bytes, ProtFlags::READ)?,
            board: Board::open(board.as_fd(), granted.shape)?,
            lanes: Local::of(granted.first_lane, GUEST_LANES),
        })
    }

    /// Bytes of a part.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.board.shape().part_bytes.into()
    }

    /// As [`super::Arena::read`].
    pub(crate) fn read(&self, reference: Reference, within: usize, buffer: &mut [u8]) -> Option<Tell> {
        let lane = self.lanes.take()?;
        if !self.board.may_read(lane.lane) {
            return None;
        }
        let reading = Reading { board: &self.board, lane: lane.lane };
        let (mut at, mut rest, mut last) = (within, buffer, 0);
        for part in (reference.first..).take(reference.parts as usize) {
            let slot = self.board.find(reference.serial, part)?;
            reading.read(slot);
            // From here on it is not filled anew, if it still holds this.
            let length = self.board.holds(slot, reference.serial, part)? as usize;
            let count = length.checked_sub(at)?.min(rest.len());
            let start = self.data.pointer(slot as usize * self.part_bytes() as usize + at, count);
            let (mine, others) = rest.split_at_mut(count);
            // SAFETY: `pointer` checks the bounds; the pool's process does not write there while the lane says that it is
            // read, and this one cannot.
            mine.copy_from_slice(unsafe { std::slice::from_raw_parts(start.as_ptr(), count) });
            (at, rest, last) = (0, others, slot);
        }
        drop(reading);
        if !rest.is_empty() {
            return None;
        }
        Some(self.board.leave(lane.lane, reference, last))
    }
}

#[cfg(test)]
impl Attached {
    /// Begins to read a part and is stopped in the middle of it, as a process may be. Gives its slot.
    pub(super) fn stop(&self, lane: u32, serial: u64, part: u32) -> Option<u32> {
        let slot = self.board.find(serial, part);
        self.board.set_reading(lane, slot);
        slot.filter(|&slot| self.board.holds(slot, serial, part).is_some())
    }

    /// What such a reader goes on to read.
    pub(super) fn bytes(&self, slot: u32, length: usize) -> Vec<u8> {
        let start = self.data.pointer(slot as usize * self.part_bytes() as usize, length);
        // SAFETY: within the mapping, and nobody else runs meanwhile.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }.to_vec()
    }
}

/// A lane that says which slot is read, until it is dropped.
struct Reading<'a> {
    board: &'a Board,
    lane: u32,
}

impl Reading<'_> {
    fn read(&self, slot: u32) {
        self.board.set_reading(self.lane, Some(slot));
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.board.set_reading(self.lane, None);
    }
}
