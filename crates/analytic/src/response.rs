//! Response times after Shriver, Small and Smith (1999, section 4.4).
//!
//! ```text
//! DRT[random]  = DiskOverhead + E[SeekTime] + E[RotLat] + E[size] / min(BusTR, DiskTR)     (2)  printed
//! DRT[cached]  = DiskOverhead + E[size] / BusTR                                            (3)  printed
//! ClusterRT    = FSOverhead + DRT[first] + sum of DRT[remaining]                                printed
//! FSRT         = request_size / data_span * TotalFSRT                       (4)  printed upside down
//! TotalFSRT    = n NumClusters ClusterRT + num_requests extra_seek_time + DRT[indirect]    (5)
//! ```
//!
//! The last term of (5) is lost in the surviving text. What is *reconstructed* here, from the computed
//! columns of Tables 3 to 5:
//!
//! - The indirect block costs one request of equation 2 with E\[SeekTime\] = Seek(Max/3).
//! - A single file has no seek before its first request, only the rotation; further clusters have neither.
//! - FSOverhead counts once a file ([`FileSystem::overhead_ms`]).
//! - n files, each request apart: at most as many files as cache segments seek once a file, and pay the
//!   arm's return once for each of the num_requests groups, as (5) prints. More files than segments seek
//!   and wait for every request; the computed column then has no return (it would be 11 to 26% too high),
//!   although the claim on CLOOK against FCFS needs one. [`Reads::return_seeks`] chooses.
//! - CLOOK returns over Max (n-1)/(n+1), the mean span of n uniform positions; CSCAN over Max, as printed.
//!
//! What none of this explains: the computed times of 2, 4, 8 and 16 files, to better than 7%.

use foretell_device::SeekCurve;

use crate::ffs::FileSystem;

/// A disk's parameters: section 4.2 of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disk {
    /// DiskOverhead, in ms.
    pub overhead_ms: f64,
    /// Equation 1.
    pub seek: SeekCurve,
    /// Max_Cylinder.
    pub cylinders: u32,
    /// E\[RotLat\]: half a revolution, in ms.
    pub rotation_ms: f64,
    /// DiskTR, in KB/ms.
    pub media_kb_per_ms: f64,
    /// BusTR, in KB/ms.
    pub bus_kb_per_ms: f64,
    /// CacheSegments: sequential streams that the disk reads ahead.
    pub cache_segments: u32,
}

/// How the driver orders its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// One direction, then back to the lowest request that waits.
    Clook,
    /// One direction, then back to the disk's edge.
    Cscan,
}

/// When the arm's return to the start of a pass is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnSeeks {
    /// Only if every file has a cache segment: what the computed column of Table 4 does.
    WithinSegments,
    /// Always: what equation 5 says.
    Always,
}

/// Files read from start to end, all at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reads {
    /// n: how many, at least 1.
    pub files: u32,
    /// data_span: KB of each.
    pub file_kb: u32,
    /// KB that the application asks for at a time.
    pub request_kb: u32,
    /// The driver's order.
    pub order: Order,
    /// When the return of an elevator counts.
    pub return_seeks: ReturnSeeks,
}

/// Where the time goes, in ms; of which span the function says that gives it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Breakdown {
    /// System call and copy.
    pub file_system_ms: f64,
    /// The disk's overhead of every request.
    pub overhead_ms: f64,
    /// Arm movements.
    pub seek_ms: f64,
    /// Returns of an elevator.
    pub return_ms: f64,
    /// Waiting for the sector.
    pub rotation_ms: f64,
    /// Bytes over the slower of bus and media.
    pub transfer_ms: f64,
}

impl Breakdown {
    /// The sum.
    #[must_use]
    pub fn total_ms(&self) -> f64 {
        self.file_system_ms
            + self.overhead_ms
            + self.seek_ms
            + self.return_ms
            + self.rotation_ms
            + self.transfer_ms
    }

