//! The plane: one loop that observes, asks the policy, and has its actions done.
//!
//! A round of the loop waits for something to happen; takes in all observations; only then takes in what
//! became of evictions and prefetches, since their traces are among the observations; and hands out what
//! the policy has decided. Everything that may block is done by other threads ([`crate::workers`]).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_policy::{Config, Input, Tap};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::advice::ReadaheadOff;
use crate::error::{DiscloseError, OpenError, SessionError, StepError};
use crate::guard::Guard;
use crate::identity;
use crate::idle::Ebb;
use crate::lifecycle::present_name;
use crate::losses::Losses;
use crate::meter::cpu_time;
use crate::observe::Observer;
use crate::options::{HintChunk, Options, SessionId, SessionSpec};
use crate::own_mounts;
use crate::page_cache::PageCache;
use crate::report::Report;
use crate::schedule::{Schedule, WINDOW};
use crate::sessions::{Origin, Prepared, tree_without_us, user_of};
use crate::steering::{Command, Steering};
use crate::timing::Timing;
use crate::watch::Gather;
use crate::workers::{Outcome, Workers};
use foretell_door::Closer;

/// Observations taken in before decisions are handed out.
const OBSERVATIONS_A_TIME: usize = 2048;
/// The same in time: one may be of a read of many blocks, or of the end of a process.
const OBSERVING: Duration = Duration::from_millis(1);
/// Observations between two looks at the clock. One of a large folio that has gone is of 256 blocks: most of a
/// millisecond.
const OBSERVATIONS_A_LOOK: usize = 4;
/// Bytes of the shortest record of the ring.
const RECORD_BYTES: usize = 32;
/// Longest sleep while a disclosed list is being followed: a reference moves its cursor, and references alone
/// do not wake us.
const NAP: Duration = Duration::from_millis(1);
/// Longest sleep otherwise, to keep the ring from filling up.
const SLEEP: Duration = Duration::from_millis(10);
/// Nothing was observed for so long: nobody does anything that would suffer from a later look.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Longest sleep then. What calls for action wakes us all the same, and so does a ring that fills up.
const IDLE_SLEEP: Duration = Duration::from_millis(250);
/// What a round may take to abandon files.
const ABANDONING: Duration = Duration::from_micros(500);
/// Time between two looks at what became of the files.
const TEND_EVERY: Duration = Duration::from_millis(100);
/// Files looked at each time: 128 take a quarter of a millisecond.
const TEND_FILES: usize = 128;

/// How much of a disclosed list was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disclosed {
    /// Chunks taken: offer the rest again after a [`Plane::step`] or more.
    pub chunks: usize,
    /// Blocks that these chunks stand for.
    pub blocks: u64,
}

/// The page cache under a policy. See the crate's documentation.
///
/// Call [`Plane::open`] before the process starts other threads: it forks a small process that, should
/// this one be killed, undoes what was changed in the observed programs' open files.
pub struct Plane {
    pub(crate) steering: Steering,
    pub(crate) observer: Observer,
    pub(crate) closer: Closer,
    schedule: Schedule,
    /// Outcomes that wait for the observations before them.
    pub(crate) outcomes: VecDeque<Outcome>,
    /// Further ones could not be had, as a thread was just adding one.
    locked_out: bool,
    /// There may be more in the ring than the last round took.
    behind: bool,
    losses: Losses,
    /// A recording that is made of what is observed.
    gather: Option<Gather>,
    last_tended: Instant,
    /// When memory is given back.
    pub(crate) ebb: Ebb,
    pub(crate) timing: Timing,
    pub(crate) first_session: Option<Instant>,
    cpu_at_start: Duration,
    pub(crate) own_reads_at_start: u64,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane").field("options", &self.steering.options).finish_non_exhaustive()
    }
}

