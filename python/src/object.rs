//! Objects of pools in Python: `Object`, `Stamp`, `Lease`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use foretell_buffers as buffers;
use foretell_buffers::{Guest, Remote};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::memory::Memory;
use crate::number;
use crate::pool_error::Failure;

/// A state of an object: what a listing says of it, and what an opened one is held to.
#[pyclass(frozen, eq, module = "foretell._native")]
#[derive(PartialEq)]
pub(crate) struct Stamp(pub(crate) buffers::Stamp);

#[pymethods]
impl Stamp {
    /// Bytes of the object.
    #[getter]
    fn length(&self) -> u64 {
        self.0.length
    }

    /// Its ETag, where the store gives one.
    #[getter]
    fn etag(&self) -> Option<&str> {
        self.0.etag.as_deref()
    }

    /// When it was modified last, in seconds since 1970.
    #[getter]
    fn modified(&self) -> Option<f64> {
        let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        self.0.modified.and_then(since)
    }
}

/// An open object of this process's pool, or of another one's.
#[derive(Clone)]
pub(crate) enum One {
    Own(buffers::Object),
    Shared(Arc<Guest>, Arc<Remote>),
}

impl One {
    pub(crate) fn url(&self) -> &str {
        match self {
            One::Own(object) => object.url(),
            One::Shared(_, remote) => remote.url(),
        }
    }

    fn stamp(&self) -> &buffers::Stamp {
        match self {
            One::Own(object) => object.stamp(),
            One::Shared(_, remote) => remote.stamp(),
        }
    }

    fn length(&self) -> u64 {
        self.stamp().length
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), buffers::Error> {
        match self {
            One::Own(object) => object.read_at(bytes, offset),
            One::Shared(guest, remote) => guest.read_at(remote, bytes, offset),
        }
    }

    fn read_now(&self, bytes: &mut [u8], offset: u64) -> Result<bool, buffers::Error> {
        match self {
            One::Own(object) => object.read_now(bytes, offset),
            One::Shared(guest, remote) => guest.read_now(remote, bytes, offset),
        }
    }

    fn direct(&self, directive: buffers::Directive) -> Result<(), buffers::Error> {
        match self {
            One::Own(object) => object.direct(directive),
            One::Shared(guest, remote) => guest.direct(remote, directive),
        }
    }

    /// Offset and length by two arguments, within the object: nobody is given memory for the asking.
    fn range(
        &self,
        offset: Option<&Bound<'_, PyAny>>,
        length: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, usize)> {
        let offset = offset.map_or(Ok(0), |offset| number::part("offset", offset))?;
        let rest = self.length().saturating_sub(offset);
        let length = length.map_or(Ok(rest), |length| number::part("length", length))?;
        self.range_of(offset, length)?;
        Ok((offset, usize::try_from(length)?))
    }

    /// A range that the object has.
    fn range_of(&self, offset: u64, length: u64) -> PyResult<()> {
        let has = offset.checked_add(length).is_some_and(|end| end <= self.length());
        let (url, object_bytes) = (self.url().to_owned(), self.length());
        let past_end = Failure(buffers::Error::PastEnd { url, offset, length, object_bytes });
        if has { Ok(()) } else { Err(past_end.into()) }
    }
}

/// An open object of a pool.
#[pyclass(frozen, module = "foretell._native")]
pub(crate) struct Object {
    object: Mutex<Option<One>>,
}

impl Object {
    pub(crate) fn new(object: One) -> Object {
        Object { object: Mutex::new(Some(object)) }
    }

    pub(crate) fn shared(guest: &Arc<Guest>, url: &str, stamp: buffers::Stamp) -> PyResult<Object> {
        let remote = Remote::new(url, stamp).map_err(Failure)?;
        Ok(Object::new(One::Shared(guest.clone(), Arc::new(remote))))
    }

    pub(crate) fn get(&self) -> PyResult<One> {
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        object.clone().ok_or_else(|| PyValueError::new_err("the object is closed"))
    }
}

#[pymethods]
impl Object {
    /// Its URL, as it was opened.
    #[getter]
    fn url(&self) -> PyResult<String> {
        Ok(self.get()?.url().to_owned())
    }

    /// Its length in bytes.
    #[getter]
    fn length(&self) -> PyResult<u64> {
        Ok(self.get()?.length())
    }

    /// The state that it was opened in.
    #[getter]
    fn stamp(&self) -> PyResult<Stamp> {
        Ok(Stamp(self.get()?.stamp().clone()))
    }

