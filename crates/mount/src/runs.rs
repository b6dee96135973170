//! The run that is under way: what is read is noted, and what comes next is disclosed.
//!
//! Reads are noted by the threads that answer the kernel, under a lock that is held for no longer. A thread of its own does
//! what takes time: once a run has begun it finds the kept one that this one is like, opens what that one read, as far as it
//! is still there, and discloses it in order; when the run has ended it withdraws the rest and writes the profile.
//!
//! A run that does not go on as the kept one is given up: what was disclosed is withdrawn if of the last reads less than half
//! stood in the list.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foretell_buffers::Object;
use foretell_recording::PAGE_BYTES;

use crate::files::Files;
use crate::profile::{FIRST_FILES, Profile, Read, Run, pages};

/// Reads of a list that are disclosed at a time.
const AT_ONCE: usize = 1024;
/// Reads by which it is judged whether a run goes on as the kept one.
const JUDGED: u32 = 128;

/// What is known of the run under way, and of those before.
pub(crate) struct Runs {
    file: PathBuf,
    /// A run has ended when no file has been open for so long.
    idle: Duration,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Held by who writes the profile, so that an older one never comes last.
    writing: Mutex<()>,
}

struct Inner {
    profile: Profile,
    open: usize,
    closed_at: Instant,
    now: Option<Now>,
    /// It is unmounted.
    ends: bool,
}

/// The run under way.
struct Now {
    began: Instant,
    run: Run,
    opened: HashSet<u32>,
    /// The first of these, in order.
    first: Vec<u32>,
    like: Option<usize>,
    following: Following,
    /// Reads that are still to come, and how many of the last ones stood there.
    left: HashMap<Read, u32>,
    judged: u32,
    found: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// It is not known yet whether there is one like it.
    Unknown,
    /// The thread is to disclose what comes.
    Found,
    Yes,
    /// There is none, or it goes on otherwise.
    No,
}

/// What the thread has to do.
enum Task {
    Disclose(Vec<(Arc<str>, u64, u64)>),
    GiveUp,
    End {
        /// There is something to be written.
        is_new: bool,
    },
}

