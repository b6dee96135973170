//! What a program reads, as the model needs it.

use thiserror::Error;

/// The order of the reads of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// From start to end.
    Sequential,
    /// A request at every multiple of `stride_bytes`.
    Strided {
        /// From the start of a request to the start of the next, in bytes; more than a request.
        stride_bytes: u64,
    },
    /// Uniformly over the file; nobody knows the order before.
    Random,
    /// Uniformly over the file, in an order that was disclosed.
    Hinted {
        /// H: references ahead that are fetched.
        horizon: u32,
    },
}

/// How the streams' files lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Nobody knows: the mean over places where they may lie.
    Unknown,
    /// Each begins where the one before ends.
    Adjacent,
}

/// How the file system prefetches sequential reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetching {
    /// Not at all: every read goes to the device (direct reads).
    Off,
    /// As 4.4BSD's FFS does ([`crate::ffs`]), synchronously, with its clusters of 64 KB.
    Ffs,
    /// As Linux does ([`crate::readahead`]), asynchronously.
    Linux {
        /// `read_ahead_kb`, in bytes.
        read_ahead_bytes: u64,
    },
}

/// Reads to predict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Order of each stream.
    pub pattern: Pattern,
    /// Bytes that each stream reads.
    pub bytes: u64,
    /// Bytes over which a random or strided stream spreads its requests; for a sequential one `bytes`.
    pub span_bytes: u64,
    /// Bytes of a read.
    pub request_bytes: u64,
    /// Streams at the same time, each in its own file.
    pub streams: u32,
    /// How their files lie; only disks ask.
    pub layout: Layout,
    /// Computation between two reads of a stream, in us.
    pub think_us: f64,
    /// Streams that can compute at the same time: processors.
    pub processors: u32,
    /// Processor time of starting a request at the device, in us.
    pub driver_us: f64,
    /// What the file system adds.
    pub prefetching: Prefetching,
    /// The largest request that the device takes (`max_sectors_kb`), in bytes: what is read ahead is cut into
    /// such.
    pub split_bytes: u64,
    /// Memory for data that were read ahead, in bytes.
    pub memory_bytes: u64,
}

/// The most streams.
pub const MAX_STREAMS: u32 = 65_536;
/// The longest computation between two reads, in us: an hour.
pub const MAX_THINK_US: f64 = 3.6e9;
/// The most bytes of a stream; above it times in ms lose their last digits.
pub const MAX_BYTES: u64 = 1 << 50;

/// What is wrong with a workload.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkloadError {
    /// A number out of its range.
    #[error("{field} is {value}; give {allowed}")]
    Range {
        /// The key, as in the workload's text.
        field: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Data read ahead would not fit the memory.
    #[error(
        "{what} need {needed_bytes} bytes of memory and there are {memory_bytes}; lower {lower}, or give memory=SIZE"
    )]
    Memory {
        /// What needs it.
        what: &'static str,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes there.
        memory_bytes: u64,
        /// What to lower.
        lower: &'static str,
    },
    /// The device is smaller.
    #[error("the streams spread over {needed_bytes} bytes and the device holds {capacity_bytes}")]
    Capacity {
        /// Bytes of all streams' files.
        needed_bytes: u64,
        /// Bytes of the device.
        capacity_bytes: u64,
    },
}

impl Workload {
    /// A sequential read of `bytes` by one stream in 8 KB under Linux's default of 128 KB, without
    /// computation.
    #[must_use]
    pub fn sequential(bytes: u64) -> Workload {
        Workload {
            pattern: Pattern::Sequential,
            bytes,
            span_bytes: bytes,
            request_bytes: 8 << 10,
            streams: 1,
            layout: Layout::Unknown,
            think_us: 0.0,
            processors: u32::MAX,
            driver_us: 0.0,
            split_bytes: u64::MAX,
            prefetching: Prefetching::Linux { read_ahead_bytes: 128 << 10 },
            memory_bytes: u64::MAX,
        }
    }

