//! The looks at files, some hundred microseconds of them in a round of the loop ([`crate::looks`]).

use std::fs::File;
use std::time::Duration;

use foretell_policy::{Block, FileId, Input};

use crate::files::ManagedFile;
use crate::kernel::{self, WINDOW_BYTES};
use crate::looks::{Look, SPAN_BYTES, WINDOWS};
use crate::meter::Meter;
use crate::page_cache::{Linux, PageCache};
use crate::steering::Steering;

/// Parts of a file that are looked at when it is named, and what all but the last of them may take. Where each block of it
/// takes the place of another one, a part takes 5 ms.
const PARTS_AT_ONCE: u32 = 8;
const AT_ONCE: Duration = Duration::from_millis(1);

/// What looks may take of a round, and one user's of that.
const ROUND: Duration = Duration::from_micros(500);
const TURN: Duration = Duration::from_micros(125);

impl Steering {
    /// A file is to be looked at from its beginning, on behalf of a user. The observer must know it.
    pub(crate) fn look_at(&mut self, id: FileId, user: u32, new: bool) {
        let Some(managed) = self.files.get(id) else { return };
        let look = Look { id, next: 0, span: SPAN_BYTES, windows: WINDOWS, new };
        self.looks.add(user, managed.serial, look);
    }

    /// Looks at the first parts of a file that was just named: at all of it, if it is small.
    pub(crate) fn look_at_once(&mut self, id: FileId) {
        let Some((user, serial, mut look)) = self.looks.of(id) else { return };
        let (mut meter, mut taken) = (Meter::start(), Duration::ZERO);
        let is_last = |_| {
            let is_last = taken < AT_ONCE && self.look_on(&mut look);
            taken += meter.lap();
            is_last
        };
        if (0..PARTS_AT_ONCE).any(is_last) {
            self.looks.remove(id);
        } else {
            self.looks.put_back(user, serial, look);
        }
    }

    /// Goes on with the looks, each user's in turn, for a part of a round.
    pub(crate) fn go_on_looking(&mut self) {
        if self.looks.is_empty() {
            return;
        }
        let mut meter = Meter::start();
        let ends = meter.now() + ROUND;
        while meter.now() < ends
            && let Some((user, serial, mut look)) = self.looks.next()
        {
            let mut done = false;
            while !done && meter.now().elapsed() < TURN {
                // What is cached of a file that nobody names any more, and is not known, is the kernel's.
                let is_wanted = |managed: &mut ManagedFile| !look.new || !managed.is_orphan();
                done =
                    !self.files.get_serial(look.id, serial).is_some_and(is_wanted) || self.look_on(&mut look);
            }
            if done {
                self.looks.remove(look.id);
            } else {
                self.looks.put_back(user, serial, look);
            }
            self.spend(user, meter.lap());
        }
        self.stirred |= !self.looks.is_empty();
    }

    /// Looks at the next part of a file; says whether that was the last.
    fn look_on(&mut self, look: &mut Look) -> bool {
        let Some(size) = self.files.get(look.id).map(|managed| managed.size) else { return true };
        if look.next >= size {
            return true;
        }
        if look.windows == 0 {
            if let Some(managed) = self.files.get_mut(look.id) {
                managed.partly_known = true;
            }
            return true;
        }
        let Some(descriptor) = self.files.descriptor(look.id) else { return true };
        let (page_bytes, length) = (kernel::page_bytes(), look.span.min(size - look.next));
        if look.span > WINDOW_BYTES {
            match Linux.status(&descriptor, look.next, length) {
                Ok(status) if status.cached == 0 => {
                    let known = self.files.get(look.id).map_or(u64::MAX, |managed| {
                        managed.folios.first_cached(look.next / page_bytes).saturating_mul(page_bytes)
                    });
                    if known < look.next + look.span {
                        // All that is known in it has gone: window by window, which is as long as each takes.
                        look.next = known / WINDOW_BYTES * WINDOW_BYTES;
                        look.span = WINDOW_BYTES;
                    } else {
                        look.next += look.span;
                        look.span = (2 * look.span).min(SPAN_BYTES);
                    }
                }
                _ => look.span = WINDOW_BYTES,
            }
            return false;
        }
        let Ok(there) = kernel::there(&descriptor, look.next, length) else { return true };
        let found = there.contains(&true);
        self.look_at_window(look, &descriptor, &there);
        look.windows -= u32::from(found);
        look.next += look.span;
        if !found {
            look.span = 2 * WINDOW_BYTES;
        }
        false
    }

    /// Compares the books with the pages of a window.
    fn look_at_window(&mut self, look: &Look, descriptor: &File, there: &[bool]) {
        let (id, page_bytes) = (look.id, kernel::page_bytes());
        let first = look.next / page_bytes;
        let mut gone = Vec::new();
        if let Some(managed) = self.files.get_mut(id) {
            for (page, &there) in (first..).zip(there) {
                match (there, managed.folios.is_cached(page)) {
                    (true, false) if look.new => managed.folios.add_guessed(page),
                    (false, true) => gone.extend(managed.folios.folio(page)),
                    _ => {}
                }
            }
        }
        gone.dedup();
        for folio in gone {
            // It may just be being read.
            let status = Linux.status(descriptor, folio.head * page_bytes, folio.pages * page_bytes);
            let certain = |by_mincore: bool| {
                !by_mincore || !self.files.get(id).is_some_and(|m| m.folios.any_unread(folio.range()))
            };
            match status {
                Ok(status) if !certain(status.by_mincore) => {}
                Ok(status) if status.cached == 0 => self.removed(id, folio.range()),
                // Its size was guessed, and there are several.
                Ok(status) if status.cached < folio.pages => {
                    let in_window =
                        folio.range().start.max(first)..folio.range().end.min(first + there.len() as u64);
                    for page in in_window.filter(|page| !there[(page - first) as usize]) {
                        let status = Linux.status(descriptor, page * page_bytes, page_bytes);
                        if status.is_ok_and(|status| status.cached == 0) {
                            self.removed(id, page..page + 1);
                        }
                    }
                }
                _ => {}
            }
        }
        for index in self.blocks(&(first..first + there.len() as u64)) {
            let (block, pages) = (Block::new(id, index), self.pages(index));
            let Some(managed) = self.files.get(id) else { return };
            if self.in_flight.contains(&block) {
                continue;
            }
            let (is_counted, is_kept) =
                (self.engine.is_cached(block), managed.folios.any_kept(pages.clone()));
            if !is_counted && is_kept {
                self.tell(Input::Loaded { block, by: None });
            } else if is_counted && !managed.folios.any_cached(pages) {
                // It was seen to be read, and not to come and go.
                self.tell(Input::Gone { block });
            }
        }
    }

    /// A user's doing has taken some of the loop's time; see [`crate::Plane::take_spent`].
    pub(crate) fn spend(&mut self, user: u32, time: Duration) {
        *self.spent.entry(user).or_default() += time;
    }
}
