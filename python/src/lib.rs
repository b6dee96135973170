//! The native half of the Python package `foretell`: `foretell._native`.
//!
//! Python's arguments become those of [`foretell_client`], and its errors become Python's. What is said
//! about files and blocks, and when nothing happens, is said there; what is only about Python is here:
//!
//! - `file`: a descriptor or anything with `fileno()` names a file.
//! - `number`: priorities, offsets and lengths, with errors that name the argument.
//! - `ranges`: iterables become ranges of bytes, `array` does it for NumPy's arrays. Everything is checked
//!   before anything is disclosed.
//! - `failure`: errors of the library as exceptions.
//! - `memory`: memory that Python names by its address.
//! - `pool`, `object`, `pool_error`: pools of buffers, which need no service ([`foretell_buffers`]).
//!
//! **One client a process.** A connection is what the service takes for one manager, so all threads and
//! modules share `CLIENT`; a forked child finds its own in the same place.
//!
//! **The interpreter's lock.** A call takes a microsecond or less, and letting go of the lock may cost five
//! milliseconds if another thread takes it: so it is held, except for lists of more than
//! `LONG_CALL_RANGES` and where calls reach the disk (`FORETELL_FALLBACK=fadvise`). The library's own lock
//! is never held while Python code runs: lists are read from Python before the call.

mod array;
mod failure;
mod file;
mod memory;
mod number;
mod object;
mod pool;
mod pool_error;
mod ranges;

use std::sync::{LazyLock, Mutex, PoisonError};

use foretell_client::{Client, Fallback, FileList, Options, Policy};
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::file::OpenFile;
use crate::number::span;

/// The client of this process. Connects at the first call.
static CLIENT: Client = Client::new();

/// Ranges from which on a call lets other Python threads run: about 0.1 ms.
const LONG_CALL_RANGES: usize = 2048;

/// Do calls reach the disk? What the client does without a service is settled by the same variable.
static READS_AHEAD_ITSELF: LazyLock<bool> =
    LazyLock::new(|| Options::from_environment().fallback == Fallback::Fadvise);

/// Runs a call of the library, without the interpreter's lock if that may take long.
fn call<T: Send>(py: Python<'_>, ranges: usize, act: impl FnOnce() -> T + Send) -> T {
    if ranges > LONG_CALL_RANGES || *READS_AHEAD_ITSELF { py.detach(act) } else { act() }
}

/// What `package/foretell/__init__.py` builds on.
#[pymodule]
mod _native {
    use pyo3::exceptions::{PyTypeError, PyValueError};
    use pyo3::types::PyString;

    use super::*;

    #[pymodule_export]
    use crate::object::{Lease, Object, Stamp};
    #[pymodule_export]
    use crate::pool::{Pool, Statistics};
    #[pymodule_export]
    use crate::pool_error::{ChangedError, DamagedError};

    /// Bytes of a block, the unit of caching.
    #[pymodule_export]
    const BLOCK_BYTES: u64 = ranges::BLOCK_BYTES;

    /// Most elements that one call takes from an iterable.
    #[pymodule_export]
    const MOST_RANGES: usize = ranges::MOST_RANGES;

    /// Disclose what will be read next of a file, in this order, after all that was disclosed before.
    ///
    /// file: an open file or its descriptor. It may be closed afterwards.
    /// ranges: an array of block numbers, shape (n,), or of offsets and lengths in bytes, shape (n, 2); or any
    ///     iterable of block numbers and (offset, length) pairs. None means the whole file.
    /// block_bytes: the size of the blocks that are numbered, if not BLOCK_BYTES.
    ///
    /// Returns how many ranges were taken; a whole file counts as one. It is fewer than were given when the
    /// service does not keep up: the rest may be disclosed later. Never waits for the service, and does
    /// nothing without one.
    ///
    /// Raises TypeError or ValueError, before anything is disclosed, for what is no file or no range.
    #[pyfunction]
    #[pyo3(signature = (file, ranges=None, *, block_bytes=None))]
    fn disclose(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        ranges: Option<&Bound<'_, PyAny>>,
        block_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let file = OpenFile::named("file", file)?;
        let block_bytes = block_bytes.map_or(Ok(ranges::BLOCK_BYTES), number::block_bytes)?;
        let Some(ranges) = ranges else {
            return Ok(call(py, 1, || CLIENT.disclose_files([file.descriptor()])).map_err(Failure)?);
        };
        ranges::read(ranges, block_bytes, |part| {
            let disclose = || CLIENT.disclose(file.descriptor(), part.iter().cloned());
            Ok(call(py, part.len(), disclose).map_err(Failure)?)
        })
    }

    /// Disclose parts of several files that will be read in this order: an iterable of (file, offset, length).
    ///
    /// Returns how many were taken, like disclose(). The files may be closed afterwards.
    #[pyfunction]
    fn disclose_list(py: Python<'_>, chunks: &Bound<'_, PyAny>) -> PyResult<usize> {
        let chunks = ranges::read_chunks(chunks)?;
        let list =
            || CLIENT.disclose_list(chunks.iter().map(|(file, range)| (file.descriptor(), range.clone())));
        Ok(call(py, chunks.len(), list).map_err(Failure)?)
    }

