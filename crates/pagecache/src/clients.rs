//! Programs that control themselves: a session for each, files named by descriptors, directives, disclosures.
//!
//! Where [`Plane::add_session`] takes a program under rules that somebody wrote about it, the sessions made
//! here are for a program that speaks for itself (Cao, Felten, Li 1994, section 3; Cao et al. 1996, section
//! 4.1). It names a file by a descriptor, which is the proof that it may read it, and never by a path: nothing
//! in here opens a path that a client has a say in, and of a client's descriptors only those of regular files
//! on disks are touched.
//!
//! Sessions nest: a process that speaks for itself leaves the session of whoever started it, with all that it
//! has started and starts, and goes back when its own session ends.

use std::time::Duration;

use foretell_policy::{FileId, Input, LimitReached, ManagerId, PoolPolicy};

use crate::error::{ControlError, SessionError};
use crate::lifecycle::present_name;
use crate::naming::HeldFile;
use crate::options::{ManagerSpec, SessionId};
use crate::plane::Plane;
use crate::sessions::{Chunk, Origin, Prepared, tree_without_us};
use crate::steering::Steering;

/// Descendants of a new client, and threads of it and them that are asked for children: each takes some
/// microseconds, in which everybody else waits. What lies beyond stays where it is.
const EARLIER_DESCENDANTS: usize = 256;

/// Bytes of a file, from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// How many; what lies beyond the end of the file counts as nothing.
    pub length: u64,
}

impl Plane {
    /// A session of its own for process `pid`, for all that it starts from now on, and for what it has
    /// started before (worker processes, say; of more than 256 not all are found), unless that has a session
    /// of its own. Who belongs to a session already is taken out of it until the new
    /// one ends. `user` is who it runs as, `account` whose limits ([`crate::QueueLimits`]) and time count: the same,
    /// or who that number is lent to.
    ///
    /// To be sure that `pid` is who it is taken for, hold a pidfd of it and look whether it still lives
    /// after this call.
    ///
    /// # Errors
    /// When there is no such process, it has such a session already, or a table is full.
    pub fn add_client(&mut self, pid: u32, user: u32, account: u32) -> Result<SessionId, SessionError> {
        let name = present_name(pid)?;
        let enclosing = self.steering.enclosing(pid, true)?;
        let manager = ManagerSpec { name: name.clone(), ..ManagerSpec::default() };
        let prepared = Prepared::new(&[manager])?;
        let origin = Origin { root: pid, user, account, enclosing, by_descriptors: true };
        let session = self.steering.begin_session(prepared, origin)?;
        if enclosing.is_some() {
            self.steering.move_to_session(pid, session);
        } else if let Err(source) = self.observer.track(pid) {
            self.end_session(session);
            return Err(SessionError::Observe { pid, source: Box::new(source) });
        } else {
            self.steering.enter_session(pid, session, name);
        }
        self.take_in_descendants(pid, session, enclosing);
        self.begin_counting();
        Ok(session)
    }

    /// What a process has started before it had a session goes into that, from where the process itself was.
    fn take_in_descendants(&mut self, root: u32, session: SessionId, enclosing: Option<SessionId>) {
        // What is started while the tree is gone through is found in the second round.
        for _ in 0..2 {
            let descendants = tree_without_us(root, EARLIER_DESCENDANTS);
            let mut found = false;
            for pid in descendants.into_iter().skip(1).take(EARLIER_DESCENDANTS) {
                if self.steering.sessions.process(pid).map(|process| process.session) != enclosing {
                    continue;
                }
                found = true;
                if enclosing.is_some() {
                    self.steering.move_to_session(pid, session);
                } else if self.observer.track(pid).is_ok() {
                    match present_name(pid) {
                        Ok(name) => self.steering.enter_session(pid, session, name),
                        // It has just ended.
                        Err(_) => self.observer.untrack(pid),
                    }
                }
            }
            if !found {
                return;
            }
        }
    }

