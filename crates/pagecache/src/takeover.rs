//! Taking files under control, following what becomes of them, and letting go of them.
//!
//! A file is first seen when a process under control reads it, or is expected before that. From its rules it
//! is then known whether it is managed; what of it was cached before is looked up, and what the observations that are still under
//! way tell takes precedence over that.
//!
//! What happens to a managed file: renamed, it stays managed, under the rules of the name under which it was
//! found. Grown or shrunk, its new size is told. Deleted, our descriptor is closed at once, so that its space
//! is freed when its last user closes it, and it is forgotten when nothing of it is cached any more. Replaced
//! by a new file of the same name, the new one takes its place in the lists that name it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use foretell_policy::{Block, FileId, Input, Layout};

use crate::descriptors::Search;
use crate::extents;
use crate::file_at;
use crate::files::Registration;
use crate::folios::Folio;
use crate::kernel;
use crate::left_out::UNDER_ANOTHERS_RULE;
use crate::observe::{FileKey, IGNORED_SHARE};
use crate::own_mounts;
use crate::page_cache::{Linux, PageCache};
use crate::resolve::{self, Found};
use crate::steering::{Command, Steering};

/// Pages by which the books on a part of a file may be off before it is looked at: what is read in a millisecond.
const AUDIT_PAGES: u64 = 256;
/// Part of a file that is compared at a time: 32,768 pages take half a millisecond.
const AUDIT_BYTES: u64 = 128 << 20;
/// Parts of one file that are compared at a time, as long as there is nothing in them.
const AUDIT_PARTS: u32 = 256;

impl Steering {
    /// The file that a key stands for, put under control now if it should be; `None` if it is none of ours.
    pub(crate) fn sight(&mut self, tgid: u32, key: FileKey, generation: u32) -> Option<FileId> {
        if let Some(id) = self.files.find(key) {
            let managed = self.files.get_mut(id)?;
            (managed.last_user, managed.lost) = (tgid, false);
            if managed.generation == 0 {
                managed.generation = generation;
            }
            if generation == 0 || generation == managed.generation {
                return Some(id);
            }
            // The inode number has come back for another file.
            self.retire(id);
        }
        let session = self.sessions.process(tgid)?.session;
        if self.ignored.contains(&key) {
            return None;
        }
        if !self.sessions.by_path(session) {
            // It names its files itself. Not looked up, so that what else it has open is never touched; nor
            // ignored while another session's rules may want the same file.
            if !self.sessions.any_by_path() {
                self.ignore(key);
            }
            return None;
        }
        let lists = (&mut self.files.descriptors, &mut self.files.mounts);
        let found = resolve::find(tgid, key, generation, lists, Search::Certain);
        let unsteered = self.files.descriptors.take_unsteered();
        for (path, what) in unsteered.into_iter().chain(self.readahead_off.take_unsteered()) {
            self.leave_out(&path, what);
        }
        let Ok(found) = found else {
            self.unfound.missed(key, Instant::now());
            self.ignore(key);
            return None;
        };
        self.unfound.found(key);
        let taken = self.take_over(tgid, key, generation, found);
        if taken.is_none() {
            self.ignore(key);
        }
        taken
    }

    /// Files that could not be found are looked for when they are used again, if it is time.
    pub(crate) fn look_again(&mut self) {
        let due = self.unfound.due(Instant::now());
        if due.is_empty() {
            return;
        }
        // Once through the order for all of them: it may be long, and so may they be many.
        self.ignored_order.retain(|ignored| due.binary_search(ignored).is_err());
        let ignored = due.into_iter().filter(|key| self.ignored.remove(key));
        self.commands.extend(ignored.map(Command::Forget));
    }

    /// Puts a file under control if a rule or a list names it.
    fn take_over(&mut self, tgid: u32, key: FileKey, generation: u32, found: Found) -> Option<FileId> {
        let path = found.path.clone();
        // A file named by a descriptor is that file, whatever comes to lie at its path.
        // Nor does an orphan have a successor.
        let alone = |id: FileId| self.files.get(id).is_some_and(|m| m.holders > 0 || m.is_orphan());
        let successor_of = self.files.find_path(&path).filter(|&id| !alone(id));
        if self.sessions.rule_for(&path).is_none() && successor_of.is_none() {
            self.leave_to_others(&path);
            return None;
        }
        if found.is_on_new_mount() {
            self.leave_out(&path, own_mounts::NEW);
            return None;
        }
        let file = found.open().ok()?;
        if let Some(what) = file_at::obstacle(&file).ok()? {
            self.leave_out(&path, what);
            return None;
        }
        let new = Registration { key, generation, path, file, last_user: tgid, held: false, account: 0 };
        match successor_of {
            Some(old) if self.is_deleted(old) || self.is_covered(old) => self.replace(old, new),
            _ => self.register(new, Layout::Unknown),
        }
    }

