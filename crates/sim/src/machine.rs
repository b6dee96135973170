//! The machine: processors, one of them unless said otherwise, some processes, some disks.
//!
//! A process computes, references a block, waits if the block is not there, computes again. A
//! processor runs one process at a time, to the end of its compute time, in the order in which they
//! became ready. Every fetch costs driver time when its disk starts it: an interrupt that takes a
//! processor, so it delays whoever computes there, and is hidden where nobody does (that instant, not the
//! issue or the completion, gives the published figures). Of several processors it takes one that is free, if any is.
//!
//! Each disk serves its queue by its discipline. The engine is told when a fetch completes, together
//! with its access time, and asked for actions after every event. An event looks only at the disks that
//! it concerns ([`Agenda`]): those that are due and those that were just given a request, in the order of
//! their numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use foretell_device::{Class, Completion, Device, DeviceEvent, Request};
use foretell_policy::{
    Access, Action, Block, DiskId, Engine, FileId, Input, Layout, ManagerId, Nanos, ProcessId, Reason,
};

use crate::agenda::Agenda;
use crate::control::{Control, Enrolled};
use crate::error::SimError;
use crate::input::InputReference;
use crate::kernel::{Advised, Kernel};

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Ready or running: its next reference comes after its compute time.
    Computing,
    /// Waiting for a block.
    Waiting(Block),
    Done,
}

struct Process<R> {
    enrolled: Enrolled,
    references: R,
    /// The reference that it makes when its present compute time is over.
    next: Option<InputReference>,
    doing: Doing,
    /// When it ended, 0 before.
    ended_ns: u64,
}

/// A process before it runs.
pub(crate) struct Actor<R> {
    pub(crate) enrolled: Enrolled,
    pub(crate) references: R,
}

/// Disclosed references that have not been handed to the engine yet.
pub(crate) struct Feed {
    pub(crate) manager: ManagerId,
    pub(crate) list: Vec<Block>,
    pub(crate) fed: usize,
    /// References ahead of the cursor at most.
    pub(crate) lookahead: usize,
}

/// Times and counts of a finished run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) elapsed_ns: u64,
    pub(crate) compute_ns: u64,
    pub(crate) driver_ns: u64,
    pub(crate) stall_ns: u64,
    pub(crate) fetches: u64,
    pub(crate) fetch_ns: u64,
    pub(crate) busy_ns: u64,
}

/// What is left when all processes have ended.
pub(crate) struct Finished {
    pub(crate) totals: Totals,
    /// When each process ended.
    pub(crate) ends_ns: Vec<u64>,
    pub(crate) engine: Engine,
    pub(crate) advised: Option<Advised>,
}

/// How the machine is equipped.
pub(crate) struct Hardware {
    pub(crate) disks: Vec<Device>,
    pub(crate) block_sectors: u32,
    pub(crate) layouts: Vec<Layout>,
    /// Processor time of one fetch.
    pub(crate) driver_ns: u64,
    /// How many processors there are.
    pub(crate) processors: u16,
    /// Divides compute times: the paper's processor twice as fast.
    pub(crate) cpu_speed: f64,
    /// Which files are left to the kernel, if any.
    pub(crate) control: Option<Arc<Control>>,
    /// The kernel, if the plane is advisory.
    pub(crate) kernel: Option<Kernel>,
    /// Blocks of each file.
    pub(crate) file_blocks: Vec<u32>,
    /// The disks promote prefetches that a process waits for.
    pub(crate) promotes: bool,
    /// Tell the engine compute and access times (forestall asks for them).
    pub(crate) reports_times: bool,
}

/// One processor.
#[derive(Debug, Clone, Copy, Default)]
struct Processor {
    running: Option<usize>,
    /// When the running process's compute time is over, driver time included.
    run_end_ns: u64,
    /// Since when nobody runs.
    idle_since_ns: u64,
    /// Driver time that fell into the present idle time.
    idle_driver_ns: u64,
    /// Fetches that started in it.
    idle_fetches: u64,
    /// The driver has the idle processor until then.
    driver_until_ns: u64,
}

/// When the last process ended, and how the processors were then.
#[derive(Debug, Clone, Default)]
struct Ended {
    at_ns: u64,
    processors: Vec<Processor>,
}

pub(crate) struct Machine<R> {
    pub(crate) engine: Engine,
    pub(crate) hardware: Hardware,
    /// When each disk has its next event.
    agenda: Agenda,
    /// Disks that were given a request since they were looked at; each once.
    touched: Vec<u16>,
    processes: Vec<Process<R>>,
    feeds: Vec<Feed>,
    ready: VecDeque<usize>,
    processors: Vec<Processor>,
    ended: Ended,
    totals: Totals,
}

