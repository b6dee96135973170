//! Lists of what will be read: from chunks of files to the policy's blocks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use foretell_policy::{Answer, Block, FileId, Input, Layout, ManagerId};

use crate::error::{DiscloseError, DiscloseProblem};
use crate::extents;
use crate::file_at::{self, Looks, OnDisk};
use crate::files::Registration;
use crate::meter::Meter;
use crate::observe::FileKey;
use crate::options::{HintChunk, SessionId};
use crate::plane::Disclosed;
use crate::sessions::Chunk;
use crate::steering::Steering;

/// Blocks handed to the policy at a time: a tenth of a millisecond, or some tenths with what is fetched for it.
const BLOCKS_A_TIME: u32 = 512;
/// Blocks that one round of the loop appends to all lists: nobody's long list holds up the rest.
const BLOCKS_A_ROUND: u32 = 1 << 16;
/// The same in time.
const APPENDING: Duration = Duration::from_millis(1);
/// Blocks and time that one of them gets before the next has its turn.
const BLOCKS_A_TURN: u32 = 1 << 14;
const TURN: Duration = Duration::from_micros(250);

impl Steering {
    /// Takes as many chunks as there is room for; see [`crate::Plane::disclose`]. Prefetches that follow from
    /// it must not be dispatched before the observer has been told of the files: the pages that they add would
    /// go unseen.
    pub(crate) fn disclose(
        &mut self,
        session: SessionId,
        (manager, list): (usize, u32),
        hints: &[HintChunk],
    ) -> Result<Disclosed, DiscloseError> {
        let mut taken = Disclosed::default();
        if let Some(id) = self.sessions.manager(session, manager).map(|manager| manager.id) {
            // It exists from now on, also if none of these can be taken: those after it have their numbers.
            self.tell(Input::Disclosed { manager: id, list, blocks: &[] });
        }
        self.append_queue(session, manager, u32::MAX, None);
        let waits = self.sessions.manager(session, manager).is_some_and(|target| !target.queue.is_empty());
        let mut opened = if waits { Opened::default() } else { self.open_all(hints) };
        for (chunk, hint) in hints.iter().enumerate() {
            let fail = |problem| DiscloseError { chunk, problem };
            let Some(target) = self.sessions.manager(session, manager) else {
                return Err(fail(DiscloseProblem::NoManager { session, manager }));
            };
            if !target.queue.is_empty() {
                break;
            }
            let id = target.id;
            let file = self.listed_file(&hint.path, id, &mut opened).map_err(fail)?;
            let (next, end) = self.hinted_blocks(file, hint).map_err(fail)?;
            if let Some(managed) = self.files.get_mut(file) {
                managed.listed_runs.add(next, end);
            }
            taken.chunks += 1;
            taken.blocks += u64::from(end - next);
            self.sessions.queue(session, manager, Chunk { list, file, next, end });
            self.append_queue(session, manager, u32::MAX, None);
        }
        Ok(taken)
    }

    /// Appends what waits in a manager's queue to the policy's list, as far as there is room and at most
    /// `most` blocks, until then; gives how many, and whether the list would have taken more.
    fn append_queue(
        &mut self,
        session: SessionId,
        manager: usize,
        most: u32,
        until: Option<Instant>,
    ) -> (u32, bool) {
        let mut appended = 0;
        while let Some(target) = self.sessions.manager(session, manager)
            && let Some(&Chunk { list, file, next, end }) = target.queue.front()
        {
            let id = target.id;
            // The manager has let go of the file, whose number may mean another one by now.
            if !self.files.get(file).is_some_and(|managed| managed.listed.contains(&id)) {
                self.sessions.unqueue(session, manager);
                if until.is_some_and(|until| Instant::now() >= until) {
                    return (appended, true);
                }
                continue;
            }
            let last = end.min(next.saturating_add(BLOCKS_A_TIME.min(most - appended)));
            let blocks: Vec<Block> = (next..last).map(|index| Block::new(file, index)).collect();
            let now = self.now();
            let disclosed = Input::Disclosed { manager: id, list, blocks: &blocks };
            let taken = match self.engine.tell(now, disclosed) {
                Answer::Taken(taken) => taken as u32,
                _ => 0,
            };
            self.act();
            appended += taken;
            if let Some(target) = self.sessions.manager_mut(session, manager) {
                target.disclosed += u64::from(taken);
            }
            let next = next + taken;
            if next >= end {
                self.sessions.unqueue(session, manager);
            } else if let Some(target) = self.sessions.manager_mut(session, manager)
                && let Some(first) = target.queue.front_mut()
            {
                first.next = next;
                if next < last {
                    return (appended, false);
                }
            }
            if appended >= most || until.is_some_and(|until| Instant::now() >= until) {
                let more = self.sessions.manager(session, manager).is_some_and(|m| !m.queue.is_empty());
                return (appended, more);
            }
        }
        (appended, false)
    }

