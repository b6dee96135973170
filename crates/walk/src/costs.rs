//! What a device is taken to cost before it has been measured.

/// Who waits for less waits for no arm, nanoseconds: 3 ms are half a turn of a disk, and a short movement. Disks of virtual
/// machines often say that they have an arm, and have none.
pub(crate) const ARM_NS: u64 = 3_000_000;

/// What a disk with an arm gives, bytes a second.
const RATE: f64 = 100e6;
/// What others give in the time of a wait, bytes: a cloud volume (1 ms) and flash (100 us) do.
const BYTES_IN_A_WAIT: f64 = 131_072.0;

/// What a device is taken to give, bytes a second, for which somebody waits so long in the mean.
pub(crate) fn rate(mean_wait_ns: u64) -> f64 {
    RATE.max(BYTES_IN_A_WAIT * 1e9 / mean_wait_ns.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_little_waits_for_a_fast_device() {
        assert_eq!(rate(0), 131_072.0 * 1e9);
        assert_eq!(rate(1_000_000), 131_072_000.0);
        assert_eq!(rate(2 * ARM_NS), 100e6);
    }
}