    /// Bytes of the object: `length` of them from `offset` on; without a length, up to its end.
    ///
    /// Other threads run meanwhile. Raises ValueError for a range that the object does not have, ChangedError when it is
    /// another one by now, and OSError when the store fails.
    #[pyo3(signature = (offset=None, length=None), text_signature = "(self, offset=0, length=None)")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: Option<&Bound<'py, PyAny>>,
        length: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let object = self.get()?;
        let (offset, length) = object.range(offset, length)?;
        PyBytes::new_with(py, length, |bytes| {
            Ok(py.detach(|| object.read_at(bytes, offset)).map_err(Failure)?)
        })
    }

    /// The same bytes if they are in memory, at once; None if read() would have to wait, or if many parts are touched.
    #[pyo3(signature = (offset=None, length=None), text_signature = "(self, offset=0, length=None)")]
    fn read_now<'py>(
        &self,
        py: Python<'py>,
        offset: Option<&Bound<'py, PyAny>>,
        length: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let object = self.get()?;
        let (offset, length) = object.range(offset, length)?;
        let mut found = false;
        let bytes = PyBytes::new_with(py, length, |bytes| {
            found = length == 0 || object.read_now(bytes, offset).map_err(Failure)?;
            Ok(())
        })?;
        Ok(found.then_some(bytes))
    }

    /// The same as read() in a bytearray: memory of its own, which arrays and tensors may share, filled without a copy between.
    #[pyo3(signature = (offset=None, length=None), text_signature = "(self, offset=0, length=None)")]
    fn read_array<'py>(
        &self,
        py: Python<'py>,
        offset: Option<&Bound<'py, PyAny>>,
        length: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let object = self.get()?;
        let (offset, length) = object.range(offset, length)?;
        PyByteArray::new_with(py, length, |bytes| {
            Ok(py.detach(|| object.read_at(bytes, offset)).map_err(Failure)?)
        })
    }

    /// The bytes from an offset on where they lie in the pool's memory, as many as are in one part; None of another process's
    /// pool. What of it is for everybody is foretell.pool.view.
    fn lease(&self, py: Python<'_>, offset: u64) -> PyResult<Option<Lease>> {
        let object = self.get()?;
        let (offset, _) = (offset, object.range_of(offset, 1)?);
        let One::Own(object) = object else { return Ok(None) };
        let part_bytes = object.part_bytes();
        // No object has more parts than have numbers.
        let view = py.detach(|| object.view((offset / part_bytes) as u32)).map_err(Failure)?;
        Ok(Some(Lease { view, from: (offset % part_bytes) as usize }))
    }

    /// Fill `length` bytes of memory at an address: what of it is for everybody is foretell.pool.read_into.
    fn read_at_address(&self, py: Python<'_>, address: usize, offset: u64, length: usize) -> PyResult<()> {
        let object = self.get()?;
        object.range_of(offset, length as u64)?;
        if length > 0 {
            let mut memory = Memory::new(address, length);
            py.detach(|| object.read_at(memory.bytes(), offset)).map_err(Failure)?;
        }
        Ok(())
    }

    /// The priority of the object, 0 unless set: parts of lower priorities are replaced first. It holds as long as the object is
    /// open.
    fn set_priority(&self, py: Python<'_>, priority: &Bound<'_, PyAny>) -> PyResult<()> {
        let directive = buffers::Directive::Priority(number::priority(priority)?);
        let object = self.get()?;
        Ok(py.detach(|| object.direct(directive)).map_err(Failure)?)
    }

    /// The parts of a range that are in memory now have this priority until they are read again or replaced.
    #[pyo3(signature = (offset, length, priority))]
    fn temporary_priority(
        &self,
        py: Python<'_>,
        offset: &Bound<'_, PyAny>,
        length: Option<&Bound<'_, PyAny>>,
        priority: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let object = self.get()?;
        let (offset, length) = object.range(Some(offset), length)?;
        let (length, priority) = (length as u64, number::priority(priority)?);
        let directive = buffers::Directive::TemporaryPriority { offset, length, priority };
        Ok(py.detach(|| object.direct(directive)).map_err(Failure)?)
    }

    /// This range, or all from `offset` on, will not be read again: what lies in memory of it is given up at once, but for what
    /// is disclosed and not read yet.
    #[pyo3(signature = (offset=None, length=None), text_signature = "(self, offset=0, length=None)")]
    fn done_with(
        &self,
        py: Python<'_>,
        offset: Option<&Bound<'_, PyAny>>,
        length: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let object = self.get()?;
        let (offset, length) = object.range(offset, length)?;
        let directive = buffers::Directive::DoneWith { offset, length: length as u64 };
        Ok(py.detach(|| object.direct(directive)).map_err(Failure)?)
    }

    /// Give it back. With the last handle of an object goes what the pool has of it.
    fn close(&self, py: Python<'_>) {
        let closed = self.object.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(closed));
    }

    fn __repr__(&self) -> String {
        match self.get() {
            Ok(object) => format!("<Object {} of {} bytes>", object.url(), object.length()),
            Err(_) => "<Object, closed>".to_owned(),
        }
    }
}

/// A part in the pool's memory, which stays there as long as this does.
#[pyclass(frozen, module = "foretell._native")]
pub(crate) struct Lease {
    view: buffers::View,
    from: usize,
}

#[pymethods]
impl Lease {
    /// Where its bytes lie.
    #[getter]
    fn address(&self) -> usize {
        self.bytes().as_ptr().addr()
    }

    /// How many.
    #[getter]
    fn length(&self) -> usize {
        self.bytes().len()
    }
}

impl Lease {
    /// Empty in the child of a fork, where the memory is the parent's.
    fn bytes(&self) -> &[u8] {
        self.view.get(self.from..).unwrap_or_default()
    }
}
