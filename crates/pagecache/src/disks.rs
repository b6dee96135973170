//! The devices on which the files under control lie, by the numbers that the policy has for them.

use std::sync::Arc;

use foretell_policy::DiskId;

use crate::disk::Disk;

/// Disks that are told apart; files on further ones count as on the last.
pub(crate) const DISKS: u16 = 16;

/// All that were met.
#[derive(Debug)]
pub(crate) struct Disks {
    known: Vec<(u64, DiskId, Arc<Disk>)>,
    /// See [`crate::Options::movement_ns`].
    movement_ns: u64,
}

impl Disks {
    /// None yet. Of those with an arm a movement is said to take so long; 0 if that is not known.
    pub(crate) fn new(movement_ns: u64) -> Disks {
        Disks { known: Vec::new(), movement_ns }
    }

    /// The one of a device number.
    pub(crate) fn of_device(&mut self, dev: u64) -> (DiskId, Arc<Disk>) {
        if let Some((_, id, disk)) = self.known.iter().find(|(known, ..)| *known == dev) {
            return (*id, Arc::clone(disk));
        }
        let disk = Arc::new(Disk::of_device(dev, self.movement_ns));
        let id = DiskId(u16::try_from(self.known.len()).unwrap_or(u16::MAX).min(DISKS - 1));
        self.known.push((dev, id, Arc::clone(&disk)));
        (id, disk)
    }

    /// Bytes that were read between files so far.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.known.iter().map(|(_, _, disk)| disk.passed_bytes()).sum()
    }
}