impl Plane {
    /// Starts the threads that prefetch and evict.
    ///
    /// # Errors
    /// When none can be had.
    pub(crate) fn start(
        options: Options,
        cache: &Arc<dyn PageCache>,
        guard: Guard,
        observer: Observer,
    ) -> Result<Plane, OpenError> {
        let system = |what| move |source| OpenError::System { what, source };
        let threads = options.prefetch_threads as usize;
        let schedule = || Schedule::new(options.realtime.then_some(options.realtime_share));
        let workers = Workers::start(cache, schedule(), threads)
            .map_err(system("start the threads that prefetch and evict"))?;
        let schedule = schedule();
        let closer = Closer::start().map_err(system("start the thread that closes descriptors"))?;
        let readahead_off = ReadaheadOff::start(guard, closer.clone())
            .map_err(system("start the thread that turns readahead off"))?;
        Ok(Plane {
            steering: Steering::new(options, workers, readahead_off),
            closer,
            own_reads_at_start: observer.device_read_bytes(std::process::id()).unwrap_or(0),
            observer,
            schedule,
            outcomes: VecDeque::new(),
            locked_out: false,
            behind: false,
            losses: Losses::default(),
            gather: None,
            last_tended: Instant::now(),
            ebb: Ebb::new(),
            timing: Timing::new(),
            first_session: None,
            cpu_at_start: cpu_time(),
        })
    }

    /// Loads and asks what is otherwise loaded and asked when it is needed for the first time, for a process that may
    /// load no BPF programs later, nor ask for the kernel's version.
    pub fn load_all(&self) {
        identity::load();
        crate::kernel::maps_whole_folios();
    }

    /// Where descriptors that came from others are to be closed.
    #[must_use]
    pub fn closer(&self) -> &Closer {
        &self.closer
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.steering.options
    }

    /// The configuration of the policy: a log of its inputs begins with it.
    #[must_use]
    pub fn policy_config(&self) -> &Config {
        self.steering.engine.config()
    }

