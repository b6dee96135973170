//! The machine: one processor, some processes, some disks.
//!
//! A process computes, references a block, waits if the block is not there, computes again. The
//! processor runs one process at a time, to the end of its compute time, in the order in which they
//! became ready. Every fetch costs driver time when its disk starts it: an interrupt that takes the
//! processor, so it delays whoever computes, and is hidden where everybody waits (that instant, not the
//! issue or the completion, gives the published figures).
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
use crate::input::InputReference;
use crate::run::SimError;

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

/// How the machine is equipped.
pub(crate) struct Hardware {
    pub(crate) disks: Vec<Device>,
    pub(crate) block_sectors: u32,
    pub(crate) layouts: Vec<Layout>,
    /// Processor time of one fetch.
    pub(crate) driver_ns: u64,
    /// Divides compute times: the paper's processor twice as fast.
    pub(crate) cpu_speed: f64,
    /// Which files are left to the kernel, if any.
    pub(crate) control: Option<Arc<Control>>,
    /// The disks promote prefetches that a process waits for.
    pub(crate) promotes: bool,
    /// Tell the engine compute and access times (forestall asks for them).
    pub(crate) reports_times: bool,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    at_ns: u64,
    idle_driver_ns: u64,
    idle_fetches: u64,
}

pub(crate) struct Machine<R> {
    engine: Engine,
    hardware: Hardware,
    /// When each disk has its next event.
    agenda: Agenda,
    /// Disks that were given a request since they were looked at; each once.
    touched: Vec<u16>,
    processes: Vec<Process<R>>,
    feeds: Vec<Feed>,
    ready: VecDeque<usize>,
    running: Option<usize>,
    /// When the running process's compute time is over, driver time included.
    run_end_ns: u64,
    /// Since when nobody runs.
    idle_since_ns: u64,
    /// Driver time that fell into the present idle time.
    idle_driver_ns: u64,
    /// Fetches that started in it.
    idle_fetches: u64,
    /// When the last process ended; its last driver time and the fetches begun until then.
    ended: Ended,
    /// The driver has the idle processor until then.
    driver_until_ns: u64,
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
            hardware,
            processes,
            feeds,
            ready: VecDeque::new(),
            running: None,
            run_end_ns: 0,
            idle_since_ns: 0,
            idle_driver_ns: 0,
            idle_fetches: 0,
            ended: Ended::default(),
            driver_until_ns: 0,
            totals: Totals::default(),
        }
    }

    /// Runs all processes to their end; gives when each of them ended, too.
    pub(crate) fn run(mut self) -> Result<(Totals, Vec<u64>, Engine), SimError> {
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
            let run_ns = self.running.map(|_| self.run_end_ns);
            match (disk_ns, run_ns) {
                (Some(disk), run) if run.is_none_or(|run| disk <= run) => {
                    if self.running.is_none() && self.ready.is_empty() && self.all_done() {
                        break;
                    }
                    self.disk_events(disk)?;
                }
                (_, Some(run)) => self.reference(run)?,
                (_, None) => break,
            }
        }
        if !self.all_done() {
            return Err(SimError::Stuck);
        }
        let Ended { at_ns: end_ns, idle_driver_ns, idle_fetches } = self.ended;
        self.totals.stall_ns += end_ns - self.idle_since_ns - idle_driver_ns;
        // What started after that is none of the run's fetches.
        self.totals.driver_ns -= self.idle_driver_ns - idle_driver_ns;
        self.totals.fetches -= self.idle_fetches - idle_fetches;
        self.totals.elapsed_ns = end_ns;
        self.totals.busy_ns = self.hardware.disks.iter().map(|d| d.busy_ns(end_ns).min(end_ns)).sum();
        let ends_ns = self.processes.iter().map(|p| p.ended_ns).collect();
        Ok((self.totals, ends_ns, self.engine))
    }

    fn all_done(&self) -> bool {
        self.processes.iter().all(|p| p.doing == Doing::Done)
    }

    /// The running process's compute time is over: it references its block.
    fn reference(&mut self, now: u64) -> Result<(), SimError> {
        let Some(p) = self.running.take() else { return Ok(()) };
        self.idle_since_ns = now;
        let Some(next) = self.processes[p].next.take() else { return Ok(()) };
        let block = Block::new(FileId(next.file), next.block);
        let who = self.who(p, next.file);
        let access = self.engine.access(Nanos(now), who, block);
        if !self.feeds.is_empty() {
            for feed in 0..self.feeds.len() {
                self.feed(now, feed);
            }
        }
        self.processes[p].doing = Doing::Waiting(block);
        if access == Access::InFlight && self.hardware.promotes {
            let (disk, id, _) = self.place(block);
            self.hardware.disks[disk.0 as usize].promote(id);
        }
        self.act(now)?;
        if access == Access::Hit {
            self.compute_next(now, p);
        }
        self.dispatch(now);
        Ok(())
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
                process.ended_ns = now.max(self.driver_until_ns);
                let Enrolled { process, kernel, .. } = process.enrolled;
                // An interrupt under way is finished first, as it is before a process goes on.
                self.ended = Ended {
                    at_ns: now.max(self.driver_until_ns),
                    idle_driver_ns: self.idle_driver_ns,
                    idle_fetches: self.idle_fetches,
                };
                for process in [Some(process), kernel].into_iter().flatten() {
                    self.engine.tell(Nanos(now), Input::ProcessExited { process });
                }
            }
        }
    }

    /// Gives the processor to the next ready process.
    fn dispatch(&mut self, now: u64) {
        if self.running.is_some() {
            return;
        }
        let Some(p) = self.ready.pop_front() else { return };
        let compute_ns = self.processes[p].next.map_or(0, |r| r.compute_ns);
        let compute_ns = match self.hardware.cpu_speed {
            1.0 => compute_ns,
            speed => (compute_ns as f64 / speed).round() as u64,
        };
        let start = now.max(self.driver_until_ns);
        self.totals.stall_ns += start - self.idle_since_ns - self.idle_driver_ns;
        self.totals.compute_ns += compute_ns;
        (self.idle_driver_ns, self.idle_fetches) = (0, 0);
        self.running = Some(p);
        self.run_end_ns = start + compute_ns;
        if self.hardware.reports_times {
            let process = self.processes[p].enrolled.process;
            self.engine.tell(Nanos(now), Input::Computed { process, compute: Nanos(compute_ns) });
        }
    }

    /// Hands more of a disclosed list to the engine, as far as it may reach ahead.
    fn feed(&mut self, now: u64, feed: usize) {
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
    fn act(&mut self, now: u64) -> Result<(), SimError> {
        let mut asked = false;
        while let Some(action) = self.engine.poll_action() {
            if let Action::Fetch { block, reason, .. } = action {
                self.submit(now, block, reason)?;
                asked = true;
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

    fn submit(&mut self, now: u64, block: Block, reason: Reason) -> Result<(), SimError> {
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
    fn start_requests(&mut self, now: u64) {
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
                DeviceEvent::Started(_) => self.charge(now),
                DeviceEvent::Completed(done) => self.complete(now, disk, &done),
            }
        }
        self.agenda.set(disk, self.hardware.disks[disk as usize].next_event_ns());
    }

    fn disk_events(&mut self, now: u64) -> Result<(), SimError> {
        while let Some(disk) = self.agenda.take_due(now) {
            self.advance(now, disk);
        }
        self.act(now)?;
        self.dispatch(now);
        Ok(())
    }

    /// A disk starts a fetch: the driver takes the processor.
    fn charge(&mut self, now: u64) {
        let driver_ns = self.hardware.driver_ns;
        self.totals.fetches += 1;
        self.totals.driver_ns += driver_ns;
        if self.running.is_some() {
            self.run_end_ns += driver_ns;
        } else {
            self.driver_until_ns = now.max(self.driver_until_ns) + driver_ns;
            self.idle_driver_ns += driver_ns;
            self.idle_fetches += 1;
        }
    }

    fn complete(&mut self, now: u64, disk: u16, done: &Completion) {
        self.totals.fetch_ns += done.service_ns();
        let block = Block::new(FileId((done.id >> 32) as u32), done.id as u32);
        if self.hardware.reports_times {
            let access = Nanos(done.service_ns());
            self.engine.tell(Nanos(now), Input::Served { disk: DiskId(disk), access });
        }
        self.engine.tell(Nanos(now), Input::Loaded { block, by: None });
        for p in 0..self.processes.len() {
            if self.processes[p].doing == Doing::Waiting(block) {
                self.compute_next(now, p);
            }
        }
    }
}