impl<R: Iterator<Item = InputReference>> Machine<R> {
    pub(crate) fn new(
        engine: Engine,
        hardware: Hardware,
        actors: Vec<Actor<R>>,
        feeds: Vec<Feed>,
    ) -> Machine<R> {
        let process = |Actor { enrolled, references }| Process {
            enrolled,
            references,
            next: None,
            doing: Doing::Computing,
            ended_ns: 0,
        };
        let processes: Vec<Process<R>> = actors.into_iter().map(process).collect();
        Machine {
            engine,
            agenda: Agenda::new(hardware.disks.len()),
            touched: Vec::with_capacity(hardware.disks.len()),
            processors: vec![Processor::default(); hardware.processors.max(1) as usize],
            hardware,
            processes,
            feeds,
            ready: VecDeque::new(),
            ended: Ended::default(),
            totals: Totals::default(),
        }
    }

    /// Runs all processes to their end.
    pub(crate) fn run(mut self) -> Result<Finished, SimError> {
        for feed in 0..self.feeds.len() {
            self.feed(0, feed);
        }
        self.act(0)?;
        for p in 0..self.processes.len() {
            self.compute_next(0, p);
        }
        self.dispatch(0);
        loop {
            let disk_ns = self.agenda.next_ns();
            let running = self.next_to_refer();
            if let Some(timer) = self.timer_ns()
                && disk_ns.is_none_or(|disk| timer < disk)
                && running.is_none_or(|(run, _)| timer < run)
            {
                if running.is_none() && self.ready.is_empty() && self.all_done() {
                    break;
                }
                self.timer(timer)?;
                continue;
            }
            match (disk_ns, running) {
                (Some(disk), run) if run.is_none_or(|(run, _)| disk <= run) => {
                    if running.is_none() && self.ready.is_empty() && self.all_done() {
                        break;
                    }
                    self.disk_events(disk)?;
                }
                (_, Some((run, processor))) => self.reference(run, processor)?,
                (_, None) => break,
            }
        }
        if !self.all_done() {
            return Err(SimError::Stuck);
        }
        let Ended { at_ns: end_ns, processors } = std::mem::take(&mut self.ended);
        for (processor, then) in self.processors.iter().zip(&processors) {
            // Another processor's interrupt may go on when the last process has ended.
            let beyond = then.driver_until_ns.saturating_sub(end_ns).min(then.idle_driver_ns);
            let idle_driver_ns = then.idle_driver_ns - beyond;
            self.totals.stall_ns += end_ns - processor.idle_since_ns - idle_driver_ns;
            // What started after that is none of the run's fetches.
            self.totals.driver_ns -= processor.idle_driver_ns - idle_driver_ns;
            self.totals.fetches -= processor.idle_fetches - then.idle_fetches;
        }
        self.totals.elapsed_ns = end_ns;
        self.totals.busy_ns = self.hardware.disks.iter().map(|d| d.busy_ns(end_ns).min(end_ns)).sum();
        let ends_ns = self.processes.iter().map(|p| p.ended_ns).collect();
        let totals = self.totals;
        let advised = self.come_to_rest()?;
        Ok(Finished { totals, ends_ns, engine: self.engine, advised })
    }

    fn all_done(&self) -> bool {
        self.processes.iter().all(|p| p.doing == Doing::Done)
    }

    /// When a process makes its reference next, and on which processor.
    #[inline]
    fn next_to_refer(&self) -> Option<(u64, usize)> {
        let processors = self.processors.iter().enumerate();
        processors.filter(|(_, p)| p.running.is_some()).map(|(i, p)| (p.run_end_ns, i)).min()
    }

    /// The compute time of a processor's process is over: it references its block.
    fn reference(&mut self, now: u64, processor: usize) -> Result<(), SimError> {
        let Some(p) = self.processors[processor].running.take() else { return Ok(()) };
        self.processors[processor].idle_since_ns = now;
        let Some(next) = self.processes[p].next.take() else { return Ok(()) };
        let block = Block::new(FileId(next.file), next.block);
        let who = self.who(p, next.file);
        if self.hardware.kernel.is_some() {
            return self.reference_advised(now, p, who, block);
        }
        let access = self.engine.access(Nanos(now), who, block);
        if !self.feeds.is_empty() {
            for feed in 0..self.feeds.len() {
                self.feed(now, feed);
            }
        }
        self.processes[p].doing = Doing::Waiting(block);
        if access == Access::InFlight {
            self.promote(block);
        }
        self.act(now)?;
        if access == Access::Hit {
            self.compute_next(now, p);
        }
        self.dispatch(now);
        Ok(())
    }

