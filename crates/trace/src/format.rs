//! The formats by name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::TraceError;

/// A trace format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own: Parquet with zstd.
    Foretell,
    /// What foretell recorded of a job.
    Recording,
    /// One block number a line; lines that begin with `*` separate parts (the LIRS traces of Jiang and
    /// Zhang 2002).
    Lirs,
    /// libCacheSim's binary records of 24 bytes.
    OracleGeneral,
    /// Comma-separated time, object, size, as libCacheSim reads them.
    LibCacheSimCsv,
    /// Microsoft Research Cambridge block traces (Narayanan et al. 2008).
    Msr,
    /// Storage Performance Council trace files, revision 1.0.1.
    Spc,
    /// DiskSim's default ASCII format.
    DiskSim,
    /// The text that `blkparse` prints.
    Blkparse,
    /// I/O logs of fio, versions 2 and 3.
    FioIolog,
    /// Recorded by `strace -f -ttt`.
    Strace,
}

/// Every format with its name, in the order in which they are listed to users.
const NAMES: [(Format, &str); 11] = [
    (Format::Foretell, "foretell"),
    (Format::Recording, "recording"),
    (Format::Lirs, "lirs"),
    (Format::OracleGeneral, "oracle-general"),
    (Format::LibCacheSimCsv, "libcachesim-csv"),
    (Format::Msr, "msr"),
    (Format::Spc, "spc"),
    (Format::DiskSim, "disksim"),
    (Format::Blkparse, "blkparse"),
    (Format::FioIolog, "fio"),
    (Format::Strace, "strace"),
];

/// File name extensions that leave no doubt.
const EXTENSIONS: [(&str, Format); 11] = [
    ("lirs", Format::Lirs),
    ("bin", Format::OracleGeneral),
    ("oraclegeneral", Format::OracleGeneral),
    ("msr", Format::Msr),
    ("spc", Format::Spc),
    ("disksim", Format::DiskSim),
    ("blkparse", Format::Blkparse),
    ("blktrace", Format::Blkparse),
    ("iolog", Format::FioIolog),
    ("fio", Format::FioIolog),
    ("strace", Format::Strace),
];

impl Format {
    /// The name, as [`FromStr`] takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }

    /// All names, for messages.
    #[must_use]
    pub fn names() -> String {
        NAMES.map(|(_, name)| name).join(", ")
    }

    pub(crate) fn hint(given: &str) -> String {
        foretell_nearest::nearest(given, NAMES.iter().map(|(_, name)| *name))
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
    }
}

/// The format of which a name leaves no doubt.
pub(crate) fn by_extension(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let mut parts: Vec<&str> = name.split('.').skip(1).collect();
    while let Some("gz" | "zst" | "zstd") = parts.last().copied() {
        parts.pop();
    }
    let last = *parts.last()?;
    EXTENSIONS.iter().find(|(extension, _)| *extension == last).map(|(_, format)| *format)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Format, TraceError> {
        NAMES
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(format, _)| *format)
            .ok_or_else(|| TraceError::UnknownFormat { name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_a_hint() {
        let error = "disksin".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("did you mean `disksim`?"), "{error}");
        let error = "disk\nsim".parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("unknown trace format `disk\\nsim`"), "{error}");
        for (format, name) in NAMES {
            assert_eq!(name.parse::<Format>().unwrap(), format);
        }
    }
}
