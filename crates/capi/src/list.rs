//! The list of files that a thread has begun.

use std::cell::RefCell;

use foretell_client::FileList;

use crate::CLIENT;
use crate::result::Failure;

thread_local! {
    /// The list, and how many files it holds at most.
    static LIST: RefCell<Option<(FileList<'static>, usize)>> = const { RefCell::new(None) };
}

/// Begins a list, in place of one that has begun already.
pub(crate) fn start(most: usize) {
    let most = if most == 0 { usize::MAX } else { most };
    LIST.set(Some((CLIENT.file_list(), most)));
}

/// Ends the list, and discloses it.
pub(crate) fn end() -> Result<usize, Failure> {
    let (list, most) = LIST.take().ok_or(Failure(libc::EINVAL))?;
    Ok(list.end_at(most))
}
