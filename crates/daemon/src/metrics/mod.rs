//! Metrics for Prometheus: a [`Snapshot`](crate::Snapshot) as text, and who serves it.
//!
//! - [`exposition`]: a pure function from a snapshot to the text of OpenMetrics 1.0.
//! - [`MetricsServer`]: a thread that answers `GET /metrics`, on a loopback address or a Unix socket.
//!
//! Every user of a machine can connect to a loopback address, and none must learn what the processes of
//! another one read. So an address gives the sums of all, as `/proc/diskstats` does; the rows of processes,
//! managers and files are given on a socket of the file system, which root alone may open unless its
//! permissions are changed.

mod address;
mod exposition;
mod server;

pub use address::{AddressError, MetricsAddress};
pub use exposition::{Detail, LABEL_BYTES, ROWS, exposition};
pub use server::{CONNECTIONS, MetricsError, MetricsServer, REQUEST_BYTES};
