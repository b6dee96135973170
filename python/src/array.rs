//! Arrays of integers, through Python's memory views.
//!
//! The buffer protocol is part of Python's stable interface only since 3.11, later than the oldest Python
//! that is supported; memory views always were. A part of one is asked for its bytes (`tobytes`), which are
//! in row order whatever the layout of the array, and these are read.

use std::ops::Range;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PySlice, PyTuple};

use crate::number::{BEHIND, FILE_BYTES};
use crate::ranges::{Element, block, pair};

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// A block number.
    Block,
    /// An offset and a length.
    Pair,
}

/// An array of integers with one or two columns.
pub(crate) struct Array<'py> {
    view: Bound<'py, PyMemoryView>,
    rows: usize,
    row: Row,
    signed: bool,
    /// Bytes of an element: 1, 2, 4 or 8.
    width: usize,
}

impl<'py> Array<'py> {
    /// The array that an argument is, `None` when it is none: then it may be iterated. Arrays of Python
    /// objects are among these.
    pub(crate) fn of(ranges: &Bound<'py, PyAny>) -> PyResult<Option<Array<'py>>> {
        let iterate = ranges.is_instance_of::<PyList>()
            || ranges.is_instance_of::<PyTuple>()
            || ranges.is_instance_of::<PyBytes>()
            || ranges.is_instance_of::<PyByteArray>();
        if iterate {
            return Ok(None);
        }
        let Some(view) = view(ranges)? else { return Ok(None) };
        let py = view.py();
        let shape: Vec<usize> = view.getattr(intern!(py, "shape"))?.extract()?;
        let (rows, row) = match *shape {
            [rows] => (rows, Row::Block),
            [rows, 2] => (rows, Row::Pair),
            _ => {
                let shape = PyTuple::new(py, shape)?;
                return Err(PyValueError::new_err(format!(
                    "ranges: shape (n,) for block numbers or (n, 2) for offsets and lengths is needed, not {shape}"
                )));
            }
        };
        let width: usize = view.getattr(intern!(py, "itemsize"))?.extract()?;
        let format = view.getattr(intern!(py, "format"))?;
        let format: &str = &format.extract::<std::borrow::Cow<'_, str>>()?;
        if format == "O" {
            return Ok(None);
        }
        let (order, letter) = match format.strip_prefix(['@', '=', '<', '>', '!']) {
            Some(letter) => (format.chars().next(), letter),
            None => (None, format),
        };
        let signed = match letter {
            "b" | "h" | "i" | "l" | "q" | "n" => true,
            "B" | "H" | "I" | "L" | "Q" | "N" => false,
            // NumPy's empty arrays are of floating-point numbers unless said otherwise.
            _ if rows == 0 => true,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "ranges: an array of integers is needed, not of format '{format}'"
                )));
            }
        };
        let swapped = match order {
            Some('>' | '!') => cfg!(target_endian = "little"),
            Some('<') => cfg!(target_endian = "big"),
            _ => false,
        };
        if swapped && width > 1 {
            return Err(PyTypeError::new_err(format!(
                "ranges: integers in the byte order of the machine are needed, not of format '{format}'"
            )));
        }
        Ok(Some(Array { view, rows, row, signed, width }))
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The ranges of some rows.
    pub(crate) fn ranges(&self, rows: Range<usize>, block_bytes: u64) -> PyResult<Vec<Range<u64>>> {
        let py = self.view.py();
        let first = rows.start;
        let bytes = if rows.len() == self.rows {
            self.view.call_method0(intern!(py, "tobytes"))?
        } else {
            let slice = PySlice::new(py, rows.start as isize, rows.end as isize, 1);
            self.view.get_item(slice)?.call_method0(intern!(py, "tobytes"))?
        };
        let bytes = bytes.cast::<PyBytes>()?.as_bytes();
        let values = Values { row: self.row, first, block_bytes };
        // A value below 0 becomes one above every file's end, and is told apart from such only in the error.
        match (self.width, self.signed) {
            (1, true) => values.read(bytes, |one| i64::from(i8::from_ne_bytes(one)).cast_unsigned(), true),
            (1, false) => values.read(bytes, |one| u64::from(u8::from_ne_bytes(one)), false),
            (2, true) => values.read(bytes, |one| i64::from(i16::from_ne_bytes(one)).cast_unsigned(), true),
            (2, false) => values.read(bytes, |one| u64::from(u16::from_ne_bytes(one)), false),
            (4, true) => values.read(bytes, |one| i64::from(i32::from_ne_bytes(one)).cast_unsigned(), true),
            (4, false) => values.read(bytes, |one| u64::from(u32::from_ne_bytes(one)), false),
            (_, true) => values.read(bytes, |one| i64::from_ne_bytes(one).cast_unsigned(), true),
            (_, false) => values.read(bytes, u64::from_ne_bytes, false),
        }
    }
}

/// The memory of an argument, `None` if it does not show any.
fn view<'py>(ranges: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
    let py = ranges.py();
    let error = match PyMemoryView::from(ranges) {
        Ok(view) => return Ok(Some(view)),
        Err(error) => error,
    };
    if error.is_instance_of::<PyTypeError>(py) {
        // Tensors show their memory only through NumPy.
        return match ranges.getattr_opt(intern!(py, "__array__"))? {
            Some(array) => Ok(Some(PyMemoryView::from(&array.call0()?)?)),
            None => Ok(None),
        };
    }
    if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyBufferError>(py) {
        // Dates and the like.
        return Err(PyTypeError::new_err(format!(
            "ranges: an array of integers is needed: {}",
            error.value(py)
        )));
    }
    Err(error)
}

/// How the elements of a part become ranges.
#[derive(Clone, Copy)]
struct Values {
    row: Row,
    /// The number of the part's first row.
    first: usize,
    block_bytes: u64,
}

impl Values {
    fn read<const W: usize>(
        self,
        bytes: &[u8],
        value: impl Fn([u8; W]) -> u64,
        signed: bool,
    ) -> PyResult<Vec<Range<u64>>> {
        let (elements, _) = bytes.as_chunks::<W>();
        let name = |row: usize| Element { name: "ranges", index: self.first + row };
        let checked = |row: usize, element: [u8; W]| {
            let value = value(element);
            if value <= FILE_BYTES {
                return Ok(value);
            }
            let name = name(row);
            Err(PyValueError::new_err(match signed {
                true => format!("{name}: {} is negative", value.cast_signed()),
                false => format!("{name}: {value} {BEHIND}"),
            }))
        };
        match self.row {
            Row::Block => {
                let blocks = elements.iter().enumerate();
                blocks
                    .map(|(row, element)| block(name(row), checked(row, *element)?, self.block_bytes))
                    .collect()
            }
            Row::Pair => {
                let pairs = elements.as_chunks::<2>().0.iter().enumerate();
                pairs
                    .map(|(row, [offset, length])| {
                        pair(name(row), checked(row, *offset)?, checked(row, *length)?)
                    })
                    .collect()
            }
        }
    }
}
