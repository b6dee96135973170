//! An object store from timed range requests.
//!
//! A request takes L until its first byte and then b/w on its connection; all connections together pass the
//! network. L is lognormal: its median and the standard deviation of its logarithm are taken from small
//! requests one at a time, w from large ones one at a time, the network from large ones on many connections.
//!
//! For a rate r in requests of b bytes, `n = ceil(r (E[L]/b + 1/w))` connections are needed.

use std::fmt::Write;

use foretell_device::{DeviceParameters, Model, ObjectStoreParameters, ParameterError};
use thiserror::Error;

use super::Estimate;

/// Requests one at a time of the first bytes, to time L. Fifty give the median within a sixth of sigma.
pub const SMALL_REQUESTS: u32 = 50;
/// Bytes of each: a page.
pub const SMALL_BYTES: u64 = 4096;
/// Bytes of a large request: the usual part of a download.
pub const LARGE_BYTES: u64 = 8 << 20;
/// Large requests one at a time.
pub const LARGE_REQUESTS: u32 = 6;
/// Connections at the same time: what SDKs open at most for one transfer is 10 to 32.
pub const CONNECTIONS: u32 = 16;
/// Large requests on them.
pub const TOGETHER_REQUESTS: u32 = 64;

/// One request, in ms after the probe's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObjectTiming {
    /// Bytes that came.
    pub bytes: u64,
    /// When it was sent.
    pub start_ms: f64,
    /// When its first byte was there.
    pub first_byte_ms: f64,
    /// When its last was.
    pub done_ms: f64,
}

/// All timed requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectSamples {
    /// Small ones, one at a time.
    pub small: Vec<ObjectTiming>,
    /// Large ones, one at a time.
    pub large: Vec<ObjectTiming>,
    /// Large ones on [`CONNECTIONS`] connections.
    pub together: Vec<ObjectTiming>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectCalibration {
    /// The device.
    pub device: DeviceParameters,
    /// Median of L.
    pub first_byte_ms: Estimate,
    /// Standard deviation of its logarithm.
    pub sigma: f64,
    /// w, in bytes a second.
    pub connection_bytes_per_s: Estimate,
    /// The network, in bytes a second.
    pub network_bytes_per_s: f64,
}

/// Why there is nothing to say.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ObjectFitError {
    /// Too few requests were answered.
    #[error("only {found} requests were answered in time, and at least {least} are needed")]
    TooFew {
        /// Answered.
        found: usize,
        /// Needed.
        least: usize,
    },
    /// The times make no device.
    #[error("the times make no device: {0}")]
    Parameters(#[from] ParameterError),
}

/// The fewest small requests.
const LEAST_SMALL: usize = 10;

/// The store that these times are from, with an object of `object_bytes`.
///
/// # Errors
///
/// [`ObjectFitError`] if there are too few.
pub fn fit_object(samples: &ObjectSamples, object_bytes: u64) -> Result<ObjectCalibration, ObjectFitError> {
    let ObjectSamples { small, large, together } = samples;
    let (found, least) = (small.len(), LEAST_SMALL);
    if found < least || large.is_empty() {
        return Err(ObjectFitError::TooFew { found, least });
    }
    let first_byte = |t: &ObjectTiming| (t.first_byte_ms - t.start_ms).max(1e-6);
    let first_byte_ms = super::fit::estimate(small.iter().map(first_byte).collect());
    let mut logs: Vec<f64> = small.iter().map(|t| first_byte(t).ln()).collect();
    logs.sort_by(f64::total_cmp);
    // Half of a normal distribution lies within 0.6745 standard deviations: not moved by a few outliers.
    let at = |share: f64| logs[((logs.len() - 1) as f64 * share).round() as usize];
    let sigma = ((at(0.75) - at(0.25)) / (2.0 * 0.6745)).min(3.0);
    let rate = |t: &ObjectTiming| t.bytes as f64 * 1e3 / (t.done_ms - t.first_byte_ms).max(1e-3);
    let connection = super::fit::estimate(large.iter().map(rate).collect());
    let span_ms = together.iter().map(|t| t.done_ms).fold(0.0, f64::max)
        - together.iter().map(|t| t.start_ms).fold(f64::INFINITY, f64::min);
    let all_bytes: u64 = together.iter().map(|t| t.bytes).sum();
    let together_rate = if span_ms > 0.0 { all_bytes as f64 * 1e3 / span_ms } else { 0.0 };
    let network = together_rate.max(connection.value);
    let device = DeviceParameters {
        name: String::new(),
        description: String::new(),
        source: String::new(),
        model: Model::ObjectStore(ObjectStoreParameters {
            capacity_bytes: object_bytes,
            connections: CONNECTIONS,
            first_byte_median_ms: first_byte_ms.value,
            first_byte_sigma: sigma,
            connection_mb_per_s: connection.value / 1e6,
            network_mb_per_s: network / 1e6,
        }),
        ..DeviceParameters::uniform(0.0, object_bytes)
    };
    device.check()?;
    Ok(ObjectCalibration {
        device,
        first_byte_ms,
        sigma,
        connection_bytes_per_s: connection,
        network_bytes_per_s: network,
    })
}

