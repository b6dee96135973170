//! The `foretell` command: arguments and configuration in, reports out.
//!
//! ```text
//! main (run, learn; becomes foretell-tools for all else) ──► entry ──► args ──► commands/{run, doctor, slowdisk}
//! learn: learning (name, watched, steered, words), guide   compare: comparing (stage, run, figures, words, page)
//! advise: advising (profile, device, forecast, verdict, words)
//! run, learn: anyway, kept (who stays with the program), shortage (of memory)
//! run:  config (flags + file → effective)   hints (check, feed)   scan   hosts (other runs, the service), host
//!       program (held start) or attached (what runs already)   signals, told_apart   watched | steered (by a partner: our own host or another)
//!       uncontrolled (why not, and the program all the same)   stats, report
//! run, sim: input_log   replay: replayed (its words)
//! sim, trace, device:  sweep (sources, table, page, chart)
//! model: workload (its text)   plot (pictures, pages)   apply (settings of a device)   against_sim
//! ```
//!
//! It is a library as well so that its parsers can be fuzzed; it promises nothing to other crates.

mod advising;
pub mod against_sim;
mod anyway;
pub mod apply;
pub mod args;
mod attached;
pub mod commands;
mod comparing;
pub mod config;
mod devices;
pub mod entry;
mod guide;
pub mod hints;
pub mod host;
pub mod hosts;
mod input_log;
mod kept;
pub mod learning;
mod matched;
mod partner;
pub mod plot;
pub mod program;
mod replayed;
pub mod report;
pub mod rule;
pub mod scan;
mod shortage;
mod signals;
pub mod size;
pub mod stats;
mod steered;
pub mod sweep;
pub mod terminal;
mod told_apart;
pub mod top;
mod uncontrolled;
pub mod watch;
mod watched;
pub mod workload;
