//! The points at which model and simulator are compared.
//!
//! Chosen before anything was compared, as a product of what the model distinguishes: disk and its cache,
//! pattern, size, computation. None was left out afterwards.

use foretell_analytic::workload::{Layout, Pattern, Prefetching, Workload};
use foretell_device::{CatalogueError, DeviceParameters, Model, catalogue};
use foretell_sim::DRIVER_NS;

/// A disk of the grid.
#[derive(Debug, Clone)]
pub struct Disk {
    /// What it is called in the table.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: DeviceParameters,
}

/// A disk and what is read from it.
#[derive(Debug, Clone)]
pub struct Point {
    /// The disk.
    pub disk: Disk,
    /// The reads.
    pub workload: Workload,
}

/// Reads of all streams together.
const READS: u64 = 4096;
/// Bytes of a read: a block of foretell, and the cluster of 4.4BSD.
const REQUEST_BYTES: [u64; 2] = [8 << 10, 64 << 10];
/// Computation before each read, in us: none, less and more than a disk access takes.
const THINK_US: [f64; 4] = [0.0, 4_000.0, 10_000.0, 30_000.0];
/// Over how much random reads spread: a tenth to a fifth of the disks.
const SPAN_BYTES: u64 = 1 << 30;

/// The name of the disk that reads nothing ahead.
const NO_CACHE: &str = "hp97560, no cache";

/// Both drives as they are, one without its cache, one with more segments and its measured seek curve.
///
/// # Errors
/// If a built-in drive is damaged.
pub fn disks() -> Result<Vec<Disk>, CatalogueError> {
    let changed = |name, device, change: fn(&mut foretell_device::DiskCache)| {
        let mut parameters = catalogue::find(device)?;
        if let Model::Disk(disk) = &mut parameters.model {
            change(&mut disk.cache);
        }
        Ok(Disk { name, parameters })
    };
    Ok(vec![
        changed("hp97560", "hp97560", |_| {})?,
        changed(NO_CACHE, "hp97560", |cache| cache.readahead_bytes = 0)?,
        changed("st34501w", "st34501w", |_| {})?,
        changed("st34501w/fitted, 8 segments", "st34501w/fitted", |cache| cache.segments = 8)?,
    ])
}

/// All points, disk by disk.
///
/// # Errors
/// As [`disks`].
pub fn points() -> Result<Vec<Point>, CatalogueError> {
    let mut points = Vec::new();
    for disk in disks()? {
        for request_bytes in REQUEST_BYTES {
            for think_us in THINK_US {
                for workload in workloads(request_bytes, think_us) {
                    // Random reads do not know whether there is a cache.
                    let random = matches!(workload.pattern, Pattern::Random | Pattern::Hinted { .. });
                    if random && disk.name == NO_CACHE {
                        continue;
                    }
                    points.push(Point { disk: disk.clone(), workload });
                }
            }
        }
    }
    Ok(points)
}

fn workloads(request_bytes: u64, think_us: f64) -> Vec<Workload> {
    let base = Workload {
        request_bytes,
        think_us,
        processors: 1,
        driver_us: DRIVER_NS as f64 / 1e3,
        split_bytes: request_bytes,
        prefetching: Prefetching::Off,
        layout: Layout::Adjacent,
        ..Workload::sequential(READS * request_bytes)
    };
    let sequential = |streams: u32| {
        let bytes = base.bytes / u64::from(streams);
        Workload { streams, bytes, span_bytes: bytes, ..base }
    };
    let random = |streams: u32, pattern| Workload {
        pattern,
        streams,
        bytes: base.bytes / u64::from(streams),
        span_bytes: SPAN_BYTES / u64::from(streams),
        ..base
    };
    let strided = |stride_bytes: u64| {
        let reads = (SPAN_BYTES / stride_bytes).min(READS);
        let pattern = Pattern::Strided { stride_bytes };
        Workload { pattern, bytes: reads * request_bytes, span_bytes: reads * stride_bytes, ..base }
    };
    vec![
        sequential(1),
        sequential(2),
        sequential(4),
        sequential(8),
        Workload {
            // The simulator's windows: 16 blocks, one request each.
            prefetching: Prefetching::Linux { read_ahead_bytes: 16 * request_bytes },
            ..base
        },
        strided(256 << 10),
        strided(1 << 20),
        random(1, Pattern::Random),
        random(2, Pattern::Random),
        random(8, Pattern::Random),
        random(1, Pattern::Hinted { horizon: 2 }),
        random(1, Pattern::Hinted { horizon: 4 }),
        random(1, Pattern::Hinted { horizon: 16 }),
        random(1, Pattern::Hinted { horizon: 64 }),
        random(4, Pattern::Hinted { horizon: 16 }),
    ]
}
