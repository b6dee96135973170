//! Lists of what will be read: from chunks of files to the policy's blocks.

use std::fs;
use std::path::Path;

use foretell_policy::{Block, FileId, ManagerId};

use crate::error::{DiscloseError, DiscloseProblem};
use crate::extents;
use crate::files::Registration;
use crate::observe::{FileKey, MANAGED_FILES};
use crate::options::{HintChunk, SessionId};
use crate::plane::Disclosed;
use crate::resolve;
use crate::sessions::Remainder;
use crate::steering::Steering;

/// Blocks handed to the policy at a time.
const BLOCKS_A_TIME: u32 = 4096;

impl Steering {
    /// Takes as many chunks as there is room for; see [`crate::Plane::disclose`]. Prefetches that follow from
    /// it must not be dispatched before the observer has been told of the files: the pages that they add would
    /// go unseen.
    pub(crate) fn disclose(
        &mut self,
        session: SessionId,
        manager: usize,
        hints: &[HintChunk],
    ) -> Result<Disclosed, DiscloseError> {
        let mut taken = Disclosed::default();
        self.append_remainder(session, manager);
        for (chunk, hint) in hints.iter().enumerate() {
            let fail = |problem| DiscloseError { chunk, problem };
            let Some(target) = self.sessions.manager(session, manager) else {
                return Err(fail(DiscloseProblem::NoManager { session, manager }));
            };
            if target.remainder.is_some() {
                break;
            }
            let id = target.id;
            let file = self.listed_file(&hint.path, id).map_err(fail)?;
            let (next, end) = self.hinted_blocks(file, hint).map_err(fail)?;
            taken.chunks += 1;
            taken.blocks += u64::from(end - next);
            if let Some(target) = self.sessions.manager_mut(session, manager) {
                target.remainder = Some(Remainder { file, next, end });
            }
            self.append_remainder(session, manager);
        }
        Ok(taken)
    }

    /// Appends what is left of a chunk to the policy's list, as far as there is room.
    pub(crate) fn append_remainder(&mut self, session: SessionId, manager: usize) {
        while let Some(target) = self.sessions.manager_mut(session, manager)
            && let Some(Remainder { file, next, end }) = target.remainder
        {
            let id = target.id;
            let until = end.min(next.saturating_add(BLOCKS_A_TIME));
            let blocks: Vec<Block> = (next..until).map(|index| Block::new(file, index)).collect();
            let now = self.now();
            let taken = self.engine.disclose(now, id, &blocks) as u32;
            self.act();
            let Some(target) = self.sessions.manager_mut(session, manager) else { return };
            let next = next + taken;
            target.remainder = (next < end).then_some(Remainder { file, next, end });
            if next < until {
                return;
            }
        }
    }

    /// Goes on with all chunks that did not fit.
    pub(crate) fn append_remainders(&mut self) {
        for session in self.sessions.ids() {
            let managers = self.sessions.get(session).map_or(0, |session| session.managers.len());
            (0..managers).for_each(|manager| self.append_remainder(session, manager));
        }
    }

    /// The file at a path, under control from now on.
    fn listed_file(&mut self, path: &Path, manager: ManagerId) -> Result<FileId, DiscloseProblem> {
        let known = self.files.find_path(path);
        // A name may lead to another file by now.
        let same = |key: FileKey| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(path).is_ok_and(|found| FileKey::from_stat(found.dev(), found.ino()) == key)
        };
        let known = known.filter(|&id| self.files.get(id).is_some_and(|managed| same(managed.key)));
        let file = match known {
            Some(file) => file,
            None => self.open_listed(path)?,
        };
        if let Some(managed) = self.files.get_mut(file)
            && !managed.listed.contains(&manager)
        {
            managed.listed.push(manager);
        }
        Ok(file)
    }

    fn open_listed(&mut self, path: &Path) -> Result<FileId, DiscloseProblem> {
        let open = |source| DiscloseProblem::Open { path: path.to_owned(), source };
        let canonical = fs::canonicalize(path).map_err(open)?;
        let file = resolve::open_quietly(&canonical).map_err(open)?;
        if let Some(what) = resolve::obstacle(&file).map_err(open)? {
            return Err(DiscloseProblem::NotOnDisk { path: path.to_owned(), what });
        }
        let key = FileKey::of(&file).map_err(open)?;
        if let Some(known) = self.files.find(key) {
            return Ok(known);
        }
        let (disk, _) = self.files.disk(key.dev);
        let layout = extents::layout(&file, u64::from(self.options.block_bytes), disk);
        let new = Registration { key, generation: 0, path: canonical, file, last_user: 0 };
        let registered = self.register(new, layout);
        let id = registered.ok_or(DiscloseProblem::TooManyFiles { limit: MANAGED_FILES })?;
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
