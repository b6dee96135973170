//! The engine (its public face; being filled in).
#![allow(unused_variables, missing_docs)]
use crate::*;

/// The policy. See the crate's documentation.
pub struct Engine {}

impl Engine {
    /// A policy with an empty cache.
    pub fn new(config: Config) -> Engine {
        Engine {}
    }
    /// Takes a file under control.
    pub fn add_file(&mut self, layout: Layout) -> Result<FileId, LimitReached> {
        Ok(FileId(0))
    }
    /// Forgets a file (deleted, or no longer controlled): its blocks are dropped from the books without actions, its id may be reused.
    pub fn remove_file(&mut self, file: FileId) {}
    /// A new manager; `persistent` keeps its blocks its own when its last process has ended (until `remove_manager`).
    pub fn add_manager(&mut self, persistent: bool) -> Result<ManagerId, LimitReached> {
        Ok(ManagerId(0))
    }
    /// Ends a manager: its blocks have no owner, its list is dropped.
    pub fn remove_manager(&mut self, manager: ManagerId) {}
    /// A process of the manager.
    pub fn add_process(&mut self, manager: ManagerId) -> ProcessId {
        ProcessId(0)
    }
    /// Long-term priority of a file; the default is 0. (An oblivious manager becomes a controlling one with its first directive.)
    pub fn set_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        priority: i32,
    ) -> Result<(), LimitReached> {
        Ok(())
    }
    pub fn priority(&self, manager: ManagerId, file: FileId) -> i32 {
        0
    }
    /// Replacement policy of a priority level; the default is LRU.
    pub fn set_policy(
        &mut self,
        manager: ManagerId,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), LimitReached> {
        Ok(())
    }
    pub fn policy(&self, manager: ManagerId, priority: i32) -> PoolPolicy {
        PoolPolicy::Lru
    }
    /// Temporary priority of the cached blocks `first..=last` of a file, until the next reference or replacement.
    pub fn set_temporary_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        first: u32,
        last: u32,
        priority: i32,
    ) -> Result<(), LimitReached> {
        Ok(())
    }
    /// Appends to the manager's list of future references; returns how many of `blocks` were taken (less than all when the list is full).
    pub fn disclose(&mut self, now: Nanos, manager: ManagerId, blocks: &[Block]) -> usize {
        blocks.len()
    }
    /// Entries of the manager's list that lie ahead of its cursor.
    pub fn disclosed_ahead(&self, manager: ManagerId) -> usize {
        0
    }
    /// Takes an event in.
    pub fn handle(&mut self, now: Nanos, event: Event) {}
    /// The same as `handle` with `Event::Accessed`, and says how the block was found.
    pub fn access(&mut self, now: Nanos, process: ProcessId, block: Block) -> Access {
        Access::Hit
    }
    /// The next action, if any. Drain it after every event.
    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }
    /// When to call `handle_timeout`, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        None
    }
    /// To be called when the time of `poll_timeout` has come.
    pub fn handle_timeout(&mut self, now: Nanos) {}
    /// Is the block in the cache (not: on its way)?
    pub fn is_cached(&self, block: Block) -> bool {
        false
    }
    /// Blocks in the cache or on their way.
    pub fn used_blocks(&self) -> u32 {
        0
    }
    pub fn counters(&self) -> Counters {
        Counters::default()
    }
    pub fn process_counters(&self, process: ProcessId) -> Counters {
        Counters::default()
    }
    pub fn file_counters(&self, file: FileId) -> Counters {
        Counters::default()
    }
    pub fn manager_counters(&self, manager: ManagerId) -> ManagerCounters {
        ManagerCounters::default()
    }
    pub fn is_revoked(&self, manager: ManagerId) -> bool {
        false
    }
}
