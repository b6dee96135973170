//! Numbers among the arguments, with errors that name the argument.

use std::fmt::Display;
use std::ops::Range;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Last byte that a file can have (`off_t`); no range ends behind it.
pub(crate) const FILE_BYTES: u64 = i64::MAX as u64;

/// An integer, or anything that stands for one (`__index__`), such as NumPy's.
pub(crate) fn integer(name: impl Display, argument: &Bound<'_, PyAny>) -> PyResult<i64> {
    argument.extract().map_err(|error: PyErr| {
        let py = argument.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            PyValueError::new_err(format!("{name}: {argument} is beyond 64 bits"))
        } else if error.is_instance_of::<PyTypeError>(py) {
            let given = type_name(argument);
            PyTypeError::new_err(format!("{name}: an integer is needed, not '{given}'"))
        } else {
            error
        }
    })
}

/// What errors call the type of an argument.
pub(crate) fn type_name(argument: &Bound<'_, PyAny>) -> String {
    argument.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// A priority.
pub(crate) fn priority(argument: &Bound<'_, PyAny>) -> PyResult<i32> {
    let given = integer("priority", argument)?;
    let outside = |_| PyValueError::new_err(format!("priority: {given} is not within 32 bits"));
    i32::try_from(given).map_err(outside)
}

/// The bytes of blocks that are numbered.
pub(crate) fn block_bytes(argument: &Bound<'_, PyAny>) -> PyResult<u64> {
    match u64::try_from(integer("block_bytes", argument)?) {
        Ok(given) if given > 0 => Ok(given),
        _ => Err(PyValueError::new_err(format!("block_bytes: {argument} is not positive"))),
    }
}

/// Bytes of a file by two arguments, `offset` and `length`; without a length, up to its end.
pub(crate) fn span(
    offset: Option<&Bound<'_, PyAny>>,
    length: Option<&Bound<'_, PyAny>>,
) -> PyResult<Range<u64>> {
    let start = offset.map_or(Ok(0), |offset| part("offset", offset))?;
    let end = match length {
        None => FILE_BYTES,
        Some(length) => end(start, part("length", length)?)
            .ok_or_else(|| PyValueError::new_err(format!("length: {length} from {start} on {BEHIND}")))?,
    };
    Ok(start..end)
}

/// What is wrong with a range that is too long.
pub(crate) const BEHIND: &str = "reaches behind the last byte that a file can have";

/// The byte after the last of a range.
pub(crate) fn end(start: u64, length: u64) -> Option<u64> {
    start.checked_add(length).filter(|end| *end <= FILE_BYTES)
}

/// An offset or a length.
pub(crate) fn part(name: impl Display, argument: &Bound<'_, PyAny>) -> PyResult<u64> {
    let given = integer(&name, argument)?;
    u64::try_from(given).map_err(|_| PyValueError::new_err(format!("{name}: {given} is negative")))
}
