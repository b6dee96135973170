//! Errors of the library as exceptions.

use foretell_client::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// An error of [`foretell_client`], on its way to Python. Only ever a mistake of the caller: that there is no
/// service, or a busy one, is none.
pub(crate) struct Failure(pub(crate) Error);

impl From<Failure> for PyErr {
    fn from(Failure(error): Failure) -> PyErr {
        match error {
            Error::Descriptor(ref cause) => {
                PyOSError::new_err((cause.raw_os_error().unwrap_or_default(), "file: not an open descriptor"))
            }
            Error::NotAFile | Error::NotReadable => PyValueError::new_err(format!("file: {error}")),
            Error::Range { .. } | Error::Levels(_) | Error::Files(_) => {
                PyValueError::new_err(error.to_string())
            }
        }
    }
}
