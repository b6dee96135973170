//! Runs that know of each other: one may join another one's budget, and none takes a file that another
//! one holds under a different policy: the later run leaves such files alone.
//!
//! Every controlling run listens on the abstract Unix socket `foretell-run-PID` and answers one line of
//! JSON with one line of JSON (`protocol`): what the service is asked about a program, and which rules hold. Only the same user and root are answered (`SO_PEERCRED`), the
//! number of connections and the size of a message are bounded, and what does not parse is answered with
//! an error. The joining side starts its own program; the program's process number and rules go to the run
//! that it joins, which puts them under its plane as one more session. When the connection ends, so does
//! the session.

mod client;
mod protocol;
mod server;

pub use client::{Client, Others, other_runs};
pub use protocol::{MAX_MESSAGE_BYTES, Reply, Request};
pub use server::{MAX_CONNECTIONS, Server};