    /// Lets go of a file that was named. With the last time the session forgets its priority, and what its
    /// list still says about the file is passed over. A file that the session does not hold is ignored.
    pub fn release_file(&mut self, session: SessionId, file: HeldFile) {
        self.steering.release(session, file);
        self.steering.stirred = true;
        self.apply_commands();
        self.abandon(Duration::ZERO);
    }

    /// The same of many files at once, which are abandoned by and by: to forget one takes some hundred microseconds if much
    /// of it is known.
    pub fn release_files(&mut self, session: SessionId, files: impl IntoIterator<Item = HeldFile>) {
        for file in files {
            self.steering.release(session, file);
        }
        self.steering.stirred = true;
    }

    /// Size of a file that a session holds, in bytes, when it was last looked at.
    ///
    /// # Errors
    /// When the session does not hold the file.
    pub fn file_size(&self, session: SessionId, file: HeldFile) -> Result<u64, ControlError> {
        self.steering.holder(session, file)?;
        Ok(self.steering.files.get(file.file).map_or(0, |managed| managed.size))
    }

    /// Bytes of the path of a file that a session holds, as it is kept.
    ///
    /// # Errors
    /// When the session does not hold the file.
    pub fn file_name_bytes(&self, session: SessionId, file: HeldFile) -> Result<usize, ControlError> {
        self.steering.holder(session, file)?;
        Ok(self.steering.files.get(file.file).map_or(0, |managed| managed.path.as_os_str().len()))
    }

    /// Sets the long-term priority of a file for the manager of a session; 0 unless set.
    ///
    /// # Errors
    /// When the session does not hold the file, or has as many priority levels as it may.
    pub fn set_priority(
        &mut self,
        session: SessionId,
        file: HeldFile,
        priority: i32,
    ) -> Result<(), ControlError> {
        let manager = self.steering.holder(session, file)?;
        Ok(self.steering.engine.set_priority(manager, file.file, priority)?)
    }

    /// The long-term priority of a file.
    ///
    /// # Errors
    /// When the session does not hold the file.
    pub fn priority(&self, session: SessionId, file: HeldFile) -> Result<i32, ControlError> {
        let manager = self.steering.holder(session, file)?;
        Ok(self.steering.engine.priority(manager, file.file))
    }

    /// Sets the replacement policy of a priority level; LRU unless set.
    ///
    /// # Errors
    /// When the session has ended, or has as many priority levels as it may.
    pub fn set_policy(
        &mut self,
        session: SessionId,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), ControlError> {
        let manager = self.steering.own_manager(session)?;
        Ok(self.steering.engine.set_policy(manager, priority, policy)?)
    }

    /// The replacement policy of a priority level.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn policy(&self, session: SessionId, priority: i32) -> Result<PoolPolicy, ControlError> {
        Ok(self.steering.engine.policy(self.steering.own_manager(session)?, priority))
    }

    /// Appends a range of a file to the list of what the session's processes will read; `None` stands for
    /// the whole file as it is now. The blocks are taken into the policy's list as it has room, by
    /// [`Plane::step`].
    ///
    /// # Errors
    /// When the session does not hold the file, or as much waits as may ([`crate::QueueLimits`]).
    pub fn disclose_held(
        &mut self,
        session: SessionId,
        file: HeldFile,
        range: Option<ByteRange>,
    ) -> Result<(), ControlError> {
        self.steering.disclose_held(session, file, range)
    }

    /// Withdraws what the session has disclosed and its processes have not read yet.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn cancel(&mut self, session: SessionId) -> Result<(), ControlError> {
        let manager = self.steering.own_manager(session)?;
        self.steering.sessions.empty_queue(session, 0);
        self.steering.tell(Input::Cancelled { manager });
        self.steering.stirred = true;
        Ok(())
    }
}

impl Steering {
    /// The manager of a session that was made for a client.
    pub(crate) fn own_manager(&self, session: SessionId) -> Result<ManagerId, ControlError> {
        self.sessions.manager(session, 0).map(|manager| manager.id).ok_or(ControlError::NoSession { session })
    }

