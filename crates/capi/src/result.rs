//! From results to return values and `errno`, which a call that succeeds leaves as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};

use foretell_client::Error;
use libc::{c_int, ssize_t};

/// A value of `errno`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure(pub(crate) c_int);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(match error {
            Error::Descriptor(error) => error.raw_os_error().unwrap_or(libc::EBADF),
            // As read(2) has it for a descriptor that is not open for reading.
            Error::NotReadable => libc::EBADF,
            Error::NotAFile | Error::Range { .. } => libc::EINVAL,
            Error::Levels(_) | Error::Files(_) => libc::ENOSPC,
        })
    }
}

/// What a call gives back: -1 with `errno` where it failed or panicked.
fn guarded<T>(act: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    // SAFETY: the address of this thread's errno, which is always there.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else uses it during the call.
    let before = unsafe { errno.read() };
    // What a panic may leave half done is the client's state, which is plain data under a lock of its own.
    let result = catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Failure(libc::EIO)));
    let after = result.as_ref().err().map_or(before, |failure| failure.0);
    // SAFETY: as above.
    unsafe { errno.write(after) };
    result.ok()
}

/// 0, or -1 with `errno`.
pub(crate) fn done(act: impl FnOnce() -> Result<(), Failure>) -> c_int {
    guarded(act).map_or(-1, |()| 0)
}

/// A number, or -1 with `errno`.
pub(crate) fn count(act: impl FnOnce() -> Result<usize, Failure>) -> ssize_t {
    guarded(act).map_or(-1, |number| ssize_t::try_from(number).unwrap_or(ssize_t::MAX))
}

/// 1 or 0; a panic counts as 0.
pub(crate) fn flag(act: impl FnOnce() -> bool) -> c_int {
    guarded(|| Ok(act())).map_or(0, c_int::from)
}
