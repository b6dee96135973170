//! What of a pool can be chosen, and its limits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use foretell_policy::{CACHES_AHEAD, Limits, PoolPolicy, Prefetch};

use crate::disk::Disk;
use crate::error::Error;

/// Sizes of parts that are possible. Less than a page is all bookkeeping.
const LEAST_PART_BYTES: u32 = 4 << 10;
const MOST_PART_BYTES: u32 = 64 << 20;
/// Bytes of one request at most: what Amazon advises for ranges of large objects ("Performance design patterns for
/// Amazon S3": 8 to 16 MiB). Larger ones only make their last parts late.
pub(crate) const REQUEST_BYTES: u64 = 8 << 20;
/// What one read waits for at a time: four requests of the largest size, as many as are under way at first.
pub(crate) const READ_BYTES: u64 = 4 * REQUEST_BYTES;
/// Requests at a time, however quick the store: as on the page cache.
pub(crate) const MOST_REQUESTS: usize = 64;
/// Objects open at a time.
pub(crate) const MOST_OBJECTS: u32 = 1 << 20;
/// Stores that a pool speaks to.
pub(crate) const MOST_STORES: usize = 256;
/// Parts that are disclosed and not read yet, as in [`foretell_policy::Limits`].
pub(crate) const MOST_DISCLOSED: u32 = 1 << 22;
/// Parts of one object: numbers beyond stay free, so that the one after the last part is one, too.
pub(crate) const MOST_PARTS: u32 = 1 << 31;
/// How often [`Options::keep_waiting`] is asked.
pub(crate) const ASKED: Duration = Duration::from_millis(100);
/// Entries that one listing gives.
pub(crate) const MOST_LISTED: usize = 1 << 20;
/// Threads of a pool: requests wait for the network and not for the processor, which copies what comes.
const MOST_THREADS: usize = 64;
/// Threads that may hold what one read copies, all at the same time.
const READERS: u64 = 256;
/// Beyond, to tell costs nothing any more.
const TOLD_AT: u32 = 128;
/// The part of the cache that may be ahead of its use, on its way or there. What is fetched early takes the place of
/// something that will be needed, and costs a fetch more in each pass: with a thirty-second a shuffled order stays within 2%
/// of the best possible fetches, with an eighth it is 6% off. Where the store is what readers wait for, being further ahead
/// gains nothing. Of larger objects that are read in order, one request takes many parts.
pub(crate) const AHEAD_PART: u32 = 32;
pub(crate) const AHEAD_PART_IN_ORDER: u32 = 8;
/// The part of the cache that may wait for those of several readers that are behind the first: workers of a data loader have a
/// few batches each.
const WAITED_PART: u32 = 4;
/// And no more parts than that.
const MOST_WAITED: u32 = 1024;
/// Parts that may be on their way in the smallest cache, if it has twice as many.
const AHEAD_LEAST: u32 = 4;
/// No disk is larger.
const MOST_DISK_BYTES: u64 = 1 << 50;
/// The longest that anybody waits.
const MOST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// How a pool is made. All has a default but the budget.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of memory for parts, those on their way included. What readers and leases still hold of parts that were
    /// replaced meanwhile comes on top of it.
    pub budget_bytes: u64,
    /// Bytes of a part: what is fetched, kept and given up as one. The last part of an object is shorter, but counts as
    /// a whole one. Neighbours come by one request, so small parts cost little, and large ones what nobody reads. Many
    /// small objects of one size are fetched least often with that size.
    pub part_bytes: u32,
    /// No read waits for a part longer than this, and no request takes longer, with all its retries.
    pub timeout: Duration,
    /// Requests under way at most, 64 at most.
    pub requests: usize,
    /// Threads that receive what comes.
    pub threads: usize,
    /// What is replaced first where no list says when it will be read.
    pub policy: PoolPolicy,
    /// What is fetched before it is read.
    pub prefetch: Prefetch,
    /// A folder on a local disk, in which parts that were read are kept when memory has no room for them: in a file without
    /// a name, which goes with the pool. `None` for no such tier.
    pub disk_dir: Option<PathBuf>,
    /// Bytes of that file at most. Their bookkeeping takes about 200 bytes of memory a part.
    pub disk_bytes: u64,
    /// Options of the stores, as `object_store` names them (`endpoint`, `region`, `access_key_id`, ...). They go before
    /// the environment's (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
    pub store: Vec<(String, String)>,
    /// No byte of an answer is given before all of it is there and has its checksum, where the store sends one. Otherwise bytes
    /// are given as they come, but for the last ones of an answer: a checksum that is another one then is an error where the reader
    /// goes on.
    pub strict: bool,
    /// Asked ten times a second by each thread that waits for a store: `false` ends its call with
    /// [`Error::Interrupted`]. What it waited for comes nevertheless.
    pub keep_waiting: Option<fn() -> bool>,
    /// References of which [`crate::Statistics::best_fetches`] is made; 0 for not recording them.
    pub recorded_references: u32,
}

/// Without the values of the stores' options, among which there are secrets.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named: Vec<&str> = self.store.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Options")
            .field("budget_bytes", &self.budget_bytes)
            .field("part_bytes", &self.part_bytes)
            .field("timeout", &self.timeout)
            .field("requests", &self.requests)
            .field("threads", &self.threads)
            .field("policy", &self.policy)
            .field("prefetch", &self.prefetch)
            .field("disk_dir", &self.disk_dir)
            .field("disk_bytes", &self.disk_bytes)
            .field("store", &named)
            .field("strict", &self.strict)
            .field("keep_waiting", &self.keep_waiting.is_some())
            .field("recorded_references", &self.recorded_references)
            .finish()
    }
}

