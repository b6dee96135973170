//! What names a file in Python: its descriptor, or anything with `fileno()`.

#![allow(unsafe_code)]

use std::fmt::Display;
use std::os::fd::{BorrowedFd, RawFd};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::number;

/// An open file, for the length of a call.
pub(crate) struct OpenFile {
    number: RawFd,
    /// Kept so that it is not collected, and its descriptor closed, before the call is over.
    _object: Py<PyAny>,
}

impl OpenFile {
    /// The file that an argument is. `name` is what errors call it.
    pub(crate) fn named(name: impl Display, argument: &Bound<'_, PyAny>) -> PyResult<OpenFile> {
        if let Ok(number) = argument.cast::<PyInt>()
            && !argument.is_instance_of::<PyBool>()
        {
            return OpenFile::numbered(name, number, argument);
        }
        let py = argument.py();
        match argument.getattr_opt(intern!(py, "fileno"))? {
            // Whatever it raises says best why: it is closed, or has no descriptor.
            Some(fileno) => match fileno.call0()?.cast::<PyInt>() {
                Ok(number) => OpenFile::numbered(name, number, argument),
                Err(_) => Err(PyTypeError::new_err(format!("{name}: its fileno() gives no descriptor"))),
            },
            None => Err(PyTypeError::new_err(format!(
                "{name}: an open file or its descriptor is needed, not '{}'",
                number::type_name(argument)
            ))),
        }
    }

    fn numbered(
        name: impl Display,
        number: &Bound<'_, PyInt>,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<OpenFile> {
        match number.extract::<RawFd>() {
            Ok(number) if number >= 0 => Ok(OpenFile { number, _object: object.clone().unbind() }),
            _ => Err(PyValueError::new_err(format!("{name}: {number} is no descriptor"))),
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is not negative, so not -1. Nothing can promise that it is open, as any thread
        // of Python may close it: it is handed to system calls that look (fstat, fcntl, sendmsg, fadvise),
        // which fail on a closed one and do no harm on a reused one.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }
}
