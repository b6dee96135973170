//! The plane on real files and real processes: what is asked of the page cache happens, and what happens in
//! it is seen. One after the other, because they share the machine's page cache and processors.
#![allow(clippy::unwrap_used, unsafe_code)]

mod clients;
mod evicting;
mod files;
mod layers;
mod orphans;
mod prefetching;
mod processes;
mod program;
mod stage;
