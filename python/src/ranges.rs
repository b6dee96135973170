//! Ranges of a file from Python.
//!
//! **Arrays** (NumPy's, `array.array`, memory views: what has the buffer protocol or `__array__`) are taken
//! as memory, [`PART_ROWS`] rows at a time, whatever their layout and width: no Python object is made for an
//! element. Each part is copied once before it is read, because another thread may write to the array
//! meanwhile.
//!
//! **Iterables** are walked to their end first. An element is a block number or a pair.
//!
//! Either way everything is checked before the first range is handed on, so that an error means that nothing
//! was disclosed. Only an array that another thread spoils between checking and reading fails in the middle.

use std::fmt::Display;
use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyList, PyString, PyTuple};

use crate::array::Array;
use crate::file::OpenFile;
use crate::number::{self, BEHIND, FILE_BYTES};

/// Bytes of a block, the unit of caching, unless the caller numbers others (Cao, Felten, Li 1994, section 4).
pub(crate) const BLOCK_BYTES: u64 = 8192;

/// Elements that one call takes from an iterable. More would not be in the ring anyhow (65,536 entries), and
/// an iterable without an end is to be an error, not the end of the memory.
pub(crate) const MOST_RANGES: usize = 1 << 20;

/// Rows of an array that are copied at a time: 1 MiB of pairs, as many as the largest ring has entries.
const PART_ROWS: usize = 1 << 16;

/// Part of a file that is to be read.
pub(crate) type Chunk = (OpenFile, Range<u64>);

/// Reads ranges and hands them to `disclose`, in order, in one part or several. Returns how many it took in
/// all: after a part of which it did not take everything, nothing more is handed on.
pub(crate) fn read(
    ranges: &Bound<'_, PyAny>,
    block_bytes: u64,
    mut disclose: impl FnMut(&[Range<u64>]) -> PyResult<usize>,
) -> PyResult<usize> {
    let Some(array) = Array::of(ranges)? else { return disclose(&read_iterable(ranges, block_bytes)?) };
    if array.rows() <= PART_ROWS {
        return disclose(&array.ranges(0..array.rows(), block_bytes)?);
    }
    let parts = || (0..array.rows()).step_by(PART_ROWS).map(|at| at..array.rows().min(at + PART_ROWS));
    for part in parts() {
        array.ranges(part, block_bytes)?;
    }
    let mut taken_in_all = 0;
    for part in parts() {
        let rows = part.len();
        let taken = disclose(&array.ranges(part, block_bytes)?)?;
        taken_in_all += taken;
        if taken < rows {
            break;
        }
    }
    Ok(taken_in_all)
}

const RANGES: &str = "block numbers or (offset, length) pairs";
const CHUNKS: &str = "(file, offset, length)";

fn read_iterable(ranges: &Bound<'_, PyAny>, block_bytes: u64) -> PyResult<Vec<Range<u64>>> {
    walk("ranges", RANGES, ranges, |name, item| match fields::<2>(item)? {
        Some([offset, length]) => pair(
            name,
            number::part(Name(&name, "offset"), &offset)?,
            number::part(Name(&name, "length"), &length)?,
        ),
        None if item.is_instance_of::<PyTuple>() || item.is_instance_of::<PyList>() => {
            Err(PyTypeError::new_err(format!(
                "{name}: a block number or (offset, length) is needed, not {}",
                item.repr()?
            )))
        }
        None => block(name, number::part(name, item)?, block_bytes),
    })
}

/// Reads (file, offset, length) from an iterable.
pub(crate) fn read_chunks(chunks: &Bound<'_, PyAny>) -> PyResult<Vec<Chunk>> {
    walk("chunks", CHUNKS, chunks, |name, item| {
        let Some([file, offset, length]) = fields::<3>(item)? else {
            return Err(PyTypeError::new_err(format!(
                "{name}: {CHUNKS} is needed, not '{}'",
                number::type_name(item)
            )));
        };
        let file = OpenFile::named(Name(&name, "file"), &file)?;
        let offset = number::part(Name(&name, "offset"), &offset)?;
        Ok((file, pair(name, offset, number::part(Name(&name, "length"), &length)?)?))
    })
}

/// Reads open files from an iterable.
pub(crate) fn read_files(files: &Bound<'_, PyAny>) -> PyResult<Vec<OpenFile>> {
    walk("files", "open files", files, OpenFile::named)
}

/// The range of an offset and a length.
pub(crate) fn pair(name: Element, offset: u64, length: u64) -> PyResult<Range<u64>> {
    let behind = || PyValueError::new_err(format!("{name}: {length} bytes from {offset} on {BEHIND}"));
    let end = number::end(offset, length).ok_or_else(behind)?;
    Ok(offset..end)
}

/// The range of a block.
pub(crate) fn block(name: Element, number: u64, block_bytes: u64) -> PyResult<Range<u64>> {
    let start = number.checked_mul(block_bytes).filter(|start| *start <= FILE_BYTES);
    let end = start.and_then(|start| number::end(start, block_bytes));
    let range = start.zip(end).map(|(start, end)| start..end);
    range.ok_or_else(|| PyValueError::new_err(format!("{name}: block {number} {BEHIND}")))
}

/// Walks an iterable to its end, with a name for each of its elements.
fn walk<T>(
    name: &'static str,
    of: &str,
    iterable: &Bound<'_, PyAny>,
    mut read: impl FnMut(Element, &Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let wrong = || {
        let given = number::type_name(iterable);
        PyTypeError::new_err(format!("{name}: an iterable of {of} is needed, not '{given}'"))
    };
    // These are iterable, but what they hold was not meant.
    if iterable.is_instance_of::<PyString>()
        || iterable.is_instance_of::<PyBytes>()
        || iterable.is_instance_of::<PyByteArray>()
    {
        return Err(wrong());
    }
    let py = iterable.py();
    let items = iterable
        .try_iter()
        .map_err(|error| if error.is_instance_of::<PyTypeError>(py) { wrong() } else { error })?;
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        if index == MOST_RANGES {
            return Err(PyValueError::new_err(format!(
                "{name}: more than {MOST_RANGES} in one call; give them in parts, or as an array"
            )));
        }
        found.push(read(Element { name, index }, &item?)?);
    }
    Ok(found)
}

/// The fields of an element: a tuple, a list, a row of an array. `None` if it is something else.
fn fields<'py, const N: usize>(item: &Bound<'py, PyAny>) -> PyResult<Option<[Bound<'py, PyAny>; N]>> {
    if item.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    let fields: Vec<Bound<'py, PyAny>> = if let Ok(tuple) = item.cast::<PyTuple>() {
        tuple.iter().collect()
    } else if item.is_instance_of::<PyList>() || item.hasattr("__array__")? && item.len().is_ok() {
        item.try_iter()?.collect::<PyResult<_>>()?
    } else {
        return Ok(None);
    };
    Ok(fields.try_into().ok())
}

/// What errors call an element: `ranges[3]`.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    /// The argument.
    pub(crate) name: &'static str,
    pub(crate) index: usize,
}

impl Display for Element {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}[{}]", self.name, self.index)
    }
}

/// What errors call a field of an element: `ranges[3]: offset`.
struct Name<'a>(&'a Element, &'static str);

impl Display for Name<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.0, self.1)
    }
}
