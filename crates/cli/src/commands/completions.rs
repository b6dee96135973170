//! `foretell completions` and `foretell man`: what a shell and man(1) know of the command, from its own definition.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap_complete::Shell;

use crate::terminal::say;

/// Print what a shell needs to complete command lines of foretell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell completions bash > /etc/bash_completion.d/foretell\n  \
    foretell completions zsh > ~/.zfunc/_foretell\n  \
    foretell completions fish > ~/.config/fish/completions/foretell.fish")]
pub struct Args {
    /// The shell
    #[arg(value_name = "bash|zsh|fish")]
    shell: Name,
}

/// The shells.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
}

/// Write manual pages: foretell.1, one for each command, and foretelld.8.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell man /usr/local/share/man/man1\n  \
    foretell man . && man ./foretell-learn.1")]
pub struct ManArgs {
    /// The directory to write into
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints completions of `cli`.
///
/// # Errors
/// None.
pub fn execute(args: &Args, mut cli: clap::Command) -> Result<u8> {
    let shell = match args.shell {
        Name::Bash => Shell::Bash,
        Name::Zsh => Shell::Zsh,
        Name::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli, "foretell", &mut text);
    say(&String::from_utf8_lossy(&text));
    Ok(0)
}

/// Writes manual pages of `command`.
///
/// # Errors
/// The directory is not there, or cannot be written to.
pub fn man(args: &ManArgs, mut command: clap::Command) -> Result<u8> {
    let directory = &args.directory;
    if !directory.is_dir() {
        bail!("{}: is no directory; make it first", directory.display());
    }
    command.build();
    page(&command, "foretell", "1", directory)?;
    pages_below(&command, "foretell", directory)?;
    let daemon = command.find_subcommand("daemon").context("internal: there is no service")?;
    page(
        &daemon.clone().name("foretelld").display_name("foretelld").bin_name("foretelld"),
        "foretelld",
        "8",
        directory,
    )?;
    Ok(0)
}

fn pages_below(command: &clap::Command, name: &str, directory: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let name = format!("{name}-{}", below.get_name());
        page(below, &name, "1", directory)?;
        pages_below(below, &name, directory)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str, section: &str, directory: &Path) -> Result<()> {
    let mut text = Vec::new();
    // The page's name; usage lines are the command's own.
    let man =
        clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).section(section).manual("foretell");
    man.render(&mut text).context("internal: a manual page cannot be made")?;
    let path = directory.join(format!("{name}.{section}"));
    Ok(foretell_output::write(&path, &text)?)
}
