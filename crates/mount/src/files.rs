//! The file system: the kernel's requests, answered from a pool.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use foretell_buffers::{Directive, Error, Object, Pool, Stamp};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, Notifier,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, Request,
};
use url::Url;

use crate::Options;
use crate::kept::Kept;
use crate::names::{Entry, Kind, Names, Node, ROOT};
use crate::runs::Runs;
use crate::walks::{Guess, Walks};

/// Files and directories that are open at a time: as many as a pool holds objects.
const MOST_OPEN: usize = 1 << 20;
/// No more than one line in so long, so that a store that is gone fills no log.
const QUIET: Duration = Duration::from_secs(1);
/// What the kernel is told of the number of a name that it has not looked up (`FUSE_UNKNOWN_INO` of libfuse).
const UNKNOWN: INodeNo = INodeNo(0xffff_ffff);
/// What programs are told is a good size to read.
const BLOCK_BYTES: u32 = 1 << 20;

/// Files of one directory for which it is listed.
const WORTH_LISTING: usize = 4;

/// What is open.
#[derive(Clone)]
enum Open {
    File(Object, Arc<str>),
    /// As it was listed when it was opened.
    Directory(Arc<Vec<Entry>>),
}

#[derive(Default)]
struct Opened {
    by_handle: HashMap<u64, Open>,
    next: u64,
}

/// The file system.
pub(crate) struct Files {
    pool: Pool,
    options: Options,
    names: Mutex<Names>,
    opened: Mutex<Opened>,
    kept: Mutex<Kept>,
    walks: Mutex<Walks>,
    /// What is read, if there is a profile.
    runs: Option<Arc<Runs>>,
    complained: Mutex<Option<Instant>>,
    /// By which the kernel is told that what it knows of a file is not true any more.
    kernel: Arc<OnceLock<Notifier>>,
    owner: (u32, u32),
}

impl Files {
    /// The files under the URL of the options, at which there must be some.
    pub(crate) fn new(pool: Pool, options: Options, runs: Option<Arc<Runs>>) -> Result<Files, Error> {
        let root = options.url.trim_end_matches('/').to_owned();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let files = Files {
            pool,
            names: Mutex::new(Names::new(&root, Instant::now())),
            options,
            opened: Mutex::default(),
            kept: Mutex::default(),
            walks: Mutex::default(),
            runs,
            complained: Mutex::default(),
            kernel: Arc::default(),
            owner,
        };
        for rule in &files.options.policies {
            files.pool.set_policy(rule.0, rule.1)?;
        }
        if files.list(&root)?.is_empty() {
            let is_object = files.pool.open(&root).is_ok();
            let why = "it is an object; a bucket, or what lies under a path in it, is mounted".to_owned();
            return Err(if is_object {
                Error::Failed { url: root, why }
            } else {
                Error::NotFound { url: root }
            });
        }
        Ok(files)
    }

