//! `foretell device`: the device models, and how well they fit a drive.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use foretell_device::validation::{Comparison, Records, replay};
use foretell_device::{Device, DeviceParameters, Discipline, Model, catalogue};

use crate::report::thousands;
use crate::terminal::say;

/// List the device models, show one as a file to start from, or compare one with a measured drive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell device list\n  \
    foretell device show nvme > my-drive.toml")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the built-in devices
    List,
    /// Print the file of a built-in device: the form of a file of one's own
    Show {
        /// Its name
        name: String,
    },
    /// Replay a measured trace in DiskSim's validation format and print the demerit figure
    Validate {
        /// Lines of: R or W, Hit or Miss, sector, sectors, service us, think us
        trace: PathBuf,
        /// The device, by name or as a file (.toml)
        #[arg(long, default_value = "hp97560")]
        device: String,
        /// Write JSON instead of lines
        #[arg(long)]
        json: bool,
    },
}

/// Does what the arguments say.
///
/// # Errors
/// A device or a trace that is wrong.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Action::List => say(&list()?),
        Action::Show { name } => {
            // Found by the same rules as anywhere else, variants and suggestions included.
            catalogue::find(name)?;
            let base = name.split('/').next().unwrap_or(name);
            let built_in = catalogue::BUILT_IN.iter().find(|b| b.name == base);
            say(built_in.map_or("", |b| b.text));
        }
        Action::Validate { trace, device, json } => {
            let parameters = match device.ends_with(".toml") {
                true => read(Path::new(device))?,
                false => catalogue::find(device)?,
            };
            ensure!(!trace.is_dir(), "{}: is a directory; name a trace", trace.display());
            let file = File::open(trace).with_context(|| trace.display().to_string())?;
            let mut device = Device::new(&parameters, Discipline::Fcfs);
            let comparison = replay(&mut device, Records::new(BufReader::new(file)))
                .map_err(|e| anyhow!("{}: {e}", trace.display()))?;
            say(&if *json { as_json(&comparison)? } else { in_lines(&comparison) });
        }
    }
    Ok(0)
}

/// Reads a device file.
///
/// # Errors
/// It cannot be read or is no device file.
pub(crate) fn read(path: &Path) -> Result<DeviceParameters> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    DeviceParameters::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))
}

fn list() -> Result<String> {
    let mut out = String::new();
    for name in catalogue::names() {
        let device = catalogue::find(&name)?;
        let kind = match device.model {
            Model::Disk(_) => "disk",
            Model::Uniform(_) => "uniform",
            Model::Ssd(_) => "ssd",
            Model::Volume(_) => "volume",
            Model::ObjectStore(_) => "objects",
            Model::Measured(_) => "measured",
        };
        let unverified = if device.unverified.is_empty() { "" } else { " (partly unverified)" };
        out += &format!("{name:<22} {kind:<8} {}{unverified}\n", device.description);
    }
    Ok(out)
}

fn in_lines(c: &Comparison) -> String {
    let ms = |ns: f64| ns / 1e6;
    let mut out = format!(
        "requests          {} ({} writes)\nmeasured mean     {:.3} ms\nmodelled mean     {:.3} ms\n\
         demerit           {:.3} ms, {:.1}% of the measured mean\n",
        thousands(c.requests),
        thousands(c.writes),
        ms(c.measured_mean_ns),
        ms(c.modelled_mean_ns),
        ms(c.demerit_ns),
        100.0 * c.demerit()
    );
    if let Some(hits) = c.hits {
        out += &format!(
            "reads from cache  {} measured, {} modelled, agreeing on {}\n",
            thousands(hits.measured),
            thousands(hits.modelled),
            thousands(hits.agreeing)
        );
    }
    out
}

fn as_json(c: &Comparison) -> Result<String> {
    let hits = c.hits.map(
        |h| serde_json::json!({ "measured": h.measured, "modelled": h.modelled, "agreeing": h.agreeing }),
    );
    let value = serde_json::json!({
        "requests": c.requests,
        "writes": c.writes,
        "measured_mean_ms": c.measured_mean_ns / 1e6,
        "modelled_mean_ms": c.modelled_mean_ns / 1e6,
        "demerit_ms": c.demerit_ns / 1e6,
        "demerit": c.demerit(),
        "read_hits": hits,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