impl Options {
    /// The defaults for a budget.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Options {
        Options {
            budget_bytes,
            part_bytes: 16 << 10,
            timeout: Duration::from_secs(60),
            requests: MOST_REQUESTS,
            threads: 2,
            policy: PoolPolicy::default(),
            prefetch: Prefetch::FOR_LISTS,
            disk_dir: None,
            disk_bytes: 0,
            store: Vec::new(),
            strict: false,
            keep_waiting: None,
            recorded_references: 0,
        }
    }

    /// Parts in the budget.
    pub(crate) fn parts(&self) -> u32 {
        u32::try_from(self.budget_bytes / u64::from(self.part_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// Limits of both engines, that of the memory and that of the disk. As much of a list waits in the one as in the other: they
    /// must be done with an object at the same time, as they count objects with the same numbers.
    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits::default();
        let ahead = self.parts().max(self.disk_parts()).saturating_mul(CACHES_AHEAD);
        Limits {
            files: MOST_OBJECTS,
            disclosed_blocks: MOST_DISCLOSED,
            held_ahead: limits.held_ahead.max(ahead),
            ..limits
        }
    }

    /// Parts of one request at most: an eighth of the budget, so that several fit into it.
    pub(crate) fn request_parts(&self) -> usize {
        let by_bytes = REQUEST_BYTES / u64::from(self.part_bytes.max(1));
        by_bytes.min(u64::from(self.parts() / 8)).max(1) as usize
    }

    /// Parts that one read waits for at a time, at most.
    pub(crate) fn read_parts(&self) -> usize {
        let by_bytes = READ_BYTES / u64::from(self.part_bytes.max(1));
        by_bytes.min(u64::from(self.parts() / 2)).max(1) as usize
    }

    /// Parts that readers may hold beside the budget: as many as it has in leases, and what a read copies, by more threads
    /// than have lanes.
    pub(crate) fn parts_beside(&self) -> u32 {
        let reads = self.read_parts() as u64 * READERS + self.requests as u64;
        u32::try_from(u64::from(self.parts()) + reads).unwrap_or(u32::MAX)
    }

    /// Parts on the disk.
    pub(crate) fn disk_parts(&self) -> u32 {
        let parts = self.disk_bytes / Disk::slot_bytes(self.part_bytes);
        u32::try_from(parts).unwrap_or(u32::MAX)
    }

    /// Parts of a list that are waited for behind its first reader.
    pub(crate) fn waited_for(&self) -> u32 {
        (self.parts() / WAITED_PART).min(MOST_WAITED)
    }

    /// References that a thread leaves until it has somebody tell the engine: few, where not many parts may be ahead of
    /// their use.
    pub(crate) fn told_at(&self) -> u64 {
        u64::from((ahead_at_most(self.parts(), AHEAD_PART) / 8).clamp(1, TOLD_AT))
    }

    /// Is all of it possible?
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self) -> Result<(), Error> {
        let within = |name, given: u64, least: u64, most: u64| {
            let outside = Error::Outside { name, given, least, most };
            if (least..=most).contains(&given) { Ok(()) } else { Err(outside) }
        };
        let part_bytes = u64::from(self.part_bytes);
        within("part_bytes", part_bytes, LEAST_PART_BYTES.into(), MOST_PART_BYTES.into())?;
        within("requests", self.requests as u64, 1, MOST_REQUESTS as u64)?;
        within("threads", self.threads as u64, 1, MOST_THREADS as u64)?;
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        within("timeout in ms", timeout_ms, 1, MOST_TIMEOUT.as_millis() as u64)?;
        if self.disk_dir.is_some() != (self.disk_bytes > 0) {
            return Err(Error::HalfADisk);
        }
        if self.disk_dir.is_some() {
            within("disk_bytes", self.disk_bytes, Disk::slot_bytes(self.part_bytes), MOST_DISK_BYTES)?;
        }
        if self.budget_bytes < part_bytes {
            let (budget_bytes, part_bytes) = (self.budget_bytes, self.part_bytes);
            return Err(Error::BudgetBelowPart { budget_bytes, part_bytes });
        }
        Ok(())
    }
}

/// Parts of a cache that may be ahead of their use: one in `share`.
pub(crate) fn ahead_at_most(parts: u32, share: u32) -> u32 {
    (parts / share).max(AHEAD_LEAST.min(parts / 2)).max(1)
}

/// What [`Options::keep_waiting`] says in the course of one call.
pub(crate) struct Patience {
    keep_waiting: Option<fn() -> bool>,
    asked: Instant,
}

impl Patience {
    pub(crate) fn new(keep_waiting: Option<fn() -> bool>) -> Patience {
        Patience { keep_waiting, asked: Instant::now() }
    }

    /// Asks, if it is time to.
    pub(crate) fn ask(&mut self) -> Result<(), Error> {
        let Some(keep_waiting) = self.keep_waiting else { return Ok(()) };
        if self.asked.elapsed() < ASKED {
            return Ok(());
        }
        self.asked = Instant::now();
        if keep_waiting() { Ok(()) } else { Err(Error::Interrupted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut options = Options::new(1 << 20);
        options.store.push(("secret_access_key".to_owned(), "hush".to_owned()));
        let shown = format!("{options:?}");
        assert!(shown.contains("secret_access_key") && !shown.contains("hush"), "{shown}");
    }
}
