//! `foretell cc`: the real compiler, and programs that prefetch for themselves. `foretell c++`: the real compiler.

use std::ffi::OsString;

use foretell_pagecache::hand_on;
use foretell_slicer::driver;

use crate::terminal::warn;

/// Arguments of `foretell cc` and `foretell c++`: the compiler's own, but for a `--help` that stands alone.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Arguments for the compiler: $FORETELL_CC or cc, of C++ $FORETELL_CXX or c++.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Compiles; the exit code is the compiler's. `cli` makes the definition of the whole command line, which has the help.
///
/// # Errors
/// When the compiler does not start.
pub fn execute(args: &Args, cli: fn() -> clap::Command) -> anyhow::Result<u8> {
    if args.arguments == ["--help"] {
        return Ok(help(cli, "cc"));
    }
    Ok(told(&driver::compile(&given(), hand_on)?))
}

/// The same for C++, of which nothing is translated.
///
/// # Errors
/// When the compiler does not start.
pub fn execute_cxx(args: &Args, cli: fn() -> clap::Command) -> anyhow::Result<u8> {
    if args.arguments == ["--help"] {
        return Ok(help(cli, "c++"));
    }
    Ok(told(&driver::compile_cxx(&given(), hand_on)?))
}

/// The arguments as they were given: clap leaves out a `--`.
fn given() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// Prints what `command` does. No build asks a compiler for that alone, and a person does first of all.
fn help(cli: fn() -> clap::Command, command: &str) -> u8 {
    let mut cli = cli();
    cli.build();
    if let Some(command) = cli.find_subcommand_mut(command) {
        print!("{}", command.render_help());
    }
    0
}

/// Says what there is to say, and gives the exit code.
fn told(compiled: &driver::Compiled) -> u8 {
    if let Some(diagnosis) = &compiled.diagnosis {
        warn(diagnosis);
    }
    compiled.exit_code
}
