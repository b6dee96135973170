//! `foretell slice`: C in, the same program with a slice of itself that prefetches out.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use foretell_output::Output;
use foretell_slicer::{
    Input, Options, Translation, front_end_flags, read_database, translate, write_runtime,
};

use crate::terminal::{note, say, warn};

/// Exit code when every file that could have been prefetched is refused.
const REFUSED: u8 = 3;

/// Make a C program prefetch for itself: what its file accesses depend on becomes a slice that runs ahead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell slice main.c read.c -o sliced\n  \
    foretell slice -p compile_commands.json -o sliced")]
pub struct Args {
    /// The C files of the program, all of them
    #[arg(required_unless_present = "compile_commands")]
    files: Vec<PathBuf>,
    /// Take files and flags from a compile database (compile_commands.json)
    #[arg(short = 'p', long, value_name = "FILE", conflicts_with = "files")]
    compile_commands: Option<PathBuf>,
    /// Where to write: a file, or for a program of several files a folder, in which a.c becomes a.foretell.c
    /// (without it, a single file goes to standard output)
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write the runtime there: foretell_slice.h, and foretell_slice.c to compile and link with the program
    #[arg(long, value_name = "FOLDER")]
    runtime: Option<PathBuf>,
    /// Say what became of each file that the program opens, and how much of the program the slice keeps
    #[arg(long)]
    report: bool,
    /// Say why the slice keeps a function, or what stands on a line (LINE or FILE:LINE)
    #[arg(long, value_name = "FUNCTION|LINE")]
    why: Option<String>,
    /// Say more about library functions: a table like crates/slicer/src/models.toml
    #[arg(long, value_name = "FILE")]
    models: Vec<PathBuf>,
    /// The clang to read C with
    #[arg(long, value_name = "PROGRAM", default_value = "clang")]
    clang: String,
    /// Flags of the compiler; -I, -D, -U, -std and their like are used
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<std::ffi::OsString>,
}

/// Does what the arguments say.
///
/// # Errors
/// Sources that cannot be read or are no C, or a result that cannot be written.
pub fn execute(args: &Args) -> Result<u8> {
    let folder = tempfile::tempdir().context("a temporary folder for foretell_slice.h")?;
    write_runtime(folder.path())?;
    let inputs = inputs(args, folder.path())?;
    let _held = check_output(args, &inputs)?;
    let mut models = Vec::new();
    for path in &args.models {
        models.push(fs::read_to_string(path).with_context(|| path.display().to_string())?);
    }
    let options = Options {
        clang: args.clang.clone(),
        models,
        why: args.why.clone(),
        coarse: false,
        check: true,
        cache: None,
    };
    let translation = translate(&inputs, &options)?;
    if args.report {
        say(&translation.report.to_string());
    }
    if args.why.is_some() {
        say(&(translation.why.join("\n") + "\n"));
    }
    for refusal in &translation.refusals {
        warn(&format!("refused: {refusal}"));
    }
    if !translation.prefetches() {
        if translation.refusals.is_empty() {
            warn("nothing to prefetch: the program reads no file that it opens itself");
        }
        return Ok(REFUSED);
    }
    if let Some(folder) = &args.runtime {
        write_runtime(folder)?;
    }
    write(args, &inputs, &translation)?;
    if translation.report.is_unpromising() {
        let percent = translation.report.kept_percent();
        note(&format!(
            "foretell: the slice keeps {percent:.0}% of the program's effects: it will hardly get ahead of it \
             unless the rest is where the time goes\n"
        ));
    }
    Ok(0)
}

impl Args {
    /// Is the translation itself not wanted?
    fn only_asks(&self) -> bool {
        self.output.is_none() && (self.report || self.why.is_some())
    }
}

/// Finds out before the work is done whether its result can be written, and over nobody's source. To be held until
/// it is.
fn check_output(args: &Args, inputs: &[Input]) -> Result<Option<Output>> {
    let Some(output) = &args.output else {
        let one = inputs.len() == 1 || args.only_asks();
        ensure!(one, "a program of {} files needs a folder to write to: -o FOLDER", inputs.len());
        return Ok(None);
    };
    if inputs.len() > 1 || output.is_dir() {
        ensure!(
            !output.is_file(),
            "-o {}: is a file; a program of {} files needs a folder",
            output.display(),
            inputs.len()
        );
        return Ok(None);
    }
    let held = Output::open(output).map_err(|e| anyhow!("-o {e}"))?;
    let same = |input: &Input| {
        let source = input.folder.as_deref().unwrap_or(Path::new("")).join(&input.path);
        fs::canonicalize(source).ok().is_some_and(|source| fs::canonicalize(output).ok() == Some(source))
    };
    ensure!(!inputs.iter().any(same), "-o {}: is the source itself; give another name", output.display());
    Ok(Some(held))
}

fn inputs(args: &Args, headers: &Path) -> Result<Vec<Input>> {
    let mut inputs = match &args.compile_commands {
        Some(path) => read_database(path)?,
        None => {
            let flags = front_end_flags(&args.flags);
            let input = |path: &PathBuf| Input {
                path: path.clone(),
                flags: flags.clone(),
                folder: None,
                preprocessed: None,
                otherwise: None,
            };
            args.files.iter().map(input).collect()
        }
    };
    if inputs.is_empty() {
        bail!("the compile database names no C file");
    }
    for input in &mut inputs {
        let is_c = input.path.extension().is_some_and(|e| e == "c" || e == "i");
        let path = input.path.display();
        ensure!(is_c, "{path}: no C, as its name does not end in .c; foretell slice translates C only");
        // A program with annotations includes our header.
        input.flags.push(format!("-I{}", headers.display()));
    }
    Ok(inputs)
}

fn write(args: &Args, inputs: &[Input], translation: &Translation) -> Result<()> {
    match &args.output {
        None if args.only_asks() => {}
        None => say(&translation.files.concat()),
        Some(output) if inputs.len() == 1 && !output.is_dir() => write_file(output, &translation.files[0])?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            for (input, text) in inputs.iter().zip(&translation.files) {
                let stem = input.path.file_stem().unwrap_or_default().to_string_lossy();
                let path = folder.join(format!("{stem}.foretell.c"));
                write_file(&path, text)?;
            }
        }
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    foretell_output::write(path, text.as_bytes()).map_err(|e| anyhow!("-o {e}"))
}
