//! One cell of a sweep: a policy, a cache, an array of disks, and the input to run on them.

use std::sync::Arc;

use foretell_device::{DeviceParameters, Discipline};
use foretell_policy::{Allocation, Beside, Revocation};

use crate::control::Control;
use crate::hints::Hints;
use crate::policy::PolicyName;

/// Processor time of one fetch in the paper (Kimbrel et al. 1996, section 3.1: typical of their machine). The
/// devices of its time say the same ([`DeviceParameters::driver_time_ns`]).
pub const DRIVER_NS: u64 = 500_000;

/// Linux's readahead window unless it is tuned (`read_ahead_kb`), in bytes.
pub const LINUX_READAHEAD_BYTES: u32 = 128 << 10;

/// How many prefetches make a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Batch {
    /// Table 6 of the paper: 80, 40, 40, 16, 16, 8, 8, 4 for 1 to 8 disks and 4 beyond.
    Paper,
    /// What fits the figures of section 4.2 on synth: 40, 8, 8, 4 for 1 to 4 disks and 4 beyond.
    Fitted,
    /// This many.
    Fixed(u32),
}

impl Batch {
    /// The size for an array of `disks` disks.
    #[must_use]
    pub fn size(self, disks: u16) -> u32 {
        match self {
            Batch::Fixed(size) => size.max(1),
            Batch::Paper => match disks {
                0 | 1 => 80,
                2 | 3 => 40,
                4 | 5 => 16,
                6 | 7 => 8,
                _ => 4,
            },
            Batch::Fitted => match disks {
                0 | 1 => 40,
                2 | 3 => 8,
                _ => 4,
            },
        }
    }
}

/// With what reverse aggressive makes its schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reverse {
    /// F: the time of a fetch, in references.
    pub fetch_references: f64,
    /// Replacements that a free disk makes at a time on the reversed list.
    pub batch: u32,
}

/// An advisory plane: the kernel holds the blocks, reads ahead by itself, and is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advisory {
    /// Seed of its faults; none if `None`.
    pub faults: Option<u64>,
}

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The policy.
    pub policy: PolicyName,
    /// Number of disks, at least 1.
    pub disks: u16,
    /// Each of them.
    pub device: DeviceParameters,
    /// Its name.
    pub device_name: String,
    /// Discipline of their queues.
    pub discipline: Discipline,
    /// A demand fetch overtakes the prefetches in a disk's queue.
    pub demand_first: bool,
    /// With `demand_first`, a queued prefetch that a process begins to wait for becomes a demand fetch:
    /// [`foretell_device::DemandFirst::Promote`], which says when that is a mistake.
    pub promote: bool,
    /// Blocks of the cache.
    pub cache_blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Batch size.
    pub batch: Batch,
    /// Horizon; the policy's own if `None`.
    pub horizon: Option<u32>,
    /// Largest window of Linux's readahead in bytes (`read_ahead_kb`).
    pub readahead_bytes: u32,
    /// Blocks of a stripe unit.
    pub stripe_blocks: u32,
    /// How many times as fast the processor is.
    pub cpu_speed: f64,
    /// Processors that the processes share.
    pub processors: u16,
    /// Processor time of a fetch in ns.
    pub driver_ns: u64,
    /// The kernel holds the blocks; exact if `None`.
    pub advisory: Option<Advisory>,
    /// What is found out beside the policy.
    pub beside: Beside,
    /// What is wrong with the hints.
    pub hints: Hints,
    /// The same of single processes, by their number; what is not said here is `hints`.
    pub hints_by_process: Vec<Hints>,
    /// Rules and a list; if `None`, all files are managed alike and the references are disclosed themselves.
    pub control: Option<Arc<Control>>,
    /// How blocks are allocated to managers.
    pub allocation: Allocation,
    /// When to take control from a manager that is often wrong.
    pub revocation: Option<Revocation>,
    /// What reverse aggressive makes its schedule with; tried out if `None`.
    pub reverse: Option<Reverse>,
    /// Seed of the layout and of wrong hints.
    pub seed: u64,
}

impl Cell {
    /// A cell with the paper's settings: 8 KiB blocks, one-block stripes, CSCAN in one class, Table 6, and the driver
    /// time of the device.
    #[must_use]
    pub fn new(
        policy: PolicyName,
        disks: u16,
        device_name: &str,
        device: DeviceParameters,
        cache_blocks: u32,
    ) -> Cell {
        Cell {
            policy,
            disks: disks.max(1),
            driver_ns: device.driver_time_ns(),
            device,
            device_name: device_name.to_owned(),
            discipline: Discipline::Cscan,
            demand_first: false,
            promote: false,
            cache_blocks,
            block_bytes: 8192,
            batch: Batch::Paper,
            horizon: None,
            readahead_bytes: LINUX_READAHEAD_BYTES,
            stripe_blocks: 1,
            cpu_speed: 1.0,
            processors: 1,
            advisory: None,
            beside: Beside::Nothing,
            hints: Hints::default(),
            hints_by_process: Vec::new(),
            control: None,
            allocation: Allocation::LruSp,
            revocation: None,
            reverse: None,
            seed: 1,
        }
    }
}
