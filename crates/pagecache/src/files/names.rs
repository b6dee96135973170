//! What files are called, and how much of that is kept.
//!
//! A path that a client's file has counts for its user, with the bytes that it has when the file is named. It may become longer
//! later, by another name of a directory above it, of which nobody is told: 32,768 files in one directory are 130 MB more. And
//! the path of an orphan counts for nobody. So neither keeps more than it was counted with, or than its other records take.

use std::fs::File;
use std::path::PathBuf;

use foretell_policy::FileId;

use super::FileTable;
use crate::file_at;

/// Bytes of a path that are kept whoever has named the file.
pub(super) const SHORT: usize = 256;

impl FileTable {
    /// A file has another name now, which is kept unless it is too long.
    pub(super) fn moved(&mut self, file: FileId, path: PathBuf) {
        let Some(managed) = self.get_mut(file) else { return };
        let room = if managed.account == 0 { usize::MAX } else { managed.name_room.max(SHORT) };
        if path == managed.path || path.as_os_str().len() > room {
            return;
        }
        self.call(file, path);
    }

    /// A client has named a file that is under control.
    pub(crate) fn named(&mut self, file: FileId, there: &File) {
        // While others name it its path is what it was counted with for them.
        let Some(managed) = self.get_mut(file).filter(|managed| managed.holders == 0) else { return };
        let path = file_at::path_of(there).filter(|path| *path != managed.path && !managed.layered);
        if let Some(path) = path {
            managed.name_room = path.as_os_str().len();
            self.call(file, path);
        }
    }

    /// Nobody is interested any more in a file that a client has named.
    pub(super) fn forget_long_name(&mut self, file: FileId) {
        let Some(managed) = self.get_mut(file).filter(|managed| managed.account != 0) else { return };
        managed.name_room = 0;
        if managed.path.as_os_str().len() > SHORT {
            self.call(file, PathBuf::new());
        }
    }

    fn call(&mut self, file: FileId, path: PathBuf) {
        let Some(managed) = self.slots.get_mut(file.0 as usize).and_then(Option::as_mut) else { return };
        let old = std::mem::replace(&mut managed.path, path.clone());
        if self.by_path.get(&old) == Some(&file) {
            self.by_path.remove(&old);
        }
        if !path.as_os_str().is_empty() {
            self.by_path.insert(path, file);
        }
    }
}
