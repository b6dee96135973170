//! How a pool fares.

/// Counts since the pool was made. References, hits and fetches are in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// References to parts: one for each part that a read touches.
    pub references: u64,
    /// References that found their part in memory.
    pub hits: u64,
    /// References whose part was on its way already.
    pub late: u64,
    /// Parts fetched because somebody waited for them.
    pub demand_fetches: u64,
    /// Parts fetched ahead.
    pub prefetches: u64,
    /// Of them, those that were replaced without having been read.
    pub prefetches_wasted: u64,
    /// Parts that were replaced.
    pub evictions: u64,
    /// Requests to stores for bytes of objects.
    pub requests: u64,
    /// Of them, those that failed, their retries included.
    pub requests_failed: u64,
    /// Second requests for slow ones, which are not among the requests.
    pub hedges: u64,
    /// Of them, those that were answered first.
    pub hedges_won: u64,
    /// Bytes that stores sent.
    pub fetched_bytes: u64,
    /// Of them, those of parts that were given up without having been read.
    pub wasted_bytes: u64,
    /// Requests under way.
    pub requests_under_way: u64,
    /// Bytes in memory, of parts that were replaced and are still read or leased, too.
    pub memory_bytes: u64,
    /// The most that there ever were.
    pub memory_peak_bytes: u64,
    /// Bytes of parts in leases.
    pub leased_bytes: u64,
    /// References that are disclosed and not made yet.
    pub disclosed_ahead: u64,
    /// Objects that are open.
    pub objects: u64,
    /// Bytes that were read from the disk instead of the store.
    pub disk_read_bytes: u64,
    /// Bytes that were written there.
    pub disk_written_bytes: u64,
    /// Parts that could not be written there (the disk is full) or read from there as they were written.
    pub disk_failures: u64,
    /// What the best possible replacement would have fetched for the same references with the same budget (Belady 1966);
    /// `None` unless they were recorded, and all of them.
    pub best_fetches: Option<u64>,
}

impl Statistics {
    /// How many numbers they are.
    pub(crate) const NUMBERS: usize = 23;

    /// In the order of their fields, for another process.
    pub(crate) fn to_numbers(self) -> [Option<u64>; Statistics::NUMBERS] {
        [
            Some(self.references),
            Some(self.hits),
            Some(self.late),
            Some(self.demand_fetches),
            Some(self.prefetches),
            Some(self.prefetches_wasted),
            Some(self.evictions),
            Some(self.requests),
            Some(self.requests_failed),
            Some(self.hedges),
            Some(self.hedges_won),
            Some(self.fetched_bytes),
            Some(self.wasted_bytes),
            Some(self.requests_under_way),
            Some(self.memory_bytes),
            Some(self.memory_peak_bytes),
            Some(self.leased_bytes),
            Some(self.disclosed_ahead),
            Some(self.objects),
            Some(self.disk_read_bytes),
            Some(self.disk_written_bytes),
            Some(self.disk_failures),
            self.best_fetches,
        ]
    }

    pub(crate) fn from_numbers(numbers: [Option<u64>; Statistics::NUMBERS]) -> Statistics {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().flatten();
        Statistics {
            references: next().unwrap_or_default(),
            hits: next().unwrap_or_default(),
            late: next().unwrap_or_default(),
            demand_fetches: next().unwrap_or_default(),
            prefetches: next().unwrap_or_default(),
            prefetches_wasted: next().unwrap_or_default(),
            evictions: next().unwrap_or_default(),
            requests: next().unwrap_or_default(),
            requests_failed: next().unwrap_or_default(),
            hedges: next().unwrap_or_default(),
            hedges_won: next().unwrap_or_default(),
            fetched_bytes: next().unwrap_or_default(),
            wasted_bytes: next().unwrap_or_default(),
            requests_under_way: next().unwrap_or_default(),
            memory_bytes: next().unwrap_or_default(),
            memory_peak_bytes: next().unwrap_or_default(),
            leased_bytes: next().unwrap_or_default(),
            disclosed_ahead: next().unwrap_or_default(),
            objects: next().unwrap_or_default(),
            disk_read_bytes: next().unwrap_or_default(),
            disk_written_bytes: next().unwrap_or_default(),
            disk_failures: next().unwrap_or_default(),
            best_fetches: next(),
        }
    }
}
