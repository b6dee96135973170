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

/// The time in ms that one file's reader waits when it computes for `think_ms` between reads of
/// `reads.request_kb` and the file system keeps one disk request in flight ahead of it.
///
/// Not in the paper, whose prefetching waits for the whole request. The first two requests are waited for
/// (only the second makes the reads sequential); each later one was started when the application got the
/// data before it, so it is waited for only as far as it takes longer than the computation on those. The
/// indirect block is waited for in full.
#[must_use]
pub fn wait_with_overlap_ms(file_system: &FileSystem, disk: &Disk, reads: &Reads, think_ms: f64) -> f64 {
    let sizes_kb = file_system.disk_requests_kb(reads.file_kb);
    let disk_ms = |kb: u32| disk.overhead_ms + disk.transfer_ms(f64::from(kb));
    let hidden_ms: f64 = sizes_kb
        .windows(2)
        .skip(1)
        .map(|pair| disk_ms(pair[1]).min(think_ms * f64::from(pair[0]) / f64::from(reads.request_kb)))
        .sum();
    total(file_system, disk, reads).total_ms() - hidden_ms
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
        assert_eq!(wait_with_overlap_ms(&ffs, &disk(), &reads(1), 0.0), whole);
        // Requests of 32 and 8 KB take 5 and 2 ms; enough computation hides them, never the first two.
        assert!((wait_with_overlap_ms(&ffs, &disk(), &reads(1), 100.0) - (whole - 7.0)).abs() < 1e-9);
    }
}
