//! `foretell trace`: look into traces, and store them in one format.

use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use foretell_learn::Lists;
use foretell_recording::Recording;
use foretell_trace::{GRIDS, PatternSurvey, TraceReader};

use crate::hints::{ByteRange, line};
use crate::plot::{self, Picture};
use crate::sweep::sources::{self, Reading, Source, said};
use crate::terminal::{say, warn, width_chars};

/// Width of a drawing that goes to a pipe, unless COLUMNS says otherwise.
const WIDTH_CHARS: u16 = 80;

/// Look into traces, and store them in one format. Reads Parquet (our own), recordings of jobs, LIRS, libCacheSim (oracleGeneral
/// and CSV), MSR Cambridge, SPC, DiskSim, blkparse, fio and strace, compressed or not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell trace info job.trace\n  \
    foretell trace show ~/.local/state/foretell/jobs/NAME/recording --svg pattern.svg\n  \
    foretell trace convert strace.txt --to job.parquet")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Summarise a trace
    Info {
        #[command(flatten)]
        from: From,
        /// Write JSON instead of lines
        #[arg(long)]
        json: bool,
    },
    /// Store a trace as Parquet
    Convert {
        #[command(flatten)]
        from: From,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Draw where in each file a trace reads and writes, against time
    Show {
        #[command(flatten)]
        from: From,
        /// Files to draw, those with the most references; at most 64
        #[arg(short = 'n', long, value_name = "N", default_value_t = 6)]
        files: usize,
        /// Draw into an SVG instead
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Draw into a PNG instead
        #[arg(long, value_name = "FILE")]
        png: Option<PathBuf>,
    },
    /// List what a recording names as hints, a line each, for 'foretell run --hints'
    Hints {
        /// The recording
        file: PathBuf,
    },
    /// List the first references of a trace
    Head {
        #[command(flatten)]
        from: From,
        /// How many
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        count: usize,
        /// Write JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// The trace to read.
#[derive(Debug, clap::Args)]
struct From {
    /// The trace
    #[arg(required_unless_present = "workload")]
    file: Option<PathBuf>,
    /// A workload by name instead of a file
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    workload: Option<String>,
    /// Format of the file [default: told from the file]
    #[arg(long)]
    format: Option<String>,
    /// Bytes of a block
    #[arg(long, value_name = "BYTES", default_value_t = foretell_trace::DEFAULT_BLOCK_BYTES)]
    block_bytes: NonZeroU32,
    /// Seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl From {
    fn open(&self) -> Result<Box<dyn TraceReader>> {
        let format = sources::format(self.format.as_deref())?;
        let reading =
            Reading { block_bytes: self.block_bytes, format, seed: self.seed, count_distinct: false };
        let (workloads, files): (Vec<_>, Vec<_>) =
            (self.workload.iter().cloned().collect(), self.file.iter().cloned().collect());
        let sources = Source::all(&workloads, &files)?;
        sources.first().ok_or_else(|| anyhow!("give a trace or --workload NAME"))?.open(reading)
    }
}

/// Draws a trace to the terminal, or into the files that were named.
fn show(from: &From, files: usize, svg: Option<&Path>, png: Option<&Path>) -> Result<()> {
    if files == 0 || files > GRIDS {
        bail!("--files {files}: give 1 to {GRIDS}");
    }
    let svg = svg.map(Picture::svg).transpose()?;
    let png = png.map(Picture::png).transpose()?;
    let pictures: Vec<Picture> = svg.into_iter().chain(png).collect();
    if let Some(file) = &from.file
        && std::fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
    {
        bail!("{}: a trace is read twice to be drawn; name a regular file", file.display());
    }
    let survey = PatternSurvey::of(&mut from.open()?, from.block_bytes).map_err(said)?;
    let count = |shape| survey.count(&mut from.open()?, shape).map_err(said);
    if pictures.is_empty() {
        let width_chars = width_chars(WIDTH_CHARS).into();
        say(&plot::text(&count(plot::shape(files, width_chars))?, width_chars));
        return Ok(());
    }
    let pattern = count(plot::picture_shape(files))?;
    let drawn = plot::picture(&pattern).map_err(|e| anyhow!("internal: the pattern cannot be drawn: {e}"))?;
    for picture in &pictures {
        plot::write(picture, &drawn)?;
    }
    Ok(())
}

/// Writes what a recording names as a text that people can read and change.
fn hints(file: &Path) -> Result<()> {
    let (lists, names) = Lists::in_order(&Recording::read(file)?).located();
    let mut text = Vec::new();
    for &chunk in lists.lists.iter().flatten() {
        let (offset, length) = lists.bytes(chunk);
        let path = lists.files[chunk.file as usize].path.as_os_str().as_bytes();
        text.extend_from_slice(&line::write(path, Some(ByteRange { offset, length })));
        text.push(b'\n');
    }
    if names.missing > 0 {
        warn(&format!("{}: {} files that it names are gone", file.display(), names.missing));
    }
    // A hint is always UTF-8.
    say(&String::from_utf8_lossy(&text));
    Ok(())
}

/// Does what the arguments say.
///
/// # Errors
/// The trace cannot be read, or the new one not be written.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Action::Info { from, json } => {
            let info = foretell_trace::info(&mut from.open()?, from.block_bytes).map_err(said)?;
            say(&if *json { serde_json::to_string_pretty(&info)? + "\n" } else { info.to_string() });
        }
        Action::Convert { from, to } => {
            let converted = foretell_trace::convert(&mut from.open()?, to).map_err(said)?;
            let (references, bytes) = (converted.references, converted.file_bytes);
            say(&format!("{}: {references} references in {bytes} bytes\n", to.display()));
        }
        Action::Show { from, files, svg, png } => show(from, *files, svg.as_deref(), png.as_deref())?,
        Action::Hints { file } => hints(file)?,
        Action::Head { from, count, json } => {
            let head = foretell_trace::head(&mut from.open()?, *count).map_err(said)?;
            say(&if *json { serde_json::to_string_pretty(&head)? + "\n" } else { head.to_string() });
        }
    }
    Ok(0)
}
