//! The formats, and how to tell which one a file is in.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::{TraceError, excerpt};
use crate::{store, text};

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
        crate::nearest::nearest(given, NAMES.iter().map(|(_, name)| *name))
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
    }

    /// The format of a file called `path` that begins, decompressed, with `beginning`: by extension
    /// (after `.gz`, `.zst`), else by its first line that says something, else by its bytes.
    pub(crate) fn detect(path: &Path, beginning: &[u8]) -> Result<Format, TraceError> {
        if beginning.starts_with(&store::MAGIC) {
            return Ok(Format::Foretell);
        }
        if foretell_recording::is_recording(beginning) {
            return Ok(Format::Recording);
        }
        if let Some(format) = by_extension(path) {
            return Ok(format);
        }
        if text::oracle_general::plausible(beginning) {
            return Ok(Format::OracleGeneral);
        }
        let lines = beginning.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let notes: [&[u8]; 2] = [b"*", b"strace: "];
        let mut telling =
            lines.filter(|line| !line.is_empty() && !notes.iter().any(|note| line.starts_with(note)));
        let (Some(first), second) = (telling.next(), telling.next()) else {
            return Err(TraceError::Unrecognised {
                path: path.to_string_lossy().into(),
                found: if beginning.is_empty() { "nothing".into() } else { excerpt(beginning) },
            });
        };
        text::detect(first, second).ok_or_else(|| TraceError::Unrecognised {
            path: path.to_string_lossy().into(),
            found: format!("`{}`", excerpt(first)).into(),
        })
    }
}

fn by_extension(path: &Path) -> Option<Format> {
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

    fn detected(name: &str, beginning: &str) -> Option<Format> {
        Format::detect(Path::new(name), beginning.as_bytes()).ok()
    }

    #[test]
    fn formats_are_told_by_their_first_line() {
        for (format, line) in [
            (Format::Lirs, "*\n  17\n"),
            (Format::LibCacheSimCsv, "# time, object, size\n1,2,3\n"),
            (Format::LibCacheSimCsv, "1,2,3\n"),
            (Format::Msr, "128166372003061629,usr,0,Read,7014609920,24576,41286\n"),
            (Format::Spc, "0,303567,3584,w,0.000000\n"),
            (Format::DiskSim, "0.5 0 1000 8 1\n"),
            (Format::Blkparse, "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n"),
            (Format::FioIolog, "fio version 3 iolog\n9 a.dat add\n"),
            (
                Format::Strace,
                "7023  1795296018.879613 openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY) = 3\n",
            ),
            (Format::Strace, "1795296018.879613 read(3, \"\", 10) = 0\n"),
            (Format::Strace, "[pid  7023] 1795296018.879613 read(3,  <unfinished ...>\n"),
        ] {
            assert_eq!(detected("trace.txt", line), Some(format), "{line}");
        }
        assert_eq!(detected("trace.txt", "hello world\n"), None);
        assert_eq!(detected("trace.txt", ""), None);
    }

    #[test]
    fn a_recording_is_told_by_its_beginning_whatever_its_name() {
        assert_eq!(detected("night.lirs", "foretell-recording\0\u{1}\0"), Some(Format::Recording));
    }

    #[test]
    fn extensions_decide_below_compression() {
        assert_eq!(detected("w.oracleGeneral.bin.zst", ""), Some(Format::OracleGeneral));
        assert_eq!(detected("w.oracleGeneral.zst", ""), Some(Format::OracleGeneral));
        assert_eq!(detected("dir.spc/w.lirs.gz", "0,1,2,r,0\n"), Some(Format::Lirs));
    }

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
