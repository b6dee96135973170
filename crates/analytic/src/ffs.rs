//! The 4.4BSD Fast File System as Shriver, Small and Smith (1999, section 2) describe it: which requests
//! the sequential read of a file makes of the disk.
//!
//! A file lies in *clusters*, runs of blocks that are contiguous on disk. The inode addresses the first
//! [`FileSystem::direct_blocks`] blocks; the first block behind them starts a new cluster, in another
//! cylinder group, and its address is in an indirect block, which is read first.
//!
//! Prefetching doubles the request with every disk read, up to a cluster. A request ends where its cluster
//! ends. The paper does not say what is doubled after a request that was cut short. Doubling the size that
//! was *read* gives the seven requests that the computed columns of Table 3 need for 128 KB (doubling the
//! size that was intended gives six):
//!
//! ```text
//! offset   0  8    24     56 64   80   96      128
//!          |8 | 16 |  32  |8 | 16 | 16 |  32   |
//!          |--- cluster -----|-- cut --|-- behind the indirect block
//! ```
//!
//! For 64 KB it gives four requests of 16 KB on average, as the paper's second footnote says.

/// A file system's parameters: Table 1 of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileSystem {
    /// BlockSize, in KB.
    pub block_kb: u32,
    /// DirectBlocks: blocks that the inode addresses.
    pub direct_blocks: u32,
    /// ClusterSize, in KB.
    pub cluster_kb: u32,
    /// SystemCallOverhead, in ms.
    pub system_call_ms: f64,
    /// The inverse of MemoryCopyRate: ms to copy a KB to the application.
    pub copy_ms_per_kb: f64,
    /// Whether it prefetches; without, every disk request is a block.
    pub prefetch: bool,
}

/// KB in the mean disk request of a prefetched 64 KB file, the request that [`FileSystem::overhead_ms`] is
/// taken for.
const MEAN_REQUEST_KB: f64 = 16.0;

impl FileSystem {
    /// BSD/OS 3.1 on the machine with the slow bus (Table 1: 10 us a call, 10 us a KB).
    pub const BSD_OS_SLOW: FileSystem = FileSystem {
        block_kb: 8,
        direct_blocks: 12,
        cluster_kb: 64,
        system_call_ms: 0.010,
        copy_ms_per_kb: 0.010,
        prefetch: true,
    };

    /// BSD/OS 3.1 on the machine with the fast bus (section 4.1: 5 us a call, 5 us a KB).
    pub const BSD_OS_FAST: FileSystem =
        FileSystem { system_call_ms: 0.005, copy_ms_per_kb: 0.005, ..FileSystem::BSD_OS_SLOW };

    /// FSOverhead, in ms.
    ///
    /// Printed as SystemCallOverhead + E\[request_size\] / MemoryCopyRate and multiplied by the clusters.
    /// Reconstructed: the computed columns need 0.17 ms once a file, whatever the application's request
    /// size and also without prefetching, which is the copy of 16 KB.
    #[must_use]
    pub fn overhead_ms(&self) -> f64 {
        self.system_call_ms + MEAN_REQUEST_KB * self.copy_ms_per_kb
    }

    /// Sizes in KB of the disk requests that reading a file of `file_kb` makes, in their order and without
    /// the indirect blocks.
    #[must_use]
    pub fn disk_requests_kb(&self, file_kb: u32) -> Vec<u32> {
        let direct_kb = self.direct_blocks * self.block_kb;
        let (mut offset_kb, mut last_kb, mut requests) = (0, 0, Vec::new());
        while offset_kb < file_kb {
            // Behind the direct blocks clusters are counted anew.
            let (first_kb, region_end_kb) =
                if offset_kb < direct_kb { (0, direct_kb) } else { (direct_kb, u32::MAX) };
            let into_cluster_kb = (offset_kb - first_kb) % self.cluster_kb;
            let end_kb = (offset_kb - into_cluster_kb).saturating_add(self.cluster_kb);
            let room_kb = end_kb.min(region_end_kb).min(file_kb) - offset_kb;
            let wanted_kb = if self.prefetch && last_kb > 0 { 2 * last_kb } else { self.block_kb };
            last_kb = wanted_kb.min(room_kb);
            requests.push(last_kb);
            offset_kb += last_kb;
        }
        requests
    }

    /// Whether a file of `file_kb` has an indirect block. One indirect block of 8 KB addresses 2048 blocks,
    /// 16 MB: more than any file of the paper.
    #[must_use]
    pub fn has_indirect_block(&self, file_kb: u32) -> bool {
        file_kb > self.direct_blocks * self.block_kb
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_double_and_end_with_clusters() {
        let ffs = FileSystem::BSD_OS_SLOW;
        assert_eq!(ffs.disk_requests_kb(64), [8, 16, 32, 8]);
        assert_eq!(ffs.disk_requests_kb(128), [8, 16, 32, 8, 16, 16, 32]);
        assert_eq!(ffs.disk_requests_kb(512)[7..], [32, 64, 64, 64, 64, 64, 32]);
        assert!(!ffs.has_indirect_block(96) && ffs.has_indirect_block(104));
    }

    #[test]
    fn without_prefetching_a_request_is_a_block() {
        let ffs = FileSystem { prefetch: false, ..FileSystem::BSD_OS_SLOW };
        assert_eq!(ffs.disk_requests_kb(128), [8; 16]);
    }

    proptest! {
        #[test]
        fn every_byte_is_read_once(file_kb in 0u32..5000, prefetch: bool) {
            let ffs = FileSystem { prefetch, ..FileSystem::BSD_OS_SLOW };
            let requests = ffs.disk_requests_kb(file_kb);
            prop_assert_eq!(requests.iter().sum::<u32>(), file_kb);
            prop_assert!(requests.iter().all(|&kb| kb > 0 && kb <= ffs.cluster_kb));
        }
    }
}
