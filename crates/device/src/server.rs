//! What stands behind the driver's queue: a disk, or a device without moving parts.
//!
//! A server takes a limited number of requests at a time ([`Server::slots`]) and says, at the instant at
//! which it takes one, when that one will be done. The devices without moving parts are:
//!
//! | device | a request of b bytes is done after | limits |
//! | --- | --- | --- |
//! | uniform | F, one at a time | |
//! | SSD | latency + b / channel rate | channels; operations/s and bytes/s of the whole |
//! | cloud volume | the tokens are there, then latency | outstanding requests; token buckets |
//! | object store | first byte (lognormal), then b / connection rate | connections; bytes/s of the network |
//! | measured | as its tables say ([`crate::MeasuredParameters`]) | the tables' busy part; token buckets |
//!
//! The limits of an SSD and of an object store's network work beside the request's own time, so the later
//! of the two counts.

use crate::measured::Measured;
use crate::mechanism::{Mechanism, Service};
use crate::parameters::{Model, ObjectStoreParameters, SsdParameters, VolumeParameters};
use crate::random::Random;
use crate::request::Request;
use crate::schedule::{NoArm, Queued, Scheduler};
use crate::token_bucket::TokenBucket;

/// A device's inside.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    Disk(Box<Mechanism>),
    Uniform { service_ns: u64 },
    Ssd(Ssd),
    Volume(Volume),
    ObjectStore(ObjectStore),
    Measured(Measured),
}

#[derive(Debug, Clone)]
pub(crate) struct Ssd {
    channels: usize,
    read_ns: u64,
    write_ns: u64,
    channel_ns_per_byte: f64,
    operations: TokenBucket,
    bytes: TokenBucket,
}

#[derive(Debug, Clone)]
pub(crate) struct Volume {
    outstanding: usize,
    latency_ns: u64,
    operations: TokenBucket,
    peak_operations: Option<TokenBucket>,
    bytes: TokenBucket,
}

#[derive(Debug, Clone)]
pub(crate) struct ObjectStore {
    connections: usize,
    median_first_byte_ns: f64,
    sigma: f64,
    connection_ns_per_byte: f64,
    network: TokenBucket,
    random: Random,
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// ns a byte takes at a rate in 10^6 bytes a second.
fn ns_per_byte(mb_per_s: f64) -> f64 {
    1e3 / mb_per_s
}

fn bytes_per_s(mb_per_s: f64) -> u64 {
    (mb_per_s * 1e6).round() as u64
}

impl Server {
    pub(crate) fn new(model: &Model, seed: u64) -> Server {
        match model {
            Model::Disk(disk) => Server::Disk(Box::new(Mechanism::new(disk))),
            Model::Uniform(uniform) => Server::Uniform { service_ns: ns(uniform.service_ms) },
            Model::Ssd(ssd) => Server::Ssd(Ssd::new(ssd)),
            Model::Volume(volume) => Server::Volume(Volume::new(volume)),
            Model::ObjectStore(store) => Server::ObjectStore(ObjectStore::new(store, seed)),
            Model::Measured(measured) => Server::Measured(Measured::new(measured)),
        }
    }

    /// How many requests it works on at a time.
    pub(crate) fn slots(&self) -> usize {
        match self {
            Server::Disk(_) | Server::Uniform { .. } => 1,
            Server::Ssd(ssd) => ssd.channels,
            Server::Volume(volume) => volume.outstanding,
            Server::ObjectStore(store) => store.connections,
            Server::Measured(measured) => measured.slots(),
        }
    }

    /// Chooses the next request of the queue at `now_ns`.
    pub(crate) fn choose(&self, queue: &mut Scheduler, now_ns: u64) -> Option<Queued> {
        match self {
            Server::Disk(mechanism) => queue.pop(&(&**mechanism, now_ns)),
            _ => queue.pop(&NoArm),
        }
    }

    /// Takes `request` of `bytes` bytes at `start_ns`.
    pub(crate) fn service(&mut self, start_ns: u64, request: &Request, bytes: u64) -> Service {
        let finished_ns = match self {
            Server::Disk(mechanism) => return mechanism.service(start_ns, request),
            Server::Uniform { service_ns } => start_ns + *service_ns,
            Server::Ssd(ssd) => ssd.finish_ns(start_ns, request.write, bytes),
            Server::Volume(volume) => volume.finish_ns(start_ns, bytes),
            Server::ObjectStore(store) => store.finish_ns(start_ns, bytes),
            Server::Measured(measured) => {
                let sector_bytes = bytes / u64::from(request.sectors.max(1));
                measured.finish_ns(start_ns, request.sector * sector_bytes, bytes)
            }
        };
        Service { finished_ns, from_cache: false }
    }
}

impl Ssd {
    fn new(ssd: &SsdParameters) -> Ssd {
        Ssd {
            channels: ssd.channels as usize,
            read_ns: ns(ssd.read_latency_ms),
            write_ns: ns(ssd.write_latency_ms),
            channel_ns_per_byte: ns_per_byte(ssd.channel_mb_per_s),
            operations: TokenBucket::new(ssd.operations_per_s, 0),
            bytes: TokenBucket::new(bytes_per_s(ssd.total_mb_per_s), 0),
        }
    }

    fn finish_ns(&mut self, start_ns: u64, write: bool, bytes: u64) -> u64 {
        let latency_ns = if write { self.write_ns } else { self.read_ns };
        let own_ns = start_ns + latency_ns + (bytes as f64 * self.channel_ns_per_byte) as u64;
        own_ns.max(self.operations.take(start_ns, 1)).max(self.bytes.take(start_ns, bytes))
    }
}

impl Volume {
    fn new(volume: &VolumeParameters) -> Volume {
        Volume {
            outstanding: volume.outstanding as usize,
            latency_ns: ns(volume.latency_ms),
            operations: TokenBucket::new(volume.operations_per_s, volume.operations_burst),
            peak_operations: volume.peak_operations_per_s.map(|rate| TokenBucket::new(rate, 1)),
            bytes: TokenBucket::new(bytes_per_s(volume.mb_per_s), volume.bytes_burst),
        }
    }

    fn finish_ns(&mut self, start_ns: u64, bytes: u64) -> u64 {
        let sustained_ns = self.operations.take(start_ns, 1).max(self.bytes.take(start_ns, bytes));
        let peak_ns = self.peak_operations.as_mut().map_or(start_ns, |peak| peak.take(start_ns, 1));
        sustained_ns.max(peak_ns) + self.latency_ns
    }
}

impl ObjectStore {
    fn new(store: &ObjectStoreParameters, seed: u64) -> ObjectStore {
        ObjectStore {
            connections: store.connections as usize,
            median_first_byte_ns: store.first_byte_median_ms * 1e6,
            sigma: store.first_byte_sigma,
            connection_ns_per_byte: ns_per_byte(store.connection_mb_per_s),
            network: TokenBucket::new(bytes_per_s(store.network_mb_per_s), 0),
            random: Random::new(seed),
        }
    }

    fn finish_ns(&mut self, start_ns: u64, bytes: u64) -> u64 {
        let first_byte_ns = self.median_first_byte_ns * (self.sigma * self.random.normal()).exp();
        let own_ns = first_byte_ns + bytes as f64 * self.connection_ns_per_byte;
        (start_ns + own_ns as u64).max(self.network.take(start_ns, bytes))
    }
}