    /// Every part times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Breakdown {
        Breakdown {
            file_system_ms: self.file_system_ms * factor,
            overhead_ms: self.overhead_ms * factor,
            seek_ms: self.seek_ms * factor,
            return_ms: self.return_ms * factor,
            rotation_ms: self.rotation_ms * factor,
            transfer_ms: self.transfer_ms * factor,
        }
    }
}

impl Disk {
    /// Equation 1 over a share of the cylinders, in ms. Between whole cylinders it is linear: the paper
    /// evaluates it at Max/3 and the like.
    #[must_use]
    pub fn seek_over_ms(&self, share: f64) -> f64 {
        let distance = f64::from(self.cylinders) * share;
        let (below, fraction) = (distance.floor(), distance.fract());
        let (near, far) = (self.seek.at_ms(below as u32), self.seek.at_ms(below as u32 + 1));
        near + fraction * (far - near)
    }

    /// E\[SeekTime\] of a request: over Max/3 with an empty queue or in order of arrival, over Max/(n+2)
    /// among `files` requests that an elevator orders (printed).
    #[must_use]
    pub fn mean_seek_ms(&self, files: u32, order: Order) -> f64 {
        match order {
            Order::Fcfs => self.seek_over_ms(1.0 / 3.0),
            Order::Clook | Order::Cscan => self.seek_over_ms(1.0 / (f64::from(files) + 2.0)),
        }
    }

    /// extra_seek_time: the arm's return after each group of `files` requests, in ms.
    #[must_use]
    pub fn return_seek_ms(&self, files: u32, order: Order) -> f64 {
        let n = f64::from(files);
        match order {
            Order::Fcfs => 0.0,
            Order::Clook => self.seek_over_ms((n - 1.0) / (n + 1.0)),
            Order::Cscan => self.seek_over_ms(1.0),
        }
    }

    /// ms for `kb` at min(BusTR, DiskTR). The disk reads ahead while the bus works, so that a cached request
    /// has the same rate here as any other: in the paper the bus is the slower one.
    #[must_use]
    pub fn transfer_ms(&self, kb: f64) -> f64 {
        kb / self.bus_kb_per_ms.min(self.media_kb_per_ms)
    }
}

/// TotalFSRT, equation 5: the time in which all files are read, by part.
#[must_use]
pub fn total(file_system: &FileSystem, disk: &Disk, reads: &Reads) -> Breakdown {
    let requests = file_system.disk_requests_kb(reads.file_kb).len() as f64;
    let n = f64::from(reads.files);
    let cached = reads.files <= disk.cache_segments;
    let positioned = if cached { 1.0 } else { requests };
    // A single file finds the arm in its cylinder group.
    let seek_ms = if reads.files == 1 { 0.0 } else { disk.mean_seek_ms(reads.files, reads.order) };
    let returns = reads.files > 1 && (cached || reads.return_seeks == ReturnSeeks::Always);
    let mut parts = Breakdown {
        file_system_ms: n * file_system.overhead_ms(),
        overhead_ms: n * requests * disk.overhead_ms,
        seek_ms: n * positioned * seek_ms,
        return_ms: if returns { requests * disk.return_seek_ms(reads.files, reads.order) } else { 0.0 },
        rotation_ms: n * positioned * disk.rotation_ms,
        transfer_ms: n * disk.transfer_ms(f64::from(reads.file_kb)),
    };
    if file_system.has_indirect_block(reads.file_kb) {
        parts.overhead_ms += n * disk.overhead_ms;
        parts.seek_ms += n * disk.seek_over_ms(1.0 / 3.0);
        parts.rotation_ms += n * disk.rotation_ms;
        parts.transfer_ms += n * disk.transfer_ms(f64::from(file_system.block_kb));
    }
    parts
}

/// FSRT, equation 4 the right way up: the mean time of one read of the application. With several files it
/// is the time in which each of them got one, which is what Table 4 lists.
#[must_use]
pub fn mean(file_system: &FileSystem, disk: &Disk, reads: &Reads) -> Breakdown {
    total(file_system, disk, reads).scaled(f64::from(reads.request_kb) / f64::from(reads.file_kb))
}

