//! The tables and claims of Shriver, Small and Smith (1999) beside what [`crate::response`] gives.
//!
//! # Where the parameters come from
//!
//! The seek curve and the cache segments are those of the built-in device `st34501w`, which is the drive of
//! the paper. The paper itself prints, and these override the device: 6526 cylinders (DiskSim: 6581), 10,000
//! revolutions a minute and 3 ms of half a rotation (DiskSim: 10,033 and 2.990 ms), 1.8 ms of overhead with
//! one file and 1.2 ms with several, 9.3 and 18.2 MB/s of bus.
//!
//! Two are *inferred* from the computed columns, because the printed ones miss them:
//!
//! - [`SEEK_LINEAR_MS`]: 0.00192 ms a cylinder prints as 0.002, with which 128 KB come out 0.4% too high.
//! - [`OVERHEAD_WITHOUT_PREFETCH_MS`]: Table 5 needs 1.2085 ms; the 1.8 ms printed for one file miss it by 22%.
//!
//! With 2.990 ms the 64 KB rows meet the computed column to the printed digit (17.24 instead of 17.25) and
//! the mean error against the measurements is 0.03 points higher.

use foretell_device::catalogue::{self, CatalogueError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ffs::FileSystem;
use crate::response::{Breakdown, Disk, Order, Reads, ReturnSeeks, mean, total, wait_with_overlap_ms};

/// d of equation 1, in ms a cylinder; see the module.
pub const SEEK_LINEAR_MS: f64 = 0.00192;
/// DiskOverhead with one file and no prefetching, in ms; see the module.
pub const OVERHEAD_WITHOUT_PREFETCH_MS: f64 = 1.2085;
/// DiskOverhead with one file, slow bus, in ms (section 4.2).
const OVERHEAD_ONE_FILE_MS: f64 = 1.8;
/// DiskOverhead with several files, slow bus, in ms (section 4.2).
const OVERHEAD_FILES_MS: f64 = 1.2;
/// DiskOverhead, fast bus, in ms (section 4.2).
const OVERHEAD_FAST_MS: f64 = 0.34;
/// BusTR of the slow platform, in KB/ms (section 4.2).
const BUS_SLOW: f64 = 9.3;
/// BusTR of the fast platform, in KB/ms (section 4.2).
const BUS_FAST: f64 = 18.2;
/// DiskTR, in KB/ms: "close to 18 MB/s" (section 4.2).
const MEDIA: f64 = 18.0;
/// Max_Cylinder (section 4.2).
const CYLINDERS: u32 = 6526;
/// Half a revolution at 10,000 a minute, in ms (section 4.2; "3 ms" in section 5).
const ROTATION_MS: f64 = 3.0;
/// KB between two computations of figure 5.
const THINK_REQUEST_KB: u32 = 10;
/// Computation of figure 5: MD5 of 10 KB, in ms.
const THINK_MS: f64 = 1.0;
/// A claim is reproduced if it is met within this many points: the paper rounds to whole ones.
const CLAIM_TOLERANCE: f64 = 1.0;

/// Why the tables could not be reproduced; only a damaged build can.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// The built-in drive is missing.
    #[error(transparent)]
    Device(#[from] CatalogueError),
    /// It is no disk with two branches of its seek curve.
    #[error("device \"st34501w\" is not the disk of the paper")]
    NotTheDisk,
    /// The published rows do not parse.
    #[error("shriver99.toml: {0}")]
    Rows(#[from] toml::de::Error),
}

/// A row of Tables 3 to 5 and what the model gives for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// 3, 4 or 5.
    pub table: u32,
    /// Files read at the same time.
    pub files: u32,
    /// KB of a read by the application.
    pub request_kb: u32,
    /// KB of each file.
    pub file_kb: u32,
    /// Whether the file system prefetched.
    pub prefetch: bool,
    /// Measured mean time of a read, in ms.
    pub measured_ms: f64,
    /// The same as the paper computed it.
    pub paper_ms: f64,
    /// The same as this model computes it.
    pub model_ms: f64,
    /// Where `model_ms` goes.
    #[serde(skip)]
    pub parts: Breakdown,
}

impl Row {
    /// The model's error against the measurement: 0.05 is 5% too high.
    #[must_use]
    pub fn error_measured(&self) -> f64 {
        self.model_ms / self.measured_ms - 1.0
    }

    /// The model's error against the paper's computed column.
    #[must_use]
    pub fn error_paper(&self) -> f64 {
        self.model_ms / self.paper_ms - 1.0
    }
}

/// A claim of the paper and what the model says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Short name.
    pub id: String,
    /// What is claimed.
    pub what: String,
    /// The published percentages, lowest and highest.
    pub paper_percent: [f64; 2],
    /// The model's, lowest and highest.
    pub model_percent: [f64; 2],
    /// Total time without the improvement, by part (of the first case if there are two).
    pub without: Breakdown,
    /// Total time with it.
    pub with: Breakdown,
    /// Of `with`, the ms that computation hides.
    pub hidden_ms: f64,
    /// What has to be known to read the figures.
    pub note: &'static str,
}