    /// Goes on with all queues as far as a round of the loop may: the users in turn, and of each the sessions in turn.
    pub(crate) fn append_queues(&mut self) {
        let mut waiting: BTreeMap<u32, VecDeque<(SessionId, usize)>> = BTreeMap::new();
        for &(session, at) in &self.sessions.listing {
            if self.sessions.manager(session, at).is_some_and(|manager| !manager.queue.is_empty()) {
                let user = self.sessions.get(session).map_or(0, |session| session.origin.account);
                waiting.entry(user).or_default().push_back((session, at));
            }
        }
        if waiting.is_empty() {
            return;
        }
        for turns in waiting.values_mut() {
            let first = turns.partition_point(|turn| *turn <= self.last_appended);
            turns.rotate_left(first);
        }
        let mut of_users: BTreeMap<u32, u32> = BTreeMap::new();
        let mut ahead = self.engine.withdrawn_positions();
        for &(session, at) in &self.sessions.listing {
            let own = self.ahead(session, at);
            ahead += own;
            if let Some(session) = self.sessions.get(session) {
                let of_user = of_users.entry(session.origin.account).or_default();
                *of_user = of_user.saturating_add(u32::try_from(own).unwrap_or(u32::MAX));
            }
        }
        let most_of_user = self.options.list_blocks_of_user;
        waiting.retain(|user, _| *user == 0 || of_users.get(user).is_none_or(|own| *own < most_of_user));
        let mut room =
            self.options.list_blocks_in_all.saturating_sub(u32::try_from(ahead).unwrap_or(u32::MAX));
        room = room.min(BLOCKS_A_ROUND);
        let mut meter = Meter::start();
        let ends = meter.now() + APPENDING;
        while room > 0
            && meter.now() < ends
            && let Some(user) = next_user(&waiting, self.last_appended_user)
        {
            self.last_appended_user = user;
            let Some((session, at)) = waiting.get_mut(&user).and_then(VecDeque::pop_front) else { break };
            let own = of_users.entry(user).or_default();
            let own_room = if user == 0 { u32::MAX } else { most_of_user.saturating_sub(*own) };
            let most = room.min(own_room).min(BLOCKS_A_TURN);
            let (appended, more) = self.append_queue(session, at, most, Some(meter.now() + TURN));
            room -= appended;
            *own = own.saturating_add(appended);
            self.last_appended = (session, at);
            match waiting.get_mut(&user) {
                // All that it may have: the others go on.
                Some(_) if user != 0 && *own >= most_of_user => drop(waiting.remove(&user)),
                Some(turns) if more => turns.push_back((session, at)),
                Some(turns) if turns.is_empty() => drop(waiting.remove(&user)),
                _ => {}
            }
            self.spend(user, meter.lap());
        }
        self.stirred |= room > 0 && !waiting.is_empty();
    }

    /// Blocks ahead of the cursor of a manager's list.
    fn ahead(&self, session: SessionId, at: usize) -> usize {
        self.sessions.manager(session, at).map_or(0, |manager| self.engine.disclosed_ahead(manager.id))
    }

    /// The file at a path, under control from now on.
    fn listed_file(
        &mut self,
        path: &Path,
        manager: ManagerId,
        opened: &mut Opened<'_>,
    ) -> Result<FileId, DiscloseProblem> {
        let known = self.files.find_path(path);
        // A name may lead to another file by now.
        let same = |key: FileKey| file_at::look(path).is_ok_and(|looks| looks.key == key);
        let known = known.filter(|&id| self.files.get(id).is_some_and(|managed| same(managed.key)));
        let file = match known {
            Some(file) => {
                self.claim(file, 0);
                file
            }
            None => match opened.remove(path) {
                Some(opened) => self.take_listed(opened?)?,
                None => self.open_listed(path)?,
            },
        };
        if let Some(managed) = self.files.get_mut(file)
            && !managed.listed.contains(&manager)
        {
            managed.listed.push(manager);
        }
        Ok(file)
    }

