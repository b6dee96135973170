//! The C interface: what `include/foretell.h` declares and `man/foretell.3` describes.
//!
//! Each function turns C's numbers and pointers into a call of the one [`Client`] of the process, and its
//! result into 0, or -1 and `errno`. A panic, which would be a mistake of ours, ends at the border: the call
//! then fails with `EIO`.

#![allow(unsafe_code)]

mod list;
mod result;

use std::ops::Range;
use std::os::fd::BorrowedFd;

use foretell_client::{Client, Policy};
use libc::{c_int, size_t, ssize_t};

use result::{Failure, count, done, flag};

/// The process's client. A `static` and no lazy cell: it must not be found half made after a fork.
static CLIENT: Client = Client::new();

/// Bytes of a block in calls that count in blocks: `FORETELL_BLOCK`, as in the papers' systems.
const BLOCK_BYTES: u64 = 8192;

/// `struct foretell_chunk`: bytes `start` to before `end` of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// Which file.
    pub fd: c_int,
    /// The first byte.
    pub start: i64,
    /// The byte after the last.
    pub end: i64,
}

/// `struct foretell_stats`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// 1 when there is a connection, else 0.
    pub connected: u64,
    /// Directives and hints sent so far.
    pub sent: u64,
    /// Hints dropped so far.
    pub dropped: u64,
    /// See [`foretell_client::Statistics`], as all that follow.
    pub refused: u64,
    /// Blocks.
    pub disclosed: u64,
    /// Blocks.
    pub disclosed_ahead: u64,
    /// Blocks.
    pub owned: u64,
    /// Blocks.
    pub references: u64,
    /// Blocks.
    pub hits: u64,
    /// Blocks.
    pub demand_fetches: u64,
    /// Blocks.
    pub prefetches: u64,
    /// Blocks.
    pub prefetches_useful: u64,
    /// Blocks.
    pub prefetches_late: u64,
    /// Blocks.
    pub prefetches_wasted: u64,
    /// Blocks.
    pub evictions: u64,
    /// Decisions.
    pub overruled: u64,
    /// Decisions.
    pub placeholders_used: u64,
    /// 1 while control is revoked, else 0.
    pub revoked: u64,
    /// 0; room for more.
    pub reserved: [u64; 6],
}

/// The descriptor of a number.
fn descriptor(fd: c_int) -> Result<BorrowedFd<'static>, Failure> {
    if fd < 0 {
        return Err(Failure(libc::EBADF));
    }
    // SAFETY: it is not -1. Whether it is open the client asks the kernel before it does anything else with it,
    // and what it does then is harmless to any descriptor.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

fn offset(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure(libc::EINVAL))
}

/// The bytes from `start`, `length` of them; with a length of 0 all that follow, as in posix_fadvise(2).
fn bytes(start: i64, length: i64) -> Result<Range<u64>, Failure> {
    let (start, length) = (offset(start)?, offset(length)?);
    let end = if length == 0 { i64::MAX.cast_unsigned() } else { start.saturating_add(length) };
    Ok(start..end)
}

/// Writes a result where the caller wants it.
fn give<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure(libc::EFAULT));
    }
    // SAFETY: not null; the header asks for a pointer to a variable of this type.
    unsafe { to.write(value) };
    Ok(())
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_set_priority(fd: c_int, prio: c_int) -> c_int {
    done(|| Ok(CLIENT.set_priority(descriptor(fd)?, prio)?))
}

/// See foretell(3).
///
/// # Safety
/// `prio` is null or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_get_priority(fd: c_int, prio: *mut c_int) -> c_int {
    done(|| give(prio, CLIENT.priority(descriptor(fd)?)?))
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_set_policy(prio: c_int, policy: c_int) -> c_int {
    done(|| {
        let policy = u8::try_from(policy).ok().and_then(Policy::from_number).ok_or(Failure(libc::EINVAL))?;
        Ok(CLIENT.set_policy(prio, policy)?)
    })
}

/// See foretell(3).
///
/// # Safety
/// `policy` is null or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_get_policy(prio: c_int, policy: *mut c_int) -> c_int {
    done(|| give(policy, c_int::from(CLIENT.policy(prio).number())))
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_set_temppri(fd: c_int, start_block: u64, end_block: u64, prio: c_int) -> c_int {
    done(|| {
        if start_block > end_block {
            return Err(Failure(libc::EINVAL));
        }
        let most = i64::MAX.cast_unsigned();
        let start = start_block.saturating_mul(BLOCK_BYTES).min(most);
        let end = end_block.saturating_add(1).saturating_mul(BLOCK_BYTES).min(most);
        Ok(CLIENT.set_temporary_priority(descriptor(fd)?, start..end, prio)?)
    })
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_file_list_start(n: size_t) -> c_int {
    done(|| {
        list::start(n);
        Ok(())
    })
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_file_list_end() -> ssize_t {
    count(list::end)
}

/// See foretell(3).
///
/// # Safety
/// `list` points to `n` chunks, or `n` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_block_list(list: *const Chunk, n: size_t) -> ssize_t {
    count(|| {
        if n == 0 {
            return Ok(0);
        }
        if list.is_null() {
            return Err(Failure(libc::EFAULT));
        }
        // SAFETY: not null; the caller promises that there are as many.
        let chunks = unsafe { std::slice::from_raw_parts(list, n) };
        // A chunk that is wrong ends the list; those before it were taken.
        let mut wrong = None;
        let good = chunks.iter().map_while(|chunk| {
            let checked = || Ok((descriptor(chunk.fd)?, offset(chunk.start)?..offset(chunk.end)?));
            checked().map_err(|failure| wrong = Some(failure)).ok()
        });
        let taken = CLIENT.disclose_list(good)?;
        wrong.map_or(Ok(taken), Err)
    })
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_disclose_fd(fd: c_int, start: i64, length: i64) -> c_int {
    done(|| {
        let file = descriptor(fd)?;
        if (start, length) == (0, 0) {
            CLIENT.disclose_files([file])?;
        } else {
            CLIENT.disclose_range(file, bytes(start, length)?)?;
        }
        Ok(())
    })
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_done_with(fd: c_int, start: i64, length: i64) -> c_int {
    done(|| Ok(CLIENT.done_with(descriptor(fd)?, bytes(start, length)?)?))
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_cancel() -> c_int {
    done(|| {
        CLIENT.cancel();
        Ok(())
    })
}

/// See foretell(3).
///
/// # Safety
/// `st` is null or points to a `struct foretell_stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn foretell_stats(st: *mut Stats) -> c_int {
    done(|| {
        let now = CLIENT.stats();
        let counts = now.statistics;
        let stats = Stats {
            connected: u64::from(now.connected),
            sent: now.sent,
            dropped: now.dropped,
            refused: counts.entries_refused,
            disclosed: counts.disclosed,
            disclosed_ahead: counts.disclosed_ahead,
            owned: counts.owned,
            references: counts.references,
            hits: counts.hits,
            demand_fetches: counts.demand_fetches,
            prefetches: counts.prefetches,
            prefetches_useful: counts.prefetches_useful,
            prefetches_late: counts.prefetches_late,
            prefetches_wasted: counts.prefetches_wasted,
            evictions: counts.evictions,
            overruled: counts.overruled,
            placeholders_used: counts.placeholders_used,
            revoked: counts.revoked,
            reserved: [0; 6],
        };
        give(st, stats)
    })
}

/// See foretell(3).
#[unsafe(no_mangle)]
pub extern "C" fn foretell_connected() -> c_int {
    flag(|| CLIENT.is_connected())
}