impl Claim {
    /// Whether the model's percentages lie within the published ones, to a point.
    #[must_use]
    pub fn reproduced(&self) -> bool {
        let ([low, high], [paper_low, paper_high]) = (self.model_percent, self.paper_percent);
        low >= paper_low - CLAIM_TOLERANCE && high <= paper_high + CLAIM_TOLERANCE
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    /// The 36 rows, in the order of the tables.
    pub rows: Vec<Row>,
    /// The claims of sections 5 and 6.
    pub claims: Vec<Claim>,
}

impl Reproduction {
    /// The mean of the rows' absolute errors against the measurements: 0.04 is 4%.
    #[must_use]
    pub fn mean_error_measured(&self) -> f64 {
        self.rows.iter().map(|row| row.error_measured().abs()).sum::<f64>() / self.rows.len() as f64
    }

    /// The same error of the paper's own computed column.
    #[must_use]
    pub fn mean_error_of_paper(&self) -> f64 {
        self.rows.iter().map(|row| (row.paper_ms / row.measured_ms - 1.0).abs()).sum::<f64>()
            / self.rows.len() as f64
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    rows: Vec<PublishedRow>,
    claims: Vec<PublishedClaim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedRow {
    table: u32,
    files: u32,
    request_kb: u32,
    file_kb: u32,
    prefetch: bool,
    measured_ms: f64,
    paper_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedClaim {
    id: String,
    what: String,
    percent: [f64; 2],
}

/// The paper's tables and claims, computed.
///
/// # Errors
///
/// [`PublishedError`] if the built-in data are damaged.
pub fn reproduce() -> Result<Reproduction, PublishedError> {
    let published: Published = toml::from_str(include_str!("../expected/shriver99.toml"))?;
    let disk = drive()?;
    let rows = published.rows.iter().map(|row| compute(&disk, row)).collect();
    let claims = published.claims.into_iter().filter_map(|claim| judge(&disk, claim)).collect();
    Ok(Reproduction { rows, claims })
}

/// The drive on the slow platform; the overhead is that of several files.
fn drive() -> Result<Disk, PublishedError> {
    let device = catalogue::find("st34501w")?;
    let disk = device.disk().ok_or(PublishedError::NotTheDisk)?;
    let mut seek = disk.seek;
    seek.long.as_mut().ok_or(PublishedError::NotTheDisk)?.linear_ms = SEEK_LINEAR_MS;
    Ok(Disk {
        overhead_ms: OVERHEAD_FILES_MS,
        seek,
        cylinders: CYLINDERS,
        rotation_ms: ROTATION_MS,
        media_kb_per_ms: MEDIA,
        bus_kb_per_ms: BUS_SLOW,
        cache_segments: disk.cache.segments,
    })
}

fn compute(disk: &Disk, row: &PublishedRow) -> Row {
    let &PublishedRow { table, files, request_kb, file_kb, prefetch, measured_ms, paper_ms } = row;
    let overhead_ms = match (files, prefetch) {
        (1, true) => OVERHEAD_ONE_FILE_MS,
        (1, false) => OVERHEAD_WITHOUT_PREFETCH_MS,
        _ => OVERHEAD_FILES_MS,
    };
    let order = Order::Clook;
    let reads = Reads { files, file_kb, request_kb, order, return_seeks: ReturnSeeks::WithinSegments };
    let file_system = FileSystem { prefetch, ..FileSystem::BSD_OS_SLOW };
    let parts = mean(&file_system, &Disk { overhead_ms, ..*disk }, &reads);
    let model_ms = parts.total_ms();
    Row { table, files, request_kb, file_kb, prefetch, measured_ms, paper_ms, model_ms, parts }
}

/// `None` for a claim that the model knows nothing of.
fn judge(slow_disk: &Disk, published: PublishedClaim) -> Option<Claim> {
    let (slow, fast) = (FileSystem::BSD_OS_SLOW, FileSystem::BSD_OS_FAST);
    let fast_disk = Disk { overhead_ms: OVERHEAD_FAST_MS, bus_kb_per_ms: BUS_FAST, ..*slow_disk };
    let one = |file_kb| Reads {
        files: 1,
        file_kb,
        request_kb: 8,
        order: Order::Clook,
        return_seeks: ReturnSeeks::WithinSegments,
    };
    let eight = Reads { files: 8, ..one(64) };
    let saved = |with: &Breakdown, without: &Breakdown| 100.0 * (1.0 - with.total_ms() / without.total_ms());
    let gained = |with_ms: f64, without: &Breakdown| 100.0 * (without.total_ms() / with_ms - 1.0);
    let mut hidden_ms = 0.0;
    let (without, with, model_percent, note) = match published.id.as_str() {
        "disk-cache" => {
            let pair = |file_kb| {
                let with = total(&fast, &fast_disk, &one(file_kb));
                let waits = fast.disk_requests_kb(file_kb).len() as f64 - 1.0;
                let rotation_ms = with.rotation_ms + waits * fast_disk.rotation_ms;
                (Breakdown { rotation_ms, ..with }, with)
            };
            let ((without, with), (without_128, with_128)) = (pair(64), pair(128));
            let percent = [saved(&with, &without), saved(&with_128, &without_128)];
            let note = "without readahead every request waits for the platters; a single wait a file would give \
                        27% at 64 KB and 11% at 128 KB, on both sides of what was published";
            (without, with, percent, note)
        }
        "amortization" => {
            let with = total(&slow, &Disk { overhead_ms: OVERHEAD_ONE_FILE_MS, ..*slow_disk }, &one(64));
            let block_disk = Disk { overhead_ms: OVERHEAD_WITHOUT_PREFETCH_MS, ..*slow_disk };
            let without = total(&FileSystem { prefetch: false, ..slow }, &block_disk, &one(64));
            let percent = gained(with.total_ms(), &without);
            let note = "one figure, because the model is linear in the request; the measured columns of Tables 3 \
                        and 5 give 14 to 30%. A block's overhead is 1.21 ms without prefetching, not 1.8";
            (without, with, [percent; 2], note)
        }
        "clook" => {
            let always = Reads { return_seeks: ReturnSeeks::Always, ..eight };
            let with = total(&fast, &fast_disk, &always);
            let without = total(&fast, &fast_disk, &Reads { order: Order::Fcfs, ..eight });
            let note = "with the arm's return after each group, which the computed column of Table 4 leaves out; \
                        without it CLOOK would save 28%";
            (without, with, [saved(&with, &without); 2], note)
        }
        "overlap-64" | "overlap-512" => {
            let file_kb = if published.id == "overlap-64" { 64 } else { 512 };
            let reads = Reads { request_kb: THINK_REQUEST_KB, ..one(file_kb) };
            let without = total(&fast, &fast_disk, &reads);
            let wait_ms = wait_with_overlap_ms(&fast, &fast_disk, &reads, THINK_MS);
            hidden_ms = without.total_ms() - wait_ms;
            let note = "the paper's model has no overlap: one disk request ahead is stepped here. Its transfer runs \
                        beside computation, its overhead does not; with both it would be 53% and 164%";
            (without, without, [gained(wait_ms, &without); 2], note)
        }
        "segments" => {
            let without = total(&fast, &fast_disk, &eight);
            let with = total(&fast, &Disk { cache_segments: 8, ..fast_disk }, &eight);
            let note = "both sides are computed; the paper compares its computation with a measurement";
            (without, with, [saved(&with, &without); 2], note)
        }
        _ => return None,
    };
    let [a, b] = model_percent;
    Some(Claim {
        id: published.id,
        what: published.what,
        paper_percent: published.percent,
        model_percent: [f64::min(a, b), f64::max(a, b)],
        without,
        with,
        hidden_ms,
        note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_3_and_5_are_met_within_half_a_percent() {
        let rows = reproduce().unwrap().rows;
        assert_eq!(rows.len(), 36);
        for row in rows.iter().filter(|row| row.table != 4) {
            assert!(row.error_paper().abs() <= 0.005, "{row:?}");
        }
    }

    #[test]
    fn table_4_is_met_within_7_percent() {
        let rows = reproduce().unwrap().rows;
        assert_eq!(rows.iter().filter(|row| row.table == 4).count(), 20);
        for row in rows.iter().filter(|row| row.table == 4) {
            assert!(row.error_paper().abs() <= 0.07, "{row:?}");
        }
    }

    #[test]
    fn measurements_are_met_within_4_percent_on_average() {
        let reproduction = reproduce().unwrap();
        assert!(reproduction.mean_error_measured() <= 0.04, "{}", reproduction.mean_error_measured());
        // What the paper says of itself: typically 4%, at most 9%.
        assert!(reproduction.mean_error_of_paper() < 0.031);
        assert!(reproduction.rows.iter().all(|row| row.error_measured().abs() < 0.095));
    }

    #[test]
    fn overlap_is_within_nine_points_of_the_measurements() {
        let claims = reproduce().unwrap().claims;
        let percent = |id| claims.iter().find(|c| c.id == id).map(|c| c.model_percent[0]).unwrap();
        let (small, large) = (percent("overlap-64"), percent("overlap-512"));
        assert!((small - 38.5).abs() < 0.1 && (large - 122.4).abs() < 0.1, "{small} {large}");
    }

    #[test]
    fn the_claims_that_hold_are_these() {
        let claims = reproduce().unwrap().claims;
        let judged: Vec<_> = claims.iter().map(|claim| (claim.id.as_str(), claim.reproduced())).collect();
        assert_eq!(
            judged,
            [
                ("disk-cache", false),
                ("amortization", true),
                ("clook", true),
                ("overlap-64", false),
                ("overlap-512", false),
                ("segments", true),
            ],
            "{:?}",
            claims.iter().map(|claim| claim.model_percent).collect::<Vec<_>>()
        );
    }
}
