//! Which disks have something to do, and when.
//!
//! A tournament tree: every leaf is the instant of one disk's next event, every inner node the earlier one
//! of its two children, and the left one where they are equal. The root is the next event of all; a change
//! costs a logarithm of the number of disks, and only the disks that an event concerns are looked at. Disks
//! that are due at one instant come in the order of their numbers, whatever happened before.
//!
//! Unlike a heap with stale entries it has a fixed size: two places a disk (rounded up to a power of two).

/// No event to come.
const NEVER: u64 = u64::MAX;

/// The next event of each disk.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Node 1 is the root, nodes `2 n` and `2 n + 1` are the children of node n, and the last half of the
    /// places are the leaves.
    earliest_ns: Vec<u64>,
    first_leaf: usize,
}

impl Agenda {
    /// Nothing to do on any of `disks` disks.
    pub(crate) fn new(disks: usize) -> Agenda {
        let first_leaf = disks.max(1).next_power_of_two();
        Agenda { earliest_ns: vec![NEVER; 2 * first_leaf], first_leaf }
    }

    /// A disk says when its next event is, in ns; `None` for never.
    #[inline]
    pub(crate) fn set(&mut self, disk: u16, next_ns: Option<u64>) {
        let mut node = self.first_leaf + disk as usize;
        self.earliest_ns[node] = next_ns.unwrap_or(NEVER);
        while node > 1 {
            node /= 2;
            let earlier = self.earliest_ns[2 * node].min(self.earliest_ns[2 * node + 1]);
            if self.earliest_ns[node] == earlier {
                return;
            }
            self.earliest_ns[node] = earlier;
        }
    }

    /// The instant of the next event of all.
    #[inline]
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.earliest_ns[1]).filter(|&ns| ns != NEVER)
    }

    /// Takes out a disk that is due at `now` or before: of those, the one with the earliest event, and of
    /// these the lowest number. It has no next event until it says so again.
    #[inline]
    pub(crate) fn take_due(&mut self, now: u64) -> Option<u16> {
        let earliest = self.next_ns().filter(|&ns| ns <= now)?;
        let mut node = 1;
        while node < self.first_leaf {
            node *= 2;
            node += usize::from(self.earliest_ns[node] != earliest);
        }
        let disk = (node - self.first_leaf) as u16;
        self.set(disk, None);
        Some(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_testkit::seeded;
    use proptest::prelude::*;

    #[test]
    fn disks_of_one_instant_come_by_number() {
        let mut agenda = Agenda::new(4);
        for disk in [3, 1, 2] {
            agenda.set(disk, Some(7));
        }
        agenda.set(0, Some(8));
        // Disk 2 thinks again, and again.
        agenda.set(2, Some(9));
        agenda.set(2, Some(7));
        assert_eq!(agenda.next_ns(), Some(7));
        assert_eq!(std::iter::from_fn(|| agenda.take_due(7)).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(agenda.next_ns(), Some(8));
        agenda.set(0, None);
        assert_eq!((agenda.next_ns(), agenda.take_due(u64::MAX)), (None, None));
    }

    proptest! {
        #![proptest_config(seeded(300))]

        /// The same as looking at every disk every time.
        #[test]
        fn like_looking_at_all(steps in prop::collection::vec((0u16..6, prop::option::of(0u64..20), any::<bool>()), 1..200)) {
            let mut agenda = Agenda::new(6);
            let mut naive = [None; 6];
            for (disk, next_ns, take) in steps {
                if take {
                    let now = next_ns.unwrap_or(0);
                    let due = (0..6).filter(|&d: &usize| naive[d].is_some_and(|ns| ns <= now)).min_by_key(|&d| (naive[d], d));
                    prop_assert_eq!(agenda.take_due(now).map(usize::from), due);
                    if let Some(due) = due {
                        naive[due] = None;
                    }
                } else {
                    naive[disk as usize] = next_ns;
                    agenda.set(disk, next_ns);
                }
                prop_assert_eq!(agenda.next_ns(), naive.iter().flatten().min().copied());
            }
        }
    }
}
