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

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use foretell_policy::{Extent, FileId, Input, LimitReached, ManagerId, PoolPolicy};
use rustix::fs::OFlags;

use crate::aside::{self, Question};
use crate::closing::ForeignFd;
use crate::error::{ControlError, HoldError, SessionError};
use crate::extents;
use crate::files::Registration;
use crate::lifecycle::present_name;
use crate::observe::FileKey;
use crate::options::{ManagerSpec, SessionId};
use crate::plane::Plane;
use crate::reach::{self, Broker};
use crate::resolve;
use crate::sessions::{Chunk, Holding, Origin, Prepared, tree_without_us};
use crate::steering::Steering;

/// Descendants of a new client, and threads of it and them that are asked for children: each takes some
/// microseconds, in which everybody else waits. What lies beyond stays where it is.
const EARLIER_DESCENDANTS: usize = 256;

/// How long the loop waits for where a file lies: as long as it takes where nobody is in the way and there is a processor.
const WAIT_AT_ONCE: Duration = Duration::from_micros(300);

/// How long a file may take to be opened: longer than its thread waits for the broker.
const OPENING_TIME: Duration = Duration::from_secs(3);

/// Longer than any of that.
const WHOLE_WAIT: Duration = Duration::from_secs(4);

/// The user of what was sent in the name of a session that has ended: -1, which is nobody's number (setreuid(2)).
const NOBODY: u32 = u32::MAX;

/// A file that a session named by a descriptor ([`Plane::hold_file`]). Copies name the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldFile {
    pub(crate) file: FileId,
    /// Number of the registration: a file that was let go of is not taken for the next one in its place.
    serial: u32,
}

/// A file that is being taken under control ([`Plane::begin_hold`]): where it lies is being asked, and whoever asks may have
/// to wait for those who write to the file.
#[derive(Debug)]
pub struct Taking {
    named: Naming,
    key: FileKey,
    stage: Stage,
}

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// It is being opened.
    Opening(Question<File>),
    /// Where it lies is being asked, unless that is known.
    Placing(File, Option<Question<Vec<Extent>>>),
    /// Nothing is left to do.
    Done,
}

impl Taking {
    /// Can it be gone on with? Waits for that, `most` at most. It can at the latest after 3 s in which it cannot be opened,
    /// and then after the time for which a user waits for where its file lies: 10 ms, or a second for root's.
    pub fn is_ready(&mut self, most: Duration) -> bool {
        match &mut self.stage {
            Stage::Opening(file) => file.is_answered(most),
            Stage::Placing(_, places) => places.as_mut().is_none_or(|places| places.is_answered(most)),
            Stage::Done => true,
        }
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        // Of a deleted file it may be the last descriptor.
        let file = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Opening(mut file) => file.take_answer(),
            Stage::Placing(file, _) => Some(file),
            Stage::Done => None,
        };
        if let Some(file) = file {
            aside::close(self.named.account, Arc::new(file));
        }
    }
}

/// What became of naming a file.
#[derive(Debug)]
pub enum Hold {
    /// It is under control.
    Held(HeldFile),
    /// It will be.
    Waits(Box<Taking>),
}