impl ObjectCalibration {
    /// Connections with which requests of `request_bytes` reach `bytes_per_s`; `None` if the network does not.
    #[must_use]
    pub fn connections_for(&self, bytes_per_s: f64, request_bytes: f64) -> Option<u32> {
        // What a transfer at full speed measures is the network's rate, but for its own first byte.
        if bytes_per_s > self.network_bytes_per_s {
            return None;
        }
        let mean_ms = self.first_byte_ms.value * (self.sigma * self.sigma / 2.0).exp();
        let seconds_per_byte = mean_ms / 1e3 / request_bytes + 1.0 / self.connection_bytes_per_s.value;
        Some((bytes_per_s * seconds_per_byte).ceil().max(1.0) as u32)
    }

    /// The text of its device file.
    #[must_use]
    pub fn device_file(&self, name: &str, description: &str, source: &str) -> String {
        let Model::ObjectStore(store) = &self.device.model else { return String::new() };
        let text = |value: &str| toml::Value::from(value).to_string();
        let percent = |e: &Estimate| if e.value > 0.0 { 100.0 * e.error / e.value } else { 0.0 };
        let mut out = String::new();
        let _ = write!(
            out,
            "name = {}\ndescription = {}\nsource = {}\n\n[object_store]\ncapacity_bytes = {}\n\
             connections = {}  # as many as were used\nfirst_byte_median_ms = {:.6}  # +- {:.1}%\n\
             first_byte_sigma = {:.6}\nconnection_mb_per_s = {:.6}  # +- {:.1}%\nnetwork_mb_per_s = {:.6}\n",
            text(name),
            text(description),
            text(source),
            store.capacity_bytes,
            store.connections,
            store.first_byte_median_ms,
            percent(&self.first_byte_ms),
            store.first_byte_sigma,
            store.connection_mb_per_s,
            percent(&self.connection_bytes_per_s),
            store.network_mb_per_s,
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(start_ms: f64, first_ms: f64, bytes: u64, ms: f64) -> ObjectTiming {
        ObjectTiming {
            bytes,
            start_ms,
            first_byte_ms: start_ms + first_ms,
            done_ms: start_ms + first_ms + ms,
        }
    }

    fn samples() -> ObjectSamples {
        // First bytes of 20 ms, spread by a sigma of about 0.3; 8 MB in 80 ms; 16 connections in 100 ms.
        let spread = [0.6, 0.7, 0.8, 0.817, 0.9, 1.0, 1.1, 1.224, 1.3, 1.5, 1.7];
        ObjectSamples {
            small: spread.iter().map(|s| timing(0.0, 20.0 * s, 4096, 0.1)).collect(),
            large: (0..4).map(|i| timing(f64::from(i) * 200.0, 20.0, 8_000_000, 80.0)).collect(),
            together: (0..16).map(|_| timing(0.0, 20.0, 4_000_000, 80.0)).collect(),
        }
    }

    #[test]
    fn latency_rate_and_network_come_out() {
        let found = fit_object(&samples(), 1 << 30).unwrap();
        assert_eq!(found.first_byte_ms.value, 20.0);
        assert!((found.sigma - 0.3).abs() < 0.05, "{}", found.sigma);
        assert!((found.connection_bytes_per_s.value - 100e6).abs() < 1.0);
        assert!((found.network_bytes_per_s - 640e6).abs() < 1.0);
        // 400 MB/s in parts of 8 MB: 400 (0.0209/8 + 0.01) = 5.05.
        assert_eq!(found.connections_for(400e6, 8e6), Some(6));
        assert_eq!(found.connections_for(700e6, 8e6), None);
        let text = found.device_file("store", "a store", "measured");
        assert!(DeviceParameters::parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn too_few_answers_are_no_store() {
        let few = ObjectSamples { small: samples().small[..3].to_vec(), ..samples() };
        let error = fit_object(&few, 1 << 30).unwrap_err().to_string();
        assert_eq!(error, "only 3 requests were answered in time, and at least 10 are needed");
    }
}
