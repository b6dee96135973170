//! Naming files by descriptors, without waiting for anybody.
//!
//! What a client names has to be opened a second time, by the broker, and it is to be found out where it lies, which
//! waits for those who write to it. Both are done by threads ([`crate::aside`]); on a machine that is busy they, and
//! the broker, wait for a processor as well. So a file is taken in stages. Whoever drives the plane sees to others between
//! two of them, and to the client that has named the file when it is there.
//!
//! Meanwhile the file may have been taken for somebody else, and the session may have ended: the last stage looks anew.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use foretell_policy::{Extent, FileId};
use rustix::fs::OFlags;

use crate::aside::{self, Question};
use crate::error::HoldError;
use crate::extents;
use crate::file_at;
use crate::files::Registration;
use crate::kernel;
use crate::observe::FileKey;
use crate::options::SessionId;
use crate::plane::Plane;
use crate::reach::{self, Broker};
use crate::sessions::{Holding, Origin};
use crate::steering::Steering;
use foretell_door::ForeignFd;

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
    pub(crate) serial: u32,
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

impl Plane {
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
}

impl Steering {
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
        let looks = file_at::look_at(&descriptor)?;
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
        if aside::is_behind(account) {
            return Err(HoldError::TooManyFiles { limit: self.options.files });
        }
        let named = Naming { session, process: last_user, account, number, may_look };
        let known = self.files.find(looks.key).filter(|&known| self.is_same(known, &descriptor));
        if let Some(known) = known.filter(|&known| !self.files.wants_descriptor(known)) {
            return self.count(named, known).map(Hold::Held);
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
        if let Some(what) = file_at::obstacle(&file)? {
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
            self.files.named(known, &file);
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
        let path = file_at::path_of(&file).unwrap_or_default();
        let generation = kernel::generation(&file);
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
        let now = if before == 0 { 0 } else { kernel::generation(descriptor) };
        let same = now == 0 || now == before;
        if !same {
            self.retire(known);
        }
        same
    }
}

/// A second open file, so that what is done to ours does not show on the client's. Without the right to open it
/// (`CAP_DAC_READ_SEARCH`) the client's must do. It is known to be a regular file on a disk, which closing does not
/// wait for.
fn second_open_file(descriptor: ForeignFd) -> File {
    let opened = reach::open_aside(&descriptor).unwrap_or_else(|| file_at::open_again(&descriptor));
    opened.unwrap_or_else(|_| descriptor.into_inner().into())
}
