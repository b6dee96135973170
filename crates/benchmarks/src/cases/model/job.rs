//! A workload as the reader runs it and as the model is asked about it.

use std::ffi::OsString;
use std::path::PathBuf;

use foretell_analytic::workload::{Pattern, Prefetching, Workload};

const KIB: u64 = 1024;

/// Which reads come in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Sequential,
    Strided { stride_kb: u64 },
    Random,
    Hinted { horizon: u32 },
}

/// How they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    Direct,
    /// Through the page cache with this `read_ahead_kb`.
    Kernel {
        read_ahead_kb: u32,
    },
}

/// Reads to measure and to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) path: Path,
    pub(crate) kb: u64,
    pub(crate) request_kb: u64,
    pub(crate) think_us: u64,
    pub(crate) streams: u32,
}

/// The kernel with its usual readahead.
pub(crate) const KERNEL: Path = Path::Kernel { read_ahead_kb: 128 };

impl Job {
    /// `kb` in requests of `request_kb`.
    pub(crate) const fn new(order: Order, path: Path, kb: u64, request_kb: u64) -> Job {
        Job { order, path, kb, request_kb, think_us: 0, streams: 1 }
    }

    pub(crate) const fn thinking(self, think_us: u64) -> Job {
        Job { think_us, ..self }
    }

    pub(crate) const fn streams(self, streams: u32) -> Job {
        Job { streams, ..self }
    }

    /// Its short name.
    pub(crate) fn label(&self) -> String {
        let mut label = match self.order {
            Order::Sequential => "sequential".to_owned(),
            Order::Strided { stride_kb } => format!("strided {stride_kb}K"),
            Order::Random => "random".to_owned(),
            Order::Hinted { horizon } => format!("hinted H={horizon}"),
        };
        label += &format!(" {}K of {}M", self.request_kb, self.kb / 1024);
        if self.streams > 1 {
            label += &format!(" x {}", self.streams);
        }
        if self.think_us > 0 {
            label += &format!(", {} us", self.think_us);
        }
        match self.path {
            Path::Direct => label += ", direct",
            Path::Kernel { read_ahead_kb } if self.order == Order::Sequential => {
                label += &format!(", ra {read_ahead_kb}");
            }
            Path::Kernel { .. } => {}
        }
        label
    }

    /// What the model is asked, when the files that it reads have `file_bytes` each.
    pub(crate) fn workload(&self, file_bytes: u64) -> Workload {
        let bytes = self.kb * KIB;
        let request_bytes = self.request_kb * KIB;
        let (pattern, span_bytes) = match self.order {
            Order::Sequential => (Pattern::Sequential, bytes),
            Order::Strided { stride_kb } => {
                let stride_bytes = stride_kb * KIB;
                (Pattern::Strided { stride_bytes }, bytes / request_bytes * stride_bytes)
            }
            Order::Random => (Pattern::Random, file_bytes),
            Order::Hinted { horizon } => (Pattern::Hinted { horizon }, file_bytes),
        };
        let prefetching = match self.path {
            Path::Direct => Prefetching::Off,
            Path::Kernel { read_ahead_kb } => {
                Prefetching::Linux { read_ahead_bytes: u64::from(read_ahead_kb) * KIB }
            }
        };
        Workload {
            pattern,
            bytes,
            span_bytes,
            request_bytes,
            streams: self.streams,
            think_us: self.think_us as f64,
            prefetching,
            ..Workload::sequential(bytes)
        }
    }

    /// The reader's arguments.
    pub(crate) fn arguments(&self, files: &[PathBuf]) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["patterned".into()];
        arguments.extend(files.iter().take(self.streams as usize).map(|file| file.clone().into()));
        let order = match self.order {
            Order::Sequential => "sequential",
            Order::Strided { .. } => "strided",
            Order::Random => "random",
            Order::Hinted { .. } => "hinted",
        };
        let stride = if let Order::Strided { stride_kb } = self.order { stride_kb * KIB } else { 0 };
        let horizon = if let Order::Hinted { horizon } = self.order { u64::from(horizon) } else { 0 };
        arguments.extend(["--order".into(), order.into()]);
        for (flag, value) in [
            ("--bytes", self.kb * KIB),
            ("--request", self.request_kb * KIB),
            ("--think-us", self.think_us),
            ("--stride", stride),
            ("--horizon", horizon),
        ] {
            arguments.extend([flag.into(), value.to_string().into()]);
        }
        if self.path == Path::Direct {
            arguments.push("--direct".into());
        }
        arguments
    }
}
