//! The processes of the machine beside, each with a clock of its own, and its processors.
//!
//! What a process references next is known only when it has done so here, and there it may be ahead or behind. So its
//! references wait in a line until the machine beside has come to them, and the machine goes on only as far as it knows
//! what all processes do: not beyond the moment since when one of them is *unknown*.
//!
//! ```text
//!  unknown   its next reference has not been told
//!  ready     it has been, and the process waits for a processor, first come, first served
//!  running   it computes until its reference
//!  waiting   for a block
//! ```
//!
//! The line of a process is no longer than [`LINE`], and all of them together than [`LINES`] and one for each process.
//! When one is full, or all are, the processes that hold the others up are left behind: they come back, late, with their
//! next reference.

use std::collections::{BTreeSet, VecDeque};

use super::Met;
use crate::ids::{Block, ProcessId};

/// References of one process that are told and not followed yet: 512 KiB.
const LINE: usize = 1 << 14;

/// The same of all processes: 8 MiB, in lines that have room for four times as many at most.
const LINES: usize = 1 << 18;

/// References that must meet the same here and there before the next one's wait is compared: what was steered has left disks
/// elsewhere, and parts of windows.
const ALIKE_IN_A_ROW: u32 = 8;

/// Room that a line keeps.
const KEPT: usize = 64;

/// A reference that was told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// What the process computes before it, in ns.
    pub(super) compute: u64,
    pub(super) block: Block,
    /// When it was made here.
    pub(super) at: u64,
    /// What it met here.
    pub(super) met: Met,
}

const _: () = assert!(size_of::<Told>() == 32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Unknown,
    /// Unknown, and nobody waits for it.
    Behind,
    Ready,
    Running,
    Waiting(u64),
}

#[derive(Debug)]
struct Clock {
    doing: Doing,
    /// Since when.
    since: u64,
    line: VecDeque<Told>,
    /// Compute time that was told since the last reference.
    computed: u64,
    /// How long it waited last; taken by the next reference. And how many references in a row met what they met here, by the
    /// same rules.
    waited: u64,
    alike: u32,
    /// No further reference will be told.
    ends: bool,
}

/// A processor.
#[derive(Debug, Clone, Copy, Default)]
struct Processor {
    /// Who computes on it, and until when.
    running: Option<(u32, u64)>,
    /// Since when nobody does.
    free_since: u64,
    /// It serves interrupts until then, if nobody computes on it.
    driver_until: u64,
    /// Time of interrupts since it is free.
    driver: u64,
}

/// All clocks. Processes are dense numbers, as many as [`crate::Limits::processes`].
#[derive(Debug)]
pub(super) struct Clocks {
    clocks: Vec<Option<Clock>>,
    unknown: BTreeSet<(u64, u32)>,
    ready: BTreeSet<(u64, u32)>,
    waiting: Vec<u32>,
    /// References in all lines.
    told: usize,
    /// Processes that have a clock.
    alive: usize,
    processors: Vec<Processor>,
    /// The last thing that a process did.
    now: u64,
    /// Time in which a processor had nothing to do, of all of them.
    idle: u64,
    /// The same when the last process ended, while there is none: disks go on, but not for anybody.
    idle_at_end: Option<u64>,
}

impl Clocks {
    pub(super) fn new(processors: u16) -> Clocks {
        Clocks {
            clocks: Vec::new(),
            unknown: BTreeSet::new(),
            ready: BTreeSet::new(),
            waiting: Vec::new(),
            told: 0,
            alive: 0,
            processors: vec![Processor::default(); processors.max(1) as usize],
            now: 0,
            idle: 0,
            idle_at_end: None,
        }
    }

    /// The time of the last thing that a process did.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Time until then in which processors had nothing to do.
    pub(super) fn idle(&self) -> u64 {
        self.idle_at_end.unwrap_or_else(|| self.idle_now())
    }

    fn idle_now(&self) -> u64 {
        let idle = self.processors.iter().filter(|p| p.running.is_none());
        let idle = idle.map(|p| {
            // An interrupt may go on after that.
            let beyond = p.driver_until.saturating_sub(self.now).min(p.driver);
            self.now.saturating_sub(p.free_since).saturating_sub(p.driver - beyond)
        });
        idle.fold(self.idle, u64::saturating_add)
    }