    /// A process waits for a block that is on its way, before the prefetches from now on if the disks can do that.
    pub(crate) fn promote(&mut self, block: Block) {
        if self.hardware.promotes {
            let (disk, id, _) = self.place(block);
            self.hardware.disks[disk.0 as usize].promote(id);
        }
    }

    /// A process waits for the block that it references, or has it.
    pub(crate) fn wait_or_go_on(&mut self, now: u64, p: usize, block: Block, has_it: bool) {
        self.processes[p].doing = Doing::Waiting(block);
        if has_it {
            self.compute_next(now, p);
        }
    }

    pub(crate) fn feed_count(&self) -> usize {
        self.feeds.len()
    }

    /// When a disk has its next event.
    pub(crate) fn next_disk_ns(&self) -> Option<u64> {
        self.agenda.next_ns()
    }

    /// As whom a process references a file: what is left to the kernel is not its manager's.
    fn who(&self, p: usize, file: u32) -> ProcessId {
        let Enrolled { process, kernel, .. } = self.processes[p].enrolled;
        match (kernel, &self.hardware.control) {
            (Some(kernel), Some(control)) if !control.manages(file) => kernel,
            _ => process,
        }
    }

    /// A process has its block: it computes on to its next reference, or ends.
    fn compute_next(&mut self, now: u64, p: usize) {
        let process = &mut self.processes[p];
        process.next = process.references.next();
        match process.next {
            Some(_) => {
                process.doing = Doing::Computing;
                self.ready.push_back(p);
            }
            None => {
                process.doing = Doing::Done;
                // An interrupt under way is finished first, as it is before a process goes on.
                let driver_until_ns = self.processors.iter().map(|p| p.driver_until_ns).min().unwrap_or(0);
                process.ended_ns = now.max(driver_until_ns);
                self.ended = Ended { at_ns: process.ended_ns, processors: self.processors.clone() };
                let Enrolled { process, kernel, .. } = process.enrolled;
                for process in [Some(process), kernel].into_iter().flatten() {
                    match &mut self.hardware.kernel {
                        None => {
                            self.engine.tell(Nanos(now), Input::ProcessExited { process });
                        }
                        Some(kernel) => kernel.exited(now, process),
                    }
                }
            }
        }
    }

    /// Gives free processors to the processes that are ready.
    pub(crate) fn dispatch(&mut self, now: u64) {
        while !self.ready.is_empty()
            && let Some(free) = self.free_processor()
            && let Some(p) = self.ready.pop_front()
        {
            let compute_ns = self.processes[p].next.map_or(0, |r| r.compute_ns);
            let compute_ns = match self.hardware.cpu_speed {
                1.0 => compute_ns,
                speed => (compute_ns as f64 / speed).round() as u64,
            };
            let processor = &mut self.processors[free];
            let start = now.max(processor.driver_until_ns);
            self.totals.stall_ns += start - processor.idle_since_ns - processor.idle_driver_ns;
            self.totals.compute_ns += compute_ns;
            (processor.idle_driver_ns, processor.idle_fetches) = (0, 0);
            processor.running = Some(p);
            processor.run_end_ns = start + compute_ns;
            if self.hardware.reports_times {
                let process = self.processes[p].enrolled.process;
                self.engine.tell(Nanos(now), Input::Computed { process, compute: Nanos(compute_ns) });
            }
        }
    }

    /// The processor on which nobody runs, and of several the one that the driver leaves first.
    fn free_processor(&self) -> Option<usize> {
        let free = (0..self.processors.len()).filter(|&i| self.processors[i].running.is_none());
        free.min_by_key(|&i| self.processors[i].driver_until_ns)
    }

    /// Hands more of a disclosed list to the engine, as far as it may reach ahead.
    pub(crate) fn feed(&mut self, now: u64, feed: usize) {
        let f = &mut self.feeds[feed];
        let room = f.lookahead.saturating_sub(self.engine.disclosed_ahead(f.manager));
        let end = f.fed.saturating_add(room).min(f.list.len());
        if end > f.fed {
            f.fed += self.engine.disclose(Nanos(now), f.manager, &f.list[f.fed..end]);
        }
        if f.fed == f.list.len() {
            self.feeds[feed].list = Vec::new();
            self.feeds[feed].fed = 0;
        }
    }

