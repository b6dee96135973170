//! The service with real programs, real files and real sockets: what is asked of it happens, and nothing that
//! a client does hurts anybody else.
#![allow(clippy::unwrap_used)]

#[path = "../attacks/mod.rs"]
mod attacks;
mod client;
mod control;
mod hostile;
mod library;
mod limits;
mod privileges;
mod stage;
mod starting;
mod users;
