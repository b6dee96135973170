//! Striping: which disk of an array holds a block, and where.

use crate::request::Request;

/// An array of equal disks. Units of `stripe_blocks` blocks go round the disks (Kimbrel et al. 1996,
/// section 3.2, with a unit of one block).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    disks: u64,
    stripe_blocks: u64,
    block_sectors: u32,
}

/// Where a block of an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The disk, from 0.
    pub disk: u16,
    /// The block on that disk, from 0.
    pub block: u64,
    /// Its first sector.
    pub sector: u64,
}

impl Array {
    /// An array of `disks` disks, a stripe unit of `stripe_blocks` blocks of `block_sectors` sectors; 0 of
    /// either is taken as 1.
    #[must_use]
    pub fn new(disks: u16, stripe_blocks: u32, block_sectors: u32) -> Array {
        Array {
            disks: u64::from(disks.max(1)),
            stripe_blocks: u64::from(stripe_blocks.max(1)),
            block_sectors: block_sectors.max(1),
        }
    }

    /// The number of disks.
    #[must_use]
    pub fn disks(&self) -> u16 {
        self.disks as u16
    }

    /// Where block `block` of the array is.
    #[must_use]
    pub fn locate(&self, block: u64) -> Location {
        let (stripe, within) = (block / self.stripe_blocks, block % self.stripe_blocks);
        let on_disk = stripe / self.disks * self.stripe_blocks + within;
        let sector = on_disk * u64::from(self.block_sectors);
        Location { disk: (stripe % self.disks) as u16, block: on_disk, sector }
    }

    /// Which block of the array is block `block` of disk `disk`.
    #[must_use]
    pub fn block_at(&self, disk: u16, block: u64) -> u64 {
        let (unit, within) = (block / self.stripe_blocks, block % self.stripe_blocks);
        (unit * self.disks + u64::from(disk)) * self.stripe_blocks + within
    }

    /// A read of block `block`, and the disk that it goes to.
    #[must_use]
    pub fn read(&self, id: u64, block: u64) -> (u16, Request) {
        let location = self.locate(block);
        (location.disk, Request::read(id, location.sector, self.block_sectors))
    }

    /// Blocks that fit an array of disks of `capacity_sectors` sectors each.
    #[must_use]
    pub fn capacity_blocks(&self, capacity_sectors: u64) -> u64 {
        let units = capacity_sectors / u64::from(self.block_sectors) / self.stripe_blocks;
        units * self.stripe_blocks * self.disks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_stripes_go_round() {
        let array = Array::new(3, 1, 16);
        let places: Vec<_> = (0..5).map(|b| array.locate(b)).map(|l| (l.disk, l.sector)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 16), (1, 16)]);
    }

    #[test]
    fn wider_stripes_keep_neighbours_together() {
        let array = Array::new(2, 4, 16);
        assert_eq!(array.locate(3), Location { disk: 0, block: 3, sector: 48 });
        assert_eq!(array.locate(4), Location { disk: 1, block: 0, sector: 0 });
        assert_eq!(array.locate(8), Location { disk: 0, block: 4, sector: 64 });
    }

    #[test]
    fn every_block_is_found_again() {
        for (disks, stripe) in [(1, 1), (3, 1), (4, 7), (16, 2)] {
            let array = Array::new(disks, stripe, 16);
            for block in 0..500 {
                let location = array.locate(block);
                assert_eq!(array.block_at(location.disk, location.block), block);
            }
        }
    }

    #[test]
    fn capacity_counts_whole_stripe_units() {
        assert_eq!(Array::new(2, 4, 16).capacity_blocks(16 * 10), 16);
    }
}
