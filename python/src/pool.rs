//! Pools of buffers in Python: `Pool` and `Statistics`, without the interpreter's lock while they wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foretell_buffers as buffers;
use foretell_buffers::{Access, First, Guest};
use foretell_client::Policy;
use pyo3::exceptions::{PyFileNotFoundError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::number;
use crate::object::{Object, One, Stamp};
use crate::pool_error::{Failure, keep_waiting};

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

/// What is read first, by its offset and length.
fn first_of((offset, length): (i64, Option<u64>)) -> First {
    match (u64::try_from(offset), length) {
        (Err(_), _) => First::End(offset.unsigned_abs()),
        (Ok(0), None) => First::All,
        (Ok(start), length) => {
            First::Range(start..length.map_or(u64::MAX, |length| start.saturating_add(length)))
        }
    }
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
    #[pyo3(signature = (budget_bytes, *, part_bytes=None, timeout=None, requests=None, threads=None, policy=None, disk_dir=None, disk_bytes=None, options=None, recorded_references=None, strict=false))]
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
        strict: bool,
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
        chosen.strict = strict;
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
                let mut objects = self.open_all(py, vec![url.to_owned()], false, None)?;
                objects.pop().ok_or_else(|| PyFileNotFoundError::new_err(url.to_owned()))
            }
        }
    }

    /// Open several, whose states are asked for at the same time.
    ///
    /// known: of a pool of another process those that are open or listed there are opened in the state that they have there,
    /// and not asked for.
    ///
    /// first: offset and length of what is read first of each, which then comes with its state, by one request. Without a length up to
    /// the end; a negative offset counts from there.
    #[pyo3(signature = (urls, *, known=false, first=None))]
    fn open_all(
        &self,
        py: Python<'_>,
        urls: Vec<String>,
        known: bool,
        first: Option<(i64, Option<u64>)>,
    ) -> PyResult<Vec<Object>> {
        let first = first.map(first_of).unwrap_or_default();
        let given: Vec<&str> = urls.iter().map(String::as_str).collect();
        match &self.pool {
            Source::Own(pool) => {
                let objects = py.detach(|| pool.open_first(&given, &first)).map_err(Failure)?;
                objects
                    .into_iter()
                    .map(|object| Ok(Object::new(One::Own(object.map_err(Failure)?))))
                    .collect()
            }
            Source::Shared(guest) => {
                let stamps = py.detach(|| guest.open_first(&given, known, &first)).map_err(Failure)?;
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
