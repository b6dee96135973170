//! The table of managers and their processes.

use super::Pools;
use super::revocation::{self, Verdict};
use super::vanishing::Vanishing;
use super::waste::{Fate, Waste};
use crate::blocks::{NOBODY, NUMBERS};
use crate::config::{Limits, Revocation};
use crate::counters::ManagerCounters;
use crate::ghosts::Ghosts;
use crate::ids::{ManagerId, Nanos, ProcessId};

/// Managers of which records are made before those of ended ones are used again: who has few wants to see the
/// counts of all at the end.
const MANAGERS_KEPT: usize = 1024;

/// Who owns blocks.
#[derive(Debug)]
struct Manager {
    alive: bool,
    /// Keeps its blocks when its last process has ended.
    persistent: bool,
    processes: u32,
    /// Blocks with a frame that name it as their owner, also after its end.
    owned: u32,
    /// `None` as long as it has neither directed nor disclosed anything: an oblivious manager.
    pools: Option<Box<Pools>>,
    standing: revocation::Record,
    /// What was fetched ahead for it, and whether that was right.
    waste: Waste,
    /// How much of it went before, by nobody here.
    vanishing: Vanishing,
    /// What its blocks that no list names are worth; `None` where that is not asked.
    ghosts: Option<Box<Ghosts>>,
    counters: ManagerCounters,
    /// The process of its that referenced something last: prefetches are charged to it.
    last_process: ProcessId,
}

/// A process record.
#[derive(Debug, Clone, Copy)]
struct Process {
    manager: ManagerId,
    alive: bool,
}

/// All managers and processes.
#[derive(Debug)]
pub(crate) struct Managers {
    managers: Vec<Manager>,
    processes: Vec<Process>,
    manager_limit: u32,
    process_limit: u32,
    revocation: Option<Revocation>,
}

impl Managers {
    pub(crate) fn new(limits: &Limits, revocation: Option<Revocation>) -> Managers {
        Managers {
            managers: Vec::new(),
            processes: Vec::new(),
            manager_limit: limits.managers.min(NUMBERS),
            process_limit: limits.processes.clamp(1, NUMBERS),
            revocation,
        }
    }

    // ---- managers ----

    /// A place for a new manager whose table is not full: a new record, or that of an ended manager without
    /// blocks for which `is_idle` holds, too.
    pub(crate) fn place(&self, is_idle: impl Fn(ManagerId) -> bool) -> Option<ManagerId> {
        let known = self.managers.len();
        let new = (known < self.manager_limit as usize).then_some(ManagerId(known as u32));
        if known < MANAGERS_KEPT
            && let Some(new) = new
        {
            return Some(new);
        }
        let mut ids = (0..known as u32).map(ManagerId);
        let ended = ids.find(|&id| {
            let m = &self.managers[id.0 as usize];
            !m.alive && m.owned == 0 && is_idle(id)
        });
        ended.or(new)
    }

    pub(crate) fn limit(&self) -> u32 {
        self.manager_limit
    }

    /// A manager appears at its place.
    pub(crate) fn enter(&mut self, place: ManagerId, persistent: bool) {
        let manager = Manager {
            alive: true,
            persistent,
            processes: 0,
            owned: 0,
            pools: None,
            standing: revocation::Record::default(),
            waste: Waste::default(),
            vanishing: Vanishing::default(),
            ghosts: None,
            counters: ManagerCounters::default(),
            last_process: NOBODY,
        };
        match self.managers.get_mut(place.0 as usize) {
            Some(slot) => *slot = manager,
            None => self.managers.push(manager),
        }
    }

    /// A manager ends; its directives are forgotten.
    pub(crate) fn end(&mut self, manager: ManagerId) {
        if let Some(m) = self.get_mut(manager) {
            m.alive = false;
            m.pools = None;
        }
    }

    /// Was this number ever given out? Tables by manager grow up to it.
    #[inline]
    pub(crate) fn is_known(&self, manager: ManagerId) -> bool {
        (manager.0 as usize) < self.managers.len()
    }

    #[inline]
    pub(crate) fn is_alive(&self, manager: ManagerId) -> bool {
        self.get(manager).is_some_and(|m| m.alive)
    }

