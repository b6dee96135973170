//! Devices for a simulator: a request in, its service time out.
//!
//! Pure: no clock, no threads, no files, no dependence on the rest of foretell. Time is `u64` nanoseconds
//! from wherever the caller starts counting. The same requests give the same times.
//!
//! ```text
//!  submit ──►  Scheduler (the driver's queue)  ──►  server        ──►  Started, Completed
//!              FCFS, SCAN, CSCAN, SSTF, SPTF        Mechanism      disk: arm, platters, cache
//!                                                   uniform, SSD, cloud volume, object store
//! ```
//!
//! - [`Device`] is what an event queue steps: queue and server together.
//! - [`Scheduler`] and [`Mechanism`] can be used apart.
//! - [`DeviceParameters`] is a device as data, read from TOML; [`catalogue`] has the built-in ones.
//! - [`Array`] maps blocks to striped disks.
//! - [`validation`] replays a measured trace and compares the distributions of response times.
//!
//! Sources: Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (IEEE Computer, 1994); Kotz, Toh
//! and Radhakrishnan, "A Detailed Simulation Model of the HP 97560 Disk Drive" (1994); Kimbrel et al., "A
//! Trace-Driven Comparison of Algorithms for Parallel Prefetching and Caching" (OSDI 1996).

mod array;
pub mod catalogue;
mod device;
mod file;
mod geometry;
mod measured;
mod mechanism;
mod parameters;
mod random;
mod request;
mod schedule;
mod seek;
mod server;
mod token_bucket;
pub mod validation;
mod write_cache;

pub use array::{Array, Location};
pub use catalogue::CatalogueError;
pub use device::{DEFAULT_QUEUE_LIMIT, Device, Options};
pub use file::ParameterError;
pub use geometry::{Geometry, Place, Tracks, Zone};
pub use measured::{Cap, Host, MeasuredParameters, NEAR_SHARE, ServicePoint};
pub use mechanism::{Mechanism, Service};
pub use parameters::{
    Controller, DeviceParameters, DiskCache, DiskParameters, Model, ObjectStoreParameters, SeekVariant,
    SsdParameters, UniformParameters, Unverified, VolumeParameters,
};
pub use request::{Class, Completion, DeviceEvent, Request, Start, SubmitError};
pub use schedule::{DemandFirst, Discipline, NoArm, Positioning, Queued, Scheduler, UnknownDiscipline};
pub use seek::{SeekCurve, SeekTerms};
pub use token_bucket::TokenBucket;
