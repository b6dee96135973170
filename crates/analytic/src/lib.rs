//! A closed-form model of reads: how long they take, and why, without a trace and without a simulation.
//!
//! Pure: no clock, no files, no threads. It knows devices as data ([`foretell_device::DeviceParameters`])
//! and nothing of the simulator or of the policies: that the model and the simulator agree says something
//! only as long as neither has seen the other.
//!
//! - [`ffs`]: how 4.4BSD's file system lays a file out and turns its sequential reads into disk requests.
//! - [`response`]: the model of Shriver, Small and Smith ("Why does file system prefetching work?", USENIX
//!   1999): disk, cluster and file-system response time.
//! - [`published`]: their tables and claims, next to what the model gives.
//! - [`workload`], [`costs`], [`predict`]: the same idea for devices and file systems of today: what a
//!   request costs, how many there are, and which of them wait for each other.
//! - [`measured`]: the same for a device that was calibrated, with the processor's part of each read.
//! - [`calibrate`]: from timed requests to such a device.
//! - [`advise`]: what to set, by that model.
//! - [`readahead`]: the windows in which Linux reads a file; `pipeline`: how they follow each other.
//!
//! Times are in ms and sizes in KB of 1024 bytes in the modules that follow the paper, which prints them so;
//! its rates in MB/s are taken as KB/ms, as its own tables do.

pub mod advise;
mod arm;
pub mod calibrate;
pub mod costs;
mod evaluation;
pub mod ffs;
mod limits;
pub mod measured;
mod pipeline;
pub mod predict;
pub mod published;
pub mod readahead;
pub mod response;
mod surface;
pub mod workload;