    /// Blocks with a frame that name a manager as their owner.
    pub(crate) fn owned(&self, manager: ManagerId) -> u32 {
        self.get(manager).map_or(0, |m| m.owned)
    }

    /// One block more belongs to a manager.
    pub(crate) fn own(&mut self, manager: ManagerId) {
        if let Some(m) = self.get_mut(manager) {
            m.owned += 1;
        }
    }

    /// One block less.
    pub(crate) fn disown(&mut self, manager: ManagerId) {
        if let Some(m) = self.get_mut(manager) {
            m.owned -= 1;
        }
    }

    #[inline]
    pub(crate) fn pools(&self, manager: ManagerId) -> Option<&Pools> {
        self.get(manager)?.pools.as_deref()
    }

    #[inline]
    pub(crate) fn pools_mut(&mut self, manager: ManagerId) -> Option<&mut Pools> {
        self.get_mut(manager)?.pools.as_deref_mut()
    }

    pub(crate) fn ghosts_mut(&mut self, manager: ManagerId) -> Option<&mut Ghosts> {
        self.get_mut(manager)?.ghosts.as_deref_mut()
    }

    /// The chance per reference that a block of the manager's which no list names is needed; 0 where that is not
    /// measured.
    pub(crate) fn unlisted_chance(&self, manager: ManagerId) -> f64 {
        self.get(manager).and_then(|m| m.ghosts.as_deref()).map_or(0.0, Ghosts::chance)
    }

    /// From now on it is measured what blocks are worth that no list names.
    pub(crate) fn measure_unlisted(&mut self, manager: ManagerId, cache_blocks: u32) {
        if let Some(m) = self.get_mut(manager).filter(|m| m.ghosts.is_none()) {
            m.ghosts = Some(Box::new(Ghosts::new(cache_blocks)));
        }
    }

    /// Makes a manager a controlling one; false if it is one already, or has ended.
    pub(crate) fn take_control(&mut self, manager: ManagerId, pools: impl FnOnce() -> Pools) -> bool {
        match self.get_mut(manager) {
            Some(m) if m.pools.is_none() && m.alive => {
                m.pools = Some(Box::new(pools()));
                true
            }
            _ => false,
        }
    }

    /// The cache has another size.
    pub(crate) fn set_cache_blocks(&mut self, cache_blocks: u32) {
        self.all_pools().for_each(|pools| pools.set_cache_blocks(cache_blocks));
    }

    /// The pools of all managers.
    pub(crate) fn all_pools(&mut self) -> impl Iterator<Item = &mut Pools> {
        self.managers.iter_mut().filter_map(|m| m.pools.as_deref_mut())
    }

    pub(crate) fn counters(&self, manager: ManagerId) -> ManagerCounters {
        self.get(manager).map_or(ManagerCounters::default(), |m| m.counters)
    }

    pub(crate) fn counters_mut(&mut self, manager: ManagerId) -> Option<&mut ManagerCounters> {
        self.get_mut(manager).map(|m| &mut m.counters)
    }

    pub(crate) fn is_revoked(&self, manager: ManagerId) -> bool {
        self.get(manager).is_some_and(|m| m.standing.is_revoked())
    }

    /// A manager was asked to give up a block.
    pub(crate) fn count_decision(&mut self, manager: ManagerId, overruled: bool) {
        let rule = self.revocation;
        let Some(m) = self.get_mut(manager) else { return };
        m.counters.consulted += u64::from(m.pools.is_some());
        m.counters.overruled += u64::from(overruled);
        if let Some(rule) = &rule
            && m.standing.replaced(rule) == Some(Verdict::Reinstated)
        {
            m.counters.reinstatements += 1;
        }
    }

    /// What becomes of a block that is fetched ahead for a manager.
    #[inline]
    pub(crate) fn count_prefetched(&mut self, manager: ManagerId, fate: Fate) {
        if let Some(m) = self.get_mut(manager) {
            m.waste.count(fate);
            if fate == Fate::Used {
                m.vanishing.used();
            }
        }
    }

    /// A block that was fetched ahead for a manager has gone before its use, and nobody here gave it up.
    pub(crate) fn count_vanished(&mut self, manager: ManagerId) {
        if let Some(m) = self.get_mut(manager) {
            m.vanishing.gone();
        }
    }

