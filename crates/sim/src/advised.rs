//! The machine in an advisory plane: processes read from the kernel's memory ([`Kernel`]), and the engine hears of it.

use foretell_policy::{Block, FileId, Nanos, ProcessId, Reason};

use crate::error::SimError;
use crate::input::InputReference;
use crate::kernel::{Advised, Found};
use crate::machine::Machine;

/// Rounds in which what is on its way must come to rest: each ends a fetch, drains the ring, or gives a fetch up.
const ROUNDS: usize = 1 << 24;

impl<R: Iterator<Item = InputReference>> Machine<R> {
    /// A process references a block of the kernel's.
    pub(crate) fn reference_advised(
        &mut self,
        now: u64,
        p: usize,
        who: ProcessId,
        block: Block,
    ) -> Result<(), SimError> {
        let Some(kernel) = &mut self.hardware.kernel else { return Ok(()) };
        let found = kernel.reference(now, who, block);
        let mut fetched = Vec::new();
        if found == Found::Absent && kernel.fetch(now, block, Some(who), false) {
            fetched.push((block, Reason::Demand));
        }
        let length = self.hardware.file_blocks.get(block.file.0 as usize).copied().unwrap_or(0);
        let ahead = kernel.ahead(block);
        for index in ahead.start..ahead.end.min(length) {
            let ahead = Block::new(block.file, index);
            if kernel.fetch(now, ahead, Some(who), true) {
                fetched.push((ahead, Reason::Prefetch));
            }
        }
        if found == Found::OnItsWay {
            self.promote(block);
        }
        for (block, reason) in fetched {
            self.submit(now, block, reason)?;
        }
        self.start_requests(now);
        self.wait_or_go_on(now, p, block, found == Found::Resident);
        self.drain(now)?;
        self.dispatch(now);
        Ok(())
    }

    /// When something is to be done though no disk and no process does anything.
    pub(crate) fn timer_ns(&self) -> Option<u64> {
        let kernel = self.hardware.kernel.as_ref()?;
        let timeout = self.engine.poll_timeout().map(|timeout| timeout.0);
        kernel.drained_at().into_iter().chain(timeout).min()
    }

    /// That moment has come.
    pub(crate) fn timer(&mut self, now: u64) -> Result<(), SimError> {
        if self.engine.poll_timeout().is_some_and(|timeout| timeout.0 <= now) {
            self.engine.handle_timeout(Nanos(now));
        }
        self.drain(now)?;
        self.act(now)?;
        self.dispatch(now);
        Ok(())
    }

    /// The engine is told what the ring holds, if it is drained now, and does what follows from that.
    pub(crate) fn drain(&mut self, now: u64) -> Result<(), SimError> {
        while let Some(kernel) = &mut self.hardware.kernel
            && kernel.drained_at().is_some_and(|at| at <= now)
        {
            kernel.drain(now, &mut self.engine);
            for feed in 0..self.feed_count() {
                self.feed(now, feed);
            }
            self.act(now)?;
        }
        Ok(())
    }

    /// Lets everything that is on its way come, and compares the engine's books with the truth.
    pub(crate) fn come_to_rest(&mut self) -> Result<Option<Advised>, SimError> {
        if self.hardware.kernel.is_none() {
            return Ok(None);
        }
        let mut now = 0;
        for _ in 0..ROUNDS {
            let disk = self.next_disk_ns();
            let timer = self.timer_ns();
            match (disk, timer) {
                (Some(disk), timer) if timer.is_none_or(|timer| disk <= timer) => {
                    now = now.max(disk);
                    self.disk_events(now)?;
                }
                (_, Some(timer)) => {
                    now = now.max(timer);
                    self.timer(now)?;
                }
                (_, None) => break,
            }
        }
        let files = self.hardware.file_blocks.iter().enumerate();
        let blocks = files
            .flat_map(|(file, &blocks)| (0..blocks).map(move |index| Block::new(FileId(file as u32), index)));
        let Some(kernel) = &self.hardware.kernel else { return Ok(None) };
        if !kernel.is_at_rest() {
            return Err(SimError::Restless);
        }
        Ok(Some(kernel.compare(&self.engine, blocks)))
    }
}
