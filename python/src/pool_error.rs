//! What goes wrong with a pool, as exceptions of Python, and what ends a wait for one.

use std::cell::RefCell;

use foretell_buffers as buffers;
use pyo3::exceptions::{
    PyConnectionError, PyFileNotFoundError, PyInterruptedError, PyMemoryError, PyOSError, PyPermissionError,
    PyRuntimeError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;

pyo3::create_exception!(
    foretell._native,
    ChangedError,
    PyOSError,
    "An object is another one than when it was opened: open it again."
);

pyo3::create_exception!(
    foretell._native,
    DamagedError,
    PyOSError,
    "Bytes of an object have another checksum than was stored with them: open it again, or write it anew."
);

thread_local! {
    /// What a handler of a signal raised while this thread waited.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Has Python's handlers of signals run, of which only the main thread has any: Ctrl-C ends a wait.
pub(crate) fn keep_waiting() -> bool {
    let raised = Python::attach(|py| py.check_signals()).err();
    let goes_on = raised.is_none();
    RAISED.set(raised);
    goes_on
}

/// An error of the pool, on its way to Python.
pub(crate) struct Failure(pub(crate) buffers::Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> PyErr {
        use buffers::Error as E;
        let line = error.to_string();
        match error {
            E::Interrupted => RAISED.take().unwrap_or_else(|| PyInterruptedError::new_err(line)),
            E::NotFound { .. } => PyFileNotFoundError::new_err(line),
            E::Denied { .. } => PyPermissionError::new_err(line),
            E::TimedOut { .. } => PyTimeoutError::new_err(line),
            E::Changed { .. } => ChangedError::new_err(line),
            E::Damaged { .. } => DamagedError::new_err(line),
            E::BudgetBelowPart { .. }
            | E::Outside { .. }
            | E::HalfADisk
            | E::NotAUrl { .. }
            | E::UnknownScheme { .. }
            | E::UnknownOption { .. }
            | E::OtherPool { .. }
            | E::PastEnd { .. } => PyValueError::new_err(line),
            E::Host { .. } => PyConnectionError::new_err(line),
            E::NoMemory { .. } => PyMemoryError::new_err(line),
            E::Forked | E::NoThreads { .. } => PyRuntimeError::new_err(line),
            _ => PyOSError::new_err(line),
        }
    }
}