    /// Does most of what is fetched ahead for a manager go before its use?
    pub(crate) fn is_in_vain(&mut self, manager: ManagerId, now: Nanos) -> bool {
        self.get_mut(manager).is_some_and(|m| m.vanishing.is_paused(now))
    }

    /// Does a manager make room for what it fetches ahead by itself?
    pub(crate) fn pays_for_prefetches(&self, manager: ManagerId) -> bool {
        self.get(manager).is_some_and(|m| m.waste.pays())
    }

    /// Has much of what a manager fetched ahead gone unused, of late?
    pub(crate) fn wastes_prefetches(&self, manager: ManagerId) -> bool {
        self.get(manager).is_some_and(|m| m.waste.is_untrusted())
    }

    /// A placeholder proved a manager's decision wrong.
    pub(crate) fn count_mistake(&mut self, manager: ManagerId) {
        let rule = self.revocation;
        let Some(m) = self.get_mut(manager).filter(|m| m.alive) else { return };
        m.counters.placeholders_used += 1;
        if let Some(rule) = &rule
            && m.standing.mistaken(rule) == Some(Verdict::Revoked)
        {
            m.counters.revocations += 1;
        }
    }

    // ---- processes ----

    /// A process of a manager appears. At the limit the record of one that has ended is used again; if none has,
    /// the newcomer shares the record of its manager's last one. Gives the record and whether it is new.
    pub(crate) fn add_process(&mut self, manager: ManagerId) -> (ProcessId, bool) {
        let process = Process { manager, alive: true };
        if let Some(m) = self.get_mut(manager) {
            m.processes += 1;
        }
        if self.processes.len() >= self.process_limit as usize {
            if let Some(ended) = self.processes.iter().position(|p| !p.alive) {
                self.processes[ended] = process;
                return (ProcessId(ended as u32), true);
            }
            // The shared record must not end with the first of those who share it.
            if let Some(m) = self.get_mut(manager) {
                m.persistent = true;
            }
            let shared = self.processes.iter().rposition(|p| p.manager == manager);
            return (ProcessId(shared.unwrap_or(self.processes.len() - 1) as u32), false);
        }
        self.processes.push(process);
        let id = ProcessId(self.processes.len() as u32 - 1);
        if let Some(m) = self.get_mut(manager)
            && m.last_process == NOBODY
        {
            m.last_process = id;
        }
        (id, true)
    }

    /// The manager of a process; `None` for a number that was never given out, also where the manager's was not.
    #[inline]
    pub(crate) fn of_process(&self, process: ProcessId) -> Option<ManagerId> {
        let manager = self.processes.get(process.0 as usize).map(|p| p.manager);
        manager.filter(|&manager| self.is_known(manager))
    }

    /// The same, `None` also for a process that has ended.
    pub(crate) fn of_living(&self, process: ProcessId) -> Option<ManagerId> {
        let is_alive = self.processes.get(process.0 as usize).is_some_and(|p| p.alive);
        self.of_process(process).filter(|_| is_alive)
    }

    /// A process has ended. Gives its manager, if that ends with it.
    pub(crate) fn end_process(&mut self, process: ProcessId) -> Option<ManagerId> {
        let p = self.processes.get_mut(process.0 as usize).filter(|p| p.alive)?;
        p.alive = false;
        let manager = p.manager;
        let m = self.get_mut(manager)?;
        m.processes = m.processes.saturating_sub(1);
        (m.processes == 0 && !m.persistent && m.alive).then_some(manager)
    }

    /// A process referenced something.
    #[inline]
    pub(crate) fn note_process(&mut self, manager: ManagerId, process: ProcessId) {
        if let Some(m) = self.get_mut(manager) {
            m.last_process = process;
        }
    }

    /// The process of a manager that referenced something last.
    pub(crate) fn last_process(&self, manager: ManagerId) -> ProcessId {
        self.get(manager).map_or(NOBODY, |m| m.last_process)
    }

    #[inline]
    fn get(&self, manager: ManagerId) -> Option<&Manager> {
        self.managers.get(manager.0 as usize)
    }

    #[inline]
    fn get_mut(&mut self, manager: ManagerId) -> Option<&mut Manager> {
        self.managers.get_mut(manager.0 as usize)
    }
}
