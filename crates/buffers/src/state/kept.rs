//! Parts on disk: what is written there, and what is read from there instead of being asked of a store.

use std::io;
use std::sync::Arc;

use foretell_policy::{Block, Input, Nanos};

use super::State;
use crate::disk::{Disk, Place};
use crate::memory::Buffer;
use crate::object::{Fixed, Open, Part, Stage};
use crate::part::Pending;
use crate::tier::{Kept, Task};

/// Reads of the disk at a time: as many as keep a disk busy whose queue is worth it, and half of the threads that may wait.
const MOST_READS: usize = 8;
/// Parts that wait to be written, each of which is held in memory beside the budget: so many, or a sixteenth of the budget if
/// that is more. What finds no place among them is not kept this time.
const WRITES: usize = 32;
const WRITES_PART: usize = 16;

/// A part to be written.
pub(crate) struct Write {
    pub(crate) disk: Arc<Disk>,
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) block: Block,
    pub(crate) buffer: Buffer,
}

/// Neighbouring parts to be read, and who waits for each.
pub(crate) struct Read {
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) first: Block,
    pub(crate) parts: Vec<(Arc<Place>, Arc<Pending>)>,
}

impl State {
    /// Does what the second tier asks for.
    pub(super) fn keep_and_forget(&mut self, now: Nanos) {
        while let Some(task) = self.tier.as_mut().and_then(|tier| tier.next_task()) {
            match task {
                Task::Keep(block) => {
                    let Some(open) = self.object_mut(block.file) else { continue };
                    open.kept.insert(block.index, Kept::Wanted);
                    if let Some(Part::Ready { buffer, .. }) = open.parts.get(&block.index) {
                        let buffer = buffer.clone();
                        self.keep(now, block, buffer);
                    }
                }
                Task::Forget(block) => {
                    if let Some(open) = self.object_mut(block.file) {
                        open.kept.remove(&block.index);
                    }
                }
            }
        }
    }

    /// A part is in memory: it is written, if it is to be.
    pub(super) fn keep(&mut self, now: Nanos, block: Block, buffer: Buffer) {
        let most = WRITES.max(self.engine.config().cache_blocks as usize / WRITES_PART);
        let Some(open) = self.objects.get_mut(block.file.0 as usize).and_then(Option::as_mut) else { return };
        let (Some(kept @ Kept::Wanted), Some(tier)) = (open.kept.get_mut(&block.index), &mut self.tier)
        else {
            return;
        };
        if self.writes.len() + tier.writing < most {
            *kept = Kept::Writing;
            let (disk, fixed) = (tier.disk().clone(), open.fixed.clone());
            self.writes.push_back(Write { disk, fixed, block, buffer });
        } else {
            self.not_kept(now, block);
        }
    }

    /// A part that was wanted on the disk will not be there.
    fn not_kept(&mut self, now: Nanos, block: Block) {
        if let Some(open) = self.object_mut(block.file)
            && open.kept.remove(&block.index).is_some()
            && let Some(tier) = &mut self.tier
        {
            tier.tell(now, Input::FetchFailed { block });
        }
    }

    /// A part does not come, and so cannot be written.
    pub(super) fn will_not_come(&mut self, now: Nanos, block: Block) {
        let wanted = |open: &mut Open| matches!(open.kept.get(&block.index), Some(Kept::Wanted));
        if self.object_mut(block.file).is_some_and(wanted) {
            self.not_kept(now, block);
        }
    }

    /// The next part to be written.
    pub(crate) fn next_write(&mut self) -> Option<Write> {
        let write = self.writes.pop_front()?;
        self.tier.as_mut()?.writing += 1;
        Some(write)
    }

    pub(crate) fn written(&mut self, now: Nanos, write: &Write, place: io::Result<Place>) {
        let Some(tier) = &mut self.tier else { return };
        tier.writing -= 1;
        let (block, serial) = (write.block, write.fixed.serial);
        self.counts.disk_failures += u64::from(place.is_err());
        let Some(open) = self.object_mut(block.file).filter(|open| open.fixed.serial == serial) else {
            return;
        };
        let Some(kept @ Kept::Writing) = open.kept.get_mut(&block.index) else { return };
        match place {
            Ok(place) => {
                let length = place.length() as u64;
                *kept = Kept::There(Arc::new(place));
                self.counts.disk_written_bytes += length;
                if let Some(tier) = &mut self.tier {
                    tier.tell(now, Input::Loaded { block, by: None });
                }
            }
            Err(_) => self.not_kept(now, block),
        }
    }

    /// Is the part on the disk? Then it is asked for there.
    pub(super) fn is_kept(&self, block: Block) -> bool {
        let open = self.objects.get(block.file.0 as usize).and_then(Option::as_ref);
        open.is_some_and(|open| matches!(open.kept.get(&block.index), Some(Kept::There(_))))
    }

    /// The next parts to be read from the disk.
    pub(crate) fn next_read(&mut self) -> Option<Read> {
        while self.tier.as_ref()?.reading < MOST_READS {
            let block = self.from_disk.pop_front()?;
            if self.stage(block) != Some(Stage::Kept) {
                continue;
            }
            if let Some(read) = self.read_from(block) {
                self.tier.as_mut()?.reading += 1;
                return Some(read);
            }
            // It was forgotten meanwhile.
            self.queue_again(block);
        }
        None
    }

    fn read_from(&mut self, first: Block) -> Option<Read> {
        let most = self.request_parts;
        let open = self.object_mut(first.file)?;
        let mut parts = Vec::new();
        for index in (first.index..).take(most) {
            let Some(Part::Pending { pending, stage: stage @ Stage::Kept, .. }) = open.parts.get_mut(&index)
            else {
                break;
            };
            let Some(Kept::There(place)) = open.kept.get(&index) else { break };
            *stage = Stage::UnderWay;
            parts.push((place.clone(), pending.clone()));
        }
        let fixed = open.fixed.clone();
        (!parts.is_empty()).then_some(Read { fixed, first, parts })
    }

    /// What the disk has not got after all is asked of the store.
    fn queue_again(&mut self, block: Block) {
        let Some(open) = self.object_mut(block.file) else { return };
        let Some(Part::Pending { stage, waited_for, .. }) = open.parts.get_mut(&block.index) else { return };
        if *waited_for {
            *stage = Stage::Demanded;
            self.demanded.push_back(block);
        } else {
            *stage = Stage::Ahead;
            self.ahead.push_back(block);
        }
    }

    /// A part has come from the disk, or has not.
    pub(crate) fn was_kept(&mut self, now: Nanos, fixed: &Fixed, block: Block, buffer: io::Result<Buffer>) {
        let is_open = self.object_mut(block.file).is_some_and(|open| open.fixed.serial == fixed.serial);
        match buffer {
            Ok(buffer) => {
                self.counts.disk_read_bytes += buffer.len() as u64;
                self.came(now, fixed.serial, block, buffer);
            }
            Err(_) if is_open => {
                self.counts.disk_failures += 1;
                if let Some(open) = self.object_mut(block.file)
                    && open.kept.remove(&block.index).is_some()
                    && let Some(tier) = &mut self.tier
                {
                    tier.tell(now, Input::Gone { block });
                }
                self.queue_again(block);
            }
            Err(_) => {}
        }
    }

    pub(crate) fn read_ended(&mut self) {
        if let Some(tier) = &mut self.tier {
            tier.reading -= 1;
        }
    }
}
