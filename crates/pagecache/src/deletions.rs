//! Deleted files that we have open are told of at once, so that their space is freed.
//!
//! A program may delete a file and write another one in its place on a disk that has no room for both. Who looks at some
//! files every now and then hears of it after seconds, where there are thousands. So the kernel tells (inotify(7)) when
//! one of a file's names is gone, which reaches who has no right to look into its directory as well.
//!
//! What a user may watch is shared with the user's programs: of that no more than a part is taken, and of further files
//! it is heard as before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foretell_policy::FileId;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};

use crate::own_mounts;

/// One in so many of those that a user may watch.
const SHARE: usize = 4;
const MOST: usize = 1 << 16;
const LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";
/// Room for what is told at once.
const TOLD_BYTES: usize = 4096;
/// What is told in one round of the loop; what is more is still there in the next one. Who changes files all the time keeps it from
/// nothing else.
const TOLD_A_ROUND: usize = 256;

/// What is told of files that are open.
#[derive(Debug, Default)]
pub(crate) struct Deletions(Option<Arc<Watching>>);

#[derive(Debug)]
struct Watching {
    inotify: OwnedFd,
    most: usize,
    /// The file of each watch.
    files: Mutex<BTreeMap<i32, FileId>>,
}

/// A file is watched as long as this is there.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Watching>, i32);

impl Watching {
    fn files(&self) -> MutexGuard<'_, BTreeMap<i32, FileId>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.files().remove(&self.1);
        // Of a deleted file the kernel has done so by itself.
        let _ = remove_watch(&self.0.inotify, self.1);
    }
}

impl Deletions {
    /// Where nothing can be watched, or it is not asked for, nothing is told.
    pub(crate) fn start() -> Deletions {
        if own_mounts::are_wanted() { Deletions::watching() } else { Deletions::default() }
    }

    fn watching() -> Deletions {
        let watching = || {
            let limit: usize = fs::read_to_string(LIMIT).ok()?.trim().parse().ok()?;
            let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            Some(Watching { inotify, most: (limit / SHARE).min(MOST), files: Mutex::default() })
        };
        Deletions(watching().map(Arc::new))
    }

    /// Watches an open file from now on, if there is room.
    pub(crate) fn watch(&self, open: &File, file: FileId) -> Option<Watched> {
        let watching = self.0.as_ref()?;
        if watching.files().len() >= watching.most {
            return None;
        }
        let link = format!("/proc/self/fd/{}", open.as_raw_fd());
        let watch = add_watch(&watching.inotify, link, WatchFlags::ATTRIB).ok()?;
        watching.files().insert(watch, file);
        Some(Watched(Arc::clone(watching), watch))
    }

    /// To be waited for: readable when something is told.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_ref()?.inotify.as_fd())
    }

    /// Files of which a name is gone, or something else has changed that stands in the inode: some of them.
    pub(crate) fn told(&self) -> Vec<FileId> {
        let Some(watching) = &self.0 else { return Vec::new() };
        let mut room = [const { MaybeUninit::uninit() }; TOLD_BYTES];
        let mut reader = Reader::new(&watching.inotify, &mut room);
        let mut told = Vec::new();
        let mut events = 0;
        // What has been read is told in any case: it is nowhere else.
        while (events < TOLD_A_ROUND || !reader.is_buffer_empty())
            && let Ok(event) = reader.next()
        {
            events += 1;
            told.extend(watching.files().get(&event.wd()));
        }
        told.dedup();
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_of_when_it_is_deleted_or_replaced_and_while_it_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let deletions = Deletions::watching();
        let make = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "x").unwrap();
            (File::open(&path).unwrap(), path)
        };
        let ((first, first_path), (second, second_path), (third, third_path)) =
            (make("1"), make("2"), make("3"));
        let _first = deletions.watch(&first, FileId(1)).unwrap();
        let _second = deletions.watch(&second, FileId(2)).unwrap();
        let third = deletions.watch(&third, FileId(3)).unwrap();
        fs::read(&first_path).unwrap();
        assert_eq!(deletions.told(), []);
        fs::remove_file(first_path).unwrap();
        fs::rename(make("4").1, second_path).unwrap();
        drop(third);
        fs::remove_file(third_path).unwrap();
        assert_eq!(deletions.told(), [FileId(1), FileId(2)]);
    }

    #[test]
    fn of_much_that_happens_some_is_told_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let deletions = Deletions::watching();
        let (one, other) =
            (File::create(dir.path().join("1")).unwrap(), File::create(dir.path().join("2")).unwrap());
        let _watched =
            [deletions.watch(&one, FileId(1)).unwrap(), deletions.watch(&other, FileId(2)).unwrap()];
        // Of the same file in a row the kernel tells once.
        for _ in 0..TOLD_A_ROUND {
            for file in [&one, &other] {
                file.set_permissions(file.metadata().unwrap().permissions()).unwrap();
            }
        }
        let told: Vec<usize> =
            std::iter::from_fn(|| Some(deletions.told().len()).filter(|told| *told > 0)).collect();
        assert_eq!(told, [TOLD_A_ROUND; 2]);
    }
}
