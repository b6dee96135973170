//! What bounds a workload, in words.

use foretell_analytic::predict::Bound;

/// A word for machines and one line for people.
pub(super) fn bound_text(bound: Bound) -> (&'static str, &'static str) {
    match bound {
        Bound::Latency => ("latency", "each request waits for the one before"),
        Bound::Device => ("device", "the device is busy all the time"),
        Bound::Operations => ("operations", "the device's operations a second"),
        Bound::Bytes => ("bytes", "the device's bytes a second"),
        Bound::Computation => ("computation", "the computation: reads are hidden behind it"),
    }
}