    /// Where the kernel can be told something, once it is mounted.
    pub(crate) fn kernel(&self) -> Arc<OnceLock<Notifier>> {
        self.kernel.clone()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who mounted, unless somebody just was.
    pub(crate) fn complain(&self, line: &str) {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if complained.is_none_or(|at| at.elapsed() >= QUIET) {
            *complained = Some(Instant::now());
            (self.options.complain)(line);
        }
    }

    fn walks(&self) -> MutexGuard<'_, Walks> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a program gets for an error; what is not its own mistake is told to who mounted.
    fn errno(&self, error: &Error) -> Errno {
        if matches!(error, Error::NotFound { .. }) {
            return Errno::ENOENT;
        }
        self.complain(&error.to_string());
        match error {
            Error::Denied { .. } => Errno::EACCES,
            Error::Limit { .. } => Errno::ENFILE,
            _ => Errno::EIO,
        }
    }

    // ---- what the store has ----

    fn list(&self, url: &str) -> Result<Arc<Vec<Entry>>, Error> {
        if let Some((entries, _)) = self.names().listing(url, self.options.believed) {
            return Ok(entries);
        }
        let now = Instant::now();
        let found = self.pool.list(url, false)?;
        let mut entries: Vec<Entry> = found
            .into_iter()
            .filter_map(|entry| {
                let name = entry.path.rsplit('/').next().filter(|name| is_name(name))?.to_owned();
                Some(Entry { name, kind: entry.stamp.map_or(Kind::Directory, Kind::File) })
            })
            .collect();
        // A file and what lies under it as a directory may have one name; the file goes first.
        entries.sort_by(|one, other| {
            let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
            (&one.name, is_directory(one)).cmp(&(&other.name, is_directory(other)))
        });
        entries.dedup_by(|later, first| later.name == first.name);
        let entries = Arc::new(entries);
        self.names().keep(url, entries.clone(), now);
        Ok(entries)
    }

    /// What a name in a directory is, and since when that is known.
    fn find(&self, directory: &str, name: &str) -> Result<(String, Kind, Instant), Error> {
        let url = child(directory, name);
        let listed = self.names().listing(directory, self.options.believed);
        if let Some((entries, listed)) = listed {
            let at = entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
            let kind = at.ok().map(|at| entries[at].kind.clone());
            return kind.map(|kind| (url.clone(), kind, listed)).ok_or(Error::NotFound { url });
        }
        let now = Instant::now();
        let kind = self.ask(&url)?;
        Ok((url, kind, now))
    }

    /// Asks the store. An object goes first; what has others under it is a directory.
    fn ask(&self, url: &str) -> Result<Kind, Error> {
        match self.pool.open(url) {
            Ok(object) => Ok(Kind::File(object.stamp().clone())),
            Err(error) => match self.list(url) {
                Ok(entries) if !entries.is_empty() => Ok(Kind::Directory),
                _ => Err(error),
            },
        }
    }

    fn attributes(&self, number: u64, kind: &Kind) -> FileAttr {
        let (what, perm, size, modified) = match kind {
            Kind::Directory => (FileType::Directory, 0o555, 0, None),
            Kind::File(stamp) => (FileType::RegularFile, 0o444, stamp.length, stamp.modified),
        };
        let time = modified.unwrap_or(SystemTime::UNIX_EPOCH);
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: what,
            perm,
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }

    /// What a number is now, asked of the store if what is known is old.
    fn current(&self, number: u64) -> Result<Kind, Error> {
        let node = self.names().get(number).cloned();
        let node = node.ok_or_else(|| Error::NotFound { url: number.to_string() })?;
        if node.kind == Kind::Directory || node.known.elapsed() < self.options.believed {
            return Ok(node.kind);
        }
        let now = Instant::now();
        let kind = self.ask(&node.url)?;
        if kind == Kind::Directory {
            // It is no file any more; its name has to be looked up again.
            return Err(Error::Changed { url: node.url.to_string() });
        }
        if let Some(node) = self.names().get_mut(number) {
            (node.kind, node.known) = (kind.clone(), now);
        }
        Ok(kind)
    }

    // ---- what is known to come ----

    /// Opens what of these paths is there, but for those that are open already. Directories of which several are wanted are
    /// listed; of single files the store is asked for all at a time. `false` when the store fails: it need not be asked for more.
    pub(crate) fn open_known<'a>(
        &self,
        paths: impl Iterator<Item = &'a Arc<str>>,
        open: &mut HashMap<Arc<str>, Object>,
    ) -> bool {
        let root = self.names().get(ROOT).map(|node| node.url.clone()).unwrap_or_default();
        let mut by_directory: BTreeMap<&str, Vec<&Arc<str>>> = BTreeMap::new();
        let mut seen = HashSet::new();
        for path in paths.filter(|path| !open.contains_key(*path)) {
            if seen.insert(path) {
                let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                by_directory.entry(directory).or_default().push(path);
            }
        }
        let url_of = |path: &str| path.split('/').fold(root.to_string(), |url, name| child(&url, name));
        let mut alone = Vec::new();
        for (directory, paths) in by_directory {
            let url = if directory.is_empty() { root.to_string() } else { url_of(directory) };
            let is_known = self.names().listing(&url, self.options.believed).is_some();
            if !is_known && paths.len() < WORTH_LISTING {
                alone.extend(paths);
                continue;
            }
            let entries = match self.list(&url) {
                Ok(entries) => entries,
                // What is not there any more is not read any more.
                Err(Error::NotFound { .. }) => continue,
                Err(_) => return false,
            };
            for path in paths {
                let name = path.rsplit_once('/').map_or(&**path, |(_, name)| name);
                let Ok(at) = entries.binary_search_by(|entry| entry.name.as_str().cmp(name)) else {
                    continue;
                };
                if let Kind::File(stamp) = &entries[at].kind
                    && let Ok(object) = self.open_object(&child(&url, name).into(), path, stamp.clone())
                {
                    open.insert(path.clone(), object);
                }
            }
        }
        let urls: Vec<String> = alone.iter().map(|path| url_of(path)).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let Ok(objects) = self.pool.open_all(&urls) else { return false };
        for (path, object) in alone.into_iter().zip(objects) {
            match object {
                Ok(object) => {
                    if let Ok(object) = self.open_object(&object.url().into(), path, object.stamp().clone()) {
                        open.insert(path.clone(), object);
                    }
                }
                Err(Error::NotFound { .. }) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// A file was opened of which nothing is known that comes behind it: what does if somebody goes through its directory.
    fn guess(&self, url: &str, path: &str) {
        let Some(directory) = parent(url) else { return };
        let Some((entries, _)) = self.names().listing(&directory, self.options.believed) else { return };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Ok(at) = entries.binary_search_by(|entry| entry.name.as_str().cmp(name)) else { return };
        let Kind::File(Stamp { length, .. }) = entries[at].kind else { return };
        let guess = self.walks().opened(&directory.as_str().into(), at, entries.len(), length);
        let (next, of_each) = match guess {
            Guess::Nothing => return,
            Guess::Withdraw => return self.withdraw(),
            Guess::Next(next, of_each) => (next, of_each),
        };
        let files = entries[next].iter().filter_map(|entry| {
            let Kind::File(stamp) = &entry.kind else { return None };
            let (url, path) = (child(&directory, &entry.name), below(folder, &entry.name));
            self.open_object(&url.into(), &path, stamp.clone()).ok()
        });
        let files: Vec<Object> = files.collect();
        let ranges: Vec<_> = files.iter().map(|object| (object, 0, object.length().min(of_each))).collect();
        self.disclose(&ranges);
    }

    /// Discloses; `false` if not all of it was taken.
    pub(crate) fn disclose(&self, ranges: &[(&Object, u64, u64)]) -> bool {
        self.pool.disclose(ranges).is_ok_and(|taken| taken == ranges.len())
    }

    pub(crate) fn withdraw(&self) {
        // After a fork there is nothing to withdraw.
        let _ = self.pool.cancel();
        self.walks().forget_told();
    }

    // ---- what is open ----

    fn keep_open(&self, open: Open) -> Result<FileHandle, Errno> {
        let mut opened = self.opened();
        if opened.by_handle.len() >= MOST_OPEN {
            return Err(Errno::ENFILE);
        }
        opened.next += 1;
        let handle = opened.next;
        opened.by_handle.insert(handle, open);
        Ok(FileHandle(handle))
    }

    fn open_file(&self, number: u64) -> Result<(FileHandle, FopenFlags), Errno> {
        let kind = self.current(number).map_err(|error| self.errno(&error))?;
        let Kind::File(stamp) = kind else { return Err(Errno::EISDIR) };
        let node = self.names().get(number).cloned().ok_or(Errno::ENOENT)?;
        let Node { url, path, .. } = node;
        let object = self.open_object(&url, &path, stamp.clone()).map_err(|error| self.errno(&error))?;
        let handle = self.keep_open(Open::File(object, path.clone()))?;
        let is_followed = self.runs.as_ref().is_some_and(|runs| runs.opened(&path));
        if !is_followed {
            self.guess(&url, &path);
        }
        let before = self.names().get_mut(number).and_then(|node| node.cached.replace(stamp.clone()));
        // What the kernel has in its page cache is of the same state, or is dropped.
        let is_same = before.is_some_and(|before: Stamp| before.is_same(&stamp));
        Ok((handle, if is_same { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() }))
    }

    /// Opens an object in this state, and keeps it open.
    fn open_object(&self, url: &Arc<str>, path: &str, stamp: Stamp) -> Result<Object, Error> {
        let object = self.pool.open_listed(url, stamp)?;
        if let Some(priority) = (self.options.priority)(path) {
            object.direct(Directive::Priority(priority))?;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = kept.keep(url, object.clone());
        drop(kept);
        drop(closed);
        Ok(object)
    }

    fn read_file(&self, number: u64, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let Some(Open::File(object, path)) = self.opened().by_handle.get(&handle.0).cloned() else {
            return Err(Errno::EBADF);
        };
        let length = u64::from(size).min(object.length().saturating_sub(offset));
        if let Some(runs) = &self.runs {
            runs.read(&path, offset, length);
        }
        if let Some(directory) = parent(object.url()) {
            self.walks().read(&directory, offset + length);
        }
        let mut bytes = vec![0; length as usize];
        object.read_at(&mut bytes, offset).map_err(|error| {
            if matches!(error, Error::Changed { .. } | Error::Damaged { .. }) {
                self.forget_state(number);
            }
            self.errno(&error)
        })?;
        Ok(bytes)
    }

    /// Who opens a file again gets its new state.
    fn forget_state(&self, number: u64) {
        let long_ago = Instant::now().checked_sub(self.options.believed);
        if let (Some(node), Some(long_ago)) = (self.names().get_mut(number), long_ago) {
            node.known = long_ago;
        }
        if let Some(kernel) = self.kernel.get() {
            // Its length and times, but not its bytes, which somebody may be waiting for.
            let _ = kernel.inval_inode(INodeNo(number), -1, 0);
        }
    }
}

/// Can the kernel have it for a name?
fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('\0')
}

/// The URL of the directory that a URL's last name is in, as [`child`] has it.
fn parent(url: &str) -> Option<String> {
    let at = url.rfind('/')?;
    Some(url[..at].to_owned())
}

/// The URL of a name in a directory.
fn child(directory: &str, name: &str) -> String {
    match Url::parse(directory) {
        Ok(mut url) => {
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop_if_empty().push(name);
            }
            url.into()
        }
        // It was parsed when it was mounted.
        Err(_) => format!("{directory}/{name}"),
    }
}

/// The path of a name in a directory.
fn below(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The file system, as the kernel is answered from it.
pub(crate) struct Served(pub(crate) Arc<Files>);

impl std::ops::Deref for Served {
    type Target = Files;
    fn deref(&self) -> &Files {
        &self.0
    }
}

impl Filesystem for Served {
    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let directory = self.names().get(parent.0).cloned();
        // Keys are UTF-8: there is no such name.
        let (Some(directory), Some(name)) = (directory, name.to_str()) else {
            return reply.error(Errno::ENOENT);
        };
        let path = below(&directory.path, name);
        match self.find(&directory.url, name) {
            Ok((url, kind, known)) => match self.names().look_up(&url, &path, kind.clone(), known) {
                Some(number) => {
                    let attributes = self.attributes(number, &kind);
                    reply.entry(&self.options.believed, &attributes, Generation(0));
                }
                None => reply.error(Errno::ENFILE),
            },
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.names().forget(inode.0, lookups);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.current(inode.0) {
            Ok(kind) => reply.attr(&self.options.believed, &self.attributes(inode.0, &kind)),
            Err(error) => reply.error(self.errno(&error)),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(inode.0) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(inode.0, handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let closed = self.opened().by_handle.remove(&handle.0);
        if let (Some(Open::File(..)), Some(runs)) = (&closed, &self.runs) {
            runs.closed();
        }
        drop(closed);
        reply.ok();
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let Some(url) = self.names().get(inode.0).map(|node| node.url.clone()) else {
            return reply.error(Errno::ENOENT);
        };
        let opened = self.list(&url).map_err(|error| self.errno(&error));
        match opened.and_then(|entries| self.keep_open(Open::Directory(entries))) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(Open::Directory(entries)) = self.opened().by_handle.get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        let dots = [(inode, "."), (if inode.0 == ROOT { inode } else { UNKNOWN }, "..")];
        let dots = dots.into_iter().map(|(number, name)| (number, FileType::Directory, name));
        let others = entries.iter().map(|entry| {
            let is_directory = entry.kind == Kind::Directory;
            let kind = if is_directory { FileType::Directory } else { FileType::RegularFile };
            (UNKNOWN, kind, entry.name.as_str())
        });
        for (at, (number, kind, name)) in (1..).zip(dots.chain(others)).skip(offset as usize) {
            if reply.add(number, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.opened().by_handle.remove(&handle.0);
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_into_urls_and_what_is_no_name_is_left_out() {
        assert_eq!(child("s3://bucket", "a b"), "s3://bucket/a%20b");
        assert_eq!(child("s3://bucket/c", "50%?#"), "s3://bucket/c/50%25%3F%23");
        assert_eq!(child("file:///tmp/", "x"), "file:///tmp/x");
        for (directory, name) in [("s3://bucket", "a b"), ("s3://bucket/c", "50%?#"), ("file:///tmp", "x")] {
            assert_eq!(parent(&child(directory, name)).as_deref(), Some(directory));
        }
        assert!(["", ".", "..", "a\0b"].iter().all(|name| !is_name(name)));
        assert!(is_name("..."));
    }
}
