//! `foretell cc`: the real compiler, and programs that prefetch for themselves.

use std::ffi::OsString;

use foretell_slicer::driver;

use crate::terminal::warn;

/// Arguments of `foretell cc`: the compiler's own.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments for the compiler: $FORETELL_CC, or cc.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Compiles; the exit code is the compiler's.
///
/// # Errors
/// When the compiler does not start.
pub fn execute(args: &Args) -> anyhow::Result<u8> {
    let compiled = driver::compile(&args.arguments)?;
    if let Some(diagnosis) = &compiled.diagnosis {
        warn(diagnosis);
    }
    Ok(compiled.exit_code)
}
