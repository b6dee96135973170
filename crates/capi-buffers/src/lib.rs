//! The C interface to pools of buffers: what `include/foretell-buffers.h` declares and `man/foretell-buffers.3` describes.
//!
//! A library of its own beside `libforetell`, which is half a megabyte and asks for nothing: this one has the stores'
//! protocols, TLS and threads in it, and is more than twenty times as large.
//!
//! Handles of C are boxes. Each function turns C's numbers and pointers into a call of a [`Pool`] or, of a service's pool, a
//! [`Guest`], and its result into a value, or -1 or null with `errno`. A panic, which would be a mistake of ours, ends at the
//! border: the call then fails with `EIO`.

#![allow(unsafe_code)]

mod given;
mod result;

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use foretell_buffers::{
    Access, Directive, Error, Guest, Object, Pool, PoolPolicy, Remote, View, usual_socket,
};
use libc::{c_int, size_t, ssize_t};

use given::{PoolOptions, give, options, slice, text};
use result::{Failure, done, guarded, line};

/// `struct foretell_pool`: this process's, or a service's.
pub enum CPool {
    /// Of this process.
    Own(Pool),
    /// Of a service.
    Shared(Arc<Guest>),
}

/// `struct foretell_object`.
pub enum CObject {
    /// Of a pool of this process.
    Own(Object),
    /// Of a service's.
    Shared(Arc<Guest>, Remote),
}

/// `struct foretell_range`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CRange {
    /// Which object.
    pub object: *const CObject,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// `struct foretell_view`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CView {
    /// The first byte.
    pub data: *const c_void,
    /// Bytes.
    pub length: size_t,
    /// What keeps them there.
    pub lease: *mut c_void,
}