    /// Does what the engine asks for.
    pub(crate) fn act(&mut self, now: u64) -> Result<(), SimError> {
        let mut asked = false;
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Fetch { block, reason, .. } => {
                    // The kernel may have it, or fetch it already.
                    let kernel = self.hardware.kernel.as_mut();
                    if kernel.is_none_or(|kernel| kernel.fetch(now, block, None, false)) {
                        self.submit(now, block, reason)?;
                        asked = true;
                    }
                }
                Action::Evict { block } => {
                    if let Some(kernel) = &mut self.hardware.kernel {
                        kernel.evict(now, block);
                    }
                }
                Action::CancelPrefetches { .. } => {}
            }
        }
        if asked {
            self.start_requests(now);
        }
        Ok(())
    }

    /// The disk of a block, what its request is called there, and its address in blocks.
    fn place(&self, block: Block) -> (DiskId, u64, u64) {
        let (disk, address) = self.hardware.layouts[block.file.0 as usize].locate(block.file.0, block.index);
        (disk, (u64::from(block.file.0) << 32) | u64::from(block.index), address)
    }

    pub(crate) fn submit(&mut self, now: u64, block: Block, reason: Reason) -> Result<(), SimError> {
        let (disk, id, address) = self.place(block);
        let sectors = self.hardware.block_sectors;
        let class = match reason {
            Reason::Demand => Class::Demand,
            Reason::Prefetch => Class::Prefetch,
        };
        let request = Request::read(id, address * u64::from(sectors), sectors).of_class(class);
        self.hardware.disks[disk.0 as usize].submit(now, request).map_err(SimError::Device)?;
        if self.touched.last() != Some(&disk.0) && !self.touched.contains(&disk.0) {
            self.touched.push(disk.0);
        }
        Ok(())
    }

    /// Lets disks start what was just queued.
    pub(crate) fn start_requests(&mut self, now: u64) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        for disk in touched.drain(..) {
            self.advance(now, disk);
        }
        self.touched = touched;
    }

    /// Brings a disk up to `now`, and charges the driver time of what it starts.
    fn advance(&mut self, now: u64, disk: u16) {
        self.hardware.disks[disk as usize].advance(now);
        while let Some(event) = self.hardware.disks[disk as usize].poll() {
            match event {
                DeviceEvent::Started(_) => self.charge(now, disk),
                DeviceEvent::Completed(done) => self.complete(now, disk, &done),
            }
        }
        self.agenda.set(disk, self.hardware.disks[disk as usize].next_event_ns());
    }

    pub(crate) fn disk_events(&mut self, now: u64) -> Result<(), SimError> {
        while let Some(disk) = self.agenda.take_due(now) {
            self.advance(now, disk);
        }
        self.drain(now)?;
        self.act(now)?;
        self.dispatch(now);
        Ok(())
    }

    /// A disk starts a fetch: the driver takes a processor.
    fn charge(&mut self, now: u64, disk: u16) {
        let driver_ns = self.hardware.driver_ns;
        self.totals.fetches += 1;
        self.totals.driver_ns += driver_ns;
        if let Some(free) = self.free_processor() {
            let processor = &mut self.processors[free];
            processor.driver_until_ns = now.max(processor.driver_until_ns) + driver_ns;
            processor.idle_driver_ns += driver_ns;
            processor.idle_fetches += 1;
        } else {
            let busy = disk as usize % self.processors.len();
            self.processors[busy].run_end_ns += driver_ns;
        }
    }

    fn complete(&mut self, now: u64, disk: u16, done: &Completion) {
        self.totals.fetch_ns += done.service_ns();
        let block = Block::new(FileId((done.id >> 32) as u32), done.id as u32);
        if self.hardware.reports_times {
            let access = Nanos(done.service_ns());
            self.engine.tell(Nanos(now), Input::Served { disk: DiskId(disk), access });
        }
        match &mut self.hardware.kernel {
            None => {
                self.engine.tell(Nanos(now), Input::Loaded { block, by: None });
            }
            Some(kernel) => kernel.arrived(now, block),
        }
        for p in 0..self.processes.len() {
            if self.processes[p].doing == Doing::Waiting(block) {
                let who = self.who(p, block.file.0);
                if let Some(kernel) = &mut self.hardware.kernel {
                    kernel.resumed(now, who, block);
                }
                self.compute_next(now, p);
            }
        }
    }
}
