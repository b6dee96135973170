//! `foretell doctor`: what works here.

use anyhow::Result;

/// Say which of the kernel's mechanisms work here, which are used, and what to do about the others. Exit
/// code 0 when 'foretell run' can work, 1 otherwise.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn execute(args: &Args) -> Result<u8> {
    let _ = args.json;
    Ok(1)
}