    /// Opens the file at a path and puts it under control.
    pub(crate) fn open_listed(&mut self, path: &Path) -> Result<FileId, DiscloseProblem> {
        let file = open(path)?;
        let layout = self.layouts(&[&file]).pop().unwrap_or(Layout::Unknown);
        self.take_listed((file, layout))
    }

    /// Opens the files of hints that are not under control yet.
    fn open_all<'a>(&mut self, hints: &'a [HintChunk]) -> Opened<'a> {
        let mut found: Vec<(&Path, Result<OnDisk, DiscloseProblem>)> = Vec::new();
        let mut seen = HashSet::new();
        for hint in hints {
            if self.files.find_path(&hint.path).is_none() && seen.insert(&hint.path) {
                found.push((&hint.path, open(&hint.path)));
            }
        }
        let files: Vec<&OnDisk> = found.iter().filter_map(|(_, file)| file.as_ref().ok()).collect();
        let mut layouts = self.layouts(&files).into_iter();
        let mut with_layout = |file| (file, layouts.next().unwrap_or(Layout::Unknown));
        found.into_iter().map(|(path, file)| (path, file.map(&mut with_layout))).collect()
    }

    /// Where files lie, as far as they are not under control.
    fn layouts(&mut self, files: &[&OnDisk]) -> Vec<Layout> {
        let places: Vec<_> =
            files.iter().map(|listed| (&listed.file, self.files.disk(listed.looks.key.dev).0)).collect();
        extents::layouts(&places, u64::from(self.options.block_bytes), self.files.room_for_extents(0), 0)
    }

    /// Puts a file under control.
    fn take_listed(&mut self, (listed, layout): (OnDisk, Layout)) -> Result<FileId, DiscloseProblem> {
        let OnDisk { file, path, looks: Looks { key, .. } } = listed;
        if let Some(known) = self.files.find(key) {
            self.claim(known, 0);
            return Ok(known);
        }
        let new = Registration { key, generation: 0, path, file, last_user: 0, held: false, account: 0 };
        let registered = self.register(new, layout);
        let id = registered.ok_or(DiscloseProblem::TooManyFiles { limit: self.options.files })?;
        self.tell_of_disk(key.dev);
        // Nothing is being observed of it yet: what is cached is told at once.
        self.settle();
        Ok(id)
    }

    /// First block of a chunk, and the one after its last.
    fn hinted_blocks(&mut self, file: FileId, hint: &HintChunk) -> Result<(u32, u32), DiscloseProblem> {
        let block_bytes = u64::from(self.options.block_bytes);
        let end_of = |size| hint.length.map_or(size, |length| hint.offset.saturating_add(length));
        let mut size = self.files.get(file).map_or(0, |managed| managed.size);
        if hint.offset > size || end_of(size) > size {
            // It may have grown.
            self.files.refresh(file);
            size = self.files.get(file).map_or(0, |managed| managed.size);
            self.resized(file, size);
        }
        let end = end_of(size);
        if hint.offset > size || end > size {
            let path = hint.path.clone();
            return Err(DiscloseProblem::PastEnd { path, offset: hint.offset, end, size });
        }
        let cut = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        let first = cut(hint.offset / block_bytes);
        // An empty chunk stands for no block.
        let last = if end > hint.offset { cut(end.div_ceil(block_bytes)) } else { first };
        Ok((first, last))
    }
}

/// Files that are open and not under control yet, with where they lie, by the paths of the hints.
type Opened<'a> = HashMap<&'a Path, Result<(OnDisk, Layout), DiscloseProblem>>;

fn open(path: &Path) -> Result<OnDisk, DiscloseProblem> {
    let open = |source| DiscloseProblem::Open { path: path.to_owned(), source };
    let not_on_disk = |what| DiscloseProblem::NotOnDisk { path: path.to_owned(), what };
    let found = file_at::open_on_disk(path).map_err(open)?.map_err(not_on_disk)?;
    match file_at::obstacle_of(found.looks, &found.file).map_err(open)? {
        Some(what) => Err(not_on_disk(what)),
        None => Ok(found),
    }
}

/// The first of the users behind `last`, in a circle.
fn next_user<T>(users: &BTreeMap<u32, T>, last: u32) -> Option<u32> {
    let after = last.checked_add(1).and_then(|from| users.range(from..).next());
    after.or_else(|| users.first_key_value()).map(|(user, _)| *user)
}
