//! `foretell top`: a live view of the service and of the runs that have a host of their own.
//!
//! ```text
//!  snapshots ──► rows: what was, what is, and the difference by the time between
//!  keys      ──► App: a state machine without input or output ──► draw: a frame of cells
//!                            live: terminal, socket and signals around it
//! ```
//!
//! [`App`] and [`draw`] know neither terminal nor clock nor socket: the tests give them snapshots and keys
//! and look at the frames.

mod app;
mod columns;
mod draw;
mod live;
mod rows;
mod screen;

pub use app::{App, Effect, Key};
pub use columns::View;
pub use draw::{as_text, draw};
pub use live::{Watch, once, watch};
pub use screen::Screen;