/// The time in ms that one file's reader waits when it computes for `think_ms` after every read of
/// `reads.request_kb`, and the file system keeps one disk request in flight ahead of it.
///
/// Not in the paper, whose prefetching waits for the whole request. Stepped read by read:
///
/// - The first two disk requests are waited for (only the second makes the reads sequential). From then on
///   the next request is made when the reader comes to the first block of the last one, and finds it there
///   or has waited for it.
/// - A read that spans two disk requests needs both before it is computed on.
/// - The disk works on one request at a time. What runs beside computation is its transfer. The overhead of
///   a request is paid by the reader who makes it: most of it is the host's and the adapter's, and hiding it
///   as well would give 53% and 164% for the two cases of the paper, where 36% and 114% were measured.
/// - The indirect block is waited for in full, before the first request whose address it holds.
#[must_use]
pub fn wait_with_overlap_ms(file_system: &FileSystem, disk: &Disk, reads: &Reads, think_ms: f64) -> f64 {
    let sizes_kb = file_system.disk_requests_kb(reads.file_kb);
    let mut ends_kb: Vec<u32> = Vec::with_capacity(sizes_kb.len());
    for size_kb in &sizes_kb {
        ends_kb.push(ends_kb.last().unwrap_or(&0) + size_kb);
    }
    let direct_kb = file_system.direct_blocks * file_system.block_kb;
    let indirect_ms = disk.overhead_ms
        + disk.seek_over_ms(1.0 / 3.0)
        + disk.rotation_ms
        + disk.transfer_ms(f64::from(file_system.block_kb));
    let (mut now_ms, mut waited_ms, mut disk_free_ms) = (0.0f64, 0.0, 0.0f64);
    // When each request that was made arrives.
    let mut arrivals_ms: Vec<f64> = Vec::with_capacity(sizes_kb.len());
    let (mut read_kb, mut current) = (0, 0);
    while read_kb < reads.file_kb {
        let end_kb = read_kb.saturating_add(reads.request_kb.max(1)).min(reads.file_kb);
        while read_kb < end_kb {
            // What the reader needs now, and the one after it.
            let last = if current > 0 { current + 1 } else { current }.min(sizes_kb.len() - 1);
            for request in current..=last {
                if request == arrivals_ms.len() {
                    let first_kb = ends_kb[request] - sizes_kb[request];
                    let mut own_ms = disk.overhead_ms;
                    let mut disk_ms = disk.transfer_ms(f64::from(sizes_kb[request]));
                    if request == 0 {
                        own_ms += file_system.overhead_ms();
                        disk_ms += disk.rotation_ms;
                    }
                    if first_kb == direct_kb {
                        own_ms += indirect_ms;
                    }
                    now_ms += own_ms;
                    waited_ms += own_ms;
                    disk_free_ms = disk_free_ms.max(now_ms) + disk_ms;
                    arrivals_ms.push(disk_free_ms);
                }
                if request == current && arrivals_ms[request] > now_ms {
                    waited_ms += arrivals_ms[request] - now_ms;
                    now_ms = arrivals_ms[request];
                }
            }
            read_kb = end_kb.min(ends_kb[current]);
            if read_kb == ends_kb[current] && current + 1 < sizes_kb.len() {
                current += 1;
            }
        }
        now_ms += think_ms;
    }
    waited_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::SeekTerms;

    /// 1 ms a request, 1 ms a seek and 1 ms a cylinder, 4 ms of rotation, 8 KB/ms.
    fn disk() -> Disk {
        let short = SeekTerms { constant_ms: 1.0, sqrt_ms: 0.0, linear_ms: 1.0 };
        Disk {
            overhead_ms: 1.0,
            seek: SeekCurve { short_until_cylinders: None, short, long: None, single_cylinder_ms: None },
            cylinders: 60,
            rotation_ms: 4.0,
            media_kb_per_ms: 16.0,
            bus_kb_per_ms: 8.0,
            cache_segments: 2,
        }
    }

    fn reads(files: u32) -> Reads {
        Reads { files, file_kb: 64, request_kb: 8, order: Order::Clook, return_seeks: ReturnSeeks::Always }
    }

    #[test]
    fn a_file_of_one_cluster_waits_once_for_the_platters() {
        let total = total(&FileSystem::BSD_OS_SLOW, &disk(), &reads(1));
        assert_eq!((total.overhead_ms, total.transfer_ms), (4.0, 8.0));
        assert_eq!((total.seek_ms, total.return_ms, total.rotation_ms), (0.0, 0.0, 4.0));
    }

    #[test]
    fn more_files_than_segments_seek_for_every_request() {
        let ffs = FileSystem::BSD_OS_SLOW;
        let two = total(&ffs, &disk(), &reads(2));
        // Max/4 = 15 cylinders once a file; four returns over Max/3 = 20.
        assert_eq!((two.seek_ms, two.rotation_ms, two.return_ms), (2.0 * 16.0, 2.0 * 4.0, 4.0 * 21.0));
        let three = total(&ffs, &disk(), &reads(3));
        // Max/5 = 12 cylinders for each of 12 requests; four returns over Max/2 = 30.
        assert_eq!(
            (three.seek_ms, three.rotation_ms, three.return_ms),
            (12.0 * 13.0, 12.0 * 4.0, 4.0 * 31.0)
        );
        let cscan = total(&ffs, &disk(), &Reads { order: Order::Cscan, ..reads(3) });
        assert_eq!(cscan.return_ms, 4.0 * 61.0);
        let fcfs = total(&ffs, &disk(), &Reads { order: Order::Fcfs, ..reads(3) });
        assert_eq!((fcfs.seek_ms, fcfs.return_ms), (12.0 * 21.0, 0.0));
    }

    #[test]
    fn the_mean_is_linear_in_the_request() {
        let ffs = FileSystem::BSD_OS_SLOW;
        let whole = total(&ffs, &disk(), &reads(3)).total_ms();
        let each = mean(&ffs, &disk(), &reads(3)).total_ms();
        assert!((each * 8.0 - whole).abs() < 1e-9);
    }

    #[test]
    fn computation_hides_what_was_asked_for_before() {
        let ffs = FileSystem::BSD_OS_SLOW;
        let whole = total(&ffs, &disk(), &reads(1)).total_ms();
        let hidden = |think_ms| whole - wait_with_overlap_ms(&ffs, &disk(), &reads(1), think_ms);
        assert!(hidden(0.0).abs() < 1e-9);
        // The transfers of 32 and 8 KB take 4 and 1 ms; enough computation hides them, never the first two
        // requests.
        assert!((hidden(100.0) - 5.0).abs() < 1e-9);
        // The 32 KB are asked for when the 16 KB are there, and two reads of 8 KB are computed on by then.
        assert!((hidden(1.0) - 3.0).abs() < 1e-9);
        // A read that spans both needs both: one read of 20 KB is computed on before the 32 KB are needed.
        let spanning = Reads { request_kb: 20, ..reads(1) };
        let hidden = whole - wait_with_overlap_ms(&ffs, &disk(), &spanning, 1.0);
        assert!((hidden - 2.0).abs() < 1e-9, "{hidden}");
    }

    #[test]
    fn an_indirect_block_is_waited_for() {
        let ffs = FileSystem::BSD_OS_SLOW;
        let large = Reads { file_kb: 512, ..reads(1) };
        let whole = total(&ffs, &disk(), &large).total_ms();
        assert!((wait_with_overlap_ms(&ffs, &disk(), &large, 0.0) - whole).abs() < 1e-9);
        // All transfers but the first two, never an overhead, a seek or the indirect block.
        let hidden = whole - wait_with_overlap_ms(&ffs, &disk(), &large, 100.0);
        assert!((hidden - (512.0 - 24.0) / 8.0).abs() < 1e-9, "{hidden}");
    }
}
