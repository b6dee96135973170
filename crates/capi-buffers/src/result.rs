//! From results to return values, `errno`, and the line that says why.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use foretell_buffers::Error;
use libc::c_int;

thread_local! {
    /// What the last call of this thread that failed said.
    static LINE: RefCell<CString> = RefCell::default();
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    line: String,
}

impl Failure {
    /// A mistake in a call.
    pub(crate) fn mistake(line: &str) -> Failure {
        Failure { errno: libc::EINVAL, line: line.to_owned() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        use Error as E;
        let errno = match &error {
            E::NotFound { .. } => libc::ENOENT,
            E::Denied { .. } => libc::EACCES,
            E::Changed { .. } => libc::ESTALE,
            E::TimedOut { .. } => libc::ETIMEDOUT,
            E::Limit { .. } => libc::ENOSPC,
            E::NoMemory { .. } => libc::ENOMEM,
            E::NoThreads { .. } => libc::EAGAIN,
            E::Host { .. } => libc::ENOTCONN,
            E::Forked => libc::EPERM,
            E::Interrupted => libc::EINTR,
            E::BudgetBelowPart { .. }
            | E::Outside { .. }
            | E::HalfADisk
            | E::NotAUrl { .. }
            | E::UnknownScheme { .. }
            | E::UnknownOption { .. }
            | E::Store { .. }
            | E::OtherPool { .. }
            | E::PastEnd { .. } => libc::EINVAL,
            _ => libc::EIO,
        };
        Failure { errno, line: error.to_string() }
    }
}

/// What a call comes to; `None` with `errno` and the line where it failed or panicked. A call that succeeds leaves both as they
/// were.
pub(crate) fn guarded<T>(act: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    // SAFETY: the address of this thread's errno, which is always there.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else uses it during the call.
    let before = unsafe { errno.read() };
    // What a panic may leave half done is the pool's state, which is plain data under a lock of its own.
    let result = catch_unwind(AssertUnwindSafe(act));
    let bug = || Failure { errno: libc::EIO, line: "a mistake of this library".to_owned() };
    let result = result.unwrap_or_else(|_| Err(bug()));
    let after = match &result {
        Ok(_) => before,
        Err(failure) => {
            let line = CString::new(failure.line.replace('\0', " ")).unwrap_or_default();
            // A thread that ends has no line any more.
            let _ = LINE.try_with(|last| last.replace(line));
            failure.errno
        }
    };
    // SAFETY: as above.
    unsafe { errno.write(after) };
    result.ok()
}

/// 0, or -1 with `errno`.
pub(crate) fn done(act: impl FnOnce() -> Result<(), Failure>) -> c_int {
    guarded(act).map_or(-1, |()| 0)
}

/// The line of the last failure.
pub(crate) fn line() -> *const c_char {
    let empty: &CStr = c"";
    LINE.try_with(|line| line.borrow().as_ptr()).unwrap_or(empty.as_ptr())
}
