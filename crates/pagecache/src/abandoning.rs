//! Files become orphans and are claimed again ([`crate::orphans`]).

use std::time::{Duration, Instant};

use foretell_policy::FileId;

use crate::files::ManagedFile;
use crate::own_mounts;
use crate::steering::Steering;

/// Files that are abandoned before the clock is looked at: tens of microseconds each, more for one of which much is
/// cached.
const ABANDONED_AT_ONCE: u32 = 8;

impl Steering {
    /// Nobody is interested in a file any more.
    pub(crate) fn abandon(&mut self, id: FileId) {
        let Some(managed) = self.files.get(id) else { return };
        if managed.is_orphan() {
            if self.sessions.len() == 0 {
                self.retire(id);
            }
            return;
        }
        // Not asked by its path, which nobody answers for now.
        if managed.folios.cached_pages() > 0 {
            self.files.refresh(id);
        }
        let Some(managed) = self.files.get(id) else { return };
        let left = managed.folios.cached_pages() > 0 && !managed.unlinked && self.sessions.len() > 0;
        if !left {
            self.retire(id);
            return;
        }
        self.files.orphan(id);
        while self.files.orphans.len() > self.orphan_limit {
            self.retire_oldest_orphan();
        }
    }

    /// Leaves the oldest orphan to the kernel; says whether there was one.
    pub(crate) fn retire_oldest_orphan(&mut self) -> bool {
        let oldest = self.files.orphans.oldest();
        oldest.inspect(|&id| self.retire(id)).is_some()
    }

    /// Nobody may be interested in a file any more: it is looked at soon whether that is so.
    pub(crate) fn let_lie(&mut self, id: FileId) {
        self.let_go_of.insert(id);
    }

    /// The last session has ended: all orphans are left to the kernel.
    pub(crate) fn let_all_orphans_lie(&mut self) {
        self.let_go_of.extend(self.files.orphans.all());
    }

    /// Abandons the files that nobody is interested in any more, a few at least and as many as there is time for; says
    /// whether these are all, and there were any.
    pub(crate) fn abandon_some(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        let mut looked_at = 0;
        while (looked_at < ABANDONED_AT_ONCE || start.elapsed() < time)
            && let Some(id) = self.let_go_of.pop_first()
        {
            looked_at += 1;
            let Some(managed) = self.files.get(id) else { continue };
            let named = managed.holders > 0 || !managed.listed.is_empty();
            if !named && self.sessions.rule_for(&managed.path).is_none() {
                self.abandon(id);
            }
        }
        self.stirred |= !self.let_go_of.is_empty();
        looked_at > 0 && self.let_go_of.is_empty()
    }

    /// Looks at the files of which the kernel has told that a name is gone: those that have none are closed.
    pub(crate) fn leave_deleted(&mut self) {
        for id in self.files.deletions.told() {
            if self.files.refresh(id) {
                self.has_changed(id);
            }
        }
    }

    /// Lets go of the files of disks that were unmounted; says whether there were any. In our own mounts they are open still.
    pub(crate) fn leave_unmounted(&mut self) -> bool {
        let gone = own_mounts::gone();
        if gone.is_empty() {
            return false;
        }
        let is_there = |file: &ManagedFile| {
            file.descriptor.as_ref().is_some_and(|file| own_mounts::is_through(file, &gone))
        };
        let files: Vec<FileId> =
            self.files.iter().filter(|(_, file)| is_there(file)).map(|(id, _)| id).collect();
        files.iter().for_each(|id| self.retire(*id));
        !files.is_empty()
    }

    /// Somebody has named a file: if it is an orphan it is one no more. What the programs outside of our
    /// control have read of it meanwhile is found out about.
    pub(crate) fn claim(&mut self, id: FileId, user: u32) {
        if !self.files.claim(id) {
            return;
        }
        self.engine.allow_fetches(id);
        self.files.refresh(id);
        let size = self.files.get(id).map_or(0, |managed| managed.size);
        self.resized(id, size);
        self.look_at(id, user, true);
    }

    /// Rules have come: orphans that they match are managed by them.
    pub(crate) fn claim_by_rules(&mut self) {
        for id in self.files.orphans.all() {
            let Some(managed) = self.files.get(id) else { continue };
            let Some(control) = self.sessions.rule_for(&managed.path).map(|r| (r.policy, r.priority)) else {
                continue;
            };
            if let Some(managed) = self.files.get_mut(id) {
                managed.control = Some(control);
            }
            self.claim(id, 0);
        }
    }
}