    /// Shows everything that the policy is told from now on, and everything that it asks for, to `tap`. Before the
    /// first session it is all that there is; the tap is dropped with the plane.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.steering.engine.set_tap(Some(tap));
    }

    /// Takes a process tree under control. To lose nothing, add the session before the root runs. A root
    /// that belongs to a session already, without being its root, leaves that until this one ends; what it
    /// has started by then stays there.
    ///
    /// # Errors
    /// When a rule does not parse, the root does not exist or is under control already, or a table is full. Nothing
    /// has changed then.
    pub fn add_session(&mut self, spec: SessionSpec) -> Result<SessionId, SessionError> {
        let root = spec.root_pid;
        let prepared = Prepared::new(&spec.managers)?;
        present_name(root)?;
        let enclosing = self.steering.enclosing(root, false)?;
        let pids = tree_without_us(root, usize::MAX);
        if enclosing.is_none() {
            for &pid in &pids {
                if let Some(process) = self.steering.sessions.process(pid) {
                    return Err(SessionError::AlreadyManaged { pid, session: process.session });
                }
            }
        }
        let user = user_of(root);
        let origin = Origin { root, user, account: user, enclosing, by_descriptors: false };
        let session = self.steering.begin_session(prepared, origin)?;
        if let Some(mut casting) = spec.casting {
            casting.begin(root);
            if let Some(session) = self.steering.sessions.get_mut(session) {
                session.casting = Some(casting);
            }
        }
        self.steering.move_to_session(root, session);
        self.apply_commands();
        if let Err(error) = self.take_in_tree(root, session) {
            self.end_session(session);
            return Err(error);
        }
        self.begin_counting();
        Ok(session)
    }

    /// Takes another process that runs already, and what it has started, into a session. What belongs to one stays there,
    /// and one that has ended meanwhile is left out.
    pub fn attach(&mut self, session: SessionId, pid: u32) {
        if let Some(gather) = &mut self.gather {
            gather.attach_tree(pid);
        }
        // What could not be taken has ended.
        let _ = self.take_in_tree(pid, session);
    }

    fn take_in_tree(&mut self, root: u32, session: SessionId) -> Result<(), SessionError> {
        // What is started while the tree is gone through is found in the second round.
        for _ in 0..2 {
            for pid in tree_without_us(root, usize::MAX) {
                if self.steering.sessions.process(pid).is_some() {
                    continue;
                }
                let entered = self
                    .observer
                    .track(pid)
                    .map_err(|source| SessionError::Observe { pid, source: Box::new(source) })
                    .and_then(|()| present_name(pid));
                match entered {
                    Ok(name) => self.steering.enter_session(pid, session, name),
                    Err(error) if pid == root => return Err(error),
                    // A descendant that has just ended.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The first session has begun.
    pub(crate) fn begin_counting(&mut self) {
        if self.first_session.is_none() {
            self.first_session = Some(Instant::now());
            self.cpu_at_start = cpu_time();
        }
    }

    /// Ends a session: its processes run on as on the plain kernel; its counts stay in the report.
    /// A session that does not exist is ignored.
    pub fn end_session(&mut self, session: SessionId) {
        let observer = &self.observer;
        let usage = |pid| (observer.wait_ns(pid).unwrap_or(0), observer.device_read_bytes(pid).unwrap_or(0));
        for pid in self.steering.end_session(session, usage) {
            self.observer.untrack(pid);
        }
        self.apply_commands();
        if self.steering.let_go_of.is_empty() {
            self.release_memory();
        }
        self.abandon(Duration::ZERO);
    }

    /// Abandons files that were let go of.
    pub(crate) fn abandon(&mut self, time: Duration) {
        if self.steering.abandon_some(time) | self.steering.leave_unmounted() {
            self.apply_commands();
            self.release_memory();
        }
    }

    /// Processes of a session that are alive, as far as observed; 0 for one that has ended.
    #[must_use]
    pub fn live_processes(&self, session: SessionId) -> usize {
        self.steering.sessions.live_processes(session)
    }

    /// Puts those of these files that a rule matches under control before they are read, so that nothing
    /// of a file's first reads goes unseen. For files that are likely to be read: each costs about 20 us
    /// and a place among the managed ones. The others are recognised when they are first read; what cannot
    /// be opened is left to that too.
    pub fn expect(&mut self, paths: &[PathBuf]) {
        self.steering.expect(paths);
        self.apply_commands();
        self.steering.dispatch();
    }

    /// Appends to the list of what the processes of a manager (number `manager` of the session's
    /// specification, from 0) will read, in this order. Takes as many chunks as the policy's list has
    /// room for; 0 chunks mean that it is full at present.
    ///
    /// # Errors
    /// At the first chunk that cannot be taken; those before it were taken. Leave that one out and go
    /// on with the next, or give up.
    pub fn disclose(
        &mut self,
        session: SessionId,
        manager: usize,
        hints: &[HintChunk],
    ) -> Result<Disclosed, DiscloseError> {
        self.disclose_list(session, manager, 0, hints)
    }

    /// The same for one of several lists of a manager: one for each reader whose references are known, numbered from
    /// 0 without gaps. Who reads which is said by the session's [`crate::Casting`], or found out.
    ///
    /// # Errors
    /// As [`Plane::disclose`].
    pub fn disclose_list(
        &mut self,
        session: SessionId,
        manager: usize,
        list: u32,
        hints: &[HintChunk],
    ) -> Result<Disclosed, DiscloseError> {
        let result = self.steering.disclose(session, (manager, list), hints);
        self.apply_commands();
        self.steering.dispatch();
        result
    }

    /// More of a manager's lists is told at once, or that is over. While more comes nothing is fetched ahead from a disk with an arm:
    /// what lies side by side there is read in one go when all of it is known.
    pub fn open_lists(&mut self, session: SessionId, manager: usize, open: bool) {
        if let Some(manager) = self.steering.sessions.manager(session, manager).map(|manager| manager.id) {
            self.steering.tell(Input::ListsOpen { manager, open });
            self.steering.dispatch();
        }
    }

    /// References of one list that lie ahead of its reader; 0 for one that does not exist.
    #[must_use]
    pub fn list_ahead(&self, session: SessionId, manager: usize, list: u32) -> usize {
        let manager = self.steering.sessions.manager(session, manager);
        manager.map_or(0, |manager| self.steering.engine.list_ahead(manager.id, list))
    }

    /// Hands all that is observed to a recording as well, also what files that are not managed are read for. Gives
    /// back the one before, which has heard of all that was observed up to now.
    pub fn listen(&mut self, gather: Option<Gather>) -> Option<Gather> {
        if self.gather.is_some() {
            self.take_in_all();
        }
        std::mem::replace(&mut self.gather, gather)
    }

    /// One round of the loop: waits until something happens, at most `timeout`, and acts on it.
    /// Returns which of `extra_fds` (positions in the slice) are readable or hung up.
    ///
    /// # Errors
    /// When the loop cannot go on.
    pub fn step(&mut self, extra_fds: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<usize>, StepError> {
        self.schedule.check(self.steering.acted_at.elapsed() < WINDOW);
        let ready = self.wait(extra_fds, timeout.min(self.longest_sleep()))?;
        self.timing.begin();
        let outcomes = self.steering.workers.outcomes();
        self.locked_out = outcomes.is_none();
        self.outcomes.extend(outcomes.into_iter().flatten());
        let taken = self.take_in_some();
        self.steering.stirred = false;
        if taken > 0 {
            self.steering.observed_at = Instant::now();
        }
        self.apply_commands();
        self.timing.lap("observations");
        if !self.behind {
            self.catch_up();
        }
        self.timing.lap("outcomes");
        let now = self.steering.now();
        if self.steering.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.steering.engine.handle_timeout(now);
            self.steering.act();
        }
        self.timing.lap("timers");
        self.steering.leave_deleted();
        self.abandon(ABANDONING);
        self.timing.lap("abandoned files");
        self.steering.go_on_looking();
        self.timing.lap("looks");
        self.steering.append_queues();
        self.timing.lap("lists");
        self.steering.go_on_giving_back();
        self.timing.lap("refused evictions");
        self.steering.dispatch();
        self.timing.lap("actions");
        self.steering.look_again();
        self.timing.lap("files not found");
        if self.last_tended.elapsed() >= self.tend_every() {
            self.last_tended = Instant::now();
            if let Some(gather) = &mut self.gather {
                gather.look_at_memory();
            }
            self.steering.tend(TEND_FILES);
            self.steering.follow_pressure();
            self.release_at_ebb();
            if self.steering.workers.are_dead() {
                return Err(StepError::Workers);
            }
        }
        self.apply_commands();
        self.steering.files.lent.close();
        self.timing.lap("tending");
        Ok(ready)
    }

    /// How long the pieces of the loop's work take. Whoever drives the plane adds its own.
    pub fn timing(&mut self) -> &mut Timing {
        &mut self.timing
    }

    /// How much of the loop's time what was done on behalf of users has taken since this was asked last, apart from the
    /// calls that were made for them: who drives the plane for several users may hold it against them.
    pub fn take_spent(&mut self) -> std::collections::BTreeMap<u32, Duration> {
        std::mem::take(&mut self.steering.spent)
    }

    /// Takes in what has been observed, as much as a round may; how much it was.
    fn take_in_some(&mut self) -> usize {
        let start = Instant::now();
        let mut all = 0;
        loop {
            let taken = self.take_in(OBSERVATIONS_A_LOOK);
            all += taken;
            self.behind = taken == OBSERVATIONS_A_LOOK;
            if !self.behind || all >= OBSERVATIONS_A_TIME || start.elapsed() >= OBSERVING {
                return all;
            }
        }
    }

    /// Takes in what has been observed; how much it was.
    fn take_in(&mut self, most: usize) -> usize {
        self.losses.count(self.observer.lost_events());
        let (observer, steering, gather) = (&mut self.observer, &mut self.steering, &mut self.gather);
        observer.drain(most, |observation| {
            if let Some(gather) = gather {
                gather.take_knowing(&observation, &|key| steering.files.path(key));
            }
            steering.observe(observation);
        })
    }

    /// Takes in what has been observed up to now, and not what processes that outlive their job go on to do. What is
    /// reported next knows of it.
    pub fn take_in_all(&mut self) {
        let most = self.steering.options.ring_bytes as usize / RECORD_BYTES / OBSERVATIONS_A_TIME;
        for _ in 0..=most {
            if self.take_in(OBSERVATIONS_A_TIME) < OBSERVATIONS_A_TIME {
                return;
            }
        }
    }

    /// What can be said only when the ring has been read to its end.
    fn catch_up(&mut self) {
        self.steering.settle();
        if self.losses.call_for_a_look() {
            self.steering.resynchronise();
        }
        self.steering.judge(&mut self.outcomes);
    }

    fn longest_sleep(&self) -> Duration {
        let steering = &self.steering;
        if self.behind || steering.stirred || !self.outcomes.is_empty() {
            return Duration::ZERO;
        }
        let idle = steering.observed_at.elapsed() >= IDLE_AFTER;
        let following = !idle && !steering.sessions.listing.is_empty();
        let nap = following || self.locked_out || steering.queue_is_busy || !steering.retries.is_empty();
        let nap = nap || !steering.backlog.is_empty() || !steering.mapped_backlog.is_empty();
        let longest = match (nap, idle) {
            (true, _) => NAP,
            (false, true) => IDLE_SLEEP,
            (false, false) => SLEEP,
        };
        let deadline = steering.engine.poll_timeout();
        deadline.map_or(longest, |at| longest.min(Duration::from_nanos(at.saturating_sub(steering.now()).0)))
    }

    fn tend_every(&self) -> Duration {
        if self.steering.observed_at.elapsed() >= IDLE_AFTER { IDLE_SLEEP } else { TEND_EVERY }
    }

    fn wait(&self, extra_fds: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<usize>, StepError> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.observer.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.steering.workers.bell(), PollFlags::IN),
        ];
        fds.extend(extra_fds.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        fds.extend(
            self.steering.files.deletions.bell().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        let mounts_at = fds.len();
        fds.extend(own_mounts::changes().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::PRI)));
        let timeout = rustix::event::Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            // A signal: its handler has told whoever wants to know.
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(StepError::Wait(error.into())),
        }
        if fds.get(mounts_at).is_some_and(|fd| !fd.revents().is_empty()) {
            own_mounts::have_changed();
        }
        let ready = fds[2..2 + extra_fds.len()].iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(at, _)| at).collect())
    }

    pub(crate) fn apply_commands(&mut self) {
        let settled = self.gather.as_mut().map(Gather::take_settled);
        for key in settled.into_iter().flatten().filter(|key| self.steering.files.find(*key).is_none()) {
            drop(self.observer.ignore(key));
        }
        for command in self.steering.commands.drain(..) {
            match command {
                // At the limit of files the kernel's side stays silent about this one: it is left to the
                // plain kernel, as one that no rule matches.
                Command::Manage(key) => drop(self.observer.manage(key)),
                // A recording wants to hear of everything.
                Command::Ignore(_) if self.gather.is_some() => {}
                Command::Ignore(key) => drop(self.observer.ignore(key)),
                Command::Forget(key) => self.observer.forget(key),
            }
        }
    }

    /// Our own processor time since the first session began.
    pub(crate) fn cpu_s(&self) -> f64 {
        cpu_time().saturating_sub(self.cpu_at_start).as_secs_f64()
    }

    /// Takes in what has been observed up to now, ends all sessions, and restores what was changed.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.take_in_all();
        self.catch_up();
        for session in self.steering.sessions.ids() {
            self.end_session(session);
        }
        self.abandon(Duration::MAX);
        self.report()
    }
}