/// What keeps the bytes of a view there.
enum Lease {
    Part(#[expect(dead_code, reason = "held for its end")] View),
    Copy(#[expect(dead_code, reason = "held for its end")] Vec<u8>),
}

/// `struct foretell_pool_stats`; see [`foretell_buffers::Statistics`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "they are the fields of that name there")]
pub struct CStats {
    pub references: u64,
    pub hits: u64,
    pub late: u64,
    pub demand_fetches: u64,
    pub prefetches: u64,
    pub evictions: u64,
    pub requests: u64,
    pub requests_failed: u64,
    pub fetched_bytes: u64,
    pub wasted_bytes: u64,
    pub memory_bytes: u64,
    pub leased_bytes: u64,
    pub disclosed_ahead: u64,
    pub objects: u64,
    pub disk_read_bytes: u64,
    pub disk_written_bytes: u64,
    pub reserved: [u64; 8],
}

/// A handle that C was given.
///
/// # Safety
/// It is null, or was given by this library and not given back.
unsafe fn handle<'a, T>(what: &str, handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: null or a box of ours.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::mistake(&format!("{what}: a null pointer")))
}

fn to_c<T>(value: Option<T>) -> *mut T {
    value.map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

/// See foretell-buffers(3).
///
/// # Safety
/// `given` is null or as the header describes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_new(given: *const PoolOptions) -> *mut CPool {
    // SAFETY: the caller's promise.
    to_c(guarded(|| Ok(CPool::Own(Pool::new(unsafe { options(given) }?)?))))
}

/// See foretell-buffers(3).
///
/// # Safety
/// Both are null or as the header describes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_service(
    socket: *const c_char,
    given: *const PoolOptions,
) -> *mut CPool {
    to_c(guarded(|| {
        // SAFETY: the caller's promise.
        let (socket, options) = unsafe { (text("socket", socket)?, options(given)?) };
        let socket = socket.map_or_else(usual_socket, PathBuf::from);
        let access = Access::of_this_process(options.store);
        Ok(CPool::Shared(Arc::new(Guest::of_service(&socket, access, options.timeout, None)?)))
    }))
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is null, or was given by this library and is given back for the first time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_free(pool: *mut CPool) {
    // SAFETY: the caller's promise.
    unsafe { give_back(pool) };
}

/// Drops what C has had.
///
/// # Safety
/// It is null, or a box of ours that nobody uses any more.
unsafe fn give_back<T>(given: *mut T) {
    if !given.is_null() {
        guarded(|| {
            // SAFETY: a box of ours.
            drop(unsafe { Box::from_raw(given) });
            Ok(())
        });
    }
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is a handle, and `url` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_open(pool: *const CPool, url: *const c_char) -> *mut CObject {
    to_c(guarded(|| {
        // SAFETY: the caller's promise.
        let (pool, url) = unsafe { (handle("pool", pool)?, text("url", url)?) };
        let url = url.ok_or_else(|| Failure::mistake("url: a null pointer"))?;
        match pool {
            CPool::Own(pool) => Ok(CObject::Own(pool.open(url)?)),
            CPool::Shared(guest) => {
                let stamp = guest.open_all(&[url], false)?.pop();
                let stamp = stamp.unwrap_or_else(|| Err(Error::NotFound { url: url.to_owned() }))?;
                Ok(CObject::Shared(guest.clone(), Remote::new(url, stamp)?))
            }
        }
    }))
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null, or was given by this library and is given back for the first time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_close(object: *mut CObject) {
    // SAFETY: the caller's promise.
    unsafe { give_back(object) };
}

impl CObject {
    fn length(&self) -> u64 {
        match self {
            CObject::Own(object) => object.length(),
            CObject::Shared(_, remote) => remote.stamp().length,
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        match self {
            CObject::Own(object) => object.read_at(buffer, offset),
            CObject::Shared(guest, remote) => guest.read_at(remote, buffer, offset),
        }
    }

    fn direct(&self, directive: Directive) -> Result<(), Error> {
        match self {
            CObject::Own(object) => object.direct(directive),
            CObject::Shared(guest, remote) => guest.direct(remote, directive),
        }
    }

    /// Bytes from `offset` on: `length` of them, or all with a length of 0.
    fn from(&self, offset: u64, length: u64) -> u64 {
        if length == 0 { self.length().saturating_sub(offset) } else { length }
    }
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_length(object: *const CObject) -> u64 {
    // SAFETY: the caller's promise.
    guarded(|| Ok(unsafe { handle("object", object) }?.length())).unwrap_or(0)
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle, and there is room for `count` bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_read_at(
    object: *const CObject,
    buffer: *mut c_void,
    count: size_t,
    offset: u64,
) -> ssize_t {
    let read = guarded(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { handle("object", object) }?;
        let left = object.length().saturating_sub(offset);
        let length = (count as u64).min(left).min(isize::MAX as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        if buffer.is_null() {
            return Err(Failure::mistake("buffer: a null pointer"));
        }
        // SAFETY: not null, and there is room for as many bytes. They may never have been written, but bytes have no values
        // that they must not have, and none of them is looked at before it is.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        object.read_at(bytes, offset)?;
        Ok(length as ssize_t)
    });
    read.unwrap_or(-1)
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle, `view` null or a struct of the header's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_view(
    object: *const CObject,
    offset: u64,
    view: *mut CView,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { handle("object", object) }?;
        if view.is_null() {
            return Err(Failure::mistake("view: a null pointer"));
        }
        if offset >= object.length() {
            let (url, object_bytes) = (object.url().to_owned(), object.length());
            return Err(Error::PastEnd { url, offset, length: 1, object_bytes }.into());
        }
        let (bytes, lease): (&[u8], Lease) = match object {
            CObject::Own(object) => {
                let part_bytes = object.part_bytes();
                // No object has more parts.
                let part = object.view((offset / part_bytes) as u32)?;
                let bytes: *const [u8] = &raw const part[(offset % part_bytes) as usize..];
                // SAFETY: what a view shows stays where it is as long as there is the view, which goes into the lease.
                (unsafe { &*bytes }, Lease::Part(part))
            }
            CObject::Shared(..) => {
                let mut copy = vec![0; COPIED.min(object.length() - offset) as usize];
                object.read_at(&mut copy, offset)?;
                let bytes: *const [u8] = &raw const copy[..];
                // SAFETY: the memory of a vector stays where it is when the vector is moved.
                (unsafe { &*bytes }, Lease::Copy(copy))
            }
        };
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        let lease = Box::into_raw(Box::new(lease)).cast();
        // SAFETY: not null; the caller promises the type.
        unsafe { give("view", view, CView { data, length, lease }) }
    })
}

/// Bytes of a view of another process's pool.
const COPIED: u64 = 64 << 10;

impl CObject {
    fn url(&self) -> &str {
        match self {
            CObject::Own(object) => object.url(),
            CObject::Shared(_, remote) => remote.url(),
        }
    }
}

/// See foretell-buffers(3).
///
/// # Safety
/// `view` is null, or was filled by [`foretell_object_view`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_view_release(view: *mut CView) {
    // SAFETY: the caller's promise.
    let Some(view) = (unsafe { view.as_mut() }) else { return };
    // SAFETY: a box of ours, or null if it was released before.
    unsafe { give_back(view.lease.cast::<Lease>()) };
    *view = CView { data: std::ptr::null(), length: 0, lease: std::ptr::null_mut() };
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is null or a handle, and there are `n` ranges of handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_disclose(
    pool: *const CPool,
    ranges: *const CRange,
    n: size_t,
) -> ssize_t {
    let taken = guarded(|| {
        // SAFETY: the caller's promise.
        let (pool, ranges) = unsafe { (handle("pool", pool)?, slice("ranges", ranges, n)?) };
        let other = |object: &CObject| Error::OtherPool { url: object.url().to_owned() };
        // SAFETY: handles, as the caller promises.
        let object = |range: &CRange| unsafe { handle("ranges", range.object) };
        let taken = match pool {
            CPool::Own(pool) => {
                let mut all = Vec::with_capacity(ranges.len());
                for range in ranges {
                    match object(range)? {
                        CObject::Own(one) => all.push((one, range.offset, range.length)),
                        shared => return Err(other(shared).into()),
                    }
                }
                pool.disclose(&all)?
            }
            CPool::Shared(guest) => {
                let mut all = Vec::with_capacity(ranges.len());
                for range in ranges {
                    match object(range)? {
                        CObject::Shared(its, one) if Arc::ptr_eq(its, guest) => {
                            all.push((one, range.offset, range.length));
                        }
                        object => return Err(other(object).into()),
                    }
                }
                guest.disclose(&all)?
            }
        };
        Ok(ssize_t::try_from(taken).unwrap_or(ssize_t::MAX))
    });
    taken.unwrap_or(-1)
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_cancel(pool: *const CPool) -> c_int {
    // SAFETY: the caller's promise.
    done(|| match unsafe { handle("pool", pool) }? {
        CPool::Own(pool) => Ok(pool.cancel()?),
        CPool::Shared(guest) => Ok(guest.cancel()?),
    })
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_set_policy(pool: *const CPool, prio: c_int, policy: c_int) -> c_int {
    done(|| {
        let policy = u8::try_from(policy).ok().and_then(PoolPolicy::from_number);
        let policy = policy.ok_or_else(|| Failure::mistake("policy: no number of a policy"))?;
        // SAFETY: the caller's promise.
        match unsafe { handle("pool", pool) }? {
            CPool::Own(pool) => Ok(pool.set_policy(prio, policy)?),
            CPool::Shared(guest) => Ok(guest.set_policy(prio, policy)?),
        }
    })
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_set_priority(object: *const CObject, prio: c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(|| Ok(unsafe { handle("object", object) }?.direct(Directive::Priority(prio))?))
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_set_temppri(
    object: *const CObject,
    offset: u64,
    length: u64,
    prio: c_int,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { handle("object", object) }?;
        let length = object.from(offset, length);
        Ok(object.direct(Directive::TemporaryPriority { offset, length, priority: prio })?)
    })
}

/// See foretell-buffers(3).
///
/// # Safety
/// `object` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_object_done_with(
    object: *const CObject,
    offset: u64,
    length: u64,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { handle("object", object) }?;
        let length = object.from(offset, length);
        Ok(object.direct(Directive::DoneWith { offset, length })?)
    })
}

/// See foretell-buffers(3).
///
/// # Safety
/// `pool` is null or a handle, `stats` null or a struct of the header's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_pool_stats(pool: *const CPool, stats: *mut CStats) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let now = match unsafe { handle("pool", pool) }? {
            CPool::Own(pool) => pool.statistics()?,
            CPool::Shared(guest) => guest.statistics()?,
        };
        let counts = CStats {
            references: now.references,
            hits: now.hits,
            late: now.late,
            demand_fetches: now.demand_fetches,
            prefetches: now.prefetches,
            evictions: now.evictions,
            requests: now.requests,
            requests_failed: now.requests_failed,
            fetched_bytes: now.fetched_bytes,
            wasted_bytes: now.wasted_bytes,
            memory_bytes: now.memory_bytes,
            leased_bytes: now.leased_bytes,
            disclosed_ahead: now.disclosed_ahead,
            objects: now.objects,
            disk_read_bytes: now.disk_read_bytes,
            disk_written_bytes: now.disk_written_bytes,
            reserved: [0; 8],
        };
        // SAFETY: the caller's promise.
        unsafe { give("stats", stats, counts) }
    })
}

/// See foretell-buffers(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_pool_error() -> *const c_char {
    line()
}