    /// A process computed before its next reference.
    pub(super) fn computed(&mut self, process: ProcessId, ns: u64) {
        let clock = self.enter(process);
        clock.computed = clock.computed.saturating_add(ns);
    }

    /// Is there no room for another reference of a process? One is always taken from a process that has none in line: the
    /// others may wait for it.
    pub(super) fn is_full(&self, process: ProcessId) -> bool {
        let clock = self.clocks.get(process.0 as usize).and_then(Option::as_ref);
        let line = clock.map_or(0, |clock| clock.line.len());
        line >= LINE || line > 0 && self.told >= LINES
    }

    /// A process made a reference, at `at` here, where it met this.
    pub(super) fn told(&mut self, process: ProcessId, block: Block, at: u64, met: Met) {
        let clock = self.enter(process);
        let compute = std::mem::take(&mut clock.computed);
        clock.line.push_back(Told { compute, block, at, met });
        self.told += 1;
        self.make_ready(process.0);
    }

    /// A process makes no more references.
    pub(super) fn exited(&mut self, process: ProcessId) {
        let Some(Some(clock)) = self.clocks.get_mut(process.0 as usize) else { return };
        clock.ends = true;
        if matches!(clock.doing, Doing::Unknown | Doing::Behind) {
            self.unknown.remove(&(clock.since, process.0));
            self.end(process);
        }
    }

    /// A process has ended there, too.
    fn end(&mut self, process: ProcessId) {
        self.clocks[process.0 as usize] = None;
        self.alive -= 1;
        if self.alive == 0 {
            // An interrupt under way is finished first, as it is before a process goes on.
            let driver_until = self.processors.iter().map(|p| p.driver_until).min().unwrap_or(0);
            self.now = self.now.max(driver_until);
            self.idle_at_end = Some(self.idle_now());
        }
    }

    /// Nothing that happens then or later can be followed yet.
    pub(super) fn known_until(&self) -> u64 {
        self.unknown.first().map_or(u64::MAX, |first| first.0)
    }

    /// Gives the processors that are free to those that are ready.
    pub(super) fn dispatch(&mut self) {
        while let Some(&(since, process)) = self.ready.first()
            && self.unknown.first().is_none_or(|&unknown| (since, process) < unknown)
            && let Some(free) = self.first_free()
        {
            self.ready.remove(&(since, process));
            let Some(Some(clock)) = self.clocks.get_mut(process as usize) else { continue };
            let compute = clock.line.front().map_or(0, |told| told.compute);
            clock.doing = Doing::Running;
            let processor = &mut self.processors[free];
            let start = since.max(processor.free_since).max(processor.driver_until);
            let idle = start.saturating_sub(processor.free_since).saturating_sub(processor.driver);
            self.idle = self.idle.saturating_add(idle);
            processor.driver = 0;
            processor.running = Some((process, start.saturating_add(compute)));
        }
    }

    /// The free processor that has been longest.
    fn first_free(&self) -> Option<usize> {
        let free = (0..self.processors.len()).filter(|&p| self.processors[p].running.is_none());
        free.min_by_key(|&p| self.processors[p].free_since.max(self.processors[p].driver_until))
    }

    /// When the next process makes its reference.
    pub(super) fn next_reference(&self) -> Option<u64> {
        self.processors.iter().filter_map(|p| p.running).map(|(_, end)| end).min()
    }

    /// The process of the next reference makes it: gives who, what, what it had waited before, and whether that was for
    /// the same reason as here.
    pub(super) fn refer(&mut self) -> Option<(ProcessId, Told, u64, bool)> {
        let running = |p: usize| self.processors[p].running.map(|(_, end)| end);
        let first =
            (0..self.processors.len()).filter(|&p| running(p).is_some()).min_by_key(|&p| running(p))?;
        let processor = &mut self.processors[first];
        let (process, end) = processor.running.take()?;
        (processor.free_since, processor.driver) = (end, 0);
        self.now = self.now.max(end);
        let clock = self.clocks.get_mut(process as usize)?.as_mut()?;
        clock.since = end;
        let (waited, alike) = (std::mem::take(&mut clock.waited), clock.alike > ALIKE_IN_A_ROW);
        let told = clock.line.pop_front()?;
        self.told -= 1;
        let room = clock.line.capacity();
        if room > KEPT && clock.line.len() < room / 4 {
            clock.line.shrink_to(room / 2);
        }
        Some((ProcessId(process), told, waited, alike))
    }