impl Runs {
    pub(crate) fn new(file: PathBuf, profile: Profile, idle: Duration) -> Runs {
        let inner = Inner { profile, open: 0, closed_at: Instant::now(), now: None, ends: false };
        Runs { file, idle, inner: Mutex::new(inner), changed: Condvar::new(), writing: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is opened. With the first one begins a run. Is a kept one followed?
    pub(crate) fn opened(&self, path: &Arc<str>) -> bool {
        let mut guard = self.inner();
        let inner = &mut *guard;
        inner.open += 1;
        if inner.now.is_none() {
            inner.profile.forget_paths();
            inner.now = Some(Now::begin());
        }
        let (Some(now), Some(file)) = (&mut inner.now, inner.profile.number(path)) else { return false };
        let is_new = now.opened.insert(file);
        if !is_new || now.following != Following::Unknown {
            return matches!(now.following, Following::Found | Following::Yes);
        }
        now.first.push(file);
        now.like = inner.profile.like(&now.first);
        if now.like.is_some() {
            now.following = Following::Found;
            drop(guard);
            self.changed.notify_one();
            return true;
        }
        if now.first.len() >= FIRST_FILES {
            now.following = Following::No;
        }
        false
    }

    /// A file is closed.
    pub(crate) fn closed(&self) {
        let mut inner = self.inner();
        inner.open = inner.open.saturating_sub(1);
        inner.closed_at = Instant::now();
        drop(inner);
        self.changed.notify_one();
    }

    /// A program, or the kernel ahead of it, reads.
    pub(crate) fn read(&self, path: &Arc<str>, offset: u64, length: u64) {
        let Some((first_page, pages)) = pages(offset, length) else { return };
        let mut guard = self.inner();
        let inner = &mut *guard;
        let Some(now) = &mut inner.now else { return };
        let Some(file) = inner.profile.number(path) else { return };
        let read = Read { file, first_page, pages };
        now.run.push(read, now.began.elapsed());
        let changed = now.following == Following::Yes && now.judge(read);
        drop(guard);
        if changed {
            self.changed.notify_one();
        }
    }

    /// It is unmounted: the run ends, and is in the profile. The thread ends when it comes to know it, which a store that does not
    /// answer may put off.
    pub(crate) fn end(&self, files: &Files) {
        let is_new = {
            let mut inner = self.inner();
            inner.ends = true;
            inner.ended()
        };
        self.changed.notify_one();
        self.write_if(is_new, files);
    }

    /// What the thread of the runs does until it is unmounted.
    pub(crate) fn follow(&self, files: &Files) {
        // What is disclosed stays open until the run has ended.
        let mut open: HashMap<Arc<str>, Object> = HashMap::new();
        while let Some(task) = self.next_task() {
            match task {
                Task::Disclose(list) => self.disclose(files, &list, &mut open),
                Task::GiveUp => files.withdraw(),
                Task::End { is_new } => {
                    files.withdraw();
                    open.clear();
                    self.write_if(is_new, files);
                }
            }
        }
    }

    /// Waits for something to do; `None` when all is done.
    fn next_task(&self) -> Option<Task> {
        let mut guard = self.inner();
        loop {
            let inner = &mut *guard;
            if inner.now.as_ref().is_some_and(|now| now.following == Following::Found) {
                return Some(Task::Disclose(inner.list()));
            }
            if inner.now.as_mut().is_some_and(Now::is_to_be_given_up) {
                return Some(Task::GiveUp);
            }
            let idle_for = (inner.open == 0).then(|| inner.closed_at.elapsed());
            if inner.ends || idle_for.is_some_and(|idle_for| idle_for >= self.idle) {
                if inner.ends {
                    return None;
                }
                if inner.now.is_some() {
                    return Some(Task::End { is_new: inner.ended() });
                }
            }
            let waits = inner.now.as_ref().and(idle_for).map(|idle_for| self.idle.saturating_sub(idle_for));
            guard = match waits {
                None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(waits) => {
                    let waited = self.changed.wait_timeout(guard, waits);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn disclose(&self, files: &Files, list: &[(Arc<str>, u64, u64)], open: &mut HashMap<Arc<str>, Object>) {
        for some in list.chunks(AT_ONCE) {
            if !self.goes_on() {
                return;
            }
            if !files.open_known(some.iter().map(|(path, ..)| path), open) {
                return;
            }
            let ranges: Vec<(&Object, u64, u64)> = some
                .iter()
                .filter_map(|(path, offset, length)| {
                    let object = open.get(path)?;
                    // It may be shorter by now.
                    let length = (*length).min(object.length().saturating_sub(*offset));
                    (length > 0).then_some((object, *offset, length))
                })
                .collect();
            // What is more than is taken comes unannounced.
            if !files.disclose(&ranges) {
                return;
            }
        }
    }

    /// Is the run that is being disclosed still under way?
    fn goes_on(&self) -> bool {
        let inner = self.inner();
        !inner.ends && inner.now.as_ref().is_some_and(|now| now.following == Following::Yes)
    }

    fn write_if(&self, is_new: bool, files: &Files) {
        if !is_new {
            return;
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for the disk under the other lock: what is written is a copy.
        let profile = self.inner().profile.clone();
        if let Err(error) = profile.write(&self.file) {
            files.complain(&error.to_string());
        }
    }
}

impl Inner {
    /// The run under way has ended, if there is one. Is there something to be written?
    fn ended(&mut self) -> bool {
        let Some(now) = self.now.take() else { return false };
        self.profile.keep(now.run, &now.opened, now.like)
    }

    /// What comes next in the run that the present one is like; it is followed from now on.
    fn list(&mut self) -> Vec<(Arc<str>, u64, u64)> {
        let Some(now) = &mut self.now else { return Vec::new() };
        now.following = Following::Yes;
        let Some(like) = now.like.and_then(|like| self.profile.run(like)) else { return Vec::new() };
        let left = like.without(&now.run.reads);
        now.left.clear();
        left.iter().for_each(|&read| *now.left.entry(read).or_default() += 1);
        let named = left.iter().filter_map(|read| {
            let path = self.profile.path(read.file)?.clone();
            Some((path, u64::from(read.first_page) * PAGE_BYTES, u64::from(read.pages) * PAGE_BYTES))
        });
        named.collect()
    }
}

impl Now {
    fn begin() -> Now {
        Now {
            began: Instant::now(),
            run: Run::default(),
            opened: HashSet::new(),
            first: Vec::new(),
            like: None,
            following: Following::Unknown,
            left: HashMap::new(),
            judged: 0,
            found: 0,
        }
    }

    /// Notes whether a read stood in the list; is it time to say that it does not go on so?
    fn judge(&mut self, read: Read) -> bool {
        let found = match self.left.get_mut(&read) {
            Some(times) if *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        };
        self.judged += 1;
        self.found += u32::from(found);
        if self.judged == JUDGED && self.found * 2 >= JUDGED {
            (self.judged, self.found) = (0, 0);
        }
        self.judged >= JUDGED
    }

    /// Once.
    fn is_to_be_given_up(&mut self) -> bool {
        let is_it = self.following == Following::Yes && self.judged >= JUDGED;
        if is_it {
            self.following = Following::No;
            self.left = HashMap::new();
        }
        is_it
    }
}
