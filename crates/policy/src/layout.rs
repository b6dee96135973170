//! Where the blocks of a file are: which disk, at which physical address.
//!
//! Only order and disk matter to the policy, so an address is any number that grows along the disk.

use crate::ids::DiskId;

/// A run of blocks that lie next to each other on one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First block of the file in this run.
    pub first_block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Physical address of the first, in blocks or bytes, as long as one file system agrees with itself.
    pub address: u64,
    /// What the address grows by from one block to the next.
    pub stride: u64,
    /// The disk.
    pub disk: DiskId,
}

/// Where the blocks of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Unknown: everything on disk 0, physical order taken to be logical order.
    Unknown,
    /// Runs in ascending order of `first_block`; blocks between runs have the address where the last
    /// run before them ends.
    Extents(Vec<Extent>),
    /// Block b is on disk `(base + b) / unit mod disks` (Kimbrel et al. 1996: a unit of one block).
    Striped {
        /// Number of disks.
        disks: u16,
        /// Blocks on one disk before the next one's turn.
        unit: u32,
        /// Address of the file's first block in the array.
        base: u64,
    },
}

impl Layout {
    /// Disk and physical address of block `index`; `file` makes the addresses of files of unknown
    /// layout distinct.
    #[must_use]
    pub fn locate(&self, file: u32, index: u32) -> (DiskId, u64) {
        match self {
            Layout::Unknown => (DiskId(0), (u64::from(file) << 32) | u64::from(index)),
            Layout::Extents(extents) => {
                let after = extents.partition_point(|e| e.first_block <= index);
                match after.checked_sub(1).map(|i| &extents[i]) {
                    Some(e) => {
                        let within = index.saturating_sub(e.first_block).min(e.blocks);
                        // Whatever a file system says: a wrong address costs no more than a wrong order.
                        (e.disk, e.address.wrapping_add(u64::from(within).wrapping_mul(e.stride)))
                    }
                    None => (DiskId(0), 0),
                }
            }
            Layout::Striped { disks, unit, base } => {
                let (disks, unit) = (u64::from((*disks).max(1)), u64::from((*unit).max(1)));
                let at = base.wrapping_add(u64::from(index));
                let stripe = at / unit;
                let disk = (stripe % disks) as u16;
                (DiskId(disk), stripe / disks * unit + at % unit)
            }
        }
    }

    /// What the address grows by from block `index` to the next one.
    #[must_use]
    pub fn stride(&self, index: u32) -> u64 {
        match self {
            Layout::Unknown | Layout::Striped { .. } => 1,
            Layout::Extents(extents) => {
                let after = extents.partition_point(|e| e.first_block <= index);
                after.checked_sub(1).map_or(0, |i| extents[i].stride)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_go_round_the_disks() {
        let layout = Layout::Striped { disks: 3, unit: 1, base: 0 };
        let places: Vec<_> = (0..4).map(|b| layout.locate(0, b)).collect();
        assert_eq!(places, [(DiskId(0), 0), (DiskId(1), 0), (DiskId(2), 0), (DiskId(0), 1)]);
    }

    #[test]
    fn extents_give_physical_addresses() {
        let run =
            |first_block, address| Extent { first_block, blocks: 4, address, stride: 2, disk: DiskId(0) };
        let layout = Layout::Extents(vec![run(0, 100), run(4, 40)]);
        assert_eq!(layout.locate(0, 3), (DiskId(0), 106));
        assert_eq!(layout.locate(0, 5), (DiskId(0), 42));
    }
}