    /// Does the process's reference meet there what it met here, by the same rules?
    pub(super) fn set_alike(&mut self, process: ProcessId, alike: bool) {
        if let Some(Some(clock)) = self.clocks.get_mut(process.0 as usize) {
            clock.alike = if alike { clock.alike.saturating_add(1) } else { 0 };
        }
    }

    /// The process that made a reference waits for a block.
    pub(super) fn wait(&mut self, process: ProcessId, key: u64) {
        if let Some(Some(clock)) = self.clocks.get_mut(process.0 as usize) {
            clock.doing = Doing::Waiting(key);
            self.waiting.push(process.0);
        }
    }

    /// A block is there: gives how many waited for it, and how long in all.
    pub(super) fn arrived(&mut self, now: u64, key: u64) -> (u64, u64) {
        let (mut waits, mut waited) = (0, 0u64);
        let mut next = 0;
        while let Some(&process) = self.waiting.get(next) {
            let clock = self.clocks.get_mut(process as usize).and_then(Option::as_mut);
            match clock {
                Some(clock) if clock.doing == Doing::Waiting(key) => {
                    clock.waited = now.saturating_sub(clock.since);
                    (waits, waited) = (waits + 1, waited.saturating_add(clock.waited));
                    self.waiting.remove(next);
                    self.go_on(now, ProcessId(process));
                }
                Some(_) => next += 1,
                None => {
                    self.waiting.remove(next);
                }
            }
        }
        (waits, waited)
    }

    /// A process has its block.
    pub(super) fn go_on(&mut self, now: u64, process: ProcessId) {
        self.now = self.now.max(now);
        let Some(Some(clock)) = self.clocks.get_mut(process.0 as usize) else { return };
        clock.since = now;
        if clock.line.is_empty() && clock.ends {
            return self.end(process);
        }
        clock.doing = Doing::Unknown;
        self.unknown.insert((now, process.0));
        self.make_ready(process.0);
    }

    /// A disk begins so many fetches: each takes a processor for `driver`, and if none is free the disk's.
    pub(super) fn interrupt(&mut self, now: u64, disk: usize, begun: usize, driver: u64) {
        if driver == 0 {
            return;
        }
        for _ in 0..begun {
            match self.first_free() {
                Some(free) => {
                    let processor = &mut self.processors[free];
                    processor.driver_until = now.max(processor.driver_until).saturating_add(driver);
                    processor.driver = processor.driver.saturating_add(driver);
                }
                None => {
                    let busy = disk % self.processors.len();
                    if let Some((_, end)) = &mut self.processors[busy].running {
                        *end = end.saturating_add(driver);
                    }
                }
            }
        }
    }

    /// The clock of a process, which begins now if there is none.
    fn enter(&mut self, process: ProcessId) -> &mut Clock {
        let slot = process.0 as usize;
        if self.clocks.len() <= slot {
            self.clocks.resize_with(slot + 1, || None);
        }
        let (now, unknown, alive) = (self.now, &mut self.unknown, &mut self.alive);
        let idle_at_end = &mut self.idle_at_end;
        self.clocks[slot].get_or_insert_with(|| {
            unknown.insert((now, process.0));
            *alive += 1;
            *idle_at_end = None;
            Clock {
                doing: Doing::Unknown,
                since: now,
                line: VecDeque::new(),
                computed: 0,
                waited: 0,
                alike: 0,
                ends: false,
            }
        })
    }

    /// Who was unknown is ready if something has been told.
    fn make_ready(&mut self, process: u32) {
        let Some(Some(clock)) = self.clocks.get_mut(process as usize) else { return };
        if clock.line.is_empty() {
            return;
        }
        match clock.doing {
            Doing::Unknown => {
                self.unknown.remove(&(clock.since, process));
            }
            Doing::Behind => clock.since = clock.since.max(self.now),
            _ => return,
        }
        clock.doing = Doing::Ready;
        self.ready.insert((clock.since, process));
    }

    /// Nobody waits any longer for those that are unknown; false if none is.
    pub(super) fn leave_behind(&mut self) -> bool {
        let unknown = std::mem::take(&mut self.unknown);
        for &(_, process) in &unknown {
            if let Some(Some(clock)) = self.clocks.get_mut(process as usize) {
                clock.doing = Doing::Behind;
            }
        }
        !unknown.is_empty()
    }
}