/// Who names a file, and what may be told of it.
#[derive(Debug, Clone, Copy)]
struct Naming {
    session: SessionId,
    process: u32,
    account: u32,
    number: Option<RawFd>,
    may_look: bool,
}

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

    /// Takes the file behind a descriptor under control on behalf of a session, until it is let go of as
    /// often as it was named, or the session ends. Blocks that are cached already are found out about. `number`
    /// is what the client calls its own descriptor, if it has told: where its open file is looked for first.
    ///
    /// # Errors
    /// When the descriptor is no proof that the file may be read, or the file is not on a disk. The descriptor is
    /// closed in any case, and not waited for.
    pub fn hold_file(
        &mut self,
        session: SessionId,
        descriptor: OwnedFd,
        number: Option<RawFd>,
    ) -> Result<HeldFile, HoldError> {
        let mut hold = self.begin_hold(session, descriptor, number)?;
        loop {
            match hold {
                Hold::Held(held) => return Ok(held),
                Hold::Waits(mut taking) => {
                    taking.is_ready(WHOLE_WAIT);
                    hold = self.go_on_holding(taking)?;
                }
            }
        }
    }

    /// The same for who has others to see to meanwhile: begins, and goes on with [`Plane::go_on_holding`] if where the
    /// file lies is not found out at once.
    ///
    /// # Errors
    /// As [`Plane::hold_file`].
    pub fn begin_hold(
        &mut self,
        session: SessionId,
        descriptor: OwnedFd,
        number: Option<RawFd>,
    ) -> Result<Hold, HoldError> {
        let user = self.steering.sessions.get(session).map_or(NOBODY, |client| client.origin.account);
        let hold = self.steering.hold(session, self.closer.guard(user, descriptor), number)?;
        match hold {
            Hold::Held(held) => self.held(Ok(held)).map(Hold::Held),
            Hold::Waits(mut taking) => {
                taking.is_ready(WAIT_AT_ONCE);
                self.go_on_holding(taking)
            }
        }
    }

    /// Goes on when [`Taking::is_ready`] says so; before that it gives back what it was given.
    ///
    /// # Errors
    /// As [`Plane::hold_file`].
    pub fn go_on_holding(&mut self, mut taking: Box<Taking>) -> Result<Hold, HoldError> {
        if !taking.is_ready(Duration::ZERO) {
            return Ok(Hold::Waits(taking));
        }
        if self.steering.ask_for_place(&mut taking)? && !taking.is_ready(WAIT_AT_ONCE) {
            return Ok(Hold::Waits(taking));
        }
        let held = self.steering.take(*taking);
        self.held(held).map(Hold::Held)
    }

    fn held(&mut self, held: Result<HeldFile, HoldError>) -> Result<HeldFile, HoldError> {
        self.apply_commands();
        // What is cached is told when the kernel's side knows the file.
        if let Ok(held) = held {
            self.steering.look_at_once(held.file);
            self.apply_commands();
        }
        held
    }

    /// Lets go of a file that was named. With the last time the session forgets its priority, and what its
    /// list still says about the file is passed over. A file that the session does not hold is ignored.
    pub fn release_file(&mut self, session: SessionId, file: HeldFile) {
        self.steering.release(session, file);
        self.steering.stirred = true;
        self.apply_commands();
        self.abandon(Duration::ZERO);
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

    fn hold(
        &mut self,
        session: SessionId,
        descriptor: ForeignFd,
        number: Option<RawFd>,
    ) -> Result<Hold, HoldError> {
        let Some(client) = self.sessions.get(session) else { return Err(HoldError::NoSession { session }) };
        let Origin { root: last_user, user, account, .. } = client.origin;
        let flags = rustix::fs::fcntl_getfl(&descriptor)?;
        if flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == OFlags::WRONLY {
            return Err(HoldError::NotReadable);
        }
        let looks = resolve::look_at(&descriptor)?;
        if !looks.is_file {
            return Err(HoldError::NotAFile);
        }
        // In memory, on the network, of a program that plays a file system. Those are not asked anything more: they
        // need not answer.
        if !looks.is_on_disk() {
            return Err(HoldError::NotOnDisk { what: "on no disk of this machine" });
        }
        let is_owner = rustix::fs::fstat(&descriptor)?.st_uid == user;
        let may_look = user == 0 || is_owner || flags & OFlags::RWMODE == OFlags::RDWR;
        let named = Naming { session, process: last_user, account, number, may_look };
        let known = self.files.find(looks.key).filter(|&known| self.is_same(known, &descriptor));
        if let Some(known) = known {
            if !self.files.wants_descriptor(known) {
                return self.count(named, known).map(Hold::Held);
            }
        }
        let stage = if Broker::of_process().is_some() {
            Stage::Opening(Question::opening(account, OPENING_TIME, || second_open_file(descriptor)))
        } else {
            self.placing(second_open_file(descriptor), looks.key, account)?
        };
        Ok(Hold::Waits(Box::new(Taking { named, key: looks.key, stage })))
    }

    /// Goes on with a file that was being opened; says whether that was so.
    fn ask_for_place(&mut self, taking: &mut Taking) -> Result<bool, HoldError> {
        let Stage::Opening(file) = &mut taking.stage else { return Ok(false) };
        let file = file.take_answer().ok_or(rustix::io::Errno::TIMEDOUT)?;
        taking.stage = self.placing(file, taking.key, taking.named.account)?;
        Ok(true)
    }

    fn placing(&mut self, file: File, key: FileKey, account: u32) -> Result<Stage, HoldError> {
        if let Some(what) = resolve::obstacle(&file)? {
            return Err(HoldError::NotOnDisk { what });
        }
        let (disk, _) = self.files.disk(key.dev);
        let room = self.files.room_for_extents(account);
        let places = match self.files.find(key) {
            Some(_) => None,
            None => Some(extents::question(&file, u64::from(self.options.block_bytes), disk, room, account)),
        };
        Ok(Stage::Placing(file, places))
    }

    /// Takes a file that was not under control yet, unless somebody else has done so meanwhile.
    fn take(&mut self, taking: Taking) -> Result<HeldFile, HoldError> {
        let mut taking = taking;
        let (named, key) = (taking.named, taking.key);
        let gone = HoldError::NoSession { session: named.session };
        if self.sessions.get(named.session).is_none() {
            return Err(gone);
        }
        let Stage::Placing(file, places) = std::mem::replace(&mut taking.stage, Stage::Done) else {
            return Err(gone);
        };
        if let Some(known) = self.files.find(key).filter(|&known| self.is_same(known, &file)) {
            self.files.offer(known, || file);
            return self.count(named, known);
        }
        let (disk, _) = self.files.disk(key.dev);
        let found = places.and_then(|mut places| places.take_answer());
        let mut layout = extents::layout_of(&file, disk, found.unwrap_or_default());
        // Others may have taken the room meanwhile.
        if extents::count(&layout) > self.files.room_for_extents(named.account).max(1) {
            layout = extents::layout_of(&file, disk, Vec::new());
        }
        let path = resolve::path_of(&file).unwrap_or_default();
        let generation = resolve::generation(&file);
        let (last_user, account) = (named.process, named.account);
        let new = Registration { key, generation, path, file, last_user, held: true, account };
        let id = self.register(new, layout).ok_or(HoldError::TooManyFiles { limit: self.options.files })?;
        self.look_at(id, account, true);
        self.count(named, id)
    }

    /// Counts that a session holds a file that is under control.
    fn count(&mut self, named: Naming, file: FileId) -> Result<HeldFile, HoldError> {
        let Naming { session, process: last_user, account, number, may_look } = named;
        let Some(managed) = self.files.get_mut(file) else {
            return Err(HoldError::TooManyFiles { limit: self.options.files });
        };
        let serial = managed.serial;
        (managed.last_user, managed.lost) = (last_user, false);
        managed.told = number.map(|number| (last_user, number)).or(managed.told);
        let Some(client) = self.sessions.get_mut(session) else {
            return Err(HoldError::NoSession { session });
        };
        client.withheld |= !may_look;
        let new = Holding { serial, times: 0, may_look: false };
        let holding = client.held.entry(file).or_insert(new);
        if holding.serial != serial {
            *holding = new;
        }
        holding.times += 1;
        holding.may_look |= may_look;
        if holding.times == 1 {
            managed.holders += 1;
        }
        self.claim(file, account);
        Ok(HeldFile { file, serial })
    }

    /// Is a file that is under control the one behind a descriptor? Else the number of its inode has come back
    /// for another file, and it is retired.
    fn is_same(&mut self, known: FileId, descriptor: impl AsFd) -> bool {
        let before = self.files.get(known).map_or(0, |managed| managed.generation);
        let now = if before == 0 { 0 } else { resolve::generation(descriptor) };
        let same = now == 0 || now == before;
        if !same {
            self.retire(known);
        }
        same
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

/// A second open file, so that what is done to ours does not show on the client's. Without the right to open it
/// (`CAP_DAC_READ_SEARCH`) the client's must do. It is known to be a regular file on a disk, which closing does not
/// wait for.
fn second_open_file(descriptor: ForeignFd) -> File {
    let opened = reach::open_aside(&descriptor).unwrap_or_else(|| resolve::open_again(&descriptor));
    opened.unwrap_or_else(|_| descriptor.into_inner().into())
}

impl From<LimitReached> for ControlError {
    fn from(reached: LimitReached) -> ControlError {
        ControlError::TooMany { what: reached.what, limit: reached.limit }
    }
}