    /// Puts files that rules match under control before anybody reads them.
    pub(crate) fn expect(&mut self, paths: &[PathBuf]) {
        for path in paths {
            self.leave_to_others(path);
            if self.sessions.rule_for(path).is_some() {
                // Not there any more, or not on a disk: then there is nothing to expect of it.
                let expected = self.open_listed(path);
                if expected.is_err()
                    && let Some(what) = file_at::look(path).ok().and_then(|looks| looks.obstacle())
                {
                    self.leave_out(path, what);
                }
            }
        }
    }

    /// A file cannot be steered: whose rules match it is to know.
    fn leave_out(&mut self, path: &Path, what: &'static str) {
        for session in self.sessions.with_rule_for(path) {
            self.left_out.note(session, path, what);
        }
    }

    /// Where the rules of others came first, that is to be known as well.
    fn leave_to_others(&mut self, path: &Path) {
        for session in self.sessions.yielding(path) {
            self.left_out.note(session, path, UNDER_ANOTHERS_RULE);
        }
    }

    fn is_deleted(&mut self, file: FileId) -> bool {
        self.files.refresh(file);
        self.files.get(file).is_some_and(|managed| managed.unlinked)
    }

    /// A file on an overlay has been copied up, or has been replaced there: its name leads to another inode.
    fn is_covered(&self, file: FileId) -> bool {
        self.files.get(file).is_some_and(|managed| {
            managed.layered
                && file_at::look(&managed.path).is_ok_and(|looks| looks.is_file && !looks.is(managed.key))
        })
    }

    /// The copy of a file that was copied up takes its place, before anybody has read it.
    pub(crate) fn follow_copy(&mut self, file: FileId) -> Option<FileId> {
        if !self.is_covered(file) {
            return None;
        }
        let managed = self.files.get(file).filter(|managed| managed.holders == 0 && !managed.is_orphan())?;
        let (path, last_user) = (managed.path.clone(), managed.last_user);
        let looks = file_at::look(&path).ok().filter(|looks| self.files.find(looks.key).is_none())?;
        let copy = file_at::open_same(&path, looks.key).ok()?;
        if file_at::obstacle(&copy).ok()?.is_some() {
            return None;
        }
        let (key, generation) = (looks.key, looks.generation());
        self.replace(
            file,
            Registration { key, generation, path, file: copy, last_user, held: false, account: 0 },
        )
    }

    /// Puts a file under control.
    pub(crate) fn register(&mut self, new: Registration, layout: Layout) -> Option<FileId> {
        while self.files.len() >= self.options.files as usize && self.retire_oldest_orphan() {}
        let (extents, places) = (extents::count(&layout), extents::first(&layout));
        let id = self.engine.add_file(layout).ok()?;
        if self.enter(id, new).is_none() {
            self.engine.remove_file(id);
            return None;
        }
        self.files.set_extents(id, extents, places);
        Some(id)
    }

    /// A new file under the path of a deleted one takes its place in the lists that name it.
    fn replace(&mut self, old: FileId, new: Registration) -> Option<FileId> {
        let managed = self.files.get(old)?;
        let (key, cached) = (managed.key, managed.folios.iter().collect::<Vec<u64>>());
        let listed = managed.listed.clone();
        cached.into_iter().for_each(|page| self.removed(old, page..page + 1));
        self.waiting.forget_file(old.0);
        self.ready.remove(&old);
        self.commands.push(Command::Forget(key));
        self.enter(old, new)?;
        self.files.get_mut(old)?.listed = listed;
        Some(old)
    }

    fn enter(&mut self, id: FileId, new: Registration) -> Option<()> {
        let (key, held) = (new.key, new.held);
        self.files.insert(id, new).ok()?;
        let managed = self.files.get_mut(id)?;
        managed.control = self.sessions.rule_for(&managed.path).map(|rule| (rule.policy, rule.priority));
        let size = managed.size;
        self.resized(id, size);
        if self.ignored.remove(&key) {
            self.ignored_order.retain(|ignored| *ignored != key);
        }
        self.commands.push(Command::Manage(key));
        if held {
            // Looked at when the observer knows it ([`crate::looks`]).
            return Some(());
        }
        if let Some(descriptor) = self.files.descriptor(id) {
            let (cached, _) = kernel::cached_pages(&descriptor, size, usize::MAX).unwrap_or_default();
            let managed = self.files.get_mut(id)?;
            cached.into_iter().for_each(|page| managed.folios.add_guessed(page));
        }
        self.settling.push(id);
        Some(())
    }

    /// Tells the policy of the size of a file.
    pub(crate) fn resized(&mut self, id: FileId, size: u64) {
        let blocks = size.div_ceil(u64::from(self.options.block_bytes));
        self.engine.set_file_length(id, u32::try_from(blocks).unwrap_or(u32::MAX));
    }

    fn ignore(&mut self, key: FileKey) {
        // A further one makes the oldest unknown again.
        if self.ignored_order.len() >= (self.options.files / IGNORED_SHARE) as usize
            && let Some(oldest) = self.ignored_order.pop_front()
        {
            self.ignored.remove(&oldest);
            self.commands.push(Command::Forget(oldest));
        }
        self.ignored.insert(key);
        self.ignored_order.push_back(key);
        self.commands.push(Command::Ignore(key));
    }