    /// Reads that each stream makes.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.bytes.div_ceil(self.request_bytes)
    }

    /// Computation between two reads, in ms.
    #[must_use]
    pub fn think_ms(&self) -> f64 {
        self.think_us / 1e3
    }

    /// Processor time of starting a request, in ms.
    #[must_use]
    pub fn driver_ms(&self) -> f64 {
        self.driver_us / 1e3
    }

    /// Bytes that are read ahead at the same time at most: two windows a stream, or the horizon.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        let streams = u64::from(self.streams);
        match (self.pattern, self.prefetching) {
            (Pattern::Hinted { horizon }, _) => {
                streams.saturating_mul(u64::from(horizon)).saturating_mul(self.request_bytes)
            }
            (Pattern::Sequential, Prefetching::Linux { read_ahead_bytes }) => {
                streams.saturating_mul(2).saturating_mul(read_ahead_bytes.max(self.request_bytes))
            }
            _ => streams.saturating_mul(self.request_bytes),
        }
    }

    /// Checks the numbers against each other and against a device of `capacity_bytes`.
    ///
    /// # Errors
    ///
    /// [`WorkloadError`] for the first that cannot be.
    pub fn check(&self, capacity_bytes: u64) -> Result<(), WorkloadError> {
        let range = |field, value: String, allowed: &str| {
            Err(WorkloadError::Range { field, value, allowed: allowed.to_owned() })
        };
        if !(1..=MAX_BYTES).contains(&self.bytes) {
            return range("bytes", self.bytes.to_string(), "1 to 2^50 bytes");
        }
        if self.request_bytes == 0 || self.request_bytes > self.bytes {
            return range("request", self.request_bytes.to_string(), "1 byte to the stream's bytes");
        }
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return range("streams", self.streams.to_string(), "1 to 65536");
        }
        if !(0.0..=MAX_THINK_US).contains(&self.think_us) {
            return range("think_us", number(self.think_us), "0 to 3.6e9 us");
        }
        if self.processors == 0 {
            return range("cpus", "0".to_owned(), "at least 1");
        }
        if !(0.0..=MAX_THINK_US).contains(&self.driver_us) {
            return range("driver_us", number(self.driver_us), "0 to 3.6e9 us");
        }
        if self.split_bytes == 0 {
            return range("split", "0".to_owned(), "at least 1 byte");
        }
        match self.pattern {
            Pattern::Strided { stride_bytes }
                if stride_bytes <= self.request_bytes || stride_bytes > MAX_BYTES =>
            {
                return range("stride", stride_bytes.to_string(), "more than a request, at most 2^50 bytes");
            }
            Pattern::Hinted { horizon: 0 } => {
                return range("horizon", "0".to_owned(), "at least 1 reference");
            }
            _ => {}
        }
        if self.span_bytes < self.request_bytes {
            return range("span", self.span_bytes.to_string(), "at least a request");
        }
        let needed_bytes = self.span_bytes.saturating_mul(u64::from(self.streams));
        if needed_bytes > capacity_bytes {
            return Err(WorkloadError::Capacity { needed_bytes, capacity_bytes });
        }
        let (needed_bytes, memory_bytes) = (self.ahead_bytes(), self.memory_bytes);
        if needed_bytes > memory_bytes {
            let (what, lower) = match self.pattern {
                Pattern::Hinted { .. } => ("the blocks within the horizon", "horizon, request or streams"),
                _ => ("the windows of the streams", "read_ahead, request or streams"),
            };
            return Err(WorkloadError::Memory { what, needed_bytes, memory_bytes, lower });
        }
        Ok(())
    }
}

/// A number as it was given, but not in 300 digits.
fn number(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e16 { format!("{value:e}") } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Workload)) -> String {
        let mut workload = Workload::sequential(1 << 30);
        change(&mut workload);
        workload.check(1 << 40).unwrap_err().to_string()
    }

    #[test]
    fn impossible_numbers_are_refused_in_one_line() {
        assert_eq!(refused(|w| w.think_us = f64::NAN), "think_us is NaN; give 0 to 3.6e9 us");
        assert_eq!(refused(|w| w.think_us = -1.0), "think_us is -1; give 0 to 3.6e9 us");
        assert_eq!(refused(|w| w.think_us = 1e308), "think_us is 1e308; give 0 to 3.6e9 us");
        assert_eq!(refused(|w| w.driver_us = f64::INFINITY), "driver_us is inf; give 0 to 3.6e9 us");
        assert_eq!(refused(|w| w.processors = 0), "cpus is 0; give at least 1");
        assert_eq!(refused(|w| w.split_bytes = 0), "split is 0; give at least 1 byte");
        assert!(refused(|w| w.streams = 0).starts_with("streams is 0"));
        assert!(refused(|w| w.request_bytes = 2 << 30).starts_with("request is"));
        assert!(refused(|w| w.span_bytes = 1 << 41).contains("the device holds"));
        assert!(refused(|w| w.pattern = Pattern::Strided { stride_bytes: 8 << 10 }).contains("stride"));
    }

    #[test]
    fn what_does_not_fit_memory_is_refused() {
        let hinted = refused(|w| {
            w.pattern = Pattern::Hinted { horizon: 1000 };
            w.memory_bytes = 1 << 20;
        });
        assert!(hinted.starts_with("the blocks within the horizon need 8192000 bytes"), "{hinted}");
        let windows = refused(|w| {
            w.streams = 16;
            w.memory_bytes = 1 << 20;
        });
        assert!(windows.contains("lower read_ahead, request or streams"), "{windows}");
    }
}
