//! Pools of buffers in Python: `Pool`, `Object`, `Stamp`, `Statistics`, without the interpreter's lock while they wait.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foretell_buffers as buffers;
use foretell_buffers::{Access, Guest, Remote};
use foretell_client::Policy;
use pyo3::exceptions::{
    PyConnectionError, PyFileNotFoundError, PyInterruptedError, PyMemoryError, PyOSError, PyPermissionError,
    PyRuntimeError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict};

use crate::memory::Memory;
use crate::number;

pyo3::create_exception!(
    foretell._native,
    ChangedError,
    PyOSError,
    "An object is another one than when it was opened: open it again."
);

thread_local! {
    /// What a handler of a signal raised while this thread waited.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Has Python's handlers of signals run, of which only the main thread has any: Ctrl-C ends a wait.
fn keep_waiting() -> bool {
    let raised = Python::attach(|py| py.check_signals()).err();
    let goes_on = raised.is_none();
    RAISED.set(raised);
    goes_on
}

/// An error of the pool, on its way to Python.
struct Failure(buffers::Error);

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

/// A state of an object: what a listing says of it, and what an opened one is held to.
#[pyclass(frozen, eq, module = "foretell._native")]
#[derive(PartialEq)]
pub(crate) struct Stamp(buffers::Stamp);

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
enum One {
    Own(buffers::Object),
    Shared(Arc<Guest>, Arc<Remote>),
}

impl One {
    fn url(&self) -> &str {
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
    fn new(object: One) -> Object {
        Object { object: Mutex::new(Some(object)) }
    }

    fn shared(guest: &Arc<Guest>, url: &str, stamp: buffers::Stamp) -> PyResult<Object> {
        let remote = Remote::new(url, stamp).map_err(Failure)?;
        Ok(Object::new(One::Shared(guest.clone(), Arc::new(remote))))
    }

    fn get(&self) -> PyResult<One> {
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

fn seconds(timeout: f64) -> PyResult<Duration> {
    let wrong = |_| PyValueError::new_err(format!("timeout: {timeout} is no number of seconds"));
    Duration::try_from_secs_f64(timeout).map_err(wrong)
}

/// How a pool fares. References, hits and fetches are in parts.
#[pyclass(frozen, get_all, module = "foretell._native")]
pub(crate) struct Statistics {
    references: u64,
    hits: u64,
    late: u64,
    demand_fetches: u64,
    prefetches: u64,
    prefetches_wasted: u64,
    evictions: u64,
    requests: u64,
    requests_failed: u64,
    hedges: u64,
    hedges_won: u64,
    requests_under_way: u64,
    fetched_bytes: u64,
    wasted_bytes: u64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    disclosed_ahead: u64,
    objects: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
    disk_failures: u64,
    best_fetches: Option<u64>,
}

fn policy_of(name: &str) -> PyResult<Policy> {
    let names = || Policy::names().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    name.parse()
        .map_err(|_| PyValueError::new_err(format!("policy: one of {} is needed, not '{name}'", names())))
}

/// What a range to be disclosed is made of: an object, an offset, a length.
type Chunk<'py> = (PyRef<'py, Object>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// This process's pool, or another one's.
enum Source {
    Own(buffers::Pool),
    Shared(Arc<Guest>),
}

/// Memory in front of object stores, within a budget, with what is disclosed fetched ahead.
#[pyclass(frozen, module = "foretell._native")]
pub(crate) struct Pool {
    pool: Source,
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (budget_bytes, *, part_bytes=None, timeout=None, requests=None, threads=None, policy=None, disk_dir=None, disk_bytes=None, options=None, recorded_references=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        budget_bytes: &Bound<'_, PyAny>,
        part_bytes: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        requests: Option<&Bound<'_, PyAny>>,
        threads: Option<&Bound<'_, PyAny>>,
        policy: Option<&str>,
        disk_dir: Option<PathBuf>,
        disk_bytes: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
        recorded_references: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pool> {
        let mut chosen = buffers::Options::new(number::part("budget_bytes", budget_bytes)?);
        if let Some(part_bytes) = part_bytes {
            let given = number::part("part_bytes", part_bytes)?;
            // What does not fit is more than any limit, and refused by it.
            chosen.part_bytes = u32::try_from(given).unwrap_or(u32::MAX);
        }
        if let Some(timeout) = timeout {
            chosen.timeout = seconds(timeout)?;
        }
        chosen.disk_dir = disk_dir;
        chosen.disk_bytes = disk_bytes.map_or(Ok(0), |bytes| number::part("disk_bytes", bytes))?;
        chosen.keep_waiting = Some(keep_waiting);
        if let Some(requests) = requests {
            chosen.requests = usize::try_from(number::part("requests", requests)?)?;
        }
        if let Some(threads) = threads {
            chosen.threads = usize::try_from(number::part("threads", threads)?)?;
        }
        if let Some(references) = recorded_references {
            let given = number::part("recorded_references", references)?;
            chosen.recorded_references = u32::try_from(given).unwrap_or(u32::MAX);
        }
        if let Some(name) = policy {
            chosen.policy = policy_of(name)?;
        }
        for (name, value) in options.into_iter().flatten() {
            chosen.store.push((name.extract()?, value.extract()?));
        }
        Ok(Pool { pool: Source::Own(buffers::Pool::new(chosen).map_err(Failure)?) })
    }

    /// The pool of another process of this user, by what its share() has given.
    ///
    /// timeout: the one of that pool. Raises ConnectionError when that process is gone, as all calls do from then on.
    #[staticmethod]
    #[pyo3(signature = (address, *, timeout=None))]
    fn attach(py: Python<'_>, address: &str, timeout: Option<f64>) -> PyResult<Pool> {
        let timeout = timeout.map_or(Ok(buffers::Options::new(0).timeout), seconds)?;
        let guest = py.detach(|| Guest::attach(address, timeout, Some(keep_waiting))).map_err(Failure)?;
        Ok(Pool { pool: Source::Shared(Arc::new(guest)) })
    }

    /// The pool that a service has for this user (foretell buffers).
    ///
    /// socket: where it listens, if not at the usual place (FORETELL_BUFFERS says another one). timeout: the service's.
    /// options: of the stores; with the environment's they go to the service, which has no credentials of its own. Raises
    /// ConnectionError when no service is there.
    #[staticmethod]
    #[pyo3(signature = (socket=None, *, timeout=None, options=None))]
    fn service(
        py: Python<'_>,
        socket: Option<PathBuf>,
        timeout: Option<f64>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Pool> {
        let timeout = timeout.map_or(Ok(buffers::Options::new(0).timeout), seconds)?;
        let mut given = Vec::new();
        for (name, value) in options.into_iter().flatten() {
            given.push((name.extract()?, value.extract()?));
        }
        let socket = socket.unwrap_or_else(buffers::usual_socket);
        let access = Access::of_this_process(given);
        let guest = py.detach(|| Guest::of_service(&socket, access, timeout, Some(keep_waiting)));
        Ok(Pool { pool: Source::Shared(Arc::new(guest.map_err(Failure)?)) })
    }

    /// What other processes of this user attach to, as long as this one has the pool. It is a secret: who knows it reads
    /// with this process's credentials.
    fn share(&self) -> PyResult<String> {
        match &self.pool {
            Source::Own(pool) => Ok(pool.share().map_err(Failure)?),
            Source::Shared(guest) => guest.address().ok_or_else(|| {
                PyRuntimeError::new_err("the pool is a service's: each process goes there by itself")
            }),
        }
    }

    /// It is another process's, which is gone.
    #[getter]
    fn is_lost(&self) -> bool {
        matches!(&self.pool, Source::Shared(guest) if guest.is_lost())
    }

    /// Open an object by its URL. Its state is asked for, unless it is known from list(), and pinned.
    #[pyo3(signature = (url, stamp=None))]
    fn open(&self, py: Python<'_>, url: &str, stamp: Option<&Stamp>) -> PyResult<Object> {
        match (&self.pool, stamp) {
            (Source::Own(pool), Some(stamp)) => {
                Ok(Object::new(One::Own(pool.open_listed(url, stamp.0.clone()).map_err(Failure)?)))
            }
            (Source::Shared(guest), Some(stamp)) => Object::shared(guest, url, stamp.0.clone()),
            (_, None) => {
                let mut objects = self.open_all(py, vec![url.to_owned()], false)?;
                objects.pop().ok_or_else(|| PyFileNotFoundError::new_err(url.to_owned()))
            }
        }
    }

    /// Open several, whose states are asked for at the same time.
    ///
    /// known: of a pool of another process those that are open there are opened in the state that they have there, and
    /// not asked for.
    #[pyo3(signature = (urls, *, known=false))]
    fn open_all(&self, py: Python<'_>, urls: Vec<String>, known: bool) -> PyResult<Vec<Object>> {
        let given: Vec<&str> = urls.iter().map(String::as_str).collect();
        match &self.pool {
            Source::Own(pool) => {
                let objects = py.detach(|| pool.open_all(&given)).map_err(Failure)?;
                objects
                    .into_iter()
                    .map(|object| Ok(Object::new(One::Own(object.map_err(Failure)?))))
                    .collect()
            }
            Source::Shared(guest) => {
                let stamps = py.detach(|| guest.open_all(&given, known)).map_err(Failure)?;
                let opened = given.into_iter().zip(stamps);
                opened.map(|(url, stamp)| Object::shared(guest, url, stamp.map_err(Failure)?)).collect()
            }
        }
    }

    /// What lies directly under a URL, or at any depth: paths in its store, each with a stamp unless it is a folder.
    #[pyo3(signature = (url, *, deep=false))]
    fn list(&self, py: Python<'_>, url: &str, deep: bool) -> PyResult<Vec<(String, Option<Stamp>)>> {
        let listed = py.detach(|| match &self.pool {
            Source::Own(pool) => pool.list(url, deep),
            Source::Shared(guest) => guest.list(url, deep),
        });
        let entries = listed.map_err(Failure)?;
        Ok(entries.into_iter().map(|entry| (entry.path, entry.stamp.map(Stamp))).collect())
    }

    /// Disclose what will be read, in this order, after all that was disclosed before: (object, offset, length).
    ///
    /// Returns how many were taken: fewer than were given when 4,194,304 parts are disclosed and not read yet.
    fn disclose(&self, py: Python<'_>, chunks: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut ranges = Vec::new();
        for chunk in chunks.try_iter()? {
            let (object, offset, length): Chunk<'_> = chunk?.extract()?;
            ranges.push((object.get()?, number::part("offset", &offset)?, number::part("length", &length)?));
        }
        let other = |object: &One| Failure(buffers::Error::OtherPool { url: object.url().to_owned() });
        match &self.pool {
            Source::Own(pool) => {
                let mut own = Vec::with_capacity(ranges.len());
                for (object, offset, length) in &ranges {
                    let One::Own(one) = object else { return Err(other(object).into()) };
                    own.push((one, *offset, *length));
                }
                Ok(py.detach(|| pool.disclose(&own)).map_err(Failure)?)
            }
            Source::Shared(of) => {
                let mut its = Vec::with_capacity(ranges.len());
                for (object, offset, length) in &ranges {
                    match object {
                        One::Shared(guest, remote) if Arc::ptr_eq(guest, of) => {
                            its.push((&**remote, *offset, *length));
                        }
                        _ => return Err(other(object).into()),
                    }
                }
                Ok(py.detach(|| of.disclose(&its)).map_err(Failure)?)
            }
        }
    }

    /// Which part of a priority is replaced first: "lru" unless set, or the pool's policy for priority 0.
    fn set_policy(&self, py: Python<'_>, priority: &Bound<'_, PyAny>, policy: &str) -> PyResult<()> {
        let (priority, policy) = (number::priority(priority)?, policy_of(policy)?);
        let set = py.detach(|| match &self.pool {
            Source::Own(pool) => pool.set_policy(priority, policy),
            Source::Shared(guest) => guest.set_policy(priority, policy),
        });
        Ok(set.map_err(Failure)?)
    }

    /// Withdraw what was disclosed and not read yet.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let cancelled = py.detach(|| match &self.pool {
            Source::Own(pool) => pool.cancel(),
            Source::Shared(guest) => guest.cancel(),
        });
        Ok(cancelled.map_err(Failure)?)
    }

    /// How the pool fares.
    fn statistics(&self, py: Python<'_>) -> PyResult<Statistics> {
        let counted = py.detach(|| match &self.pool {
            Source::Own(pool) => pool.statistics(),
            Source::Shared(guest) => guest.statistics(),
        });
        let counts = counted.map_err(Failure)?;
        Ok(Statistics {
            references: counts.references,
            hits: counts.hits,
            late: counts.late,
            demand_fetches: counts.demand_fetches,
            prefetches: counts.prefetches,
            prefetches_wasted: counts.prefetches_wasted,
            evictions: counts.evictions,
            requests: counts.requests,
            requests_failed: counts.requests_failed,
            hedges: counts.hedges,
            hedges_won: counts.hedges_won,
            requests_under_way: counts.requests_under_way,
            fetched_bytes: counts.fetched_bytes,
            wasted_bytes: counts.wasted_bytes,
            memory_bytes: counts.memory_bytes,
            memory_peak_bytes: counts.memory_peak_bytes,
            disclosed_ahead: counts.disclosed_ahead,
            objects: counts.objects,
            disk_read_bytes: counts.disk_read_bytes,
            disk_written_bytes: counts.disk_written_bytes,
            disk_failures: counts.disk_failures,
            best_fetches: counts.best_fetches,
        })
    }
}
