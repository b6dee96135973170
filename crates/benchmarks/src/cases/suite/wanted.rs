//! What can be chosen.

use clap::Args;

/// Where the data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Device {
    /// 1 ms x 8 channels, 250 MB/s in all
    Cloud,
    /// A disk with an arm: 8 ms, 100 MB/s
    Disk,
    /// The machine's own disk
    Own,
}

impl Device {
    pub(super) fn name(self) -> &'static str {
        match self {
            Device::Cloud => "cloud volume",
            Device::Disk => "8 ms disk",
            Device::Own => "own disk",
        }
    }
}

/// A kind of change, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ChangeKind {
    /// Another query
    Query,
    /// The same in another order
    Order,
    /// One file in twenty replaced
    Files,
    /// All files renamed
    Names,
}

/// What can be chosen.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For suite")]
pub(crate) struct SuiteArguments {
    /// The devices, with commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Device::Cloud, Device::Disk, Device::Own])]
    pub(crate) devices: Vec<Device>,
    /// Memory for these shares of what is read, in per cent, with commas.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [25, 50, 75],
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) memory: Vec<u64>,
    /// What is different on the third night [default: what suits the program].
    #[arg(long, value_enum)]
    pub(crate) changed: Option<ChangeKind>,
}