    /// Disclose files that will be read in this order, each from beginning to end: an iterable of open files.
    ///
    /// Returns how many were taken, like disclose(). The files may be closed afterwards.
    #[pyfunction]
    fn disclose_files(py: Python<'_>, files: &Bound<'_, PyAny>) -> PyResult<usize> {
        let files = ranges::read_files(files)?;
        let list = || CLIENT.disclose_files(files.iter().map(OpenFile::descriptor));
        Ok(call(py, files.len(), list).map_err(Failure)?)
    }

    /// Withdraw all that this process has disclosed and not read yet.
    #[pyfunction]
    fn cancel() {
        CLIENT.cancel();
    }

    /// Say that a part of a file will not be read again: its blocks are the first to be replaced.
    ///
    /// file: an open file or its descriptor.
    /// offset, length: the part, in bytes; without a length, up to the end. A block belongs to the part that
    ///     holds the block's last byte, so that a program may give up what it has read in pieces of any size.
    #[pyfunction]
    #[pyo3(signature = (file, offset=None, length=None), text_signature = "(file, offset=0, length=None)")]
    fn done_with(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
        length: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let file = OpenFile::named("file", file)?;
        let range = span(offset, length)?;
        Ok(call(py, 1, || CLIENT.done_with(file.descriptor(), range)).map_err(Failure)?)
    }

    /// Set the priority of a file's blocks, 0 unless set. Blocks of lower priority are replaced first.
    #[pyfunction]
    fn set_priority(file: &Bound<'_, PyAny>, priority: &Bound<'_, PyAny>) -> PyResult<()> {
        let file = OpenFile::named("file", file)?;
        Ok(CLIENT.set_priority(file.descriptor(), number::priority(priority)?).map_err(Failure)?)
    }

    /// The priority of a file as this process has set it.
    #[pyfunction]
    fn get_priority(file: &Bound<'_, PyAny>) -> PyResult<i32> {
        let file = OpenFile::named("file", file)?;
        Ok(CLIENT.priority(file.descriptor()).map_err(Failure)?)
    }

    /// Set which block of a priority level is replaced first: "lru", the default, "mru", or another one by its name.
    #[pyfunction]
    fn set_policy(priority: &Bound<'_, PyAny>, policy: &Bound<'_, PyAny>) -> PyResult<()> {
        let priority = number::priority(priority)?;
        let needed = |given: String| {
            let names: Vec<String> = Policy::names().map(|name| format!("'{name}'")).collect();
            format!("policy: one of {} is needed, not {given}", names.join(", "))
        };
        let Ok(name) = policy.cast::<PyString>() else {
            return Err(PyTypeError::new_err(needed(format!("'{}'", number::type_name(policy)))));
        };
        let known = Policy::all().iter().find(|known| name.to_cow().is_ok_and(|n| n == known.name()));
        let Some(&policy) = known else {
            return Err(PyValueError::new_err(needed(name.repr()?.to_string())));
        };
        Ok(CLIENT.set_policy(priority, policy).map_err(Failure)?)
    }

    /// The policy of a priority level as this process has set it.
    #[pyfunction]
    fn get_policy(priority: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        Ok(CLIENT.policy(number::priority(priority)?).name())
    }

    /// Give those blocks of a part of a file that are cached now another priority, until each is referenced
    /// or replaced.
    ///
    /// file: an open file or its descriptor.
    /// offset, length: the part, in bytes; a length of None means up to the end. A block belongs to the part
    ///     that holds the block's last byte.
    #[pyfunction]
    fn temporary_priority(
        file: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        length: Option<&Bound<'_, PyAny>>,
        priority: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let file = OpenFile::named("file", file)?;
        let range = span(Some(offset), length)?;
        let priority = number::priority(priority)?;
        Ok(CLIENT.set_temporary_priority(file.descriptor(), range, priority).map_err(Failure)?)
    }

    /// Is there a connection to a service at present? Tries to connect if it is time for it; never waits.
    #[pyfunction]
    fn connected() -> bool {
        CLIENT.is_connected()
    }

    /// The numbers of foretell.Stats, in its order.
    #[pyfunction]
    fn stats() -> (bool, [u64; 19]) {
        let stats = CLIENT.stats();
        let service = stats.statistics;
        let numbers = [
            stats.sent,
            stats.dropped,
            service.entries_taken,
            service.entries_refused,
            service.disclosed,
            service.disclosed_ahead,
            service.owned,
            service.references,
            service.hits,
            service.demand_fetches,
            service.prefetches,
            service.prefetches_useful,
            service.prefetches_late,
            service.prefetches_wasted,
            service.evictions,
            service.consulted,
            service.overruled,
            service.placeholders_used,
            service.revoked,
        ];
        (stats.connected, numbers)
    }

    /// The files that are opened from now on.
    #[pyclass(frozen)]
    struct OpenedFiles {
        list: Mutex<Option<FileList<'static>>>,
    }

    #[pymethods]
    impl OpenedFiles {
        #[new]
        fn new() -> OpenedFiles {
            OpenedFiles { list: Mutex::new(Some(CLIENT.file_list())) }
        }

        /// Disclose those that are still open, once. Returns how many were taken.
        fn disclose(&self) -> usize {
            let list = self.list.lock().unwrap_or_else(PoisonError::into_inner).take();
            list.map_or(0, FileList::end)
        }
    }
}