    /// The same, if the session holds the file.
    pub(crate) fn holder(&self, session: SessionId, file: HeldFile) -> Result<ManagerId, ControlError> {
        let manager = self.own_manager(session)?;
        let holding = self.sessions.get(session).and_then(|session| session.held.get(&file.file));
        match (holding, self.files.get(file.file)) {
            (Some(holding), Some(managed))
                if holding.serial == file.serial && managed.serial == file.serial =>
            {
                Ok(manager)
            }
            _ => Err(ControlError::NoFile),
        }
    }

    fn release(&mut self, session: SessionId, file: HeldFile) {
        let Ok(manager) = self.holder(session, file) else { return };
        let Some(client) = self.sessions.get_mut(session) else { return };
        let Some(holding) = client.held.get_mut(&file.file) else { return };
        holding.times -= 1;
        if holding.times > 0 {
            return;
        }
        client.held.remove(&file.file);
        // Giving a record back cannot reach a limit.
        let _ = self.engine.set_priority(manager, file.file, 0);
        if let Some(managed) = self.files.get_mut(file.file) {
            managed.holders -= 1;
            self.let_go(vec![file.file], &[manager]);
        }
    }

    fn disclose_held(
        &mut self,
        session: SessionId,
        file: HeldFile,
        range: Option<ByteRange>,
    ) -> Result<(), ControlError> {
        let manager = self.holder(session, file)?;
        let Some((next, end)) = self.started_blocks(file.file, range) else { return Ok(()) };
        let limits = self.options.queue_limits;
        let Some(client) = self.sessions.get(session) else {
            return Err(ControlError::NoSession { session });
        };
        let own = client.managers[0].queue.len();
        let (all, of_user) = self.sessions.queued(client.origin.account);
        let of_user = if client.origin.account == 0 { 0 } else { of_user };
        if own >= limits.session || of_user >= limits.user {
            let limit = limits.session.min(limits.user);
            return Err(ControlError::Queue { limit: limit as u64 });
        }
        if all >= limits.all {
            return Err(ControlError::QueueInAll { limit: limits.all as u64 });
        }
        if let Some(managed) = self.files.get_mut(file.file)
            && !managed.listed.contains(&manager)
        {
            managed.listed.push(manager);
        }
        self.sessions.queue(session, 0, Chunk { list: 0, file: file.file, next, end });
        self.stirred = true;
        Ok(())
    }

    /// Size of a file, looked at anew when `end` lies beyond it.
    fn size_for(&mut self, file: FileId, end: u64) -> u64 {
        let size = self.files.get(file).map_or(0, |managed| managed.size);
        if end <= size {
            return size;
        }
        self.files.refresh(file);
        let grown = self.files.get(file).map_or(0, |managed| managed.size);
        if grown != size {
            self.resized(file, grown);
        }
        grown
    }

    /// The blocks that hold a part of a range: the first, and the one after the last.
    fn started_blocks(&mut self, file: FileId, range: Option<ByteRange>) -> Option<(u32, u32)> {
        let block_bytes = u64::from(self.options.block_bytes);
        let (offset, end) = match range {
            Some(ByteRange { offset, length }) => (offset, offset.saturating_add(length)),
            None => (0, u64::MAX),
        };
        let end = end.min(self.size_for(file, end));
        let cut = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        (offset < end).then(|| (cut(offset / block_bytes), cut(end.div_ceil(block_bytes))))
    }

    /// The blocks whose last byte lies in a range, the last of a file at its end: the first and the last.
    pub(crate) fn ended_blocks(&mut self, file: FileId, range: ByteRange) -> Option<(u32, u32)> {
        let block_bytes = u64::from(self.options.block_bytes);
        let end = range.offset.saturating_add(range.length);
        let size = self.size_for(file, end);
        let after = if end >= size { size.div_ceil(block_bytes) } else { end / block_bytes };
        let first = range.offset / block_bytes;
        let cut = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        (range.length > 0 && first < after).then(|| (cut(first), cut(after - 1)))
    }
}

impl From<LimitReached> for ControlError {
    fn from(reached: LimitReached) -> ControlError {
        ControlError::TooMany { what: reached.what, limit: reached.limit }
    }
}
