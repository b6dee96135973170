//! Whether a recorded job waited for the arm of a disk, and how long a movement took.

use foretell_recording::{Access, PAGE_BYTES, Recording, Way};

/// No arm takes longer: what is longer waits behind others.
const MOST_NS: u64 = 20_000_000;
/// Below that nobody has waited for a device.
const WAITED_NS: u64 = 100_000;
/// Accesses of more bytes wait for the reading as well.
const SMALL_BYTES: u64 = 128 << 10;
/// Waits to tell anything.
const ENOUGH: usize = 16;

/// What a movement took in a recorded run, nanoseconds; 0 where none was waited for.
pub(crate) fn movement_ns(recording: &Recording) -> u64 {
    let is_small = |access: &&Access| {
        access.way == Way::Read && u64::from(access.pages).saturating_mul(PAGE_BYTES) <= SMALL_BYTES
    };
    let small = recording.accesses.iter().filter(is_small).map(|access| access.waited_ns);
    let mut waits: Vec<u64> = small.filter(|waited_ns| *waited_ns >= WAITED_NS).collect();
    if waits.len() < ENOUGH {
        return 0;
    }
    waits.sort_unstable();
    foretell_walk::movement_ns(&waits).min(MOST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::{FileNumber, RoleId};

    fn of(waits_ns: impl IntoIterator<Item = u64>) -> u64 {
        let access = |(at, waited_ns): (u32, u64)| Access {
            at_ns: at.into(),
            waited_ns,
            ..Access::read(RoleId(0), FileNumber(at), 0, 4)
        };
        let accesses = (0_u32..).zip(waits_ns).map(access).collect();
        movement_ns(&Recording { accesses, ..Recording::default() })
    }

    #[test]
    fn long_waits_that_are_not_seldom_tell_of_an_arm() {
        assert_eq!(of([]), 0);
        assert_eq!(of([8_000_000; 15]), 0, "too few");
        assert_eq!(of([8_000_000; 16]), 8_000_000);
        let mixed = |quick: usize| of([vec![9_000_000; 40], vec![500_000; quick], vec![0; 9000]].concat());
        assert_eq!([mixed(280), mixed(281)], [9_000_000, 0], "one in eight of those that waited");
        assert_eq!(of([vec![8_000_000; 10], vec![50_000_000; 30]].concat()), 8_000_000, "behind others");
        assert_eq!(of([90_000_000; 16]), MOST_NS);
    }
}