    /// New rules may match what was ignored.
    pub(crate) fn forget_ignored(&mut self) {
        self.ignored.clear();
        let forget = self.ignored_order.drain(..).map(Command::Forget);
        self.commands.extend(forget);
        // A program that is started by us runs our executable first: that is not its own reading.
        if let Some(own) = File::open("/proc/self/exe").ok().and_then(|file| FileKey::of(&file).ok()) {
            self.ignore(own);
        }
    }

    /// A file is under control no more.
    pub(crate) fn retire(&mut self, id: FileId) {
        self.waiting.forget_file(id.0);
        self.ready.remove(&id);
        self.in_flight.retain(|block| block.file != id);
        self.deferred.retain(|(block, _)| block.file != id);
        self.given_up.retain(|block| block.file != id);
        self.fetches.retain(|fetch| fetch.block.file != id);
        self.looks.remove(id);
        let counters = self.engine.file_counters(id);
        self.engine.remove_file(id);
        self.act();
        if let Some(managed) = self.files.remove(id) {
            self.ledger.end_file(managed.serial, managed.path, counters);
            self.commands.push(Command::Forget(managed.key));
        }
    }

    /// The round is over: what files seen in it had cached before is told now.
    pub(crate) fn settle(&mut self) {
        for id in std::mem::take(&mut self.settling) {
            // What left the cache after it was looked up and before the observer knew the file went unseen.
            self.forget_gone(id);
            self.tell_of_cached(id);
        }
    }

    /// Tells the policy of blocks that are cached and that it does not know of.
    pub(crate) fn tell_of_cached(&mut self, id: FileId) {
        let Some(managed) = self.files.get(id) else { return };
        let mut indices: Vec<u32> =
            managed.folios.iter().map_while(|p| u32::try_from(p >> self.block_order).ok()).collect();
        indices.dedup();
        for block in indices.into_iter().map(|index| Block::new(id, index)) {
            if !self.engine.is_cached(block) && !self.in_flight.contains(&block) {
                self.tell(Input::Loaded { block, by: None });
            }
        }
    }

    /// Looks up what is cached of all files, after observations were lost.
    pub(crate) fn resynchronise(&mut self) {
        let all = self.files.iter().map(|(id, file)| (id, file.used_by.unwrap_or(0), !file.is_orphan()));
        let all: Vec<(FileId, u32, bool)> = all.collect();
        all.into_iter().for_each(|(id, user, new)| self.look_at(id, user, new));
    }

    /// Has a file looked at if the books on it are far off: pages that came and went between the look at a file and its
    /// first observation, or in a way that no tracepoint tells. A part of it is compared at a time, from `offset` on;
    /// gives where the next one begins, `None` behind the last.
    pub(crate) fn audit(&mut self, id: FileId, offset: u64) -> Option<u64> {
        let managed = self.files.get(id)?;
        let (size, user) = (managed.size, managed.used_by.unwrap_or(0));
        if managed.partly_known || managed.is_orphan() || self.looks.is_pending(id) {
            return None;
        }
        let descriptor = self.files.descriptor(id)?;
        // What mincore(2) says of pages that are on their way would be taken for a loss.
        if !kernel::has_cachestat(&descriptor) {
            return None;
        }
        let (mut at, page_bytes) = (offset, kernel::page_bytes());
        for _ in 0..AUDIT_PARTS {
            if at >= size {
                return None;
            }
            let status = Linux.status(&descriptor, at, AUDIT_BYTES).ok()?;
            let pages = at / page_bytes..(at + AUDIT_BYTES) / page_bytes;
            let known = self.files.get(id)?.folios.cached_in(pages);
            // Observations still under way explain small differences.
            if status.cached.abs_diff(known) > (known / 16).max(AUDIT_PAGES) {
                self.look_at(id, user, true);
                return None;
            }
            at += AUDIT_BYTES;
            if status.cached + known > 0 {
                break;
            }
        }
        (at < size).then_some(at)
    }

    /// Takes pages of a file that are gone off the books.
    fn forget_gone(&mut self, id: FileId) {
        let Some(descriptor) = self.files.descriptor(id) else { return };
        let Some(managed) = self.files.get(id) else { return };
        // Equal numbers of pages are taken for equal pages: a loss that balances is rare, and what it leaves
        // wrong is put right by the next observation of those pages.
        let known = managed.folios.cached_pages();
        if Linux.status(&descriptor, 0, 0).is_ok_and(|status| status.cached == known) {
            return;
        }
        // Asked folio by folio: mincore(2) takes pages that are still being read for absent ones. Where there is nothing
        // else, only what was read before is believed to be gone.
        let page_bytes = kernel::page_bytes();
        let is_gone = |folio: &Folio| {
            let status = Linux.status(&descriptor, folio.head * page_bytes, folio.pages * page_bytes);
            let certain = |by_mincore: bool| !by_mincore || !managed.folios.any_unread(folio.range());
            status.is_ok_and(|status| status.cached == 0 && certain(status.by_mincore))
        };
        let gone: Vec<Folio> = managed.folios.all_folios().into_iter().filter(is_gone).collect();
        gone.into_iter().for_each(|folio| self.removed(id, folio.range()));
    }
}
